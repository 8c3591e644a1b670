"""The optimizer of KVStore tests: its arithmetic can be followed in one's head."""
from __future__ import annotations

from .. import ndarray as nd
from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, register

__all__ = ["Test"]


@register
class Test(Optimizer):
    """``w = w + rescale_grad * grad``; the state is a copy of the weight.

    >>> import minigluon as mx
    >>> w, test = mx.nd.ones((2,)), Test(rescale_grad=2)
    >>> test.update(0, w, mx.nd.ones((2,)), test.create_state(0, w))
    >>> w.asnumpy().tolist()
    [3.0, 3.0]
    """

    __test__ = False  # not a class of tests, whatever pytest thinks of its name

    def create_state(self, index: Index, weight: NDArray) -> State:
        """Zeros, until the first update."""
        return nd.zeros_like(weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One step on `weight`."""
        weight[:] = weight + grad * self.rescale_grad
        state[:] = weight
