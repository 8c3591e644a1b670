"""What an executor is bound to, checked: arrays, shapes, and what to do with gradients."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base import ArgumentError, ArgumentValueError
from ..ndarray import NDArray

__all__ = ["checked_shapes", "in_order", "requests"]

_REQS = ("write", "add", "null")


def checked_shapes(what: str, shapes: Mapping[str, Any]) -> Mapping[str, Sequence[int]]:
    """Shapes by name; a TypeError for what is none."""
    for name, shape in shapes.items():
        if not isinstance(shape, (list, tuple)):
            raise ArgumentError(f"{what}: {name}: expected a shape, such as (2, 3), got {shape!r}")
    return shapes


def in_order(what: str, given: Any, names: Sequence[str], optional: bool = False) -> list[Any]:
    """Arrays in the order of `names`, from a list or a dict."""
    if isinstance(given, Mapping):
        missing = [name for name in names if name not in given]
        if missing and not optional:
            raise ArgumentValueError(f"bind: {what}: missing {', '.join(missing)}")
        return _arrays(what, [given.get(name) for name in names], optional)
    arrays = _arrays(what, given, optional)
    if len(arrays) != len(names):
        raise ArgumentValueError(f"bind: {what}: expected {len(names)} arrays "
                                 f"({', '.join(names)}), got {len(arrays)}")
    return arrays


def _arrays(what: str, given: Any, optional: bool) -> list[Any]:
    several = isinstance(given, Iterable) and not isinstance(given, NDArray)
    found = list(given) if several else [given]
    for each in found:
        if not isinstance(each, NDArray) and not (optional and each is None):
            raise ArgumentError(f"bind: {what}: expected NDArrays, in a list or in a dict by name; "
                                f"got {each!r:.100}")
    return found


def requests(grad_req: Any, names: Sequence[str]) -> list[str]:
    """What to do with the gradient of each name."""
    if isinstance(grad_req, str):
        reqs = [grad_req] * len(names)
    elif isinstance(grad_req, Mapping):
        reqs = [grad_req.get(name, "null") for name in names]
    else:
        reqs = list(grad_req)
    if len(reqs) != len(names) or any(req not in _REQS for req in reqs):
        raise ArgumentValueError(f"bind: grad_req: expected one of {_REQS}, for all or one for "
                                 f"each of {', '.join(names)}; got {grad_req!r}")
    return reqs
