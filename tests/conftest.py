"""What holds for every test: one thread a process, no foreign job, GPU only where there is one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

# Before NumPy is loaded: tests compare small arrays, and several run side by side.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# The suite may itself run inside a job; a role's environment is not for the tests. Whether the
# native core is used is: the suite must pass with and without.
for _name in [name for name in os.environ if name.startswith(("DMLC_", "PS_", "MINIGLUON_"))]:
    if _name != "MINIGLUON_NATIVE":
        del os.environ[_name]

import pytest  # noqa: E402


def _missing_gpu() -> str:
    """Why GPU tests cannot run here; empty if they can."""
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed (extras cuda12x, cuda13x)"
    try:
        return "" if cupy.cuda.runtime.getDeviceCount() else "no CUDA device"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no CUDA device ({error})"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` are skipped with the reason where no GPU can be used."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = _missing_gpu() if marked else ""
    for item in marked:
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def nothing_left_over() -> Iterator[None]:
    """An error that a test left unread (a job it broke on purpose) is not the next test's."""
    yield
    from minigluon.base import MXNetError
    from minigluon.device.engine import wait_all

    with contextlib.suppress(MXNetError):
        wait_all()
