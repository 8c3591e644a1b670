"""Let ``import mxnet`` mean minigluon.

``python -m minigluon.as_mxnet script.py ...`` runs an unmodified script; ``import
minigluon.as_mxnet`` before the first ``import mxnet`` does the same inside a program. Sub-modules
follow: ``from mxnet.gluon.data.vision import transforms`` gives minigluon's own module.

``mxnet.__version__`` is then 1.9.1, the version whose behaviour minigluon has.
"""
from __future__ import annotations

import importlib
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["VERSION", "install", "main"]

VERSION = "1.9.1"
_OURS = __package__ or "minigluon"


class _Top(ModuleType):
    """The module `mxnet`: minigluon's names, MXNet's version."""

    __version__ = VERSION

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(importlib.import_module(_OURS), name)
        except AttributeError:
            if importlib.util.find_spec(f"{_OURS}.{name}"):  # MXNet imports all its modules
                return importlib.import_module(f"{_OURS}.{name}")
            raise AttributeError(
                f"module 'mxnet' (served by minigluon) has no attribute '{name}'"
            ) from None

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(_OURS))


class _Finder:
    """Finds ``mxnet`` and everything below it in minigluon: the very same objects."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, inner = fullname.partition(".")
        if package != "mxnet":
            return None
        if inner:
            try:
                importlib.import_module(f"{_OURS}.{inner}")
            except ModuleNotFoundError:
                return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The top; of the others a plain module, to begin with."""
        top = spec.name == "mxnet"
        return _Top("mxnet", f"minigluon, imported as MXNet {VERSION}") if top else None

    def exec_module(self, module: ModuleType) -> None:
        """Put what minigluon has there where the module would stand."""
        _, _, inner = module.__name__.partition(".")
        if inner:
            sys.modules[module.__name__] = sys.modules[f"{_OURS}.{inner}"]


def install() -> None:
    """Make ``import mxnet`` mean minigluon in this process.

    Raises:
        ImportError: a real MXNet has been imported already.
    """
    present = sys.modules.get("mxnet")
    if present is not None and not isinstance(present, _Top):
        raise ImportError(
            "as_mxnet: the real mxnet has been imported already; import minigluon.as_mxnet first"
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def main(arguments: list[str] | None = None) -> None:
    """``python -m minigluon.as_mxnet [-m module | script.py] [arguments]``."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] in ("-h", "--help") or given == ["-m"]:
        print((__doc__ or "").strip())
        print("\nusage: python -m minigluon.as_mxnet script.py [arguments]"
              "\n       python -m minigluon.as_mxnet -m module [arguments]")
        raise SystemExit(0 if given and given[0] in ("-h", "--help") else 2)
    if given[0] == "-m":
        sys.argv = given[1:]
        runpy.run_module(given[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = given
    script = given[0]
    sys.path[0] = str(importlib.import_module("pathlib").Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


install()

if __name__ == "__main__":
    main()
