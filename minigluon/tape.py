"""Calls remembered as they run: the record/train flags, tape entries, and the walk back.

The tape is not one list but a graph that hangs on the arrays themselves: an output points to the
entry that made it, an entry to its inputs. What nobody can reach any more is freed by itself.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from .base import GradientError
from .device.cpu import native
from .ops import Attrs, Operator

__all__ = ["Entry", "Leaf", "Output", "alive", "append", "order", "state", "walk"]


class _State(threading.local):
    recording: bool = False
    training: bool = False


state = _State()
"""This thread's flags: ``recording`` (calls are remembered), ``training`` (Dropout is active)."""


class Leaf:
    """A variable: an array with an attached gradient.

    Attributes:
        grad: the gradient array (an NDArray), written by backward as `req` says.
        req: 'write', 'add' or 'null'.
        array: the variable's own NDArray.
        fresh: True after a backward that reached the variable.
    """

    __slots__ = ("array", "fresh", "grad", "name", "req")

    def __init__(self, array: Any, grad: Any, req: str, name: str = "") -> None:
        self.array = array
        self.grad = grad
        self.req = req
        self.name = name
        self.fresh = False


class Entry:
    """One remembered call.

    `sources` has, for each input, the Leaf or Output it came from, or None for a constant.
    `inputs` and `outputs` are raw arrays; they are dropped once a backward has used them. `order`
    is None, or, of a call that was queued, the variables of its inputs and the one of its outputs.
    """

    __slots__ = ("attrs", "device", "inputs", "op", "order", "outputs", "sources")

    def __init__(
        self,
        op: Operator,
        attrs: Attrs,
        device: Any,
        sources: tuple[Leaf | Output | None, ...],
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.device = device
        self.sources = sources
        self.inputs: tuple[Any, ...] | None = inputs
        self.outputs: tuple[Any, ...] | None = outputs
        self.order: tuple[Any, ...] | None = None


class Output:
    """Output number `index` of an entry; what an NDArray made under record carries."""

    __slots__ = ("entry", "index")

    def __init__(self, entry: Entry, index: int) -> None:
        self.entry = entry
        self.index = index


if native.enabled:  # the same, which the core's short path makes and reads
    state, Leaf, Entry, Output = (  # type: ignore[misc]
        native.core.state, native.core.Leaf, native.core.Entry, native.core.Output)

Source = Leaf | Output


def alive(source: Source | None) -> Source | None:
    """`source`, or None where a backward has used up what made it.

    What is recorded later takes such an array as a constant, as MXNet does: a recurrent state
    carried into the next batch needs no ``detach()``.
    """
    return None if type(source) is Output and source.entry.inputs is None else source


def append(
    op: Operator,
    attrs: Attrs,
    device: Any,
    sources: tuple[Source | None, ...],
    inputs: tuple[Any, ...],
    outputs: tuple[Any, ...],
) -> Entry:
    """Remember a call; the caller hangs ``Output(entry, i)`` on the arrays it returns."""
    return Entry(op, attrs, device, sources, inputs, outputs)


def order(heads: Sequence[Source]) -> list[Entry]:
    """Entries reachable from `heads`, each after the entries it depends on (no recursion)."""
    found: list[Entry] = []
    seen: set[int] = set()
    stack: list[tuple[Entry, bool]] = [(h.entry, False) for h in heads if type(h) is Output]
    while stack:
        entry, expanded = stack.pop()
        if expanded:
            found.append(entry)
            continue
        if id(entry) in seen:
            continue
        seen.add(id(entry))
        stack.append((entry, True))
        for source in entry.sources:
            if type(source) is Output and id(source.entry) not in seen:
                stack.append((source.entry, False))
    return found


def walk(
    heads: Sequence[Source],
    head_grads: Sequence[Any],
    face_of: Callable[[Any], Any],
    wrap: Callable[[Any, Source | None, Any], Any],
    retain: bool,
    wanted: set[int] | None = None,
) -> dict[int, tuple[Leaf | Output, Any]]:
    """Go back from `heads` and gather the gradient of every variable reached.

    Args:
        heads: where to start. head_grads: their gradients, one each, as values of the face.
        face_of: ``face_of(device)`` -> the F that the gradient rules run with.
        wrap: ``wrap(raw, source, device)`` -> the face's value for a remembered raw array.
        retain: keep what was remembered, so that a second walk is possible.
        wanted: ids of sources to report besides variables (for ``autograd.grad``).

    Returns:
        id(source) -> (source, gradient), for every Leaf and every wanted Output reached. A Leaf
        that no gradient flows to (``BlockGrad``, a comparison) has None: its gradient is zero.

    Raises:
        GradientError: an operator without gradient, or a graph that a former walk has freed.
    """
    wanted = wanted or set()
    grads: dict[int, Any] = {}
    sums: dict[tuple[int, int], Any] = {}
    found: dict[int, tuple[Leaf | Output, Any]] = {}

    def give(source: Source, grad: Any, face: Any) -> None:
        if isinstance(source, Leaf):
            if source.req == "null" and id(source) not in wanted:
                return
            key = id(source)
            old = grads.get(key)
            grads[key] = grad if old is None else face.elemwise_add(old, grad)
            found[key] = (source, grads[key])
        else:
            place = (id(source.entry), source.index)
            held = sums.get(place)
            sums[place] = grad if held is None else face.elemwise_add(held, grad)

    entries = order(heads)
    for head, grad in zip(heads, head_grads, strict=True):
        device = head.entry.device if type(head) is Output else None
        give(head, grad, face_of(device))
    tracked = {(id(o.entry), o.index): o for o in _outputs_among(entries, heads, wanted)}
    unmoved = {id(leaf): leaf for entry in entries for leaf in entry.sources
               if type(leaf) is Leaf and leaf.req != "null"}
    for entry in reversed(entries):
        op = entry.op
        if entry.inputs is None or entry.outputs is None:
            raise GradientError(
                f"backward through {op.name}: this graph was already used by a backward; "
                "call backward(retain_graph=True) to keep it"
            )
        if entry.order is not None:
            entry.order[-1].wait()
        dy = [sums.pop((id(entry), i), None) for i in range(len(entry.outputs))]
        for i, grad in enumerate(dy):
            output = tracked.get((id(entry), i))
            if output is not None and grad is not None:
                found[id(output)] = (output, grad)
        if all(grad is None for grad in dy):
            _drop(entry, retain)
            continue
        if op.gradient is None:
            raise GradientError(
                f"{op.name} is not differentiable: it has no gradient rule; "
                "cut the graph with stop_gradient (BlockGrad) or detach()"
            )
        face = face_of(entry.device)
        inputs = [wrap(raw, source, entry.device)
                  for raw, source in zip(entry.inputs, entry.sources, strict=True)]
        outs = [wrap(raw, Output(entry, i), entry.device) for i, raw in enumerate(entry.outputs)]
        if op.single:
            results = op.gradient(face, dy[0], outs[0], *inputs, **entry.attrs)
        else:
            results = op.gradient(face, dy, outs, *inputs, **entry.attrs)
        for source, grad in zip(entry.sources, results, strict=True):
            if source is not None and grad is not None:
                give(source, grad, face)
        _drop(entry, retain)
    for key, leaf in unmoved.items():
        found.setdefault(key, (leaf, None))
    return found


def _drop(entry: Entry, retain: bool) -> None:
    if not retain:
        entry.inputs = entry.outputs = None


def _outputs_among(entries: Sequence[Entry], heads: Sequence[Source], wanted: set[int]
                   ) -> list[Output]:
    """The wanted Outputs that hang on these entries."""
    candidates = [source for entry in entries for source in entry.sources]
    return [source for source in (*candidates, *heads)
            if type(source) is Output and id(source) in wanted]
