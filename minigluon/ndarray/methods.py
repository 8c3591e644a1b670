"""Methods of NDArray whose arguments are not those of the operator that they call."""
from __future__ import annotations

from typing import Any

from ..ops import find_operator
from .calls import nd_call
from .creation import split_v2
from .ndarray import NDArray

__all__: list[str] = []


def _call(name: str, *args: Any, **attrs: Any) -> Any:
    return nd_call(find_operator(name), args, attrs)


def _split_v2(self: NDArray, *args: Any, **kwargs: Any) -> Any:
    """Cut along an axis: ``nd.split_v2`` of this array."""
    return split_v2(self, *args, **kwargs)


def _broadcast_like(self: NDArray, other: NDArray, **kwargs: Any) -> Any:
    """The array repeated to the shape of `other`."""
    return _call("broadcast_like", self, other, **kwargs)


def _expand_dims(self: NDArray, axis: int, inplace: bool = False) -> Any:
    """The array with an axis of size 1 at `axis`; `inplace`: a view that shares its memory."""
    if not inplace:
        return _call("expand_dims", self, axis=axis)
    place = axis + self.ndim + 1 if axis < 0 else axis
    return self.reshape((*self.shape[:place], 1, *self.shape[place:]))


def _flatten(self: NDArray, inplace: bool = False) -> Any:
    """The array with two axes: the first, and all others as one; `inplace`: a view."""
    return self.reshape((self.shape[0], -1)) if inplace else _call("Flatten", self)


def _squeeze(self: NDArray, axis: Any = None, inplace: bool = False) -> Any:
    """The array without its axes of size 1, or without those of `axis`; `inplace`: a view."""
    squeezed = _call("squeeze", self, axis=axis)
    return self.reshape(squeezed.shape) if inplace else squeezed


def _slice_assign(self: NDArray, rhs: NDArray, begin: Any, end: Any, step: Any) -> None:
    """Write `rhs` into the box that begin, end and step describe."""
    _call("_slice_assign", self, rhs, begin=begin, end=end, step=step or (), out=self)


def _slice_assign_scalar(self: NDArray, value: float, begin: Any, end: Any, step: Any) -> None:
    """Fill the box that begin, end and step describe with a number."""
    _call("_slice_assign_scalar", self, scalar=value, begin=begin, end=end, step=step or (),
          out=self)


for _method in (_split_v2, _broadcast_like, _expand_dims, _flatten, _squeeze, _slice_assign,
                _slice_assign_scalar):
    _method.__name__ = _method.__name__[1:]
    _method.__qualname__ = f"NDArray.{_method.__name__}"
    setattr(NDArray, _method.__name__, _method)
