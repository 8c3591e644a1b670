"""The input again: copied, cast, with other values, or as the end of a network."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from .attrs import DType
from .operator import operator
from .rules import attr_dtype, follow_dtype, like_shape, no_gradient, same_shape

__all__: list[str] = []

Array = Any


def _pass_on(F: Any, dy: Any, out: Any, data: Any) -> list[Any]:
    return [dy]


def _copying(name: str, words: str, gradient: Callable[..., Any] = _pass_on,
             aliases: Sequence[str] = ()) -> None:
    """Enter an operator whose output is its input."""

    def body(xp: Any, data: Array) -> Array:
        return data.copy()

    body.__doc__ = (
        f"{words}\n\nArgs:\n    data: any array.\n\nShapes: data (*S) -> (*S).\n\n"
        f">>> import minigluon as mx\n>>> print(mx.nd.{name}(mx.nd.array([1, 2])).asnumpy())\n"
        "[1. 2.]\n")
    operator(name, infer=same_shape, gradient=gradient, aliases=aliases)(body)


_copying("_copy", "A copy.", aliases=("identity",))
_copying("_CrossDeviceCopy", "The same array, on the device where it is asked for.")
_copying("_copyto", "The same array, written to `out`.")
_copying("BlockGrad", "The input; no gradient passes.", no_gradient, ("stop_gradient",))


def _filled(name: str, made: Callable[[Any, Array], Array], word: str, printed: str) -> None:
    """Enter an operator that asks its input for shape and type alone."""

    def body(xp: Any, data: Array, *, dtype: DType | None = None) -> Array:
        return made(xp, data)

    body.__doc__ = (
        f"{word} of the same shape and type.\n\nArgs:\n    data: any array.\n    dtype: taken and "
        "left alone, as in MXNet, since programs give it; cast the result instead.\n\n"
        f"Shapes: data (*S) -> (*S).\n\n>>> import minigluon as mx\n"
        f">>> mx.nd.{name}(mx.nd.array([1, 2])).asnumpy().tolist()\n{printed}\n")
    operator(name, infer=same_shape, gradient=no_gradient, methods=(name,))(body)


_filled("zeros_like", lambda xp, x: xp.zeros_like(x), "Zeros", "[0.0, 0.0]")
_filled("ones_like", lambda xp, x: xp.ones_like(x), "Ones", "[1.0, 1.0]")


@operator("make_loss", infer=same_shape, output_names=("loss",),
          gradient=lambda F, dy, out, data: [F.ones_like(data)])
def make_loss(xp: Any, data: Array) -> Array:
    """The input, as the end of a network: its gradient is 1, whatever follows.

    Args:
        data: loss values.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> print(mx.nd.make_loss(mx.nd.array([1, 2])).asnumpy())
    [1. 2.]
    """
    return data.copy()


@operator("MakeLoss", infer=same_shape,
          gradient=lambda F, dy, out, data, **attrs: [F._make_loss_grad(data, **attrs)])
def scaled_loss(xp: Any, data: Array, *, grad_scale: float = 1.0, valid_thresh: float = 0.0,
                normalization: Literal["null", "batch", "valid"] = "null") -> Array:
    """The input, as the end of a network: its gradient is `grad_scale`, whatever follows.

    Args:
        data: loss values. grad_scale: the gradient. normalization: divide it by 1 ('null'), the
            batch size ('batch'), or the number of values above `valid_thresh` ('valid').

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> print(mx.nd.MakeLoss(mx.nd.array([1, 2])).asnumpy())
    [1. 2.]
    """
    return data.copy()


@operator("_make_loss_grad", infer=same_shape, gradient=no_gradient)
def _make_loss_grad(xp: Any, data: Array, *, grad_scale: float, valid_thresh: float,
                    normalization: str) -> Array:
    """The gradient of MakeLoss."""
    grad = xp.full_like(data, grad_scale)
    if normalization == "batch":
        return grad / grad.dtype.type(data.shape[0])
    if normalization == "valid":
        valid = xp.maximum((data > valid_thresh).sum(), 1)
        return grad / valid.astype(grad.dtype)
    return grad


@operator("Cast", infer=same_shape, infer_dtype=attr_dtype(), aliases=("cast",),
          gradient=lambda F, dy, out, data, *, dtype: [F._cast_like(dy, data)])
def cast(xp: Any, data: Array, *, dtype: DType) -> Array:
    """The same numbers in another element type; to integers the fraction is dropped.

    Args:
        data: any array. dtype: the new type.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.Cast(mx.nd.array([1.7, -2.5]), dtype="int32").asnumpy().tolist()
    [1, -2]
    """
    return data.astype(dtype)


@operator("_cast_like", infer=like_shape(0), infer_dtype=follow_dtype(1),
          gradient=lambda F, dy, out, data, like: [F._cast_like(dy, data), None])
def _cast_like(xp: Any, data: Array, like: Array) -> Array:
    """`data` in the element type of `like`."""
    return data.astype(like.dtype, copy=False)
