"""Who computes and where arrays live: the Device protocol, ``device_of(ctx)``, ``@kernel``.

A device is an array module (``xp``), a random generator, and optional faster bodies of single
operators. It knows no operator's meaning; operators know no device; they meet in ``dispatch``.
"""
from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from ..context import Context

__all__ = ["Device", "Kernel", "device_of", "fresh_seed", "gpu_memory_info", "kernel", "kernels_of",
           "num_gpus", "seed_all"]

Kernel = tuple[Callable[..., bool] | None, Callable[..., Any]]

_kernels: dict[tuple[str, str], list[Kernel]] = {}
_common_seed: int | None = None
_SPREAD = 0x9E3779B97F4A7C15  # parts the streams of devices that were seeded together


def kernel(
    op_name: str, device: str = "cpu", when: Callable[..., bool] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: a faster body of operator `op_name` on `device`, with the body's signature.

    Args:
        op_name: registry name of the operator.
        device: device type, 'cpu' or 'gpu'.
        when: ``when(arrays, attrs)`` tells whether this body takes the call; None means always.
            The body registered last is asked first; the operator's own body is the last resort.
    """

    def enter(body: Callable[..., Any]) -> Callable[..., Any]:
        _kernels.setdefault((device, op_name), []).insert(0, (when, body))
        return body

    return enter


def kernels_of(device_type: str, op_name: str) -> list[Kernel] | None:
    """The faster bodies of one operator on one device type, or None."""
    return _kernels.get((device_type, op_name))


class Device:
    """One device: where its arrays live and which module computes on them.

    Attributes:
        ctx: the context it serves. type: device type used for kernels ('cpu', 'gpu').
        xp: the array module (numpy or cupy).
    """

    type: str
    xp: Any
    _streams: dict[str, Any]

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.seed(_seed_of(ctx))

    def __repr__(self) -> str:
        return f"<device {self.ctx!r}>"

    def seed(self, seed: int) -> None:
        """Restart this device's random stream; equal seeds repeat all later draws."""
        self._seed, self._streams = seed, {}

    @property
    def rng(self) -> Any:
        """The random generator of NumPy's bodies, made when first drawn from.

        To load NumPy's generators takes a tenth of what `import minigluon` takes; native kernels
        and programs that draw nothing need none.
        """
        try:
            return self._streams["rng"]
        except KeyError:
            return self._streams.setdefault("rng", self.generator(self._seed))

    def generator(self, seed: int) -> Any:
        """A random generator of this device's array module."""
        raise NotImplementedError

    def array(self, source: Any, dtype: Any = None) -> Any:
        """A new contiguous array here, holding `source` (host data or an array of this device)."""
        raise NotImplementedError

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A new array with unset values."""
        raise NotImplementedError

    def to_host(self, array: Any) -> Any:
        """A NumPy array with the values of `array`; may share memory on a CPU device."""
        raise NotImplementedError

    def run(
        self, body: Callable[..., Any], arrays: Sequence[Any], attrs: dict[str, Any],
        small_steps: bool = False,
    ) -> Any:
        """``body(xp, *arrays, **attrs)``, computed on this device whatever device is current.

        inf and nan are values, as in MXNet: no warning for log(0) or 1/0. `small_steps`: the body
        makes many small matrix products in a row, each worth one thread only.
        """
        raise NotImplementedError

    def sync(self) -> None:
        """Return when everything given to this device so far has been computed."""
        raise NotImplementedError


_devices: dict[Context, Device] = {}


def device_of(ctx: Context) -> Device:
    """The device of a context, made at first use; a clear error where there is none."""
    device = _devices.get(ctx)
    if device is None:
        room = "gpu" if ctx.device_type == "gpu" else "cpu"
        module = importlib.import_module(f"{__name__}.{room}")
        device = _devices.setdefault(ctx, module.make(ctx))
    return device


def num_gpus() -> int:
    """How many GPUs minigluon can use: 0 without CuPy, without a driver, or without a device."""
    module = importlib.import_module(f"{__name__}.gpu")
    return int(module.count())


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Free and total bytes of a GPU's memory; MXNetError where there is no such GPU."""
    module = importlib.import_module(f"{__name__}.gpu")
    free, total = module.memory(Context("gpu", device_id))
    return free, total


def fresh_seed() -> int:
    """A seed that nobody can foresee."""
    return int.from_bytes(os.urandom(8), "little") >> 1


def seed_all(seed: int) -> None:
    """Restart the random stream of every device, also of those that are first used later."""
    global _common_seed
    _common_seed = seed
    for device in _devices.values():
        device.seed(_seed_of(device.ctx))


def _seed_of(ctx: Context) -> int:
    if _common_seed is None:
        return fresh_seed()
    return (_common_seed + ctx.device_id * _SPREAD) & (2**63 - 1)
