"""Networks as text and as drawings: `print_summary`, `plot_network` (``mx.viz``)."""
from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from .base import ArgumentError, ShapeError
from .graph import Entry, Node, infer_shape, topological
from .symbol import Symbol

__all__ = ["plot_network", "print_summary"]

Shape = tuple[int, ...]
_PARAMETERS = ("_weight", "_bias", "_gamma", "_beta", "_moving_mean", "_moving_var",
               "_running_mean", "_running_var", "_parameters", "_moving_avg")
_COLORS = ("#8dd3c7", "#fb8072", "#ffffb3", "#bebada", "#80b1d3", "#fdb462", "#b3de69", "#fccde5")


def _is_parameter(node: Node) -> bool:
    return node.op is None and node.name.endswith(_PARAMETERS)


def _shapes(symbol: Symbol, shape: Mapping[str, Sequence[int]] | None) -> dict[Entry, Shape]:
    """The shapes of all entries, for input shapes by name; empty without any."""
    if shape is None:
        return {}
    found = infer_shape(symbol.entries, dict(shape))
    if found.incomplete():
        raise ShapeError(f"visualization: input shape is incomplete: cannot tell those of "
                         f"{', '.join(found.incomplete())}")
    return {entry: tuple(size) for entry, size in found.entries.items() if size is not None}


def _check(symbol: Any) -> None:
    if not isinstance(symbol, Symbol):
        raise ArgumentError(f"visualization: symbol must be a Symbol, got {symbol!r}")


def _features(shapes: Mapping[Entry, Shape], entry: Entry) -> str:
    """A shape without the batch: '8x28x28'."""
    return "x".join(str(size) for size in shapes.get(entry, ())[1:])


def print_summary(symbol: Symbol, shape: Mapping[str, Sequence[int]] | None = None,
                  line_length: int = 120, positions: Sequence[float] = (.44, .64, .74, 1.)) -> None:
    """Print a table of the layers: output shapes, numbers of parameters, what they read.

    Args:
        symbol: the network.
        shape: input shapes by name, e.g. ``{"data": (1, 3, 28, 28)}``.
        line_length: characters in a line.
        positions: where the columns end, in characters or as parts of the line.

    >>> import minigluon as mx
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc")
    >>> print_summary(net, {"data": (1, 3)}, 54)  # doctest: +NORMALIZE_WHITESPACE
    ______________________________________________________
    Layer (type)           Output Sha Para Previous Layer
    ======================================================
    data(null)             3          0
    ______________________________________________________
    fc(FullyConnected)     4          16   data
    ======================================================
    Total params: 16
    ______________________________________________________
    """
    _check(symbol)
    ends = [int(line_length * place) if place <= 1 else int(place) for place in positions]
    shapes = _shapes(symbol, shape)
    states = set(symbol.list_auxiliary_states())
    shown = [node for node in topological(symbol.entries)
             if node.op is not None or not (
                 _is_parameter(node) or node.name.endswith("label"))]

    def row(fields: Sequence[str]) -> None:
        line = ""
        for field, end in zip(fields, ends, strict=True):
            line = (line + field)[:end - 1 if end < line_length else end].ljust(end)
        print(line)

    print("_" * line_length)
    row(["Layer (type)", "Output Shape", "Param #", "Previous Layer"])
    print("=" * line_length)
    total = 0
    for number, node in enumerate(shown):
        weights = [entry for entry in node.inputs
                   if _is_parameter(entry.node) and entry.node.name not in states]
        count = sum(math.prod(shapes[entry]) for entry in weights if entry in shapes)
        total += count
        before = [entry.node.name for entry in node.inputs if entry.node in shown]
        kind = node.op.name if node.op else "null"
        row([f"{node.name}({kind})", _features(shapes, Entry(node, 0)), str(count),
             before[0] if before else ""])
        for name in before[1:]:
            row(["", "", "", name])
        print(("=" if number + 1 == len(shown) else "_") * line_length)
    print(f"Total params: {total}")
    print("_" * line_length)


def plot_network(symbol: Symbol, title: str = "plot", save_format: str = "pdf",
                 shape: Mapping[str, Sequence[int]] | None = None, dtype: Any = None,
                 node_attrs: Mapping[str, str] | None = None, hide_weights: bool = True) -> Any:
    """A drawing of the network, as a ``graphviz.Digraph`` to show or ``render()``.

    Args:
        symbol: the network.
        title: name of the drawing and its file. save_format: format of the file.
        shape: input shapes by name; the arrows then carry shapes.
        dtype: accepted as in MXNet; types are not drawn.
        node_attrs: attributes of all boxes.
        hide_weights: leave parameters out.

    Raises:
        ImportError: the package graphviz is not installed.
    """
    _check(symbol)
    try:
        graphviz = importlib.import_module("graphviz")
    except ImportError as error:
        raise ImportError("plot_network draws with graphviz: pip install graphviz (and the "
                          "graphviz programs of the system, to render)") from error
    shapes = _shapes(symbol, shape)
    drawing = graphviz.Digraph(name=title, format=save_format)
    box = {"shape": "box", "fixedsize": "true", "width": "1.3", "height": "0.8034",
           "style": "filled", **(node_attrs or {})}
    nodes = topological(symbol.entries)
    hidden = {node for node in nodes if hide_weights and _is_parameter(node)}
    for node in nodes:
        if node in hidden:
            continue
        label, color = _look(node)
        drawing.node(name=node.name, label=label,
                     **{**box, "fillcolor": color, **({"shape": "oval"} if not node.op else {})})
    for node in nodes:
        for entry in node.inputs:
            if entry.node not in hidden:
                drawing.edge(tail_name=node.name, head_name=entry.node.name, dir="back",
                             arrowtail="open", label=_features(shapes, entry))
    return drawing


def _look(node: Node) -> tuple[str, str]:
    """Label and colour of a node."""
    if node.op is None:
        return node.name, _COLORS[0]
    kind, attrs = node.op.name, node.attrs

    def by(sizes: Sequence[int]) -> str:
        return "x".join(str(size) for size in sizes) or "1"

    if kind in ("Convolution", "Deconvolution"):
        text = f"{by(attrs['kernel'])}/{by(attrs['stride'])}, {attrs['num_filter']}"
        return f"{kind}\n{text}", _COLORS[1]
    if kind == "FullyConnected":
        return f"{kind}\n{attrs['num_hidden']}", _COLORS[1]
    if kind in ("Activation", "LeakyReLU"):
        return f"{kind}\n{attrs['act_type']}", _COLORS[2]
    if kind == "BatchNorm":
        return node.name, _COLORS[3]
    if kind == "Pooling":
        text = f"{attrs['pool_type']}, {by(attrs['kernel'])}/{by(attrs['stride'])}"
        return f"{kind}\n{text}", _COLORS[4]
    if kind in ("Concat", "Flatten", "Reshape"):
        return node.name, _COLORS[5]
    return node.name, _COLORS[6] if kind == "Softmax" else _COLORS[7]
