"""Faces: namespaces of callables made from the operator records.

``nd``, ``sym``, the raw F of dispatch and the graph's own F differ only in `call`:
``call(op, args, kwargs)`` says what one call of an operator means there.
"""
from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

from ..base import did_you_mean
from .custom import OpenOperator
from .operator import Operator, registry

__all__ = ["BINARY", "PLAIN", "attach_methods", "function", "methods", "namespace", "subspaces"]

Call = Callable[[Operator, tuple[Any, ...], dict[str, Any]], Any]

_KEYWORD = inspect.Parameter.KEYWORD_ONLY

# word -> (operator for two arrays, for array-scalar, for scalar-array). Used by ``nd.add(x, 2)``,
# ``sym.maximum(1, x)`` and by the Python operators of NDArray and Symbol.
BINARY: dict[str, tuple[str, str, str]] = {
    "add": ("broadcast_add", "_plus_scalar", "_plus_scalar"),
    "subtract": ("broadcast_sub", "_minus_scalar", "_rminus_scalar"),
    "multiply": ("broadcast_mul", "_mul_scalar", "_mul_scalar"),
    "divide": ("broadcast_div", "_div_scalar", "_rdiv_scalar"),
    "modulo": ("broadcast_mod", "_mod_scalar", "_rmod_scalar"),
    "power": ("broadcast_power", "_power_scalar", "_rpower_scalar"),
    "maximum": ("broadcast_maximum", "_maximum_scalar", "_maximum_scalar"),
    "minimum": ("broadcast_minimum", "_minimum_scalar", "_minimum_scalar"),
    "equal": ("broadcast_equal", "_equal_scalar", "_equal_scalar"),
    "not_equal": ("broadcast_not_equal", "_not_equal_scalar", "_not_equal_scalar"),
    "greater": ("broadcast_greater", "_greater_scalar", "_lesser_scalar"),
    "greater_equal": ("broadcast_greater_equal", "_greater_equal_scalar", "_lesser_equal_scalar"),
    "lesser": ("broadcast_lesser", "_lesser_scalar", "_greater_scalar"),
    "lesser_equal": ("broadcast_lesser_equal", "_lesser_equal_scalar", "_greater_equal_scalar"),
    "logical_and": ("broadcast_logical_and", "_logical_and_scalar", "_logical_and_scalar"),
    "logical_or": ("broadcast_logical_or", "_logical_or_scalar", "_logical_or_scalar"),
    "logical_xor": ("broadcast_logical_xor", "_logical_xor_scalar", "_logical_xor_scalar"),
}

# word -> what it means for two numbers; a comparison gives 0 or 1, as for arrays
PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "modulo": operator.mod, "power": operator.pow,
    "maximum": max, "minimum": min, "hypot": math.hypot,
    "equal": lambda a, b: int(a == b), "not_equal": lambda a, b: int(a != b),
    "greater": lambda a, b: int(a > b), "greater_equal": lambda a, b: int(a >= b),
    "lesser": lambda a, b: int(a < b), "lesser_equal": lambda a, b: int(a <= b),
    "logical_and": lambda a, b: int(bool(a and b)),
    "logical_or": lambda a, b: int(bool(a or b)),
    "logical_xor": lambda a, b: int(bool(a) != bool(b)),
}

# prefix of a registry name -> the sub-namespace that also shows it without the prefix
_PREFIXES = {"_random_": "random", "_contrib_": "contrib", "_linalg_": "linalg",
             "_image_": "image", "_sparse_": "sparse"}


def function(
    op: Operator, call: Call, name: str, extra: tuple[str, ...] = ()
) -> Callable[..., Any]:
    """One callable of a face; shows the record's signature and text in ``help()``."""

    def operator_function(*args: Any, **kwargs: Any) -> Any:
        return call(op, args, kwargs)

    if isinstance(op, OpenOperator):
        find = op.concrete

        def operator_function(*args: Any, **kwargs: Any) -> Any:
            return call(find(kwargs), args, kwargs)

    operator_function.__name__ = operator_function.__qualname__ = name
    operator_function.__doc__ = _help(op.body.__doc__ or "")
    operator_function.__signature__ = _shown(op, extra)  # type: ignore[attr-defined]
    operator_function.operator = op  # type: ignore[attr-defined]
    return operator_function


def _help(doc: str) -> str:
    """The text that ``help()`` shows: without examples that call the record's body.

    >>> _help("Double.\\n\\n>>> double.body(np, 2)\\n4")
    'Double.'
    >>> _help("Double.\\n\\n>>> mx.nd.double(2)\\n4") == "Double.\\n\\n>>> mx.nd.double(2)\\n4"
    True
    """
    return doc[:doc.index(">>>")].rstrip() if ".body(" in doc and ">>>" in doc else doc


class _Shown(inspect.Signature):
    """The signature that ``help()`` shows, made when asked for: there are a thousand at import."""

    __slots__ = ("_extra", "_op")

    def __init__(self, op: Operator, extra: tuple[str, ...]) -> None:
        self._op, self._extra = op, extra
        self._return_annotation = self.empty

    @property
    def parameters(self) -> Any:
        """Name -> Parameter, in order."""
        return self._plain().parameters

    def _plain(self) -> inspect.Signature:
        parameters = self._op.public_parameters()
        shown = {parameter.name for parameter in parameters}
        return inspect.Signature([*parameters, *[
            inspect.Parameter(word, _KEYWORD, default=None)
            for word in self._extra if word not in shown]])

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]
        """A plain signature with these changes."""
        return self._plain().replace(**changes)

    __replace__ = replace  # type: ignore[assignment]  # what ``copy.replace`` calls

    def __reduce__(self) -> Any:
        return self._plain().__reduce__()


@cache
def _shown(op: Operator, extra: tuple[str, ...]) -> inspect.Signature:
    """One for all names of an operator."""
    return _Shown(op, extra)


def namespace(call: Call, extra: tuple[str, ...] = (), prefix: str = ""
              ) -> dict[str, Callable[..., Any]]:
    """All operators by every name that begins with `prefix`, as a dict of callables."""
    return {name: function(op, call, name, extra) for name, op in registry.items()
            if name.startswith(prefix)}


class Space(SimpleNamespace):
    """A sub-namespace of a face, such as ``nd.sparse``; says what it does not have."""

    __slots__ = ("_word",)

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word = word

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"there is no operator '{name}' in '{self._word}', or it is not built yet"
            f"{did_you_mean(name, self.__dict__)}"
        )


def subspaces(functions: dict[str, Callable[..., Any]]) -> dict[str, SimpleNamespace]:
    """The sub-namespaces (random, contrib, linalg, image, sparse, _internal) of a face.

    ``_internal`` has the operators whose names begin with an underscore, by these names.
    """
    words = (*_PREFIXES.values(), "_internal")
    spaces: dict[str, SimpleNamespace] = {word: Space(word) for word in words}
    for name, entry in functions.items():
        if name.startswith("_"):
            setattr(spaces["_internal"], name, entry)
        for prefix, word in _PREFIXES.items():
            if name.startswith(prefix):
                setattr(spaces[word], name[len(prefix):], entry)
    return spaces


def methods() -> Iterator[tuple[str, Operator]]:
    """(method name, record) for every operator that arrays and symbols have as a method."""
    seen = set()
    for op in registry.values():
        for name in op.methods:
            if name not in seen:
                seen.add(name)
                yield name, op


def attach_methods(cls: type, call: Call) -> None:
    """Give `cls` the operators' methods; what the class defines itself stays."""
    for name, op in methods():
        if name not in cls.__dict__:
            setattr(cls, name, function(op, call, name))
