"""What one line of the operator catalogue says: inputs, attributes, and what must hold for them."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Bad", "Input", "Sample", "adder", "between", "draw", "floats"]

# (shape, low, high): drawn uniformly; or the array itself (integers keep their dtype).
Input = tuple[tuple[int, ...], float, float] | np.ndarray
# (inputs, attrs, exception class, a piece of its text)
Bad = tuple[Sequence[Input], dict[str, Any], type[BaseException], str]


@dataclass(frozen=True)
class Sample:
    """One use of an operator.

    Args:
        inputs: ``(shape, low, high)`` for values drawn in between, or explicit arrays. Explicit
            float arrays are cast to the dtype asked for, integer and bool arrays stay.
        attrs: attributes as a user gives them.
        dtype: element type of the drawn inputs.
        grad: the gradient is checked against differences (in float64).
        second_order: so is the gradient of the gradient.
        wrt: places of the inputs whose gradient is checked; None means every float input.
        reference: ``reference(*numpy arrays) -> array or list of arrays`` the forward must equal.
        tolerance: relative and absolute tolerance against `reference`.
        random: the outputs are drawn: only shapes and dtypes can be compared.
        bad: calls that must fail, as ``(inputs, attrs, exception class, text fragment)``.
    """

    inputs: Sequence[Input] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    grad: bool = True
    second_order: bool = False
    wrt: tuple[int, ...] | None = None
    reference: Callable[..., Any] | None = None
    tolerance: float = 1e-5
    random: bool = False
    bad: Sequence[Bad] = ()

    def arrays(self, dtype: str | None = None, seed: int = 0) -> list[np.ndarray]:
        """The inputs as arrays; the same for the same `seed`."""
        return draw(self.inputs, dtype or self.dtype, seed)

    def checked(self) -> tuple[int, ...]:
        """Places of the inputs whose gradient is checked."""
        if not self.grad:
            return ()
        if self.wrt is not None:
            return self.wrt
        return tuple(place for place, array in enumerate(self.arrays())
                     if array.dtype.kind == "f")


def draw(inputs: Sequence[Input], dtype: str, seed: int = 0) -> list[np.ndarray]:
    """Arrays for a list of inputs, drawn from generator `seed`."""
    generator = np.random.default_rng(seed)
    made = []
    for item in inputs:
        if isinstance(item, np.ndarray):
            made.append(item.astype(dtype) if item.dtype.kind == "f" else item.copy())
        else:
            shape, low, high = item
            made.append(np.asarray(generator.uniform(low, high, shape)).astype(dtype))
    return made


# -- how families write their lists ----------------------------------------------------------------

def between(*shape: int, low: float = -1.0, high: float = 1.0) -> Input:
    """An input of this shape, drawn from `low` to `high`."""
    return (shape, low, high)


def floats(*values: Any, dtype: str = "float32") -> np.ndarray:
    """An input with these values (its rows)."""
    return np.array(values, dtype)


def adder(samples: dict[str, list[Sample]], **usual: Any) -> Callable[..., None]:
    """``add(name, inputs, attrs=None, **settings)``, which appends one Sample to `samples`.

    `usual`: settings that count where a call gives no others.
    """
    def add(name: str, inputs: Sequence[Input], attrs: dict[str, Any] | None = None,
            **settings: Any) -> None:
        samples.setdefault(name, []).append(Sample(inputs, attrs or {}, **{**usual, **settings}))

    return add
