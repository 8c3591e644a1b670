"""How much of what real Gluon code uses is here: ``python tests/coverage_names.py [--record]``.

`oracle/priorities.json` lists names by family: the head (with its count of call sites) and the
tail. Each must resolve on minigluon, be callable where it is a function, and be documented. The
names that do not are printed; ``--record`` writes them to `oracle/known_misses.json`, the list
that `test_coverage_names.py` does not let grow.
"""
from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["KNOWN", "Name", "misses", "names", "report"]

HERE = Path(__file__).resolve().parent / "oracle"
sys.path.insert(0, str(HERE.parents[1]))  # run from anywhere: this checkout's package
PRIORITIES = HERE / "priorities.json"
KNOWN = HERE / "known_misses.json"

# family -> where its names live, by dotted path below the package; one of them is enough.
# {} stands for an example of the class, for attributes that only objects have.
HOLDERS: dict[str, tuple[str, ...]] = {
    "gluon classes": ("gluon", "gluon.parameter"),
    "gluon.nn": ("gluon.nn",),
    "Block / HybridBlock / Sequential methods": (
        "gluon.nn.HybridSequential{}", "gluon.SymbolBlock", "gluon.rnn.LSTMCell",
        "gluon.rnn.LSTM"),
    "Parameter": ("gluon.Parameter{}",),
    "ParameterDict": ("gluon.ParameterDict{}",),
    "Trainer methods": ("gluon.Trainer",),
    "gluon.loss": ("gluon.loss",), "gluon.rnn": ("gluon.rnn",), "gluon.data": ("gluon.data",),
    "Dataset methods": ("gluon.data.Dataset",),
    "gluon.data.vision": ("gluon.data.vision",),
    "gluon.data.vision.transforms": ("gluon.data.vision.transforms",),
    "gluon.utils": ("gluon.utils",), "gluon.model_zoo": ("gluon.model_zoo",),
    "gluon.contrib": ("gluon.contrib",),
    "Estimator": ("gluon.contrib.estimator.Estimator",), "gluon.block": ("gluon.block",),
    "top level mx.X": ("",),
    "NDArray methods and attributes": (
        "nd.NDArray{}", "nd.sparse.CSRNDArray", "nd.sparse.RowSparseNDArray"),
    "autograd": ("autograd",), "context": ("context",), "Context attributes": ("Context{}",),
    "mx.random": ("random",), "nd.random": ("nd.random",),
    "F.random": ("nd.random", "sym.random"),
    "only spelled on sym": ("sym",),
    "mx.init": ("init",), "mx.optimizer": ("optimizer",),
    "Optimizer attributes and methods": ("optimizer.Optimizer{}", "optimizer.SGD{}"),
    "lr_scheduler": ("lr_scheduler",), "LRScheduler": ("lr_scheduler.LRScheduler{}",),
    "mx.metric": ("metric",), "EvalMetric methods": ("metric.EvalMetric{}",
                                                     "metric.CompositeEvalMetric{}"),
    "mx.kv": ("kv",), "KVStore methods": ("kvstore.LocalKVStore{}", "kv.KVStoreBase"),
    "mx.operator": ("operator",), "mx.contrib": ("contrib",),
    "mx.image": ("image",), "record file methods": ("recordio.MXIndexedRecordIO",),
    "mx.io": ("io",), "DataIter methods": ("io.DataIter{}", "io.NDArrayIter"),
    "DataBatch": ("io.DataBatch{}",), "np.ndarray": ("np.ndarray",),
    "mx.sym": ("sym",), "Symbol methods": ("sym.Symbol",), "mx.mod": ("mod",),
    "Module methods": ("mod.Module", "mod.BucketingModule"), "mx.model": ("model",),
    "Executor": ("executor.Executor", "sym.Executor"), "mon": ("mon",),
    "Monitor": ("mon.Monitor",), "mx.rnn": ("rnn",),
}
# Families whose names must be in every holder rather than in one.
EVERY = ("F.random",)
# Operators that code calls on ``F``, although MXNet's symbols have no such thing.
EAGER_ONLY = ("array", "NDArray")


class Name:
    """One name of one family.

    Attributes:
        family, text: where it stands. section: of the list. head: whether before the tail.
        uses: call sites; 0 in the tail, where they were not told.
        holders: where to look, by dotted path.
        every: it must be in all of them.
    """

    def __init__(self, family: str, text: str, section: int, head: bool, count: Any) -> None:
        self.family, self.text, self.section, self.head = family, text, section, head
        counts = count if isinstance(count, list) else [count, 0, 0, 0]
        self.uses = int(counts[0])
        self.holders = HOLDERS.get(family, (family,))
        self.every = family in EVERY
        if family == "eager/hybrid operators":
            self.holders, self.every = self._operator_holders(counts), True
        elif family.startswith("F.") and family not in HOLDERS:
            self.holders, self.every = ("nd" + family[1:], "sym" + family[1:]), True

    def _operator_holders(self, counts: list[int]) -> tuple[str, ...]:
        if not self.head or self.text in EAGER_ONLY:
            return ("nd",)
        return ("nd", "sym") if counts[2] or counts[3] else ("nd",)

    @property
    def label(self) -> str:
        """``family: name``."""
        return f"{self.family}: {self.text}"

    def problem(self, package: str) -> str:
        """What is wrong with it: empty, 'missing', or 'undocumented'."""
        found = [_resolve(package, holder, self.text) for holder in self.holders]
        hits = [value for ok, value in found if ok]
        if not hits or (self.every and len(hits) < len(self.holders)):
            return "missing"
        return "" if any(_documented(value) for value in hits) else "undocumented"


def names() -> list[Name]:
    """All names of the list, head before tail."""
    listed = json.loads(PRIORITIES.read_text(encoding="utf-8"))
    found = []
    for family, entry in listed.items():
        found += [Name(family, text, entry["section"], True, count)
                  for text, count in entry["head"].items()]
        found += [Name(family, text, entry["section"], False, 0) for text in entry["tail"]]
    return found


def _walk(value: Any, path: str) -> Any:
    for word in path.split(".") if path else ():
        if not hasattr(value, word) and inspect.ismodule(value):
            try:
                importlib.import_module(f"{value.__name__}.{word}")
            except ModuleNotFoundError:
                raise AttributeError(word) from None
        value = getattr(value, word)
    return value


def _example(cls: Any) -> Any:
    """An object of the class, made with as little as it asks for."""
    made: dict[str, Any] = {"Parameter": ("x",), "NDArray": None, "LocalKVStore": ("local",),
                            "EvalMetric": ("x",), "DataBatch": ([],), "Context": ("cpu", 0)}
    arguments = made.get(cls.__name__, ())
    if arguments is None:
        return sys.modules[cls.__module__.partition(".")[0]].nd.ones((1,))
    if cls.__name__ == "Parameter":
        found = cls("x", shape=(1,))
        found.initialize()
        return found
    return cls(*arguments)


def _resolve(package: str, holder: str, text: str) -> tuple[bool, Any]:
    path, example = holder.removesuffix("{}"), holder.endswith("{}")
    try:
        place = _walk(importlib.import_module(package), path)
        if example and not hasattr(place, text):
            return True, getattr(_example(place), text)
        return True, inspect.getattr_static(place, text, None) or _walk(place, text)
    except (AttributeError, ModuleNotFoundError):
        return False, None


def _documented(value: Any) -> bool:
    """Functions, classes and properties speak for themselves; values need not."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if callable(value) or isinstance(value, property):
        return bool(inspect.getdoc(value))
    return True


def misses(package: str = "minigluon") -> dict[str, str]:
    """``{'family: name': problem}`` of the names that do not stand the test."""
    found = {}
    for name in names():
        problem = name.problem(package)
        if problem:
            found[name.label] = problem
    return found


def report(package: str = "minigluon") -> Iterator[str]:
    """The count by section, and the names that are missing."""
    listed, wrong = names(), misses(package)
    for section in sorted({name.section for name in listed}):
        here = [name for name in listed if name.section == section]
        head = [name for name in here if name.head]
        missing = [name for name in here if name.label in wrong]
        uses = sum(name.uses for name in head)
        lost = sum(name.uses for name in missing)
        yield (f"section {section}: {len(here) - len(missing)} of {len(here)} names; heads "
               f"{sum(name.label not in wrong for name in head)} of {len(head)}, "
               f"{100 * (uses - lost) / max(uses, 1):.2f} % of their uses")
        for name in sorted(missing, key=lambda name: -name.uses):
            note = f" ({name.uses} uses)" if name.head else ""
            yield f"    {wrong[name.label]}: {name.label}{note}"
    yield f"all: {len(listed) - len(wrong)} of {len(listed)} names"


if __name__ == "__main__":
    print("\n".join(report()))
    if "--record" in sys.argv:
        KNOWN.write_text(json.dumps(sorted(misses()), indent=1) + "\n", encoding="utf-8")
