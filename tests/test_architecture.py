"""The rooms know only whom they may know; and the rules that say so can fail."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import architecture


def test_the_architecture_holds() -> None:
    assert architecture.problems() == []


def test_the_page_shows_the_levels() -> None:
    page = (architecture.ROOT.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("```\n")[1].replace(",\n ", ", ")
    shown = [set(re.split(r" \| |, *", row.split(None, 1)[1])) for row in table.splitlines()]
    rooms = {module.room for module in architecture.read(architecture.ROOT).values()}
    assert shown == [level & rooms for level in architecture.LEVELS]


def test_every_module_is_read() -> None:
    modules = architecture.read(architecture.ROOT)
    assert {"minigluon", "minigluon.base", "minigluon.ops.operator"} <= set(modules)
    targets = {item.target for item in modules["minigluon.ops.operator"].imports}
    assert {"minigluon.base", "minigluon.ops.attrs", "inspect"} <= targets


DOOR = "__all__ = []\n"
BROKEN = [
    ({"ops/a.py": "from ..ndarray import x\n"}, "ops/a.py:1: upward import of minigluon.ndarray"),
    ({"ops/a.py": "from .. import ndarray\n", "ndarray/__init__.py": DOOR}, "upward import"),
    ({"ops/a.py": "import minigluon.ndarray\n"}, "upward import of minigluon.ndarray"),
    ({"ops/a.py": "import minigluon\n"}, "imports the whole package"),
    ({"ops/a.py": "from ..device import x\n"}, "sideways import of minigluon.device"),
    ({"metric.py": "from . import optimizer\n__all__ = []\n", "optimizer/__init__.py": DOOR},
     "metric.py:1: sideways import of minigluon.optimizer"),
    ({"nn/a.py": "from ..kvstore.api import x\n"}, "sideways import of minigluon.kvstore.api"),
    ({"ops/a.py": "def f():\n    from ..base import x\n"},
     "ops/a.py:2: imports minigluon.base inside a function"),
    ({"ops/a.py": "from . import b\n", "ops/b.py": "from .a import x\n"},
     "import cycle: minigluon.ops.a -> minigluon.ops.b -> minigluon.ops.a"),
    ({"ops/a.py": "import importlib\nx = importlib.import_module('minigluon.nn')\n"},
     "ops/a.py:2: loads a module by name"),
    ({"ops/a.py": "import importlib\nx = importlib.import_module('zmq.asyncio')\n"},
     "ops/a.py:2: imports zmq.asyncio; only"),
    ({"ops/a.py": "import zmq\n"}, "imports zmq; only kvstore/dist/transport.py may"),
    ({"kvstore/dist/a.py": "def f():\n    import zmq\n"}, "imports zmq"),
    ({"device/cpu/a.py": "import cupy.cuda\n"}, "imports cupy"),
    ({"graph/a.py": "import minigluon._core\n"},
     "imports minigluon._core; only device/cpu/native.py may"),
    ({"ops/a.py": "import torch\n"}, "imports torch, which is no dependency"),
    ({"spare/a.py": ""}, "room 'spare' has no level"),
    ({"gluon/a.py": "from ..nn import x\nfrom ..kvstore import y\n"},
     "nn and kvstore meet outside"),
    ({"ops/a.py": "from ..base import _x\n"}, "takes _x from base.py"),
    ({"dispatch.py": "from .ops.b import x\n__all__ = []\n",
      "ops/b.py": "__all__ = ['y']\nx = y = 1\n"}, "takes x from ops/b.py"),
    ({"tape.py": "def f(): ...\n"}, "tape.py: no __all__"),
    ({"tape.py": "__all__ = ['g']\ng = 1\ndef f(): ...\n"}, "'f' is public and not in __all__"),
    ({"tape.py": "__all__ = ['g']\n"}, "__all__ names 'g', which is not defined"),
    ({"tape.py": "__all__ = ['g', 'g']\ng = 1\n"}, "__all__ names something twice"),
    ({"tape.py": "from .base import *\n__all__ = ['g']\n"}, "import * hides"),
]  # fmt: skip


def _tree(root: Path, files: dict[str, str]) -> Path:
    """A small package of those files and an empty base.py."""
    for name, text in {"__init__.py": "", "base.py": DOOR, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(("files", "problem"), BROKEN)
def test_every_rule_can_fail(tmp_path: Path, files: dict[str, str], problem: str) -> None:
    found = architecture.problems(_tree(tmp_path, files))
    assert any(problem in text for text in found), found


def test_what_is_allowed_passes(tmp_path: Path) -> None:
    files = {
        "base.py": "__all__ = ['f']\ndef f(): ...\ndef _g(): ...\n",
        "ops/__init__.py": "from .a import h\n__all__ = ['h']\n",
        "ops/a.py": "import os\nimport numpy as np\nfrom ..base import f\ndef h(): ...\n",
        "optimizer/__init__.py": "from .. import lr_scheduler\n__all__ = ['lr_scheduler']\n",
        "lr_scheduler.py": DOOR,
        "nn/__init__.py": "from ..ops import h\n__all__ = ['h']\n",
        "kvstore/__init__.py": "import importlib\n__all__ = []\n"
        "def _dist(): return importlib.import_module('.dist', __name__)\n",
        "kvstore/dist/transport.py": "def f():\n    import zmq\n",
        "gluon/utils.py": "import importlib\ndef f(): return importlib.import_module('requests')\n",
        "device/gpu/a.py": "import cupy\n",
        "gluon/trainer.py": "from .. import nn, kvstore\n",
        "gluon/loss.py": "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from .trainer import x\n",
    }
    assert architecture.problems(_tree(tmp_path, files)) == []


def test_sizes_count_every_line() -> None:
    rows = architecture.sizes()
    lines = sum(
        len(path.read_text(encoding="utf-8").splitlines())
        for path in architecture.ROOT.rglob("*.py")
    )
    assert sum(count for _, _, count in rows) == lines > 0
    assert [count for _, _, count in rows] == sorted((row[2] for row in rows), reverse=True)
