"""Numbers in fewer bits: casts of mixed precision, quantization, and gradients that ignore it."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..base import ArgumentValueError
from .attrs import DType
from .elemwise import as_dtype_of
from .operator import Attrs, find_operator, operator
from .rules import DTypes, Shapes, merge_shapes, same_shape

__all__: list[str] = []

Array = Any


# -- mixed precision -------------------------------------------------------------------------------

@operator("amp_cast", infer=same_shape,
          infer_dtype=lambda dtypes, attrs: (dtypes, [attrs["dtype"]]),
          gradient=lambda F, dy, out, data, dtype: [F._cast_like(dy, data)])
def amp_cast(xp: Any, data: Array, *, dtype: DType) -> Array:
    """The same numbers in another floating point type; the gradient comes back in the own one.

    Args:
        data: any array. dtype: the new type.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.amp_cast(mx.nd.ones((2,)), dtype="float16").dtype.__name__
    'float16'
    """
    return data.astype(dtype)


_WIDTH = {"float16": 16, "float32": 32, "float64": 64}


def _common(dtypes: Sequence[Any], narrow: bool) -> Any:
    """The widest of the types, or the narrowest; None where one is not known."""
    if any(dtype is None for dtype in dtypes):
        return None
    floats = [str(dtype) for dtype in dtypes]
    unknown = [dtype for dtype in floats if dtype not in _WIDTH]
    if unknown:
        raise ArgumentValueError(f"expected floating point arrays, got {', '.join(unknown)}")
    return (min if narrow else max)(floats, key=_WIDTH.__getitem__)


def _multicast_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    if attrs["num_outputs"] != len(shapes):
        raise ArgumentValueError(f"num_outputs: expected {len(shapes)}, the number of arrays, got "
                                 f"{attrs['num_outputs']}")
    return shapes, list(shapes)


def _multicast_dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    return dtypes, [_common(dtypes, attrs["cast_narrow"])] * len(dtypes)


def _multicast_back(F: Any, dy: Any, out: Any, *data: Any, **attrs: Any) -> list[Any]:
    return [None if grad is None else F._cast_like(grad, array)
            for grad, array in zip(dy, data, strict=True)]


@operator("amp_multicast", infer=_multicast_shape, infer_dtype=_multicast_dtype,
          gradient=_multicast_back, num_outputs=lambda attrs: attrs["num_outputs"])
def amp_multicast(xp: Any, *data: Array, num_outputs: int, cast_narrow: bool = False
                  ) -> tuple[Array, ...]:
    """All arrays in the widest of their types, so that they can meet in one operator.

    Args:
        data: floating point arrays. num_outputs: how many. cast_narrow: the narrowest type.

    Shapes: any number of arrays -> the same shapes.

    >>> import minigluon as mx
    >>> half, single = mx.nd.ones((2,), dtype="float16"), mx.nd.ones((2,))
    >>> [x.dtype.__name__ for x in mx.nd.amp_multicast(half, single, num_outputs=2)]
    ['float32', 'float32']
    """
    _multicast_shape([array.shape for array in data], {"num_outputs": num_outputs})
    dtype = _common([array.dtype.name for array in data], cast_narrow)
    return tuple(array.astype(dtype) for array in data)


# -- quantization ----------------------------------------------------------------------------------

QuantizedType = Literal["int8", "uint8"]


def _quantized_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    one = merge_shapes((1,), merge_shapes(shapes[1], shapes[2]), "shapes of min and max and (1,)")
    return [shapes[0], one, one], [shapes[0], one, one]


@operator("_contrib_quantize", infer=_quantized_shape, num_outputs=3,
          output_names=("output0", "output1", "output2"),
          infer_dtype=lambda dtypes, attrs: (dtypes, [attrs["out_type"], "float32", "float32"]))
def quantize(xp: Any, data: Array, min_range: Array, max_range: Array, *,
             out_type: QuantizedType = "uint8") -> tuple[Array, Array, Array]:
    """Floats as integers of eight bits over a given range.

    Args:
        data: the numbers. min_range, max_range: what the smallest and largest integer stand for;
            for int8 the range is made symmetric. out_type: 'uint8' or 'int8'.

    Shapes: data (*S), min_range (1,), max_range (1,) -> (*S), (1,), (1,).

    >>> import minigluon as mx
    >>> low, high = mx.nd.array([0]), mx.nd.array([1])
    >>> mx.nd.contrib.quantize(mx.nd.array([0, 0.5, 1]), low, high)[0].asnumpy().tolist()
    [0, 128, 255]
    """
    _quantized_shape([data.shape, min_range.shape, max_range.shape], {})
    if out_type == "uint8":
        scale = 255 / (max_range - min_range)
        whole = xp.floor(xp.clip((data - min_range) * scale, 0, 255) + 0.5)
        return (xp.minimum(whole, 255).astype(xp.uint8), min_range.astype(xp.float32),
                max_range.astype(xp.float32))
    limit = xp.maximum(xp.abs(min_range), xp.abs(max_range)).astype(xp.float32)
    whole = xp.floor(xp.minimum(xp.abs(data) * (127 / limit) + 0.5, 127))
    return (xp.sign(data) * whole).astype(xp.int8), -limit, limit


def _dequantized_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    ins, outs = _quantized_shape(shapes, attrs)
    return ins, outs[:1]


@operator("_contrib_dequantize", infer=_dequantized_shape,
          infer_dtype=lambda dtypes, attrs: (dtypes, [attrs["out_type"]]))
def dequantize(xp: Any, data: Array, min_range: Array, max_range: Array, *,
               out_type: Literal["float32"] = "float32") -> Array:
    """The floats that integers of eight bits stand for.

    Args:
        data: int8 or uint8. min_range, max_range: what the ends stand for.
        out_type: 'float32'.

    Shapes: data (*S), min_range (1,), max_range (1,) -> (*S).

    >>> import minigluon as mx
    >>> q = mx.nd.array([-127, 0], dtype="int8")
    >>> mx.nd.contrib.dequantize(q, mx.nd.array([-2]), mx.nd.array([2])).asnumpy().tolist()
    [-2.0, 0.0]
    """
    _quantized_shape([data.shape, min_range.shape, max_range.shape], {})
    low, high = min_range.astype(xp.float32), max_range.astype(xp.float32)
    real = data.astype(xp.float32)
    if data.dtype == xp.uint8:
        return real * ((high - low) / 255) + low
    return real * (xp.maximum(xp.abs(low), xp.abs(high)) / 127)


# -- gradients of one's own choice -----------------------------------------------------------------

def _same(F: Any, dy: Any, out: Any, data: Any, **attrs: Any) -> list[Any]:
    return [dy]


@operator("_contrib_round_ste", infer=same_shape, gradient=_same)
def round_ste(xp: Any, data: Array) -> Array:
    """The nearest whole number, halves away from zero; the gradient passes unchanged.

    Args:
        data: any array.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.contrib.round_ste(mx.nd.array([0.4, 0.5])).asnumpy().tolist()
    [0.0, 1.0]
    """
    return find_operator("round").body(xp, data)


@operator("_contrib_sign_ste", infer=same_shape, gradient=_same)
def sign_ste(xp: Any, data: Array) -> Array:
    """-1, 0 or 1; the gradient passes unchanged.

    Args:
        data: any array.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.contrib.sign_ste(mx.nd.array([-0.4, 0])).asnumpy().tolist()
    [-1.0, 0.0]
    """
    return xp.sign(data)


@operator("_contrib_gradientmultiplier", infer=same_shape,
          gradient=lambda F, dy, out, data, scalar: [F._mul_scalar(dy, scalar=scalar)])
def gradientmultiplier(xp: Any, data: Array, *, scalar: float = 1.0) -> Array:
    """The data; its gradient is multiplied by a number (-1 reverses it).

    Args:
        data: any array. scalar: the factor.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.contrib.gradientmultiplier(mx.nd.ones((1,)), scalar=-1).item()
    1.0
    """
    return data.copy()


def _quadratic_back(F: Any, dy: Any, out: Any, data: Any, *, a: float, b: float, c: float
                    ) -> list[Any]:
    slope = F._plus_scalar(F._mul_scalar(data, scalar=2 * a), scalar=b)
    return [F.elemwise_mul(dy, slope)]


@operator("_contrib_quadratic", infer=same_shape, gradient=_quadratic_back)
def quadratic(xp: Any, data: Array, *, a: float = 0.0, b: float = 0.0, c: float = 0.0) -> Array:
    """a x^2 + b x + c.

    Args:
        data: x. a, b, c: the coefficients.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.contrib.quadratic(mx.nd.array([2]), a=1, b=2, c=3).item()
    11.0
    """
    return as_dtype_of((a * data + b) * data + c, data)
