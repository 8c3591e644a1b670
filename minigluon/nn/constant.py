"""Constants: parameters that a block owns and training leaves alone."""
from __future__ import annotations

import warnings
from typing import Any

from .. import initializer
from .. import ndarray as nd
from ..ndarray import NDArray
from .parameter import Parameter

__all__ = ["Constant"]


class Constant(Parameter):
    """A parameter that training does not change.

    Args:
        name: full name. value: its value, anything ``nd.array`` takes.

    >>> import minigluon as mx
    >>> class AddTwo(mx.gluon.HybridBlock):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         self.two = self.params.get_constant("two", [2.0])
    ...     def hybrid_forward(self, F, x, two):
    ...         return F.broadcast_add(x, two)
    >>> net = AddTwo()
    >>> net.initialize()
    >>> net(mx.nd.ones((1,))).asnumpy().tolist()
    [3.0]
    """

    def __init__(self, name: str, value: Any) -> None:
        if not isinstance(value, NDArray):
            value = nd.array(value)
        self.value = value
        super().__init__(name, grad_req="null", shape=value.shape, dtype=value.dtype,
                         init=initializer.Constant(value))

    @property
    def grad_req(self) -> str:
        """Always 'null'; setting anything else only warns."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req != "null":
            warnings.warn(f'Constant parameter "{self.name}" does not support grad_req other '
                          f'than "null", and new value "{req}" is ignored.', stacklevel=2)

    def _var_settings(self) -> dict[str, Any]:
        # the value itself would make every graph's text as long as the array
        return {**super()._var_settings(), "init": None}
