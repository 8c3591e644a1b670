"""Settings as JSON values and back: the only form in which an optimizer goes over the wire."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..base import ArgumentValueError, NotForThisError, did_you_mean
from ..lr_scheduler import (
    CosineScheduler,
    FactorScheduler,
    LRScheduler,
    MultiFactorScheduler,
    PolyScheduler,
)

__all__ = ["decode", "encode", "scheduler"]

_schedulers = {
    cls.__name__: cls
    for cls in (FactorScheduler, MultiFactorScheduler, PolyScheduler, CosineScheduler)
}


def encode(value: Any, where: str) -> Any:
    """`value` in JSON's types; a dict becomes pairs, so that int keys stay int.

    >>> encode({0: np.float32(0.5)}, "doc")
    {'pairs': [[0, 0.5]]}
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [encode(item, where) for item in value]
    if isinstance(value, dict):
        return {"pairs": [[encode(k, where), encode(v, where)] for k, v in value.items()]}
    raise NotForThisError(
        f"{where}: {type(value).__name__} has no JSON form, so it cannot be sent to another "
        "process; use numbers, strings, lists and dicts"
    )


def decode(value: Any) -> Any:
    """What `encode` was given (tuples come back as lists).

    >>> decode({"pairs": [[0, 0.5]]})
    {0: 0.5}
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if isinstance(value, dict):
        return {decode(key): decode(item) for key, item in value["pairs"]}
    return value


def scheduler(name: str, state: dict[str, Any]) -> LRScheduler:
    """A scheduler from its class name and attributes, at the point it had reached."""
    try:
        cls = _schedulers[name]
    except KeyError:
        raise ArgumentValueError(
            f"unknown learning rate scheduler '{name}'{did_you_mean(name, _schedulers)}"
        ) from None
    made = cls.__new__(cls)
    for key, value in state.items():
        if hasattr(cls, key):
            raise ArgumentValueError(f"{name}: '{key}' is not a setting")
        setattr(made, key, decode(value))
    return made
