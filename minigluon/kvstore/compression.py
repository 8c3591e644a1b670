"""Gradients in fewer bits, and the sum of what has come in.

A codec turns ``gradient + residual`` into codes and keeps what they leave out in the residual, so
nothing is lost, only late. `2bit` is MXNet 1.9.1's, to the bit (recorded in
``tests/oracle/compression.json``); `1bit`, which 1.9.1 does not have, follows the description of
MXNet's documentation of gradient compression.

Codes lie in bytes, the first element in the highest bits; an array takes whole words of four bytes.
The native core has the same functions, faster (``src/kvstore/``).
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base import ArgumentError, KVStoreError, did_you_mean
from ..device.cpu.native import core

__all__ = ["CODECS", "Codec", "Packed", "Residuals", "codec_of", "merge", "packed_size"]

Array = np.ndarray[Any, Any]

CODECS = ("", "1bit", "2bit")
"""Names of the codecs by number; number 0 means plain numbers."""
_FROM = {1: -math.inf, 2: 0.0}  # thresholds have to be above


class Codec(NamedTuple):
    """How gradients are quantised.

    Args:
        number: index in `CODECS`.
        threshold: 2bit: what a code stands for, plus or minus; 1bit: from where on it is +1.

    >>> codec, rest = Codec(2, 0.5), np.zeros(4, np.float32)
    >>> codes = codec.quantize(np.array([0.6, 0.4, -0.7, 0], np.float32), rest)
    >>> merge([Packed(codec, codes)], np.empty(4, np.float32)).tolist()
    [0.5, 0.0, -0.5, 0.0]
    """

    number: int
    threshold: float

    @property
    def name(self) -> str:
        """Its name, as in ``set_gradient_compression({"type": name})``."""
        return CODECS[self.number]

    def quantize(self, grad: Array, residual: Array, out: Array | None = None) -> Array:
        """The codes of ``grad + residual``; what they do not say is left in `residual`.

        Args:
            grad, residual: dense float32 arrays of one size.
            out: uint8 array of `packed_size` bytes; made anew by default.
        """
        if out is None:
            out = np.empty(packed_size(self.number, grad.size), np.uint8)
        if core is not None and residual.flags.c_contiguous:
            grad = np.ascontiguousarray(grad)
            core.kv_quantize(self.number, grad, residual, out, self.threshold)
            return out
        codes = self._codes(grad.reshape(-1), residual.reshape(-1))
        out[:] = _pack(codes, self.number)
        return out

    def _codes(self, grad: Array, residual: Array) -> Array:
        residual += grad
        t = np.float32(self.threshold)
        if self.number == 1:
            above = residual > t
            residual -= np.where(above, np.float32(1), np.float32(-1))
            return above.astype(np.uint8)
        up, down = residual >= t, residual <= -t
        residual[up] -= t
        residual[down] += t
        codes: Array = 3 * up.astype(np.uint8) + 2 * down.astype(np.uint8)
        return codes

    def expand(self, packed: Array, size: int) -> Array:
        """The numbers that `size` codes stand for."""
        bits = self.number
        shifts = np.arange(8 - bits, -1, -bits, dtype=np.uint8)
        codes = ((packed[:, None] >> shifts) & (2**bits - 1)).reshape(-1)[:size]
        t = self.threshold
        meaning = [-1.0, 1.0] if bits == 1 else [0.0, 0.0, -t, t]
        found: Array = np.array(meaning, np.float32)[codes]
        return found


def _pack(codes: Array, bits: int) -> Array:
    each = 8 // bits
    room = np.zeros(packed_size(bits, codes.size) * each, np.uint8)
    room[: codes.size] = codes
    shifts = np.arange(8 - bits, -1, -bits, dtype=np.uint8)
    packed: Array = (room.reshape(-1, each) << shifts).sum(1, dtype=np.uint8)
    return packed


def packed_size(number: int, size: int) -> int:
    """Bytes of `size` codes: whole words of four bytes.

    >>> packed_size(2, 17), packed_size(1, 32)
    (8, 4)
    """
    each = 32 // number
    return -(-size // each) * 4


class Packed(NamedTuple):
    """An array in codes."""

    codec: Codec
    data: Array


def merge(pieces: Sequence[Array | Packed], out: Array) -> Array:
    """`out` itself, filled with the sum of `pieces`, added from left to right.

    Args:
        pieces: one or more arrays of the size of `out`, or their codes (`out` is float32 then).

    >>> merge([np.ones(3, np.int32), np.arange(3, dtype=np.int32)], np.empty(3, np.int32)).tolist()
    [1, 2, 3]
    """
    if core is not None:
        packed = [piece if isinstance(piece, Packed) else None for piece in pieces]
        arrays = [piece.data if isinstance(piece, Packed) else piece for piece in pieces]
        kinds = [0 if piece is None else piece.codec.number for piece in packed]
        thresholds = [0.0 if piece is None else piece.codec.threshold for piece in packed]
        if core.kv_merge(out, arrays, kinds, thresholds):
            return out
    plain = [
        piece.codec.expand(piece.data, out.size).reshape(out.shape)
        if isinstance(piece, Packed) else piece for piece in pieces
    ]
    np.copyto(out, plain[0])
    for piece in plain[1:]:
        np.add(out, piece, out=out, casting="unsafe")
    return out


class Residuals:
    """What codes have left out so far, for each key (and device) of a store."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.raw_bytes = self.sent_bytes = 0
        self._rest: dict[Any, Array] = {}

    @classmethod
    def by(cls, codec: Codec, before: Residuals | None) -> Residuals:
        """For this codec from now on, with what is left of those before."""
        if before is None:
            return cls(codec)
        before.codec = codec
        return before

    def quantize(
        self, place: Any, grad: Array, start: int = 0, whole: int = -1, out: Array | None = None
    ) -> Array:
        """The codes of a gradient, or of a part of one.

        Args:
            place: says which residual is its own.
            grad: a dense float32 array.
            start, whole: where the part begins in a flat array of `whole` elements.
            out: as in `Codec.quantize`.
        """
        rest = self._rest.get(place)
        if rest is None:
            rest = self._rest[place] = np.zeros(max(grad.size, whole), np.float32)
        codes = self.codec.quantize(grad, rest[start : start + grad.size], out)
        self.raw_bytes += grad.nbytes
        self.sent_bytes += codes.nbytes
        return codes


def codec_of(params: Any) -> Codec:
    """The codec that ``set_gradient_compression(params)`` asks for.

    Args:
        params: {'type': '2bit' or '1bit', 'threshold': number, 0.5 by default}.

    >>> codec_of({"type": "2bit", "threshold": 0.25})
    Codec(number=2, threshold=0.25)
    """
    if not isinstance(params, dict):
        raise ArgumentError(f"gradient compression: expected a dict, got {params!r}")
    if "type" not in params:
        raise KVStoreError(
            f"gradient compression: expected a dict with 'type', got {params!r}; for example "
            "{'type': '2bit', 'threshold': 0.5}"
        )
    name = params["type"]
    if name not in CODECS[1:]:
        raise KVStoreError(
            f"gradient compression: unknown type {name!r}{did_you_mean(str(name), CODECS[1:])} "
            "(known: 1bit, 2bit)"
        )
    number = CODECS.index(name)
    given = params.get("threshold", 0.5)
    try:
        threshold = float(given)
    except (TypeError, ValueError):
        threshold = math.nan
    if not _FROM[number] < threshold < math.inf:
        wanted = "a positive number" if number == 2 else "a number"
        raise KVStoreError(f"gradient compression: threshold: expected {wanted}, got {given!r}")
    return Codec(number, float(np.float32(threshold)))
