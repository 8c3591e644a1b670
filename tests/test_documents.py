"""What the documents show works: docstrings, and the Python in README and docs."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import minigluon
import minigluon_launch
from minigluon.ops import registry

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_EXAMPLE = sorted(op.name for op in set(registry.values()) if ">>>" in op.doc)


def _module_names() -> list[str]:
    names = ["minigluon"]
    for package in (minigluon, minigluon_launch):
        prefix = package.__name__ + "."
        names += [info.name for info in pkgutil.walk_packages(package.__path__, prefix)]
    return [name for name in names if not name.endswith("__main__") and ".gpu" not in name
            and name not in ("minigluon._core", "minigluon._onednn")]


def _run(tests: list[doctest.DocTest]) -> None:
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    for test in tests:
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)


@pytest.mark.parametrize("name", _module_names())
def test_the_examples_of_a_module(name: str) -> None:
    _run(doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name), name))


def _globals_of(body: Any) -> dict[str, Any]:
    return dict(getattr(body, "__globals__", {}))


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_the_example_of_an_operator(name: str) -> None:
    """Records are not functions: doctest does not find their text by itself."""
    op = registry[name]
    test = doctest.DocTestParser().get_doctest(op.doc, _globals_of(op.body), name, None, 0)
    _run([test])


def _blocks(page: Path) -> list[str]:
    """The Python blocks of a page, but those marked ``no-run``."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)


@pytest.mark.parametrize("page", [page for page in PAGES if _blocks(page)], ids=lambda p: p.name)
def test_the_python_of_a_page_runs(page: Path) -> None:
    """In a process of its own: an example may register things."""
    code = "\n".join(_blocks(page))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code + "\nimport doctest\ndoctest.testmod()\n"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "***Test Failed***" not in done.stdout, done.stdout


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "examples/README.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_and_paths_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    named = re.findall(r"`((?:minigluon|tools|tests|docs|examples|\.ci)/[\w./-]+)`", text)
    missing += [path for path in named if not (ROOT / path).exists()]
    rooms = re.findall(r"`((?:ops|device|graph|kvstore|nn|gluon|optimizer)/[\w./-]+\.py)`", text)
    missing += [path for path in rooms if not (ROOT / "minigluon" / path).exists()]
    assert missing == []


def test_the_readme_has_both_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = dict(re.findall(r"<!-- command: (\w+) -->\n```\n(.*)\n```", text))
    assert set(commands) == {"train", "test"}
    assert "tools/launch.py -n 4 -s 2 examples/mnist/train.py" in commands["train"]
    assert commands["test"].endswith("-m pytest")
