"""Whether NumPy's semantics are on: scalars of shape (), arrays of class ``np.ndarray``.

``npx.set_np()`` turns both on for the process; the scopes and decorators for a thread and a while.
Nothing here depends on arrays: who makes arrays asks `is_np_array`.
"""
from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from .base import ArgumentError, ArgumentValueError, NotForThisError

__all__ = [
    "is_np_array", "is_np_shape", "load_room", "np_array", "np_shape", "on_load", "reset_np",
    "set_np", "set_np_array", "set_np_shape", "use_np", "use_np_array", "use_np_shape",
]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class _Flag:
    """One switch: a value for the process, and what scopes of this thread put over it."""

    def __init__(self) -> None:
        self.everywhere = False
        self._here = threading.local()

    def __bool__(self) -> bool:
        over = getattr(self._here, "values", None)
        return over[-1] if over else self.everywhere

    def push(self, value: bool) -> None:
        if not hasattr(self._here, "values"):
            self._here.values = []
        self._here.values.append(value)

    def pop(self) -> None:
        self._here.values.pop()


_shape, _array = _Flag(), _Flag()
_load: list[Callable[[], Any]] = []


def on_load(load: Callable[[], Any]) -> None:
    """Say how the room of ``mx.np`` is loaded, which enters its classes where arrays are made."""
    _load[:] = [load]


def load_room() -> None:
    """Load the room of ``mx.np``: somebody needs its classes."""
    _load[0]()


class _Scope:
    """A switch put on or off inside a ``with`` block of this thread."""

    def __init__(self, flag: _Flag, active: bool) -> None:
        self._flag, self._active = flag, bool(active)

    def __enter__(self) -> _Scope:
        self._flag.push(self._active)
        return self

    def __exit__(self, *exc: object) -> None:
        self._flag.pop()


def is_np_shape() -> bool:
    """Whether shapes mean what NumPy means: () is a scalar, a size of 0 is no elements."""
    return bool(_shape)


def is_np_array() -> bool:
    """Whether blocks and data loaders make ``np.ndarray`` instead of ``nd.NDArray``."""
    return bool(_array)


def set_np_shape(active: bool) -> bool:
    """Turn NumPy's shapes on or off for the process; returns what was before."""
    before, _shape.everywhere = is_np_shape(), bool(active)
    return before


def set_np_array(active: bool) -> bool:
    """Turn arrays of class ``np.ndarray`` on or off for the process; returns what was before."""
    before, _array.everywhere = is_np_array(), bool(active)
    return before


def set_np(shape: bool = True, array: bool = True, dtype: bool = False) -> None:
    """Turn NumPy's semantics on for the process.

    Args:
        shape: NumPy's shapes. array: blocks and data loaders make ``np.ndarray``.
        dtype: float64 and int64 as default types; not built.

    Raises:
        ValueError: arrays without shapes. NotImplementedError: `dtype`.

    >>> import minigluon as mx
    >>> mx.npx.set_np()
    >>> net = mx.gluon.nn.Dense(1)
    >>> net.initialize(); net(mx.np.ones((2, 3))).sum().shape
    ()
    >>> mx.npx.reset_np()
    """
    if dtype:
        raise NotForThisError("set_np: dtype=True: float64 as the default type is not built; "
                              "say dtype='float64' where an array is made")
    if array and not shape:
        raise ArgumentValueError("set_np: NumPy arrays need NumPy shapes: shape=True")
    set_np_shape(shape)
    set_np_array(array)


def reset_np() -> None:
    """Turn NumPy's semantics off for the process."""
    set_np(shape=False, array=False)


def np_shape(active: bool = True) -> _Scope:
    """``with np_shape():`` NumPy's shapes inside the block, in this thread.

    >>> with np_shape():
    ...     is_np_shape()
    True
    """
    return _Scope(_shape, active)


def np_array(active: bool = True) -> _Scope:
    """``with np_array():`` arrays of class ``np.ndarray`` inside the block, in this thread."""
    return _Scope(_array, active)


def _decorator(word: str, *flags: _Flag) -> Callable[[Decorated], Decorated]:
    def decorate(target: Any) -> Any:
        if isinstance(target, type):
            for name, member in list(vars(target).items()):
                if isinstance(member, (staticmethod, classmethod)):
                    setattr(target, name, type(member)(decorate(member.__func__)))
                elif isinstance(member, property):
                    setattr(target, name, property(*[
                        each and decorate(each) for each in (member.fget, member.fset, member.fdel)
                    ], member.__doc__))
                elif callable(member) and not isinstance(member, type):
                    setattr(target, name, decorate(member))
            return target
        if not callable(target):
            raise ArgumentError(f"{word}: expected a function or a class, got {target!r}")

        @functools.wraps(target)
        def inside(*args: Any, **kwargs: Any) -> Any:
            for flag in flags:
                flag.push(True)
            try:
                return target(*args, **kwargs)
            finally:
                for flag in flags:
                    flag.pop()

        return inside

    decorate.__name__ = word
    return decorate


use_np_shape = _decorator("use_np_shape", _shape)
use_np_array = _decorator("use_np_array", _array)
use_np = _decorator("use_np", _shape, _array)
for _function, _words in ((use_np_shape, "NumPy's shapes"), (use_np_array, "``np.ndarray``"),
                          (use_np, "NumPy's shapes and ``np.ndarray``")):
    _function.__doc__ = (f"Decorator of a function or of all methods of a class: {_words} while "
                         "it runs.")
