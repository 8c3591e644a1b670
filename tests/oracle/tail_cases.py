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
]


def _figures(place: int) -> str:
    import mxnet as mx

    found = run(mx, CASES[place])
    return json.dumps([[list(array.shape), array.dtype.name,
                        [float(f"{value:.7g}") for value in array.astype("float64").ravel()]]
                       for array in found], separators=(",", ":"))


def _record() -> None:
    """Each new case in a process of its own: some calls write outside MXNet's memory."""
    known = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    rows = {}
    for place, case in enumerate(CASES):
        label = case.label
        if label in known:
            rows[label] = json.dumps(known[label], separators=(",", ":"))
            continue
        done = subprocess.run([sys.executable, "-W", "ignore", __file__, str(place)], check=False,
                              capture_output=True, text=True)
        if done.returncode:
            print(label, done.stderr[-300:])
        else:
            rows[label] = done.stdout.strip()
    text = ",\n".join(f"{json.dumps(label)}: {row}" for label, row in rows.items())
    FIGURES.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(_figures(int(sys.argv[1])))
    else:
        _record()
