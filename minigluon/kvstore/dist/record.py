"""Classes that are a list of fields, as dataclasses are, but cheap to make.

`dataclasses` writes and compiles up to eight functions for each class: half a millisecond, for the
eighty classes of this room, in every process of a job. Here one set of functions serves them all.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform
else:
    def dataclass_transform(**_: Any) -> Any:
        """Tells type checkers that what derives from a class has fields."""
        return lambda cls: cls

__all__ = ["Record", "field"]

_T = TypeVar("_T")


class _Factory:
    """A default that is made anew for each record."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], _T]) -> _T:
    """The default of a field that each record has one of its own of: an empty list, ..."""
    return _Factory(default_factory)  # type: ignore[return-value]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record:
    """What is annotated in a class that derives from it is a field; those of its base come first.

    Fields are given by position or by name and do not change afterwards; two records of one class
    are equal where all fields are. ``class X(Record, frozen=False)``: they may change, and a record
    equals itself alone.

    Attributes:
        fields: their names, in order.
        silent: of these, the ones that are neither compared nor shown.

    >>> class Point(Record):
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(x=1, y=0), Point(1).changed(y=5)
    (Point(x=1, y=0), True, Point(x=1, y=5))
    """

    fields: ClassVar[tuple[str, ...]] = ()
    silent: ClassVar[frozenset[str]] = frozenset()
    _count: ClassVar[int] = 0
    _defaults: ClassVar[dict[str, Any]] = {}
    _required: ClassVar[frozenset[str]] = frozenset()
    _made: ClassVar[dict[str, Callable[[], Any]]] = {}  # what a record has one of its own of

    def __init_subclass__(cls, frozen: bool = True) -> None:
        own = [name for name, kind in cls.__annotations__.items() if not kind.startswith("Class")]
        defaults = {name: cls.__dict__[name] for name in own if name in cls.__dict__}
        made = {name: default.make for name, default in defaults.items()
                if isinstance(default, _Factory)}
        cls.fields = tuple(dict.fromkeys((*cls.fields, *own)))
        cls._count = len(cls.fields)
        cls._defaults = {**cls._defaults, **defaults}
        cls._required = frozenset(cls.fields) - cls._defaults.keys()
        cls._made = {**cls._made, **made}
        if not frozen:
            cls.__setattr__ = object.__setattr__  # type: ignore[assignment]
            cls.__eq__ = object.__eq__  # type: ignore[method-assign]
            cls.__hash__ = object.__hash__  # type: ignore[method-assign]

    def __init__(self, *args: Any, **named: Any) -> None:
        values = self.__dict__
        count = self._count
        if len(args) < count:
            values.update(self._defaults)
            if self._made:
                for name, make in self._made.items():
                    values[name] = make()
        if args:
            values.update(zip(self.fields, args))  # noqa: B905 - what is too much is seen below
        if named:
            values.update(named)
            if args and not named.keys().isdisjoint(self.fields[:len(args)]):
                self._complain(args, named)
            if self._required and not values.keys() >= self._required:
                self._complain(args, named)
        if len(values) != count or len(args) > count:
            self._complain(args, named)

    def _complain(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        unknown = [name for name in named if name not in self.fields]
        twice = [name for name in self.fields[:len(args)] if name in named]
        missing = [name for name in self.fields if name not in self.__dict__]
        raise TypeError(
            f"{type(self).__name__}: expected the fields {', '.join(self.fields)}; "
            f"got {len(args)} by position, {', '.join(named) or 'none'} by name"
            + (f"; unknown: {', '.join(unknown)}" if unknown else "")
            + (f"; given twice: {', '.join(twice)}" if twice else "")
            + (f"; missing: {', '.join(missing)}" if missing else ""))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}: a field is not changed ('{name}')")

    def _compared(self) -> list[Any]:
        values = self.__dict__
        return [values[name] for name in self.fields if name not in self.silent]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(tuple(self._compared()))

    def __repr__(self) -> str:
        shown = (f"{name}={self.__dict__[name]!r}" for name in self.fields
                 if name not in self.silent)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def changed(self, **named: Any) -> Self:
        """A copy with these fields."""
        return type(self)(**{**self.__dict__, **named})
