"""SymbolBlock: a block made of a graph, e.g. one that ``HybridBlock.export`` wrote."""
from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .. import symbol
from ..base import (
    ArgumentValueError,
    DeferredInitializationError,
    NotForThisError,
    ParameterMismatch,
    dtype_name,
)
from ..context import Context
from ..files import read_file
from ..graph import Entry, auxiliary, variables
from ..graph.ir import substitute
from ..ndarray import NDArray
from ..symbol import Symbol
from .hybrid import HybridBlock
from .parameterdict import ParameterDict
from .trace import Trace, canonical, flatten, rebuild, unnumbered

__all__ = ["SymbolBlock"]


class SymbolBlock(HybridBlock):
    """A block that computes a graph; the graph's other variables are its parameters.

    Args:
        outputs: what it computes: a Symbol, or (nested) lists of them.
        inputs: the variables that are its inputs, in order.
        params: parameters to use; the others are created.

    >>> import minigluon as mx
    >>> x = mx.sym.var("data")
    >>> net = mx.gluon.SymbolBlock(mx.sym.FullyConnected(x, num_hidden=3, name="fc"), x)
    >>> net.initialize()
    >>> net(mx.nd.ones((2, 4))).shape, list(net.collect_params())
    ((2, 3), ['fc_weight', 'fc_bias'])
    """

    def __init__(self, outputs: Any, inputs: Symbol | Sequence[Symbol],
                 params: ParameterDict | None = None) -> None:
        super().__init__()
        self._prefix = ""
        self._params = ParameterDict("", params)
        given: list[Any] = []
        flatten([inputs] if isinstance(inputs, Symbol) else list(inputs), given)
        for each in given:
            if len(each.entries) != 1 or each.entries[0].node.op is not None:
                raise ArgumentValueError(f"SymbolBlock: an input must be a variable, got {each}")
        found: list[Any] = []
        self._out_form = flatten(outputs, found)
        self._outputs = [entry for each in found for entry in each.entries]
        by_name = {node.name: node for node in variables(self._outputs)}  # inputs go by name
        self._inputs = [by_name.get(each.name, each.entries[0].node) for each in given]
        self._add_parameters()
        self._clear_cached_op()

    def _add_parameters(self) -> None:
        states = set(auxiliary(self._outputs))
        nodes = [node for node in variables(self._outputs) if node not in self._inputs]
        common = _common_prefix([node.name for node in nodes])
        for node in nodes:
            storage = node.extra_attrs.get("__storage_type__", "0")
            if storage != "0":
                raise ParameterMismatch(f"SymbolBlock: variable '{node.name}' is sparse; only "
                                        "dense ones can be parameters of a SymbolBlock")
            settings = {"grad_req": "null", "differentiable": False} if node in states else {}
            parameter = self.params.get(node.name, allow_deferred_init=True, **settings)
            self._reg_params[node.name.removeprefix(common)] = parameter

    @staticmethod
    def imports(symbol_file: str, input_names: str | Sequence[str],
                param_file: str | None = None, ctx: Context | Sequence[Context] | None = None,
                allow_missing: bool = False, ignore_extra: bool = False) -> SymbolBlock:
        """The block that HybridBlock.export wrote, here or in MXNet.

        Args:
            symbol_file: 'NAME-symbol.json'. input_names: which variables are inputs.
            param_file: 'NAME-0000.params'; without it the parameters have no values yet.
            ctx: where to put them. allow_missing: parameters may lack in the file.
            ignore_extra: the file may have others.
        """
        names = [input_names] if isinstance(input_names, str) else input_names
        text = read_file(symbol_file, "symbol").decode()
        outputs: Any = symbol.load_json(text)
        note = json.loads(text).get("attrs", {}).get("gluon_out_format")
        if note is not None:
            outputs = rebuild(unnumbered(json.loads(note[1])), iter(outputs))
        block = SymbolBlock(outputs, [symbol.var(name) for name in names])
        if param_file is not None:
            block.collect_params().load(param_file, ctx=ctx, allow_missing=allow_missing,
                                        ignore_extra=ignore_extra, cast_dtype=True,
                                        dtype_source="saved")
        return block

    def reset_ctx(self, ctx: Context | Sequence[Context]) -> None:
        """Move all parameters to other contexts."""
        self.collect_params().reset_ctx(ctx)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._clear_cached_op()

    def _clear_cached_op(self) -> None:
        super()._clear_cached_op()
        if hasattr(self, "_outputs"):
            in_form = canonical([1] * len(self._inputs))
            self._trace = Trace(self._outputs, self._inputs, in_form, self._out_form,
                                list(self.params.values()), self.name or "symbolblock")

    def forward(self, x: Any, *args: Any) -> Any:
        """The outputs for arrays, or the graph put after Symbols."""
        place = self._place((x, *args))
        leaves: list[Any] = []
        flatten((x, *args), leaves)
        if len(leaves) != len(self._inputs):
            raise ArgumentValueError(f"SymbolBlock: expected {len(self._inputs)} inputs "
                                     f"({', '.join(n.name for n in self._inputs)}), "
                                     f"got {len(leaves)}")
        if place is None:
            return self._after(leaves)
        graph = self._trace
        assert graph is not None
        if self._callback is not None:
            return graph.run_watched(leaves, place, *self._callback)
        try:
            return graph.run(leaves, place)
        except DeferredInitializationError:
            graph.finish(leaves)
        return graph.run(leaves, place)

    def _after(self, symbols: Sequence[Symbol]) -> Any:
        """A copy of the graph whose inputs are the given symbols."""
        swapped = {Entry(node, 0): each.entries[0]
                   for node, each in zip(self._inputs, symbols, strict=True)}
        entries = substitute(self._outputs, swapped)
        if self._out_form == len(entries):
            return Symbol(entries)
        return rebuild(self._out_form, (Symbol([entry]) for entry in entries))

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """A SymbolBlock has a graph instead."""
        raise NotForThisError("SymbolBlock has a graph, not a hybrid_forward; call the block")

    def infer_shape(self, *args: Any) -> None:
        """Fill in the parameters' unknown sizes for these inputs, without computing."""
        leaves: list[NDArray] = []
        flatten(args, leaves)
        assert self._trace is not None
        self._trace.infer_shape(leaves)

    def cast(self, dtype: Any) -> None:
        """Change the element type; float16 leaves the statistics of normalizations float32."""
        super().cast(dtype)
        if dtype_name(dtype) == "float16":
            for name, parameter in self.params.items():
                if name.endswith(("_gamma", "_beta", "_running_mean", "_running_var",
                                  "_moving_mean", "_moving_var")):
                    parameter.cast("float32")

    def __repr__(self) -> str:
        outputs = Symbol(self._outputs)
        return (f"{type(self).__name__}(\n{outputs!r} : {len(self._inputs)} -> "
                f"{len(outputs)}\n)")


def _common_prefix(names: Sequence[str]) -> str:
    """What all names begin with, up to an underscore.

    >>> _common_prefix(["net_dense0_weight", "net_dense1_bias"])
    'net_'
    """
    length = 0
    for letters in zip(*names, strict=False):
        if len(set(letters)) > 1:
            break
        length += 1
    return names[0][:names[0].rfind("_", 0, length) + 1] if names else ""
