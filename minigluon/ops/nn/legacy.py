"""Operators of the oldest networks: SVMOutput, IdentityAttachKLSparseReg, Crop."""
from __future__ import annotations

from typing import Any

from ...base import ArgumentError, ArgumentValueError, ShapeError
from ..attrs import Shape
from ..operator import Attrs, MaybeShape, operator
from ..rules import follow_dtype, like_shape, merge_shapes

__all__ = ["crop", "crop_grad", "identity_attach_kl_sparse_reg", "kl_sparse_grad", "svm_grad",
           "svm_output"]

Shapes = list[MaybeShape]


# -- SVMOutput ------------------------------------------------------------------------------------


def _svm_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, label = shapes
    if data is None:
        return shapes, [None]
    return [data, merge_shapes(data[:1], label, "shapes of label (needed and given)")], [data]


@operator("SVMOutput", infer=_svm_shape, infer_dtype=follow_dtype(fill=True),
          gradient=lambda F, dy, out, data, label, **attrs: [
              F._svm_grad(out, label, **attrs), None])
def svm_output(xp: Any, data: Any, label: Any, *, margin: float = 1.0,
               regularization_coefficient: float = 1.0, use_linear: bool = False) -> Any:
    """The data; its gradient is that of a support vector machine's loss, whatever is above.

    Args:
        data: scores. label: class numbers.
        margin: scores beyond it cost nothing. regularization_coefficient: factor of the loss.
        use_linear: the cost grows linearly (L1), not with the square (L2).

    Shapes:
        data (N, K), label (N,) -> (N, K).

    >>> import numpy as np
    >>> svm_output.body(np, np.ones((1, 2)), np.zeros(1)).tolist()
    [[1.0, 1.0]]
    """
    if label.shape != data.shape[:1]:
        raise ValueError(f"expected label of shape {data.shape[:1]}, got {label.shape}")
    return data.copy()


@operator("_svm_grad", infer=like_shape(0), infer_dtype=follow_dtype(),
          gradient=lambda F, dy, out, scores, label, **attrs: [None, None])
def svm_grad(xp: Any, out: Any, label: Any, *, margin: float = 1.0,
             regularization_coefficient: float = 1.0, use_linear: bool = False) -> Any:
    """Gradient of SVMOutput: what each score is short of the margin on its right side."""
    rows = out.reshape(out.shape[0], -1)
    hit = xp.arange(rows.shape[1]) == label.reshape(-1, 1)
    side = xp.where(hit, out.dtype.type(-1), out.dtype.type(1))
    lacking = margin + side * rows
    cost = (lacking > 0).astype(out.dtype) if use_linear else 2 * xp.maximum(lacking, 0)
    return (side * cost * regularization_coefficient).reshape(out.shape).astype(out.dtype)


# -- IdentityAttachKLSparseReg --------------------------------------------------------------------


def _sparse_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, average = shapes
    if data is None or len(data) < 2:
        return shapes, [data]
    average = merge_shapes(data[1:2], average, "shapes of moving_avg (needed and given)")
    return [data, average], [data]


@operator("IdentityAttachKLSparseReg", infer=_sparse_shape, aux=("moving_avg",),
          gradient=lambda F, dy, out, data, moving_avg, **attrs: [
              F._kl_sparse_grad(dy, data, moving_avg, **attrs), None])
def identity_attach_kl_sparse_reg(xp: Any, data: Any, moving_avg: Any, *,
                                  sparseness_target: float = 0.1, penalty: float = 0.001,
                                  momentum: float = 0.9) -> Any:
    """The data (of a sigmoid); its gradient also pulls each unit's mean to a target.

    Args:
        moving_avg: running mean of each unit; backward updates it.
        sparseness_target: the mean each unit should have. penalty: how strongly.
        momentum: of the running mean.

    Shapes:
        data (N, C, *S), moving_avg (C,) -> (N, C, *S).

    >>> import numpy as np
    >>> identity_attach_kl_sparse_reg.body(np, np.ones((1, 2)), np.ones(2)).tolist()
    [[1.0, 1.0]]
    """
    if data.ndim < 2 or moving_avg.shape != data.shape[1:2]:
        raise ValueError(f"data {data.shape} needs moving_avg of shape {data.shape[1:2]}, "
                         f"got {moving_avg.shape}")
    return data.copy()


@operator("_kl_sparse_grad", infer=lambda shapes, attrs: (shapes, [shapes[1]]),
          mutates=("moving_avg",))
def kl_sparse_grad(xp: Any, dy: Any, data: Any, moving_avg: Any, *,
                   sparseness_target: float = 0.1, penalty: float = 0.001,
                   momentum: float = 0.9) -> Any:
    """Gradient of IdentityAttachKLSparseReg; updates the running mean."""
    others = (0, *range(2, data.ndim))
    moving_avg[...] = momentum * moving_avg + (1 - momentum) * data.mean(axis=others)
    pull = penalty * ((1 - sparseness_target) / (1 - moving_avg) - sparseness_target / moving_avg)
    return dy + pull.reshape(1, -1, *[1] * (data.ndim - 2)).astype(data.dtype, copy=False)


# -- Crop -----------------------------------------------------------------------------------------


def _window(shape: tuple[int, ...], like: MaybeShape, attrs: Attrs) -> tuple[int, int, int, int]:
    """(top, left, height, width) of what is cut out."""
    height, width = attrs["h_w"] if like is None else like[2:4]
    if not (0 < height <= shape[2] and 0 < width <= shape[3]):
        raise ShapeError(f"expected a window within {shape[2:]}, got ({height}, {width}); "
                         "give h_w=(height, width), or a second array of that size")
    top, left = attrs["offset"]
    if attrs["center_crop"]:
        top, left = (shape[2] - height) // 2, (shape[3] - width) // 2
    if top < 0 or left < 0 or top + height > shape[2] or left + width > shape[3]:
        raise ShapeError(f"expected an offset of at most ({shape[2] - height}, "
                         f"{shape[3] - width}), got ({top}, {left})")
    return top, left, height, width


def _crop_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    if not 1 <= len(shapes) <= 2:
        raise ArgumentError(f"Crop: expected one or two arrays, got {len(shapes)}")
    if len(attrs["h_w"]) != 2 or len(attrs["offset"]) != 2:
        raise ArgumentValueError("h_w and offset: expected two numbers each, got "
                                 f"{attrs['h_w']} and {attrs['offset']}")
    data, like = shapes[0], (shapes[1] if len(shapes) == 2 else None)
    for shape in shapes:
        if shape is not None and len(shape) != 4:
            raise ShapeError(f"expected arrays of rank 4, got {shape}")
    if data is None or (len(shapes) == 2 and like is None) or 0 in data or 0 in (like or ()):
        return shapes, [None if data is None else (*data[:2], 0, 0)]
    _, _, height, width = _window(data, like, attrs)
    return shapes, [(*data[:2], height, width)]


def _crop_back(F: Any, dy: Any, out: Any, *data: Any, **attrs: Any) -> list[Any]:
    grads = [F._crop_grad(dy, *data, **attrs)]
    return grads + [F.zeros_like(each) for each in data[1:]]


@operator("Crop", infer=_crop_shape, gradient=_crop_back)
def crop(xp: Any, *data: Any, offset: Shape = (0, 0), h_w: Shape = (0, 0),
         center_crop: bool = False, num_args: int = 0) -> Any:
    """Cut a window out of the last two axes.

    Args:
        data: the array; a second one gives the size of the window by its own.
        offset: (top, left) of the window. h_w: (height, width), without a second array.
        center_crop: put the window in the middle. num_args: how many arrays (known anyway).

    Shapes:
        (N, C, H, W) -> (N, C, height, width).

    >>> import numpy as np
    >>> crop.body(np, np.arange(9.0).reshape(1, 1, 3, 3), offset=(1, 1), h_w=(2, 2)).tolist()
    [[[[4.0, 5.0], [7.0, 8.0]]]]
    """
    attrs = {"offset": offset, "h_w": h_w, "center_crop": center_crop}
    _crop_shape([array.shape for array in data], attrs)
    top, left, height, width = _window(data[0].shape, data[1].shape if len(data) > 1 else None,
                                       attrs)
    return data[0][:, :, top:top + height, left:left + width].copy()


@operator("_crop_grad", infer=lambda shapes, attrs: (shapes, [shapes[1]]),
          gradient=lambda F, ddx, out, dy, *data, **attrs: [
              F.Crop(ddx, *data[1:], **attrs), *[F.zeros_like(each) for each in data]])
def crop_grad(xp: Any, *data: Any, offset: Shape = (0, 0), h_w: Shape = (0, 0),
              center_crop: bool = False, num_args: int = 0) -> Any:
    """Gradient of Crop: the window's gradient in its place, zeros around it."""
    dy, source = data[:2]
    attrs = {"offset": offset, "h_w": h_w, "center_crop": center_crop}
    top, left, height, width = _window(source.shape, dy.shape, attrs)
    grad = xp.zeros_like(source)
    grad[:, :, top:top + height, left:left + width] = dy
    return grad
