"""Samples of the operators on the spatial axes of images, and of LRN."""
from __future__ import annotations

from typing import Any

import numpy as np
from sample import Sample, adder, between

from minigluon.base import ArgumentValueError, ShapeError

SAMPLES: dict[str, list[Sample]] = {}
_r, _add = between, adder(SAMPLES)


_IMAGES = _r(2, 3, 4, 5)

# -- another size ----------------------------------------------------------------------------------


def _cells(height: int, width: int) -> Any:
    def reference(x: np.ndarray) -> np.ndarray:
        out = np.zeros((*x.shape[:2], height, width), x.dtype)
        for i, j in np.ndindex(height, width):
            rows = slice(i * x.shape[2] // height, -(-(i + 1) * x.shape[2] // height))
            columns = slice(j * x.shape[3] // width, -(-(j + 1) * x.shape[3] // width))
            out[:, :, i, j] = x[:, :, rows, columns].mean(axis=(2, 3))
        return out

    return reference


_add("_contrib_BilinearResize2D", [_IMAGES], {"height": 7, "width": 9}, second_order=True,
     bad=[([_r(2, 3)], {"height": 2, "width": 2}, ShapeError, "(N, C, H, W)"),
          ([_IMAGES], {"height": 0, "width": 2}, ArgumentValueError, "a size of 1 or more"),
          ([_IMAGES], {"mode": "odd_scale"}, ArgumentValueError, "needs scale_height"),
          ([_IMAGES], {"mode": "down"}, ArgumentValueError, "mode: expected one of 'size'")])
_add("_contrib_BilinearResize2D", [_r(1, 2, 2, 2)], {"height": 3, "width": 2},
     reference=lambda x: np.stack([x[:, :, 0], x.mean(axis=2), x[:, :, 1]], axis=2))
_add("_contrib_BilinearResize2D", [_r(1, 2, 3, 2)], {"height": 1, "width": 2,
     "align_corners": False}, reference=lambda x: x[:, :, :1])
_add("_contrib_BilinearResize2D", [_r(1, 2, 2, 4)],
     {"scale_height": 1, "scale_width": 0.5, "align_corners": False},
     reference=lambda x: (x[..., ::2] + x[..., 1::2]) / 2)
_add("_contrib_BilinearResize2D", [_IMAGES, _r(1, 1, 6, 2)], {"mode": "like"}, wrt=(0,))
for _mode in ("to_even_down", "to_even_up", "to_odd_down", "to_odd_up"):
    _add("_contrib_BilinearResize2D", [_r(1, 1, 4, 5)], {"mode": _mode})
_add("_contrib_BilinearResize2D", [_r(1, 1, 4, 5)],
     {"mode": "odd_scale", "scale_height": 2, "scale_width": 2})
_add("_contrib_AdaptiveAvgPooling2D", [_IMAGES], {"output_size": (3, 2)}, second_order=True,
     reference=_cells(3, 2),
     bad=[([_r(2, 3)], {}, ShapeError, "(N, C, H, W)"),
          ([_IMAGES], {"output_size": (1, 2, 3)}, ArgumentValueError, "one or two sizes")])
_add("_contrib_AdaptiveAvgPooling2D", [_IMAGES], reference=_cells(1, 1))
_add("_contrib_AdaptiveAvgPooling2D", [_IMAGES], {"output_size": 6}, reference=_cells(6, 6))
for _kind in ("corners", "halves", "cells"):
    _add("_resample", [_r(1, 2, 3, 4), _r(1, 1, 5, 2)], {"kind": _kind}, second_order=True,
         wrt=(0,))
    _add("_resample_grad", [_r(1, 2, 5, 2), _r(1, 2, 3, 4)], {"kind": _kind}, second_order=True,
         wrt=(0,))
_add("_resample", [_r(1, 2, 2, 3), _r(1, 2, 4, 9)], {"kind": "repeat"}, second_order=True,
     wrt=(0,), reference=lambda x, like: x.repeat(2, axis=2).repeat(3, axis=3))
_add("_resample_grad", [_r(1, 2, 4, 9), _r(1, 2, 2, 3)], {"kind": "repeat"}, second_order=True,
     wrt=(0,), reference=lambda x, like: x.reshape(1, 2, 2, 2, 3, 3).sum(axis=(3, 5)))
_add("UpSampling", [_IMAGES], {"scale": 2, "sample_type": "nearest"}, second_order=True,
     reference=lambda x: x.repeat(2, axis=2).repeat(2, axis=3),
     bad=[([_IMAGES], {"scale": 0, "sample_type": "nearest"}, ArgumentValueError, "scale"),
          ([_r(1, 1, 2, 2), _r(1, 1, 3, 2)], {"scale": 2, "sample_type": "nearest"}, ShapeError,
           "size divides (4, 4)"),
          ([_r(1, 1, 2, 2), _r(1, 2, 2, 2)],
           {"scale": 2, "sample_type": "nearest", "multi_input_mode": "sum"}, ShapeError,
           "channels to sum"),
          ([_r(1, 1, 2, 2)], {"scale": 2, "sample_type": "bilinear", "num_filter": 1}, ShapeError,
           "data and weight")])
_add("UpSampling", [_r(2, 3, 2, 2), _r(2, 1, 4, 2)], {"scale": 2, "sample_type": "nearest"},
     reference=lambda x, y: np.concatenate([x.repeat(2, 2).repeat(2, 3), y.repeat(2, 3)], 1))
_add("UpSampling", [_r(2, 3, 2, 2), _r(2, 3, 4, 2)],
     {"scale": 2, "sample_type": "nearest", "multi_input_mode": "sum"},
     reference=lambda x, y: x.repeat(2, 2).repeat(2, 3) + y.repeat(2, 3))
_add("UpSampling", [_r(2, 3, 3, 4), _r(3, 1, 4, 4)],
     {"scale": 2, "sample_type": "bilinear", "num_filter": 3}, second_order=True)
_add("_upsampling_grad", [_r(1, 3, 4, 4), _r(1, 2, 2, 2), _r(1, 1, 4, 4)],
     {"count": 2, "multi_input_mode": "concat"}, grad=False)

# -- points ----------------------------------------------------------------------------------------

_add("GridGenerator", [_r(2, 6)], {"transform_type": "affine", "target_shape": (3, 4)},
     second_order=True,
     bad=[([_r(2, 5)], {"transform_type": "affine", "target_shape": (3, 4)}, ShapeError,
           "(N, 6) for affine"),
          ([_r(2, 6)], {"transform_type": "affine"}, ArgumentValueError, "target_shape"),
          ([_r(2, 3, 4, 4)], {"transform_type": "warp"}, ShapeError, "(N, 2, H, W) for warp")])
_add("GridGenerator", [_r(2, 2, 3, 4)], {"transform_type": "warp"}, second_order=True)
_add("_affine_grid_grad", [_r(2, 2, 3, 4)], {"target_shape": (3, 4)}, second_order=True)
_add("_warp_scale", [_r(2, 2, 3, 5)], second_order=True,
     reference=lambda x: x * np.array([0.5, 1]).reshape(1, 2, 1, 1))
_add("BilinearSampler", [_IMAGES, _r(2, 2, 3, 3, low=-1.3, high=1.3)],
     bad=[([_IMAGES, _r(1, 2, 3, 3)], {}, ShapeError, "shapes of grid"),
          ([_IMAGES, _r(2, 3)], {}, ShapeError, "expected grid of shape (N, C, H, W)")])
_add("_bilinear_sampler_grad", [_r(2, 3, 2, 2), _IMAGES, _r(2, 2, 2, 2)], grad=False)
_add("SpatialTransformer", [_IMAGES, _r(2, 6, low=-0.6, high=0.6)],
     {"target_shape": (3, 4), "transform_type": "affine", "sampler_type": "bilinear"},
     bad=[([_IMAGES, _r(2, 5)],
           {"target_shape": (3, 4), "transform_type": "affine", "sampler_type": "bilinear"},
           ShapeError, "shapes of loc"),
          ([_IMAGES, _r(2, 6)], {"transform_type": "affine", "sampler_type": "bilinear"},
           ShapeError, "a target_shape")])

# -- regions ---------------------------------------------------------------------------------------

_ROIS = np.array([[0, 0, 0, 3, 3], [1, 1, 1, 4, 2], [-1, 0, 0, 2, 2], [1, -1, -2, 7, 6]], "float32")
_NONE = np.zeros((0, 5), "float32")
_add("ROIPooling", [_IMAGES, _ROIS], {"pooled_size": (2, 3), "spatial_scale": 1.0}, wrt=(0,),
     second_order=True,
     bad=[([_IMAGES, _r(2, 4)], {"pooled_size": (2, 2), "spatial_scale": 1}, ShapeError,
           "shapes of rois"),
          ([_IMAGES, _ROIS], {"pooled_size": (2, 0), "spatial_scale": 1}, ArgumentValueError,
           "pooled_size: expected height and width")])
_PLACES = np.array([[[[0, 7]], [[3, -1]], [[19, 4]]]], "int32")
_add("_roi_pooling_grad", [_r(1, 3, 1, 2), _IMAGES, _ROIS[:1], _PLACES], wrt=(0,),
     second_order=True)
_add("_roi_pooling_pick", [_IMAGES, _ROIS[:1], _PLACES], wrt=(0,), second_order=True)
_ALIGN = {"pooled_size": (2, 3), "spatial_scale": 0.8}
_add("_contrib_ROIAlign", [_IMAGES, _ROIS], _ALIGN, wrt=(0,), second_order=True,
     bad=[([_IMAGES, _r(2, 4)], _ALIGN, ShapeError, "shapes of rois"),
          ([_IMAGES, _ROIS], {**_ALIGN, "position_sensitive": True}, ArgumentValueError,
           "a square pooled_size")])
_SENSITIVE = {"pooled_size": (2, 2), "spatial_scale": 1.0, "position_sensitive": True,
              "sample_ratio": 2, "aligned": True}
_add("_contrib_ROIAlign", [_r(2, 8, 4, 5), _ROIS], _SENSITIVE, wrt=(0,), second_order=True)
_add("_contrib_ROIAlign", [_IMAGES, _ROIS[2:3]], _ALIGN, wrt=(0,),
     reference=lambda x, rois: np.zeros((1, 3, 2, 3)))
_add("_roi_align_grad", [_r(4, 3, 2, 3), _IMAGES, _ROIS], _ALIGN, wrt=(0,), second_order=True)
_add("_roi_align_grad", [_r(4, 2, 2, 2), _r(2, 8, 4, 5), _ROIS], _SENSITIVE, wrt=(0,),
     second_order=True)
_PS = {"spatial_scale": 1.0, "output_dim": 2, "pooled_size": 2}
_add("_contrib_PSROIPooling", [_r(2, 8, 4, 5), _ROIS], _PS, wrt=(0,), second_order=True,
     bad=[([_IMAGES, _ROIS], _PS, ShapeError, "output_dim group_size^2 channels")])
_add("_contrib_PSROIPooling", [_r(2, 18, 4, 5), _ROIS], {**_PS, "group_size": 3}, wrt=(0,))
_add("_psroi_pooling_grad", [_r(4, 2, 2, 2), _r(2, 8, 4, 5), _ROIS], _PS, wrt=(0,),
     second_order=True)

# -- moved samples ---------------------------------------------------------------------------------

_DEFORM = {"kernel": (2, 3), "num_filter": 4, "pad": (1, 0), "stride": (1, 2)}
_add("_contrib_DeformableConvolution",
     [_r(2, 4, 4, 5), _r(2, 12, 5, 2), _r(4, 4, 2, 3), _r(4)], _DEFORM,
     bad=[([_r(2, 4, 4, 5), _r(2, 10, 5, 2), _r(4, 4, 2, 3), _r(4)], _DEFORM, ShapeError,
           "shapes of offset (needed and given)"),
          ([_r(2, 4, 1, 1), _r(2, 12, 5, 2), _r(4, 4, 2, 3), _r(4)], _DEFORM, ShapeError,
           "is smaller than kernel"),
          ([_r(2, 3, 4, 5), _r(2, 12, 5, 2), _r(4, 3, 2, 3), _r(4)],
           {**_DEFORM, "num_group": 2}, ShapeError, "num_group=2"),
          ([_r(2, 3, 4, 5), _r(2, 12, 5, 2), _r(4, 3, 2, 3), _r(4)],
           {**_DEFORM, "kernel": (2,)}, ArgumentValueError, "kernel: expected height and width")])
_add("_contrib_DeformableConvolution", [_r(1, 4, 4, 4), _r(1, 16, 3, 3), _r(6, 2, 2, 2)],
     {"kernel": (2, 2), "num_filter": 6, "num_group": 2, "num_deformable_group": 2,
      "no_bias": True})
_MODULATED = {"kernel": (2, 2), "num_filter": 3, "dilate": (1, 2)}
_add("_contrib_ModulatedDeformableConvolution",
     [_r(2, 2, 4, 4), _r(2, 8, 3, 2), _r(2, 4, 3, 2), _r(3, 2, 2, 2), _r(3)], _MODULATED,
     bad=[([_r(2, 2, 4, 4), _r(2, 8, 3, 2), _r(2, 3, 3, 2), _r(3, 2, 2, 2), _r(3)], _MODULATED,
           ShapeError, "shapes of mask")])
_add("_deformable_conv_grad", [_r(1, 3, 3, 3), _r(1, 2, 4, 4), _r(1, 8, 3, 3), _r(3, 2, 2, 2)],
     {"kernel": (2, 2), "num_filter": 3}, grad=False)
_add("_modulated_conv_grad",
     [_r(1, 3, 3, 3), _r(1, 2, 4, 4), _r(1, 8, 3, 3), _r(1, 4, 3, 3), _r(3, 2, 2, 2)],
     {"kernel": (2, 2), "num_filter": 3}, grad=False)
_DPS = {"spatial_scale": 0.8, "output_dim": 2, "group_size": 2, "pooled_size": 2,
        "sample_per_part": 2, "trans_std": 0.1}
_INSIDE = np.array([[0, 1.2, 0.3, 3, 3], [1, 1, 1, 4, 2]], "float32")
_add("_contrib_DeformablePSROIPooling", [_r(2, 8, 5, 6), _INSIDE, _r(2, 4, 2, 2)], _DPS,
     wrt=(0, 2),
     bad=[([_r(2, 7, 5, 6), _INSIDE, _r(2, 4, 2, 2)], _DPS, ShapeError, "group_size^2 channels"),
          ([_r(2, 8, 5, 6), _INSIDE, _r(2, 3, 2, 2)], _DPS, ShapeError, "2 channels for each"),
          ([_r(1, 8, 5, 6), _INSIDE, _r(2, 4, 2, 2)], _DPS, ArgumentValueError,
           "rois: expected images from 0 to 0, got 1")])
_add("_contrib_DeformablePSROIPooling", [_r(2, 18, 5, 6), _INSIDE],
     {**_DPS, "group_size": 3, "no_trans": True}, wrt=(0,))
_add("_deformable_psroi_grad", [_r(2, 2, 2, 2), _r(2, 8, 5, 6), _INSIDE, _r(2, 4, 2, 2)], _DPS,
     grad=False)

# -- channels --------------------------------------------------------------------------------------


def _lrn(x: np.ndarray) -> np.ndarray:
    out = np.zeros_like(x)
    for c in range(x.shape[1]):
        around = x[:, max(c - 1, 0):c + 2]
        out[:, c] = x[:, c] / (2 + 0.5 / 3 * (around ** 2).sum(axis=1)) ** 0.6
    return out


_add("LRN", [_r(2, 5, 2, 2)], {"nsize": 3, "alpha": 0.5, "beta": 0.6}, second_order=True,
     reference=_lrn,
     bad=[([_r(2, 3)], {"nsize": 2}, ArgumentValueError, "an odd number of channels"),
          ([_r(2)], {"nsize": 1}, ShapeError, "channels on axis 1")])
_add("_channel_window", [_r(2, 5, 3)], {"nsize": 3}, second_order=True,
     reference=lambda x: sum(np.pad(x, ((0, 0), (1, 1), (0, 0)))[:, i:i + 5] for i in range(3)))


# -- several devices -------------------------------------------------------------------------------

_FIVE = [_r(3, low=0.5, high=2), _r(3), _r(3), _r(3, low=0.5, high=2)]
_add("_contrib_SyncBatchNorm", [_r(4, 3, 2, 5), *_FIVE],
     {"fix_gamma": False, "ndev": 2, "key": "bn"}, wrt=(0, 1, 2), second_order=True,
     bad=[([_r(4, 2, 3), *_FIVE], {}, ShapeError, "channel counts")])
_add("_contrib_SyncBatchNorm", [_r(4, 3), *_FIVE], {"output_mean_var": True}, wrt=(0, 2))
