"""Containers and the plainest layers: Sequential, Dense, Dropout, Embedding, Flatten, Lambda."""
from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .. import ndarray as nd
from .. import symbol
from ..base import ArgumentValueError, ParameterMismatch, did_you_mean, integer_types
from .activation import Activation
from .block import Block, indented
from .hybrid import HybridBlock
from .parameterdict import ParameterDict

__all__ = ["Dense", "Dropout", "Embedding", "Flatten", "HybridLambda", "HybridSequential",
           "Lambda", "Sequential"]


class _Stack(Block):
    """What Sequential and HybridSequential share: children in a row."""

    _in_summary = False

    def add(self, *blocks: Block) -> None:
        """Put blocks at the end."""
        for block in blocks:
            self.register_child(block)

    def __repr__(self) -> str:
        lines = [f"  ({name}): {indented(repr(child))}" for name, child in self._children.items()]
        return "{}(\n{}\n)".format(type(self).__name__, "\n".join(lines))

    def __getitem__(self, key: int | slice) -> Any:
        layers = list(self._children.values())[key]
        if not isinstance(layers, list):
            return layers
        part = type(self)(prefix=self._prefix)
        with part.name_scope():
            part.add(*layers)
        return part

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Block]:
        return iter(self._children.values())


class Sequential(_Stack):
    """Blocks run one after another.

    >>> import minigluon as mx
    >>> net = mx.gluon.nn.Sequential()
    >>> net.add(mx.gluon.nn.Dense(10, activation="relu"), mx.gluon.nn.Dense(2))
    >>> net
    Sequential(
      (0): Dense(None -> 10, Activation(relu))
      (1): Dense(None -> 2, linear)
    )
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def forward(self, x: Any) -> Any:
        """The input through all children."""
        for block in self._children.values():
            x = block(x)
        return x

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Make the children that can do so run as graphs."""
        if self._children and all(isinstance(c, HybridBlock) for c in self._children.values()):
            warnings.warn(
                f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. Consider "
                "using HybridSequential for the best performance.", stacklevel=2)
        super().hybridize(active, **kwargs)


class HybridSequential(_Stack, HybridBlock):
    """Hybrid blocks run one after another; hybridized they are one graph."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The input through all children."""
        for block in self._children.values():
            x = block(x)
        return x


class Dense(HybridBlock):
    """A fully connected layer: activation(x . weight^T + bias).

    Args:
        units: size of the output.
        activation: 'relu', 'tanh', ... or None.
        use_bias: whether to add a bias.
        flatten: fold all axes but the first of the input into one; else work on the last axis.
        dtype: element type of the parameters.
        weight_initializer, bias_initializer: what the parameters start from.
        in_units: size of the input; found at the first forward when 0.

    Shapes: (N, ...) -> (N, units) with flatten, (..., in_units) -> (..., units) without.

    >>> import minigluon as mx
    >>> layer = mx.gluon.nn.Dense(4)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((2, 3, 5))).shape, layer.weight.shape
    ((2, 4), (4, 15))
    """

    def __init__(self, units: int, activation: str | None = None, use_bias: bool = True,
                 flatten: bool = True, dtype: Any = "float32", weight_initializer: Any = None,
                 bias_initializer: Any = "zeros", in_units: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(units, integer_types) or units < 1:
            raise ArgumentValueError(f"Dense: units: expected 1 or more, got {units!r}")
        self._flatten = flatten
        with self.name_scope():
            self._units = units
            self._in_units = in_units
            self.weight = self.params.get("weight", shape=(units, in_units),
                                          init=weight_initializer, dtype=dtype,
                                          allow_deferred_init=True)
            self.bias = self.params.get("bias", shape=(units,), init=bias_initializer, dtype=dtype,
                                        allow_deferred_init=True) if use_bias else None
            self.act = None if activation is None else Activation(activation,
                                                                  prefix=activation + "_")

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        """One FullyConnected, then the activation."""
        out = F.FullyConnected(x, weight, bias, no_bias=bias is None, num_hidden=self._units,
                               flatten=self._flatten, name="fwd")
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        units, in_units = self.weight.shape or (self._units, 0)
        return "{}({} -> {}, {})".format(type(self).__name__, in_units or None, units,
                                         self.act if self.act else "linear")


class Dropout(HybridBlock):
    """Sets inputs to zero by chance while training, and scales the others up to keep the mean.

    Args:
        rate: chance of an element to be dropped.
        axes: axes along which all elements share their fate.
    """

    def __init__(self, rate: float, axes: tuple[int, ...] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rate = rate
        self._axes = axes

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """One Dropout; a copy where the rate is 0."""
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd", cudnn_off=False)
        return F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Embedding(HybridBlock):
    """A vector for each of `input_dim` integers.

    Args:
        input_dim: number of vectors. output_dim: their size. dtype: of the vectors.
        weight_initializer: what they start from.
        sparse_grad: gradients of storage type row_sparse: of the vectors looked up alone.

    Shapes: (...) -> (..., output_dim).
    """

    def __init__(self, input_dim: int, output_dim: int, dtype: Any = "float32",
                 weight_initializer: Any = None, sparse_grad: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype,
                        "sparse_grad": sparse_grad}
        self.weight = self.params.get("weight", shape=(input_dim, output_dim),
                                      init=weight_initializer, dtype=dtype,
                                      allow_deferred_init=True,
                                      grad_stype="row_sparse" if sparse_grad else "default")

    def cast(self, dtype: Any) -> None:
        """Change the element type of the vectors."""
        super().cast(dtype)
        self._kwargs["dtype"] = dtype

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        """One Embedding."""
        return F.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        sizes = self._kwargs
        return "{}({} -> {}, {})".format(type(self).__name__, sizes["input_dim"],
                                         sizes["output_dim"], sizes["dtype"])


class Flatten(HybridBlock):
    """Folds all axes but the first into one. Shapes: (N, ...) -> (N, size)."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """One Flatten."""
        return F.Flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


def _named_function(function: Any, spaces: tuple[Any, ...]) -> Callable[..., Any]:
    """``f(F, ...)`` for the name of an operator that all `spaces` have."""
    for space in spaces:
        if not hasattr(space, function):
            raise ParameterMismatch(f"Function name {function} is not found in "
                                    f"{space.__name__.rpartition('.')[2]}"
                                    f"{did_you_mean(function, space.__all__)}.")
    return lambda F, *args: getattr(F, function)(*args)


class Lambda(Block):
    """A function as a block.

    Args:
        function: the name of an operator, or a function of arrays.

    >>> import minigluon as mx
    >>> mx.gluon.nn.Lambda(lambda x: x + 1)(mx.nd.ones((2,))).asnumpy().tolist()
    [2.0, 2.0]
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            call = _named_function(function, (nd,))
            self._func_impl: Callable[..., Any] = lambda *args: call(nd, *args)
            self._func_name = function
        elif callable(function):
            self._func_impl = function
            self._func_name = getattr(function, "__name__", type(function).__name__)
        else:
            raise _no_function(function)

    def forward(self, *args: Any) -> Any:
        """Call the function."""
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


class HybridLambda(HybridBlock):
    """A function as a hybrid block.

    Args:
        function: the name of an operator, or a function of `F` and arrays.
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            self._func = _named_function(function, (symbol, nd))
            self._func_name = function
        elif callable(function):
            self._func = function
            self._func_name = getattr(function, "__name__", type(function).__name__)
        else:
            raise _no_function(function)

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:
        """Call the function."""
        return self._func(F, x, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


def _no_function(function: Any) -> ArgumentValueError:
    return ArgumentValueError(f"Unrecognized function in lambda: {function} of type "
                              f"{type(function)}; expected an operator's name or a function")


