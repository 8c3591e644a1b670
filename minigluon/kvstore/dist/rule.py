"""How a server turns a merged gradient into a new weight: the bridge to `optimizer`.

Each part of a key that is cut has its own Updater, made from the same settings: so every part
counts one update a step, and element-wise rules give the same numbers as on the whole array. Rules
that look at a whole array (and any class from a user's script) are only given whole keys; the
worker sees to that (`elementwise`).
"""
from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import cloudpickle
import numpy as np

from ...base import KVStoreError, NotForThisError
from ...context import cpu
from ...ndarray import NDArray, wrap
from ...ops.storage import RowSparse
from ...optimizer import Optimizer, Updater, from_wire
from .messages import SetOptimizer

__all__ = [
    "OptimizerRule", "Rule", "describe", "elementwise", "fill", "outline", "rule_of",
    "state_arrays",
]

Array = np.ndarray[Any, Any]
Key = int | str
_ELEMENTWISE = (
    "sgd", "nag", "adam", "test", "adagrad", "adadelta", "adamax", "rmsprop", "ftrl", "ftml",
    "signum", "dcasgd",
)


class Rule(Protocol):
    """What a server needs of an optimizer; tests put something plain in its place.

    `lets_go`: it keeps no reference to a gradient after `update`, so its memory may be reused.
    """

    lets_go: bool

    def update(self, key: Key, part: int, weight: Array, grad: Array | RowSparse) -> None:
        """Change `weight` in place."""

    def configure(self, settings: dict[str, Any]) -> None:
        """Take over changed settings."""

    def states(self) -> dict[tuple[Key, int], Any]:
        """The state of each part: None, an array, or a tuple of them."""

    def set_state(self, key: Key, part: int, state: Any) -> None:
        """Take over the state of a part."""

    def forget_states(self) -> None:
        """Have no states, as before the first update."""

    def counts(self) -> dict[Key, int]:
        """How often each key has been updated."""


class OptimizerRule:
    """A Rule made from an Optimizer, by `make`, once for each part number."""

    def __init__(self, make: Callable[[], Optimizer], lets_go: bool) -> None:
        self._make = make
        self.lets_go = lets_go
        self._updaters: dict[int, Updater] = {0: Updater(make())}
        self._changes: dict[str, Any] = {}

    def _updater(self, part: int) -> Updater:
        if part not in self._updaters:
            optimizer = self._make()
            optimizer.apply_settings(self._changes)
            self._updaters[part] = Updater(optimizer)
        return self._updaters[part]

    def update(self, key: Key, part: int, weight: Array, grad: Array | RowSparse) -> None:
        """One optimizer step on `weight`, in place."""
        self._updater(part)(key, wrap(grad, cpu()), NDArray(weight, cpu()))

    def configure(self, settings: dict[str, Any]) -> None:
        """Take over changed settings (`Optimizer.live_settings` of the workers)."""
        self._changes.update(settings)
        for updater in self._updaters.values():
            updater.optimizer.apply_settings(settings)

    def states(self) -> dict[tuple[Key, int], Any]:
        """States as raw arrays."""
        return {
            (key, part): _raw(state)
            for part, updater in self._updaters.items()
            for key, state in updater.states.items()
        }

    def set_state(self, key: Key, part: int, state: Any) -> None:
        """Take over a state of raw arrays."""
        self._updater(part).states[key] = _wrapped(state)

    def forget_states(self) -> None:
        """Have no states, as before the first update."""
        for updater in self._updaters.values():
            updater.states.clear()
            updater.states_synced.clear()

    def counts(self) -> dict[Key, int]:
        """Updates of each key (the parts of a key agree)."""
        found: dict[Key, int] = {}
        for updater in self._updaters.values():
            found.update(updater.optimizer._settle_counts())
        return found


def _raw(state: Any) -> Any:
    if isinstance(state, (tuple, list)):
        return tuple(map(_raw, state))
    return state._sync() if isinstance(state, NDArray) else state


def _wrapped(state: Any) -> Any:
    if isinstance(state, (tuple, list)):
        return tuple(map(_wrapped, state))
    return NDArray(np.array(state), cpu()) if isinstance(state, np.ndarray) else state


def state_arrays(state: Any) -> list[Array]:
    """The arrays in a state, depth first.

    >>> len(state_arrays((np.zeros(2), (None, np.ones(2)))))
    2
    """
    if isinstance(state, np.ndarray):
        return [state]
    if isinstance(state, (tuple, list)):
        return [array for one in state for array in state_arrays(one)]
    return []


def outline(state: Any) -> Any:
    """The structure of a state as JSON: 'array', None, or a list of such."""
    if isinstance(state, np.ndarray):
        return "array"
    return [outline(one) for one in state] if isinstance(state, (tuple, list)) else None


def fill(structure: Any, arrays: Iterator[Array | None]) -> Any:
    """The state with that structure, its arrays taken from `arrays`.

    >>> fill(["array", None], iter([np.ones(2)]))
    (array([1., 1.]), None)
    """
    if structure == "array":
        return np.array(next(arrays))
    if isinstance(structure, list):
        return tuple(fill(one, arrays) for one in structure)
    return None


def elementwise(optimizer: Optimizer) -> bool:
    """Whether the rule treats all elements alike, so that arrays may be cut over servers."""
    kind = type(optimizer)
    return kind.__module__.startswith(_OWN) and kind.__name__.lower() in _ELEMENTWISE


_OWN = __name__.partition(".")[0] + "."


def describe(optimizer: Optimizer, store: int) -> SetOptimizer:
    """The message that carries an optimizer: name and settings, or its class by cloudpickle."""
    try:
        name, settings = optimizer.wire()
        return SetOptimizer(0, store, name, settings)
    except NotForThisError:
        pickled = base64.b64encode(cloudpickle.dumps(optimizer)).decode()
        return SetOptimizer(0, store, type(optimizer).__name__, {}, pickled)


def rule_of(message: SetOptimizer) -> OptimizerRule:
    """The rule a worker asks for. A pickled class is the one thing that is ever unpickled here,

    and only because the connection has proved to know the job token.
    """
    if message.pickled:
        blob = base64.b64decode(message.pickled)

        def unpickle() -> Optimizer:
            made = cloudpickle.loads(blob)
            if not isinstance(made, Optimizer):
                raise KVStoreError(f"set_optimizer: expected an Optimizer, got {type(made)}")
            return made

        return OptimizerRule(unpickle, lets_go=False)
    settings = json.dumps(message.settings)
    return OptimizerRule(lambda: from_wire(message.name, json.loads(settings)), lets_go=True)
