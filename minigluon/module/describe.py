"""Names and shapes of a module's inputs: read, checked, compared."""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..base import ArgumentValueError
from ..io import DataDesc
from ..symbol import Symbol

__all__ = ["as_list", "check_input_names", "descriptions", "parse_data_desc"]

_PARAMETER_ENDINGS = ("_weight", "_bias", "_gamma", "_beta")


def as_list(value: Any) -> list[Any]:
    """A list, whatever comes: None gives [], one thing [thing]."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def check_input_names(symbol: Symbol, names: Sequence[str], typename: str, throw: bool) -> None:
    """Complain about input names that are no arguments of the symbol.

    Args:
        symbol: the network.
        names: what the module calls its inputs.
        typename: 'data', 'label', 'state' or 'fixed_param', for the message.
        throw: raise; otherwise warn.
    """
    arguments = symbol.list_arguments()
    for name in names:
        if name in arguments:
            continue
        inputs = [each for each in arguments if not each.endswith(_PARAMETER_ENDINGS)]
        text = (f"You created Module with Module(..., {typename}_names={list(names)}) but input "
                f"with name '{name}' is not found in symbol.list_arguments(). Did you mean one "
                f"of: {', '.join(inputs)}")
        if throw:
            raise ArgumentValueError(text)
        warnings.warn(text, stacklevel=3)


def descriptions(shapes: Any) -> list[DataDesc]:
    """DataDescs from those of an iterator, or from (name, shape) pairs."""
    return [each if isinstance(each, DataDesc) else DataDesc(*each) for each in shapes or ()]


def parse_data_desc(data_names: Sequence[str], label_names: Sequence[str], data_shapes: Any,
                    label_shapes: Any) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Descriptions of data and labels, in the order given: that of the arrays in a batch."""
    data = descriptions(data_shapes)
    _check_match(data_names, data, "data", True)
    labels = None if label_shapes is None else descriptions(label_shapes)
    _check_match(label_names, labels or [], "label", False)
    return data, labels


def _check_match(names: Sequence[str], found: list[DataDesc], word: str, throw: bool) -> None:
    if sorted(names) != sorted(each.name for each in found):
        text = (f"Data provided by {word}_shapes don't match names specified by {word}_names "
                f"({found} vs. {list(names)})")
        if throw:
            raise ArgumentValueError(text)
        if found:
            warnings.warn(text, stacklevel=5)
