"""The samples of the operator catalogue, run by MXNet 1.9.1: its outputs, gradients and states.

    PYTHONPATH=. python tests/oracle/catalog.py cases CASES.npz     (here: what is to be run)
    python tests/oracle/catalog.py record CASES.npz                 (in an environment with MXNet)
    PYTHONPATH=. python tests/oracle/catalog.py summary             (here: how far apart they are)

`record` writes `catalog.npz` beside this file: an index (operator, digest of the call, shapes) and
all values of one element type in one row. Of an array of more than `KEPT` elements every n-th is
kept. The gradients are those of the floating outputs weighted by a fixed cosine.
"""
from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["DIFFERENT", "FIGURES", "TOLERANCE", "Case", "Figures", "cases", "compared", "different",
           "read", "summary"]

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "catalog.npz"
KEPT = 256
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Case:
    """One call: the operator by its name, its inputs and attributes as a user gives them.

    Args:
        wrt: places of the inputs whose gradient is wanted. states: places of the inputs that the
            operator changes. random: of the outputs only shape and element type can be compared.
    """

    name: str
    arrays: Sequence[np.ndarray]
    attrs: dict[str, Any]
    wrt: Sequence[int] = ()
    states: Sequence[int] = ()
    random: bool = False

    @property
    def key(self) -> str:
        """What tells the call from all others."""
        digest = hashlib.sha1(json.dumps([self.name, self.attrs, list(self.wrt)],
                                         default=str).encode())
        for array in self.arrays:
            digest.update(f"{array.dtype.name}{array.shape}".encode() + array.tobytes())
        return digest.hexdigest()[:12]


@dataclass
class Figures:
    """What came of a call: arrays by kind ('output', 'state', 'gradient'), or why nothing did."""

    arrays: list[tuple[str, tuple[int, ...], np.ndarray]] = field(default_factory=list)
    refused: str = ""  # the call failed
    no_gradient: str = ""  # backward failed


# Calls whose figures are not MXNet's on purpose: (operator, whether it is this call, why).
DIFFERENT: list[tuple[str, Callable[[Case], bool], str]] = [
    ("RNN", lambda case: bool(case.attrs.get("use_sequence_length")
                              or "lstm_state_clip_min" in case.attrs),
     "MXNet ignores lengths and clipping on a CPU"),
    ("LeakyReLU", lambda case: case.attrs.get("act_type") == "selu",
     "MXNet's gradient below zero is not the derivative"),
    ("CTCLoss", lambda case: bool(case.wrt) and case.attrs.get("blank_label") == "last",
     "MXNet leaves the gradient unset where the label is longer than the sequence"),
    ("_contrib_ROIAlign", lambda case: bool((case.arrays[1][:, 0] < 0).any()),
     "MXNet writes zeros elsewhere for a region of no image"),
    ("_contrib_PSROIPooling", lambda case: bool((case.arrays[1][:, 0] < 0).any()),
     "MXNet reads outside its memory for a region of no image"),
    ("SoftmaxActivation", lambda case: not case.attrs and case.arrays[0].ndim > 2,
     "MXNet's forward takes the last axis, its gradient all axes but the first"),
    ("_contrib_bipartite_matching", lambda case: case.attrs.get("topk", -1) > 0,
     "MXNet makes one match more than topk"),
    ("_contrib_quantize", lambda case: case.arrays[1].item() < 0,
     "MXNet (oneDNN) takes 0 for the lower end of uint8"),
    ("_contrib_dequantize", lambda case: case.arrays[1].item() < 0,
     "MXNet (oneDNN) takes 0 for the lower end of uint8"),
    ("mp_lamb_update_phase2", lambda case: True, "MXNet leaves the float32 copy as it was"),
    ("_contrib_allclose", lambda case: True, "the shape of MXNet's answer is ()"),
    ("prod", lambda case: not all(array.all() for array in case.arrays),
     "MXNet's gradient divides by the zero"),
    ("_image_flip_left_right", lambda case: True, "MXNet does not flip the gradient"),
    ("_image_flip_top_bottom", lambda case: True,
     "MXNet does not flip the gradient, and leaves out the middle row"),
    ("_image_random_hue", lambda case: case.arrays[0].dtype == "u1" or case.arrays[0].shape[2] < 3,
     "MXNet leaves an image of one channel unwritten, and cuts 9.9999 to 9"),
    ("_image_adjust_lighting", lambda case: case.arrays[0].shape[-1] == 1,
     "MXNet leaves an image of one channel unwritten"),
    ("_unravel_index", lambda case: case.arrays[0].ndim > 1,
     "MXNet hands more than one axis of places on as they are"),
]


def different(case: Case) -> str:
    """Why the case's figures are not MXNet's, or ''."""
    return next((why for name, holds, why in DIFFERENT if name == case.name and holds(case)), "")


def kept(array: np.ndarray) -> np.ndarray:
    """The elements of an array that are compared, flat."""
    flat = array.ravel()
    return flat[::max(1, -(-flat.size // KEPT))]


def _weights(array: Any) -> np.ndarray:
    return np.cos(np.arange(int(np.prod(array.shape)))).reshape(array.shape).astype(array.dtype)


def _said(error: Exception) -> str:
    """The line of an error's text that says what is wrong."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    telling = [line for line in lines if "rror: " in line or "failed" in line]
    return (telling or lines)[0].partition("Error: ")[-1][:120] or lines[0][:120]


def outcome(mx: Any, case: Case, function: Any) -> Figures:
    """Run one case in training."""
    found = Figures()
    inputs = [mx.nd.array(array, dtype=array.dtype) for array in case.arrays]
    try:
        for place in case.wrt:
            inputs[place].attach_grad()
        mx.random.seed(3)
        in_place = case.name.endswith(("_update", "_phase2")) and "multi" not in case.name
        more = {"out": inputs[0]} if in_place else {}  # as optimizers call them
        with mx.autograd.record():
            result = function(*inputs, **case.attrs, **more)
        outputs = list(result) if isinstance(result, (list, tuple)) else [result]
        for array in outputs:
            found.arrays.append(_entry("output", array, case.random))
    except Exception as error:
        return Figures(refused=_said(error))
    if case.wrt and not case.random:
        try:
            heads = [out for out in outputs if np.dtype(out.dtype).kind == "f"]
            if case.attrs.get("output_mean_var"):  # whose gradient MXNet leaves out
                heads = heads[:1]
            mx.autograd.backward(heads, [mx.nd.array(_weights(out), dtype=out.dtype)
                                         for out in heads])
            found.arrays += [_entry("gradient", inputs[place].grad) for place in case.wrt]
        except Exception as error:
            found.no_gradient = _said(error)
    for place in case.states:  # MXNet's BatchNorm writes them in its backward
        found.arrays.append(_entry("state", inputs[place], case.random))
    return found


def _entry(kind: str, array: Any, shape_alone: bool = False) -> tuple[str, tuple[int, ...],
                                                                      np.ndarray]:
    values = array.asnumpy()
    return kind, values.shape, kept(values)[:0] if shape_alone else kept(values)


def error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the array's largest value or 1."""
    if not theirs.size:
        return 0.0
    a, b = np.asarray(ours, "float64"), np.asarray(theirs, "float64")
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    scale = max(1.0, float(np.abs(b[finite]).max(initial=0)))
    return float(np.abs(a[finite] - b[finite]).max(initial=0)) / scale


# -- the file ----------------------------------------------------------------------------------


def write(figures: dict[str, Figures], path: Path = FIGURES) -> None:
    """Write figures by key."""
    rows: dict[str, list[np.ndarray]] = {}
    index: dict[str, Any] = {}
    for key, found in figures.items():
        index[key] = [found.refused, found.no_gradient,
                      [[kind, list(shape), values.dtype.name, values.size]
                       for kind, shape, values in found.arrays]]
        for _, _, values in found.arrays:
            rows.setdefault(values.dtype.name, []).append(values)
    text = np.frombuffer(json.dumps(index, separators=(",", ":")).encode(), np.uint8)
    np.savez_compressed(path, index=text, **{name: np.concatenate(row)
                                             for name, row in rows.items()})


def read(path: Path = FIGURES) -> dict[str, Figures]:
    """Figures by key."""
    with np.load(path) as file:
        rows = {name: file[name] for name in file.files}
    index = json.loads(rows.pop("index").tobytes())
    place = dict.fromkeys(rows, 0)
    found = {}
    for key, (refused, no_gradient, arrays) in index.items():
        made = Figures([], refused, no_gradient)
        for kind, shape, dtype, size in arrays:
            values = rows[dtype][place[dtype]:place[dtype] + size]
            place[dtype] += size
            made.arrays.append((kind, tuple(shape), values))
        found[key] = made
    return found


# -- our side ----------------------------------------------------------------------------------


def cases() -> dict[str, Case]:
    """The samples of the catalogue as cases, by their label."""
    sys.path[:0] = [str(HERE.parent / "ops")]
    from samples import ALL

    from minigluon.ops import registry

    found = {}
    for label, name, sample in ALL:
        op, arrays = registry[name], sample.arrays()
        names = op.input_names * len(arrays) if op.variadic else op.input_names
        states = [place for place in range(len(arrays)) if names[place] in op.mutates]
        found[label] = Case(name, arrays, sample.attrs, sample.checked() if op.gradient else (),
                            states, sample.random)
    return found


def _send(path: str) -> None:
    """Write all cases, each operator with all its names."""
    from minigluon.ops import registry

    aliases: dict[str, list[str]] = {}
    for alias, op in registry.items():
        aliases.setdefault(op.name, []).append(alias)
    index, arrays = [], {}
    for label, case in cases().items():
        index.append([label, case.key, sorted(aliases[case.name], key=lambda n: n != case.name),
                      case.attrs, list(case.wrt), list(case.states), case.random,
                      len(case.arrays)])
        arrays.update({f"{label}.{place}": array for place, array in enumerate(case.arrays)})
    text = np.frombuffer(json.dumps(index, default=str).encode(), np.uint8)
    np.savez_compressed(path, index=text, **arrays)


def compared(mx: Any, case: Case, theirs: Figures) -> dict[str, float]:
    """Kind -> largest error of a case against MXNet's figures; AssertionError if shapes differ."""
    ours = outcome(mx, case, getattr(mx.nd, case.name))
    assert not ours.refused, ours.refused
    found: dict[str, float] = {}
    had = [entry for entry in ours.arrays if entry[0] != "gradient" or not theirs.no_gradient]
    assert [entry[:2] for entry in had] == [entry[:2] for entry in theirs.arrays]
    for (kind, _, mine), (_, _, other) in zip(had, theirs.arrays, strict=True):
        assert mine.dtype == other.dtype, (kind, mine.dtype, other.dtype)
        found[kind] = max(found.get(kind, 0.0), error(mine, other))
    return found


def summary() -> str:
    """The catalogue in figures."""
    import minigluon as mx
    from minigluon.ops import registry

    figures, every = read(), cases()
    operators = {op.name for op in registry.values()}
    lines = [f"{len(operators)} operators under {len(registry)} names, "
             f"{len({case.name for case in every.values()})} of them with {len(every)} samples"]
    have = {case.name for case in every.values() if case.key in figures}
    counts: dict[str, int] = {}
    worst: dict[str, list[tuple[float, str]]] = {}
    for label, case in every.items():
        theirs = figures.get(case.key)
        word = ("not recorded" if theirs is None and case.name in have else
                "MXNet has no such operator" if theirs is None else
                "different on purpose" if different(case) else
                "MXNet refuses it" if theirs.refused else
                "random: shapes and types alone" if case.random else "compared")
        counts[word] = counts.get(word, 0) + 1
        if word == "compared":
            try:
                for kind, value in compared(mx, case, theirs).items():
                    worst.setdefault(kind, []).append((value, label))
            except AssertionError as wrong:
                worst.setdefault("wrong", []).append((float("inf"), f"{label} {wrong}"))
    lines.append(f"{len(have)} operators are MXNet's too. Samples:")
    lines += [f"{count:6d}  {word}" for word, count in sorted(counts.items())]
    for kind, errors in sorted(worst.items()):
        value, label = max(errors)
        lines.append(f"largest error of {len(errors)} samples' {kind}s: {value:.1e} ({label}); "
                     f"median {float(np.median([e for e, _ in errors])):.1e}")
        lines += [f"        {value:.1e} {label}" for value, label in sorted(errors)[:-9:-1]
                  if value > TOLERANCE]
    return "\n".join(lines)


# -- MXNet's side ------------------------------------------------------------------------------


def _function(mx: Any, names: Sequence[str]) -> Any:
    """MXNet's function for the first of the names that it has, or None."""
    for name in names:
        for prefix, space in (("_contrib_", mx.nd.contrib), ("_linalg_", mx.nd.linalg),
                              ("_sparse_", mx.nd.sparse), ("_image_", mx.nd.image),
                              ("", mx.nd._internal), ("", mx.nd.op)):
            function = getattr(space, name[len(prefix):], None)
            if name.startswith(prefix) and function is not None:
                return function
    return None


def _received(path: str) -> Iterator[tuple[str, str, Sequence[str], Case]]:
    with np.load(path) as file:
        for label, key, names, attrs, wrt, states, random, count in json.loads(
                file["index"].tobytes()):
            attrs = {name: tuple(value) if isinstance(value, list) else value
                     for name, value in attrs.items()}
            arrays = [file[f"{label}.{place}"] for place in range(count)]
            yield label, key, names, Case(names[0], arrays, attrs, wrt, states, random)


def _asked(mx: Any, case: Case, function: Any) -> Figures:
    """What MXNet gives; labels are handed over as floats where it does not take integers."""
    with mx.util.np_shape(any(array.size == 0 or not array.shape for array in case.arrays)):
        made = outcome(mx, case, function)
        if made.refused and any(array.dtype.kind == "i" for array in case.arrays):
            floats = [array.astype("float32") if array.dtype.kind == "i" else array
                      for array in case.arrays]
            made = outcome(mx, replace(case, arrays=floats), function)
    return made


# After such a call MXNet's memory is not to be trusted: each has a process to itself.
_ALONE = ("ROI", "Multi", "Deformable", "Proposal")


def _record_from(path: str, start: int, careful: int) -> None:
    """Run the cases from place `start` on, that one without gradients if `careful`.

    Prints one JSON line before and one after each, and how far it came.
    """
    import mxnet as mx

    place = start
    for place, (label, key, names, case) in enumerate(_received(path)):
        function = _function(mx, names) if place >= start else None
        if function is None:
            continue
        if place > start and any(word in label for word in _ALONE):
            print(json.dumps(place), flush=True)
            return
        print(json.dumps([place, key, label]), flush=True)
        signal.alarm(6)  # some calls never come back
        dies = bool(careful and place == start and case.wrt)
        made = _asked(mx, replace(case, wrt=()) if dies else case, function)
        arrays = [[kind, shape, values.dtype.name, values.tobytes().hex()]
                  for kind, shape, values in made.arrays]
        print(json.dumps([arrays, made.refused, "MXNet dies of it" if dies
                          else made.no_gradient]), flush=True)
        if any(word in label for word in _ALONE):
            break
    print(json.dumps(place + 1), flush=True)


def _record(path: str) -> None:
    """Run all cases in children; where one dies, go on with the case that killed it, or behind."""
    found: dict[str, Figures] = {}
    start, careful, count = 0, 0, sum(1 for _ in _received(path))
    while start < count:
        child = subprocess.run([sys.executable, __file__, "record", path, str(start),
                                str(careful)], check=False, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
        lines = [json.loads(line) for line in child.stdout.splitlines()]
        for (_, key, _), (arrays, refused, no_gradient) in zip(
                lines[:-1:2], lines[1::2], strict=True):
            found[key] = Figures([(kind, tuple(shape), np.frombuffer(bytes.fromhex(values), dtype))
                                  for kind, shape, dtype, values in arrays], refused, no_gradient)
        if isinstance(lines[-1], int):
            start, careful = lines[-1], 0
        else:
            place, key, label = lines[-1]
            careful, start = (0, place + 1) if careful and place == start else (1, place)
            print(f"{label}: MXNet dies or hangs ({child.returncode})", file=sys.stderr)
            found[key] = Figures(refused="MXNet dies of it")
    write(found)


if __name__ == "__main__":
    if sys.argv[1] == "cases":
        _send(sys.argv[2])
    elif sys.argv[1] == "summary":
        print(summary())
    elif sys.argv[1] == "record":
        (_record if len(sys.argv) == 3 else _record_from)(*sys.argv[2:3], *map(int, sys.argv[3:]))
