"""Functions that register, alias and create classes of one kind by name (mxnet.registry).

>>> class Pet: ...
>>> register, create = get_register_func(Pet, "pet"), get_create_func(Pet, "pet")
>>> @register
... class Cat(Pet): ...
>>> type(create("cat")).__name__
'Cat'
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import ArgumentError, Registry

__all__ = ["get_alias_func", "get_create_func", "get_register_func", "get_registry"]

_kinds: dict[type, Registry] = {}


def _registry(base_class: type, nickname: str) -> Registry:
    if not isinstance(base_class, type):
        raise ArgumentError(f"registry: expected a class, got {base_class!r}")
    return _kinds.setdefault(base_class, Registry(nickname, base_class))


def get_registry(base_class: type) -> dict[str, Any]:
    """A copy of what is registered for a base class: classes by lower-case name."""
    return dict(_registry(base_class, base_class.__name__.lower()).entries)


def get_register_func(base_class: type, nickname: str) -> Callable[..., type]:
    """``register(cls, name=None)``; `nickname` names the kind in messages."""
    found = _registry(base_class, nickname)

    def register(klass: type, name: str | None = None) -> type:
        if not (isinstance(klass, type) and issubclass(klass, base_class)):
            raise ArgumentError(
                f"register: expected a subclass of {base_class.__name__}, got {klass!r}")
        return found.register(klass, *([name] if name else []))

    register.__doc__ = f"Enter a {nickname} class under its own name or `name`."
    return register


def get_alias_func(base_class: type, nickname: str) -> Callable[..., Callable[[type], type]]:
    """``alias(*names)``: a decorator that enters a class under each of the names."""
    register = get_register_func(base_class, nickname)

    def alias(*aliases: str) -> Callable[[type], type]:
        def enter(klass: type) -> type:
            for name in aliases:
                register(klass, name)
            return klass

        return enter

    alias.__doc__ = f"A decorator that enters a {nickname} class under each of the names."
    return alias


def get_create_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """``create(name or instance, ...)``, also from JSON ``["name", {settings}]``."""
    found = _registry(base_class, nickname)

    def create(*args: Any, **kwargs: Any) -> Any:
        if not args and nickname in kwargs:
            args = (kwargs.pop(nickname),)
        if not args:
            raise ArgumentError(f"create: expected the name of a {nickname}")
        return found.create(*args, **kwargs)

    create.__doc__ = f"A {nickname} by its name and settings."
    return create
