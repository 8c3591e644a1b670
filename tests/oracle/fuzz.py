"""Small programs and random operator calls, run by minigluon and by MXNet 1.9.1, and compared.

    python tests/oracle/fuzz.py MXNET PROGRAMS.txt [--only TEXT] [--seed N] [--count N] [--loose]

MXNET is the Python of an environment with MXNet 1.9.1, PROGRAMS.txt a file of programs; the word
`operators` in its place draws calls of operators instead. A program begins with ``### name``. Its
lines are Python; a line ``= expression`` shows the value (or the error) of the expression, and so
does ``show(...)``. The names mx, np, nd, sym, gluon, nn, autograd, json, os are there, and
``A(2, 3)``, an array of numbers that are the same in both.

Each program runs in a process with the others; one that MXNet does not survive (it crashes, or
hangs for 12 s) is run again without the line at fault. Compared are values, shapes, element types,
names of symbols, the text of everything else, and whether both refuse: with an error that whoever
catches MXNet's catches here, too. What MXNet refuses and minigluon does is listed with --loose.

It is a tool, not a test: where the two differ, docs/compatibility.md says which is meant.
"""
from __future__ import annotations

import argparse
import builtins
import contextlib
import importlib
import io
import itertools
import json
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
import zlib
from typing import Any

import numpy as np
from drawn_calls import Drawer

HERE = os.path.abspath(__file__)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
LIMIT = 12  # seconds without a sign of life
CLOSE = {"float16": (1e-2, 1e-2), "float32": (2e-4, 2e-5), "float64": (1e-7, 1e-8)}


# -- in the process that runs the programs ---------------------------------------------------------

def told(value: Any) -> Any:
    """A value as plain data that can be compared."""
    if type(value) in (type(None), bool, str, int, float, bytes):  # no class of ours or theirs
        return value
    if isinstance(value, np.generic):
        return "scalar", value.dtype.name, value.item()
    if isinstance(value, type):
        return "class", value.__name__.rstrip("_")
    if isinstance(value, np.ndarray) and value.dtype != object:
        return "numpy", value.dtype.name, value.shape, value
    if hasattr(value, "list_arguments") and hasattr(value, "tojson"):
        return ("symbol", value.list_arguments(), value.list_outputs(),
                value.list_auxiliary_states())
    if hasattr(value, "asnumpy"):
        host = value.asnumpy()
        return type(value).__name__, value.stype, host.dtype.name, tuple(value.shape), host
    if isinstance(value, dict):
        pairs = [(told(key), told(each)) for key, each in value.items()]
        return "dict", sorted(pairs, key=lambda pair: repr(pair[0]))
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [told(each) for each in value]
    return "text", re.sub(r"0x[0-9a-f]+", "0x", repr(value))


def array_maker(mx: Any) -> Any:
    def make(*shape: int, lo: float = -2.0, hi: float = 2.0, dtype: str = "float32",
             seed: int = 0) -> Any:
        key = zlib.crc32(repr((shape, lo, hi, seed)).encode())
        draw = np.random.RandomState(key % 2**31)
        values = (draw.randint(int(lo), int(hi) + 1, shape) if "int" in dtype
                  else draw.rand(*shape) > 0.5 if dtype == "bool" else draw.uniform(lo, hi, shape))
        return mx.nd.array(np.asarray(values).astype(dtype), dtype=dtype)

    return make


def operator_runner(mx: Any, trial: Any) -> Any:
    """``call(name, arrays, attrs, wrt)``: outputs, gradients, and what a symbol infers."""
    def found(room: Any, name: str) -> Any:
        for space in ("contrib", "linalg", "image"):
            if name.startswith(f"_{space}_"):
                return getattr(getattr(room, space), name[len(space) + 2:])
        return getattr(room, name, None) or getattr(room._internal, name)

    def call(name: str, arrays: Any, attrs: Any, wrt: Any) -> None:
        outputs: list[Any] = []

        def forward() -> Any:
            for place in wrt:
                arrays[place].attach_grad()
            with mx.autograd.record():
                result = found(mx.nd, name)(*arrays, **attrs)
            outputs.extend(result if isinstance(result, (list, tuple)) else [result])
            return result

        def backward() -> Any:
            heads = [out for out in outputs if np.dtype(out.dtype).kind == "f"]
            mx.autograd.backward(heads, [mx.nd.array(
                np.cos(np.arange(head.size)).reshape(head.shape), dtype=head.dtype)
                for head in heads])
            return [arrays[place].grad for place in wrt]

        def symbol() -> Any:
            made = found(mx.sym, name)(*[mx.sym.var(f"a{i}") for i in range(len(arrays))], **attrs)
            known = {f"a{i}": array for i, array in enumerate(arrays)}
            return [made, made.infer_shape(**{key: array.shape for key, array in known.items()}),
                    made.infer_type(**{key: array.dtype for key, array in known.items()})]

        trial("outputs", forward)
        if outputs and wrt:
            trial("gradients", backward)
        trial("symbol", symbol)

    return call


def fault(error: Exception) -> tuple[list[str], str]:
    """The classes of an error, but for `BaseException` and `object`, and its words."""
    return [each.__name__ for each in type(error).__mro__][:-2], str(error)[:300]


def shown_by(mx: Any, name: str, code: str, begin: Any) -> tuple[list[Any], Any]:
    """What one program shows, and the error that stops it.

    Args:
        begin: is told the number of each trial before it runs; False: that one is left out.
    """
    shown: list[Any] = []
    numbers = itertools.count(1)

    def trial(label: str, function: Any) -> None:
        if not begin(next(numbers)):
            return
        try:
            shown.append((label, told(function())))
        except TimeoutError:
            raise
        except Exception as wrong:
            shown.append((label, ("refused", *fault(wrong))))

    space = {"mx": mx, "np": np, "nd": mx.nd, "sym": mx.sym, "gluon": mx.gluon, "nn": mx.gluon.nn,
             "autograd": mx.autograd, "os": os, "json": json, "A": array_maker(mx), "trial": trial,
             "call": operator_runner(mx, trial),
             "show": lambda *values: shown.extend(("shown", told(value)) for value in values)}
    np.random.seed(0)
    random.seed(0)
    mx.random.seed(0)
    printed, error = io.StringIO(), None
    signal.alarm(LIMIT)
    try:
        with contextlib.redirect_stdout(printed), mx.name.NameManager():
            exec(compile(code, name, "exec"), space)
    except Exception as problem:
        error = fault(problem)
    finally:
        signal.alarm(0)
    if mx.util.is_np_array():
        mx.npx.reset_np()
    with contextlib.suppress(Exception):
        mx.nd.waitall()
    text = re.sub(r"0x[0-9a-f]+", "0x", printed.getvalue())
    return shown + ([("printed", text)] if text else []), error


def work(module: str, cases_file: str, out_file: str, start: int, skipped: set[Any]) -> None:
    """Run the cases from `start` on; tell what they show, and what is about to run, as pickles."""
    warnings.simplefilter("ignore")
    for name in ("bool", "int", "float", "object"):  # MXNet asks NumPy for them
        if name not in np.__dict__:
            setattr(np, name, getattr(builtins, name))
    mx = importlib.import_module(module)
    importlib.import_module("logging").disable(50)
    with open(cases_file) as file:
        cases = json.load(file)

    def late(*_: Any) -> None:
        raise TimeoutError("the program took too long")

    signal.signal(signal.SIGALRM, late)
    with open(out_file, "ab") as out:
        def say(*record: Any) -> None:
            pickle.dump(record, out)
            out.flush()

        def begin(trial: int) -> bool:
            wanted = (number, trial) not in skipped
            if wanted:
                say(number, "begin", trial)
            return wanted

        for number in range(start, len(cases)):
            say(number, *shown_by(mx, *cases[number], begin))


# -- in the process that compares ------------------------------------------------------------------

def run(python: str, module: str, cases: list[tuple[str, str]]) -> dict[int, Any]:
    """What each case showed; a process that dies or hangs is started again behind the fault."""
    results: dict[int, Any] = {}
    skipped: list[list[int]] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, word) for word in ("cases", "out")]
        with open(paths[0], "w") as file:
            json.dump(cases, file)
        env = {**os.environ, "OMP_NUM_THREADS": "1",
               "PYTHONPATH": ROOT if module == "minigluon" else ""}
        start = 0
        while start < len(cases):
            process = subprocess.Popen(
                [python, HERE, "work", module, *paths, str(start), json.dumps(skipped)], env=env,
                cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            size = -1
            while process.poll() is None:
                try:
                    process.wait(LIMIT)
                except subprocess.TimeoutExpired:
                    now = os.path.getsize(paths[1]) if os.path.exists(paths[1]) else 0
                    if now == size:
                        process.kill()
                    size = now
            begun = None
            with open(paths[1], "ab+") as file:
                file.seek(0)
                with contextlib.suppress(EOFError, pickle.UnpicklingError):
                    while True:
                        number, shown, more = pickle.load(file)
                        if shown == "begin":
                            begun = [number, more]
                        else:
                            results[number] = (shown, more)
            start = max(results, default=-1) + 1
            if process.returncode == 0:
                break
            if begun is not None and begun[0] == start and begun not in skipped:
                skipped.append(begun)
            else:
                results[start] = ([], (["Crash"], "the process died"))
                start += 1
    return results


def refused(value: Any) -> bool:
    """Whether a told value is an error."""
    return isinstance(value, tuple) and value[:1] == ("refused",)


def same_class(ours: list[str], theirs: list[str]) -> bool:
    """Whether code that catches their error catches ours."""
    return theirs[0] in ours or theirs == ["Crash"]


def difference(ours: Any, theirs: Any) -> str:
    """The first difference of two told values, or ''."""
    if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray):
        if ours.shape == theirs.shape and ours.dtype == theirs.dtype:
            if ours.dtype.kind not in "fc":
                equal = bool((ours == theirs).all())
            else:
                relative, absolute = CLOSE.get(ours.dtype.name, (1e-4, 1e-5))
                equal = np.allclose(ours.astype("f8"), theirs.astype("f8"), relative, absolute,
                                    equal_nan=True)
            if equal:
                return ""
    elif isinstance(ours, (list, tuple)) and type(ours) is type(theirs):
        if refused(ours) and refused(theirs):
            return "" if same_class(ours[1], theirs[1]) else f"{ours[1:]} | {theirs[1:]}"
        if len(ours) == len(theirs):
            return next((text for a, b in zip(ours, theirs, strict=True)
                         if (text := difference(a, b))), "")
    elif isinstance(ours, float) and isinstance(theirs, float):
        if ours == theirs or ours != ours or abs(ours - theirs) <= 1e-5 + 1e-4 * abs(theirs):
            return ""
    elif isinstance(ours, str) and isinstance(theirs, str):
        if ours.replace("minigluon", "mx") == theirs.replace("mxnet", "mx"):
            return ""
    elif type(ours) is type(theirs) and ours == theirs:
        return ""
    return re.sub(r"\s+", " ", f"{ours!r:.260} | {theirs!r:.260}")


def keyed(shown: list[Any]) -> dict[str, Any]:
    """What was shown by its label; the second of the same label is ``label#2``."""
    found: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for label, value in shown:
        counts[label] = counts.get(label, 0) + 1
        found[f"{label}#{counts[label]}" if counts[label] > 1 else label] = value
    return found


def problems(ours: Any, theirs: Any, loose: dict[str, str]) -> list[str]:
    """How a program's results differ; what only MXNet refuses goes to `loose`."""
    (our_shown, our_error), (their_shown, their_error) = ours, theirs
    found = []
    if our_error and not their_error:
        found.append(f"minigluon stops: {our_error}")
    elif our_error and their_error:  # the program's own fault, mostly
        found.append(f"both stop: {our_error} | {their_error}")
    mine = keyed(our_shown)
    for key, value in keyed(their_shown).items():
        if key not in mine:
            found += [] if our_error or key == "printed" else [f"{key}: nothing | {value!r:.200}"]
        elif refused(value) and not refused(mine[key]):
            loose[key] = value[2].strip().splitlines()[-1][:150] if value[2].strip() else ""
        elif text := difference(mine[key], value):
            found.append(f"{key}: {text}")
    return found


def programs(path: str) -> list[tuple[str, str]]:
    """The programs of a file, lines ``= expression`` turned into calls of `trial`."""
    with open(path) as file:
        blocks = re.split(r"^### ?", file.read(), flags=re.M)[1:]
    found = []
    for block in blocks:
        name, _, body = block.partition("\n")
        body = re.sub(r"^( *)= (.*)$", lambda m: f"{m[1]}trial({m[2]!r}, lambda: ({m[2]}))", body,
                      flags=re.M)
        found.append((name.strip(), body))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("mxnet", help="the Python that has MXNet 1.9.1")
    parser.add_argument("programs", help="a file of programs, or the word operators")
    parser.add_argument("--only", default="", help="programs with this text in their names")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300, help="how many calls are drawn")
    parser.add_argument("--loose", action="store_true", help="list what only MXNet refuses")
    given = parser.parse_args()
    if given.programs == "operators":
        drawer = Drawer(given.seed)
        cases = [drawer.case(number) for number in range(given.count)]
    else:
        cases = programs(given.programs)
    cases = [case for case in cases if given.only in case[0]]
    results: dict[str, Any] = {}
    runs = [threading.Thread(target=lambda python=python, module=module: results.__setitem__(
        module, run(python, module, cases)))
        for python, module in ((sys.executable, "minigluon"), (given.mxnet, "mxnet"))]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    nothing = ([], (["Crash"], "no result"))
    loose: dict[str, str] = {}
    values = different = 0
    for number, (name, _) in enumerate(cases):
        theirs = results["mxnet"].get(number, nothing)
        values += len(theirs[0])
        found = problems(results["minigluon"].get(number, nothing), theirs, loose)
        if found:
            different += 1
            print(f"--- {name}", *found, sep="\n   ")
    if given.loose:
        print(*(f"only MXNet refuses {key}: {text}" for key, text in sorted(loose.items())),
              sep="\n")
    print(f"{len(cases)} programs, {values} values, {different} programs differ")


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(*sys.argv[2:5], int(sys.argv[5]), {tuple(each) for each in json.loads(sys.argv[6])})
    else:
        main()
