"""Random numbers: ``seed``, and the drawing functions of ``nd.random``.

Every device has a stream of its own. Unseeded runs differ; ``seed`` makes all later draws repeat.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from . import ndarray as nd
from .base import ArgumentValueError
from .context import Context
from .device import device_of, fresh_seed, seed_all

__all__ = ["host_generator", "seed"]

_seed = fresh_seed()
_host: dict[int, np.random.Generator] = {}  # seed -> its stream, made when first drawn from


def seed(seed_state: int, ctx: Context | str = "all") -> None:
    """Restart the random streams.

    Args:
        seed_state: any integer. ctx: 'all' (every device and the host's shuffling), or one
            context, whose stream alone is restarted.

    >>> import minigluon as mx
    >>> mx.random.seed(7); a = mx.nd.random.uniform(shape=(2,)).asnumpy()
    >>> mx.random.seed(7); b = mx.nd.random.uniform(shape=(2,)).asnumpy()
    >>> bool((a == b).all())
    True
    """
    if not isinstance(seed_state, (int, np.integer)):
        raise ArgumentValueError(f"random.seed: expected an integer, got {seed_state!r}")
    number = int(seed_state)
    if isinstance(ctx, Context):
        device_of(ctx).seed(number)
        return
    if ctx != "all":
        raise ArgumentValueError(f"random.seed: ctx: expected 'all' or a Context, got {ctx!r}")
    global _seed
    _seed = number & (2**63 - 1)
    _host.clear()
    seed_all(number)


def host_generator() -> np.random.Generator:
    """The host's own stream, for shuffling samples; ``seed`` restarts it."""
    number = _seed
    stream = _host.get(number)
    if stream is None:
        stream = _host.setdefault(number, np.random.Generator(np.random.Philox(number)))
    return stream


def __getattr__(name: str) -> Any:
    """``mx.random.uniform`` and the other drawing functions, as in ``nd.random``."""
    try:
        return getattr(nd.random, name)  # type: ignore[attr-defined]
    except AttributeError:
        raise AttributeError(f"module 'minigluon.random' has no attribute '{name}'") from None
