"""One direction of one recurrent layer, step by step through time, forwards and backwards.

Arrays are (T, N, ...). ``z`` first holds what the input contributes to each gate at each step (one
product for all steps), then the gates. A step that is padding (`live` false) hands states on.

Sigmoids are computed as ``tanh(x / 2) / 2 + 1 / 2``: with the halves put into the weights, one
tanh serves all gates of a step.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = ["BACKWARD", "FORWARD", "GATES", "KEPT", "Backward", "previous"]

Array = Any
Clip = tuple[float, float, bool] | None
Named = dict[str, Array]

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}

# What a forward keeps for backward, besides its output, in multiples of the state's size.
KEPT: dict[str, dict[str, int]] = {
    "rnn_relu": {}, "rnn_tanh": {}, "lstm": {"gates": 4, "cells": 1},
    "gru": {"gates": 3, "inner": 1}}


class Backward(NamedTuple):
    """What the way back through one direction finds.

    Attributes:
        inner, outer: (T, N, gates) gradients of what input and state contribute to the gates.
        dh, dc: gradients of the first states. projection: gradient of h2r_weight.
    """

    inner: Array
    outer: Array
    dh: Array
    dc: Array | None = None
    projection: Array | None = None


def previous(xp: Any, y: Array, h0: Array, backwards: bool, live: Array | None) -> Array:
    """The state that each step started from, given the output of all steps."""
    first = h0[None]
    if not backwards:
        return xp.concatenate([first, y[:-1]])
    if live is not None:  # padding puts out 0, but hands the first state on
        y = xp.where(live, y, first)
    return xp.concatenate([y[1:], first])


def _halved(xp: Any, mode: str, like: Array) -> Array:
    """(gates,): 1/2 for the gates that are sigmoids, 1 for the others."""
    count = GATES[mode]
    factor = xp.full(like.shape[0], 0.5, like.dtype).reshape(count, -1)
    factor[2] = 1  # the candidate: third of i, f, c, o and third of r, z, n
    return factor.reshape(-1)


def _inner(xp: Any, x: Array, weight: Array, bias: Array, z: Array | None = None) -> Array:
    """What the input contributes to the gates at all steps."""
    rows = weight.shape[0]
    if z is None:
        z = xp.empty((*x.shape[:2], rows), x.dtype)
    flat = z.reshape(-1, rows)
    xp.matmul(x.reshape(-1, x.shape[-1]), weight.T, out=flat)
    flat += bias
    return z


# -- tanh and relu ---------------------------------------------------------------------------------

def _plain(relu: bool) -> Callable[..., Any]:
    def forward(xp: Any, x: Array, weights: Named, kept: Named, h: Array, c: None, y: Array,
                order: Sequence[int], live: Array | None, clip: Clip) -> tuple[Array, None]:
        z = _inner(xp, x, weights["i2h_weight"], weights["i2h_bias"] + weights["h2h_bias"])
        matrix = xp.ascontiguousarray(weights["h2h_weight"].T)
        for t in order:
            new = z[t]
            new += h @ matrix
            if relu:
                xp.maximum(new, 0, out=new)
            else:
                xp.tanh(new, out=new)
            if live is None:
                y[t] = h = new
            else:
                y[t] = new * live[t]
                h = xp.where(live[t], new, h)
        return h, None

    return forward


def _plain_back(relu: bool) -> Callable[..., Backward]:
    def backward(xp: Any, dy: Array, dh: Array, dc: None, weights: Named, kept: Named, c0: None,
                 y: Array, before: Array, order: Sequence[int], live: Array | None, clip: Clip
                 ) -> Backward:
        dz = (y > 0).astype(y.dtype) if relu else 1 - y * y
        if live is not None:
            dz *= live
            dy = dy * live
        weight = weights["h2h_weight"]
        for t in reversed(order):
            dh = dh + dy[t]
            dz[t] *= dh
            held = 0 if live is None else dh * ~live[t]
            dh = dz[t] @ weight + held
        return Backward(dz, dz, dh)

    return backward


# -- lstm ------------------------------------------------------------------------------------------

def _lstm(xp: Any, x: Array, weights: Named, kept: Named, h: Array, c: Array, y: Array,
          order: Sequence[int], live: Array | None, clip: Clip) -> tuple[Array, Array]:
    size, cells = c.shape[-1], kept["cells"]
    factor = _halved(xp, "lstm", weights["i2h_bias"])
    shift = 1 - factor
    shift[2 * size:3 * size] = 0
    z = _inner(xp, x, weights["i2h_weight"] * factor[:, None],
               (weights["i2h_bias"] + weights["h2h_bias"]) * factor, kept["gates"])
    matrix = xp.ascontiguousarray((weights["h2h_weight"] * factor[:, None]).T)
    projection = weights["h2r_weight"].T if "h2r_weight" in weights else None
    for t in order:
        gates = z[t]
        gates += h @ matrix
        xp.tanh(gates, out=gates)
        gates *= factor
        gates += shift
        new = gates[:, size:2 * size] * c
        new += gates[:, :size] * gates[:, 2 * size:3 * size]
        if clip is not None:
            new = _clipped(xp, new, clip)
        if live is not None:
            new = xp.where(live[t], new, c)
        cells[t] = c = new
        out = xp.tanh(new)
        out *= gates[:, 3 * size:]
        if projection is not None:
            out = out @ projection
        if live is None:
            y[t] = h = out
        else:
            y[t] = out * live[t]
            h = xp.where(live[t], out, h)
    return h, c


def _clipped(xp: Any, cells: Array, clip: tuple[float, float, bool]) -> Array:
    low, high, nan = clip
    if nan:
        cells = xp.where(xp.isnan(cells), cells.dtype.type(low), cells)
    return xp.clip(cells, cells.dtype.type(low), cells.dtype.type(high))


def _lstm_back(xp: Any, dy: Array, dh: Array, dc: Array, weights: Named, kept: Named, c0: Array,
               y: Array, before: Array, order: Sequence[int], live: Array | None, clip: Clip
               ) -> Backward:
    steps, batch, size = kept["cells"].shape
    gates, cells = kept["gates"].reshape(steps, batch, 4, size), kept["cells"]
    i, f, n, o = (gates[:, :, place] for place in range(4))
    squashed = xp.tanh(cells)
    through = o * (1 - squashed * squashed)  # from the output to the cell
    dz = xp.empty_like(gates)
    dz[:, :, 0] = n * i * (1 - i)
    dz[:, :, 1] = previous(xp, cells, c0, order[0] != 0, None) * f * (1 - f)
    dz[:, :, 2] = i * (1 - n * n)
    dz[:, :, 3] = squashed * o * (1 - o)
    inside = None if clip is None else ((cells > clip[0]) & (cells < clip[1])).astype(dz.dtype)
    if live is not None:
        dz *= live[:, :, None]
        through *= live
        dy = dy * live
    weight, projection = weights["h2h_weight"], weights.get("h2r_weight")
    outs = None if projection is None else xp.empty_like(dy)
    flat = dz.reshape(steps, batch, 4 * size)
    for t in reversed(order):
        dh = total = dh + dy[t]
        if projection is not None and outs is not None:
            outs[t] = dh if live is None else dh * live[t]
            dh = dh @ projection
        dc = step = dc + dh * through[t]
        if inside is not None:
            step = dc * inside[t]
        part = dz[t]
        part[:, :3] *= step[:, None]
        part[:, 3] *= dh
        dh = flat[t] @ weight
        if live is None:
            dc = step * f[t]
        else:
            dc = xp.where(live[t], step * f[t], dc)
            dh += total * ~live[t]
    found = None
    if outs is not None:
        hidden = (squashed * o).reshape(-1, size)
        found = outs.reshape(-1, outs.shape[-1]).T @ hidden
    return Backward(flat, flat, dh, dc, found)


# -- gru -------------------------------------------------------------------------------------------

def _gru(xp: Any, x: Array, weights: Named, kept: Named, h: Array, c: None, y: Array,
         order: Sequence[int], live: Array | None, clip: Clip) -> tuple[Array, None]:
    size, inner = h.shape[-1], kept["inner"]
    factor = _halved(xp, "gru", weights["i2h_bias"])
    outer_bias = weights["h2h_bias"]
    bias = weights["i2h_bias"].copy()
    bias[:2 * size] += outer_bias[:2 * size]  # that of the candidate stands inside r * (...)
    z = _inner(xp, x, weights["i2h_weight"] * factor[:, None], bias * factor, kept["gates"])
    matrix = xp.ascontiguousarray((weights["h2h_weight"] * factor[:, None]).T)
    for t in order:
        gates, outer = z[t], h @ matrix
        both, n = gates[:, :2 * size], gates[:, 2 * size:]
        both += outer[:, :2 * size]
        xp.tanh(both, out=both)
        both *= 0.5
        both += 0.5
        inside = outer[:, 2 * size:]
        inside += outer_bias[2 * size:]
        inner[t] = inside
        n += inside * gates[:, :size]
        xp.tanh(n, out=n)
        new = h - n
        new *= gates[:, size:2 * size]
        new += n
        if live is None:
            y[t] = h = new
        else:
            y[t] = new * live[t]
            h = xp.where(live[t], new, h)
    return h, None


def _gru_back(xp: Any, dy: Array, dh: Array, dc: None, weights: Named, kept: Named, c0: None,
              y: Array, before: Array, order: Sequence[int], live: Array | None, clip: Clip
              ) -> Backward:
    steps, batch, size = kept["inner"].shape
    gates = kept["gates"].reshape(steps, batch, 3, size)
    r, z, n = (gates[:, :, place] for place in range(3))
    candidate = (1 - z) * (1 - n * n)
    outer = xp.empty_like(gates)
    outer[:, :, 0] = candidate * kept["inner"] * r * (1 - r)
    outer[:, :, 1] = (before - n) * z * (1 - z)
    outer[:, :, 2] = candidate * r
    if live is not None:
        outer *= live[:, :, None]
        candidate *= live
        z = xp.where(live, z, z.dtype.type(1))
        dy = dy * live
    weight, flat = weights["h2h_weight"], outer.reshape(steps, batch, 3 * size)
    for t in reversed(order):
        dh = dh + dy[t]
        outer[t] *= dh[:, None]
        candidate[t] *= dh
        dh = dh * z[t]
        dh += flat[t] @ weight
    inner = outer.copy()
    inner[:, :, 2] = candidate
    return Backward(inner.reshape(flat.shape), flat, dh)


FORWARD: dict[str, Callable[..., tuple[Array, Array | None]]] = {
    "rnn_relu": _plain(True), "rnn_tanh": _plain(False), "lstm": _lstm, "gru": _gru}
BACKWARD: dict[str, Callable[..., Backward]] = {
    "rnn_relu": _plain_back(True), "rnn_tanh": _plain_back(False), "lstm": _lstm_back,
    "gru": _gru_back}
