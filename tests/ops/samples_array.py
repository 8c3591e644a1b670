"""Samples of the operators that move, pick, order, make and draw elements."""
from __future__ import annotations

from typing import Any

import numpy as np
from sample import Sample, between, floats

from minigluon.base import ArgumentError, ArgumentValueError, OutOfRangeError, ShapeError

__all__ = ["ARRAY"]

ARRAY: dict[str, list[Sample]] = {}
counted, arr = between, floats


def ints(*values: Any) -> np.ndarray:
    return np.array(values, dtype="int32")


# -- reshape and friends ---------------------------------------------------------------------------

ARRAY["Reshape"] = [
    Sample([counted(*source)], {"shape": codes, "reverse": reverse}, second_order=True,
           reference=lambda x, target=target: x.reshape(target))
    for source, codes, reverse, target in (
        ((2, 3, 5, 5), (0, -1), False, (2, 75)),
        ((2, 3, 5, 5), (0, 0, -1), False, (2, 3, 25)),
        ((5, 3, 4, 5), (0, -1, 0), False, (5, 15, 4)),
        ((2, 3, 5, 4), (-1, 0, 0), False, (8, 3, 5)),
        ((2, 3, 5, 5), (0, 0, 0, 0), False, (2, 3, 5, 5)),
        ((2, 4, 5, 3), (-1, 2, 2, 1), False, (30, 2, 2, 1)),
        ((2, 3, 5, 6), (-2,), False, (2, 3, 5, 6)),
        ((2, 3, 5, 6), (6, 1, -2), False, (6, 1, 5, 6)),
        ((2, 3, 5, 6), (-3, -3), False, (6, 30)),
        ((2, 3, 5, 6), (-3, -1), False, (6, 30)),
        ((64,), (-4, 16, 4), False, (16, 4)),
        ((64,), (-4, 16, -1), False, (16, 4)),
        ((64, 1, 2, 3), (-4, 16, -1, -2), False, (16, 4, 1, 2, 3)),
        ((2, 3, 5, 5), (0, -1), True, (5, 30)),
        ((2, 3, 5, 5), (0, 0, -1), True, (3, 5, 10)),
        ((5, 3, 4, 5), (0, -1, 0), True, (3, 20, 5)),
        ((2, 3, 5, 4), (-1, 0, 0), True, (6, 5, 4)),
        ((2, 3, 4, 5), (3, -1, 0), True, (3, 8, 5)),
        ((2, 3, 5, 6), (-2, 1, 30), True, (2, 3, 1, 30)),
        ((64,), (16, 4, -4), True, (16, 4)),
        ((1, 2, 3, 64), (-2, -1, 16, -4), True, (1, 2, 3, 4, 16)),
    )
] + [
    Sample([counted(2, 3, 5, 5)], {"target_shape": (2, 0)},
           reference=lambda x: x.reshape(2, 75)),
    Sample([counted(2, 3, 4)], {"target_shape": (0, 4, 0), "keep_highest": True},
           reference=lambda x: x.reshape(2, 4, 3),
           bad=[([counted(2, 3)], {"shape": (4, 2)}, ShapeError, "expected 6 elements"),
                ([counted(2, 3)], {"shape": (-1, -1)}, ShapeError, "at most one -1"),
                ([counted(2, 3)], {"shape": (0, 0, 0)}, ShapeError, "no dimension left"),
                ([counted(6)], {"shape": (-4, 4, -1)}, ShapeError, "cannot split 6"),
                ([counted(6)], {"shape": (-7,)}, ShapeError, "codes from -4 up"),
                ([counted(6)], {}, ArgumentValueError, "expected sizes or codes")]),
]
ARRAY["reshape_like"] = [
    Sample([counted(2, 6), counted(3, 4)], wrt=(0,), second_order=True,
           reference=lambda x, y: x.reshape(3, 4),
           bad=[([counted(2, 3), counted(5)], {}, ShapeError, "reshape_like")]),
    Sample([counted(30, 7), counted(15, 2, 4)],
           {"lhs_begin": 0, "lhs_end": 1, "rhs_begin": 0, "rhs_end": 2}, wrt=(0,),
           reference=lambda x, y: x.reshape(15, 2, 7))]
ARRAY["Flatten"] = [Sample([counted(*shape)], second_order=True,
                           reference=lambda x: x.reshape(len(x), -1))
                    for shape in ((2, 3, 4), (2, 3), (2,))]
ARRAY["transpose"] = [
    Sample([counted(2, 3, 4)], {"axes": axes}, second_order=True,
           reference=lambda x, axes=axes: x.transpose(axes or None),
           bad=[([counted(2, 3)], {"axes": (0, 0)}, ShapeError, "every axis of 2 once")])
    for axes in ((), (1, 2, 0), (2, 0, 1), (0, -1, 1))]
ARRAY["SwapAxis"] = [
    Sample([counted(2, 3, 4)], {"dim1": 0, "dim2": -1}, second_order=True,
           reference=lambda x: x.swapaxes(0, 2),
           bad=[([counted(2, 3)], {"dim2": 2}, ArgumentValueError, "dim2")])]
ARRAY["expand_dims"] = [
    Sample([counted(2, 3)], {"axis": axis}, second_order=True,
           reference=lambda x, axis=axis: np.expand_dims(x, axis),
           bad=[([counted(2, 3)], {"axis": 4}, ArgumentValueError, "from -3 to 2"),
                ([counted(2, 3)], {}, ArgumentError, "missing required argument 'axis'")])
    for axis in (0, 2, -1, -3)]
ARRAY["squeeze"] = [
    Sample([counted(1, 3, 1)], {"axis": axis}, second_order=True,
           reference=lambda x, axis=axis: np.squeeze(x, axis),
           bad=[([counted(2, 3)], {"axis": 1}, ShapeError, "size 1 on axis 1")])
    for axis in (None, 0, -1, (0, 2))
] + [Sample([counted(1, 1)], reference=lambda x: x.reshape(1))]
ARRAY["shape_array"] = [Sample([counted(2, 3)], grad=False, reference=lambda x: np.array([2, 3]))]
ARRAY["size_array"] = [Sample([counted(2, 3)], grad=False, reference=lambda x: np.array([6]))]


# -- together and apart ----------------------------------------------------------------------------

ARRAY["Concat"] = [
    Sample([counted(2, 3), counted(2, 1), counted(2, 2)], {"dim": dim}, second_order=True,
           reference=lambda *xs: np.concatenate(xs, 1),
           bad=[([counted(2, 3), counted(3, 3)], {"dim": 1}, ShapeError, "apart from axis 1"),
                ([counted(2, 3), counted(3, 3)], {"dim": 2}, ArgumentValueError, "dim")])
    for dim in (1, -1)
] + [Sample([counted(2, 3)], {"dim": 0}, second_order=True, reference=np.copy)]
ARRAY["_split_like"] = [
    Sample([counted(2, 5), counted(2, 2), counted(2, 3)], {"dim": 1, "count": 2}, wrt=(0,),
           second_order=True, reference=lambda x, a, b: [x[:, :2], x[:, 2:]])]
ARRAY["stack"] = [
    Sample([counted(2, 3)] * count, {"axis": axis}, second_order=True,
           reference=lambda *xs, axis=axis: np.stack(xs, axis),
           bad=[([counted(2, 3), counted(2, 2)], {}, ShapeError, "stack: expected equal shapes")])
    for count in (1, 3) for axis in (0, 1, -1)]
ARRAY["SliceChannel"] = [
    Sample([counted(2, 6)], {"num_outputs": 3}, second_order=True,
           reference=lambda x: np.split(x, 3, 1),
           bad=[([counted(2, 5)], {"num_outputs": 2}, ShapeError, "divisible by num_outputs=2"),
                ([counted(2, 4)], {"num_outputs": 2, "squeeze_axis": True}, ShapeError,
                 "squeeze_axis")]),
    Sample([counted(3, 2)], {"num_outputs": 3, "axis": 0, "squeeze_axis": True},
           second_order=True, reference=list),
    Sample([counted(2, 6)], {"num_outputs": 1, "axis": -1}, second_order=True,
           reference=np.copy)]
ARRAY["_split_v2"] = [
    Sample([counted(6, 2)], {"indices": (0, 1, 3), "axis": 0}, second_order=True,
           reference=lambda x: np.split(x, (1, 3)),
           bad=[([counted(5, 2)], {"indices": (), "sections": 2, "axis": 0}, ShapeError,
                 "2 sections")]),
    Sample([counted(2, 6)], {"indices": (), "sections": 3}, second_order=True,
           reference=lambda x: np.split(x, 3, 1)),
    Sample([counted(2, 2)], {"indices": (), "sections": 2, "axis": 1, "squeeze_axis": True},
           second_order=True, reference=lambda x: list(x.T))]


# -- slices ----------------------------------------------------------------------------------------

BOXES = [((1,), (3,), None), ((None, 1), (None, 3), None), ((4, 0), (None, 4), (-2, 3)),
         ((-3,), (-1,), (1,)), ((None,), (None,), (-1,)), ((3,), (3,), None)]
ARRAY["slice"] = [
    Sample([counted(5, 4)], {"begin": begin, "end": end, "step": step}, second_order=True,
           reference=lambda x, b=begin, e=end, s=step: x[tuple(
               slice(*part) for part in zip(b, e, s or (None,) * len(b), strict=True))],
           bad=[([counted(3)], {"begin": (0, 0), "end": (1, 1)}, ShapeError, "one length up to 1"),
                ([counted(3)], {"begin": (0,), "end": (1,), "step": (0,)}, ArgumentValueError,
                 "other than 0")])
    for begin, end, step in BOXES]
ARRAY["_slice_grad"] = [
    Sample([counted(2, 2), counted(5, 4)], {"begin": (1, 0), "end": (3, 4), "step": (1, 2)},
           wrt=(0,), second_order=True)]
ARRAY["slice_axis"] = [
    Sample([counted(3, 5)], {"axis": axis, "begin": begin, "end": end}, second_order=True,
           reference=lambda x, b=begin, e=end: x[:, b:e],
           bad=[([counted(3)], {"axis": 1, "begin": 0, "end": 1}, ArgumentValueError, "axis")])
    for axis, begin, end in ((1, 1, 3), (-1, -4, -1), (1, 2, None))]
ARRAY["_slice_axis_grad"] = [Sample([counted(3, 2), counted(3, 5)],
                                    {"axis": -1, "begin": 1, "end": 3}, wrt=(0,),
                                    second_order=True)]
ARRAY["slice_like"] = [
    Sample([counted(4, 5), counted(2, 3)], {"axes": axes}, wrt=(0,), second_order=True,
           reference=lambda x, y, box=box: x[box],
           bad=[([counted(2, 3), counted(4, 3)], {}, ShapeError, "size up to 2 on axis 0"),
                ([counted(2, 3), counted(4)], {}, ShapeError, "as many axes")])
    for axes, box in (((), np.s_[:2, :3]), ((0,), np.s_[:2]), ((-1,), np.s_[:, :3]))]
ARRAY["_slice_like_grad"] = [Sample([counted(4, 3), counted(4, 5), counted(2, 3)], {"axes": (1,)},
                                    wrt=(0,), second_order=True)]


# -- mirror, repeat, pad, diagonals ----------------------------------------------------------------

ARRAY["reverse"] = [
    Sample([counted(2, 3, 2)], {"axis": axis}, second_order=True,
           reference=lambda x, axis=axis: np.flip(x, axis),
           bad=[([counted(2)], {"axis": 1}, ArgumentValueError, "axis")])
    for axis in (0, -1, (0, 1))]
ARRAY["tile"] = [
    Sample([counted(2, 3)], {"reps": reps}, second_order=True,
           reference=lambda x, reps=reps: np.tile(x, reps))
    for reps in ((2,), (2, 2), (2, 1, 3), (1, 1))]
ARRAY["_tile_grad"] = [Sample([counted(4, 6), counted(2, 3)], {"reps": (2, 2)}, wrt=(0,),
                              second_order=True)]
ARRAY["repeat"] = [
    Sample([counted(2, 3)], {"repeats": 2, "axis": axis}, second_order=True,
           reference=lambda x, axis=axis: np.repeat(x, 2, axis),
           bad=[([counted(2)], {"repeats": 2, "axis": 1}, ArgumentValueError, "axis")])
    for axis in (None, 0, -1)]
ARRAY["_repeat_grad"] = [Sample([counted(2, 6), counted(2, 3)], {"repeats": 2, "axis": 1},
                                wrt=(0,), second_order=True)]
WIDTHS = (0, 0, 0, 0, 1, 2, 2, 1)
ARRAY["Pad"] = [
    Sample([counted(1, 2, 3, 3, *([2] if len(width) > 8 else []))],
           {"mode": mode, "pad_width": width}, second_order=True,
           reference=lambda x, mode=mode, width=width: np.pad(
               x, list(zip(width[::2], width[1::2], strict=True)), mode=mode),
           bad=[([counted(2, 3)], {"mode": "edge", "pad_width": (0, 0, 1, 1)}, ShapeError,
                 "4 or 5 axes"),
                ([counted(1, 1, 2, 2)], {"mode": "constant", "pad_width": (1, 1, 0, 0) * 2},
                 ArgumentValueError, "0 for the first two axes"),
                ([counted(1, 1, 2, 2)], {"mode": "reflect", "pad_width": (0,) * 7 + (2,)},
                 ShapeError, "less than the size 2")])
    for mode in ("constant", "edge", "reflect") for width in (WIDTHS, (*WIDTHS, 1, 0))]
ARRAY["_pad_grad"] = [
    Sample([counted(1, 1, 6, 6), counted(1, 1, 3, 3)], {"mode": mode, "pad_width": WIDTHS},
           wrt=(0,), second_order=True)
    for mode in ("constant", "edge", "reflect")]
ARRAY["diag"] = [
    Sample([counted(*shape)], {"k": k}, second_order=True,
           reference=lambda x, k=k: np.diag(x, k) if x.ndim < 3 else np.diagonal(x, k, 0, 1),
           bad=[([counted(2, 3)], {"k": 3}, ShapeError, "k=3 is outside"),
                ([counted(2, 3)], {"axis2": 0}, ArgumentValueError, "different axes")])
    for shape in ((3,), (3, 4), (3, 2, 2)) for k in (0, 1, -1)
] + [Sample([counted(2, 3, 4)], {"axis1": -1, "axis2": 0, "k": 1}, second_order=True,
            reference=lambda x: np.diagonal(x, 1, 2, 0))]
ARRAY["_diag_grad"] = [
    Sample([counted(3, 2), counted(2, 3, 4)], {"axis1": 2, "axis2": 0, "k": -1}, wrt=(0,),
           second_order=True),
    Sample([counted(4, 4), counted(3)], {"k": 1}, wrt=(0,), second_order=True)]


def to_space(x: Any) -> Any:
    n, c, h, w = x.shape
    return x.reshape(n, 2, 2, c // 4, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(
        n, c // 4, h * 2, w * 2)


ARRAY["depth_to_space"] = [
    Sample([counted(2, 8, 2, 3)], {"block_size": 2}, second_order=True, reference=to_space,
           bad=[([counted(1, 3, 2, 2)], {"block_size": 2}, ShapeError, "divisible by block")])]
ARRAY["space_to_depth"] = [
    Sample([counted(2, 2, 4, 6)], {"block_size": 2}, second_order=True,
           bad=[([counted(1, 3, 3, 2)], {"block_size": 2}, ShapeError, "H and W divisible")])]


# -- picking by indices ----------------------------------------------------------------------------

ARRAY["take"] = [
    Sample([counted(4, 3), indices], {"axis": axis, "mode": mode}, wrt=(0,), second_order=True,
           reference=lambda x, i, axis=axis, mode=mode: np.take(
               x, i.astype(int), axis, mode="clip" if mode == "clip" else "wrap"),
           bad=[([counted(4), arr(1)], {"axis": 1}, ArgumentValueError, "axis"),
                ([counted(4), arr(7)], {"mode": "raise"}, ArgumentValueError,
                 "index 7 is out of range for size 4"),
                ([counted(4), arr(-1)], {"mode": "raise"}, ArgumentValueError, "index -1")])
    for indices, axis, mode in (
        (ints(0, 2, 2), 0, "clip"), (ints([-1, 7], [1, 1]), 0, "clip"),
        (ints(-1, 7, 3), 1, "wrap"), (arr(0, 2.9), -1, "clip"), (ints(0, 3), 0, "raise"))]
ARRAY["_take_grad"] = [Sample([counted(4, 3), counted(4, 2), ints(0, 1, 1)], {"axis": 1},
                              wrt=(0,), second_order=True)]
ARRAY["batch_take"] = [
    Sample([counted(3, 4), ints(0, 9, -2)], grad=False,
           reference=lambda x, i: x[np.arange(3), [0, 3, 0]],
           bad=[([counted(3, 4), arr(0, 1)], {}, ShapeError, "batch_take")])]
ARRAY["pick"] = [
    Sample([counted(3, 4), index], attrs, wrt=(0,), second_order=True,
           reference=lambda x, i, want=want: want(x),
           bad=[([counted(3, 4), arr(0, 1)], {}, ShapeError, "pick")])
    for index, attrs, want in (
        (ints(0, 9, -2), {}, lambda x: x[np.arange(3), [0, 3, 0]]),
        (ints(0, 9, -2), {"mode": "wrap"}, lambda x: x[np.arange(3), [0, 1, 2]]),
        (arr(0, 1, 2), {"keepdims": True}, lambda x: x[np.arange(3), np.arange(3)][:, None]),
        (ints([0], [1], [2]), {}, lambda x: x[np.arange(3), np.arange(3)]),
        (ints(2, 1, 0, 1), {"axis": 0}, lambda x: x[[2, 1, 0, 1], np.arange(4)]),
        (ints(2, 11, 2), {"axis": None}, lambda x: x.reshape(-1)[[2, 11, 2]]))]
ARRAY["_pick_grad"] = [
    Sample([counted(3), counted(3, 4), ints(0, 9, 1)], wrt=(0,), second_order=True),
    Sample([counted(3), counted(3, 4), ints(2, 9, 2)], {"axis": None}, wrt=(0,),
           second_order=True)]
ARRAY["one_hot"] = [
    Sample([index], {"depth": 3, **attrs}, grad=False, reference=lambda i, want=want: want,
           bad=[([ints(1)], {"depth": -1}, ArgumentValueError, "depth: expected 0 or more")])
    for index, attrs, want in (
        (ints(1, 5, -1), {}, arr([0, 1, 0], [0, 0, 0], [0, 0, 0])),
        (arr([2.0], [0.0]), {"on_value": 8, "off_value": 1, "dtype": "int32"},
         ints([[1, 1, 8]], [[8, 1, 1]])),
        (ints(1), {"depth": 0}, np.zeros((1, 0), "float32")))]
ARRAY["where"] = [
    Sample([condition, counted(2, 3), counted(2, 3)], wrt=(1, 2), second_order=True,
           reference=lambda c, x, y: np.where(c.reshape(len(c), -1) != 0, x, y),
           bad=[([counted(2), counted(3), counted(3)], {}, ShapeError, "where"),
                ([counted(2), counted(2), counted(3)], {}, ShapeError, "where")])
    for condition in (arr([1, 0, 2], [0, 0, 1]), arr(0, 1), ints(1, 0))]
ARRAY["gather_nd"] = [
    Sample([counted(2, 3, 2), points], wrt=(0,), second_order=True,
           reference=lambda x, i: x[tuple(i.astype(int))],
           bad=[([counted(2), ints([0], [0])], {}, ShapeError, "gather_nd"),
                ([counted(2), ints([7])], {}, OutOfRangeError, "gather_nd")])
    for points in (ints([0, 1, 1], [2, 0, 0]), arr([1, 1]), ints([0, 1], [2, 0], [1, 1]))]
ARRAY["_gather_nd_grad"] = [Sample([counted(3), counted(2, 3), ints([0, 1, 1], [2, 0, 0])],
                                   wrt=(0,), second_order=True,
                                   reference=lambda g, x, i: arr([0, 0, g[0]],
                                                                 [g[1] + g[2], 0, 0]))]
ARRAY["scatter_nd"] = [
    Sample([counted(2), ints([0, 1], [2, 0])], {"shape": (2, 3)}, wrt=(0,), second_order=True,
           reference=lambda x, i: arr([0, 0, x[0]], [x[1], 0, 0]),
           bad=[([counted(3), ints([0, 1], [2, 0])], {"shape": (2, 3)}, ShapeError,
                 "scatter_nd")]),
    Sample([counted(1, 3), ints([1])], {"shape": (2, 3)}, wrt=(0,),
           reference=lambda x, i: np.stack([np.zeros(3, "float32"), x[0]]))]
KEYS: list[Any] = [1, slice(0, 2), (slice(None), 1), (1, 2),
                   (None, Ellipsis, slice(None, None, -2)),
                   [0, 1, 1], ([0, 1], [2, 2]), [[0], [1]], (slice(None), [0, 0])]
ARRAY["_setitem_like"] = [
    Sample([counted(2, 3), counted(3)], {"key": 1}, second_order=True,
           reference=lambda x, v: np.stack([x[0], v])),
    Sample([counted(2, 3), counted(1)], {"key": (slice(None), slice(0, 2))}, second_order=True)]
ARRAY["_getitem"] = [Sample([counted(2, 3)], {"key": key}, second_order=True,
                            reference=lambda x, key=key: np.atleast_1d(x[key]))
                     for key in KEYS]
ARRAY["_getitem_grad"] = [Sample([counted(3), counted(2, 3)], {"key": 1}, wrt=(0,),
                                 second_order=True),
                          Sample([counted(3, 3), counted(2, 3)], {"key": [0, 1, 1]},
                                 wrt=(0,), second_order=True)]


# -- sequences -------------------------------------------------------------------------------------

LENGTHS = ints(1, 3, 2)
USED = {"use_sequence_length": True}


def masked(x: Any, lengths: Any, value: float, axis: int) -> Any:
    x = x.copy() if axis == 0 else x.swapaxes(0, 1).copy()
    for column, length in enumerate(lengths):
        x[length:, column] = value
    return x if axis == 0 else x.swapaxes(0, 1)


def turned(x: Any, lengths: Any) -> Any:
    x = x.copy()
    for column, length in enumerate(lengths):
        x[:length, column] = x[:length, column][::-1]
    return x


ARRAY["SequenceMask"] = [
    Sample([counted(4, 3, 2)], second_order=True, reference=np.copy),
    Sample([counted(4, 3, 2), LENGTHS], {**USED, "value": -1}, wrt=(0,), second_order=True,
           reference=lambda x, n: masked(x, n, -1, 0),
           bad=[([counted(4, 3), arr(1, 2)], USED, ShapeError, "SequenceMask"),
                ([counted(4, 3)], USED, ArgumentError, "missing input 'sequence_length'")]),
    Sample([counted(3, 4), LENGTHS.astype("float32")], {**USED, "axis": 1}, wrt=(0,),
           second_order=True, reference=lambda x, n: masked(x, n.astype(int), 0, 1))]
ARRAY["SequenceLast"] = [
    Sample([counted(4, 3, 2)], second_order=True, reference=lambda x: x[-1]),
    Sample([counted(4, 3, 2), LENGTHS], USED, wrt=(0,), second_order=True,
           reference=lambda x, n: x[n - 1, np.arange(3)]),
    Sample([counted(3, 4), LENGTHS], {**USED, "axis": 1}, wrt=(0,), second_order=True,
           reference=lambda x, n: x[np.arange(3), n - 1],
           bad=[([counted(4, 3)], {"axis": 2}, ArgumentValueError, "expected 0 or 1"),
                ([counted(4)], {"axis": 0}, ShapeError, "SequenceLast")])]
ARRAY["_sequence_last_grad"] = [
    Sample([counted(3, 2), counted(4, 3, 2)], wrt=(0,), second_order=True),
    Sample([counted(3), counted(4, 3), LENGTHS], USED, wrt=(0,), second_order=True)]
ARRAY["SequenceReverse"] = [
    Sample([counted(4, 3, 2)], second_order=True, reference=lambda x: x[::-1]),
    Sample([counted(4, 3), LENGTHS], USED, wrt=(0,), second_order=True, reference=turned,
           bad=[([counted(4, 3)], {"axis": 1}, ArgumentValueError, "expected 0")])]


# -- order -----------------------------------------------------------------------------------------

ROWS = arr([3, 1, 2, 1], [0, 5, -1, 5])
ARRAY["sort"] = [
    Sample([ROWS + arr(0, 0.1, 0.2, 0.3)], {"axis": axis, "is_ascend": up}, second_order=True,
           reference=lambda x, axis=axis, up=up: (
               np.sort(x, axis) if up else -np.sort(-x, axis)))
    for axis in (-1, 0, None) for up in (True, False)]
ARRAY["argsort"] = [
    Sample([ROWS], {"axis": axis, "is_ascend": up, "dtype": dtype}, grad=False,
           reference=lambda x, axis=axis, up=up, dtype=dtype: np.argsort(
               x if up else -x, axis, kind="stable").astype(dtype))
    for axis, dtype in ((-1, "float32"), (0, "int32"), (None, "float64")) for up in (True, False)]
ARRAY["topk"] = [
    Sample([ROWS + arr(0, 0.1, 0.2, 0.3)], {"k": 2, "ret_typ": "value"}, second_order=True,
           reference=lambda x: -np.sort(-x)[:, :2],
           bad=[([counted(2, 3)], {"k": 4}, ShapeError, "topk: k: expected up to 3")]),
    Sample([ROWS + arr(0, 0.1, 0.2, 0.3)], {"k": 1, "ret_typ": "both", "axis": None,
                                            "dtype": "int32"}, second_order=True,
           reference=lambda x: [x.max().reshape(1), np.array([np.argmax(x)], "int32")]),
    Sample([ROWS], {"k": 2, "axis": 0, "is_ascend": True}, grad=False,
           reference=lambda x: np.argsort(x, 0, kind="stable").astype("float32")),
    Sample([ROWS], {"k": 0}, grad=False,
           reference=lambda x: np.argsort(-x, 1, kind="stable").astype("float32")),
    Sample([ROWS], {"k": 2, "ret_typ": "mask"}, grad=False,
           reference=lambda x: arr([1, 0, 1, 0], [0, 1, 0, 1]))]
ARRAY["_take_along"] = [
    Sample([counted(2, 4), np.array([[3, 0], [1, 2]])], {"axis": 1}, wrt=(0,), second_order=True,
           reference=lambda x, i: np.take_along_axis(x, i, 1))]
ARRAY["_put_along"] = [
    Sample([counted(2, 2), counted(2, 4), np.array([[3, 0], [1, 2]])], {"axis": 1}, wrt=(0,),
           second_order=True)]


# -- made from nothing -----------------------------------------------------------------------------

ARRAY["_zeros"] = [Sample([], {"shape": (2, 3)}, reference=lambda: np.zeros((2, 3), "float32"))]
ARRAY["_ones"] = [Sample([], {"shape": 2, "dtype": "int32"}, reference=lambda: np.ones(2, "int32"))]
ARRAY["_full"] = [Sample([], {"shape": (2,), "value": 7, "dtype": "float64"},
                         reference=lambda: np.full(2, 7.0),
                         bad=[([], {"shape": (2,)}, ArgumentError, "'value'")])]
ARRAY["_arange"] = [
    Sample([], attrs, reference=lambda want=want: arr(*want))
    for attrs, want in (({"start": 3}, (0, 1, 2)), ({"start": 1, "stop": 2, "step": 0.5}, (1, 1.5)),
                        ({"start": 3, "stop": 1, "step": -1, "repeat": 2}, (3, 3, 2, 2)))
] + [Sample([], {"start": 16800000, "stop": 16800002, "dtype": "int32"},
            reference=lambda: np.array([16800000, 16800001], "int32"),
            bad=[([], {"start": 0, "stop": 1, "step": 0}, ArgumentValueError, "step")])]
ARRAY["_linspace"] = [
    Sample([], {"start": 0, "stop": 1, "num": 5, "endpoint": endpoint},
           reference=lambda endpoint=endpoint: np.linspace(0, 1, 5, endpoint, dtype="float32"))
    for endpoint in (True, False)]
ARRAY["_eye"] = [Sample([], {"N": 3, "M": m, "k": k},
                        reference=lambda m=m, k=k: np.eye(3, m or 3, k, dtype="float32"))
                 for m, k in ((0, 0), (4, 1), (2, -1))]


# -- drawn -----------------------------------------------------------------------------------------

def drawn(name: str, *attrs: dict[str, Any], bad: Any = ()) -> None:
    ARRAY[name] = [Sample([], {"shape": (2, 3), **one}, random=True, grad=False, bad=bad)
                   for one in attrs]


drawn("_random_uniform", {}, {"low": -1, "high": 2, "dtype": "float64"}, {"shape": ()},
      {"dtype": "float16"}, bad=[([], {"low": 2, "high": 1}, ArgumentValueError, "uniform")])
drawn("_random_normal", {}, {"loc": 1, "scale": 2, "dtype": "float64"},
      bad=[([], {"scale": -1}, ArgumentValueError, "scale")])
drawn("_random_gamma", {"alpha": 2, "beta": 3},
      bad=[([], {"alpha": 0}, ArgumentValueError, "alpha")])
drawn("_random_exponential", {"lam": 2}, bad=[([], {"lam": 0}, ArgumentValueError, "lam")])
drawn("_random_poisson", {"lam": 4}, bad=[([], {"lam": -1}, ArgumentValueError, "lam")])
drawn("_random_randint", {"low": -3, "high": 4}, {"low": 0, "high": 2 ** 40, "dtype": "int64"},
      bad=[([], {"low": 4, "high": 4}, ArgumentValueError, "low below high"),
           ([], {}, ArgumentError, "'low'")])
ARRAY["_random_uniform_like"] = [Sample([counted(2, 3)], random=True, grad=False)]
ARRAY["_random_normal_like"] = [Sample([counted(2, 3)], random=True, grad=False)]
ARRAY["_random_shuffle"] = [Sample([counted(5, 2)], random=True, grad=False)]
ARRAY["_sample_multinomial"] = [
    Sample([arr([0, 1, 0], [0, 0, 1])], grad=False, reference=lambda x: ints(1, 2)),
    Sample([arr(0, 1, 0)], {"shape": (2, 2)}, grad=False,
           reference=lambda x: ints([1, 1], [1, 1])),
    Sample([arr([0.5, 0.5], [0.1, 0.9])], {"shape": 3, "get_prob": True}, random=True,
           grad=False)]
ARRAY["_multinomial_grad"] = [
    Sample([arr(3, 5), arr([0.5, 0.5], [0.2, 0.8]), ints(0, 1)], grad=False,
           reference=lambda g, p, i: arr([6, 0], [0, 6.25]))]
