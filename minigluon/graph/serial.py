"""Graphs as text: MXNet's symbol JSON, both ways."""
from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..base import ArgumentValueError, MXNetError, NotForThisError, did_you_mean
from ..npmode import is_np_shape
from ..ops import OpenOperator, Operator, attr_text, registry
from .infer import locate
from .ir import Entry, Node, Stated, topological

__all__ = ["HIDDEN_KEYS", "attr_texts", "from_json", "on_foreign", "to_json", "user_attrs"]

# User attributes that MXNet accepts with and without the underscores around them.
HIDDEN_KEYS = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage",
               "profiler_scope")
# What tells MXNet's own kernels how to run, and where; means nothing here.
_TUNING = ("workspace", "cudnn_tune", "cudnn_off", "num_args", "cudnn_algo_verbose",
           "cudnn_algo_fwd", "cudnn_algo_bwd_data", "cudnn_algo_bwd_filter", "min_calib_range",
           "max_calib_range", "is_int", "ctx")
# How operators of any number of arrays say how many, instead of num_args.
_COUNTS = {"num_arrays", "num_weights"}
_VERSION = 10901
# From this version on files list the auxiliary states among the inputs of a node.
_FULL_INPUTS = 900
# Where loops and branches have the graphs that they run.
_GRAPHS = "subgraphs"


def attr_texts(node: Node) -> dict[str, str]:
    """A node's operator attributes as text: those said, required, or unlike the default."""
    op = node.op
    if op is None:
        return {}
    said = node.attrs.texts if isinstance(node.attrs, Stated) else {}
    texts = {name: said.get(name) or attr_text(value) for name, value in node.attrs.items()
             if name in said or name not in op.defaults or op.defaults[name] != value}
    if op.variadic and not _COUNTS & set(op.attr_names):
        texts["num_args"] = str(len(node.inputs) + len(node.attrs.get(_GRAPHS, ())))
    return texts


def user_attrs(attrs: Mapping[str, str]) -> dict[str, str]:
    """User attributes in the form in which they are kept: ``lr_mult`` becomes ``__lr_mult__``."""
    return {f"__{name}__" if name in HIDDEN_KEYS else name: value for name, value in attrs.items()}


def to_json(entries: Sequence[Entry], notes: Mapping[str, str] | None = None) -> str:
    """The graph in MXNet's format; `notes` are texts to keep beside it, which MXNet ignores.

    >>> from minigluon.graph import Entry, F, Node
    >>> x = Entry(Node(None, "x"), 0)
    >>> [entry] = from_json(to_json([F.square(x)]))
    >>> entry.node.op.name, entry.node.inputs[0].node.name
    ('square', 'x')
    """
    nodes = topological(entries)
    place = {node: i for i, node in enumerate(nodes)}
    rows = [0]
    listed = []
    for node in nodes:
        row: dict[str, Any] = {"op": node.op.name if node.op else "null", "name": node.name}
        attrs = {**attr_texts(node), **node.extra_attrs}
        graphs = attrs.pop(_GRAPHS, None)
        if attrs:
            row["attrs"] = attrs
        row["inputs"] = [[place[entry.node], entry.index, int(_written(node, i))]
                         for i, entry in enumerate(node.inputs)]
        if graphs is not None:
            row[_GRAPHS] = [json.loads(text) for text in node.attrs[_GRAPHS]]
        listed.append(row)
        rows.append(rows[-1] + node.num_outputs())
    return _text({
        "nodes": listed,
        "arg_nodes": [i for i, node in enumerate(nodes) if node.op is None],
        "node_row_ptr": rows,
        "heads": [[place[entry.node], entry.index, 0] for entry in entries],
        "attrs": {**({"is_np_shape": ["int", 1]} if is_np_shape() else {}),
                  "mxnet_version": ["int", _VERSION],
                  **{name: ["str", text] for name, text in (notes or {}).items()}},
    })


def _written(node: Node, place: int) -> bool:
    """Whether an input is an auxiliary state: MXNet counts how often a variable was written."""
    op = node.op
    return op is not None and bool(op.aux) and op.input_names[place] in op.aux


def _text(graph: dict[str, Any]) -> str:
    """One node a few lines, lists of numbers on one line, as MXNet writes it."""
    nodes = ",\n".join(_node_text(node) for node in graph["nodes"])
    rest = ",\n".join(f'  "{key}": {json.dumps(value)}'
                      for key, value in graph.items() if key != "nodes")
    return f'{{\n  "nodes": [\n{nodes}\n  ],\n{rest}\n}}'


def _node_text(node: dict[str, Any]) -> str:
    lines = ",\n".join(f'      "{key}": {json.dumps(value)}' for key, value in node.items())
    return f"    {{\n{lines}\n    }}"


def from_json(text: str) -> list[Entry]:
    """The heads of a graph written by `to_json` or by MXNet.

    Raises:
        MXNetError: no symbol JSON, an operator that does not exist here, or attributes it does
            not know; names the node.
    """
    try:
        graph = json.loads(text)
        rows, heads, notes = graph["nodes"], graph["heads"], graph.get("attrs") or {}
        # which MXNet wrote the graph; files from before 0.9 do not say it
        old = int(notes.get("mxnet_version", ("int", 0))[1]) < _FULL_INPUTS
    except (ValueError, LookupError, TypeError) as error:
        raise ArgumentValueError(
            f"symbol JSON: expected an object with 'nodes' and 'heads' ({error!r})") from None
    shaped = "is_np_shape" in notes
    made: list[Node | list[Entry]] = []  # a row of MXNet's np becomes the outputs of several nodes

    def entry(place: int, index: int) -> Entry:
        try:
            source = made[place]
            return Entry(source, index) if isinstance(source, Node) else source[index]
        except IndexError:
            raise ArgumentValueError("symbol JSON: 'inputs' or 'heads' name a node that is not "
                                     f"among the {len(made)} nodes before") from None

    for row in rows:
        inputs = [entry(*pair) for pair in _pairs(row["inputs"])]
        outputs = _translated(row, inputs, shaped)
        if outputs is not None:
            made.append(outputs)
            continue
        node = _node(row, inputs)
        if old:
            _add_inputs(node)
        made.append(node)
    return [entry(*pair) for pair in _pairs(heads)]


_translator: list[Callable[[], Any]] = []


def on_foreign(load: Callable[[], Any]) -> None:
    """Say how the function is loaded that knows what MXNet's operators of ``mx.np`` mean."""
    _translator[:] = [load]


# Under NumPy's shapes these give scalars of one matrix.
_OF_MATRICES = ("_linalg_det", "_linalg_slogdet")


def _translated(row: Mapping[str, Any], inputs: list[Entry], shaped: bool) -> list[Entry] | None:
    """The outputs of an operator of MXNet's np, composed of ours; None: it is no such operator."""
    name, texts = row["op"], row.get("attrs") or {}
    theirs = (name.startswith("_np") and name not in registry) or (
        name == "_npi_einsum" and "optimize" in texts) or (shaped and name in _OF_MATRICES)
    if not theirs or not _translator:
        return None
    try:
        outputs = _translator[0]()(name, inputs, texts)
    except (TypeError, AttributeError) as error:
        raise NotForThisError(f"symbol JSON: operator '{name}' with {dict(texts)}: {error} [node "
                              f"{row['name']}]") from error
    if outputs and outputs[0] not in inputs:
        outputs[0].node.name = row["name"]
    return outputs  # type: ignore[no-any-return]


def _add_inputs(node: Node) -> None:
    """The variables that an old file leaves out: those of auxiliary states."""
    if node.op is not None and not node.op.variadic:
        for name in node.op.list_inputs(node.attrs)[len(node.inputs):]:
            node.inputs = [*node.inputs, Entry(Node(None, f"{node.name}_{name}"), 0)]


def _pairs(references: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    return [(reference[0], reference[1]) for reference in references]


def _node(row: Mapping[str, Any], inputs: list[Entry]) -> Node:
    # files from before 0.9 have an operator's own in "param", the user's in "attr"
    texts = {name: text for key in ("param", "attr", "attrs")
             for name, text in (row.get(key) or {}).items()}
    if row["op"] == "null":
        return Node(None, row["name"], extra_attrs=user_attrs(texts))
    op = registry.get(row["op"])
    if op is None:
        raise NotForThisError(f"symbol JSON: no operator '{row['op']}'"
                              f"{did_you_mean(row['op'], registry)} [node {row['name']}]")
    if isinstance(op, OpenOperator):
        op = op.concrete(texts)
    given, extra = _split(op, _without_those_of_inputs(op, texts, inputs))
    if _GRAPHS in row:
        given[_GRAPHS] = tuple(json.dumps(graph) for graph in row[_GRAPHS])
    node = Node(op, row["name"], inputs, extra_attrs=extra)
    try:
        training = given.pop("training", None) if op.needs_training else None
        node.attrs = Stated(op.parse(given), {name: text for name, text in given.items()
                                              if name in op.parsers and isinstance(text, str)})
    except MXNetError as error:
        raise locate(error, node) from None
    if training is not None:
        node.attrs["training"] = training == "True"
    return node


def _without_those_of_inputs(op: Operator, texts: Mapping[str, str], inputs: Sequence[Entry]
                             ) -> dict[str, str]:
    """Hands ``weight_lr_mult`` of old files to the variable at ``weight``; the others."""
    rest = {}
    for name, text in texts.items():
        key = next((key for key in HIDDEN_KEYS if name.endswith(f"_{key}")), None)
        of = name.removesuffix(f"_{key}")
        place = op.input_names.index(of) if key and of in op.input_names else len(inputs)
        if place < len(inputs) and inputs[place].node.op is None:
            inputs[place].node.extra_attrs[f"__{key}__"] = text
        else:
            rest[name] = text
    return rest


def _split(op: Operator, texts: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The operator's own attributes, and the user's."""
    given: dict[str, Any] = {}
    extra: dict[str, str] = {}
    for name, value in user_attrs(texts).items():
        if name in op.attr_names:
            given[name] = value
        elif name.startswith("__") and name.endswith("__"):
            extra[name] = value
        elif name not in _TUNING and value not in ("False", "None"):
            given[name] = value  # something unknown is switched on: op.parse says so
    return given, extra
