"""ParameterDict: parameters by full name, created when first asked for."""
from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentValueError, MXNetError, ParameterMismatch, ShapeError, dtype_name
from ..context import Context
from ..ndarray import NDArray
from ..ops.rules import merge_shapes
from .constant import Constant
from .parameter import UNIFORM, Parameter, shape_of

__all__ = ["ParameterDict", "brief", "named_arrays", "report"]

Contexts = Context | Sequence[Context] | None


def brief(names: Iterable[str], limit: int = 100) -> str:
    """Names for a message, in quotes; a long list loses its middle.

    >>> brief("abcdef", limit=4)
    "'a', 'b', ..., 'e', 'f'"
    """
    quoted = [f"'{name}'" for name in names]
    if len(quoted) > limit:
        half = limit // 2
        quoted = [*quoted[:half], "...", *quoted[-half:]]
    return ", ".join(quoted)


def named_arrays(filename: str) -> dict[str, NDArray]:
    """The arrays of a parameter file by name; an error where they have no names."""
    found = nd.load(filename)
    if isinstance(found, dict):
        return found
    if found:
        raise MXNetError(f"{filename}: its {len(found)} arrays have no names, so it is no "
                         "parameter file; read it with nd.load")
    return {}


def report(filename: str, loaded: int, skipped: Sequence[str], missing: Sequence[str]) -> None:
    """Say what a load did that was allowed to be incomplete; loudly if it did nothing at all."""
    if not skipped and not missing:
        return
    text = (f"{filename}: {loaded} parameters loaded, {len(skipped)} in the file skipped "
            f"({brief(skipped, 6)}), {len(missing)} of the network missing in it "
            f"({brief(missing, 6)})")
    if loaded:
        logging.getLogger(__name__).info(text)
    else:
        warnings.warn(f"Nothing was loaded. {text}", stacklevel=4)


class ParameterDict:
    """Parameters by full name (prefix + name), in order of creation.

    Args:
        prefix: put before every name that `get` is asked for.
        shared: another dict; a parameter that it has is used instead of creating one.

    >>> import minigluon as mx
    >>> params = mx.gluon.ParameterDict("net_")
    >>> params.get("w0", shape=(10, 5))
    Parameter net_w0 (shape=(10, 5), dtype=float32)
    >>> print(params)
    net_ (
      Parameter net_w0 (shape=(10, 5), dtype=float32)
    )
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None) -> None:
        self._prefix = prefix
        self._shared = shared
        self._params: dict[str, Parameter] = {}

    def __repr__(self) -> str:
        name = f"{self._prefix} " if self._prefix else ""
        lines = "\n".join(f"  {parameter!r}" for parameter in self.values())
        return f"{name}(\n{lines}\n)"

    def __getitem__(self, key: str) -> Parameter:
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __bool__(self) -> bool:
        return True  # as in MXNet, where an empty dict has no length; `if params:` asks for None

    def __contains__(self, key: object) -> bool:
        return key in self._params

    def items(self) -> Any:
        """Pairs of full name and parameter."""
        return self._params.items()

    def keys(self) -> Any:
        """Full names."""
        return self._params.keys()

    def values(self) -> Any:
        """Parameters."""
        return self._params.values()

    @property
    def prefix(self) -> str:
        """What `get` puts before names."""
        return self._prefix

    # -- finding and creating -------------------------------------------------------------------

    def _find(self, name: str) -> Parameter | None:
        """The parameter with this full name, here or in the shared dict (then also here)."""
        if name in self._params:
            return self._params[name]
        if self._shared is not None and name in self._shared._params:
            self._params[name] = self._shared._params[name]
            return self._params[name]
        return None

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """The parameter prefix + `name`; created with `kwargs` where there is none.

        One that exists takes over settings it has none of yet; others must agree.
        """
        name = self.prefix + name
        parameter = self._find(name)
        if parameter is None:
            parameter = self._params[name] = Parameter(name, **kwargs)
        else:
            for setting, value in kwargs.items():
                _agree(parameter, setting, value)
        return parameter

    def get_constant(self, name: str, value: Any = None) -> Parameter:
        """The constant prefix + `name`; created with `value` where there is none."""
        name = self.prefix + name
        parameter = self._find(name)
        if parameter is None:
            if value is None:
                raise KeyError(f"No constant named '{name}'. Please specify value if you want to "
                               "create a new constant.")
            parameter = self._params[name] = Constant(name, value)
        elif value is not None:
            if not isinstance(parameter, Constant):
                raise ParameterMismatch(f"Parameter '{name}' already exists but it is not a "
                                        "constant.")
            host = value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)
            if host.shape != parameter.shape or not np.array_equal(host, parameter.value.asnumpy()):
                raise ParameterMismatch(f"Constant '{name}' already exists but its value doesn't "
                                        "match the new value")
        return parameter

    def update(self, other: ParameterDict | Mapping[str, Parameter]) -> None:
        """Take over all parameters of `other`; equal names must be the same parameter."""
        for name, parameter in other.items():
            if self._params.setdefault(name, parameter) is not parameter:
                raise ParameterMismatch("Cannot update self with other because they have different "
                                        f"Parameters with the same name '{name}'")

    # -- all at once ----------------------------------------------------------------------------

    def initialize(self, init: Any = UNIFORM, ctx: Contexts = None,
                   verbose: bool = False, force_reinit: bool = False) -> None:
        """Initialize all; parameters with an initializer of their own use that one."""
        if verbose:
            init.set_verbosity(verbose=verbose)
        for parameter in self.values():
            parameter.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        for parameter in self.values():
            parameter.zero_grad()

    def reset_ctx(self, ctx: Contexts) -> None:
        """Move all to other contexts."""
        for parameter in self.values():
            parameter.reset_ctx(ctx)

    def list_ctx(self) -> list[Context]:
        """Every context that one of them is on."""
        return list(dict.fromkeys(ctx for parameter in self.values()
                                  for ctx in parameter.list_ctx()))

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all: ``params.setattr('grad_req', 'null')``."""
        for parameter in self.values():
            setattr(parameter, name, value)

    # -- files ----------------------------------------------------------------------------------

    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Write all under their full names, less `strip_prefix`."""
        arrays = {}
        for parameter in self.values():
            if not parameter.name.startswith(strip_prefix):
                raise ArgumentValueError(
                    f"Prefix '{strip_prefix}' is to be stripped before saving, but Parameter's "
                    f"name '{parameter.name}' does not start with it: it may be shared from "
                    "another Block, or its Block was created outside 'with name_scope()'. "
                    "save_parameters does without prefixes.")
            arrays[parameter.name[len(strip_prefix):]] = parameter._reduce()
        nd.save(filename, arrays)

    def load(self, filename: str, ctx: Contexts = None, allow_missing: bool = False,
             ignore_extra: bool = False, restore_prefix: str = "", cast_dtype: bool = False,
             dtype_source: str = "current") -> None:
        """Read values by full name; initializes parameters that are not yet.

        Args:
            filename: what `save` wrote. ctx: contexts of parameters without values so far.
            allow_missing: parameters that the file lacks are left alone.
            ignore_extra: what only the file has is skipped.
            restore_prefix: put before the names in the file.
            cast_dtype: convert where types differ, to the one of `dtype_source`:
                'current' (the parameter's) or 'saved' (the file's).
        """
        self.load_dict(named_arrays(filename), ctx, allow_missing, ignore_extra, restore_prefix,
                       filename, cast_dtype, dtype_source)

    def load_dict(self, param_dict: Mapping[str, NDArray], ctx: Contexts = None,
                  allow_missing: bool = False, ignore_extra: bool = False,
                  restore_prefix: str = "", filename: str | None = None,
                  cast_dtype: bool = False, dtype_source: str = "current") -> None:
        """Take values from a dict, as `load` takes them from a file."""
        source = f"file: {filename}" if filename else "param_dict"
        for name in self.keys() if restore_prefix else ():
            if not name.startswith(restore_prefix):
                raise ParameterMismatch(f"restore_prefix is '{restore_prefix}' but Parameter name "
                                        f"'{name}' does not start with it")
        values = {restore_prefix + name.removeprefix("arg:").removeprefix("aux:"): value
                  for name, value in param_dict.items()}
        missing = [name for name in self.keys() if name not in values]
        extra = [name for name in values if name not in self._params]
        if missing and not allow_missing:
            raise ParameterMismatch(
                f"Parameter '{missing[0]}' is missing in {source}, which contains parameters: "
                f"{brief(values)}. Please make sure source and target networks have the same "
                "prefix, or set allow_missing to True.")
        if extra and not ignore_extra:
            raise ParameterMismatch(
                f"Parameter '{extra[0]}' loaded from {source} is not present in ParameterDict, "
                f"choices are: {brief(self.keys())}. Set ignore_extra to True to ignore. Please "
                "make sure source and target networks have the same prefix.")
        taken = [name for name in values if name in self._params]
        for name in taken:
            self._params[name]._load_init(values[name], ctx, cast_dtype, dtype_source)
        report(filename or "param_dict", len(taken), extra, missing)


def _agree(parameter: Parameter, setting: str, value: Any) -> None:
    """Give `parameter` a setting it has none of; an error where it has another one."""
    held = getattr(parameter, setting, None)
    if held is None:
        if setting == "shape" and value is not None:
            parameter.shape = value
        else:
            setattr(parameter, setting, value)
        return
    if setting == "shape":
        try:
            wanted = None if value is None else shape_of(value)
            parameter._shape = merge_shapes(parameter._shape, wanted)
            return
        except ShapeError:
            agrees = False
    elif setting == "dtype":
        agrees = value is None or dtype_name(value) == dtype_name(held)
    else:
        agrees = value is None or value == held
    if not agrees:
        raise ParameterMismatch(
            f"Cannot retrieve Parameter '{parameter.name}' because desired attribute does not "
            f"match with stored for attribute '{setting}': desired '{value}' vs stored '{held}'.")
