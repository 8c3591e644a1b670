"""Element-wise chains joined: neighbours that work on one shape become one ``_fused`` node.

Runs on a graph that is about to be executed, when shapes and element types are known, after the
gradient graph exists: a ``_fused`` node has no gradient rule. Joining saves writing and reading
what passes between the members; results are those of the members to rounding.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..ops.fused import TEMPLATES, Instruction, fused, program_text, read_program, views_text
from ..ops.operator import Attrs
from ..ops.rules import axes_of, reduced
from .ir import Entry, Node, mutated, topological
from .plan import Desc

__all__ = ["fuse"]

Shape = tuple[int, ...]

_MOST_INSTRUCTIONS = 24
_MOST_INPUTS = 16


def fuse(entries: Sequence[Entry], descs: Mapping[Entry, Desc], training: bool) -> list[Entry]:
    """The same graph with chains of element-wise calls joined.

    Args:
        entries: what is computed.
        descs: type and shape of every entry; those without are left alone.
        training: the mode it runs in.

    >>> from minigluon.graph import Entry, F, Node
    >>> x = Entry(Node(None, "x"), 0)
    >>> y = F._mul_scalar(F.exp(x), scalar=2.0)
    >>> known = {entry: ("float32", (4,)) for entry in (x, y, *y.node.inputs)}
    >>> [joined] = fuse([y], known, training=False)
    >>> joined.node.op.name, joined.node.attrs["program"]
    ('_fused', 'exp a0; mul t0 #2.0 -> t1')
    """
    nodes = topological(entries)
    members = _members(nodes, descs, training)
    if len(members) < 2:
        return list(entries)
    groups = _Groups(nodes)
    for node in nodes:
        if node not in members:
            groups.add(node, node.inputs)
            continue
        groups.add(node, members[node].inputs, members[node].length)
        for entry in members[node].inputs:
            if entry.node in members and descs[Entry(node, 0)] == descs[entry]:
                groups.join(entry.node, node)
    return _rebuilt(entries, nodes, members, groups, descs)


# -- which nodes can be joined, and what each is as a program --------------------------------------


class _Member:
    """A node as instructions: the template, the inputs it reads, and shapes to read them under."""

    def __init__(self, template: str, inputs: Sequence[Entry], attrs: Attrs,
                 views: Mapping[int, Shape] | None = None) -> None:
        self.template, self.inputs, self.attrs = read_program(template), inputs, attrs
        self.views = views or {}
        self.length = len(self.template.code)


def _members(nodes: Iterable[Node], descs: Mapping[Entry, Desc], training: bool
             ) -> dict[Node, _Member]:
    written = {entry for node in nodes for entry in mutated(node, training)}
    found = {}
    for node in nodes:
        if node.op is None or written.intersection(node.inputs):
            continue
        dtype, shape = descs.get(Entry(node, 0), ("", ()))
        if dtype not in ("float32", "float64") or not shape or 0 in shape:
            continue
        if any(entry not in descs for entry in node.inputs):
            continue
        member = _member(node, shape, [descs[entry][1] for entry in node.inputs])
        if member is not None and all(descs[entry][0] == dtype for entry in member.inputs):
            found[node] = member
    return found


def _member(node: Node, shape: Shape, read: Sequence[Shape]) -> _Member | None:
    """How a node is computed element by element, if it can be."""
    assert node.op is not None
    name = node.op.name
    special = _SPECIAL.get(name)
    if special is not None:
        return special(node, shape, read)
    if name in ("Activation", "LeakyReLU"):
        name = f"{name}:{node.attrs['act_type']}"
    template = TEMPLATES.get(name)
    return None if template is None else _Member(template, node.inputs, node.attrs)


def _sum_of_all(node: Node, shape: Shape, read: Sequence[Shape]) -> _Member | None:
    count = len(node.inputs)
    if count > _MOST_INPUTS:
        return None
    if count == 1:
        return _Member("copy a0 -> t0", node.inputs, node.attrs)
    lines = ["add a0 a1", *(f"add t{i - 2} a{i}" for i in range(2, count))]
    return _Member("; ".join(lines) + f" -> t{count - 2}", node.inputs, node.attrs)


def _power(node: Node, shape: Shape, read: Sequence[Shape]) -> _Member | None:
    """Small whole powers are products: a power proper costs ten times as much."""
    short = {3: "square a0; mul t0 a0 -> t1", 4: "square a0; square t0 -> t1"}
    template = short.get(node.attrs["scalar"], TEMPLATES["_power_scalar"])
    return _Member(template, node.inputs, node.attrs)


_CONSTANTS = {"zeros_like": "#0", "ones_like": "#1"}


def _choice(node: Node, shape: Shape, read: Sequence[Shape]) -> _Member | None:
    """Its gradient chooses between a gradient and zeros: those are a number here."""
    inputs, operands = node.inputs[:1], ["a0"]
    for entry in node.inputs[1:]:
        op = entry.node.op
        if op is not None and op.name in _CONSTANTS:
            operands.append(_CONSTANTS[op.name])
        else:
            operands.append(f"a{len(inputs)}")
            inputs = [*inputs, entry]
    condition = read[0]
    views = {} if len(condition) == len(shape) else {0: condition + (1,) * (len(shape) - 1)}
    return _Member(f"where {' '.join(operands)} -> t0", inputs, node.attrs, views)


def _cast(node: Node, shape: Shape, read: Sequence[Shape]) -> _Member | None:
    """Only ever a copy: members whose inputs have another element type are refused."""
    return _Member("copy a0 -> t0", node.inputs[:1], node.attrs)


def _stretch(node: Node, shape: Shape, read: Sequence[Shape]) -> _Member | None:
    """Stretching to the shape of another input, of which nothing else counts."""
    source = read[0]
    if node.attrs.get("lhs_axes") is not None or len(source) > len(shape):
        return None
    return _Member("copy a0 -> t0", node.inputs[:1], node.attrs)


def _unreduce(node: Node, shape: Shape, read: Sequence[Shape]) -> _Member | None:
    attrs = node.attrs
    axes = axes_of(attrs["axis"], len(shape), attrs["exclude"])
    view = reduced(shape, axes, True)
    if not attrs["mean"]:
        return _Member("copy a0 -> t0", node.inputs[:1], {}, {0: view})
    count = 1
    for axis in axes:
        count *= shape[axis]
    return _Member("mul a0 #share -> t0", node.inputs[:1], {"share": 1.0 / count}, {0: view})


def _scaled_by_width(node: Node, shape: Shape, read: Sequence[Shape]) -> _Member | None:
    return _Member("div a0 #root -> t0", node.inputs, {"root": math.sqrt(shape[-1])})


_SPECIAL: dict[str, Callable[[Node, Shape, Sequence[Shape]], _Member | None]] = {
    "add_n": _sum_of_all, "where": _choice, "Cast": _cast, "_cast_like": _cast,
    "broadcast_like": _stretch, "broadcast_to": _stretch, "broadcast_axis": _stretch,
    "_unreduce": _unreduce, "_power_scalar": _power, "_contrib_div_sqrt_dim": _scaled_by_width,
}


# -- groups ---------------------------------------------------------------------------------------


class _Groups:
    """Nodes in groups such that the graph of groups has no cycle.

    For each group the set of groups it depends on is kept as the bits of one number.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.place = {node: i for i, node in enumerate(nodes)}
        self.group = list(range(len(nodes)))  # of the node at a place, possibly merged further
        self.before = [0] * len(nodes)  # groups that a group depends on
        self.inputs: list[set[int]] = [set() for _ in nodes]  # groups it reads from
        self.length = [0] * len(nodes)
        self.reads = [0] * len(nodes)
        self.done = 0

    def of(self, node: Node) -> int:
        """The group a node is in."""
        return self._find(self.place[node])

    def _find(self, group: int) -> int:
        while self.group[group] != group:
            self.group[group] = self.group[self.group[group]]
            group = self.group[group]
        return group

    def add(self, node: Node, inputs: Sequence[Entry], length: int = 0) -> None:
        """The next node in topological order, as a group of its own that reads `inputs`."""
        own = self.place[node]
        self.done = own + 1
        self.length[own], self.reads[own] = length, len(inputs)
        for entry in inputs:
            group = self.of(entry.node)
            self.inputs[own].add(group)
            self.before[own] |= self.before[group] | 1 << group

    def join(self, first: Node, second: Node) -> bool:
        """Make two groups one, unless that is too large or closes a cycle."""
        a, b = self.of(first), self.of(second)
        if a == b:
            return True
        if (self.length[a] + self.length[b] > _MOST_INSTRUCTIONS
                or self.reads[a] + self.reads[b] > _MOST_INPUTS + 1
                or self._detour(a, b) or self._detour(b, a)):
            return False
        self._merge(a, b)
        return True

    def _detour(self, start: int, end: int) -> bool:
        """Whether a way from `start` to `end` leads over a third group."""
        through = {self._find(group) for group in self.inputs[end]} - {start, end}
        return any(self.before[group] >> start & 1 for group in through)

    def _merge(self, a: int, b: int) -> None:
        self.group[b] = a
        self.length[a] += self.length[b]
        self.reads[a] += self.reads[b] - 1
        self.inputs[a] = {self._find(g) for g in self.inputs[a] | self.inputs[b]} - {a}
        both = 1 << a | 1 << b
        whole = self.before[a] = (self.before[a] | self.before[b]) & ~both
        for other in range(self.done):
            if other != a and self.before[other] & both:
                self.before[other] = (self.before[other] & ~(1 << b)) | whole | 1 << a


# -- the new graph --------------------------------------------------------------------------------


def _rebuilt(entries: Sequence[Entry], nodes: Sequence[Node], members: Mapping[Node, _Member],
             groups: _Groups, descs: Mapping[Entry, Desc]) -> list[Entry]:
    parts: dict[int, list[Node]] = {}
    for node in nodes:
        parts.setdefault(groups.of(node), []).append(node)
    read = {node: members[node].inputs if node in members else node.inputs for node in nodes}
    wanted = set(entries)
    for node in nodes:
        wanted.update(entry for entry in read[node] if groups.of(node) != groups.of(entry.node))
    made: dict[Entry, Entry] = {}
    for part in _in_order(parts, groups, read):
        if len(part) == 1 and read[part[0]] == part[0].inputs:
            node = part[0]
            inputs = [made.get(entry, entry) for entry in node.inputs]
            if inputs != node.inputs:
                node = Node(node.op, node.name, inputs, node.attrs, node.extra_attrs)
            made.update((Entry(part[0], i), Entry(node, i))
                        for i in range(part[0].num_outputs()))
        else:
            outputs = [entry for node in part for entry in node.outputs() if entry in wanted]
            _write(part, members, outputs, made, descs)
    return [made[entry] for entry in entries]


def _in_order(parts: Mapping[int, list[Node]], groups: _Groups,
              read: Mapping[Node, Sequence[Entry]]) -> list[list[Node]]:
    """The groups, each after those it reads from."""
    order: list[list[Node]] = []
    seen: set[int] = set()
    stack = [(group, False) for group in reversed(list(parts))]
    while stack:
        group, expanded = stack.pop()
        if expanded:
            order.append(parts[group])
        elif group not in seen:
            seen.add(group)
            stack.append((group, True))
            sources = [groups.of(entry.node) for node in parts[group] for entry in read[node]]
            stack.extend((one, False) for one in reversed(sources) if one not in seen)
    return order


def _write(part: Sequence[Node], members: Mapping[Node, _Member], outputs: Sequence[Entry],
           made: dict[Entry, Entry], descs: Mapping[Entry, Desc]) -> None:
    """One node for a group; `made` learns what stands for its outputs."""
    inside = {Entry(node, 0) for node in part}
    code: list[Instruction] = []
    result: dict[Entry, int] = {}
    places: dict[tuple[Entry, Shape | None], int] = {}
    views: dict[int, Shape] = {}
    for node in part:
        member = members[node]
        base = len(code)

        def operand(text: str, member: _Member = member, base: int = base) -> str:
            if text[0] == "#":
                value = member.attrs.get(text[1:])
                return f"#{float(text[1:] if value is None else value)!r}"
            index = int(text[1:])
            if text[0] == "t":
                return f"t{base + index}"
            entry, view = member.inputs[index], member.views.get(index)
            if entry in inside:  # of the full shape, so a view of it is itself
                return f"t{result[entry]}"
            place = places.setdefault((entry, view), len(places))
            if view is not None:
                views[place] = view
            return f"a{place}"

        code.extend(Instruction(word, tuple(map(operand, operands)))
                    for word, operands in member.template.code)
        result[Entry(node, 0)] = base + member.template.outputs[0]
    last = part[-1]
    attrs = {"program": program_text(code, [result[entry] for entry in outputs]),
             "views": views_text(views), "shape": descs[Entry(last, 0)][1]}
    joined = Node(fused, f"{last.name}_fused", [made.get(entry, entry) for entry, _ in places],
                  attrs)
    made.update((entry, Entry(joined, place)) for place, entry in enumerate(outputs))
