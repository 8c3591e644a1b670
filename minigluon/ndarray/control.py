"""``nd.contrib.foreach``, ``while_loop`` and ``cond``: plain Python, recorded as it runs."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import ArgumentValueError, ShapeError
from ..nest import flatten, rebuild
from ..ops import find_operator
from .calls import nd_call
from .creation import zeros
from .ndarray import NDArray

__all__ = ["CONTROL", "cond", "foreach", "while_loop"]


def _stack(columns: list[list[NDArray]]) -> list[NDArray]:
    stack = find_operator("stack")
    return [nd_call(stack, tuple(column), {"axis": 0}) for column in columns]


def foreach(body: Callable[..., Any], data: Any, init_states: Any) -> tuple[Any, Any]:
    """Run `body` for each slice of the data along axis 0.

    Args:
        body: ``body(slice, states) -> (outputs, new states)``.
        data: an array or nested lists of them. init_states: the same, for the first step.

    Returns:
        The outputs of all steps, stacked along a new axis 0; the last states.

    >>> import minigluon as mx
    >>> x = mx.nd.array([[1], [2], [3]])
    >>> out, last = mx.nd.contrib.foreach(lambda d, s: (d + s, d + s), x, mx.nd.zeros(1))
    >>> out.asnumpy().tolist(), last.asnumpy().tolist()
    ([[1.0], [3.0], [6.0]], [6.0])
    """
    leaves, form = flatten(data, NDArray, "foreach input")
    state_leaves, _ = flatten(init_states, NDArray, "foreach states")
    if not leaves or not len(leaves[0]):
        raise ArgumentValueError("foreach: expected data with at least one step")
    if any(len(each) != len(leaves[0]) for each in leaves):
        raise ShapeError(f"foreach: expected data with as many steps each, got "
                         f"{[each.shape for each in leaves]}")
    states, rows = init_states, []
    for t in range(len(leaves[0])):
        outs, states = body(rebuild(form, [each[t] for each in leaves]), states)
        row, out_form = flatten(outs, NDArray, "foreach output")
        rows.append(row)
        new, _ = flatten(states, NDArray, "foreach new states")
        if len(new) != len(state_leaves):
            raise ArgumentValueError(f"foreach: expected {len(state_leaves)} states from the "
                                     f"body, as it was given, got {len(new)}")
    stacked = _stack([list(column) for column in zip(*rows, strict=True)])
    return rebuild(out_form, stacked), states


def _truth(value: Any, what: str) -> bool:
    if not isinstance(value, NDArray):
        return bool(value)
    if value.size != 1:
        raise ArgumentValueError(f"The current array is not a scalar: {what} has shape "
                                 f"{value.shape}")
    return bool(value.asscalar())


def while_loop(cond: Callable[..., Any], func: Callable[..., Any], loop_vars: Any,
               max_iterations: int | None = None) -> tuple[Any, Any]:
    """Run `func` on its own results while `cond` says so.

    Args:
        cond: ``cond(*loop_vars)``: an array of one element.
        func: ``func(*loop_vars) -> (outputs, new loop_vars)``.
        loop_vars: arrays for the first step. max_iterations: at most so many steps.

    Returns:
        The outputs of all steps, stacked, with zeros up to max_iterations ([] where no step was
        made); the last loop_vars.

    >>> import minigluon as mx
    >>> outs, [last] = mx.nd.contrib.while_loop(lambda i: i < 2, lambda i: (i, [i + 1]),
    ...                                         [mx.nd.zeros(1)], max_iterations=3)
    >>> outs.asnumpy().ravel().tolist(), last.asnumpy().tolist()
    ([0.0, 1.0, 0.0], [2.0])
    """
    if max_iterations is None:
        raise ArgumentValueError("max_iterations should be specified")
    try:
        max_iterations = int(max_iterations)
    except (TypeError, ValueError):
        raise ArgumentValueError("while_loop: max_iterations: expected an integer, got "
                                 f"{max_iterations!r}") from None
    leaves, form = flatten(loop_vars, NDArray, "loop_vars")
    if not leaves:
        raise ArgumentValueError("loop_vars should contain at least one element")
    single = form == 0
    rows: list[list[NDArray]] = []
    out_form: Any = []
    while len(rows) < max_iterations:
        now = rebuild(form, leaves)
        arguments = (now,) if single else tuple(now)
        if not _truth(cond(*arguments), "the condition"):
            break
        outs, new = func(*arguments)
        row, out_form = flatten([] if outs is None else outs, NDArray, "while_loop output")
        rows.append(row)
        fresh, _ = flatten(new, NDArray, "while_loop new loop_vars")
        if len(fresh) != len(leaves):
            raise ArgumentValueError(
                "The length of loop_vars should be consistent during the loop")
        leaves = fresh
    missing = max_iterations - len(rows)
    columns = []
    for column in zip(*rows, strict=True):
        like = column[0]
        blank = zeros(like.shape, like.context, like.dtype)
        columns.append([*column, *[blank] * missing])
    return rebuild(out_form, _stack(columns)), rebuild(form, leaves)


def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any]) -> Any:
    """What one of two functions returns, as an array says.

    Args:
        pred: an array of one element. then_func, else_func: functions of nothing.

    >>> import minigluon as mx
    >>> mx.nd.contrib.cond(mx.nd.ones(1), lambda: "yes", lambda: "no")
    'yes'
    """
    return then_func() if _truth(pred, "the condition") else else_func()


CONTROL = {function.__name__: function for function in (foreach, while_loop, cond)}
