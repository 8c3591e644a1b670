"""Checking symbols and operators: forward, backward, numeric gradients."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from .. import random as mx_random
from ..base import ArgumentValueError
from ..context import Context
from ..ndarray import NDArray
from ..symbol import Executor, Symbol, Variable
from .compare import (
    Host,
    Tolerance,
    assert_almost_equal,
    default_numeric_eps,
    get_atol,
    get_rtol,
    host,
)
from .draw import rand_ndarray
from .tools import default_context

__all__ = [
    "check_numeric_gradient", "check_symbolic_backward", "check_symbolic_forward", "numeric_grad",
    "simple_forward",
]

Values = Any
_PROJECTION = "__random_proj"


# -- reading what is given -------------------------------------------------------------------------

def _element_type(value: Any, dtype: Any) -> Any:
    """The type an array of a check has: `dtype`, or its own for 'asnumpy' and for sparse ones."""
    return np.asarray(host(value)).dtype if isinstance(dtype, str) and dtype == "asnumpy" else dtype


def _placed(value: Any, ctx: Context, dtype: Any) -> NDArray:
    if isinstance(value, NDArray) and value.stype != "default":
        return value.as_in_context(ctx)
    return nd.array(host(value), ctx=ctx, dtype=_element_type(value, dtype))


def _arguments(sym: Symbol, location: Values, ctx: Context, dtype: Any) -> dict[str, NDArray]:
    """The arguments of a symbol by name, from a list in order or a dict."""
    names = sym.list_arguments()
    if isinstance(location, Mapping):
        if set(location) != set(names):
            raise ArgumentValueError("Symbol arguments and keys of the given location do not "
                                     f"match.symbol args:{set(names)}, location.keys():"
                                     f"{set(location)}")
        return {name: _placed(location[name], ctx, dtype) for name in names}
    if not isinstance(location, (list, tuple)):
        raise AssertionError(f"location: expected a list or a dict, got {type(location).__name__}")
    return {name: _placed(value, ctx, dtype)
            for name, value in zip(names, location, strict=False)}


def _states(sym: Symbol, given: Values, ctx: Context, dtype: Any) -> dict[str, NDArray]:
    names = sym.list_auxiliary_states()
    if given is None:
        return {}
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise ArgumentValueError("Symbol aux_states names and given aux_states do not match."
                                     f"symbol aux_names:{set(names)}, aux_states.keys:"
                                     f"{set(given)}")
        return {name: _placed(value, ctx, dtype) for name, value in given.items()}
    return {name: _placed(value, ctx, dtype) for name, value in zip(names, given, strict=False)}


def _check_dtype(dtype: Any) -> None:
    if not isinstance(dtype, str) and np.dtype(dtype).kind != "f":
        raise AssertionError(f"dtype: expected np.float16, np.float32 or np.float64, got {dtype}")


# -- forward and backward --------------------------------------------------------------------------

def simple_forward(sym: Symbol, ctx: Context | None = None, is_train: bool = False,
                   **inputs: Any) -> Any:
    """The outputs of a symbol for given inputs, as one NumPy array or a list of them."""
    ctx = ctx or default_context()
    executor = sym.bind(ctx, {name: nd.array(host(value), ctx=ctx)
                              for name, value in inputs.items()})
    outputs = [output.asnumpy() for output in executor.forward(is_train=is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def check_symbolic_forward(sym: Symbol, location: Values, expected: Values,
                           rtol: Tolerance = None, atol: Tolerance = None,
                           aux_states: Values = None, ctx: Context | None = None,
                           equal_nan: bool = False, dtype: Any = np.float32) -> list[NDArray]:
    """Compare the outputs of a symbol with `expected`; returns the outputs.

    Args:
        sym: the symbol. location: its arguments, in order or by name.
        expected: its outputs, in order or by output name.
        rtol, atol, equal_nan: as for `assert_almost_equal`.
        aux_states: its auxiliary states, in order or by name.
        dtype: element type of the arguments; 'asnumpy' leaves them as they are.
    """
    _check_dtype(dtype)
    ctx = ctx or default_context()
    args = _arguments(sym, location, ctx, dtype)
    names = sym.list_outputs()
    wanted = [expected[name] for name in names] if isinstance(expected, Mapping) else expected
    executor = sym.bind(ctx, args, {name: nd.zeros(array.shape, ctx=ctx, dtype=array.dtype)
                                    for name, array in args.items()},
                        aux_states=_states(sym, aux_states, ctx, dtype) or None)
    outputs: list[NDArray] = executor.forward(is_train=False)
    for name, target, output in zip(names, wanted, outputs, strict=False):
        assert_almost_equal(host(target), output.asnumpy(), rtol, atol,
                            (f"EXPECTED_{name}", f"FORWARD_{name}"), equal_nan)
    return outputs


def _requests(grad_req: Any, names: Sequence[str]) -> dict[str, str]:
    if isinstance(grad_req, str):
        return dict.fromkeys(names, grad_req)
    if isinstance(grad_req, Mapping):
        return dict(grad_req)
    return dict(zip(names, grad_req, strict=True))


def check_symbolic_backward(sym: Symbol, location: Values, out_grads: Values, expected: Values,
                            rtol: Tolerance = None, atol: Tolerance = None,
                            aux_states: Values = None, grad_req: Any = "write",
                            ctx: Context | None = None,
                            grad_stypes: Mapping[str, str] | None = None,
                            equal_nan: bool = False, dtype: Any = np.float32
                            ) -> dict[str, NDArray]:
    """Compare the gradients of a symbol's arguments with `expected`; returns the gradients.

    Args:
        sym, location, rtol, atol, aux_states, equal_nan, dtype: as for `check_symbolic_forward`.
        out_grads: gradients of the outputs, in order or by output name; None for losses.
        expected: gradients of the arguments, in order or by name; those not named are not asked.
        grad_req: 'write', 'add' (the gradients start as random numbers, to which backward adds) or
            'null' (they keep them), for all arguments, in order or by name.
        grad_stypes: storage types of the gradients, by argument.
    """
    _check_dtype(dtype)
    ctx = ctx or default_context()
    args = _arguments(sym, location, ctx, dtype)
    names = sym.list_arguments()
    wanted = expected if isinstance(expected, Mapping) else dict(zip(names, expected,
                                                                     strict=False))
    stypes = grad_stypes or {}
    grads = {name: rand_ndarray(args[name].shape, stypes.get(name, "default"), 0.0 if
                                stypes.get(name, "default") != "default" else None,
                                args[name].dtype, ctx=ctx) for name in wanted}
    before = {name: grad.asnumpy() for name, grad in grads.items()}
    requests = _requests(grad_req, names)
    executor = sym.bind(ctx, args, grads, {name: requests.get(name, "null") if name in wanted
                                           else "null" for name in names},
                        aux_states=_states(sym, aux_states, ctx, dtype) or None)
    outputs = executor.forward(is_train=True)
    heads = None
    if out_grads is not None:
        listed = ([out_grads[name] for name in sym.list_outputs()]
                  if isinstance(out_grads, Mapping) else out_grads)
        heads = [_placed(head, ctx, output.dtype)
                 for head, output in zip(listed, outputs, strict=False)]
    executor.backward(heads)
    for name, value in wanted.items():
        request = requests.get(name, "null")
        target = before[name] if request == "null" else host(value)
        if request == "add":
            target = target + before[name]
        assert_almost_equal(target, grads[name].asnumpy(), rtol, atol,
                            (f"EXPECTED_{name}", f"BACKWARD_{name}"), equal_nan)
    return grads


# -- numeric gradients -----------------------------------------------------------------------------

def numeric_grad(executor: Executor, location: Mapping[str, Any], aux_states: Values = None,
                 eps: float = 1e-4, use_forward_train: bool = True, dtype: Any = np.float32
                 ) -> dict[str, Host]:
    """Central differences of the sum of an executor's first output, element by element.

    Args:
        executor: bound. location: values of its float arguments by name.
        aux_states: values of its states, put back before every forward.
        eps: how far apart the two forwards are. use_forward_train: run them as for training.
        dtype: element type of the result.
    """
    ctx = executor.arg_arrays[0].context
    middle = {name: _placed(value, ctx, dtype).asnumpy() for name, value in location.items()}
    states = {name: host(value) for name, value in (aux_states or {}).items()}

    def total(name: str, values: Host) -> float:
        executor.arg_dict[name][:] = nd.array(values, ctx=ctx, dtype=values.dtype)
        for state, kept in states.items():
            executor.aux_dict[state][:] = nd.array(kept, ctx=ctx, dtype=kept.dtype)
        mx_random.seed(17)  # draw the same dropout masks each time
        outputs = executor.forward(is_train=use_forward_train)
        return float(outputs[0].asnumpy().astype(np.float64).sum())

    for name, values in middle.items():
        executor.arg_dict[name][:] = nd.array(values, ctx=ctx, dtype=values.dtype)
    found = {}
    for name, values in middle.items():
        if values.dtype.kind != "f":
            continue
        slopes = np.zeros(values.shape, dtype)
        for place in np.ndindex(values.shape):
            moved = values.copy()
            sides = []
            for step in (eps / 2, -eps / 2):
                moved[place] = values[place] + step
                sides.append((moved[place].item(), total(name, moved)))
            (up, above), (down, below) = sides
            slopes[place] = (above - below) / (up - down)
        executor.arg_dict[name][:] = nd.array(values, ctx=ctx, dtype=values.dtype)
        found[name] = slopes
    return found


def _wanted_nodes(grad_nodes: Any, sym: Symbol) -> dict[str, str]:
    if grad_nodes is None:
        return dict.fromkeys(sym.list_arguments(), "write")
    if isinstance(grad_nodes, Mapping):
        return dict(grad_nodes)
    if isinstance(grad_nodes, (list, tuple)):
        return dict.fromkeys(grad_nodes, "write")
    raise ArgumentValueError(f"grad_nodes: expected names in a list or requests in a dict, "
                             f"got {grad_nodes!r}")


def check_numeric_gradient(sym: Symbol, location: Values, aux_states: Values = None,
                           numeric_eps: float | None = None, rtol: Tolerance = None,
                           atol: Tolerance = None, grad_nodes: Any = None,
                           use_forward_train: bool = True, ctx: Context | None = None,
                           grad_stype_dict: Mapping[str, str] | None = None,
                           dtype: Any = np.float32) -> None:
    """Compare a symbol's gradients with central differences, element by element.

    The outputs are weighted at random and summed, so all of them count.

    Args:
        sym: a symbol with one output that depends smoothly on its arguments.
        location: values of the arguments, in order or by name.
        aux_states: values of the auxiliary states.
        numeric_eps: how far apart the two forwards are; by `dtype` when None.
        rtol, atol: tolerances; by `dtype` when None.
        grad_nodes: names of the arguments to check, or requests ('write', 'add', 'null') by name;
            all when None.
        use_forward_train: run the forwards as for training.
        grad_stype_dict: storage types of the gradients, by argument.
        dtype: element type of the computation: float16, float32 or float64.
    """
    if np.dtype(dtype).kind != "f":
        raise AssertionError(f"dtype: expected np.float16, np.float32 or np.float64, got {dtype}")
    ctx = ctx or default_context()
    args = _arguments(sym, location, ctx, dtype)
    missing = [name for name in sym.list_arguments() if name not in args]
    if missing:
        raise KeyError(missing[0])
    states = _states(sym, aux_states, ctx, dtype)
    nodes = _wanted_nodes(grad_nodes, sym)
    if isinstance(location, Mapping):
        given = location
    else:
        given = dict(zip(sym.list_arguments(), location, strict=False))
    _, shapes, _ = sym.infer_shape(**{name: array.shape for name, array in args.items()})
    assert shapes is not None
    weights = np.random.rand(*shapes[0]) + 0.1
    weighted = sym * Variable(_PROJECTION)
    args[_PROJECTION] = nd.array(weights, ctx=ctx, dtype=dtype)
    stypes = grad_stype_dict or {}
    grads = {name: rand_ndarray(args[name].shape, "default", dtype=args[name].dtype, ctx=ctx)
             for name, request in nodes.items() if request != "null"}
    before = {name: grad.asnumpy() for name, grad in grads.items()}
    grads.update({name: grads[name].tostype(stype) for name, stype in stypes.items()
                  if name in grads and stype != "default"})
    executor = weighted.bind(ctx, args, grads, {name: nodes.get(name, "null") for name in args},
                             aux_states={name: array.copy() for name, array in states.items()}
                             or None)
    mx_random.seed(17)
    [output] = executor.forward(is_train=True)
    executor.backward([nd.ones(output.shape, ctx=ctx, dtype=output.dtype)])
    found = {name: executor.grad_dict[name].asnumpy() for name in grads}
    eps = default_numeric_eps()[np.dtype(dtype)] if numeric_eps is None else numeric_eps
    slopes = numeric_grad(executor, {name: given[name] for name in sym.list_arguments()
                                     if name in grads}, states, eps, use_forward_train, dtype)
    r, t = get_rtol(rtol, dtype), get_atol(atol, dtype)
    for name, grad in found.items():
        target = slopes[name]
        if nodes[name] == "add":
            grad = grad - before[name]
        elif nodes[name] != "write":
            raise ArgumentValueError(f"grad_nodes: {name}: expected 'write', 'add' or 'null', "
                                     f"got {nodes[name]!r}")
        assert_almost_equal(target, grad, r, t, (f"NUMERICAL_{name}", f"BACKWARD_{name}"))
