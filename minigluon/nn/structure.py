"""What ``Block.save`` writes of a block, and ``Block.load`` finds again: MXNet's ``-model.json``.

For each block, numbered in depth-first order, the file holds its name, the names of its children
and, where it runs as a graph, that graph. Parameters stand in a file of their own, by their places
in the structure.
"""
from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from ..base import ParameterMismatch
from .parameter import Parameter

__all__ = ["read_structure", "write_structure"]


def write_structure(block: Any, path: str) -> None:
    """Write names, children and graphs of `block` and all below it."""
    numbers = itertools.count()
    with open(path, "w", encoding="utf-8") as file:
        key = _key(block, numbers)
        json.dump({key: _described(block, numbers)}, file)


def _key(block: Any, numbers: Iterator[int]) -> str:
    return f"{type(block).__name__.lower()}{next(numbers)}"


def _described(block: Any, numbers: Iterator[int]) -> dict[str, Any]:
    found = {"orig_name": block.name, **block._describe_graph(),
             "children": {child.name: key for key, child in block._children.items()}}
    for child in block._children.values():
        key = _key(child, numbers)  # before its own children take theirs
        found[key] = _described(child, numbers)
    return found


def read_structure(block: Any, path: str) -> None:
    """Give `block` and all below it the graphs that were written.

    Raises:
        ParameterMismatch: the file is of another structure.
    """
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    _restored(block, content, itertools.count(), path)


def _restored(block: Any, content: dict[str, Any], numbers: Iterator[int], path: str
              ) -> dict[str, Parameter]:
    """Restore one block; returns the parameters in it by the names they have in the graphs."""
    key = _key(block, numbers)
    if key not in content:
        kinds = [name for name, value in content.items()
                 if isinstance(value, dict) and name != "children"]
        raise ParameterMismatch(
            f"{path} is of another structure: expected '{key}' for block '{block.name}', the file "
            f"has {', '.join(kinds) or 'no block'} there; load it into a network like the one "
            "that was saved, or read the parameters with load_parameters")
    own = content[key]
    prefix = own["orig_name"] + "_" if own["orig_name"] else ""
    names = {prefix + parameter.name.removeprefix(block.prefix): parameter
             for parameter in (*block.params.values(), *block._reg_params.values())}
    for child in block._children.values():
        names.update(_restored(child, own, numbers, path))
    if own.get("hybridized"):
        block._restore_graph(own, names)
    return names
