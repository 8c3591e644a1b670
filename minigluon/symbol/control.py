"""``sym.contrib.foreach``, ``while_loop`` and ``cond``: a function traced into a graph of its own.

What the function makes carries the scope's name as an attribute; everything else that its results
need is an input of the node.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ..attribute import AttrScope
from ..base import ArgumentValueError
from ..graph import Entry, F, Node, substitute, to_json, topological, variables
from ..name import NameManager
from ..nest import flatten, rebuild
from ..ops import find_operator
from .create import var
from .symbol import Symbol, one_entry

__all__ = ["CONTROL", "cond", "foreach", "while_loop"]

_SCOPE = "__subgraph_name__"
_count = itertools.count()


class _Traced:
    """A function's graph, cut loose from what surrounds it.

    Args:
        function: called with the nests of `inputs`. inputs: symbols that stand for its arguments.

    Attributes:
        result: what it returned. own: variables for its arguments.
    """

    def __init__(self, kind: str, function: Callable[..., Any], *inputs: tuple[list[Any], Any]
                 ) -> None:
        self.scope = f"{kind}{next(_count)}"
        self.own: list[list[Symbol]] = []
        with AttrScope(**{_SCOPE: self.scope}):
            arguments = []
            for leaves, form in inputs:
                own = [var(f"{leaf.name}-{place}") for place, leaf in enumerate(leaves)]
                self.own.append(own)
                arguments.append(rebuild(form, own))
            self.result = function(*arguments)
        self.entries: list[Entry] = []
        self.outer: list[Entry] = []
        self._stand_in: list[Node] = []

    def cut(self, symbols: Sequence[Symbol]) -> None:
        """Make `symbols` the results; `outer` are then the entries from outside they need."""
        own = {each.entries[0].node for group in self.own for each in group}
        given: dict[Entry, Entry] = {}
        heads = [one_entry(each, self.scope, "result") for each in symbols]
        for node in self._inside(heads):
            for entry in node.inputs:
                if entry.node not in own and not self._is_inside(entry.node) \
                        and entry not in given:
                    self.outer.append(entry)
                    name = entry.node.name if entry.node.op is None else (
                        f"{entry.node.name}-{entry.index}")
                    self._stand_in.append(Node(None, name))
                    given[entry] = Entry(self._stand_in[-1], 0)
        self.entries = substitute(heads, given)

    def _is_inside(self, node: Node) -> bool:
        return node.op is not None and node.extra_attrs.get(_SCOPE) == self.scope

    def _inside(self, heads: list[Entry]) -> list[Node]:
        """The nodes made by the function; a result that is none of them becomes a copy."""
        for place, head in enumerate(heads):
            if not self._is_inside(head.node):
                copy = F._copy(head).node
                copy.name = f"{self.scope}_copy{place}"
                copy.extra_attrs[_SCOPE] = self.scope
                heads[place] = Entry(copy, 0)
        return [node for node in topological(heads) if self._is_inside(node)]

    def text(self) -> str:
        """The graph as JSON."""
        return to_json(self.entries)

    def places(self, group: int) -> tuple[int, ...]:
        """Where the arguments of one group stand among the graph's inputs; -1: not read."""
        order = variables(self.entries)
        nodes = [each.entries[0].node for each in self.own[group]]
        return tuple(order.index(node) if node in order else -1 for node in nodes)

    def outer_places(self) -> tuple[int, ...]:
        """Where the stand-ins for `outer` stand among the graph's inputs."""
        order = variables(self.entries)
        return tuple(order.index(node) for node in self._stand_in)

    def locations(self, arguments: dict[Node, int], known: list[Entry]) -> tuple[int, ...]:
        """For each input of the graph the place of its entry in `known`, which grows as needed.

        Args:
            arguments: places for the function's own variables.
        """
        stand_in = dict(zip(self._stand_in, self.outer, strict=True))
        found = []
        for node in variables(self.entries):
            if node in arguments:
                found.append(arguments[node])
            else:
                if stand_in[node] not in known:
                    known.append(stand_in[node])
                found.append(known.index(stand_in[node]))
        return tuple(found)


def _node(op_name: str, name: str | None, inputs: Sequence[Entry], attrs: dict[str, Any]
          ) -> list[Symbol]:
    op = find_operator(op_name)
    node = Node(op, NameManager.current.get(name, op_name), inputs, op.parse(attrs),
                AttrScope.current.get(None))
    return [Symbol([entry]) for entry in node.outputs()]


def _parts(value: Any, what: str) -> tuple[list[Any], Any]:
    """Leaves of one output each, and the form."""
    return flatten(_spread(value), Symbol, what)


def _spread(value: Any) -> Any:
    if isinstance(value, Symbol):
        return value if len(value) == 1 else [Symbol([entry]) for entry in value.entries]
    if isinstance(value, (list, tuple)):
        return [_spread(item) for item in value]
    return value


def _entries(symbols: Sequence[Symbol]) -> list[Entry]:
    return [symbol.entries[0] for symbol in symbols]


def foreach(body: Callable[..., Any], data: Any, init_states: Any, name: str | None = None
            ) -> tuple[Any, Any]:
    """Run `body` for each slice of the data along axis 0, as one node.

    Args:
        body: ``body(slice, states) -> (outputs, new states)``.
        data: a symbol or nested lists of them. init_states: the same, for the first step.
        name: of the node.

    Returns:
        The outputs of all steps, stacked along a new axis 0; the last states.

    >>> import minigluon as mx
    >>> x = mx.sym.var("x")
    >>> out, last = mx.sym.contrib.foreach(lambda d, s: (d + s, d + s), x, mx.sym.zeros((1,)))
    >>> out.eval(x=mx.nd.array([[1], [2], [3]]))[0].asnumpy().tolist()
    [[1.0], [3.0], [6.0]]
    """
    inputs = _parts(data, "foreach input"), _parts(init_states, "foreach states")
    traced = _Traced("foreach", body, *inputs)
    outs, states = traced.result
    out_leaves, out_form = _parts(outs, "foreach output")
    state_leaves, state_form = _parts(states, "foreach new states")
    if len(state_leaves) != len(inputs[1][0]):
        raise ArgumentValueError(f"foreach: expected {len(inputs[1][0])} states from the body, "
                                 f"as it was given, got {len(state_leaves)}")
    traced.cut([*out_leaves, *state_leaves])
    found = _node("_foreach", name, [*_entries(inputs[0][0]), *_entries(inputs[1][0]),
                                     *traced.outer], {
        "subgraphs": (traced.text(),), "num_out_data": len(out_leaves),
        "num_outputs": len(out_leaves) + len(state_leaves), "in_data_locs": traced.places(0),
        "in_state_locs": traced.places(1), "remain_locs": traced.outer_places()})
    return (rebuild(out_form, found[:len(out_leaves)]),
            rebuild(state_form, found[len(out_leaves):]))


def while_loop(cond: Callable[..., Any], func: Callable[..., Any], loop_vars: Any,
               max_iterations: int | None = None, name: str | None = None) -> tuple[Any, Any]:
    """Run `func` on its own results while `cond` says so, as one node.

    Args:
        cond: ``cond(*loop_vars)``: a symbol of one element.
        func: ``func(*loop_vars) -> (outputs, new loop_vars)``.
        loop_vars: symbols for the first step. max_iterations: at most so many steps. name: of
            the node.

    Returns:
        The outputs of all steps, stacked, with zeros up to max_iterations; the last loop_vars.
    """
    if max_iterations is None:
        raise ArgumentValueError("max_iterations should be specified")
    leaves, form = _parts(loop_vars, "loop_vars")
    if not leaves:
        raise ArgumentValueError("loop_vars should contain at least one element")
    single = form == 0

    def spread(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda nest: function(nest) if single else function(*nest)

    test = _Traced("while_cond", spread(cond), (leaves, form))
    test.cut([test.result])
    step = _Traced("while_func", spread(func), (leaves, form))
    outs, new = step.result
    out_leaves, out_form = _parts([] if outs is None else outs, "while_loop output")
    new_leaves, _ = _parts(new, "while_loop new loop_vars")
    if len(new_leaves) != len(leaves):
        raise ArgumentValueError("The length of loop_vars should be consistent during the loop")
    step.cut([*out_leaves, *new_leaves])
    # equal loop variables stay apart: each has a place of its own
    known = list(_entries(leaves))
    places = [{each.entries[0].node: place for place, each in enumerate(traced.own[0])}
              for traced in (test, step)]
    found = _node("_while_loop", name, known, {
        "subgraphs": (test.text(), step.text()), "num_out_data": len(out_leaves),
        "num_outputs": len(out_leaves) + len(leaves), "max_iterations": int(max_iterations),
        "cond_input_locs": test.locations(places[0], known),
        "func_input_locs": step.locations(places[1], known), "func_var_locs": step.places(0),
        "var_locs": tuple(range(len(leaves))) if -1 in step.places(0) else ()})
    found[0].entries[0].node.inputs = known
    return (rebuild(out_form, found[:len(out_leaves)]), rebuild(form, found[len(out_leaves):]))


def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any],
         name: str | None = None) -> Any:
    """One of two functions, as a symbol says, as one node: only that one is run.

    Args:
        pred: a symbol of one element. then_func, else_func: functions of nothing that return as
            many symbols each. name: of the node.

    >>> import minigluon as mx
    >>> x = mx.sym.var("x")
    >>> y = mx.sym.contrib.cond(x < 0, lambda: -x, lambda: x * 2)
    >>> [y.eval(x=mx.nd.array([x]))[0].asnumpy().tolist() for x in (-3, 3)]
    [[3.0], [6.0]]
    """
    test = _Traced("cond_pred", lambda: pred)
    test.cut([pred])
    branches = [_Traced("cond_branch", function) for function in (then_func, else_func)]
    leaves = [_parts(branch.result, "the output of a branch") for branch in branches]
    if len(leaves[0][0]) != len(leaves[1][0]):
        raise ArgumentValueError("Number of outputs differs in then_func and else_func")
    for branch, (symbols, _) in zip(branches, leaves, strict=True):
        branch.cut(symbols)
    known: list[Entry] = []
    locations = [each.locations({}, known) for each in (test, *branches)]
    found = _node("_cond", name, known, {
        "subgraphs": tuple(each.text() for each in (test, *branches)),
        "num_outputs": len(leaves[0][0]), "cond_input_locs": locations[0],
        "then_input_locs": locations[1], "else_input_locs": locations[2]})
    return rebuild(leaves[0][1], found)


CONTROL = {function.__name__: function for function in (foreach, while_loop, cond)}
