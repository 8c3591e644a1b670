"""Operator attributes: each annotation of a keyword-only parameter parses and checks one value.

Values come from Python (``kernel=(3, 3)``) or as text from a symbol file (``"(3, 3)"``);
both end as the same plain Python value, so that attributes can be compared and hashed.
"""
from __future__ import annotations

import ast
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, Union

import numpy as np

from ..base import ArgumentValueError, DTypeError, dtype_name

__all__ = ["Axes", "DType", "Floats", "Key", "Scalar", "Shape", "attr_key", "attr_text",
           "parser_for"]

# Annotation words for operator bodies. To a type checker they are what the body receives.
Shape = tuple[int, ...]
Floats = tuple[float, ...]
Axes = typing.Union[int, tuple[int, ...], None]  # noqa: UP007 - one form on every Python


class DType(str):
    """Annotation: an element type, received by the body as its name ('float32')."""


class Key:
    """Annotation: what stands in ``x[key]``; its text is Python's own."""


class Scalar(float):
    """Annotation: a Python number kept as it is (int stays int)."""


Parser = Callable[[Any], Any]


def _literal(value: Any) -> Any:
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        return ast.literal_eval(text)
    return value


def _parse_int(value: Any) -> int:
    if type(value) is int:
        return value
    value = _literal(value)
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iu":
        return int(value.reshape(()))
    raise ValueError


def _parse_float(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, str):
        return float(value)
    if isinstance(value, (int, float, np.generic)):
        return float(value)
    if hasattr(value, "asscalar"):
        return float(value.asscalar())
    raise ValueError


def _parse_scalar(value: Any) -> Any:
    if type(value) in (int, float):
        return value
    if isinstance(value, str):
        number = float(value)
        return int(value) if value.strip().lstrip("+-").isdigit() else number
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (int, float)):
        return value
    raise ValueError


def _parse_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    value = _literal(value)
    if isinstance(value, (bool, np.bool_)) or value in (0, 1):
        return bool(value)
    raise ValueError


def _parse_shape(value: Any) -> tuple[int, ...]:
    if type(value) is not tuple:
        value = _literal(value)
    if isinstance(value, (int, np.integer)):
        return (int(value),)
    return tuple(_parse_int(item) for item in value)


def _parse_floats(value: Any) -> tuple[float, ...]:
    value = _literal(value) if isinstance(value, str) else value
    if isinstance(value, (int, float, np.generic)):
        return (float(value),)
    return tuple(_parse_float(item) for item in value)


def _parse_axes(value: Any) -> int | tuple[int, ...] | None:
    value = _literal(value) if isinstance(value, str) else value
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return tuple(_parse_int(item) for item in value)
    return _parse_int(value)


def _parse_tuple(value: Any) -> tuple[Any, ...]:
    value = _literal(value) if isinstance(value, str) else value
    return (value,) if isinstance(value, (int, float, np.generic)) else tuple(value)


def _parse_str(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValueError


def _key_part(node: ast.AST) -> Any:
    if isinstance(node, ast.Tuple):
        return tuple(_key_part(part) for part in node.elts)
    if isinstance(node, ast.Name) and node.id == "Ellipsis":
        return ...
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "slice":
        return slice(*[_key_part(part) for part in node.args])
    assert isinstance(node, ast.expr)
    return ast.literal_eval(node)


def _parse_key(value: Any) -> Any:
    return _key_part(ast.parse(value, mode="eval").body) if isinstance(value, str) else value


def _parse_any(value: Any) -> Any:
    return value


_PLAIN: dict[Any, tuple[Parser, str]] = {
    int: (_parse_int, "an integer"),
    float: (_parse_float, "a number"),
    Scalar: (_parse_scalar, "a number"),
    bool: (_parse_bool, "True or False"),
    str: (_parse_str, "a string"),
    DType: (dtype_name, "an element type"),
    Shape: (_parse_shape, "a tuple of integers"),
    Floats: (_parse_floats, "a tuple of numbers"),
    Axes: (_parse_axes, "an axis, a tuple of axes, or None"),
    tuple: (_parse_tuple, "a tuple"),
    Key: (_parse_key, "an index: integers, slices, None, Ellipsis, lists of integers"),
    Any: (_parse_any, "any value"),
}


def _unchecked(annotation: Any) -> tuple[Parser, str]:
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        options = args

        def parse_literal(value: Any) -> Any:
            if value in options:
                return value
            raise ValueError

        return parse_literal, "one of " + ", ".join(repr(option) for option in options)
    if origin in (Union, types.UnionType) and type(None) in args:
        rest = tuple(arg for arg in args if arg is not type(None))
        inner, words = _unchecked(rest[0] if len(rest) == 1 else Union[rest])  # noqa: UP007

        def parse_optional(value: Any) -> Any:
            return None if value is None or value == "None" else inner(value)

        return parse_optional, words + " or None"
    raise TypeError(f"no parser for attribute annotation {annotation!r}")


def parser_for(op_name: str, attr_name: str, annotation: Any) -> Parser:
    """The function that turns a given value into the attribute's value or raises a clear error."""
    inner, words = _unchecked(annotation)

    def parse(value: Any) -> Any:
        try:
            return inner(value)
        except DTypeError as error:
            raise DTypeError(f"{op_name}: {attr_name}: {error}") from None
        except (ValueError, TypeError, SyntaxError, AttributeError):
            raise ArgumentValueError(
                f"{op_name}: {attr_name}: expected {words}, got {value!r}"
            ) from None

    return parse


def attr_text(value: Any) -> str:
    """How a value stands in a symbol's attributes and in JSON: plain text, '(3, 3)' or 'True'."""
    return str(value)


def attr_key(attrs: dict[str, Any]) -> tuple[Any, ...]:
    """A hashable identity of complete attributes, for caches and common subexpressions."""
    return tuple(sorted(attrs.items(), key=lambda item: item[0]))
