"""How exact the native kernels are: writes the tables of docs/kernels.md.

    python tools/kernel_errors.py          # rewrites the tables, between their markers
    python tools/kernel_errors.py --show   # prints them

Functions are compared with long double arithmetic (erf: with ``math.erf`` and, for float64, with
its neighbours), other kernels with their operator's plain body over the catalogue of samples.
"""
from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "ops"), str(ROOT / "tests" / "native")]

from minigluon.device.cpu import native  # noqa: E402
from minigluon.ops import registry  # noqa: E402

_PAGE = ROOT / "docs" / "kernels.md"
_MARKS = ("<!-- measured by tools/kernel_errors.py -->", "<!-- end of what was measured -->")
_ERF = np.frompyfunc(math.erf, 1, 1)

Reference = Callable[[Any], Any]
_FUNCTIONS: dict[str, Reference] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "softsign": lambda x: x / (1 + np.abs(x)),
    "erf": lambda x: _ERF(x.astype(float)).astype(np.longdouble), "reciprocal": lambda x: 1 / x,
    "square": np.square,
}


def _points(dtype: str) -> np.ndarray:
    """Near zero, near one, everywhere within the range of exp, all magnitudes, denormals."""
    random = np.random.default_rng(0)
    top, low = (88.0, 38) if dtype == "float32" else (709.0, 300)
    parts = [random.uniform(-1, 1, 50000), random.uniform(-20, 20, 50000),
             random.uniform(-1.2 * top, 1.2 * top, 50000), 1 + random.uniform(-0.3, 0.3, 50000),
             10.0 ** random.uniform(-low, low, 50000) * random.choice([-1, 1], 50000),
             10.0 ** random.uniform(-low - 6, -low, 10000)]
    return np.concatenate(parts).astype(dtype)


def _ulps(got: np.ndarray, exact: np.ndarray) -> float:
    """The largest distance in units in the last place of the exact value."""
    rounded = exact.astype(got.dtype)
    fine = np.isfinite(rounded) & np.isfinite(got)
    unit = np.spacing(np.abs(rounded[fine])).astype(np.longdouble)
    return float((np.abs(got[fine].astype(np.longdouble) - exact[fine]) / unit).max())


def _native(name: str, arrays: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    step = native.step(name, [native.desc_of(a) for a in arrays],
                       [(arrays[0].dtype.name, shape)], {})
    return step(arrays)[0]


def functions_table() -> str:
    """Units in the last place, native and NumPy's body, in both float types."""
    lines = ["| function | float32 | its body | float64 | its body |", "|---|---|---|---|---|"]
    for name, exact in sorted(_FUNCTIONS.items()):
        cells = []
        for dtype in ("float32", "float64"):
            x = _points(dtype)
            if name == "sigmoid":  # the body gives 0 where the result is denormal
                x = x[x > (-87 if dtype == "float32" else -708)]
            with np.errstate(all="ignore"):
                true = exact(x.astype(np.longdouble))
                body = registry[name].body(np, x)
                cells += [_ulps(_native(name, [x], x.shape), true), _ulps(body, true)]
        lines.append(f"| {name} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")
    cells = []
    for dtype in ("float32", "float64"):
        random = np.random.default_rng(1)
        x, y = random.uniform(0, 10, 90000), random.uniform(-10, 10, 90000)
        x, y = x.astype(dtype), y.astype(dtype)
        with np.errstate(all="ignore"):
            true = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
            cells += [_ulps(_native("broadcast_power", [x, y], x.shape), true),
                      _ulps(np.power(x, y), true)]
    lines.append("| power | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")
    return "\n".join(lines)


def samples_table() -> str:
    """The largest difference from the body, relative to the largest value of the result."""
    from samples import ALL
    from test_kernels_samples import plain, prepared

    worst: dict[str, dict[str, float]] = {}
    for _, name, sample in ALL:
        op = registry[name]
        if not native.has_kernel(name) or sample.random or name in _FUNCTIONS:
            continue
        for dtype in ("float32", "float64"):
            attrs = op.parse(sample.attrs)
            if op.needs_training:
                attrs = {**attrs, "training": True}
            wanted = plain(op, sample.arrays(dtype), attrs)
            step = prepared(op, sample.arrays(dtype), wanted, attrs)
            if step is None or all(one.dtype.kind != "f" for one in wanted):
                continue
            error = 0.0
            for got, want in zip(step(sample.arrays(dtype)), wanted, strict=True):
                if want.dtype.kind == "f" and want.size:
                    size = max(float(np.abs(want).max()), 1e-30)
                    error = max(error, float(np.abs(got - want).max()) / size)
            row = worst.setdefault(name, {})
            row[dtype] = max(row.get(dtype, 0.0), error)
    lines = ["| operator | float32 | float64 |", "|---|---|---|"]
    for name, row in sorted(worst.items()):
        if any(row.values()):
            shown = [f"{row[dtype]:.0e}" if dtype in row else "" for dtype in ("float32",
                                                                              "float64")]
            lines.append(f"| `{name}` | {shown[0]} | {shown[1]} |")
    same = sorted(name for name, row in worst.items() if not any(row.values()))
    return "\n".join([*lines, "", "Equal to the last bit: "
                      + ", ".join(f"`{name}`" for name in same) + "."])


def main() -> None:
    """Measure, then print or write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--show", action="store_true", help="print instead of writing")
    asked = parser.parse_args()
    if not native.enabled:
        sys.exit(f"nothing to measure: {native.reason}")
    text = (f"{_MARKS[0]}\n\nFunctions, largest error in units in the last place:\n\n"
            f"{functions_table()}\n\nOther kernels, largest difference from the plain body over "
            f"the catalogue of operators, relative to the largest value of the result:\n\n"
            f"{samples_table()}\n\n{_MARKS[1]}")
    if asked.show:
        print(text)
        return
    page = _PAGE.read_text()
    before, rest = page.split(_MARKS[0])
    _PAGE.write_text(before + text + rest.split(_MARKS[1])[1])


if __name__ == "__main__":
    main()
