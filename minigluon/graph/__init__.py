"""Calls remembered ahead of time: build, infer, differentiate, compile, run, write down.

Everything is made of two things: a `Node` (one call of an operator, or a variable) and an `Entry`
(one output of a node, ``(node, index)``). A `Symbol` is a list of entries with a user's face.

How a HybridBlock goes through this room (the consumer is ``nn/hybrid.py``)::

    # 1. trace: call hybrid_forward with F = minigluon.symbol on variables
    data = symbol.var("data0")
    weight = symbol.var("dense0_weight")              # or Parameter.var()
    out = block.hybrid_forward(symbol, data, weight=weight)    # a Symbol, or nested lists
    entries = [entry for each in flat(out) for entry in each.entries]   # list[Entry]

    # 2. the variables in depth-first order: arguments and auxiliary states, as nodes
    variables = graph.variables(entries)              # list[Node]; node.name: the parameter's

    # 3. shapes and types; also for deferred parameters. Unknown: 0 in a shape, None for a shape
    found = graph.infer_shape(entries, {"data0": (2, 3), "dense0_weight": (10, 0)})
    found.variables["dense0_weight"]                  # (10, 3)
    found.incomplete()                                # names of variables not fully known
    types = graph.infer_dtype(entries, {"data0": "float32"})
    types.variables["dense0_weight"]                  # 'float32', or None where nothing is known

    # 4. compile, once per (training, recording); any shapes may come later
    compiled = graph.CompiledGraph(entries, variables, training=tape.state.training,
                                   record=tape.state.recording, name="net0")

    # 5. run as ONE operator call (and ONE tape entry); inputs in the order of `variables`
    outputs = ndarray.invoke(compiled.operator, arrays, {})   # visible outputs only

`training` is fixed by the compilation (Dropout draws, BatchNorm updates its running statistics in
place: those variables are in ``compiled.operator.mutates``). ``record=True`` makes the forward also
return what backward needs as hidden outputs; with ``record=False`` backward still works but
computes them again. ``wrt=[nodes]`` limits which variables get gradients (the others' are None):
give it where inputs such as the data need none, it saves the first layer's data gradient.
"""
from __future__ import annotations

from . import control  # noqa: F401  # enters its operators
from .close import close_shapes, has_open_shapes
from .executor import CompiledGraph
from .gradient import gradient
from .infer import Inferred, infer_dtype, infer_shape
from .inline import inlined
from .ir import (
    Entry,
    F,
    GraphFace,
    Node,
    Stated,
    auxiliary,
    substitute,
    topological,
    variables,
)
from .layout import assign_layout, has_images
from .serial import from_json, on_foreign, to_json

__all__ = [
    "CompiledGraph", "Entry", "F", "GraphFace", "Inferred", "Node", "Stated", "assign_layout",
    "auxiliary", "close_shapes", "from_json", "gradient", "has_images", "has_open_shapes",
    "infer_dtype", "infer_shape", "inlined", "on_foreign", "substitute", "to_json", "topological",
    "variables",
]
