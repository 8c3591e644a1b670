"""The second names that MXNet's files have for operators with bodies for sparse arrays."""
from __future__ import annotations

from typing import Any

from ..attrs import Scalar
from ..operator import operator, registry

__all__: list[str] = []

Array = Any

# What MXNet's nd.sparse and sym.sparse list, beside operators that are named _sparse_ only.
_SPARSE = (
    "ElementWiseSum", "Embedding", "FullyConnected", "LinearRegressionOutput",
    "LogisticRegressionOutput", "MAERegressionOutput", "_contrib_round_ste", "_contrib_sign_ste",
    "abs", "adam_update", "add_n", "arccos",
    "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "broadcast_add", "broadcast_div",
    "broadcast_minus", "broadcast_mul", "broadcast_plus", "broadcast_sub", "cast_storage", "cbrt",
    "ceil", "clip", "concat", "cos", "cosh", "degrees", "dot", "elemwise_add", "elemwise_div",
    "elemwise_mul", "elemwise_sub", "exp", "expm1", "fix", "floor", "ftrl_update", "gamma",
    "gammaln", "log", "log10", "log1p", "log2", "make_loss", "mean", "negative", "norm", "radians",
    "relu", "rint", "round", "rsqrt", "sgd_mom_update", "sgd_update", "sigmoid", "sign", "sin",
    "sinh", "slice", "sqrt", "square", "stop_gradient", "sum", "tan", "tanh", "trunc", "where",
    "zeros_like",
)


def _same_as(name: str, original: str) -> None:
    """An operator that MXNet keeps apart for row_sparse arrays; dense ones see no difference."""
    found = registry[original]

    def with_number(xp: Any, data: Array, *, scalar: Scalar = 1.0) -> Array:  # type: ignore[assignment]
        return found.body(xp, data, scalar=scalar)

    def of_two(xp: Any, lhs: Array, rhs: Array) -> Array:
        return found.body(xp, lhs, rhs)

    body = of_two if len(found.input_names) == 2 else with_number
    body.__doc__ = f"`{original}`, where a file says so.\n\nShapes: as for {original}.\n"
    operator(name, infer=found.infer, gradient=found.gradient)(body)


for _name in _SPARSE:
    registry[f"_sparse_{_name}"] = registry[_name]
_same_as("_scatter_elemwise_div", "elemwise_div")
_same_as("_scatter_plus_scalar", "_plus_scalar")
_same_as("_scatter_minus_scalar", "_minus_scalar")
