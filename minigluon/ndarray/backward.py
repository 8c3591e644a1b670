"""Going back: from heads to the gradient arrays of the variables they were computed from.

The arrays are NDArrays; their class is not named here, since it calls this room.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import tape
from ..base import ArgumentValueError, MXNetError, ShapeError
from ..context import current_context
from ..device import device_of
from ..device.cpu import native
from ..device.engine import Failure
from ..dispatch import raw_face
from ..ops.storage import STORED, fill

__all__ = ["as_it_is", "deliver", "heads_of", "raw_face_of", "run_backward"]


def run_backward(
    heads: Sequence[Any],
    head_grads: Sequence[Any | None] | None = None,
    retain_graph: bool = False,
) -> None:
    """Write the gradients of all variables reached from `heads` into their ``grad`` arrays."""
    for head in heads:
        failure = head._lost()
        if failure is not None:
            return _fail_gradients(heads, failure)
    try:
        if native.enabled and native.core.backward(list(heads), head_grads, retain_graph,
                                                   raw_face_of, deliver):
            return
        _walk(heads, head_grads, retain_graph)
    except MXNetError as error:
        if not error.late:
            raise
        _fail_gradients(heads, Failure(error, late=True))


def _walk(heads: Sequence[Any], head_grads: Sequence[Any | None] | None, retain_graph: bool
          ) -> None:
    sources, grads = heads_of(heads, head_grads)
    raw_grads = [grad._sync() for grad in grads]
    found = tape.walk(sources, raw_grads, raw_face_of, as_it_is, retain_graph)
    for leaf, grad in found.values():
        if type(leaf) is tape.Leaf:
            deliver(leaf, grad)


def _fail_gradients(heads: Sequence[Any], failure: Failure) -> None:
    """What should have been written into the gradients of all variables reached is lost."""
    sources = [head._ag for head in heads if head._ag is not None]
    reached = [*sources, *(source for entry in tape.order(sources) for source in entry.sources)]
    for leaf in reached:
        if type(leaf) is tape.Leaf and leaf.grad is not None and leaf.req != "null":
            leaf.grad._variable().fail(failure)
            leaf.fresh = True


def deliver(leaf: tape.Leaf, grad: Any) -> None:
    """Write or add a raw gradient into a variable's gradient array, in its dtype; None is zero."""
    if leaf.grad is None or leaf.req == "null":
        return
    raw = leaf.grad._to_write()
    if grad is None:
        if leaf.req == "write":
            leaf.grad._write(0)
    elif type(raw) in STORED or type(grad) in STORED:
        fill(device_of(leaf.grad._ctx).xp, raw, grad, leaf.req == "add")
    elif leaf.req == "add":
        raw += grad.astype(raw.dtype, copy=False)
    else:
        raw[...] = grad.reshape(raw.shape)
    leaf.fresh = True


def heads_of(
    heads: Sequence[Any], head_grads: Sequence[Any | None] | None
) -> tuple[list[Any], list[Any]]:
    """Where each head came from, and its gradient (ones where none is given)."""
    given = [None] * len(heads) if head_grads is None else list(head_grads)
    if len(given) != len(heads):
        raise ArgumentValueError(
            f"backward: {len(heads)} heads but {len(given)} head gradients"
        )
    sources, grads = [], []
    for head, grad in zip(heads, given, strict=True):
        if head._ag is None:
            raise tape.GradientError(
                "backward: this array was not computed inside autograd.record() from an array "
                "with attach_grad(); nothing to differentiate"
            )
        if grad is None:
            ones = device_of(head._ctx).run(_ones_like, [head._sync()], {})
            grad = head._dense(ones)
        elif grad.shape != head.shape:
            raise ShapeError(
                f"backward: head has shape {head.shape}, its head gradient {grad.shape}"
            )
        sources.append(head._ag)
        grads.append(grad)
    return sources, grads


def raw_face_of(device: Any) -> Any:
    """Raw F for the device of a remembered call; None, for a bare variable, is the current one."""
    return raw_face(device if device is not None else device_of(current_context()))


def _ones_like(xp: Any, array: Any) -> Any:
    return xp.ones(array.shape, array.dtype)


def as_it_is(raw: Any, source: Any, device: Any) -> Any:
    """The value raw rules work with: the remembered array itself."""
    return raw
