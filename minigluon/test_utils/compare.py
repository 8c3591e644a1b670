"""Comparing arrays: tolerances by element type, and messages that show where they differ."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ndarray import NDArray

__all__ = [
    "almost_equal", "assert_allclose", "assert_almost_equal", "assert_almost_equal_ignore_nan",
    "assert_almost_equal_with_err", "assert_exception", "checkShapes", "compare_ndarray_tuple",
    "default_atols", "default_dtype", "default_numeric_eps", "default_rtols", "effective_dtype",
    "find_max_violation", "get_atol", "get_etol", "get_rtol", "get_tolerance", "get_tols", "host",
    "locationError", "same", "same_array",
]

Host = np.ndarray[Any, Any]
Tolerance = float | Mapping[Any, float] | None

_EXACT = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64")
_TINY = 1e-20  # keeps an exact comparison from dividing by zero


def _table(values: Mapping[str, float], exact: bool = True) -> dict[Any, float]:
    table: dict[Any, float] = {np.dtype(name): value for name, value in values.items()}
    if exact:
        table.update({np.dtype(name): 0 for name in _EXACT})
    return table


def default_rtols() -> dict[Any, float]:
    """The relative tolerance for each element type."""
    return _table({"float16": 1e-2, "float32": 1e-4, "float64": 1e-5})


def default_atols() -> dict[Any, float]:
    """The absolute tolerance for each element type."""
    return _table({"float16": 1e-1, "float32": 1e-3, "float64": 1e-20})


def default_numeric_eps() -> dict[Any, float]:
    """The step of a numeric gradient for each element type: powers of two, which add exactly."""
    return _table({"float16": 2.0**-6, "float32": 2.0**-9, "float64": 2.0**-14}, exact=False)


def default_dtype() -> type[np.float32]:
    """The element type of arrays that nobody gave another."""
    return np.float32


def host(value: Any) -> Host:
    """The NumPy array that a value is or has."""
    return value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)


# -- tolerances ------------------------------------------------------------------------------------

def effective_dtype(dat: Any) -> np.dtype[Any]:
    """The element type whose tolerance an array is compared with: its own."""
    return np.dtype(dat.dtype if hasattr(dat, "dtype") else np.asarray(dat).dtype)


def get_tolerance(dat: Any, tol: Tolerance, default_tol: Mapping[Any, float]) -> float:
    """The tolerance for `dat`.

    Args:
        dat: an array. tol: a number; a mapping from element type to number; or None.
        default_tol: what counts where `tol` is None.
    """
    if tol is None:
        return default_tol.get(effective_dtype(dat), 0)
    return tol[effective_dtype(dat)] if isinstance(tol, Mapping) else tol


def get_tols(x: Any, y: Any, rtol: Tolerance, atol: Tolerance) -> tuple[float, float]:
    """(rtol, atol) for comparing two arrays: those given, or the looser of their types'."""
    numbers = isinstance(x, (bool, int, float)), isinstance(y, (bool, int, float))
    sides = [side for side, number in ((x, numbers[0]), (y, numbers[1])) if not number] or [x, y]
    return (max(get_tolerance(side, rtol, default_rtols()) for side in sides),
            max(get_tolerance(side, atol, default_atols()) for side in sides))


def get_rtol(rtol: Any = None, dtype: Any = "float64") -> Any:
    """`rtol`, or the relative tolerance of an element type."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_atol(atol: Any = None, dtype: Any = "float64") -> Any:
    """`atol`, or the absolute tolerance of an element type."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_etol(etol: float | None = None) -> float:
    """`etol`, or 0: the share of elements that may differ."""
    return 0 if etol is None else etol


# -- yes or no -------------------------------------------------------------------------------------

def same(a: Any, b: Any) -> bool:
    """Whether two arrays have exactly the same shape and values."""
    return bool(np.array_equal(host(a), host(b)))


def checkShapes(a: Any, b: Any) -> None:
    """Fail, showing both, unless two arrays have one shape."""
    x, y = host(a), host(b)
    if x.shape != y.shape:
        raise AssertionError(f"\nItems are not equal: a.shape = {x.shape} and b.shape = {y.shape} "
                             f"are not equal\n ACTUAL: {x!r}\n DESIRED: {y!r}")


def almost_equal(a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None,
                 equal_nan: bool = False, use_broadcast: bool = True) -> bool:
    """Whether ``|a - b| <= atol + rtol * |b|`` everywhere; the tolerances depend on the types.

    With ``use_broadcast=False`` different shapes fail as in `checkShapes`.

    >>> almost_equal(np.float32([1]), np.float32([1.001]))
    True
    """
    if not use_broadcast:
        checkShapes(a, b)
    r, t = get_tols(_typed(a), _typed(b), rtol, atol)
    return bool(np.allclose(host(a), host(b), r, t, equal_nan))


def same_array(array1: NDArray, array2: NDArray) -> bool:
    """Whether writing to one NDArray changes the other, which must have the same shape."""
    if not same(array1, array2):
        return False
    array1[:] = array1 + 1
    shared = same(array1, array2)
    array1[:] = array1 - 1
    return shared


# -- failing ---------------------------------------------------------------------------------------

def _typed(value: Any) -> Any:
    return value if hasattr(value, "dtype") or isinstance(value, (int, float)) else host(value)


def _violation(a: Host, b: Host, rtol: float, atol: float) -> Host:
    """How many tolerances the elements are apart."""
    x, y = (side.astype(np.float64) if side.dtype.kind in "biu" else side for side in (a, b))
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.abs(x - y) / (atol + rtol * np.abs(y) + _TINY))


def find_max_violation(a: Any, b: Any, rtol: float, atol: float) -> tuple[tuple[int, ...], float]:
    """(place, tolerances apart) of the element that differs most, nan before everything."""
    found = _violation(host(a), host(b), rtol, atol)
    place = np.unravel_index(int(np.argmax(np.where(np.isnan(found), np.inf, found))), found.shape)
    return tuple(int(at) for at in place), found[place]


def locationError(a: Any, b: Any, index: Any, names: Sequence[str], maxError: bool = False
                  ) -> str:
    """A line that shows both arrays at one place."""
    x, y = np.broadcast_arrays(host(a), host(b))
    word = "maximum error" if maxError else "error"
    return (f"Location of {word}: {index}, {names[0]}={float(x[index].item()):.8f}, "
            f"{names[1]}={float(y[index].item()):.8f}")


def assert_almost_equal(a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None,
                        names: Sequence[str] = ("a", "b"), equal_nan: bool = False,
                        use_broadcast: bool = True, mismatches: Sequence[int] = (10, 10)) -> None:
    """Fail, showing the worst elements, unless `a` and `b` are almost equal.

    Args:
        a, b: arrays or numbers.
        rtol, atol: tolerances: numbers, mappings from element type to number, or by element type
            when None (see `almost_equal`).
        names: what to call the two in the message.
        equal_nan: nan equals nan.
        use_broadcast: allow different shapes that broadcast.
        mismatches: how many of the worst elements are printed; how many are counted.
    """
    if not use_broadcast:
        checkShapes(a, b)
    x, y = host(a), host(b)
    r, t = get_tols(_typed(a), _typed(b), rtol, atol)
    if not np.allclose(x, y, r, t, equal_nan):
        _fail(x, y, r, t, names, equal_nan, mismatches)


def _fail(x: Host, y: Host, rtol: float, atol: float, names: Sequence[str], equal_nan: bool,
          mismatches: Sequence[int]) -> None:
    place, worst = find_max_violation(x, y, rtol, atol)
    text = f"\nItems are not equal:\nError {worst:f} exceeds tolerance rtol={rtol:e}, atol={atol:e}"
    if x.ndim == y.ndim == 0:
        raise AssertionError(f"{text}.\n\n ACTUAL: {x.item()!r}\n DESIRED: {y.item()!r}")
    first, second = np.broadcast_arrays(x, y)
    wrong = ~np.isclose(first, second, rtol, atol, equal_nan)
    apart = _violation(first, second, rtol, atol)
    order = np.argsort(-np.where(wrong, np.where(np.isnan(apart), np.inf, apart), -1.0),
                       axis=None, kind="stable")
    print(f"\n*** Maximum errors for vector of size {first.size}:  rtol={rtol}, atol={atol}\n")
    for number, flat in enumerate(order[:min(mismatches[0], int(wrong.sum()))], 1):
        at = tuple(int(i) for i in np.unravel_index(flat, first.shape))
        print(f"{number:3d}: Error {apart[at]:f}  {locationError(first, second, at, names)}")
    count = min(int(wrong.sum()), mismatches[1] + 1)
    least = "at least " if count > mismatches[1] else ""
    raise AssertionError(
        f"{text} (mismatch {least}{100 * count / first.size:f}%).\n"
        f"{locationError(first, second, place, names, True)}\n ACTUAL: {x!r}\n DESIRED: {y!r}")


def assert_allclose(a: Any, b: Any, rtol: float = 1e-07, atol: float = 0, equal_nan: bool = True
                    ) -> None:
    """`assert_almost_equal` with the tolerances of ``numpy.testing.assert_allclose``."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None,
                                 etol: float | None = None, names: Sequence[str] = ("a", "b"),
                                 equal_nan: bool = False, mismatches: Sequence[int] = (10, 10)
                                 ) -> None:
    """`assert_almost_equal`, but a share `etol` of the elements may differ."""
    allowed = get_etol(etol)
    if allowed:
        x, y = np.broadcast_arrays(host(a), host(b))
        r, t = get_tols(_typed(a), _typed(b), rtol, atol)
        if np.mean(~np.isclose(x, y, r, t, equal_nan)) <= allowed:
            return
    assert_almost_equal(a, b, rtol, atol, names, equal_nan, mismatches=mismatches)


def assert_almost_equal_ignore_nan(a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None,
                                   names: Sequence[str] = ("a", "b")) -> None:
    """`assert_almost_equal` where neither of the two is nan."""
    x, y = np.copy(host(a)), np.copy(host(b))
    missing = np.isnan(x) | np.isnan(y)
    x[missing] = 0
    y[missing] = 0
    assert_almost_equal(x, y, rtol, atol, names)


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Tolerance = None, atol: Tolerance = None
                          ) -> None:
    """`assert_almost_equal` for arrays in nested tuples; where one is None nothing is compared."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for first, second in zip(t1, t2, strict=True):
            compare_ndarray_tuple(first, second, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def assert_exception(f: Callable[..., Any], exception_type: type[BaseException], *args: Any,
                     **kwargs: Any) -> None:
    """Fail unless ``f(*args, **kwargs)`` raises `exception_type`."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{f} did not raise {exception_type.__name__}")
