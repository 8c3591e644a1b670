"""The first interface to autograd, kept for old programs; ``mx.autograd`` is the one to use."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import autograd
from ..base import ArgumentError
from ..ndarray import NDArray

__all__ = ["TrainingStateScope", "backward", "compute_gradient", "grad", "grad_and_loss",
           "mark_variables", "set_is_training", "test_section", "train_section"]

mark_variables = autograd.mark_variables


def set_is_training(is_train: bool) -> bool:
    """Turn recording and training on or off; returns whether training was on."""
    before = autograd.set_training(is_train)
    autograd.set_recording(is_train)
    return before


class TrainingStateScope:
    """A ``with`` in which recording and training are on or off.

    >>> import minigluon as mx
    >>> with TrainingStateScope(True):
    ...     print(mx.autograd.is_recording(), mx.autograd.is_training())
    True True
    """

    def __init__(self, enter_state: bool) -> None:
        self._enter_state = enter_state
        self._before = False

    def __enter__(self) -> None:
        self._before = set_is_training(self._enter_state)

    def __exit__(self, *_: object) -> None:
        if self._before != self._enter_state:
            set_is_training(self._before)


def train_section() -> TrainingStateScope:
    """A ``with`` whose calls are recorded, for training."""
    return TrainingStateScope(True)


def test_section() -> TrainingStateScope:
    """A ``with`` whose calls are not recorded, in the middle of a `train_section`."""
    return TrainingStateScope(False)


def backward(outputs: Sequence[NDArray], out_grads: Sequence[NDArray | None] | None = None,
             retain_graph: bool = False) -> None:
    """Gradients of all marked variables that `outputs` depend on, into their gradient arrays."""
    autograd.backward(list(outputs), None if out_grads is None else list(out_grads), retain_graph)


def compute_gradient(outputs: Sequence[NDArray]) -> None:
    """`backward` with ones."""
    backward(outputs)


def grad_and_loss(func: Callable[..., Any], argnum: int | Sequence[int] | None = None
                  ) -> Callable[..., tuple[list[NDArray], Any]]:
    """A function that returns (gradients of the arguments, value of `func`).

    Args:
        func: takes and returns NDArrays. argnum: of which arguments; of all when None.
    """

    @functools.wraps(func)
    def wrapped(*args: NDArray) -> tuple[list[NDArray], Any]:
        chosen = [argnum] if isinstance(argnum, int) else argnum
        variables = list(args) if chosen is None else [args[place] for place in chosen]
        for variable in variables:
            if not isinstance(variable, NDArray):
                raise ArgumentError("type of autograd input should NDArray.")
        grads = [variable.zeros_like() for variable in variables]
        mark_variables(variables, grads)
        with train_section():
            outputs = func(*args)
        compute_gradient([outputs] if isinstance(outputs, NDArray) else outputs)
        return grads, outputs

    return wrapped


def grad(func: Callable[..., Any], argnum: int | Sequence[int] | None = None
         ) -> Callable[..., list[NDArray]]:
    """A function that returns the gradients of the arguments of `func`.

    >>> import minigluon as mx
    >>> [slope] = grad(lambda x: x * x)(mx.nd.array([3]))
    >>> slope.asnumpy().tolist()
    [6.0]
    """
    both = grad_and_loss(func, argnum)

    @functools.wraps(func)
    def wrapped(*args: NDArray) -> list[NDArray]:
        return both(*args)[0]

    return wrapped
