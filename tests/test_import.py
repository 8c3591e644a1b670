"""Importing minigluon does nothing else: checked in fresh processes."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import minigluon

LOOK = """
import json, sys, threading
before = set(sys.modules)
import minigluon
print(json.dumps({
    "new": sorted({name.split(".")[0] for name in set(sys.modules) - before}),
    "ours": sorted(name for name in sys.modules if name.startswith("minigluon")),
    "threads": threading.active_count(),
    "tasks": len(__import__("os").listdir("/proc/self/task")),
}))
"""


def _fresh(code: str, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("DMLC_")}
    return subprocess.run(
        [sys.executable, "-W", "error", *options, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**env, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **settings},
        check=False,
    )


def test_import_is_quiet_and_starts_nothing() -> None:
    done = _fresh(LOOK)
    assert (done.returncode, done.stderr) == (0, "")
    seen = json.loads(done.stdout)
    assert seen["threads"] == seen["tasks"] == 1
    for guest in ("cupy", "zmq", "cloudpickle", "tqdm", "mpi4py", "multiprocessing"):
        assert guest not in seen["new"]
    assert not [name for name in seen["ours"] if ".kvstore.dist" in name or ".device.gpu" in name]


COST = """
import json, sys
import numpy
before = set(sys.modules)  # NumPy 1 brings its generators, and what they need, itself
import minigluon
from minigluon.ops import registry
print(json.dumps({"modules": sorted(set(sys.modules) - before),
                  "read": sum("signature" in vars(op) for op in set(registry.values()))}))
"""


def test_import_leaves_to_later_what_few_programs_need() -> None:
    """Each of these was 2 to 40 ms of every import; docs/decisions.md has the figures."""
    seen = json.loads(_fresh(COST).stdout)
    slow = {"dataclasses", "difflib", "hashlib", "numpy.random", "pathlib", "secrets", "shutil"}
    rooms = {f"minigluon.{room}" for room in ("image", "io", "module", "numpy", "recordio")}
    assert (slow | rooms) & set(seen["modules"]) == set()
    assert seen["read"] < 50  # of the operators' signatures


def test_import_writes_no_file_and_opens_no_socket() -> None:
    done = _fresh("import minigluon, os; print(os.listdir('/proc/self/fd'))", "-B")
    plain = _fresh("import os; print(os.listdir('/proc/self/fd'))", "-B")
    assert (done.returncode, done.stdout) == (0, plain.stdout)


def _modules() -> list[str]:
    found = pkgutil.walk_packages(minigluon.__path__, "minigluon.")
    compiled = ("minigluon._core", "minigluon._onednn")  # loaded by device/cpu/native.py alone
    return [info.name for info in found
            if not info.name.endswith("__main__") and info.name not in compiled]


@pytest.mark.parametrize("name", _modules())
def test_what_a_module_exports_is_there(name: str) -> None:
    module = _import(name)
    exported = getattr(module, "__all__", None)
    if exported is not None:
        assert [word for word in exported if not hasattr(module, word)] == []
        assert len(set(exported)) == len(exported)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name in ("cupy", "mpi4py", "horovod", "byteps"):
            pytest.skip(f"needs {error.name}, an optional extra")
        raise


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'nothing'$"):
        minigluon.nothing  # noqa: B018
    assert not hasattr(minigluon, "nothing")


@pytest.mark.parametrize("enabled", [True, False])
def test_import_leaves_the_collector_as_it_was(enabled: bool) -> None:
    done = _fresh(f"import gc; gc.enable() if {enabled} else gc.disable()\n"
                  "import minigluon\nprint(gc.isenabled(), gc.get_freeze_count())")
    assert (done.returncode, done.stdout) == (0, f"{enabled} 0\n")


def test_the_collector_is_back_and_frozen_objects_stay_so() -> None:
    done = _fresh("import gc, minigluon.base\ngc.freeze(); held = gc.get_freeze_count()\n"
                  "try:\n    with minigluon.base.uncollected():\n        raise ImportError\n"
                  "except ImportError:\n    print(gc.isenabled(), gc.get_freeze_count() == held)")
    assert (done.returncode, done.stdout) == (0, "True True\n")


def test_roles_do_without_asyncio_and_http() -> None:
    done = _fresh("import sys, minigluon.kvstore.dist.node, minigluon.kvstore.dist.worker\n"
                  "print([name for name in ('asyncio', 'http.server') if name in sys.modules])")
    assert (done.returncode, done.stdout) == (0, "[]\n")
