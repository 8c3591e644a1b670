"""Samples of the operators that compute element by element, reduce, or multiply matrices."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sample import Bad, Sample, floats

from minigluon.base import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    ShapeError,
)

__all__ = ["MATH"]

Reference = Callable[..., Any]
MATH: dict[str, list[Sample]] = {}
arr = floats
NAN = float("nan")
INT = np.array([[-7, 2, 0], [5, -3, 8]], dtype="int32")


# -- one array -------------------------------------------------------------------------------------

def unary(name: str, reference: Reference, low: float, high: float, smooth: bool = True,
          extra: tuple[Sample, ...] = (), shape: tuple[int, ...] = (2, 3)) -> None:
    bad: list[Bad] = [([(shape, low, high)], {"unknown": 1}, ArgumentError, f"{name}: unknown"),
                      ([], {}, ArgumentError, f"{name}: missing input 'data'")]
    MATH[name] = [
        Sample([(shape, low, high)], second_order=smooth, reference=reference, bad=bad),
        Sample([((0, 3), low, high)], grad=False),
        *extra,
    ]


vec = np.vectorize
unary("abs", np.abs, 0.2, 2, extra=(Sample([INT], reference=np.abs),))
unary("negative", np.negative, -2, 2, extra=(Sample([INT], reference=np.negative),))
unary("sign", np.sign, 0.1, 2, False)
unary("exp", np.exp, -2, 2)
unary("expm1", np.expm1, -2, 2)
unary("log", np.log, 0.3, 3, extra=(
    Sample([arr(0, -1, NAN)], grad=False, reference=lambda x: arr(-np.inf, NAN, NAN)),))
unary("log2", np.log2, 0.3, 3)
unary("log10", np.log10, 0.3, 3)
unary("log1p", np.log1p, -0.5, 3)
unary("sqrt", np.sqrt, 0.3, 3)
unary("rsqrt", lambda x: 1 / np.sqrt(x), 0.3, 3)
unary("cbrt", np.cbrt, 0.3, 3)
unary("rcbrt", lambda x: 1 / np.cbrt(x), 0.3, 3)
unary("square", np.square, -2, 2, extra=(Sample([INT], reference=np.square),))
unary("reciprocal", lambda x: 1 / x, 0.4, 3)
unary("sin", np.sin, -2, 2)
unary("cos", np.cos, -2, 2)
unary("tan", np.tan, -1, 1)
unary("arcsin", np.arcsin, -0.8, 0.8)
unary("arccos", np.arccos, -0.8, 0.8)
unary("arctan", np.arctan, -2, 2)
unary("sinh", np.sinh, -2, 2)
unary("cosh", np.cosh, -2, 2)
unary("tanh", np.tanh, -2, 2)
unary("arcsinh", np.arcsinh, -2, 2)
unary("arccosh", np.arccosh, 1.5, 3)
unary("arctanh", np.arctanh, -0.8, 0.8)
unary("degrees", np.degrees, -2, 2)
unary("radians", np.radians, -90, 90)
unary("erf", vec(math.erf, otypes=[float]), -3, 3)
unary("gamma", vec(math.gamma, otypes=[float]), 0.3, 4, extra=(
    Sample([((4,), -2.8, -2.2)], reference=vec(math.gamma)),))
unary("gammaln", vec(math.lgamma, otypes=[float]), 0.3, 4, extra=(
    Sample([((4,), -2.8, -2.2)], reference=vec(math.lgamma)),))


def slope_of_lgamma(x: Any) -> Any:
    wide, step = x.astype("float64"), 1e-4
    return (vec(math.lgamma)(wide + step) - vec(math.lgamma)(wide - step)) / (2 * step)


MATH["_digamma"] = [Sample([((2, 3), 0.5, 4)], reference=slope_of_lgamma),
                    Sample([((2, 3), -2.8, -2.2)], reference=slope_of_lgamma, tolerance=1e-4)]
MATH["_trigamma"] = [Sample([arr(1, 0.5)], grad=False,
                            reference=lambda x: arr(math.pi ** 2 / 6, math.pi ** 2 / 2))]
unary("sigmoid", lambda x: 1 / (1 + np.exp(-x)), -3, 3, extra=(
    Sample([arr(-200, 200)], grad=False, reference=lambda x: arr(0, 1)),))
unary("relu", lambda x: np.maximum(x, 0), 0.2, 2, extra=(
    Sample([((5,), -2, -0.2)], reference=np.zeros_like),
    Sample([arr(NAN, -1, 0)], grad=False, reference=lambda x: arr(NAN, 0, 0)),))
unary("softsign", lambda x: x / (1 + np.abs(x)), 0.2, 2)
for name, function in {"ceil": np.ceil, "floor": np.floor, "trunc": np.trunc,
                       "fix": np.trunc}.items():
    unary(name, function, 0.1, 0.9, False, extra=(
        Sample([arr(-2.5, -0.5, 0, 2.7)], grad=False, reference=function),
        Sample([np.array([50000001], "int32")], reference=lambda x: x)))
unary("round", np.round, 0.1, 0.4, False, extra=(
    Sample([arr(2.5, -0.5, 0.5, -2.5, 0.49999997, 3.2)], grad=False,
           reference=lambda x: arr(3, -1, 1, -3, 0, 3)),
    Sample([np.array([50000001], "int32")], reference=lambda x: x)))
unary("rint", np.round, 0.1, 0.4, False, extra=(
    Sample([arr(0.5, 1.5, 2.5, -0.5)], grad=False, reference=lambda x: arr(0, 1, 2, -1)),))
for name in ("_copy", "zeros_like", "ones_like"):
    unary(name, {"_copy": np.copy, "zeros_like": np.zeros_like,
                 "ones_like": np.ones_like}[name], -2, 2, name == "_copy",
          extra=(Sample([INT]),))
MATH["BlockGrad"] = [Sample([((2, 3), -2, 2)], grad=False, reference=np.copy)]
MATH["make_loss"] = [Sample([((2, 3), -2, 2)], grad=False, reference=np.copy)]
MATH["MakeLoss"] = [
    Sample([((2, 3), -2, 2)], grad=False, reference=np.copy),
    Sample([((2, 3), -2, 2)], {"normalization": "batch", "grad_scale": 3}, grad=False, bad=[
        ([((2,), 0, 1)], {"normalization": "mean"}, ArgumentValueError, "one of 'null'")])]
MATH["_make_loss_grad"] = [
    Sample([arr([1, 2], [0, 3])], {"grad_scale": 6, "valid_thresh": 0, "normalization": kind},
           grad=False, reference=lambda x, by=by: np.full_like(x, 6 / by))
    for kind, by in (("null", 1), ("batch", 2), ("valid", 3))]
MATH["logical_not"] = [Sample([arr(0, 2, -1)], grad=False, reference=lambda x: arr(1, 0, 0))]
MATH["_contrib_isnan"] = [Sample([arr(0, NAN, np.inf)], grad=False,
                                 reference=lambda x: arr(0, 1, 0))]
MATH["_contrib_isinf"] = [Sample([arr(0, NAN, -np.inf)], grad=False,
                                 reference=lambda x: arr(0, 0, 1))]
MATH["_contrib_isfinite"] = [Sample([arr(0, NAN, np.inf)], grad=False,
                                    reference=lambda x: arr(1, 0, 0))]
MATH["_relu_grad"] = [Sample([((2, 3), -2, 2), ((2, 3), 0.5, 2)], second_order=True, wrt=(0,),
                             reference=lambda g, y: g)]
MATH["hard_sigmoid"] = [
    Sample([((2, 3), -2, 2)], second_order=True, reference=lambda x: 0.2 * x + 0.5),
    Sample([arr(-9, 9)], {"alpha": 1, "beta": 0}, reference=lambda x: arr(0, 1))]
MATH["smooth_l1"] = [
    Sample([((2, 3), -0.9, 0.9)], second_order=True, reference=lambda x: x * x / 2),
    Sample([((2, 3), 1, 3)], {"scalar": 2.0}, reference=lambda x: np.abs(x) - 0.125)]
MATH["Cast"] = [
    Sample([((2, 3), -2, 2)], {"dtype": "float64"}, second_order=True,
           reference=lambda x: x.astype("float64")),
    Sample([arr(1.7, -1.7)], {"dtype": "int32"}, grad=False,
           reference=lambda x: np.array([1, -1], "int32"),
           bad=[([((2,), 0, 1)], {"dtype": "no_type"}, DTypeError, "dtype"),
                ([((2,), 0, 1)], {}, ArgumentError, "missing required argument 'dtype'")])]
MATH["_cast_like"] = [
    Sample([((2, 3), -2, 2), np.array([1, 2])], grad=False,
           reference=lambda x, like: x.astype(like.dtype)),
    Sample([((2, 3), -2, 2), ((1,), 0, 1)], wrt=(0,), second_order=True,
           reference=lambda x, like: x)]
MATH["clip"] = [
    Sample([((2, 3), -0.9, 0.9)], {"a_min": -1, "a_max": 1}, second_order=True,
           reference=lambda x: x),
    Sample([((2, 3), 2, 3)], {"a_min": -1, "a_max": 1}, reference=np.ones_like),
    Sample([INT], {"a_min": -1e12, "a_max": 4}, reference=lambda x: np.minimum(x, 4),
           bad=[([INT], {"a_min": "low", "a_max": 1}, ArgumentValueError, "a_min")])]
MATH["_clip_grad"] = [Sample([((3,), -2, 2), arr(-1, 1, 1.5)], {"a_min": -1, "a_max": 1},
                             wrt=(0,), second_order=True,
                             reference=lambda g, x: g * arr(1, 1, 0))]


# -- an array and a number -------------------------------------------------------------------------

def scalar(name: str, reference: Reference, value: float = 2, low: float = 0.5, high: float = 3,
           smooth: bool = True, extra: tuple[Sample, ...] = ()) -> None:
    MATH[name] = [
        Sample([((2, 3), low, high)], {"scalar": value}, second_order=smooth,
               reference=lambda x: reference(x, value),
               bad=[([((2,), 0, 1)], {}, ArgumentError, "missing required argument 'scalar'"),
                    ([((2,), 0, 1)], {"scalar": "x"}, ArgumentValueError, "expected a number")]),
        *extra,
    ]


scalar("_plus_scalar", lambda x, s: x + s, extra=(
    Sample([INT], {"scalar": 1.5}, reference=lambda x: x + 1),))
scalar("_minus_scalar", lambda x, s: x - s)
scalar("_rminus_scalar", lambda x, s: s - x)
scalar("_mul_scalar", lambda x, s: x * s)
scalar("_div_scalar", lambda x, s: x / s, extra=(
    Sample([INT], {"scalar": 2}, reference=lambda x: np.trunc(x / 2).astype("int32")),
    Sample([INT], {"scalar": 0}, reference=np.zeros_like)))
scalar("_rdiv_scalar", lambda x, s: s / x)
scalar("_mod_scalar", np.mod, -1.75, extra=(
    Sample([INT], {"scalar": 3}, reference=lambda x: np.mod(x, 3)),
    Sample([arr(1, 2)], {"scalar": 0}, grad=False, reference=np.zeros_like)))
scalar("_rmod_scalar", lambda x, s: np.mod(s, x), 7.3, 2.5, 3.5)
scalar("_power_scalar", np.power, 3, extra=(
    Sample([np.array([2, 3], "int32")], {"scalar": -1}, reference=np.zeros_like),
    *[Sample([((2, 3), 0.5, 2)], {"scalar": s}, second_order=True,
             reference=lambda x, s=s: x ** s) for s in (0, 1, 2, -1.5)]))
scalar("_rpower_scalar", lambda x, s: np.power(s, x))
scalar("_maximum_scalar", np.maximum, 1, 1.2, 3, extra=(
    Sample([((3,), -1, 0)], {"scalar": 1}, reference=np.ones_like),
    Sample([arr(NAN, 0)], {"scalar": 1}, grad=False, reference=lambda x: arr(NAN, 1))))
scalar("_minimum_scalar", np.minimum, 1, -1, 0.8, extra=(
    Sample([((3,), 2, 3)], {"scalar": 1}, reference=np.ones_like),))
scalar("_hypot_scalar", np.hypot)
COMPARE = {"equal": np.equal, "not_equal": np.not_equal, "greater": np.greater,
           "greater_equal": np.greater_equal, "lesser": np.less, "lesser_equal": np.less_equal,
           "logical_and": np.logical_and, "logical_or": np.logical_or,
           "logical_xor": np.logical_xor}
for word, function in COMPARE.items():
    MATH[f"_{word}_scalar"] = [
        Sample([arr(0, 1, 2, NAN)], {"scalar": s}, grad=False,
               reference=lambda x, f=function, s=s: f(x, s).astype("float32"))
        for s in (0, 1)]
    MATH[f"broadcast_{word}"] = [
        Sample([arr([0], [1]), arr(0, 1, 2)], grad=False,
               reference=lambda a, b, f=function: f(a, b).astype("float32"),
               bad=[([((2, 3), 0, 1), ((2, 4), 0, 1)], {}, ShapeError,
                     f"broadcast_{word}: expected shapes that broadcast")])]


# -- two arrays ------------------------------------------------------------------------------------

def pair(name: str, reference: Reference, low: float = 0.5, high: float = 3,
         extra: tuple[Sample, ...] = ()) -> None:
    shapes = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1, 3), (4, 1)), ((1,), (2, 2))]
    MATH[name] = [
        Sample([(a, low, high), (b, low, high)], second_order=True, reference=reference,
               bad=[([((2, 3), 1, 2), ((2,), 1, 2)], {}, ShapeError, "(2, 3) and (2,)"),
                    ([((2,), 1, 2)], {}, ArgumentError, "missing input 'rhs'"),
                    ([((3,), 1, 2), np.ones(3, "int32")], {}, DTypeError, "one dtype")])
        for a, b in shapes
    ] + list(extra)


pair("broadcast_add", np.add)
pair("broadcast_sub", np.subtract)
pair("broadcast_mul", np.multiply)
pair("broadcast_div", np.divide, extra=(
    Sample([INT, np.array([2], "int32")], reference=lambda a, b: np.trunc(a / b).astype("int32")),))
pair("broadcast_mod", np.mod, 2.1, 2.9)
MATH["broadcast_mod"] = [Sample([arr(-7.5, 7.5, 3.3), arr(2, -2, 7)], reference=np.mod)]
pair("broadcast_power", np.power, extra=(
    Sample([arr(0, 2), arr(2, 3)], wrt=(0,), reference=np.power),))
MATH["broadcast_maximum"] = [
    Sample([arr([1.1], [2.2]), arr(0, 1.5, 3)], second_order=True, reference=np.maximum),
    Sample([arr(NAN, 1), arr(1, NAN)], grad=False, reference=np.maximum)]
MATH["broadcast_minimum"] = [
    Sample([arr([1.1], [2.2]), arr(0, 1.5, 3)], second_order=True, reference=np.minimum)]
pair("broadcast_hypot", np.hypot)
MATH["_log_or_zero"] = [Sample([((2, 3), 0.5, 3)], second_order=True, reference=np.log),
                        Sample([arr(0, 1)], grad=False, reference=lambda x: arr(0, 0))]
MATH["_reciprocal_or_zero"] = [
    Sample([((2, 3), 0.5, 3)], second_order=True, reference=lambda x: 1 / x),
    Sample([arr(0, 2)], grad=False, reference=lambda x: arr(0, 0.5))]
for name, function in {"elemwise_add": np.add, "elemwise_sub": np.subtract,
                       "elemwise_mul": np.multiply, "elemwise_div": np.divide}.items():
    MATH[name] = [Sample(
        [((2, 3), 0.5, 2), ((2, 3), 0.5, 2)], second_order=True, reference=function,
        bad=[([((2, 3), 0, 1), ((3,), 0, 1)], {}, ShapeError, f"{name}: expected equal shapes"),
             ([((3,), 0, 1), np.ones(3, "int32")], {}, DTypeError, "one dtype")])]
MATH["add_n"] = [
    Sample([((2, 3), -1, 1)] * count, second_order=True, reference=lambda *xs: sum(xs),
           bad=[([((2, 3), 0, 1), ((3,), 0, 1)], {}, ShapeError, "add_n: expected equal shapes")])
    for count in (1, 3)]
MATH["_sum_like"] = [
    Sample([((2, 4, 3), -1, 1), (like, 0, 1)], wrt=(0,), second_order=True,
           reference=lambda x, y: np.sum(
               x, axis=(*range(3 - y.ndim), *(3 - y.ndim + i for i, n in enumerate(y.shape)
                                              if n == 1 != x.shape[3 - y.ndim + i]))
           ).reshape(y.shape))
    for like in ((2, 4, 3), (4, 1), (1,), (2, 1, 1))]
MATH["broadcast_to"] = [
    Sample([((2, 1, 3), -1, 1)], {"shape": (2, 4, 0)}, second_order=True,
           reference=lambda x: np.broadcast_to(x, (2, 4, 3)),
           bad=[([((2, 3), 0, 1)], {"shape": (4, 3)}, ShapeError, "size 1"),
                ([((2, 3), 0, 1)], {"shape": (3,)}, ShapeError, "2 dimensions")])]
MATH["broadcast_axis"] = [
    Sample([((1, 3, 1), -1, 1)], {"axis": (0, -1), "size": (2, 4)}, second_order=True,
           reference=lambda x: np.broadcast_to(x, (2, 3, 4)),
           bad=[([((2, 3), 0, 1)], {"axis": 0, "size": 4}, ShapeError, "size 1 on axis 0"),
                ([((1, 3), 0, 1)], {"axis": 5, "size": 4}, ArgumentValueError, "from -2 to 1")])]
MATH["broadcast_like"] = [
    Sample([((1, 3), -1, 1), ((4, 3), -1, 1)], wrt=(0,), second_order=True,
           reference=lambda x, y: np.broadcast_to(x, y.shape)),
    Sample([((1, 3), -1, 1), ((5, 4), -1, 1)], {"lhs_axes": (0,), "rhs_axes": (-1,)}, wrt=(0,),
           reference=lambda x, y: np.broadcast_to(x, (4, 3)),
           bad=[([((1, 3), 0, 1), ((5, 4), 0, 1)], {"lhs_axes": (), "rhs_axes": ()}, ShapeError,
                 "not empty"),
                ([((2, 3), 0, 1), ((5, 4), 0, 1)], {}, ShapeError, "broadcast_like")])]


# -- reductions ------------------------------------------------------------------------------------

def scalar_shape(x: Any) -> Any:
    return np.asarray(x).reshape(1) if np.ndim(x) == 0 else x


def reduction(name: str, function: Reference, low: float = 0.5, high: float = 2,
              second: bool = True, extra: tuple[Sample, ...] = ()) -> None:
    MATH[name] = [
        Sample([((2, 3, 2), low, high)], attrs, second_order=second,
               reference=lambda x, axis=axis, keep="keepdims" in attrs: scalar_shape(
                   function(x, axis=axis, keepdims=keep)),
               bad=[([((2, 3), 0, 1)], {"axis": 3}, ArgumentValueError, "from -2 to 1"),
                    ([((2, 3), 0, 1)], {"axis": (0, 0)}, ArgumentValueError, "different axes")])
        for attrs, axis in (
            ({}, None), ({"axis": 1}, 1), ({"axis": -1, "keepdims": True}, -1),
            ({"axis": (0, 2)}, (0, 2)), ({"keepdims": True}, None),
            ({"axis": 1, "exclude": True}, (0, 2)))
    ] + list(extra)


reduction("sum", np.sum, extra=(
    Sample([INT], {"axis": 0}, reference=lambda x: x.sum(axis=0, dtype="int32")),
    Sample([np.ones((70000,), "float16")], grad=False, dtype="float16",
           reference=lambda x: np.array([np.inf], "float16")),
    Sample([np.full((40000,), 1, "float16")], {"axis": 0, "keepdims": True}, grad=False,
           dtype="float16", reference=lambda x: np.array([40000], "float16"))))
reduction("mean", np.mean)
reduction("prod", np.prod, extra=(
    Sample([arr([0, 2, 3], [0, 0, 4], [1, 2, 5])], {"axis": 1},
           reference=lambda x: np.prod(x, axis=1)),))
reduction("nansum", np.nansum, extra=(
    Sample([arr([1, NAN], [2, 3])], {"axis": 1}, grad=False, reference=lambda x: arr(1, 5)),))
reduction("nanprod", np.nanprod, extra=(
    Sample([arr([2, NAN], [2, 3])], {"axis": 1}, grad=False, reference=lambda x: arr(2, 6)),))
reduction("max", np.max, extra=(
    Sample([arr(1, NAN)], grad=False, reference=lambda x: arr(NAN)),))
reduction("min", np.min)
MATH["norm"] = [
    Sample([((2, 3, 2), 0.5, 2)], {"ord": order, "axis": axis, "keepdims": keep},
           second_order=True,
           reference=lambda x, order=order, axis=axis, keep=keep: scalar_shape(
               np.sum(np.abs(x) ** order, axis=axis, keepdims=keep) ** (1 / order)),
           bad=[([((2, 3), 0, 1)], {"ord": 3}, ArgumentValueError, "expected 1 or 2")])
    for order in (1, 2) for axis, keep in ((None, False), ((0, 2), False), (-1, True))
] + [Sample([np.zeros((2, 2), "float32")], {"out_dtype": "float64"}, grad=False,
            reference=lambda x: np.zeros(1, "float64"))]
for name, function in {"argmax": np.argmax, "argmin": np.argmin}.items():
    MATH[name] = [
        Sample([((2, 5), -1, 1)], {"axis": axis, "keepdims": keep}, grad=False,
               reference=lambda x, f=function, axis=axis, keep=keep: scalar_shape(
                   f(x, axis=axis, keepdims=keep)).astype("float32"))
        for axis, keep in ((None, False), (1, False), (0, True), (-1, False))]
MATH["argmax_channel"] = [Sample([((2, 5, 3), -1, 1)], grad=False,
                                 reference=lambda x: np.argmax(x, axis=1).astype("float32"))]
MATH["_unreduce"] = [
    Sample([(small, -1, 1), ((2, 3), 0, 1)], attrs, wrt=(0,), second_order=True,
           reference=lambda x, like, by=by, full=full: np.broadcast_to(
               x.reshape(full), like.shape) / by)
    for small, full, attrs, by in (
        ((1,), (1, 1), {}, 1), ((2,), (2, 1), {"axis": 1, "mean": True}, 3),
        ((2, 1), (2, 1), {"axis": 1, "keepdims": True}, 1),
        ((2,), (2, 1), {"axis": 0, "exclude": True}, 1))]
MATH["_prod_others"] = [
    Sample([((2, 3), 0.5, 2)], {"axis": axis}, second_order=True,
           reference=lambda x, axis=axis: np.prod(x, axis=axis, keepdims=True) / x)
    for axis in (None, 0, 1)] + [
    Sample([arr(0, 2, NAN, 3)], {"ignore_nan": True}, grad=False,
           reference=lambda x: arr(6, 0, 0, 0))]


# -- matrices --------------------------------------------------------------------------------------

def transposed(x: Any, flag: bool) -> Any:
    return np.swapaxes(x, -1, -2) if flag else x


FLAGS = [(a, b) for a in (False, True) for b in (False, True)]


def operands(n: int, k: int, m: int, a: bool, b: bool, lead: tuple[int, ...] = ()) -> list[Any]:
    return [((*lead, *((k, n) if a else (n, k))), -1, 1),
            ((*lead, *((m, k) if b else (k, m))), -1, 1)]


MATH["dot"] = [
    Sample(operands(2, 3, 4, a, b), {"transpose_a": a, "transpose_b": b}, second_order=True,
           reference=lambda x, y, a=a, b=b: transposed(x, a) @ transposed(y, b),
           bad=[([((2, 3), 0, 1), ((2, 3), 0, 1)], {}, ShapeError, "got 3 and 2")])
    for a, b in FLAGS
] + [
    Sample([((3,), -1, 1), ((3,), -1, 1)], second_order=True,
           reference=lambda x, y: np.dot(x, y).reshape(1)),
    Sample([((2, 3), -1, 1), ((3,), -1, 1)], second_order=True, reference=np.dot),
    Sample([((2, 3, 4), -1, 1), ((4, 2, 2), -1, 1)], second_order=True,
           reference=lambda x, y: np.tensordot(x, y, 1)),
    Sample([((4, 2, 3), -1, 1), ((2, 2, 4), -1, 1)], {"transpose_a": True, "transpose_b": True},
           second_order=True, reference=lambda x, y: np.tensordot(x, y, ((0,), (2,)))),
]
MATH["_dot_grad"] = [
    Sample([((2, 4), -1, 1), *operands(2, 3, 4, a, b)],
           {"side": side, "transpose_a": a, "transpose_b": b}, second_order=True,
           wrt=(0, 2) if side == "lhs" else (0, 1),
           reference=lambda g, x, y, side=side, a=a, b=b: (
               transposed(g @ transposed(y, b).T, a) if side == "lhs"
               else transposed(transposed(x, a).T @ g, b)))
    for side in ("lhs", "rhs") for a, b in FLAGS]
MATH["batch_dot"] = [
    Sample(operands(2, 3, 4, a, b, (2,)), {"transpose_a": a, "transpose_b": b},
           second_order=True,
           reference=lambda x, y, a=a, b=b: transposed(x, a) @ transposed(y, b),
           bad=[([((2, 2, 3), 0, 1), ((3, 3, 4), 0, 1)], {}, ShapeError, "leading axes"),
                ([((2, 2, 3), 0, 1), ((2, 2, 3), 0, 1)], {}, ShapeError, "inner sizes")])
    for a, b in FLAGS]
MATH["_linalg_gemm2"] = [
    Sample(operands(2, 3, 4, a, b, lead), {"transpose_a": a, "transpose_b": b, "alpha": 1.5},
           second_order=True,
           reference=lambda x, y, a=a, b=b: 1.5 * transposed(x, a) @ transposed(y, b),
           bad=[([((2, 3), 0, 1), ((3, 4), 0, 1)], {"axis": -1}, ShapeError, "rows on axis -1")])
    for lead in ((), (2, 2)) for a, b in FLAGS]
MATH["_fused"] = [
    Sample([((2, 3), -1, 1), ((3,), -1, 1), ((2, 3), -1, 1)],
           {"program": "mul a0 a1; add t0 a2; relu t1; sub #0.5 t2 -> t3 t1"}, grad=False,
           reference=lambda x, y, z: [0.5 - np.maximum(x * y + z, 0), x * y + z]),
    Sample([((2,), -1, 1)],
           {"program": "exp a0 -> t0", "views": "0:2,1", "shape": (2, 3)}, grad=False,
           reference=lambda x: np.exp(np.repeat(x, 3).reshape(2, 3))),
]
