"""Calling operators on arrays: wait for inputs, run, wrap, record.

The arrays are NDArrays; their class is not named here, since it calls this room.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import tape
from ..base import ArgumentError, ArgumentValueError, MXNetError, ShapeError
from ..context import Context, current_context
from ..device import device_of
from ..device.engine import Failure
from ..dispatch import call as dispatch_call
from ..dispatch import observing, prepared
from ..ops import Attrs, Operator
from ..ops.storage import RowPatch, Stored, put_rows
from .kinds import ArrayBase, follow, known, wrap
from .lost import lost_results

__all__ = ["invoke", "nd_call"]

_HOST = ("cpu", "cpu_pinned", "cpu_shared")


def invoke(
    op: Operator,
    inputs: Sequence[Any],
    attrs: Attrs,
    out: Any = None,
    ctx: Context | None = None,
) -> Any:
    """Call an operator on NDArrays: wait for inputs, run, wrap, record.

    Args:
        op: the record. inputs: its arrays in order. attrs: complete attributes.
        out: array(s) to write the visible outputs into; their shapes must agree.
        ctx: where to compute when there are no inputs.

    Returns:
        One NDArray, or a list where the operator has several visible outputs.
    """
    flags = tape.state
    if op.needs_training:
        attrs = {**attrs, "training": flags.training}
    steps = prepared(op)
    if steps is not None and out is None:
        result = steps(inputs, attrs)
        if result is not None:
            return result  # type: ignore[no-any-return]
    if op.programs is not None and out is None and inputs and observing.observer is None:
        queued = op.programs.queue(inputs, device_of(inputs[0]._ctx))
        if queued is not None:
            return _pending(op, inputs, attrs, *queued)
    raws = []
    failure = None
    if inputs:
        ctx = inputs[0]._ctx
        for x in inputs:
            var = x._var
            if var is not None and var.busy:
                failure = var.lost() or failure
            if x._ctx is not ctx and x._ctx != ctx:
                _check_contexts(op, inputs)
            raws.append(x._data)
    elif ctx is None:
        ctx = current_context()
    if op.mutates:
        names = op.input_names * len(inputs) if op.variadic else op.input_names
        for name, x in zip(names, inputs, strict=False):
            if name in op.mutates and failure is None:
                x._to_write()
    device = device_of(ctx)
    if steps is not None and out is not None and not flags.recording and failure is None:
        targets = _targets(op, out)
        if device.type == "cpu" and steps.into(raws, attrs, [x._to_write() for x in targets]):
            return targets[0] if op.visible(attrs) == 1 else targets
    if failure is None:
        try:
            results = dispatch_call(op, raws, attrs, device)
        except MXNetError as error:
            if not error.late:
                raise
            failure = Failure(error, late=True)
    if failure is not None:
        results = lost_results(op, raws, attrs, device, failure)
    visible = op.visible(attrs)
    visibles = [_own(raw, raws, device) for raw in results[:visible]]
    if out is None:
        outputs = [wrap(raw, ctx) for raw in visibles]
        if known.numpy is not None:
            follow(inputs, outputs)
    else:
        outputs = _write_out(op, visibles, out)
    if flags.recording:
        sources = tuple([tape.alive(x._ag) for x in inputs])
        if any(sources):
            kept = (*visibles, *results[visible:])
            entry = tape.append(op, attrs, device, sources, tuple(raws), kept)
            for i, output in enumerate(outputs):
                output._ag = tape.Output(entry, i)
    if failure is not None:
        mutated = [x for name, x in zip(op.input_names, inputs, strict=False)
                   if name in op.mutates]
        for x in (*outputs, *mutated):
            x._variable().fail(failure)
    return outputs[0] if visible == 1 else outputs


def _pending(op: Operator, inputs: Sequence[Any], attrs: Attrs, results: tuple[Any, ...],
             order: tuple[Any, ...]) -> Any:
    """The arrays of a call that was queued: who reads them waits for it."""
    ctx = inputs[0]._ctx
    visible = op.visible(attrs)
    outputs = [known.plain(raw, ctx) for raw in results[:visible]]
    if known.numpy is not None:
        follow(inputs, outputs)
    for output in outputs:
        output._var = order[-1]
    if tape.state.recording:
        sources = tuple([tape.alive(x._ag) for x in inputs])
        if any(sources):
            entry = tape.append(op, attrs, device_of(ctx), sources,
                                tuple([x._data for x in inputs]), results)
            entry.order = order
            for i, output in enumerate(outputs):
                output._ag = tape.Output(entry, i)
    return outputs[0] if visible == 1 else outputs


def _own(raw: Any, raws: list[Any], device: Any) -> Any:
    """A contiguous array that shares no memory with the inputs (bodies may return views)."""
    if isinstance(raw, Stored):
        return raw.copy() if any(raw is given for given in raws) else raw
    base = raw.base
    if base is None:
        for given in raws:
            if raw is given:
                return raw.copy()
        return raw if raw.flags.c_contiguous else device.array(raw)
    for given in raws:
        if raw is given or base is given or base is given.base:
            return device.array(raw)
    return raw if raw.flags.c_contiguous else device.array(raw)


def _check_contexts(op: Operator, inputs: Sequence[Any]) -> None:
    contexts = {x._ctx for x in inputs}
    ids = {x._ctx.device_id for x in inputs}
    if len(ids) > 1 or any(ctx.device_type not in _HOST for ctx in contexts):
        places = ", ".join(str(x._ctx) for x in inputs)
        raise ArgumentValueError(
            f"{op.name}: all arrays must be on one context, got {places}; "
            "move them with .as_in_context(ctx)"
        )


def _targets(op: Operator, out: Any) -> list[Any]:
    """``out=`` as a list of arrays."""
    targets = [out] if isinstance(out, ArrayBase) else list(out) if isinstance(
        out, (list, tuple)) else [None]
    for target in targets:
        if not isinstance(target, ArrayBase):
            raise ArgumentError(f"{op.name}: out=: expected an NDArray or a list of them, "
                                f"got {out!r}")
    return targets


def _write_out(op: Operator, raws: list[Any], out: Any) -> list[Any]:
    targets = _targets(op, out)
    if len(targets) != len(raws):
        raise ArgumentError(f"{op.name}: out= needs {len(raws)} arrays, got {len(targets)}")
    for target, raw in zip(targets, raws, strict=True):
        if target.shape != raw.shape:
            raise ShapeError(f"{op.name}: out= has shape {target.shape}, the result {raw.shape}")
        if type(raw) is RowPatch and raw.whole is target._to_write():
            put_rows(device_of(target._ctx).xp, raw.whole, raw.indices, raw.data)
        else:
            target._write(raw)
    return targets


def nd_call(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What calling an operator means for NDArrays: ``nd.X(...)`` and ``x.X(...)``."""
    out = ctx = None
    if not kwargs:
        if len(args) == len(op.input_names) and not (op.required or op.needs_training):
            steps = prepared(op)
            if steps is not None:
                result = steps(args, op.defaults)
                if result is not None:
                    return result
    else:
        out = kwargs.pop("out", None)
        kwargs.pop("name", None)
        if "ctx" in kwargs:
            ctx = kwargs.pop("ctx")
            ctx = None if ctx is None else Context(ctx) if isinstance(ctx, str) else ctx
        if op.needs_training:
            kwargs.pop("training", None)
    inputs, attrs = op.bind(args, kwargs)
    if out is not None and not op.input_names and not attrs.get("shape", True):
        attrs = {**attrs, "shape": _targets(op, out)[0].shape}  # nd.random.uniform(0, 1, out=x)
    for place, value in enumerate(inputs):
        if not isinstance(value, ArrayBase):
            raise _not_an_array(op, place, value)
    if len(inputs) != len(op.input_names):
        op.check_inputs(inputs, attrs)
    return invoke(op, inputs, attrs, out, ctx)


def _not_an_array(op: Operator, place: int, value: Any) -> Exception:
    name = op.input_names[min(place, len(op.input_names) - 1)]
    if value is None:
        return ArgumentError(f"{op.name}: missing input '{name}'; signature: {op.usage()}")
    kind = ArgumentValueError if type(value).__name__ == "Symbol" else ArgumentError
    return kind(
        f"{op.name}: input '{name}': expected an NDArray, got {type(value).__name__}; "
        "wrap NumPy arrays and numbers with nd.array()"
    )
