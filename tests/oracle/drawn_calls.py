"""Random calls of operators for fuzz.py."""
from __future__ import annotations

import random
from typing import Any

__all__ = ["Drawer"]

UNARY = ("abs sign round rint ceil floor trunc fix square sqrt rsqrt cbrt exp log log2 log1p expm1 "
         "gamma gammaln erf sin cos tan arctan sinh cosh tanh arcsinh degrees relu sigmoid "
         "softsign hard_sigmoid reciprocal negative logical_not zeros_like Flatten").split()
BINARY = ("add sub mul div mod power maximum minimum hypot equal not_equal greater lesser "
          "logical_and logical_xor").split()
FOLDS = "sum mean prod nansum max min norm argmax".split()


class Drawer:
    """Random calls of operators, of the shapes and settings that they document."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def shape(self, dims: tuple[int, ...] = (1, 2, 3, 4)) -> tuple[int, ...]:
        return tuple(self.random.randint(1, 4) for _ in range(self.random.choice(dims)))

    def array(self, shape: Any, lo: float = -2.0, dtype: str = "") -> str:
        dtype = dtype or self.random.choice(["float32"] * 4 + ["float64", "float16", "int32"])
        sizes = "".join(f"{size}, " for size in shape)
        return f"A({sizes}lo={lo}, dtype={dtype!r}, seed={self.random.randint(0, 9)})"

    def axis(self, ndim: int) -> Any:
        kind = self.random.random()
        if kind < 0.2:
            return None
        if kind < 0.5:
            return tuple(self.random.sample(range(ndim), self.random.randint(1, ndim)))
        return self.random.randint(-ndim, ndim - 1)

    def unary(self) -> Any:
        return self.random.choice(UNARY), [self.array(self.shape(), 0.1)], {}

    def binary(self) -> Any:
        shape = self.shape((1, 2, 3, 4, 5, 6))
        other = tuple(1 if self.random.random() < 0.4 else size for size in shape)
        name = "broadcast_" + self.random.choice(BINARY)
        dtype = self.random.choice(["float32", "float64"])
        return name, [self.array(shape, 0.2, dtype), self.array(other, 0.2, dtype)], {}

    def fold(self) -> Any:
        name, shape = self.random.choice(FOLDS), self.shape((1, 2, 3, 4, 5))
        axis = self.axis(len(shape))
        if name.startswith("arg") and isinstance(axis, tuple):
            axis = axis[0]
        return name, [self.array(shape, dtype="float32")], {
            "axis": axis, "keepdims": self.random.random() < 0.5}

    def slice(self) -> Any:
        shape = self.shape()
        pick = self.random.choice
        parts = [pick([(None, None, -1), (-1, None, None), (-size, None, 2), (0, size, None),
                       (None, -size - 1, -2), (None, size + 1, 3)]) for size in shape]
        begin, end, step = zip(*parts, strict=True)
        return "slice", [self.array(shape)], {"begin": begin, "end": end, "step": step}

    def convolution(self) -> Any:
        rank = self.random.choice([1, 2, 3])
        groups = self.random.choice([1, 2])
        kernel = tuple(self.random.randint(1, 3) for _ in range(rank))
        data = (2, 2 * groups, *(self.random.randint(3, 7) for _ in range(rank)))
        attrs = {"kernel": kernel, "num_filter": 2 * groups, "num_group": groups, "no_bias": True,
                 "stride": tuple(self.random.randint(1, 2) for _ in range(rank)),
                 "pad": tuple(self.random.randint(0, 1) for _ in range(rank))}
        name = self.random.choice(["Convolution", "Deconvolution"])
        return name, [self.array(data, dtype="float32"),
                      self.array((2 * groups, 2, *kernel), dtype="float32")], attrs

    def pooling(self) -> Any:
        rank = self.random.choice([1, 2, 3])
        kernel = tuple(self.random.randint(1, 3) for _ in range(rank))
        data = (2, 2, *(self.random.randint(3, 8) for _ in range(rank)))
        return "Pooling", [self.array(data, dtype="float32")], {
            "kernel": kernel, "pool_type": self.random.choice(["max", "avg", "sum"]),
            "stride": tuple(self.random.randint(1, 3) for _ in range(rank)),
            "pad": tuple(self.random.randint(0, size - 1) for size in kernel),
            "count_include_pad": self.random.random() < 0.5}

    def case(self, number: int) -> tuple[str, str]:
        """One call as a program."""
        draw = self.random.choice([self.unary, self.binary, self.fold, self.slice,
                                   self.convolution, self.pooling])
        name, arrays, attrs = draw()
        wrt = [place for place, array in enumerate(arrays) if "dtype='float" in array]
        return (f"{number} {name} {attrs}",
                f"call({name!r}, [{', '.join(arrays)}], {attrs!r}, {wrt})")
