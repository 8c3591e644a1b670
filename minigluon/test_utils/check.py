"""Checking symbols and operators: forward, backward, numeric gradients, one device with another."""
from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import autograd
from .. import ndarray as nd
from .. import random as mx_random
from ..base import ArgumentError, ArgumentValueError
from ..context import Context
from ..ndarray import NDArray
from ..symbol import Executor, Symbol, Variable
from .compare import (
    Host,
    Tolerance,
    assert_almost_equal,
    compare_ndarray_tuple,
    default_atols,
    default_dtype,
    default_numeric_eps,
    default_rtols,
    get_atol,
    get_rtol,
    get_tolerance,
    host,
)
from .draw import rand_ndarray
from .tools import default_context

__all__ = [
    "check_consistency", "check_gluon_hybridize_consistency", "check_numeric_gradient",
    "check_speed", "check_symbolic_backward", "check_symbolic_forward", "compare_optimizer",
    "numeric_grad", "same_symbol_structure", "simple_forward",
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


# -- one way with another --------------------------------------------------------------------------

def _filled(shape: Sequence[int], scale: float, uniform: bool, kind: Any) -> Host:
    made = (np.random.uniform(-scale, scale, shape) if uniform
            else np.random.normal(0, scale, shape))
    return np.asarray(made, dtype=kind)


def check_consistency(sym: Symbol | Sequence[Symbol], ctx_list: Sequence[Mapping[str, Any]],
                      scale: float = 1.0, grad_req: Any = "write",
                      arg_params: Mapping[str, Any] | None = None,
                      aux_params: Mapping[str, Any] | None = None, rtol: Tolerance = None,
                      atol: Tolerance = None, raise_on_err: bool = True,
                      ground_truth: Mapping[str, Any] | None = None, equal_nan: bool = False,
                      use_uniform: bool = False, rand_type: Any = np.float64
                      ) -> dict[str, NDArray]:
    """Compare the outputs and gradients of a symbol on several contexts or in several types.

    Args:
        sym: a symbol, or one for each run with the same arguments and outputs.
        ctx_list: one dict for each run: 'ctx', shapes by name, and 'type_dict', types by name.
        scale: deviation of random arguments. grad_req: as for ``simple_bind``.
        arg_params, aux_params: values instead of random ones. rtol, atol: tolerances, by the type
            of each run when None. raise_on_err: otherwise differences are printed only.
        ground_truth: results to compare with; those of the widest type when None.
        equal_nan: nan equals nan. use_uniform: draw evenly. rand_type: type of what is drawn.

    Returns:
        Outputs and gradients by name, to which all others were compared.

    >>> import minigluon as mx
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    >>> runs = [{"ctx": mx.cpu(), "data": (2, 3), "type_dict": {"data": kind}}
    ...         for kind in (np.float32, np.float64)]
    >>> sorted(check_consistency(net, runs, scale=0.1))
    ['data', 'fc_bias', 'fc_output', 'fc_weight']
    """
    if len(ctx_list) < 2:
        raise AssertionError(f"ctx_list: expected two runs or more, got {len(ctx_list)}")
    symbols = [sym] * len(ctx_list) if isinstance(sym, Symbol) else list(sym)
    if len(symbols) != len(ctx_list):
        raise AssertionError(f"expected one symbol for each of {len(ctx_list)} runs, got "
                             f"{len(symbols)}")
    first = symbols[0]
    for other in symbols[1:]:
        if (other.list_arguments() != first.list_arguments()
                or other.list_outputs() != first.list_outputs()):
            raise AssertionError(
                f"symbols differ: arguments {first.list_arguments()} and "
                f"{other.list_arguments()}, outputs {first.list_outputs()} and "
                f"{other.list_outputs()}; give them the same names")
    runs = [one.simple_bind(grad_req=grad_req, **run)
            for one, run in zip(symbols, ctx_list, strict=True)]
    _fill(runs, dict(arg_params or {}), dict(aux_params or {}), scale, use_uniform, rand_type)
    for run in runs:
        run.forward(is_train=grad_req != "null")
        if grad_req != "null":
            run.backward(run.outputs)
    types = [np.dtype(run.outputs[0].dtype) for run in runs]
    widest = int(np.argmax([kind.itemsize for kind in types]))
    truth: dict[str, Any] = dict(ground_truth) if ground_truth is not None else _results(
        runs[widest], grad_req)
    for number, run in enumerate(runs):
        if number == widest and ground_truth is None:
            continue
        for name, array in _results(run, grad_req).items():
            if name not in truth:
                continue
            try:
                target = host(truth[name]).astype(types[number])
                assert_almost_equal(
                    array.asnumpy(), target, get_tolerance(array, rtol, default_rtols()),
                    get_tolerance(array, atol, default_atols()),
                    (f"ctx_{number}_{name}", f"ctx_{widest}_{name}"), equal_nan)
            except AssertionError as error:
                print(f"Predict Err: ctx {number} vs ctx {widest} at {name}")
                if raise_on_err:
                    raise
                print(error)
    return truth


def _results(run: Executor, grad_req: Any) -> dict[str, NDArray]:
    found = {name: array.copy() for name, array in run.output_dict.items()}
    if grad_req != "null":
        found.update({name: grad.copy() for name, grad in run.grad_dict.items()
                      if grad is not None})
    return found


def _fill(runs: Sequence[Executor], args: dict[str, Any], states: dict[str, Any], scale: float,
          uniform: bool, kind: Any) -> None:
    for name, array in runs[0].arg_dict.items():
        if name not in args:
            args[name] = _filled(array.shape, scale, uniform, kind)
    for name, array in runs[0].aux_dict.items():
        states.setdefault(name, np.zeros(array.shape))
    for run in runs:
        for values, places in ((args, run.arg_dict), (states, run.aux_dict)):
            for name, array in places.items():
                array[:] = nd.array(host(values[name]), ctx=array.context, dtype=array.dtype)
        for grad in run.grad_dict.values():
            if grad is not None:
                grad[:] = 0


def check_gluon_hybridize_consistency(net_builder: Callable[..., Any], data_l: Sequence[NDArray],
                                      numpy_func: Callable[..., Any] | None = None,
                                      test_grad: bool = True, rtol: float = 1e-4,
                                      atol: float = 1e-4) -> None:
    """Compare a block that is hybridized with itself as it is: outputs, and gradients of inputs.

    Args:
        net_builder: makes the block; it takes ``params=``, the parameters to share, and
            ``prefix=``. data_l: its inputs. numpy_func: what the outputs are by NumPy, or None.
        test_grad: compare gradients, too. rtol, atol: tolerances.
    """
    results = []
    values: dict[str, NDArray] = {}
    for hybridize in (False, True):
        net = net_builder(prefix="net_")
        net.initialize()
        if hybridize:
            net.hybridize()
        inputs = [data.copy() for data in data_l]
        for data in inputs:
            data.attach_grad()
        net(*inputs)
        for name, parameter in net.collect_params().items():
            if name in values:
                parameter.set_data(values[name])
            else:
                values[name] = parameter.data().copy()
        with autograd.record():
            out = net(*inputs)
        if test_grad:
            out.backward()
        results.append([out.asnumpy(), *(data.grad.asnumpy() for data in inputs if test_grad)])
    for plain, compiled in zip(*results, strict=True):
        assert_almost_equal(plain, compiled, rtol, atol, ("plain", "hybridized"))
    if numpy_func is not None:
        assert_almost_equal(numpy_func(*(data.asnumpy() for data in data_l)), results[0][0], rtol,
                            atol, ("numpy", "plain"))


def same_symbol_structure(sym1: Symbol, sym2: Symbol) -> bool:
    """Whether two symbols run the same operators in the same order, whatever the names."""
    return _operators(sym1) == _operators(sym2)


def _operators(sym: Symbol) -> list[str]:
    return [node["op"] for node in json.loads(sym.tojson())["nodes"]]


def check_speed(sym: Symbol, location: Mapping[str, Any] | None = None, ctx: Context | None = None,
                N: int = 20, grad_req: Any = None, typ: str = "whole", **kwargs: Any) -> float:
    """Seconds that a symbol takes, on average over `N` runs.

    Args:
        sym: the symbol. location: its arguments by name; random ones of the shapes in `kwargs`
            when None. ctx: context. grad_req: 'write' when None.
        typ: 'whole', forward and backward, or 'forward'.
    """
    if typ not in ("whole", "forward"):
        raise ArgumentValueError('typ can only be "whole" or "forward".')
    ctx = ctx or default_context()
    shapes = kwargs if location is None else {name: host(value).shape
                                              for name, value in location.items()}
    executor = sym.simple_bind(grad_req="write" if grad_req is None else grad_req, ctx=ctx,
                               **shapes)
    given = location or {name: np.random.normal(size=array.shape)
                         for name, array in executor.arg_dict.items()}
    for name, value in given.items():
        array = executor.arg_dict[name]
        array[:] = nd.array(host(value), ctx=ctx, dtype=array.dtype)

    def once() -> None:
        executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(executor.outputs)

    once()
    nd.waitall()
    start = time.perf_counter()
    for _ in range(N):
        once()
    nd.waitall()
    return (time.perf_counter() - start) / N


def compare_optimizer(opt1: Any, opt2: Any, shape: Any, dtype: Any, w_stype: str = "default",
                      g_stype: str = "default", rtol: float = 1e-4, atol: float = 1e-5,
                      compare_states: bool = True, ntensors: int = 1) -> None:
    """Compare the weights and the states that two optimizers make of the same gradients.

    Args:
        opt1, opt2: optimizers. shape: of the weight, or a list of `ntensors` shapes.
        dtype: element type. w_stype, g_stype: storage types of weight and gradient.
        rtol, atol: tolerances. compare_states: the states, too. ntensors: how many weights at once.
    """
    shapes = list(shape) if isinstance(shape, list) else [shape] * ntensors
    if len(shapes) != ntensors:
        raise ArgumentError(f"compare_optimizer: expected {ntensors} shapes, got {len(shapes)}")
    indices = list(range(ntensors))
    weights = [_weight(one, w_stype, dtype) for one in shapes]
    grads = [_weight(one, g_stype, dtype) for one in shapes]
    runs = []
    for optimizer in (opt1, opt2):
        own = [weight.copy() for weight in weights]
        states = [optimizer.create_state_multi_precision(index, weight)
                  for index, weight in zip(indices, own, strict=True)]
        gradients = [grad.copy() for grad in grads]
        if ntensors == 1:
            optimizer.update_multi_precision(0, own[0], gradients[0], states[0])
        else:
            optimizer.update_multi_precision(indices, own, gradients, states)
        runs.append((own, states))
    if compare_states:
        compare_ndarray_tuple(_as_tuple(runs[0][1]), _as_tuple(runs[1][1]), rtol, atol)
    for first, second in zip(runs[0][0], runs[1][0], strict=True):
        assert_almost_equal(first, second, rtol, atol)


def _weight(shape: Sequence[int], stype: str, dtype: Any) -> NDArray:
    made = nd.array(np.random.uniform(0.01, 1, shape), dtype=dtype or default_dtype())
    return made if stype == "default" else rand_ndarray(tuple(shape), stype, 1.0, dtype)


def _as_tuple(states: Any) -> Any:
    return tuple(map(_as_tuple, states)) if isinstance(states, (list, tuple)) else states
