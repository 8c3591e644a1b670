"""`Custom`: one name for all operators that users write in Python (see ``mx.operator``)."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..base import NotForThisError
from .operator import Operator, registry

__all__ = ["OpenOperator"]


class OpenOperator(Operator):
    """A name that stands for many operators: which one, the attributes of a call say.

    Attributes:
        make: ``make(attributes) -> Operator``; the room that knows such operators sets it.
    """

    make: Callable[[Mapping[str, Any]], Operator] | None = None

    def concrete(self, given: Mapping[str, Any]) -> Operator:
        """The operator meant by a call with these keyword arguments."""
        if self.make is None:
            raise NotForThisError(f"{self.name}: there are no such operators yet; "
                                  "import minigluon.operator")
        return self.make(given)


def _custom(xp: Any, *data: Any, op_type: str) -> Any:
    """Call the operator that was registered as `op_type` by ``mx.operator.register``.

    Further keyword arguments go, as strings, to the constructor of its CustomOpProp.

    Shapes:
        as its ``infer_shape`` says.

    >>> import minigluon as mx
    >>> class Double(mx.operator.CustomOp):
    ...     def forward(self, is_train, req, in_data, out_data, aux):
    ...         self.assign(out_data[0], req[0], in_data[0] * 2)
    >>> @mx.operator.register("doc_double")
    ... class DoubleProp(mx.operator.CustomOpProp):
    ...     def create_operator(self, ctx, in_shapes, in_dtypes):
    ...         return Double()
    >>> mx.nd.Custom(mx.nd.ones((2,)), op_type="doc_double").asnumpy().tolist()
    [2.0, 2.0]
    """
    raise NotForThisError(f"Custom: '{op_type}' was not looked up")


registry["Custom"] = OpenOperator("Custom", _custom)
