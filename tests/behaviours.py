"""Which test shows which line of the contract of behaviours: ``python tests/behaviours.py``.

A line of `behaviours.txt` is named by its section and its place in it. After it stand the tests
that show it (``file: name name``, where file is test_<file>.py; ``catalog: Pooling`` means those
that run for every sample of that operator), then, after ``--``, what of it is not shown and why.
`test_behaviours.py` fails when a test named here does not exist.
"""
from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LINES", "SECTIONS", "Line", "missing", "read", "summary"]

TESTS = Path(__file__).resolve().parent
# how many lines each section has
SECTIONS = {1: 18, 2: 15, 3: 12, 4: 8, 5: 9, 6: 12, 7: 14, 8: 11, 9: 13, 10: 5, 11: 7, 14: 16,
            15: 9, 16: 13, 17: 6, 18: 21}
TABLE = (TESTS / "behaviours.txt").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Line:
    """One line of the contract."""

    section: int
    place: int
    name: str
    tests: tuple[tuple[str, str], ...]  # (file, name), or ("catalog", operator)
    open: str = ""

    @property
    def state(self) -> str:
        """'shown', 'partly' or 'open'."""
        return "shown" if not self.open else "partly" if self.tests else "open"


def read(table: str = TABLE) -> list[Line]:
    """The lines of the table.

    >>> read("5.2 pools: layers: pool_sizes; catalog: Pooling -- sparse")[0].tests
    (('layers', 'pool_sizes'), ('catalog', 'Pooling'))
    """
    found = []
    for text in table.strip().splitlines():
        head, _, why = text.partition(" --")
        match = re.fullmatch(r"(\d+)\.(\d+) ([^:]+):(.*)", head)
        assert match, text
        tests = []
        for group in filter(None, map(str.strip, match[4].split(";"))):
            file, names = group.split(":")
            tests += [(file, name) for name in names.split()]
        found.append(Line(int(match[1]), int(match[2]), match[3], tuple(tests), why.strip()))
    return found


LINES = read()


def _tests() -> dict[str, set[str]]:
    """File -> names of its tests, both without 'test_'."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found.setdefault(path.stem[5:], set()).update(
            node.name[5:] for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
    return found


def missing(operators: set[str], lines: list[Line] = LINES) -> list[str]:
    """Tests that the table names and that do not exist; `operators` have samples."""
    tests = _tests()
    return [f"{line.section}.{line.place} {line.name}: {file}: {name}"
            for line in lines for file, name in line.tests
            if name not in (operators if file == "catalog" else tests.get(file, set()))]


def summary(lines: list[Line] = LINES) -> str:
    """Counts by section, and what is open."""
    rows = ["section  lines  shown  partly  open"]
    for section in (*SECTIONS, 0):
        own = [line for line in lines if section in (line.section, 0)]
        counts = [sum(line.state == state for line in own) for state in ("shown", "partly", "open")]
        rows.append(f"{section or 'all':>7}{len(own):>7}{counts[0]:>7}{counts[1]:>8}{counts[2]:>6}")
    rows += [f"{line.section}.{line.place} {line.name} ({line.state}): {line.open}"
             for line in lines if line.open]
    return "\n".join(rows)


if __name__ == "__main__":
    print(summary())
