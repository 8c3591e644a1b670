"""Where the axes of images lie inside a graph: chosen for the kernels, turned at the rim only.

Users see (N, C, H, W). Kernels are faster with the channels last (``NHWC``: oneDNN, large
networks) or with sixteen samples last (``blocked``: (N / 16, C, H, W, 16), our own convolution,
small images with few or odd channels; a batch that is no multiple of sixteen is filled up with
copies of its own samples, whose gradients are 0). `assign_layout` rewrites a forward graph before
its gradient is taken, with ordinary operators and attributes, so that the gradient graph comes out
in the same layout by the same rules: a blocked convolution is one over (H, W, 16) with a kernel
(KH, KW, 1).
"""
from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..device.cpu import native
from ..ops import Attrs, Operator, find_operator
from ..ops.fused import TEMPLATES
from .infer import infer_dtype, infer_shape
from .ir import Entry, Node, substitute, topological
from .plan import Desc

__all__ = ["assign_layout", "has_images"]

Shape = tuple[int, ...]

_BLOCK = 16
# max(f(x)) is f(max(x)): the cheaper order is the pooling first, forwards and backwards.
_MONOTONE = frozenset({"relu", "tanh", "sigmoid"})
# From how many channels in and out our own convolution has no chance against oneDNN.
_MANY_CHANNELS = 64 * 64


def has_images(entries: Sequence[Entry]) -> bool:
    """Whether `assign_layout` finds something to do (nothing without native kernels)."""
    return native.onednn and any(_is_convolution(node) for node in topological(entries))


def assign_layout(entries: Sequence[Entry], known: Mapping[Node, Desc],
                  training: bool = False) -> list[Entry]:
    """The same graph with its images in the layout that runs fastest; results keep theirs.

    Args:
        entries: what is computed.
        known: types and shapes of the variables; the graph made is only for these.
        training: gradients will be taken, and count when layouts are compared.

    >>> from minigluon.graph import Entry, F, Node
    >>> assign_layout([F.relu(Entry(Node(None, "x"), 0))], {})[0].node.op.name
    'relu'
    """
    if not has_images(entries):
        return list(entries)
    entries = _pool_first(entries)
    found = infer_shape(entries, {node: desc[1] for node, desc in known.items()})
    types = infer_dtype(entries, {node: desc[0] for node, desc in known.items()})
    shapes = {entry: shape for entry, shape in found.entries.items() if shape is not None}
    nodes = topological(entries)
    images = [node for node in nodes if _is_convolution(node)]
    if not all(types.entries.get(entry) == "float32" and 0 not in shapes.get(entry, (0,))
               for node in images for entry in (*node.inputs, Entry(node, 0))):
        return list(entries)
    layout = _choose(nodes, images, shapes, training)
    return _Turning(layout, shapes).run(entries) if layout is not None else list(entries)


def _is_convolution(node: Node) -> bool:
    return (node.op is not None and node.op.name == "Convolution"
            and len(node.attrs["kernel"]) == 2 and node.attrs["layout"] in (None, "NCHW"))


def _pool_first(entries: Sequence[Entry]) -> list[Entry]:
    """``max pooling (activation (x))`` as ``activation (max pooling (x))``."""
    uses: dict[Entry, int] = {}
    nodes = topological(entries)
    for entry in [*entries, *(entry for node in nodes for entry in node.inputs)]:
        uses[entry] = uses.get(entry, 0) + 1
    given: dict[Entry, Entry] = {}
    for node in nodes:
        if node.op is None or node.op.name != "Pooling" or node.attrs["pool_type"] != "max":
            continue
        act = node.inputs[0].node
        if (act.op is None or uses[node.inputs[0]] > 1
                or act.attrs.get("act_type", act.op.name) not in _MONOTONE
                or act.op.name not in _MONOTONE | {"Activation"}):
            continue
        [source] = substitute(act.inputs, given)
        pooled = Node(node.op, node.name, [source], node.attrs, node.extra_attrs)
        moved = Node(act.op, act.name, [Entry(pooled, 0)], act.attrs, act.extra_attrs)
        given[Entry(node, 0)] = Entry(moved, 0)
    return substitute(entries, given) if given else list(entries)


# -- layouts ---------------------------------------------------------------------------------------


class _Layout(NamedTuple):
    """One way to lay images out."""

    name: str
    enter: Callable[[Entry, Shape], Entry]  # from (N, C, H, W)
    leave: Callable[[Entry, Shape], Entry]  # back; the shape is that of (N, C, H, W)
    windows: Callable[[Attrs], Attrs]  # the attributes of a Convolution or Pooling
    weight: Callable[[Entry, Shape], Entry]
    axis: int  # of the channels


def _call(op: str, *inputs: Entry, **attrs: Any) -> Entry:
    record: Operator = find_operator(op)
    source = inputs[0].node
    return Entry(Node(record, f"{source.name}_{op}", inputs, record.parse(attrs)), 0)


def _transpose(entry: Entry, axes: Shape) -> Entry:
    return _call("transpose", entry, axes=axes)


def _reshape(entry: Entry, shape: Shape) -> Entry:
    return _call("Reshape", entry, shape=shape)


def _channels_last(entry: Entry, shape: Shape) -> Entry:
    batch, channels, height, width = shape
    if channels == 1 or height == width == 1:
        return _reshape(entry, (batch, height, width, channels))
    return _transpose(entry, (0, 2, 3, 1))


def _channels_first(entry: Entry, shape: Shape) -> Entry:
    if shape[1] == 1 or shape[2] == shape[3] == 1:
        return _reshape(entry, shape)
    return _transpose(entry, (0, 3, 1, 2))


def _blocks(batch: int) -> int:
    return -(-batch // _BLOCK)


def _to_blocks(entry: Entry, shape: Shape) -> Entry:
    batch, blocks = shape[0], _blocks(shape[0])
    copies, rest = divmod(blocks * _BLOCK, batch)
    if copies > 1 or rest:  # samples and not zeros: what follows is finite where theirs is
        some = [_call("slice_axis", entry, axis=0, begin=0, end=rest)] if rest else []
        entry = _call("Concat", *[entry] * copies, *some, dim=0)
    split = _reshape(entry, (blocks, _BLOCK, *shape[1:]))
    return _transpose(split, (0, 2, 3, 4, 1))


def _from_blocks(entry: Entry, shape: Shape) -> Entry:
    batch, whole = shape[0], _blocks(shape[0]) * _BLOCK
    entry = _reshape(_transpose(entry, (0, 4, 1, 2, 3)), (whole, *shape[1:]))
    return entry if whole == batch else _call("slice_axis", entry, axis=0, begin=0, end=batch)


def _blocked_windows(attrs: Attrs) -> Attrs:
    """Sliding over (H, W, 16), of which the last takes no part."""
    longer = {name: (*attrs[name], last) for name, last in
              (("kernel", 1), ("stride", 1), ("dilate", 1), ("pad", 0)) if attrs.get(name)}
    return {**attrs, **longer, "layout": None}


_NHWC = _Layout("NHWC", _channels_last, _channels_first,
                lambda attrs: {**attrs, "layout": "NHWC/OIHW" if "num_filter" in attrs else "NHWC"},
                lambda entry, shape: entry, 3)
_BLOCKED = _Layout("blocked", _to_blocks, _from_blocks, _blocked_windows,
                   lambda entry, shape: _reshape(entry, (*shape, 1)), 1)


# -- which one -------------------------------------------------------------------------------------


def _choose(nodes: Sequence[Node], images: Sequence[Node], shapes: Mapping[Entry, Shape],
            training: bool) -> _Layout | None:
    """The layout in which these convolutions take less time, by measuring where it is open.

    None where nothing is to be turned: our own kernel for one image reads weights as they lie.
    """
    if not training and all(shapes[node.inputs[0]][0] == 1 and node.attrs["num_group"] == 1
                            for node in images):
        return None
    if not all(_may_block(node, shapes) for node in images):
        return _NHWC
    filled = any(shapes[node.inputs[0]][0] % _BLOCK for node in images)
    if filled and any(node.op is not None and node.op.name == "BatchNorm" for node in nodes):
        return _NHWC  # whose statistics are those of the true samples
    total = {layout: sum(_seconds(node, shapes, layout, training) for node in images)
             for layout in (_NHWC, _BLOCKED)}
    return min(total, key=lambda layout: total[layout])


def _may_block(node: Node, shapes: Mapping[Entry, Shape]) -> bool:
    data, attrs = shapes[node.inputs[0]], node.attrs
    # filled up by more than half as many again, blocks win nothing
    return (2 * _BLOCK * _blocks(data[0]) <= 3 * data[0] and attrs["num_group"] == 1
            and attrs["num_filter"] * data[1] < _MANY_CHANNELS
            and set(attrs["stride"]) <= {1} and set(attrs["dilate"]) <= {1}
            and all(p < k for p, k in zip(attrs["pad"], attrs["kernel"], strict=False)))


_measured: dict[tuple[Any, ...], float] = {}


def _seconds(node: Node, shapes: Mapping[Entry, Shape], layout: _Layout, training: bool) -> float:
    """The time of a convolution (and in training of its gradients) in a layout.

    It grows with the batch, so that of sixteen samples tells it.
    """
    batch, *image = shapes[node.inputs[0]]
    samples = min(batch, _BLOCK)
    weight = shapes[node.inputs[1]]
    data, out = (samples, *image), (samples, *shapes[Entry(node, 0)][1:])
    attrs = layout.windows({**node.attrs, "no_bias": True})
    key = (layout.name, data, weight, attrs["stride"], attrs["pad"], training)
    if key not in _measured:
        x, y = _laid_out(data, layout), _laid_out(out, layout)
        w = weight if layout is _NHWC else (*weight, 1)
        calls: list[tuple[str, tuple[Shape, ...], Shape]] = [("Convolution", (x, w), y)]
        if training:
            calls += [("_conv_grad_weight", (y, x, w), w)]
            if node.inputs[0].node.op is not None:
                calls += [("_conv_grad_data", (y, w, x), x)]
        _measured[key] = sum(_best(name, inputs, output, attrs) for name, inputs, output in calls)
    return _measured[key] * (batch / samples if layout is _NHWC else _blocks(batch))


def _laid_out(shape: Shape, layout: _Layout) -> Shape:
    batch, channels, height, width = shape
    if layout is _NHWC:
        return batch, height, width, channels
    return _blocks(batch), channels, height, width, _BLOCK


def _best(op: str, inputs: Sequence[Shape], output: Shape, attrs: Attrs) -> float:
    step = native.step(op, [("float32", shape) for shape in inputs], [("float32", output)], attrs)
    if step is None:
        return float("inf")
    arrays = [np.ones(shape, "float32") for shape in inputs]
    out = [np.ones(output, "float32")]
    times = []
    for _ in range(3):
        start = time.thread_time()  # not the clock's: other processes may be running
        step.run(arrays, out)
        times.append(time.thread_time() - start)
    return min(times[1:])


# -- rewriting -------------------------------------------------------------------------------------


class _Turning:
    """A graph on its way to another layout: every image known in the old order or the new."""

    def __init__(self, layout: _Layout, shapes: Mapping[Entry, Shape]) -> None:
        self.layout = layout
        self.shapes = shapes
        self.plain: dict[Entry, Entry] = {}
        self.turned: dict[Entry, Entry] = {}

    def run(self, entries: Sequence[Entry]) -> list[Entry]:
        for node in topological(entries):
            if node.op is None:
                self.plain[Entry(node, 0)] = Entry(node, 0)
            else:
                self._node(node)
        return [self._plain(entry) for entry in entries]

    def _plain(self, entry: Entry) -> Entry:
        if entry not in self.plain:
            self.plain[entry] = self.layout.leave(self.turned[entry], self.shapes[entry])
        return self.plain[entry]

    def _turned(self, entry: Entry) -> Entry:
        if entry not in self.turned:
            self.turned[entry] = self.layout.enter(self.plain[entry], self.shapes[entry])
        return self.turned[entry]

    def _node(self, node: Node) -> None:
        name = node.op.name if node.op is not None else ""
        if _is_convolution(node) and self._is_image(node.inputs[0]):
            weight = self.layout.weight(self._plain(node.inputs[1]), self.shapes[node.inputs[1]])
            rest = [self._plain(entry) for entry in node.inputs[2:]]
            self._turn(node, [self._turned(node.inputs[0]), weight, *rest],
                       self.layout.windows(node.attrs))
        elif node.inputs and node.inputs[0] in self.turned and self._follows(node, name):
            attrs = node.attrs
            inputs = [self._turned(entry) for entry in node.inputs]
            if self.layout is _BLOCKED and self._by_two(node, name):
                made = Node(find_operator("_pool_two"), node.name, inputs, {}, node.extra_attrs)
                self.turned[Entry(node, 0)] = Entry(made, 0)
                return
            if name == "Pooling":
                attrs = self.layout.windows(attrs)
                if attrs["global_pool"] and self.layout is _BLOCKED:
                    size = self.shapes[node.inputs[0]][2:]
                    attrs = {**attrs, "global_pool": False, "kernel": (*size, 1), "stride": (),
                             "pad": (), "pooling_convention": "valid"}
            elif name == "Concat":
                attrs = {**attrs, "dim": self.layout.axis}
            self._turn(node, inputs, attrs)
        elif (name == "BatchNorm" and node.attrs["axis"] == 1
              and node.inputs[0] in self.turned):
            rest = [self._plain(entry) for entry in node.inputs[1:]]
            self._turn(node, [self._turned(node.inputs[0]), *rest],
                       {**node.attrs, "axis": self.layout.axis})
        else:
            self._keep(node)

    def _by_two(self, node: Node, name: str) -> bool:
        """Whether a node takes the maxima of windows of 2 by 2 that meet every element once."""
        attrs = node.attrs
        return (name == "Pooling" and attrs["pool_type"] == "max" and not attrs["global_pool"]
                and attrs["kernel"] == attrs["stride"] == (2, 2) and set(attrs["pad"]) <= {0}
                and not any(size % 2 for size in self.shapes[node.inputs[0]][2:]))

    def _is_image(self, entry: Entry) -> bool:
        return entry in self.shapes and len(self.shapes[entry]) == 4

    def _follows(self, node: Node, name: str) -> bool:
        """Whether a node means the same on images in the new order (with attributes adapted)."""
        if name == "Pooling":
            return node.attrs["layout"] in (None, "NCHW") and node.attrs["pool_type"] != "lp"
        shape = self.shapes[node.inputs[0]]
        if name == "Concat":
            return (node.attrs["dim"] == 1
                    and all(self._is_image(entry) for entry in node.inputs))
        kind = node.attrs.get("act_type")
        return ((name in TEMPLATES or f"{name}:{kind}" in TEMPLATES)
                and all(self.shapes.get(entry) == shape for entry in node.inputs))

    def _turn(self, node: Node, inputs: Sequence[Entry], attrs: Attrs) -> None:
        """The node in the new order: its first output is an image, others are not."""
        made = Node(node.op, node.name, inputs, attrs, node.extra_attrs)
        self.turned[Entry(node, 0)] = Entry(made, 0)
        for entry in node.outputs(hidden=True)[1:]:
            self.plain[entry] = Entry(made, entry.index)

    def _keep(self, node: Node) -> None:
        made = node
        inputs = [self._plain(entry) for entry in node.inputs]
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            made = Node(node.op, node.name, inputs, node.attrs, node.extra_attrs)
        for entry in node.outputs(hidden=True):
            self.plain[entry] = Entry(made, entry.index)
