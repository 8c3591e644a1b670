"""Errors, environment settings, and the create-by-name registry: what every room may use.

The error tree (each is also the built-in class a Python user would catch)::

    MXNetError(RuntimeError)
      ShapeError(ValueError)            shapes that do not fit
      DTypeError(TypeError)             element types that do not fit
      ArgumentError(TypeError, AssertionError)        unknown, missing or unfit arguments
      ArgumentValueError(ValueError, AssertionError)  an argument with a value that is not allowed
      OutOfRangeError(IndexError)       an index beyond the end of an axis
      FileError(OSError)                a file that cannot be read or written
        FileMissingError(FileNotFoundError)
      NotForThisError(NotImplementedError)   something that is not built yet, by name
        NotImplementedForSymbol       something that only arrays can do, not symbols
      GradientError                     backward on something that was not recorded
      DeferredInitializationError       a parameter whose shape is not known yet
      ParameterMismatch(AssertionError, ValueError)   a value or a file that does not fit parameters
      KVStoreError                      anything a key-value store reports
        KVStoreTimeout(TimeoutError)    a wait that reached its limit
        PeerLost(ConnectionError)       a role of the job that died or left
        AuthenticationError(PermissionError)   a peer that does not know the job token

MXNet's Python checks many arguments with ``assert``, and code written for it catches that; hence
AssertionError beside the class that says more.
"""
from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

__all__ = [
    "ArgumentError",
    "ArgumentValueError",
    "AuthenticationError",
    "DTypeError",
    "DeferredInitializationError",
    "FileError",
    "FileMissingError",
    "GradientError",
    "KVStoreError",
    "KVStoreTimeout",
    "MXNetError",
    "NotForThisError",
    "NotImplementedForSymbol",
    "NotSupportedForSparseNDArray",
    "OutOfRangeError",
    "ParameterMismatch",
    "PeerLost",
    "Registry",
    "ShapeError",
    "c_array",
    "c_str",
    "c_str_array",
    "check_call",
    "classproperty",
    "data_dir",
    "did_you_mean",
    "dtype_name",
    "env_bool",
    "env_float",
    "env_int",
    "integer_types",
    "mx_float",
    "mx_int",
    "mx_real_t",
    "mx_uint",
    "numeric_types",
    "py_str",
    "string_types",
    "uncollected",
    "with_metaclass",
]

string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)
mx_real_t = np.float32  # the element type of arrays that nobody gave another
mx_uint, mx_int, mx_float = ctypes.c_uint, ctypes.c_int, ctypes.c_float


class MXNetError(RuntimeError):
    """Any error that minigluon raises on purpose; the name Gluon code catches.

    Attributes:
        late: only running the operator could tell: raised when the result is read, not at the
            call (see ``device/engine.py``).
    """

    late = False

    def at_run_time(self) -> MXNetError:
        """This error, raised late."""
        self.late = True
        return self


class ShapeError(MXNetError, ValueError):
    """Shapes that do not fit together."""


class DTypeError(MXNetError, TypeError):
    """Element types that do not fit together."""


class ArgumentError(MXNetError, TypeError, AssertionError):
    """An argument that the operator does not know, or a required one that is missing."""


class ArgumentValueError(MXNetError, ValueError, AssertionError):
    """An argument whose value is not allowed."""


class OutOfRangeError(MXNetError, IndexError):
    """An index beyond the end of an axis."""


class FileError(MXNetError, OSError):
    """A file cannot be read or written; errno and filename say more."""

    def __str__(self) -> str:
        return str(self.args[0])


class FileMissingError(FileError, FileNotFoundError):
    """There is no such file."""


class NotForThisError(MXNetError, NotImplementedError):
    """A feature that minigluon does not have (yet), or that this object cannot do; names it."""


class NotSupportedForSparseNDArray(NotForThisError):
    """Something that dense arrays can do and sparse ones cannot."""


class NotImplementedForSymbol(NotForThisError):
    """Something that needs values, asked of a Symbol."""


class GradientError(MXNetError):
    """A gradient that cannot be computed, with the reason."""


class DeferredInitializationError(MXNetError):
    """A parameter is asked for before its shape could be inferred."""


class ParameterMismatch(MXNetError, AssertionError, ValueError):
    """A value, a setting or a file that does not fit the parameters it is meant for."""


class KVStoreError(MXNetError):
    """A key-value store cannot do what it was asked."""


class KVStoreTimeout(KVStoreError, TimeoutError):
    """A wait of a distributed job reached its limit."""


class PeerLost(KVStoreError, ConnectionError):
    """Another role of the job died, left, or cannot be reached."""


class AuthenticationError(KVStoreError, PermissionError):
    """A peer that does not know the job token."""


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """A sentence ``; did you mean 'x'?`` for the closest option, or an empty string.

    >>> did_you_mean("kernal", ["kernel", "stride"])
    "; did you mean 'kernel'?"
    """
    import difflib  # only errors ask for it

    by_lower = {option.lower(): option for option in options}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean '{by_lower[close[0]]}'?" if close else ""


def _env(name: str, default: Any, parse: Callable[[str], Any], kind: str) -> Any:
    text = os.environ.get(name)
    if text is None or text == "":
        return default
    try:
        return parse(text)
    except ValueError:
        raise ArgumentValueError(
            f"environment variable {name}: expected {kind}, got {text!r}; "
            f"unset it to use the default {default!r}"
        ) from None


def env_int(name: str, default: int) -> int:
    """The integer in environment variable `name`; a value that is none is an error."""
    return int(_env(name, default, int, "an integer"))


def env_float(name: str, default: float) -> float:
    """The number in environment variable `name`; a value that is none is an error."""
    return float(_env(name, default, float, "a number"))


def env_bool(name: str, default: bool) -> bool:
    """The truth of environment variable `name`: 1/true/on/yes or 0/false/off/no."""

    def parse(text: str) -> bool:
        lowered = text.strip().lower()
        if lowered in ("1", "true", "on", "yes"):
            return True
        if lowered in ("0", "false", "off", "no"):
            return False
        raise ValueError(text)

    return bool(_env(name, default, parse, "a truth value (1 or 0)"))


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Around imports: the garbage collector rests, and what they made counts as old after them.

    Modules are no garbage, and to look them through again and again as they grow takes a fifth of
    the time that importing takes.

    >>> with uncollected():
    ...     gc.isenabled()
    False
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # else a user's frozen objects would thaw
            gc.freeze()
            gc.unfreeze()  # what was frozen is in the oldest generation now, not looked through
        gc.enable()


def data_dir() -> str:
    """Where datasets and weights are kept: environment variable MXNET_HOME, or ~/.mxnet."""
    return os.path.expanduser(os.environ.get("MXNET_HOME") or os.path.join("~", ".mxnet"))


_DTYPE_NAMES: dict[Any, str] = {}


def dtype_name(dtype: Any) -> str:
    """The plain name of an element type: np.float32, 'float32', dtype('<f4') -> 'float32'.

    Only real numbers and bool of up to 8 bytes are element types here. An array stands for its own.

    >>> dtype_name(np.float32), dtype_name("int"), dtype_name(bool), dtype_name(np.ones(1))
    ('float32', 'int64', 'bool', 'float64')
    """
    if not isinstance(dtype, (type, str, np.dtype)) and hasattr(dtype, "dtype"):
        dtype = dtype.dtype
    try:
        known: str = _DTYPE_NAMES[dtype]
        return known
    except KeyError:
        pass
    except TypeError:
        raise DTypeError(f"dtype: expected a NumPy type or its name, got {dtype!r}") from None
    try:
        found = np.dtype(dtype)
    except TypeError as error:
        raise DTypeError(f"dtype: expected a NumPy type or its name, got {dtype!r}") from error
    if dtype is None or found.kind not in "biuf" or found.itemsize > 8:
        raise DTypeError(f"dtype: expected a type of real numbers of up to 8 bytes, got {dtype!r}")
    name = str(found.name)
    _DTYPE_NAMES[dtype] = name
    return name


_T = TypeVar("_T")


class Registry:
    """Classes by lower-case name; ``create`` takes a name, a JSON string, or an instance.

    Args:
        kind: what is registered, for messages ("optimizer").
        base: the class every entry derives from.

    >>> pets = Registry("pet", object)
    >>> class Cat: ...
    >>> _ = pets.register(Cat)
    >>> type(pets.create("cat")).__name__
    'Cat'
    """

    def __init__(self, kind: str, base: type) -> None:
        self.kind = kind
        self.base = base
        self.entries: dict[str, Any] = {}

    def register(self, cls: type[_T], *names: str) -> type[_T]:
        """Enter `cls` under its own name (lower case) and further `names`."""
        for name in names or (cls.__name__,):
            self.entries[name.lower()] = cls
        return cls

    def alias(self, *names: str) -> Callable[[type[_T]], type[_T]]:
        """Decorator: enter the class under its own name and `names`."""

        def enter(cls: type[_T]) -> type[_T]:
            return self.register(cls, cls.__name__, *names)

        return enter

    def find(self, name: str) -> Any:
        """The class called `name` (any case); ValueError with a suggestion otherwise."""
        try:
            return self.entries[name.lower()]
        except KeyError:
            raise ArgumentValueError(
                f"unknown {self.kind} '{name}'{did_you_mean(name, self.entries)} "
                f"(known: {', '.join(sorted(self.entries))})"
            ) from None

    def create(self, spec: Any, *args: Any, **kwargs: Any) -> Any:
        """An instance from a name, a JSON ``["name", {settings}]``, or an instance itself."""
        if isinstance(spec, self.base) and not isinstance(spec, str):
            if args or kwargs:
                raise ArgumentError(
                    f"{self.kind}: settings given beside a finished instance: "
                    f"{list(args) + sorted(kwargs)}; set them on the instance"
                )
            return spec
        if not isinstance(spec, str):
            raise ArgumentError(
                f"{self.kind}: expected a name or a {self.base.__name__}, got {spec!r}"
            )
        if spec.startswith("["):
            name, settings = json.loads(spec)
            return self.find(name)(**settings)
        return self.find(spec)(*args, **kwargs)


# -- what programs take from mx.base ---------------------------------------------------------------

def py_str(text: bytes) -> str:
    """A text from the bytes of a C string."""
    return text.decode("utf-8")


def c_str(string: str) -> ctypes.c_char_p:
    """A C string with this text."""
    return ctypes.c_char_p(string.encode("utf-8"))


def c_array(ctype: Any, values: Iterable[Any]) -> Any:
    """A C array of `values`.

    >>> list(c_array(ctypes.c_int, [1, 2]))
    [1, 2]
    """
    listed = list(values)
    return (ctype * len(listed))(*listed)


def c_str_array(strings: Iterable[str]) -> Any:
    """A C array of strings."""
    return c_array(ctypes.c_char_p, [string.encode("utf-8") for string in strings])


def check_call(ret: int) -> None:
    """Raise MXNetError unless a C function returned 0."""
    if ret != 0:
        raise MXNetError(f"a call of a C function failed and returned {ret}")


def _as_list(obj: Any) -> list[Any]:
    """A list or tuple as a list; anything else in a list of its own."""
    return list(obj) if isinstance(obj, (list, tuple)) else [obj]


class classproperty:
    """Decorator: a property of the class itself."""

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        self.fget = fget

    def __get__(self, instance: Any, owner: type) -> Any:
        return self.fget(owner)


def with_metaclass(meta: type, *bases: type) -> type:
    """A class to derive from, for a class of metaclass `meta`."""
    made: type = meta("temporary_class", bases or (object,), {})
    return made
