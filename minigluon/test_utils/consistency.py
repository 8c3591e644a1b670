"""Comparing one way to compute with another: contexts, types, hybridization, optimizers, speed."""
from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import autograd
from .. import ndarray as nd
from ..base import ArgumentError, ArgumentValueError
from ..context import Context
from ..ndarray import NDArray
from ..symbol import Executor, Symbol
from .compare import (
    Host,
    Tolerance,
    assert_almost_equal,
    compare_ndarray_tuple,
    default_atols,
    default_dtype,
    default_rtols,
    get_tolerance,
    host,
)
from .draw import rand_ndarray
from .tools import default_context

__all__ = [
    "check_consistency", "check_gluon_hybridize_consistency", "check_speed", "compare_optimizer",
    "same_symbol_structure",
]


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
