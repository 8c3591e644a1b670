"""Element by element: functions that leave zero zero, numbers, and pairs of arrays."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..operator import find_operator
from ..storage import Csr, RowSparse, Stored, fill, found_rows, row_sums, rows_of
from .form import form

__all__: list[str] = []

# f(0) = 0: only the values that are kept are computed
_KEEP_ZERO = (
    "abs", "sign", "round", "rint", "ceil", "floor", "trunc", "fix", "square", "sqrt", "cbrt",
    "relu", "negative", "sin", "tan", "arcsin", "arctan", "sinh", "tanh", "arcsinh", "arctanh",
    "expm1", "log1p", "degrees", "radians", "_mul_scalar", "_div_scalar", "_copy", "BlockGrad",
    "make_loss", "_contrib_round_ste", "_contrib_sign_ste",
)


def _kept(name: str, when: Callable[[Any], bool] | None = None) -> None:
    body = find_operator(name).body

    @form(name, "sparse", when=when)
    def values(xp: Any, data: Stored, **attrs: Any) -> Any:
        return data.with_data(body(xp, data.data, **attrs))


for _name in _KEEP_ZERO:
    _kept(_name)
_kept("clip", when=lambda attrs: attrs["a_min"] <= 0 <= attrs["a_max"])
_kept("Cast")


def _with_number(name: str, keeps_zero: Callable[[float], bool]) -> None:
    _kept(name, when=lambda attrs: keeps_zero(float(attrs["scalar"])))


_with_number("_plus_scalar", lambda s: s == 0)
_with_number("_minus_scalar", lambda s: s == 0)
_with_number("_equal_scalar", lambda s: s != 0)
_with_number("_not_equal_scalar", lambda s: s == 0)
_with_number("_greater_scalar", lambda s: s >= 0)
_with_number("_greater_equal_scalar", lambda s: s > 0)
_with_number("_lesser_scalar", lambda s: s <= 0)
_with_number("_lesser_equal_scalar", lambda s: s < 0)


@form("zeros_like", "sparse")
def _zeros_like(xp: Any, data: Stored, *, dtype: str | None = None) -> Any:
    return empty_like(xp, data.stype, data.shape, data.dtype)  # dtype: as of dense arrays


def empty_like(xp: Any, stype: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """A sparse array that keeps nothing."""
    none = xp.zeros(0, xp.int64)
    if stype == "csr":
        return Csr(shape, xp.zeros(0, dtype), none, xp.zeros(shape[0] + 1, xp.int64))
    return RowSparse(shape, none, xp.zeros((0, *shape[1:]), dtype))


# -- two arrays ----------------------------------------------------------------------------------

def _keys(xp: Any, array: Csr) -> Any:
    """A number for the place of each value; sorted where the columns of each row are."""
    return array.rows(xp) * array.shape[1] + array.indices


def _as_csr(xp: Any, shape: tuple[int, ...], keys: Any, data: Any) -> Csr:
    rows, columns = keys // shape[1], keys % shape[1]
    ends = xp.searchsorted(rows, xp.arange(shape[0] + 1)).astype(xp.int64)
    return Csr(shape, data, columns, ends)


def _join(xp: Any, shape: tuple[int, ...], kind: type, first: tuple[Any, Any],
          second: tuple[Any, Any]) -> Any:
    """The sum of two sparse arrays given as (places, values)."""
    keys, sums = row_sums(xp, xp.concatenate((first[0], second[0])),
                          xp.concatenate((first[1], second[1])))
    return RowSparse(shape, keys, sums) if kind is RowSparse else _as_csr(xp, shape, keys, sums)


def _parts(xp: Any, array: Any) -> tuple[Any, Any]:
    return (array.indices if type(array) is RowSparse else _keys(xp, array)), array.data


def _sum_forms(name: str, sign: int) -> None:
    def both(xp: Any, lhs: Any, rhs: Any) -> Any:
        if lhs.shape != rhs.shape:
            raise ValueError(f"shapes {lhs.shape} and {rhs.shape} differ")
        places, values = _parts(xp, rhs)
        return _join(xp, lhs.shape, type(lhs), _parts(xp, lhs),
                     (places, values if sign > 0 else -values))

    form(name, "csr", "csr")(both)
    form(name, "row_sparse", "row_sparse")(both)


def _rows_and_dense(name: str, sign: int) -> None:
    @form(name, "default", "row_sparse")
    def into(xp: Any, lhs: Any, rhs: RowSparse) -> Any:
        if lhs.shape != rhs.shape:  # broadcast: the dense body knows how
            return find_operator(name).body(xp, lhs, rhs.dense(xp))
        total = lhs.copy()
        total[rhs.indices] += rhs.data if sign > 0 else -rhs.data
        return total


for _name, _sign in (("elemwise_add", 1), ("broadcast_add", 1),
                     ("elemwise_sub", -1), ("broadcast_sub", -1)):
    _sum_forms(_name, _sign)
    _rows_and_dense(_name, _sign)


def _product(xp: Any, lhs: Any, rhs: Any) -> Any:
    """lhs * rhs of two arrays of one kind: places that both keep (rows: those of lhs)."""
    if lhs.shape != rhs.shape:
        raise ValueError(f"shapes {lhs.shape} and {rhs.shape} differ")
    if type(lhs) is RowSparse:
        return lhs.with_data(lhs.data * rows_of(xp, rhs, lhs.indices))
    mine, other = _keys(xp, lhs), _keys(xp, rhs)
    marks = RowSparse((lhs.size,), other, rhs.data)
    places, there = found_rows(xp, marks, mine)
    return _as_csr(xp, lhs.shape, mine[there], lhs.data[there] * rhs.data[places[there]])


def _same_shape_or_row(xp: Any, lhs: Csr, rhs: Any) -> Any:
    """The element of a dense rhs (of lhs' shape, or broadcast to it) beside each value of lhs."""
    whole = rhs if rhs.shape == lhs.shape else xp.broadcast_to(rhs, lhs.shape)
    return whole[lhs.rows(xp), lhs.indices]


for _name in ("elemwise_mul", "broadcast_mul"):
    form(_name, "csr", "csr")(_product)
    form(_name, "row_sparse", "row_sparse")(_product)

    @form(_name, "row_sparse", "default")
    def _rows_times(xp: Any, lhs: RowSparse, rhs: Any) -> Any:
        if lhs.shape != rhs.shape:
            return lhs.dense(xp) * rhs
        return lhs.with_data(lhs.data * rhs[lhs.indices])

    @form(_name, "csr", "default")
    def _values_times(xp: Any, lhs: Csr, rhs: Any) -> Any:
        return lhs.with_data(lhs.data * _same_shape_or_row(xp, lhs, rhs))


@form("elemwise_mul", "default", "sparse")
def _times_sparse(xp: Any, lhs: Any, rhs: Any) -> Any:
    """A gradient times a sparse array: only what the sparse one keeps is not zero."""
    if type(rhs) is RowSparse:
        return rhs.with_data(lhs[rhs.indices] * rhs.data)
    return rhs.with_data(_same_shape_or_row(xp, rhs, lhs) * rhs.data)


@form("broadcast_div", "csr", "default")
def _values_over(xp: Any, lhs: Csr, rhs: Any) -> Any:
    return lhs.with_data(lhs.data / _same_shape_or_row(xp, lhs, rhs))


@form("add_n", "row_sparse")
def _add_rows(xp: Any, *args: RowSparse, num_args: int = 0) -> RowSparse:
    if len(args) == 1:
        return args[0].copy()  # type: ignore[no-any-return]
    rows, sums = row_sums(xp, xp.concatenate([one.indices for one in args]),
                          xp.concatenate([one.data for one in args]))
    return RowSparse(args[0].shape, rows, sums)


@form("add_n", "*")
def _add_any(xp: Any, *args: Any, num_args: int = 0) -> Any:
    """Dense and sparse arrays together: a dense sum, in the order given."""
    total = xp.zeros(args[0].shape, args[0].dtype)
    for one in args:
        fill(xp, total, one, add=True)
    return total


@form("where", "csr", "default", "default")
def _where(xp: Any, condition: Csr, x: Any, y: Any) -> Any:
    chosen = y.copy()
    on = condition.data != 0
    rows, columns = condition.rows(xp)[on], condition.indices[on]
    chosen[rows, columns] = x[rows, columns]
    return chosen
