"""Helpers for tests of networks and operators: compare arrays, check gradients, make data."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import context
from . import ndarray as nd
from . import random as mx_random
from .base import dtype_name
from .context import Context, current_context
from .device import num_gpus
from .gluon.data.vision import MNIST
from .ndarray import NDArray
from .symbol import Symbol
from .testdata import (
    DummyIter,
    download,
    get_cifar10,
    get_mnist_iterator,
    get_mnist_ubyte,
    get_zip_data,
)

__all__ = [
    "DummyIter", "almost_equal", "assert_almost_equal", "assert_exception",
    "check_numeric_gradient", "check_symbolic_backward", "check_symbolic_forward",
    "default_context", "default_dtype", "download", "get_atol", "get_cifar10", "get_mnist",
    "get_mnist_iterator", "get_mnist_ubyte", "get_rtol", "get_zip_data", "list_gpus",
    "rand_ndarray", "rand_shape_2d", "rand_shape_3d", "rand_shape_nd", "rand_sparse_ndarray",
    "random_arrays", "same",
    "set_default_context", "simple_forward",
]

Host = np.ndarray[Any, Any]
Values = Mapping[str, Any] | Sequence[Any]

# relative and absolute tolerance by element type; everything else (integers, bool) is exact
_TOLERANCES = {"float16": (1e-2, 1e-1), "float32": (1e-4, 1e-3), "float64": (1e-5, 1e-20)}


# -- comparing -------------------------------------------------------------------------------------


def _host(value: Any) -> Host:
    return value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)


def _tolerance(a: Host, b: Host, given: float | None, which: int) -> float:
    if given is not None:
        return given
    return max(_TOLERANCES.get(dtype_name(array.dtype), (0.0, 0.0))[which] for array in (a, b))


def get_rtol(a: Any, b: Any, rtol: float | None = None) -> float:
    """The relative tolerance for comparing a and b: `rtol`, or the looser of their types'."""
    return _tolerance(_host(a), _host(b), rtol, 0)


def get_atol(a: Any, b: Any, atol: float | None = None) -> float:
    """The absolute tolerance for comparing a and b: `atol`, or the looser of their types'."""
    return _tolerance(_host(a), _host(b), atol, 1)


def same(a: Any, b: Any) -> bool:
    """Whether two arrays have exactly the same shape and values."""
    return bool(np.array_equal(_host(a), _host(b)))


def almost_equal(a: Any, b: Any, rtol: float | None = None, atol: float | None = None,
                 equal_nan: bool = False, use_broadcast: bool = True) -> bool:
    """Whether ``|a - b| <= atol + rtol * |b|`` everywhere; the tolerances depend on the types.

    >>> almost_equal(np.float32([1]), np.float32([1.001]))
    True
    """
    x, y = _host(a), _host(b)
    if x.shape != y.shape and not use_broadcast:
        return False
    return bool(np.allclose(x, y, get_rtol(x, y, rtol), get_atol(x, y, atol), equal_nan))


def assert_almost_equal(a: Any, b: Any, rtol: float | None = None, atol: float | None = None,
                        names: tuple[str, str] = ("a", "b"), equal_nan: bool = False,
                        use_broadcast: bool = True, mismatches: tuple[int, int] = (10, 10)) -> None:
    """Fail, showing the worst elements, unless `a` and `b` are almost equal.

    Args:
        a, b: arrays or numbers.
        rtol, atol: tolerances; by element type when None (see `almost_equal`).
        names: what to call the two in the message.
        equal_nan: nan equals nan.
        use_broadcast: allow different shapes that broadcast.
        mismatches: how many of the worst elements are listed (the first number).
    """
    x, y = _host(a), _host(b)
    if x.shape != y.shape and not use_broadcast:
        raise AssertionError(f"shapes differ: {names[0]} {x.shape}, {names[1]} {y.shape}")
    r, t = get_rtol(x, y, rtol), get_atol(x, y, atol)
    if np.allclose(x, y, r, t, equal_nan):
        return
    raise AssertionError(_difference(x, y, r, t, names, equal_nan, mismatches[0]))


def _difference(x: Host, y: Host, rtol: float, atol: float, names: tuple[str, str],
                equal_nan: bool, most: int) -> str:
    x, y = np.broadcast_arrays(x, y)
    wrong = ~np.isclose(x, y, rtol, atol, equal_nan)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(x.astype(np.float64) - y.astype(np.float64))
    error = np.where(wrong, np.where(np.isnan(error), np.inf, error), -1.0)
    lines = [f"Items are not equal: {wrong.sum()} of {wrong.size} elements differ by more than "
             f"rtol={rtol:g}, atol={atol:g}"]
    for flat in np.argsort(-error, axis=None, kind="stable")[: min(most, int(wrong.sum()))]:
        place = tuple(int(i) for i in np.unravel_index(flat, x.shape))
        lines.append(f"  at {place}: {names[0]}={x[place]!r}, {names[1]}={y[place]!r}")
    return "\n".join(lines)


def assert_exception(f: Callable[..., Any], exception_type: type[BaseException], *args: Any,
                     **kwargs: Any) -> None:
    """Fail unless ``f(*args, **kwargs)`` raises `exception_type`."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{f} did not raise {exception_type.__name__}")


# -- making data -----------------------------------------------------------------------------------


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


def random_arrays(*shapes: tuple[int, ...]) -> Any:
    """Standard normal float32 arrays, a list of them or one alone."""
    arrays = [np.asarray(np.random.randn(*shape), dtype=default_dtype()) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def rand_ndarray(shape: tuple[int, ...], stype: str = "default", density: float | None = None,
                 dtype: Any = None, ctx: Context | None = None) -> NDArray:
    """An NDArray of uniform random values in [-1, 1).

    Args:
        shape: sizes. stype: storage type. density: share of the rows (row_sparse) or elements (csr)
            that are kept; drawn when None. dtype: element type. ctx: context.
    """
    if stype != "default":
        return rand_sparse_ndarray(shape, stype, density, dtype)[0].as_in_context(
            ctx or current_context())
    return nd.array(np.random.uniform(-1, 1, shape), ctx=ctx, dtype=dtype or default_dtype())


def rand_sparse_ndarray(shape: tuple[int, ...], stype: str, density: float | None = None,
                        dtype: Any = None) -> tuple[NDArray, Any]:
    """A sparse NDArray of random values, and its parts as arrays.

    Args:
        shape: sizes; two of them for csr. stype: 'row_sparse' or 'csr'.
        density: share of the rows (row_sparse) or elements (csr) kept; drawn when None.

    Returns:
        The array, and (data, indices) of a row_sparse or (indptr, indices, data) of a csr one.
    """
    density = np.random.rand() if density is None else density
    places = shape[:1] if stype == "row_sparse" else shape
    kept = np.random.rand(*places) < density
    kept = kept.reshape(kept.shape + (1,) * (len(shape) - kept.ndim))
    values = np.random.uniform(0.1, 1, shape) * np.where(np.random.rand(*shape) < 0.5, -1, 1)
    made = nd.array(values * kept, dtype=dtype or default_dtype()).tostype(stype)
    if stype == "csr":
        return made, (made.indptr, made.indices, made.data)
    return made, (made.data, made.indices)


def get_mnist() -> dict[str, Host]:
    """The digits as arrays: images (n, 1, 28, 28) float32 in [0, 1], labels int32."""
    result = {}
    for word, train in (("train", True), ("test", False)):
        digits = MNIST(train=train)
        pixels = digits._data.asnumpy().transpose(0, 3, 1, 2)
        result[f"{word}_data"] = pixels.astype(np.float32) / 255
        result[f"{word}_label"] = digits._label
    return result


# -- contexts --------------------------------------------------------------------------------------


def default_context() -> Context:
    """The context that checks run on: the current one."""
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Make `ctx` the current context of this thread from now on."""
    context._current.ctx = ctx


def default_dtype() -> type[np.float32]:
    """The element type of `random_arrays` and `rand_ndarray`."""
    return np.float32


def list_gpus() -> range:
    """The numbers of the GPUs that can be used."""
    return range(num_gpus())


# -- checking symbols ------------------------------------------------------------------------------


def _by_name(values: Values, names: Sequence[str], ctx: Context, dtype: Any) -> dict[str, NDArray]:
    given = values if isinstance(values, Mapping) else dict(zip(names, values, strict=True))
    return {name: nd.array(_host(value), ctx=ctx, dtype=dtype) for name, value in given.items()}


def _bind(sym: Symbol, location: Values, aux_states: Any, ctx: Context | None, dtype: Any,
          grad_req: Any = "null") -> Any:
    ctx = ctx or default_context()
    args = _by_name(location, sym.list_arguments(), ctx, dtype)
    aux = _by_name(aux_states or {}, sym.list_auxiliary_states(), ctx, dtype)
    grads = {name: nd.zeros(array.shape, ctx=ctx, dtype=array.dtype)
             for name, array in args.items()}
    return sym.bind(ctx, args, args_grad=grads, grad_req=grad_req, aux_states=aux)


def simple_forward(sym: Symbol, ctx: Context | None = None, is_train: bool = False,
                   **inputs: Any) -> Any:
    """The outputs of a symbol for given inputs, as one NumPy array or a list of them."""
    executor = _bind(sym, inputs, None, ctx, np.float32)
    outputs = [output.asnumpy() for output in executor.forward(is_train=is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def check_symbolic_forward(sym: Symbol, location: Values, expected: Values,
                           rtol: float | None = None, atol: float | None = None,
                           aux_states: Any = None, ctx: Context | None = None,
                           equal_nan: bool = False, dtype: Any = np.float32) -> list[NDArray]:
    """Compare the outputs of a symbol with `expected`; returns the outputs.

    Args:
        sym: the symbol. location: its arguments, in order or by name.
        expected: its outputs, in order or by output name.
        aux_states: its auxiliary states, in order or by name.
    """
    executor = _bind(sym, location, aux_states, ctx, dtype)
    outputs: list[NDArray] = executor.forward(is_train=False)
    names = sym.list_outputs()
    wanted = expected if isinstance(expected, Mapping) else dict(zip(names, expected, strict=True))
    for name, output in zip(names, outputs, strict=True):
        if name in wanted:
            assert_almost_equal(wanted[name], output, rtol, atol, (f"expected {name}", "forward"),
                                equal_nan)
    return outputs


def check_symbolic_backward(sym: Symbol, location: Values, out_grads: Any, expected: Values,
                            rtol: float | None = None, atol: float | None = None,
                            aux_states: Any = None, grad_req: Any = "write",
                            ctx: Context | None = None, equal_nan: bool = False,
                            dtype: Any = np.float32) -> dict[str, NDArray]:
    """Compare the gradients of a symbol's arguments with `expected`; returns the gradients.

    With ``grad_req='add'`` the gradient arrays start as random numbers, to which backward adds.
    """
    executor = _bind(sym, location, aux_states, ctx, dtype, grad_req)
    names = sym.list_arguments()
    wanted = expected if isinstance(expected, Mapping) else dict(zip(names, expected, strict=True))
    before = {}
    for name, grad in executor.grad_dict.items():
        if grad is not None:
            grad[:] = nd.array(np.random.uniform(-1, 1, grad.shape), ctx=grad.context,
                               dtype=grad.dtype)
            before[name] = grad.asnumpy()
    executor.forward(is_train=True)
    heads = out_grads.values() if isinstance(out_grads, Mapping) else out_grads
    executor.backward([nd.array(_host(head), ctx=executor.outputs[0].context, dtype=dtype)
                       for head in heads] if heads is not None else None)
    for name, value in wanted.items():
        request = grad_req if isinstance(grad_req, str) else grad_req[name]
        if request != "null":
            target = _host(value) + (before[name] if request == "add" else 0)
            assert_almost_equal(target, executor.grad_dict[name], rtol, atol,
                                (f"expected {name}", "backward"), equal_nan)
    return {name: grad for name, grad in executor.grad_dict.items() if grad is not None}


def check_numeric_gradient(sym: Symbol, location: Values, aux_states: Any = None,
                           numeric_eps: float | None = None, rtol: float | None = None,
                           atol: float | None = None, grad_nodes: Sequence[str] | None = None,
                           use_forward_train: bool = True, ctx: Context | None = None,
                           dtype: Any = np.float64) -> None:
    """Compare a symbol's gradients with central differences along one random direction an argument.

    Args:
        sym: a symbol whose outputs depend smoothly on its arguments.
        location: values of the arguments, in order or by name.
        aux_states: values of the auxiliary states.
        numeric_eps: step of the difference; 1e-6 for float64, 1e-2 otherwise.
        rtol, atol: tolerances; 1e-5 and 1e-7 for float64, 1e-2 and 1e-3 otherwise.
        grad_nodes: names of the arguments to check; all when None.
        use_forward_train: run the forward as for training.
        dtype: element type of the computation.
    """
    exact = np.dtype(dtype) == np.float64
    eps = numeric_eps or (1e-6 if exact else 1e-2)
    rtol = rtol or (1e-5 if exact else 1e-2)
    atol = atol or (1e-7 if exact else 1e-3)
    executor = _bind(sym, location, aux_states, ctx, dtype, "write")
    states = {name: array.copy() for name, array in executor.aux_dict.items()}

    def forward() -> list[NDArray]:
        for name, array in states.items():  # a training forward may change them
            executor.aux_dict[name][:] = array
        mx_random.seed(17)  # draw the same dropout masks each time
        outputs: list[NDArray] = executor.forward(is_train=use_forward_train)
        return outputs

    heads = [np.random.normal(size=output.shape) for output in forward()]
    executor.backward([nd.array(head, ctx=output.context, dtype=output.dtype)
                       for head, output in zip(heads, executor.outputs, strict=True)])
    found = {name: grad.asnumpy() for name, grad in executor.grad_dict.items()
             if grad is not None}

    def projected() -> float:
        return float(sum((head * output.asnumpy().astype(np.float64)).sum()
                         for head, output in zip(heads, forward(), strict=True)))

    for name in grad_nodes or list(found):
        array = executor.arg_dict[name]
        middle = array.asnumpy()
        direction = np.random.normal(size=array.shape)
        values = []
        for step in (eps, -eps):
            array[:] = (middle + step * direction).astype(middle.dtype)
            values.append(projected())
        array[:] = middle
        numeric = (values[0] - values[1]) / (2 * eps)
        assert_almost_equal(np.array(numeric), np.array((found[name] * direction).sum()), rtol,
                            atol, (f"numeric {name}", "backward"))
