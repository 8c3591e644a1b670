"""Operators of two or more arrays, element by element, and stretching one array to a shape."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import ShapeError
from .arithmetic import divide, modulo, power
from .attrs import Axes, Shape
from .operator import Attrs, Operator, operator
from .rules import (
    Shapes,
    axis_of,
    broadcast_shape,
    broadcast_two,
    no_gradient,
    same_shape,
    same_shapes_or_error,
)

__all__: list[str] = []

Array = Any
Gradient = Callable[..., Sequence[Any]]


def _pair(
    name: str,
    function: Callable[[Any, Array, Array], Array],
    gradient: Gradient,
    words: str,
    printed: str,
    aliases: Sequence[str] = (),
) -> Operator:
    """Enter a broadcasting function; `printed` is its value at [[1, 2, 3]] and [[2], [3]]."""

    def body(xp: Any, lhs: Array, rhs: Array) -> Array:
        result = function(xp, lhs, rhs)
        return result if result.dtype == lhs.dtype else result.astype(lhs.dtype)

    body.__doc__ = (
        f"{words}, element by element; axes of size 1 are stretched.\n\n"
        "Args:\n    lhs, rhs: arrays of one dtype.\n\n"
        "Shapes: lhs (*A), rhs (*B) -> (*A broadcast with B).\n\n>>> import minigluon as mx\n"
        ">>> x, y = mx.nd.array([[1, 2, 3]]), mx.nd.array([[2], [3]])\n"
        f">>> print(mx.nd.{name}(x, y).asnumpy().round(3))\n{printed}\n"
    )
    return operator(name, infer=broadcast_shape, gradient=gradient, aliases=aliases)(body)


def _both(left: Callable[..., Any], right: Callable[..., Any]) -> Gradient:
    """The rule of a broadcasting function whose gradients, unsummed, are left and right."""
    return lambda F, dy, out, lhs, rhs: [F._sum_like(left(F, dy, out, lhs, rhs), lhs),
                                         F._sum_like(right(F, dy, out, lhs, rhs), rhs)]


def _chosen(word: str) -> Gradient:
    """The rule of maximum and minimum: the chosen operand gets dy, ties go to lhs."""

    def rule(F: Any, dy: Any, out: Any, lhs: Any, rhs: Any) -> list[Any]:
        left = F.elemwise_mul(dy, getattr(F, f"broadcast_{word}_equal")(lhs, rhs))
        # what lhs did not take; a comparison of its own would let nan operands lose it
        return [F._sum_like(left, lhs), F._sum_like(F.elemwise_sub(dy, left), rhs)]

    return rule


def _power_slopes(F: Any, dy: Any, out: Any, lhs: Any, rhs: Any) -> list[Any]:
    base = F.broadcast_mul(rhs, F.broadcast_power(lhs, F._minus_scalar(rhs, scalar=1)))
    exponent = F.broadcast_mul(out, F._log_or_zero(lhs))
    return [F._sum_like(F.elemwise_mul(dy, base), lhs),
            F._sum_like(F.elemwise_mul(dy, exponent), rhs)]


def _compared(function: Callable[[Any, Array, Array], Array]) -> Callable[..., Array]:
    return lambda xp, a, b: function(xp, a, b).astype(a.dtype)


_pair("broadcast_add", lambda xp, a, b: a + b,
      _both(lambda F, dy, out, a, b: dy, lambda F, dy, out, a, b: dy),
      "lhs + rhs", "[[3. 4. 5.]\n [4. 5. 6.]]", aliases=("broadcast_plus",))
_pair("broadcast_sub", lambda xp, a, b: a - b,
      _both(lambda F, dy, out, a, b: dy, lambda F, dy, out, a, b: F.negative(dy)),
      "lhs - rhs", "[[-1.  0.  1.]\n [-2. -1.  0.]]", aliases=("broadcast_minus",))
_pair("broadcast_mul", lambda xp, a, b: a * b,
      _both(lambda F, dy, out, a, b: F.broadcast_mul(dy, b),
            lambda F, dy, out, a, b: F.broadcast_mul(dy, a)),
      "lhs * rhs", "[[2. 4. 6.]\n [3. 6. 9.]]")
_pair("broadcast_div", divide,
      _both(lambda F, dy, out, a, b: F.broadcast_div(dy, b),
            lambda F, dy, out, a, b: F.negative(F.broadcast_div(F.elemwise_mul(dy, out), b))),
      "lhs / rhs", "[[0.5   1.    1.5  ]\n [0.333 0.667 1.   ]]")
_pair("broadcast_mod", modulo,
      _both(lambda F, dy, out, a, b: dy,
            lambda F, dy, out, a, b: F.negative(F.elemwise_mul(
                dy, F.floor(F.broadcast_div(a, b))))),
      "The rest of lhs / rhs, with the sign of rhs", "[[1. 0. 1.]\n [1. 2. 0.]]",
      aliases=("_mod", "_Mod"))
_pair("broadcast_power", power, _power_slopes,
      "lhs to the power of rhs", "[[ 1.  4.  9.]\n [ 1.  8. 27.]]",
      aliases=("_power", "_Power"))
_pair("broadcast_maximum", lambda xp, a, b: xp.maximum(a, b), _chosen("greater"),
      "The larger of lhs and rhs (ties and their gradient: lhs)", "[[2. 2. 3.]\n [3. 3. 3.]]",
      aliases=("_maximum", "_Maximum"))
_pair("broadcast_minimum", lambda xp, a, b: xp.minimum(a, b), _chosen("lesser"),
      "The smaller of lhs and rhs (ties and their gradient: lhs)", "[[1. 2. 2.]\n [1. 2. 3.]]",
      aliases=("_minimum", "_Minimum"))
_pair("broadcast_hypot", lambda xp, a, b: xp.hypot(a, b),
      _both(lambda F, dy, out, a, b: F.elemwise_mul(dy, F.broadcast_div(a, out)),
            lambda F, dy, out, a, b: F.elemwise_mul(dy, F.broadcast_div(b, out))),
      "sqrt(lhs^2 + rhs^2)",
      "[[2.236 2.828 3.606]\n [3.162 3.606 4.243]]",
      aliases=("_hypot", "_Hypot"))
_pair("broadcast_equal", _compared(lambda xp, a, b: a == b), no_gradient,
      "1 where lhs equals rhs, else 0", "[[0. 1. 0.]\n [0. 0. 1.]]",
      aliases=("_equal", "_Equal"))
_pair("broadcast_not_equal", _compared(lambda xp, a, b: a != b), no_gradient,
      "1 where lhs differs from rhs, else 0", "[[1. 0. 1.]\n [1. 1. 0.]]",
      aliases=("_not_equal", "_Not_Equal"))
_pair("broadcast_greater", _compared(lambda xp, a, b: a > b), no_gradient,
      "1 where lhs > rhs, else 0", "[[0. 0. 1.]\n [0. 0. 0.]]",
      aliases=("_greater", "_Greater"))
_pair("broadcast_greater_equal", _compared(lambda xp, a, b: a >= b), no_gradient,
      "1 where lhs >= rhs, else 0", "[[0. 1. 1.]\n [0. 0. 1.]]",
      aliases=("_greater_equal", "_Greater_Equal"))
_pair("broadcast_lesser", _compared(lambda xp, a, b: a < b), no_gradient,
      "1 where lhs < rhs, else 0", "[[1. 0. 0.]\n [1. 1. 0.]]", aliases=("_lesser", "_Lesser"))
_pair("broadcast_lesser_equal", _compared(lambda xp, a, b: a <= b), no_gradient,
      "1 where lhs <= rhs, else 0", "[[1. 1. 0.]\n [1. 1. 1.]]",
      aliases=("_lesser_equal", "_Lesser_Equal"))
_pair("broadcast_logical_and", lambda xp, a, b: xp.logical_and(a, b), no_gradient,
      "1 where both are not 0, else 0", "[[1. 1. 1.]\n [1. 1. 1.]]",
      aliases=("_logical_and", "_Logical_And"))
_pair("broadcast_logical_or", lambda xp, a, b: xp.logical_or(a, b), no_gradient,
      "1 where one is not 0, else 0", "[[1. 1. 1.]\n [1. 1. 1.]]",
      aliases=("_logical_or", "_Logical_Or"))
_pair("broadcast_logical_xor", lambda xp, a, b: xp.logical_xor(a, b), no_gradient,
      "1 where just one is not 0, else 0", "[[0. 0. 0.]\n [0. 0. 0.]]",
      aliases=("_logical_xor", "_Logical_Xor"))


@operator("_log_or_zero", infer=same_shape,
          gradient=lambda F, dy, out, data: [F.elemwise_mul(dy, F._reciprocal_or_zero(data))])
def _log_or_zero(xp: Any, data: Array) -> Array:
    """log(x), 0 at 0: there x^y has no slope along y, and 0 * log(0) must not be nan."""
    zero = data == 0
    return xp.where(zero, data, xp.log(xp.where(zero, data.dtype.type(1), data)))


@operator("_reciprocal_or_zero", infer=same_shape, gradient=lambda F, dy, out, data: [
    F.negative(F.elemwise_mul(dy, F.square(out)))])
def _reciprocal_or_zero(xp: Any, data: Array) -> Array:
    """1 / x, 0 at 0."""
    zero = data == 0
    return xp.where(zero, data, 1 / xp.where(zero, data.dtype.type(1), data))


# -- equal shapes ----------------------------------------------------------------------------------

def _equal_pair(
    name: str,
    function: Callable[[Any, Array, Array], Array],
    gradient: Gradient,
    words: str,
    printed: str,
    aliases: Sequence[str],
) -> Operator:
    """Enter a function of two arrays of one shape; `printed` is its value at [4, 6], [2, 3]."""

    def body(xp: Any, lhs: Array, rhs: Array) -> Array:
        if lhs.shape != rhs.shape:
            same_shapes_or_error(name, lhs, rhs)
        return function(xp, lhs, rhs)

    body.__doc__ = (
        f"{words}, element by element, of arrays of one shape.\n\n"
        "Args:\n    lhs, rhs: arrays of one dtype and shape.\n\n"
        "Shapes: lhs (*S), rhs (*S) -> (*S).\n\n>>> import minigluon as mx\n"
        f">>> print(mx.nd.{name}(mx.nd.array([4, 6]), mx.nd.array([2, 3])).asnumpy())\n{printed}\n"
    )
    return operator(name, infer=same_shape, gradient=gradient, aliases=aliases)(body)


_equal_pair("elemwise_add", lambda xp, a, b: a + b, lambda F, dy, out, a, b: [dy, dy],
            "lhs + rhs", "[6. 9.]", aliases=("_add", "_plus", "_Plus", "_grad_add"))
_equal_pair("elemwise_sub", lambda xp, a, b: a - b,
            lambda F, dy, out, a, b: [dy, F.negative(dy)],
            "lhs - rhs", "[2. 3.]", aliases=("_sub", "_minus", "_Minus"))
_equal_pair("elemwise_mul", lambda xp, a, b: a * b,
            lambda F, dy, out, a, b: [F.elemwise_mul(dy, b), F.elemwise_mul(dy, a)],
            "lhs * rhs", "[ 8. 18.]", aliases=("_mul", "_Mul"))
_equal_pair("elemwise_div", divide,
            lambda F, dy, out, a, b: [
                F.elemwise_div(dy, b),
                F.negative(F.elemwise_div(F.elemwise_mul(dy, out), b))],
            "lhs / rhs", "[2. 2.]", aliases=("_div", "_Div"))


@operator("add_n", infer=same_shape, aliases=("ElementWiseSum", "elemwise_sum"),
          gradient=lambda F, dy, out, *args, **attrs: [dy] * len(args))
def add_n(xp: Any, *args: Array, num_args: int = 0) -> Array:
    """The sum of any number of arrays of one shape.

    Args:
        args: the arrays. num_args: how many (known anyway; for old symbol files).

    Shapes: args n x (*S) -> (*S).

    >>> import minigluon as mx
    >>> x = mx.nd.array([1, 2])
    >>> print(mx.nd.add_n(x, x, x).asnumpy())
    [3. 6.]
    """
    same_shapes_or_error("add_n", *args)
    total = args[0].copy()
    for array in args[1:]:
        total += array
    return total


# -- stretching ------------------------------------------------------------------------------------

def _sum_like_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, [shapes[1]]


@operator("_sum_like", infer=_sum_like_shape,
          gradient=lambda F, dy, out, data, like: [F.broadcast_like(dy, data), None])
def _sum_like(xp: Any, data: Array, like: Array) -> Array:
    """`data` summed over the axes along which `like` was broadcast to its shape."""
    shape = like.shape
    if data.shape == shape:
        return data
    lead = data.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(
        place + lead for place, dim in enumerate(shape) if dim == 1 != data.shape[place + lead])
    return data.sum(axis=axes, dtype=data.dtype).reshape(shape)


def _to_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    wanted = attrs["shape"]
    shape = shapes[0]
    if shape is None:
        return shapes, [wanted if 0 not in wanted else None]
    return shapes, [_target(shape, wanted)]


def _target(shape: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...]:
    if len(shape) != len(wanted):
        raise ShapeError(f"expected a shape with {len(shape)} dimensions like the data's "
                         f"{tuple(shape)}, got {tuple(wanted)}; reshape the data first")
    if any(new and old not in (0, 1, new) for old, new in zip(shape, wanted, strict=True)):
        raise ShapeError(f"expected dimensions of size 1 where the size changes, "
                         f"got {tuple(shape)} to {tuple(wanted)}")
    return tuple(new or old for old, new in zip(shape, wanted, strict=True))


@operator("broadcast_to", infer=_to_shape, methods=("broadcast_to",),
          gradient=lambda F, dy, out, data, **attrs: [F._sum_like(dy, data)])
def broadcast_to(xp: Any, data: Array, *, shape: Shape) -> Array:
    """Stretch axes of size 1 to `shape`.

    Args:
        data: the array. shape: as many sizes as data has axes; 0 keeps a size.

    Shapes: data (*S) -> shape.

    >>> import minigluon as mx
    >>> mx.nd.broadcast_to(mx.nd.array([[1], [2]]), shape=(0, 2)).asnumpy().tolist()
    [[1.0, 1.0], [2.0, 2.0]]
    """
    return xp.broadcast_to(data, _target(data.shape, shape)).copy()


def _stretched(shape: Sequence[int], axis: Any, size: Any) -> tuple[int, ...]:
    axes = (axis,) if isinstance(axis, int) else axis
    if len(axes) != len(size):
        raise ShapeError(f"expected one size for each axis, got axis {axes} and size {size}")
    result = list(shape)
    for one, new in zip(axes, size, strict=True):
        place = axis_of(one, len(shape))
        if result[place] not in (0, 1):
            raise ShapeError(f"expected size 1 on axis {one}, got {result[place]} "
                             f"in shape {tuple(shape)}")
        result[place] = new
    return tuple(result)


def _axis_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    return shapes, [None if shape is None else _stretched(shape, attrs["axis"], attrs["size"])]


@operator("broadcast_axis", infer=_axis_shape, aliases=("broadcast_axes",),
          methods=("broadcast_axes", "broadcast_axis"),
          gradient=lambda F, dy, out, data, **attrs: [F._sum_like(dy, data)])
def broadcast_axis(xp: Any, data: Array, *, axis: Axes = (), size: Shape = ()) -> Array:
    """Stretch the given axes, which have size 1.

    Args:
        data: the array. axis: axis or axes. size: the new size of each.

    Shapes: data (*S) -> S with size at axis.

    >>> import minigluon as mx
    >>> mx.nd.broadcast_axis(mx.nd.array([[1], [2]]), axis=1, size=2).asnumpy().tolist()
    [[1.0, 1.0], [2.0, 2.0]]
    """
    return xp.broadcast_to(data, _stretched(data.shape, axis, size)).copy()


def _like(lhs: Sequence[int], rhs: Sequence[int], lhs_axes: Any, rhs_axes: Any) -> tuple[int, ...]:
    if lhs_axes is None and rhs_axes is None:
        if len(lhs) > len(rhs) or broadcast_two(lhs, rhs) != tuple(
                new or old for new, old in zip(rhs, broadcast_two(lhs, rhs), strict=True)):
            raise ShapeError(f"expected a shape that stretches to {tuple(rhs)}, got {tuple(lhs)}")
        return tuple(rhs)
    if not lhs_axes or not rhs_axes or len(lhs_axes) != len(rhs_axes):
        raise ShapeError(f"expected lhs_axes and rhs_axes of one length, not empty, "
                         f"got {lhs_axes} and {rhs_axes}")
    result = list(lhs)
    for left, right in zip(_axes(lhs_axes, len(lhs), "lhs_axes"),
                           _axes(rhs_axes, len(rhs), "rhs_axes"), strict=True):
        if result[left] > 1 and rhs[right] not in (0, result[left]):
            raise ShapeError(f"expected size 1 on axis {left} of lhs {tuple(lhs)} to stretch to "
                             f"{rhs[right]}, got {result[left]}")
        result[left] = rhs[right] or result[left]
    return tuple(result)


def _axes(axes: Sequence[int], ndim: int, what: str) -> list[int]:
    """Each axis counted from the front, in the order given."""
    return [axis_of(axis, ndim, what) for axis in axes]


def _like_rule(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    lhs, rhs = shapes
    if lhs is None or rhs is None:
        return shapes, [rhs if attrs["lhs_axes"] is None else None]
    return shapes, [_like(lhs, rhs, attrs["lhs_axes"], attrs["rhs_axes"])]


@operator("broadcast_like", infer=_like_rule, methods=("broadcast_like",),
          gradient=lambda F, dy, out, lhs, rhs, **attrs: [F._sum_like(dy, lhs), None])
def broadcast_like(xp: Any, lhs: Array, rhs: Array, *, lhs_axes: Shape | None = None,
                   rhs_axes: Shape | None = None) -> Array:
    """Stretch lhs to the shape of rhs.

    Args:
        lhs: the array. rhs: only its shape counts. lhs_axes, rhs_axes: stretch only these axes of
            lhs, to the sizes of those of rhs.

    Shapes: lhs (*S), rhs (*T) -> (*T), or S with some sizes of T.

    >>> import minigluon as mx
    >>> mx.nd.broadcast_like(mx.nd.array([[1], [2]]), mx.nd.ones((2, 2))).asnumpy().tolist()
    [[1.0, 1.0], [2.0, 2.0]]
    """
    return xp.broadcast_to(lhs, _like(lhs.shape, rhs.shape, lhs_axes, rhs_axes)).copy()
