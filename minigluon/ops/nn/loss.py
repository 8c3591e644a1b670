"""Regression outputs: values whose gradient is that of a loss, whatever arrives from above."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...base import ShapeError
from ..operator import Attrs, MaybeShape, find_operator, operator
from ..rules import follow_dtype, known, like_shape

__all__ = ["linear_regression_output", "logistic_regression_output", "mae_regression_output",
           "regression_grad"]

Shapes = list[MaybeShape]


def _regression_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    """The label has as many elements as the data, (N,) for data (N, 1) when nothing is known."""
    data, label = shapes
    if data is None:
        return shapes, [None]
    if label is None:
        return [data, data[:1] if data[1:] == (1,) else data], [data]
    if known(data) and known(label) and (math.prod(label) != math.prod(data)
                                         or label[:1] != data[:1]):
        raise ShapeError(f"expected label with the {math.prod(data)} elements of data {data}, "
                         f"got {label}")
    return shapes, [data]


def _check(data: Any, label: Any) -> None:
    if data.size != label.size or data.shape[0] != label.shape[0]:
        raise ValueError(f"label {label.shape} does not fit data {data.shape}")


def _gradient(kind: str) -> Callable[..., list[Any]]:
    def rule(F: Any, dy: Any, out: Any, data: Any, label: Any, *, grad_scale: float) -> list[Any]:
        return [F._regression_grad(out, label, grad_scale=grad_scale, absolute=kind == "mae"),
                None]

    return rule


@operator("LinearRegressionOutput", infer=_regression_shape, infer_dtype=follow_dtype(fill=True),
          gradient=_gradient("linear"))
def linear_regression_output(xp: Any, data: Any, label: Any, *, grad_scale: float = 1.0) -> Any:
    """The data; its gradient is that of half the squared distance: (data - label) grad_scale / M.

    Shapes: data (N, *S), label (N, *S) -> (N, *S); M = prod S.

    >>> import numpy as np
    >>> linear_regression_output.body(np, np.ones(2), np.zeros(2), grad_scale=1.0).tolist()
    [1.0, 1.0]
    """
    _check(data, label)
    return data.copy()


@operator("MAERegressionOutput", infer=_regression_shape, infer_dtype=follow_dtype(fill=True),
          gradient=_gradient("mae"))
def mae_regression_output(xp: Any, data: Any, label: Any, *, grad_scale: float = 1.0) -> Any:
    """The data; its gradient is the sign of (data - label), times grad_scale / M.

    Shapes: data (N, *S), label (N, *S) -> (N, *S); M = prod S.

    >>> import numpy as np
    >>> mae_regression_output.body(np, np.ones(2), np.zeros(2), grad_scale=1.0).tolist()
    [1.0, 1.0]
    """
    _check(data, label)
    return data.copy()


@operator("LogisticRegressionOutput", infer=_regression_shape, infer_dtype=follow_dtype(fill=True),
          gradient=_gradient("logistic"))
def logistic_regression_output(xp: Any, data: Any, label: Any, *, grad_scale: float = 1.0) -> Any:
    """The sigmoid of the data; its gradient is (sigmoid(data) - label) grad_scale / M.

    Shapes: data (N, *S), label (N, *S) -> (N, *S); M = prod S.

    >>> import numpy as np
    >>> logistic_regression_output.body(np, np.zeros(2), np.zeros(2), grad_scale=1.0).tolist()
    [0.5, 0.5]
    """
    _check(data, label)
    return find_operator("sigmoid").body(xp, data)


@operator("_regression_grad", infer=like_shape(0), infer_dtype=follow_dtype(),
          gradient=lambda F, dy, out, data, label, **attrs: [None, None])
def regression_grad(xp: Any, out: Any, label: Any, *, grad_scale: float = 1.0,
                    absolute: bool = False) -> Any:
    """(out - label), or its sign (-1 at 0), times grad_scale / elements of a sample."""
    gap = out - label.reshape(out.shape).astype(out.dtype, copy=False)
    if absolute:
        gap = xp.where(gap > 0, out.dtype.type(1), out.dtype.type(-1))
    return gap * (grad_scale * out.shape[0] / max(out.size, 1))
