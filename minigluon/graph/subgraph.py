"""A graph inside a graph: compiled once for each mode, run step after step, and backwards.

What its backward reads is kept for each step, in outputs of the node behind the visible ones.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ..base import GradientError, NotForThisError
from ..dispatch import call, raw_face
from ..ops import Attrs
from ..ops.operator import MaybeShape
from .executor import CompiledGraph
from .infer import infer_dtype, infer_shape
from .ir import Entry, variables
from .serial import from_json

__all__ = ["Graph", "Loop", "added", "gradient_by", "graph_of", "input_grads_dtype",
           "input_grads_shape", "split", "stacked", "zeros_for"]

Array = Any
Shapes = list[MaybeShape]


class Graph:
    """One graph: its entries, its inputs, and its compiled forms."""

    def __init__(self, text: str) -> None:
        self.entries = from_json(text)
        self.inputs = variables(self.entries)
        self._compiled: dict[bool, CompiledGraph] = {}

    def compiled(self, training: bool) -> CompiledGraph:
        """The program for one mode; keeps what backward needs, if there is a backward."""
        if training not in self._compiled:
            try:
                made = CompiledGraph(self.entries, self.inputs, training, record=True)
            except GradientError:
                made = CompiledGraph(self.entries, self.inputs, training)
            self._compiled[training] = made
        return self._compiled[training]

    @property
    def hidden(self) -> int:
        """How many arrays are kept for backward, in the mode that keeps more."""
        return max(len(self.compiled(mode).hidden) for mode in (False, True))

    def run(self, arrays: Sequence[Array], device: Any, training: bool) -> tuple[list[Array],
                                                                                 list[Array]]:
        """Results and what is kept; inputs in the order of `inputs`."""
        graph = self.compiled(training)
        if graph.operator.mutates:
            raise NotForThisError(
                f"a loop or branch around operators that change auxiliary states "
                f"({', '.join(graph.operator.mutates)}) is not built; use use_global_stats=True")
        found = list(call(graph.operator, arrays, {}, device, training))
        return found[:len(self.entries)], found[len(self.entries):]

    def back(self, dys: Sequence[Array | None], outs: Sequence[Array], kept: Sequence[Array],
             arrays: Sequence[Array], device: Any, training: bool) -> list[Array | None]:
        """Gradients for the inputs; `kept` may have more than this mode keeps."""
        graph = self.compiled(training)
        count = len(graph.hidden)
        rule = graph.operator.gradient
        assert rule is not None
        full = [*outs, *kept[:count]]
        given = [*dys, *[None] * count]
        if graph.operator.single:
            return list(rule(raw_face(device), given[0], full[0], *arrays))
        return list(rule(raw_face(device), given, full, *arrays))

    def shapes(self, known: Sequence[MaybeShape]) -> tuple[Shapes, Shapes]:
        """Shapes of inputs and results."""
        found = infer_shape(self.entries, dict(zip(self.inputs, known, strict=True)))
        return found.of(Entry(node, 0) for node in self.inputs), found.of(self.entries)

    def dtypes(self, known: Sequence[str | None]) -> tuple[list[Any], list[Any]]:
        """Element types of inputs and results."""
        found = infer_dtype(self.entries, dict(zip(self.inputs, known, strict=True)))
        return found.of(Entry(node, 0) for node in self.inputs), found.of(self.entries)


@lru_cache(maxsize=256)
def graph_of(text: str) -> Graph:
    return Graph(text)


def _placed(count: int, parts: Sequence[tuple[Sequence[int], Sequence[Any]]]) -> list[Any]:
    """Values by their place among a graph's inputs; place -1: the graph does not read it."""
    found: list[Any] = [None] * count
    for places, values in parts:
        for place, value in zip(places, values, strict=True):
            if place >= 0:
                found[place] = value
    return found


def added(total: Array | None, more: Array | None) -> Array | None:
    if total is None or more is None:
        return more if total is None else total
    return total + more


def zeros_for(xp: Any, grad: Array | None, like: Array) -> Array:
    return xp.zeros_like(like) if grad is None else grad.astype(like.dtype, copy=False)


def stacked(xp: Any, steps: Sequence[Sequence[Array]], count: int) -> list[Array]:
    """`count` arrays, each with one entry a step; (1,) zeros where nothing was kept."""
    found = [xp.stack(column) for column in zip(*steps, strict=True)]
    return found + [xp.zeros((1,), "float32")] * (count - len(found))


class Loop:
    """A graph run again and again: places of its inputs, and the two directions.

    Args:
        graph: results are outputs of the step, then new states.
        data, states, rest: places of the step's inputs. outputs: how many outputs.
    """

    def __init__(self, graph: Graph, data: Sequence[int], states: Sequence[int],
                 rest: Sequence[int], outputs: int) -> None:
        self.graph, self.outputs = graph, outputs
        self.places = (tuple(data), tuple(states), tuple(rest))

    def inputs(self, *parts: Sequence[Any]) -> list[Any]:
        """Data, states and the rest in the graph's order."""
        return _placed(len(self.graph.inputs), list(zip(self.places, parts, strict=True)))

    def step(self, data: Sequence[Array], states: Sequence[Array], rest: Sequence[Array],
             device: Any, training: bool) -> tuple[list[Array], list[Array], list[Array]]:
        """Outputs, new states, and what is kept."""
        found, kept = self.graph.run(self.inputs(data, states, rest), device, training)
        return found[:self.outputs], found[self.outputs:], kept

    def back(self, xp: Any, steps: int, dys: Sequence[Array], outs: Sequence[Array],
             kept: Sequence[Array], data: Sequence[Array], states: Sequence[Array],
             rest: Sequence[Array], device: Any, training: bool) -> list[Array]:
        """Gradients for data, states and the rest.

        Args:
            dys: of the outputs (stacked) and of the last states. outs: the outputs, stacked.
            kept: the states after each step, then what the graph keeps of each.
        """
        count = len(states)
        to_data: list[list[Array]] = []
        to_states: list[Array | None] = list(dys[self.outputs:])
        to_rest: list[Array | None] = [None] * len(rest)
        for t in reversed(range(steps)):
            before = [kept[i][t - 1] for i in range(count)] if t else list(states)
            now = [each[t] for each in data]
            results = [*(out[t] for out in outs), *(kept[i][t] for i in range(count))]
            memory = [array[t] if array.shape[:1] == (steps,) else array
                      for array in kept[count:]]
            arrays = self.inputs(now, before, rest)
            grads = self.graph.back([*(dy[t] for dy in dys[:self.outputs]), *to_states], results,
                                    memory, arrays, device, training)
            by_kind = [[None if place < 0 else grads[place] for place in places]
                       for places in self.places]
            to_data.append([zeros_for(xp, grad, like)
                            for grad, like in zip(by_kind[0], now, strict=True)])
            to_states = [zeros_for(xp, grad, like)
                         for grad, like in zip(by_kind[1], before, strict=True)]
            to_rest = [added(total, more)
                       for total, more in zip(to_rest, by_kind[2], strict=True)]
        columns = list(zip(*to_data[::-1], strict=True)) or [()] * len(data)
        stacked = [xp.stack(column) if column else xp.zeros_like(like)
                   for column, like in zip(columns, data, strict=True)]
        others = zip([*to_states, *to_rest], [*states, *rest], strict=True)
        return [*stacked, *(zeros_for(xp, grad, like) for grad, like in others)]


def split(values: Sequence[Any], *counts: int) -> list[list[Any]]:
    """Consecutive pieces of these lengths, and what remains."""
    pieces, start = [], 0
    for count in counts:
        pieces.append(list(values[start:start + count]))
        start += count
    return [*pieces, list(values[start:])]


def _present(F: Any, dy: Sequence[Any], out: Sequence[Any], count: int) -> list[Any]:
    return [F.zeros_like(out[i]) if dy[i] is None else dy[i] for i in range(count)]


def gradient_by(name: str) -> Callable[..., list[Any]]:
    """The gradient rule of one of the operators: one call of ``NAME_grad``."""

    def rule(F: Any, dy: Sequence[Any], out: Sequence[Any], *inputs: Any, **attrs: Any
             ) -> list[Any]:
        heads = _present(F, dy, out, attrs["num_outputs"])
        found = getattr(F, f"{name}_grad")(*heads, *out, *inputs, kept=len(out), **attrs)
        return found if isinstance(found, list) else [found]

    return rule


def input_grads_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, list(shapes[attrs["num_outputs"] + attrs["kept"]:])


def input_grads_dtype(dtypes: list[Any], attrs: Attrs) -> tuple[list[Any], list[Any]]:
    return dtypes, list(dtypes[attrs["num_outputs"] + attrs["kept"]:])
