"""Symbols that follow NumPy: what hybridized blocks compute with while ``npx.set_np`` is on."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .. import symbol as _sym
from ..base import ArgumentError
from ..ndarray import NDArray
from ..ndarray.index import index_key
from ..symbol import Symbol
from .array import shape_asked
from .elementwise import binary, compare, floor_divide

__all__ = ["SymbolicArray", "attach"]


class SymbolicArray(Symbol):
    """A Symbol with the methods, operators and indexing of ``np.ndarray``.

    A block then means the same eager and hybridized. What is computed of such Symbols is of this
    class, too. Of several outputs, an index picks one; the one output there is, it cuts.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Symbol]:
        return (SymbolicArray([entry]) for entry in self.entries)

    def __getitem__(self, index: Any) -> Symbol:
        """A part of the array, by integers, slices, None and Ellipsis; or one of the outputs."""
        if len(self.entries) > 1 or isinstance(index, str):
            return SymbolicArray(super().__getitem__(index).entries)
        parts = index if isinstance(index, tuple) else (index,)
        key, basic = (None, False) if any(isinstance(part, Symbol) for part in parts) else (
            index_key(index, truths=True))
        if not basic:
            raise ArgumentError(
                f"x[{index!r}]: in a hybridized block an index holds integers, slices, None and "
                "...; use np.take or npx.pick for places that are computed, np.where for masks")
        return _sym._getitem(self, key=key, scalars=True)  # type: ignore[attr-defined, no-any-return]

    __hash__ = Symbol.__hash__

    def __getattr__(self, name: str) -> Any:
        more = (": it is known when the block runs; infer_shape tells it where inputs' shapes are "
                "given" if name in ("shape", "ndim", "size") else "")
        raise AttributeError(f"a Symbol has no {name}{more}")

    def as_np_ndarray(self) -> Symbol:
        """The Symbol itself."""
        return self

    def as_nd_ndarray(self) -> Symbol:
        """The same computation as a Symbol that follows ``mx.nd``."""
        return Symbol(self.entries)

    def copy(self, order: str = "C") -> Any:
        """The same values."""
        return _sym._copy(self)  # type: ignore[attr-defined]

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
               copy: bool = True) -> Any:
        """The array with another element type."""
        return super().astype(dtype)  # type: ignore[misc]


def attach(functions: Mapping[str, Callable[..., Any]], methods: Mapping[str, Any]) -> None:
    """Give the class `methods`, Python's operators, and what NumPy spells in its own way."""
    cls: Any = SymbolicArray
    for name, method in methods.items():
        if name not in vars(cls):
            setattr(cls, name, method)

    def reshape(self: Any, *shape: Any, order: str = "C", **given: Any) -> Any:
        """The same elements in another shape, of which one size may be -1."""
        return functions["reshape"](self, shape_asked(shape, given), order=order)

    cls.reshape = reshape
    cls.flatten = lambda self, order="C": functions["reshape"](self, -1, order=order)
    for name, word in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"),
                       ("truediv", "divide"), ("mod", "modulo"), ("pow", "power")):
        setattr(cls, f"__{name}__", _operator(binary, word, False))
        setattr(cls, f"__r{name}__", _operator(binary, word, True))
    for name, word in (("gt", "greater"), ("ge", "greater_equal"), ("lt", "lesser"),
                       ("le", "lesser_equal"), ("eq", "equal"), ("ne", "not_equal")):
        setattr(cls, f"__{name}__", _operator(compare, word, False, name == "ne"))
    cls.__floordiv__ = lambda self, other: floor_divide(self, other)
    cls.__rfloordiv__ = lambda self, other: floor_divide(other, self)
    cls.__matmul__ = lambda self, other: functions["matmul"](self, other)
    cls.__rmatmul__ = lambda self, other: functions["matmul"](other, self)
    _sym.enter_numpy_class(cls)


def _operator(compute: Callable[..., Any], word: str, reflected: bool, unlike: bool = False) -> Any:
    def method(self: Any, other: Any) -> Any:
        if other is None and compute is compare and word in ("equal", "not_equal"):
            return unlike  # `x == None` is asked by code that tests for missing inputs
        if isinstance(other, NDArray):
            raise ArgumentError(
                f"{word}: an array of values in the graph of a hybridized block; make it a "
                "Parameter or an input, or use np.full_like, np.zeros_like and such")
        if not isinstance(other, (Symbol, int, float)) and not hasattr(other, "dtype"):
            return NotImplemented
        return compute(word, other, self) if reflected else compute(word, self, other)

    return method
