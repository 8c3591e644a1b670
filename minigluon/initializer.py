"""First values of parameters: Uniform, Normal, Xavier, ...; found by name in a registry.

An initializer fills an array. Called with an `InitDesc` (a parameter's name, with attributes) it
follows the attribute ``__init__`` if there is one, else the ending of the name: ``weight`` is what
the class is about; biases, means and betas become 0, gammas and variances 1. All draws come from
``nd.random``, so ``mx.random.seed`` repeats them.
"""
from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import ndarray as nd
from .base import ArgumentError, ArgumentValueError, NotForThisError, Registry
from .ndarray import NDArray
from .ops.nn.rnn import packed, packed_size

__all__ = [
    "Bilinear", "Constant", "FusedRNN", "InitDesc", "Initializer", "LSTMBias", "Load",
    "MSRAPrelu", "Mixed", "Normal", "One", "Orthogonal", "Uniform", "Xavier", "Zero", "alias",
    "create", "register", "registry",
]


class InitDesc(str):
    """A parameter's name, with what an initializer may want to know about it.

    Args:
        name: the parameter's name.
        attrs: its attributes; ``__init__`` names the initializer to use for it.
        global_init: the initializer of everything that has none of its own.
    """

    attrs: dict[str, Any]
    global_init: Initializer | None

    def __new__(cls, name: str, attrs: Mapping[str, Any] | None = None,
                global_init: Initializer | None = None) -> InitDesc:
        desc = super().__new__(cls, name)
        desc.attrs = dict(attrs or {})
        desc.global_init = global_init
        return desc


class Initializer:
    """Base of all initializers. A class of yours overrides ``_init_weight(self, name, arr)``.

    Args:
        kwargs: the settings; they make up ``dumps()`` and equality.

    >>> import minigluon as mx
    >>> mx.init.Normal(0.5).dumps(), mx.init.Normal(0.5) == mx.init.Normal(0.5)
    ('["normal", {"sigma": 0.5}]', True)
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[NDArray], str] = _spread

    def set_verbosity(self, verbose: bool = False,
                      print_func: Callable[[NDArray], str] | None = None) -> Initializer:
        """Log each initialization; `print_func` makes a text of the new values."""
        self._verbose = verbose
        self._print_func = print_func or _spread
        return self

    def dumps(self) -> str:
        """Name and settings as JSON, from which `create` makes an equal initializer."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._kwargs == getattr(other, "_kwargs", None)

    __hash__ = object.__hash__

    def __call__(self, desc: str, arr: NDArray) -> None:
        """Fill `arr`, the parameter called `desc`."""
        if not isinstance(desc, str):
            raise ArgumentError(f"initializer: expected the parameter's name, got {desc!r}")
        if not isinstance(desc, InitDesc):
            desc = InitDesc(desc)
        if desc.global_init is None:
            desc.global_init = self
        own = desc.attrs.get("__init__")
        if own:
            _fill(own, desc, arr)
            used = own if isinstance(own, str) else type(own).__name__
        else:
            used = self._by_ending(desc, arr)
        if self._verbose:
            logging.info("Initialized %s as %s: %s", desc, used, self._print_func(arr))

    def _by_ending(self, name: str, arr: NDArray) -> str:
        lowered = name.lower()
        for ending, method in _ENDINGS:
            if lowered.endswith(ending):
                getattr(self, method)(name, arr)
                return ending
        self._init_default(name, arr)
        return "default"

    def _init_weight(self, name: str, arr: NDArray) -> None:
        raise NotForThisError(f"{type(self).__name__} must override _init_weight(name, arr)")

    def _init_bias(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_beta(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_gamma(self, name: str, arr: NDArray) -> None:
        arr[:] = 1.0

    def _init_zero(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_one(self, name: str, arr: NDArray) -> None:
        arr[:] = 1.0

    def _init_default(self, name: str, arr: NDArray) -> None:
        raise ArgumentValueError(
            f"initializer {type(self).__name__}: no rule for a parameter called '{name}'; names "
            f"should end in one of {', '.join(ending for ending, _ in _ENDINGS)}, or the "
            "parameter needs an initializer of its own: Variable(init=...), params.get(init=...)"
        )


_ENDINGS = (
    ("weight", "_init_weight"), ("bias", "_init_bias"), ("gamma", "_init_gamma"),
    ("beta", "_init_beta"), ("running_mean", "_init_zero"), ("moving_mean", "_init_zero"),
    ("running_var", "_init_one"), ("moving_var", "_init_one"), ("moving_inv_var", "_init_zero"),
    ("moving_avg", "_init_zero"), ("min", "_init_zero"), ("max", "_init_one"),
)

registry = Registry("initializer", Initializer)
register = registry.register
alias = registry.alias


def create(init: Any, *args: Any, **kwargs: Any) -> Any:
    """An initializer from its name ('xavier'), its `dumps()`, or an initializer itself.

    >>> create("xavier", magnitude=2).dumps()
    '["xavier", {"rnd_type": "uniform", "factor_type": "avg", "magnitude": 2}]'
    """
    if not isinstance(init, (str, Initializer)) and callable(init) and not (args or kwargs):
        return init
    return registry.create(init, *args, **kwargs)


def _fill(init: Any, desc: InitDesc, arr: NDArray) -> None:
    """Let `init` fill `arr` as a weight, whatever the parameter's name says."""
    made = create(init)
    if isinstance(made, Initializer):
        made._init_weight(desc, arr)
    else:
        made(InitDesc(desc, None, desc.global_init), arr)


def _spread(arr: NDArray) -> str:
    return f"{np.linalg.norm(arr.asnumpy()) / math.sqrt(arr.size):.6g}"


class _Fill(Initializer):
    """One value everywhere, also in what is not called weight."""

    value = 0.0

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = self.value

    def _init_default(self, name: str, arr: NDArray) -> None:
        arr[:] = self.value


@alias("zeros")
class Zero(_Fill):
    """Zeros."""

    def __init__(self) -> None:
        super().__init__()


@alias("ones")
class One(_Fill):
    """Ones."""

    value = 1.0

    def __init__(self) -> None:
        super().__init__()


@register
class Constant(Initializer):
    """One value, or the values of an array of the parameter's shape.

    >>> import minigluon as mx
    >>> mx.init.Constant(1).dumps()
    '["constant", {"value": 1}]'
    """

    def __init__(self, value: Any) -> None:
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, name: str, arr: NDArray) -> None:
        value = self.value
        arr[:] = nd.array(value, arr.context) if isinstance(value, (list, tuple)) else value

    _init_default = _init_weight

    def dumps(self) -> str:
        """Name and value as JSON; an array as nested lists."""
        value = self.value.asnumpy() if isinstance(self.value, NDArray) else self.value
        plain = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        return json.dumps([type(self).__name__.lower(), {"value": plain}])

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.dumps() == getattr(other, "dumps", str)()

    __hash__ = object.__hash__


@register
class Uniform(Initializer):
    """Uniformly distributed in [-scale, scale]."""

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name: str, arr: NDArray) -> None:
        _uniform(self.scale, arr)


@register
class Normal(Initializer):
    """Normally distributed with mean 0 and standard deviation `sigma`."""

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, name: str, arr: NDArray) -> None:
        _normal(self.sigma, arr)


def _uniform(scale: float, arr: NDArray) -> None:
    arr[:] = nd.random.uniform(  # type: ignore[attr-defined]
        -scale, scale, shape=arr.shape, ctx=arr.context)


def _normal(sigma: float, arr: NDArray) -> None:
    arr[:] = nd.random.normal(  # type: ignore[attr-defined]
        0, sigma, shape=arr.shape, ctx=arr.context)


@register
class Orthogonal(Initializer):
    """A matrix with orthonormal rows or columns, times `scale`; other axes folded into columns.

    Args:
        scale: factor. rand_type: 'uniform' or 'normal', what it is made orthogonal from.
    """

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        super().__init__(scale=scale, rand_type=rand_type)
        if rand_type not in ("uniform", "normal"):
            raise ArgumentValueError(
                f"Orthogonal: rand_type must be 'uniform' or 'normal', got {rand_type!r}")
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, name: str, arr: NDArray) -> None:
        rows, columns = arr.shape[0], arr.size // arr.shape[0]
        start = nd.zeros((rows, columns))
        (_uniform if self.rand_type == "uniform" else _normal)(1.0, start)
        u, _, v = np.linalg.svd(start.asnumpy(), full_matrices=False)
        basis = u if u.shape == (rows, columns) else v
        arr[:] = nd.array(self.scale * basis.reshape(arr.shape), arr.context)


@register
class Xavier(Initializer):
    """Keeps the size of signals about equal from layer to layer.

    Args:
        rnd_type: 'uniform' (in +-s) or 'gaussian' (deviation s).
        factor_type: n is 'avg' of, or only 'in' or 'out' of, the numbers of connections.
        magnitude: s = sqrt(magnitude / n).

    Shapes: weight (out, in, *kernel); at least two axes.
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg",
                 magnitude: float = 3) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name: str, arr: NDArray) -> None:
        shape = arr.shape
        if len(shape) < 2:
            raise ArgumentValueError(
                f"{type(self).__name__} needs a parameter with two axes or more, "
                f"'{name}' has shape {shape}; give it another initializer, e.g. 'uniform'")
        window = math.prod(shape[2:])
        fan_in, fan_out = shape[1] * window, shape[0] * window
        factors = {"avg": (fan_in + fan_out) / 2.0, "in": fan_in, "out": fan_out}
        if self.factor_type not in factors:
            raise ArgumentValueError(
                f"Xavier: factor_type must be 'avg', 'in' or 'out', got {self.factor_type!r}")
        scale = math.sqrt(self.magnitude / factors[self.factor_type])
        if self.rnd_type == "uniform":
            _uniform(scale, arr)
        elif self.rnd_type == "gaussian":
            _normal(scale, arr)
        else:
            raise ArgumentValueError(
                f"Xavier: rnd_type must be 'uniform' or 'gaussian', got {self.rnd_type!r}")


@register
class MSRAPrelu(Xavier):
    """Xavier, gaussian, for layers followed by a PReLU of the given slope."""

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """Weights of an upsampling deconvolution that interpolates bilinearly."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: NDArray) -> None:
        height, width = arr.shape[-2:]
        f = math.ceil(width / 2.0)
        c = (2 * f - 1 - f % 2) / (2.0 * f)
        rows = 1 - np.abs(np.arange(height) / f - c)
        columns = 1 - np.abs(np.arange(width) / f - c)
        kernel = np.outer(rows, columns).astype(np.float32)
        arr[:] = nd.array(np.broadcast_to(kernel, arr.shape), arr.context)


@register
class LSTMBias(Initializer):
    """Zeros, but `forget_bias` for the forget gate (the second quarter)."""

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name: str, arr: NDArray) -> None:
        hidden = arr.shape[0] // 4
        arr[:] = 0.0
        arr[hidden:2 * hidden] = self.forget_bias


@register
class FusedRNN(Initializer):
    """The vector of parameters of operator RNN: each matrix in it as if it were a parameter.

    Args:
        init: for the weights, gate by gate; None: the network's general initializer.
        num_hidden, num_layers, mode, bidirectional: as for operator RNN.
        forget_bias: what lstm's biases of the forget gate start from; the others are 0.

    >>> import minigluon as mx
    >>> vector = mx.nd.zeros((4 + 4 + 4 + 4,))  # lstm: 4 gates, 1 input, 1 hidden
    >>> mx.init.FusedRNN("one", 1, 1, "lstm", forget_bias=2)("rnn_weight", vector)
    >>> vector.asnumpy().astype(int).tolist()
    [1, 1, 1, 1, 1, 1, 1, 1, 0, 2, 0, 0, 0, 2, 0, 0]
    """

    def __init__(self, init: Any, num_hidden: int, num_layers: int, mode: str,
                 bidirectional: bool = False, forget_bias: float = 1.0) -> None:
        made = None if init is None else create(init)
        super().__init__(init=made and made.dumps(), num_hidden=num_hidden,
                         num_layers=num_layers, mode=mode, bidirectional=bidirectional,
                         forget_bias=forget_bias)
        self._init = made
        self._sizes = (num_hidden, num_layers, bidirectional)
        self._mode = mode
        self._forget_bias = forget_bias

    def _init_weight(self, name: str, arr: NDArray) -> None:
        general = getattr(name, "global_init", None)
        init = self._init or general
        if init is None:
            raise ArgumentValueError(f"FusedRNN: no initializer for the weights of '{name}'; "
                                     "give init=")
        start = 0
        for part, shape in packed(self._mode, self._inputs(name, arr), *self._sizes):
            end = start + math.prod(shape)
            block = arr[start:end]
            if part.endswith("bias"):
                block[:] = 0.0
                if self._mode == "lstm":
                    hidden = shape[0] // 4
                    block[hidden:2 * hidden] = self._forget_bias
            else:
                rows = self._sizes[0]
                for gate in range(shape[0] // rows):
                    one = block[gate * rows * shape[1]:(gate + 1) * rows * shape[1]]
                    init(InitDesc(f"{name}_{part}", None, general), one.reshape((rows, shape[1])))
            start = end

    def _inputs(self, name: str, arr: NDArray) -> int:
        """The size of the input, from that of the vector."""
        fixed, one = (packed_size(self._mode, size, *self._sizes) for size in (0, 1))
        inputs, rest = divmod(arr.size - fixed, one - fixed)
        if inputs < 1 or rest:
            raise ArgumentValueError(
                f"FusedRNN: '{name}' of shape {arr.shape} cannot hold the parameters of mode "
                f"'{self._mode}' with num_hidden={self._sizes[0]}, num_layers={self._sizes[1]}, "
                f"bidirectional={self._sizes[2]}")
        return inputs


class Mixed:
    """The first initializer whose pattern matches the parameter's name.

    Args:
        patterns: regular expressions, tried in order. initializers: one for each.

    >>> import minigluon as mx
    >>> init = mx.init.Mixed([".*special", ".*"], [mx.init.One(), mx.init.Zero()])
    """

    def __init__(self, patterns: Sequence[str], initializers: Sequence[Any]) -> None:
        if len(patterns) != len(initializers):
            raise ArgumentValueError(f"Mixed: {len(patterns)} patterns but "
                                     f"{len(initializers)} initializers")
        self.map = [(re.compile(pattern), create(init))
                    for pattern, init in zip(patterns, initializers, strict=True)]

    def __call__(self, name: str, arr: NDArray) -> None:
        """Fill `arr`, the parameter called `name`."""
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise ArgumentValueError(f"Mixed: no pattern matches parameter '{name}'; "
                                 "add '.*' as the last one")


class Load:
    """Values from a file (or dict of arrays), `default_init` for what is not in it.

    Args:
        param: file name or dict; 'arg:' and 'aux:' before names are dropped.
        default_init: for names not found. verbose: log where each value came from.
    """

    def __init__(self, param: str | Mapping[str, NDArray], default_init: Any = None,
                 verbose: bool = False) -> None:
        found = nd.load(param) if isinstance(param, str) else param
        if not isinstance(found, Mapping):
            raise ArgumentValueError(f"Load: the arrays in {param} have no names")
        self.param = {name.removeprefix("arg:").removeprefix("aux:"): value
                      for name, value in found.items()}
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: NDArray) -> None:
        """Fill `arr`, the parameter called `name`."""
        if name in self.param:
            value = self.param[name]
            if value.shape != arr.shape:
                raise ArgumentValueError(f"Load: parameter '{name}' has shape {arr.shape}, "
                                         f"the loaded value {value.shape}")
            arr[:] = value
        elif self.default_init is None:
            raise ArgumentValueError(f"Load: parameter '{name}' is not among the loaded ones and "
                                     "there is no default_init")
        else:
            create(self.default_init)(name, arr)
        if self.verbose:
            logging.info("Initialized %s by %s", name,
                         "loading" if name in self.param else "default")
