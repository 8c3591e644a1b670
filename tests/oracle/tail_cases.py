"""Calls of less common operators whose outputs and gradients MXNet 1.9.1 recorded.

``python tests/oracle/tail_cases.py`` in an environment with MXNet writes `tail_cases.json`;
`ops/test_tail_oracle.py` runs the same calls here and compares.
"""
from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["CASES", "FIGURES", "Case", "run"]

FIGURES = Path(__file__).resolve().with_suffix(".json")


class Case:
    """One call: ``nd.PATH(*inputs, **attrs)``.

    Args:
        path: the operator below ``nd``. inputs: a shape (drawn from the normal distribution), or
            the values. attrs: as a user gives them. wrt: places of the inputs with a gradient.
    """

    def __init__(self, path: str, inputs: Sequence[Any], wrt: Sequence[int] = (),
                 **attrs: Any) -> None:
        self.path, self.inputs, self.wrt, self.attrs = path, inputs, wrt, attrs

    @property
    def label(self) -> str:
        """What tells the case from all others."""
        inputs = zlib.crc32(repr([np.asarray(item).tolist() for item in self.inputs]).encode())
        return f"{self.path} {self.attrs} {tuple(self.wrt)} {inputs:08x}"

    def arrays(self) -> list[np.ndarray]:
        """The inputs; the same every time."""
        random = np.random.RandomState(5)
        return [random.normal(size=item).astype("float32") if isinstance(item, tuple)
                else np.asarray(item, dtype="float32") for item in self.inputs]


def run(mx: Any, case: Case) -> list[np.ndarray]:
    """All outputs of the call, then the gradients of a fixed weighting of them."""
    function = mx.nd
    for word in case.path.split("."):
        function = getattr(function, word)
    arrays = [mx.nd.array(array) for array in case.arrays()]
    for place in case.wrt:
        arrays[place].attach_grad()
    with mx.autograd.record():
        found = function(*arrays, **case.attrs)
        outputs = list(found) if isinstance(found, (list, tuple)) else [found]
        if case.wrt:
            weighted = [(out * mx.nd.array(_weights(out.shape))).sum() for out in outputs
                        if out.dtype == np.float32]
            total = mx.nd.add_n(*weighted)
    if case.wrt:
        total.backward()
    return [array.asnumpy() for array in
            (*outputs, *(arrays[place].grad for place in case.wrt))]


def _weights(shape: Sequence[int]) -> np.ndarray:
    size = int(np.prod(shape))
    return np.cos(np.arange(size)).reshape(shape).astype("float32")


_IMAGES = (2, 3, 4, 5)
_ROIS = [[0, 0, 0, 3, 3], [1, 1, 1, 4, 2], [0, 2.6, 1.4, 2.4, 3.5], [1, -1, -2, 7, 6]]

_random = np.random.RandomState
_UNIFORM = _random(3).uniform(size=(2, 3, 4))
_BOXES = [[0.1, 0.1, 0.5, 0.6], [0.2, 0.2, 0.6, 0.7], [0.6, 0.1, 0.9, 0.4], [0.05, 0.5, 0.4, 0.95],
          [0.15, 0.1, 0.5, 0.6], [0.5, 0.5, 0.95, 0.9]]
_ROWS = [[0, 0.5, *_BOXES[0]], [1, 0.9, *_BOXES[1]], [0, 0.3, *_BOXES[2]], [2, 0.1, *_BOXES[3]],
         [0, 0.8, *_BOXES[4]], [1, 0.6, *_BOXES[5]]]
_LABELS = [[[1, 0.1, 0.15, 0.45, 0.6], [0, 0.55, 0.5, 0.9, 0.95], [-1, -1, -1, -1, -1]],
           [[-1, -1, -1, -1, -1]] * 3]
_PROBABILITIES = _random(6).dirichlet((1, 1, 1), (2, 6)).transpose(0, 2, 1)

CASES: list[Case] = [
    # -- images resized, cut, sampled
    *(Case("contrib.BilinearResize2D", [_IMAGES], (0,), **attrs) for attrs in (
        {"height": 7, "width": 3}, {"height": 3, "width": 8, "align_corners": False},
        {"height": 1, "width": 1}, {"scale_height": 1.5, "scale_width": 0.6},
        {"scale_height": 2, "scale_width": 2, "mode": "odd_scale"},
        {"mode": "to_even_up"}, {"mode": "to_even_down"}, {"mode": "to_odd_up"},
        {"mode": "to_odd_down"})),
    *(Case("contrib.AdaptiveAvgPooling2D", [_IMAGES], (0,), **attrs) for attrs in (
        {}, {"output_size": 3}, {"output_size": (2, 7)})),
    Case("UpSampling", [_IMAGES], (0,), scale=2, sample_type="nearest"),
    Case("UpSampling", [_IMAGES, (2, 1, 8, 10)], (0, 1), scale=2, sample_type="nearest",
         num_args=2),
    Case("UpSampling", [_IMAGES, (2, 3, 8, 10)], (0, 1), scale=4, sample_type="nearest",
         num_args=2, multi_input_mode="sum"),
    Case("UpSampling", [_IMAGES, (3, 1, 5, 5)], (0, 1), scale=3, sample_type="bilinear",
         num_filter=3, num_args=2),
    Case("Crop", [_IMAGES], (0,), offset=(1, 2), h_w=(2, 3)),
    Case("Crop", [_IMAGES], (0,), h_w=(2, 2), center_crop=True),
    Case("Crop", [_IMAGES, (2, 1, 2, 3)], (0,), num_args=2),
    Case("GridGenerator", [(2, 6)], (0,), transform_type="affine", target_shape=(3, 4)),
    Case("GridGenerator", [(2, 2, 3, 4)], (0,), transform_type="warp"),
    Case("BilinearSampler", [_IMAGES, np.random.RandomState(1).uniform(-1.2, 1.2, (2, 2, 3, 3))],
         (0, 1)),
    Case("SpatialTransformer", [_IMAGES, np.random.RandomState(2).uniform(-0.8, 0.8, (2, 6))],
         (0, 1), target_shape=(3, 6), transform_type="affine", sampler_type="bilinear"),
    Case("LRN", [(2, 6, 2, 2)], (0,), nsize=3, alpha=0.5, beta=0.6, knorm=1.5),
    # -- regions
    Case("ROIPooling", [_IMAGES, _ROIS], (0,), pooled_size=(2, 3), spatial_scale=1.0),
    Case("ROIPooling", [_IMAGES, _ROIS], (0,), pooled_size=(3, 2), spatial_scale=0.7),
    *(Case("contrib.ROIAlign", [_IMAGES, _ROIS], (0,), spatial_scale=0.8, **attrs) for attrs in (
        {"pooled_size": (2, 3)}, {"pooled_size": (2, 2), "sample_ratio": 3},
        {"pooled_size": (3, 3), "sample_ratio": 2})),
    Case("contrib.ROIAlign", [_IMAGES, _ROIS[:2]], (0,), pooled_size=(3, 3), spatial_scale=0.8,
         aligned=True),
    Case("contrib.ROIAlign", [(2, 8, 5, 5), _ROIS], (0,), pooled_size=(2, 2), spatial_scale=1.0,
         position_sensitive=True, sample_ratio=2),
    Case("contrib.ROIAlign", [_IMAGES, [[-1, 0, 0, 2, 2]]], (0,), pooled_size=(2, 2),
         spatial_scale=1.0),
    Case("contrib.PSROIPooling", [(2, 8, 5, 5), _ROIS], (0,), spatial_scale=1.0, output_dim=2,
         pooled_size=2),
    Case("contrib.PSROIPooling", [(2, 18, 5, 5), _ROIS], (0,), spatial_scale=0.6, output_dim=2,
         pooled_size=2, group_size=3),
    # -- moved samples
    Case("contrib.DeformableConvolution", [(2, 4, 4, 5), (2, 12, 5, 2), (4, 4, 2, 3), (4,)],
         (0, 1, 2, 3), kernel=(2, 3), num_filter=4, pad=(1, 0), stride=(1, 2)),
    Case("contrib.DeformableConvolution", [(1, 4, 4, 4), (1, 16, 3, 3), (6, 2, 2, 2)], (0, 1, 2),
         kernel=(2, 2), num_filter=6, num_group=2, num_deformable_group=2, no_bias=True),
    Case("contrib.DeformablePSROIPooling", [(2, 8, 5, 6), _ROIS[:3], (3, 4, 2, 2)], (0, 2),
         spatial_scale=0.8, output_dim=2, group_size=2, pooled_size=2, part_size=2,
         sample_per_part=2, trans_std=0.1),
    Case("contrib.DeformablePSROIPooling", [(2, 18, 5, 6), _ROIS, (4, 2, 2, 2)], (0, 2),
         spatial_scale=1.0, output_dim=2, group_size=3, pooled_size=4, part_size=2,
         sample_per_part=3, trans_std=0.3),
    # -- attention
    Case("contrib.interleaved_matmul_selfatt_qk", [(4, 2, 12)], (0,), heads=2),
    Case("contrib.interleaved_matmul_selfatt_valatt", [(4, 2, 12), (4, 4, 4)], (0, 1), heads=2),
    Case("contrib.interleaved_matmul_encdec_qk", [(4, 2, 4), (3, 2, 8)], (0, 1), heads=2),
    Case("contrib.interleaved_matmul_encdec_valatt", [(3, 2, 8), (4, 4, 3)], (0, 1), heads=2),
    # -- places, sums, precision
    Case("cumsum", [(2, 3)], (0,)),
    Case("cumsum", [(2, 3, 2)], (0,), axis=1),
    Case("unravel_index", [[22, 41, 37, 0]], shape=(7, 6)),
    Case("ravel_multi_index", [[[3, 6, 6], [4, 5, 1]]], shape=(7, 6)),
    Case("fill_element_0index", [(2, 3), [9, 8], [1, 0]]),
    Case("contrib.arange_like", [(2, 4)], start=1, step=2, repeat=2),
    Case("contrib.arange_like", [(2, 4)], axis=-1),
    Case("contrib.boolean_mask", [(3, 2), [1, 0, 1]], (0,)),
    Case("moments", [(2, 3, 4)], (0,), axes=(0, 2)),
    Case("moments", [(2, 3)], (0,), axes=(1,), keepdims=True),
    Case("multi_sum_sq", [(2, 3), (4,)], num_arrays=2),
    Case("khatri_rao", [(2, 3), (4, 3)]),
    Case("erfinv", [[-0.99, -0.5, 0, 0.1, 0.9]], (0,)),
    Case("contrib.quantize", [[0, 0.5, 2], [0], [2]], out_type="uint8"),
    Case("contrib.quantize", [[-1, 0.3, 2], [-1], [2]], out_type="int8"),
    Case("contrib.round_ste", [(2, 3)], (0,)),
    Case("contrib.sign_ste", [(2, 3)], (0,)),
    Case("contrib.gradientmultiplier", [(2, 3)], (0,), scalar=-2.0),
    Case("contrib.quadratic", [(2, 3)], (0,), a=1.0, b=2.0, c=3.0),
    # -- boxes
    Case("contrib.box_iou", [_BOXES[:3], _BOXES]),
    Case("contrib.box_iou", [_BOXES[:3], _BOXES], format="center"),
    Case("contrib.bipartite_matching", [_UNIFORM], threshold=0.2),
    Case("contrib.bipartite_matching", [_UNIFORM], threshold=0.8, is_ascend=True),
    *(Case("contrib.box_nms", [_ROWS], (0,), **attrs) for attrs in (
        {}, {"overlap_thresh": 0.2, "force_suppress": True, "id_index": 0},
        {"overlap_thresh": 0.2, "id_index": 0, "background_id": 0, "valid_thresh": 0.2},
        {"overlap_thresh": 0.3, "topk": 3}, {"in_format": "center", "overlap_thresh": 0.3},
        {"out_format": "center"})),
    Case("contrib.box_encode", [[[1, -1, 1, 0]], [[0, 1, 1, 0]], [_BOXES[:4]], [_BOXES[4:6]],
                                [0.1, 0.2, 0, 0], [0.1, 0.1, 0.2, 0.2]]),
    Case("contrib.box_decode", [(2, 4, 4), [_BOXES[:4]]]),
    Case("contrib.box_decode", [(2, 4, 4), [_BOXES[:4]]], std0=0.1, std3=2.0, clip=0.5,
         format="corner"),
    *(Case("contrib.MultiBoxPrior", [(1, 3, 2, 3)], **attrs) for attrs in (
        {}, {"sizes": (0.3, 0.8), "ratios": (1, 2, 0.5)}, {"sizes": (0.9,), "clip": True},
        {"ratios": (2, 1), "steps": (0.4, 0.3), "offsets": (0.2, 0.7)})),
    *(Case("contrib.MultiBoxTarget", [[_BOXES], _LABELS, (2, 3, 6)], **attrs) for attrs in (
        {}, {"overlap_threshold": 0.2}, {"negative_mining_ratio": 1.0},
        {"negative_mining_ratio": 0.4, "negative_mining_thresh": 0.2, "ignore_label": -2.0},
        {"variances": (0.2, 0.1, 0.3, 0.4)})),
    *(Case("contrib.MultiBoxDetection", [_PROBABILITIES, (2, 24), [_BOXES]], **attrs)
      for attrs in ({}, {"nms_threshold": 0.1}, {"threshold": 0.45, "clip": False},
                    {"nms_threshold": 0.1, "force_suppress": True})),
    *(Case("contrib.Proposal", [_random(7).uniform(size=(1, 12, 4, 5)),
                                _random(8).normal(size=(1, 24, 4, 5)) * 0.3, [[64, 72, 1]]],
           scales=(2, 4), ratios=(0.5, 1, 2), rpn_post_nms_top_n=12, **attrs) for attrs in (
        {}, {"threshold": 0.3, "rpn_min_size": 24}, {"rpn_pre_nms_top_n": 20, "feature_stride": 20},
        {"output_score": True})),
    Case("contrib.MultiProposal", [_random(9).uniform(size=(2, 12, 4, 5)),
                                   _random(8).normal(size=(2, 24, 4, 5)) * 0.3,
                                   [[64, 72, 1], [50, 80, 1.5]]],
         scales=(2, 4), ratios=(0.5, 1, 2), rpn_post_nms_top_n=12),
    # -- windows as columns, shifts
    Case("im2col", [_IMAGES], (0,), kernel=(2, 3), stride=(1, 2), pad=(1, 0)),
    Case("im2col", [_IMAGES], (0,), kernel=(2, 2), dilate=(2, 3)),
    Case("col2im", [(2, 12, 6)], (0,), output_size=(3, 4), kernel=(2, 2)),
    Case("col2im", [(2, 18, 6)], (0,), output_size=(4, 5), kernel=(3, 3), stride=(2, 2),
         pad=(1, 1)),
    *(Case("Correlation", [_IMAGES, (2, 3, 4, 5)], (0, 1), **attrs) for attrs in (
        {}, {"kernel_size": 3, "max_displacement": 1, "pad_size": 2},
        {"max_displacement": 2, "stride1": 2, "stride2": 2, "pad_size": 2},
        {"is_multiply": False, "pad_size": 1})),
    # -- densities
    *(Case(f"random_pdf_{name}", [_random(4).gamma(3.0, size=(2, 3)), *values],
           tuple(range(len(values) + 1)), is_log=is_log)
      for is_log in (False, True) for name, values in (
          ("normal", [[0.5, -1], [1.5, 0.7]]), ("gamma", [[2, 0.6], [1.5, 0.4]]),
          ("exponential", [[0.5, 2]]), ("uniform", [[0.0, -1], [9, 12]]))),
    *(Case(f"random_pdf_{name}", [[[0, 1, 4], [2, 3, 7]], *values],
           tuple(range(1, len(values) + 1)), is_log=is_log)
      for is_log in (False, True) for name, values in (
          ("poisson", [[0.5, 2]]), ("negative_binomial", [[2, 5], [0.3, 0.6]]),
          ("generalized_negative_binomial", [[2, 0.5], [0.3, 1.2]]))),
    *(Case("random_pdf_dirichlet", [_random(4).dirichlet((1, 2, 3), (2, 2)),
                                    [[1, 2, 3], [0.5, 1.5, 2]]], (0, 1), is_log=is_log)
      for is_log in (False, True)),
    *(Case("contrib.RROIAlign", [_IMAGES, [[0, 2.5, 2.5, 4, 3, 0], [0, 2.5, 2.5, 4, 3, 30],
                                           [1, 3, 2, 3, 2, -45], [1, 4, 4, 6, 5, 70]]], **attrs)
      for attrs in ({"pooled_size": (2, 2), "spatial_scale": 1.0, "sampling_ratio": 2},
                    {"pooled_size": (1, 3), "spatial_scale": 0.7})),
    Case("contrib.BatchNormWithReLU", [(2, 3, 4, 2), (3,), (3,), (3,), [1, 2, 0.5]], (0, 1, 2),
         fix_gamma=False),
    # -- parts replaced
    Case("_internal._slice_assign", [(3, 4), (2, 2)], begin=(0, 1), end=(2, None), step=(1, 2)),
    Case("_internal._slice_assign_scalar", [(3, 4)], scalar=2.5, begin=(1,), end=(2,)),
    Case("_internal._split_v2", [(6, 2)], (0,), indices=(0, 1, 3), axis=0),
    Case("split_v2", [(2, 6)], (0,), indices_or_sections=3, axis=1),
    Case("_internal._identity_with_attr_like_rhs", [(2, 3), (2, 3)], (0,)),
    Case("histogram", [(3, 5)], bins=4, range=(-1, 1)),
    Case("_internal._scatter_plus_scalar", [(2, 3)], scalar=2.0),
    Case("_internal._scatter_elemwise_div", [(2, 3), (2, 3)]),
]


def _figures(case: Case) -> str:
    import mxnet as mx

    return json.dumps([[list(array.shape), array.dtype.name,
                        [float(f"{value:.7g}") for value in array.astype("float64").ravel()]]
                       for array in run(mx, case)], separators=(",", ":"))


def _record() -> None:
    """Figures for new cases. Some calls write outside MXNet's memory: when a process dies, the
    next one goes on behind the case that it died of."""
    known = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    rows = {label: json.dumps(row, separators=(",", ":")) for label, row in known.items()}
    left = [place for place, case in enumerate(CASES) if case.label not in rows]
    while left:
        done = subprocess.run([sys.executable, "-W", "ignore", __file__, *map(str, left)],
                              check=False, capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("[[[")]
        rows.update((CASES[place].label, line) for place, line in zip(left, lines, strict=False))
        if done.returncode and len(lines) < len(left):
            print(CASES[left[len(lines)]].label, done.stderr[-300:])
        left = left[len(lines) + 1:]
    labels = [case.label for case in CASES if case.label in rows]
    text = ",\n".join(f"{json.dumps(label)}: {rows[label]}" for label in labels)
    FIGURES.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        for place in map(int, sys.argv[1:]):
            print(_figures(CASES[place]), flush=True)
    else:
        _record()
