"""The door to the native core: the only file that imports `minigluon._core` and `_onednn`.

Both are optional. Where they were not built, or with ``MINIGLUON_NATIVE=0`` in the environment,
`enabled` is false, `step` answers None, and everything runs on the operators' plain bodies.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...base import env_int

__all__ = ["DTYPES", "core", "desc_of", "enabled", "has_kernel", "onednn", "reason", "step"]

Desc = tuple[str, tuple[int, ...]]

DTYPES = ("float32", "float64", "float16", "int32", "int64", "uint8", "int8", "bool")
"""The element types that kernels may know."""
core: Any = None
"""The extension `minigluon._core`, or None."""
onednn = False
"""Whether oneDNN's kernels are there."""
reason = ""
"""Why something is missing, for ``python -m minigluon.info``."""

_SPINS = "3000"
"""How often an idle thread of the core looks for work before it sleeps: about 100 us."""


@contextlib.contextmanager
def _short_spins() -> Iterator[None]:
    """Libraries loaded inside get `_SPINS`, unless the user has a wish of his own.

    By itself the OpenMP library lets idle threads spin for 10 ms. Where other processes want the
    same cores, each region of a kernel then waits for the time slice of a thread that only spins:
    LeNet's steps took 3 to 15 times as long. A thread that sleeps, though, is 25 to 35 us
    late: a kernel of 50 us takes 61 us on two threads, and 24 where it finds them awake. So they
    wait about as long as lies between two calls. The library reads this when it is loaded.
    """
    if "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = _SPINS
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]


if env_int("MINIGLUON_NATIVE", 1) == 0:
    reason = "switched off (MINIGLUON_NATIVE=0)"
else:
    try:
        with _short_spins():
            import minigluon._core as core
    except ImportError as _error:
        reason = f"the native core is not built ({_error})"


def _libdnnl() -> Iterator[str]:
    """Where oneDNN's library may be, for installations that do not have it beside them."""
    yield os.path.join(sys.prefix, "lib", "libdnnl.so.3")
    from importlib import metadata  # slow to import, and seldom needed

    with contextlib.suppress(metadata.PackageNotFoundError):
        for path in metadata.files("onednn-cpu-gomp") or ():
            if path.name == "libdnnl.so.3":
                yield str(path.locate())


if core is not None:
    for _place in _libdnnl():
        if os.path.exists(_place):
            ctypes.CDLL(_place)
            break
    try:
        import minigluon._onednn as _onednn

        _onednn.attach(core.core)
        onednn = True
    except ImportError as _error:
        reason = f"oneDNN's kernels are not there ({_error})"

enabled = core is not None
_names: frozenset[str] = frozenset(core.kernels()) if enabled else frozenset()


def has_kernel(op_name: str) -> bool:
    """Whether some native kernel knows this operator (it may still not take a given call)."""
    return op_name in _names


def desc_of(array: Any) -> Desc:
    """The description of an array that `step` takes: its type's name and its shape."""
    return array.dtype.name, array.shape


def step(op_name: str, inputs: Sequence[Desc], outputs: Sequence[Desc],
         attrs: Mapping[str, Any]) -> Any:
    """A prepared call of an operator, or None where no native kernel takes it.

    Args:
        op_name: registry name.
        inputs, outputs: ``(dtype name, shape)`` of each array; all known.
        attrs: complete attributes.

    Returns:
        A Step: ``step(inputs)`` gives fresh outputs, ``step.run(inputs, outputs)`` fills given
        ones. It keeps working memory of its own: make one for each place that uses it.
    """
    if op_name not in _names:
        return None
    return core.make_step(op_name, list(inputs), list(outputs), dict(attrs))
