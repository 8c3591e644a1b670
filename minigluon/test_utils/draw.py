"""Random shapes, arrays and sparse arrays, and a few fixed ones."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentValueError
from ..context import Context, current_context
from ..ndarray import NDArray
from ..ndarray.sparse import csr_matrix, row_sparse_array
from .compare import Host, default_dtype, host

__all__ = [
    "assign_each", "assign_each2", "create_2d_tensor", "create_sparse_array",
    "create_sparse_array_zd", "create_vector", "get_identity_mat", "get_identity_mat_batch",
    "new_matrix_with_real_eigvals_2d", "new_matrix_with_real_eigvals_nd",
    "new_orthonormal_matrix_2d", "new_sym_matrix_with_real_eigvals_2d",
    "new_sym_matrix_with_real_eigvals_nd", "rand_coord_2d", "rand_ndarray", "rand_shape_2d",
    "rand_shape_3d", "rand_shape_nd", "rand_sparse_ndarray", "random_arrays", "random_sample",
    "random_uniform_arrays", "shuffle_csr_column_indices",
]

Change = Callable[[Any], Any] | None


# -- dense -----------------------------------------------------------------------------------------

def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A random shape of `num_dim` axes with sizes from 1 (0 if allowed) to `dim`."""
    return tuple(np.random.randint(0 if allow_zero_size else 1, dim + 1, size=num_dim).tolist())


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A random shape of 2 axes."""
    return tuple(rand_shape_nd(1, dim, allow_zero_size)[0] for dim in (dim0, dim1))


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10,
                  allow_zero_size: bool = False) -> tuple[int, ...]:
    """A random shape of 3 axes."""
    return tuple(rand_shape_nd(1, dim, allow_zero_size)[0] for dim in (dim0, dim1, dim2))


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[int, int]:
    """A random point: each coordinate from its low to before its high."""
    return (int(np.random.randint(x_low, x_high)), int(np.random.randint(y_low, y_high)))


def random_arrays(*shapes: tuple[int, ...]) -> Any:
    """Standard normal float32 arrays, a list of them or one alone."""
    arrays = [np.asarray(np.random.randn(*shape), dtype=default_dtype()) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes: tuple[int, ...], low: float = 0.0, high: float = 1.0,
                          dtype: Any = None) -> list[Host]:
    """Arrays of numbers spread evenly over [low, high), float32 by default."""
    return [np.random.uniform(low, high, size=shape).astype(dtype or default_dtype())
            for shape in shapes]


def random_sample(population: Sequence[Any], k: int) -> list[Any]:
    """`k` different members of a sequence, in random order."""
    return [population[place] for place in np.random.permutation(len(population))[:k]]


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> NDArray:
    """A matrix whose row i is full of i."""
    return nd.array(np.repeat(np.arange(rows), columns).reshape(rows, columns), dtype=dtype)


def create_vector(size: int, dtype: Any = np.int64) -> NDArray:
    """0, 1, 2 and so on."""
    return nd.array(np.arange(size), dtype=dtype)


def get_identity_mat(size: int) -> NDArray:
    """The unit matrix."""
    return nd.array(np.eye(size))


def get_identity_mat_batch(size: int) -> NDArray:
    """Two unit matrices."""
    return nd.array(np.stack([np.eye(size)] * 2))


def assign_each(the_input: Any, function: Change) -> Host:
    """An array with each element passed through a function."""
    values = host(the_input)
    return np.copy(values) if function is None else np.asarray(
        [function(value) for value in values.flat]).reshape(values.shape)


def assign_each2(input1: Any, input2: Any, function: Callable[[Any, Any], Any] | None) -> Host:
    """An array made of the elements of two, pair by pair."""
    first, second = host(input1), host(input2)
    return np.copy(first) if function is None else np.asarray(
        [function(a, b) for a, b in zip(first.flat, second.flat, strict=True)]
    ).reshape(first.shape)


# -- matrices with known properties ----------------------------------------------------------------

def new_orthonormal_matrix_2d(n: int) -> Host:
    """A random orthonormal matrix."""
    return np.linalg.qr(np.random.randn(n, n))[0]


def _eigenvalues(n: int) -> Host:
    """Small and well apart from each other and from 0, so that the matrix is well conditioned."""
    signs = np.random.choice([-1.0, 1.0], n)
    return np.diag(signs * (np.arange(1, n + 1) + np.random.uniform(0, 0.5, n)) / n)


def new_matrix_with_real_eigvals_2d(n: int) -> Host:
    """A random well-conditioned matrix with small real eigenvalues."""
    turn = new_orthonormal_matrix_2d(n)
    upper = np.triu(np.random.uniform(-0.1, 0.1, (n, n)), 1) + _eigenvalues(n)
    return np.asarray(turn @ upper @ turn.T)


def new_matrix_with_real_eigvals_nd(shape: Sequence[int]) -> Host:
    """Matrices as of `new_matrix_with_real_eigvals_2d`; the last two sizes are those of one."""
    return _stacked(new_matrix_with_real_eigvals_2d, shape)


def new_sym_matrix_with_real_eigvals_2d(n: int) -> Host:
    """A random symmetric matrix."""
    turn = new_orthonormal_matrix_2d(n)
    made = turn @ _eigenvalues(n) @ turn.T
    return np.asarray((made + made.T) / 2)


def new_sym_matrix_with_real_eigvals_nd(shape: Sequence[int]) -> Host:
    """Random symmetric matrices; the last two sizes are those of one."""
    return _stacked(new_sym_matrix_with_real_eigvals_2d, shape)


def _stacked(make: Callable[[int], Host], shape: Sequence[int]) -> Host:
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ArgumentValueError(f"expected a shape that ends with two equal sizes, got {shape}")
    count = int(np.prod(shape[:-2]))
    return np.stack([make(shape[-1]) for _ in range(count)]).reshape(shape)


# -- sparse ----------------------------------------------------------------------------------------

def rand_ndarray(shape: tuple[int, ...], stype: str = "default", density: float | None = None,
                 dtype: Any = None, modifier_func: Change = None,
                 shuffle_csr_indices: bool = False, distribution: str | None = None,
                 ctx: Context | None = None) -> NDArray:
    """A random NDArray: normal numbers if dense, otherwise as of `rand_sparse_ndarray`."""
    if stype == "default":
        return nd.array(random_arrays(tuple(shape)), ctx=ctx, dtype=dtype or default_dtype())
    return rand_sparse_ndarray(shape, stype, density, dtype, distribution,
                               modifier_func=modifier_func,
                               shuffle_csr_indices=shuffle_csr_indices, ctx=ctx)[0]


def rand_sparse_ndarray(shape: tuple[int, ...], stype: str, density: float | None = None,
                        dtype: Any = None, distribution: str | None = None,
                        data_init: float | None = None, rsp_indices: Any = None,
                        modifier_func: Change = None, shuffle_csr_indices: bool = False,
                        ctx: Context | None = None) -> tuple[NDArray, Any]:
    """A sparse NDArray of random values, and its parts as arrays.

    Args:
        shape: sizes; two of them for csr. stype: 'row_sparse' or 'csr'.
        density: share of the rows (row_sparse) or elements (csr) kept; drawn when None.
        distribution: 'uniform', or for csr 'powerlaw': each row has twice as many as the last.
        data_init: every value, instead of random ones. rsp_indices: which rows, instead of
            random ones. modifier_func: what values pass through.
        shuffle_csr_indices: columns in random order within a row.

    Returns:
        The array, and (data, indices) as NumPy arrays of a row_sparse or (indptr, indices, data)
        as NDArrays of a csr one.
    """
    ctx, dtype = ctx or current_context(), np.dtype(dtype or default_dtype())
    kept = np.random.rand() if density is None else density
    distribution = distribution or "uniform"
    if not 0 <= kept <= 1:
        raise ArgumentValueError("density has to be between 0 and 1")
    if stype == "row_sparse":
        if distribution != "uniform":
            raise AssertionError(f"Distribution {distribution} not supported for row_sparse")
        return _rows(tuple(shape), kept, dtype, data_init, rsp_indices, modifier_func, ctx)
    if stype != "csr":
        raise AssertionError(f"unknown storage type {stype!r}; expected 'row_sparse' or 'csr'")
    if len(shape) != 2:
        raise AssertionError(f"csr arrays have two axes, got shape {shape}")
    if distribution not in _PLACES:
        raise AssertionError(f"Distribution not supported: {distribution}")
    made = _compressed(tuple(shape), _PLACES[distribution](*shape, kept), dtype, data_init,
                       modifier_func, shuffle_csr_indices, ctx)
    return made, (made.indptr, made.indices, made.data)


def _rows(shape: tuple[int, ...], density: float, dtype: Any, data_init: float | None,
          chosen: Any, change: Change, ctx: Context) -> tuple[NDArray, tuple[Host, Host]]:
    if chosen is None:
        indices = np.flatnonzero(np.random.rand(shape[0]) < density)
    else:
        indices = np.unique(np.asarray(chosen, dtype=np.int64))
        if indices.size > shape[0]:
            raise AssertionError(f"{indices.size} rows do not fit into {shape[0]}")
    size = (indices.size, *shape[1:])
    values = np.random.uniform(-1, 1, size) if data_init is None else np.full(size, data_init)
    values = values.astype(dtype)
    if change is not None and values.size:
        values = assign_each(values, change)
    made = row_sparse_array((values, indices.astype(np.int64)), shape=shape, dtype=dtype, ctx=ctx)
    return made, (values, indices)


def _uniform_places(rows: int, columns: int, density: float) -> list[Host]:
    return [np.flatnonzero(np.random.rand(columns) < density) for _ in range(rows)]


def _powerlaw_places(rows: int, columns: int, density: float) -> list[Host]:
    """One element a row; then row after row is filled up to twice as many as the last."""
    total = int(rows * columns * density)
    if total < 2 * rows:
        raise ArgumentValueError(
            f"not supported for this density: {density} for this shape ({rows}, {columns}) "
            "Please keep : num_rows * num_cols * density >= 2 * num_rows")
    left, limit, places = total - rows, 2, []
    for _ in range(rows):
        more = min(limit, columns, left + 1) - 1
        places.append(np.arange(1 + more))
        left, limit = left - more, min(2 * limit, columns)
    return places


_PLACES = {"uniform": _uniform_places, "powerlaw": _powerlaw_places}


def _compressed(shape: tuple[int, ...], places: list[Host], dtype: Any, data_init: float | None,
                change: Change, shuffle: bool, ctx: Context) -> Any:
    if shuffle:
        places = [np.random.permutation(columns) for columns in places]
    indices = np.concatenate(places).astype(np.int64) if places else np.zeros(0, np.int64)
    signs = np.where(np.random.rand(indices.size) < 0.5, -1, 1)
    values = (np.random.uniform(0.1, 1, indices.size) * signs if data_init is None
              else np.full(indices.size, data_init))
    if change is not None and values.size:
        values = assign_each(values, change)
    indptr = np.cumsum([0, *(columns.size for columns in places)]).astype(np.int64)
    return csr_matrix((values.astype(dtype), indices, indptr), shape=shape, dtype=dtype, ctx=ctx)


def create_sparse_array(shape: tuple[int, ...], stype: str, data_init: float | None = None,
                        rsp_indices: Any = None, dtype: Any = None, modifier_func: Change = None,
                        density: float = 0.5, shuffle_csr_indices: bool = False) -> NDArray:
    """A sparse array; the arguments are those of `rand_sparse_ndarray`."""
    if stype not in ("row_sparse", "csr"):
        raise AssertionError(f"Unknown storage type: {stype}")
    return rand_sparse_ndarray(shape, stype, density, dtype, data_init=data_init,
                               rsp_indices=rsp_indices, modifier_func=modifier_func,
                               shuffle_csr_indices=shuffle_csr_indices)[0]


def create_sparse_array_zd(shape: tuple[int, ...], stype: str, density: float,
                           data_init: float | None = None, rsp_indices: Any = None,
                           dtype: Any = None, modifier_func: Change = None,
                           shuffle_csr_indices: bool = False) -> NDArray:
    """A sparse array, of row_sparse ones only with the rows of `rsp_indices`."""
    return create_sparse_array(shape, stype, data_init, rsp_indices, dtype, modifier_func,
                               0.0 if stype == "row_sparse" else density, shuffle_csr_indices)


def shuffle_csr_column_indices(csr: Any) -> None:
    """Put the column numbers of each row of a SciPy csr matrix into random order, in place."""
    for begin, end in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
        csr.indices[begin:end] = np.random.permutation(csr.indices[begin:end])
    csr.has_sorted_indices = False
