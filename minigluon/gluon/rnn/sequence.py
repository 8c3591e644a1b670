"""Sequences: as a list with one array for each step, or as one array with an axis of time."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ndarray as nd
from ... import symbol
from ...base import ParameterMismatch
from ...ndarray import NDArray
from ...symbol import Symbol

__all__ = ["axis_of_time", "face_of", "in_style", "last_valid", "masked", "merged",
           "reversed_steps", "split"]


def face_of(value: Any) -> Any:
    """``mx.nd`` or ``mx.sym``, whichever the arrays in `value` belong to."""
    while isinstance(value, (list, tuple)):
        value = value[0]
    return symbol if isinstance(value, Symbol) else nd


def axis_of_time(layout: str) -> int:
    """The place of T.

    >>> axis_of_time("NTC"), axis_of_time("TNC")
    (1, 0)
    """
    if "T" not in layout or "N" not in layout:
        raise ParameterMismatch(f"layout: expected 'NTC' or 'TNC', got {layout!r}")
    return layout.index("T")


def split(length: int | None, inputs: Any, axis: int) -> list[Any]:
    """The steps of a sequence in either form; `length` of them.

    >>> import minigluon as mx
    >>> [step.shape for step in split(2, mx.nd.ones((3, 2, 4)), axis=1)]
    [(3, 4), (3, 4)]
    """
    if isinstance(inputs, (list, tuple)):
        return _of_length(length, list(inputs))
    if isinstance(inputs, Symbol):
        if len(inputs) != 1:
            raise ParameterMismatch(
                "unroll doesn't allow grouped symbol as input. Please convert to list with "
                "list(inputs) first or let unroll handle splitting.")
        if length is None:
            raise ParameterMismatch("length: needed to split a Symbol into steps")
        return list(symbol.split(  # type: ignore[attr-defined]
            inputs, axis=axis, num_outputs=length, squeeze_axis=True))
    steps = inputs.shape[axis]
    if length is not None and length != steps:
        raise ParameterMismatch(f"unroll: expected {length} steps on axis {axis} of the inputs, "
                                f"got shape {inputs.shape}")
    found = nd.split(  # type: ignore[attr-defined]
        inputs, axis=axis, num_outputs=steps, squeeze_axis=True)
    return [found] if isinstance(found, NDArray) else found


def _of_length(length: int | None, steps: list[Any]) -> list[Any]:
    if length is not None and length != len(steps):
        raise ParameterMismatch(f"unroll: expected {length} steps, got a list of {len(steps)}")
    return steps


def merged(steps: Any, axis: int) -> Any:
    """One array of a sequence in either form."""
    if not isinstance(steps, (list, tuple)):
        return steps
    return face_of(steps).stack(*steps, axis=axis)


def in_style(length: int | None, outputs: Any, axis: int, merge: bool | None) -> Any:
    """A sequence as one array (`merge` True), as a list (False), or as it is (None)."""
    if merge is None:
        return outputs
    return merged(outputs, axis) if merge else split(length, outputs, axis)


def masked(outputs: Any, valid_length: Any, axis: int) -> Any:
    """One array in which the steps from `valid_length` on are 0."""
    whole = merged(outputs, axis)
    return face_of(whole).SequenceMask(whole, sequence_length=valid_length,
                                       use_sequence_length=True, axis=axis)


def last_valid(states: Sequence[Sequence[Any]], valid_length: Any) -> list[Any]:
    """Of the states after each step, those after the last step that is no padding."""
    F = face_of(valid_length)
    return [F.SequenceLast(F.stack(*steps, axis=0), sequence_length=valid_length,
                           use_sequence_length=True, axis=0)
            for steps in zip(*states, strict=True)]


def reversed_steps(steps: Sequence[Any], valid_length: Any) -> list[Any]:
    """The steps from the last to the first; padding stays at the end."""
    if valid_length is None:
        return list(reversed(steps))
    F = face_of(valid_length)
    turned = F.SequenceReverse(F.stack(*steps, axis=0), sequence_length=valid_length,
                               use_sequence_length=True)
    return split(len(steps), turned, 0)
