"""Updater: an optimizer and the states of the weights it has met."""
from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd import pause
from ..base import ArgumentValueError
from ..context import Context
from ..files import read_file, replacing
from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, is_own
from .sgd import SGD
from .together import Together

__all__ = ["Updater", "get_updater", "load_states", "save_states"]


class Updater:
    """``updater(index, grad, weight)`` makes the state at the first call and updates the weight.

    >>> import minigluon as mx
    >>> w, updater = mx.nd.ones((2,)), get_updater(mx.optimizer.SGD(learning_rate=0.5))
    >>> updater(0, mx.nd.ones((2,)), w)
    >>> w.asnumpy().tolist()
    [0.5, 0.5]
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: dict[Index, State] = {}
        self.states_synced: dict[Index, bool] = {}
        self.aggregate_updates = optimizer.aggregate_num > 0
        self._together: tuple[Any, Together | None] = (None, None)

    def __call__(
        self,
        index: Index | Sequence[Index],
        grad: NDArray | Sequence[NDArray],
        weight: NDArray | Sequence[NDArray],
    ) -> None:
        """Update one weight, or several at once by lists of equal length."""
        with pause():
            if not isinstance(index, (list, tuple)):
                self._update(index, grad, weight)
            elif not self._at_once(index, grad, weight):
                if self._takes_lists():
                    self._in_lists(index, grad, weight)
                else:
                    for one, g, w in zip(index, grad, weight, strict=True):
                        self._update(one, g, w)

    def _update(self, index: Any, grad: Any, weight: Any) -> None:
        self.optimizer._set_current_context(weight.context)
        state = self.state_of(index, weight)
        self.optimizer.update_multi_precision(index, weight, grad, state)

    def state_of(self, index: Index, weight: NDArray) -> State:
        """The state of one weight, on its context; made where there is none yet."""
        if index not in self.states:
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
        elif not (self.states_synced.get(index) and _is_on(self.states[index], weight.context)):
            self.states[index] = self.sync_state_context(self.states[index], weight.context)
        self.states_synced[index] = True
        return self.states[index]

    def _at_once(self, indices: Sequence[Index], grads: Any, weights: Any) -> bool:
        """All by one native call, prepared at the first; False: nothing has been done."""
        key = [*indices, *map(id, grads), *map(id, weights)]
        prepared = self._together[1] if key == self._together[0] else None
        if prepared is not None:
            if prepared.mults != Together.multipliers(self.optimizer, indices):
                prepared = None
        count = -1 if prepared is None else prepared.ready()
        if count < 0:
            prepared = Together.of(self, indices, grads, weights, own_grads=False)
            self._together = key, prepared
            count = 0 if prepared is None else prepared.ready()
        if prepared is None or count <= 0:
            return False
        prepared.run(count)
        return True

    def _takes_lists(self) -> bool:
        """Whether a user's class asks for lists. SGD says so by itself; its subclasses need not."""
        optimizer = self.optimizer
        return not (optimizer.aggregate_num <= 0 or is_own(optimizer)
                    or isinstance(optimizer, SGD))

    def _in_lists(self, indices: Sequence[Index], grads: Any, weights: Any) -> None:
        """As MXNet does it: lists of up to `aggregate_num` weights of one type each."""
        self.optimizer._set_current_context(weights[0].context)
        by_type: dict[Any, list[tuple[Any, ...]]] = {}
        for index, grad, weight in zip(indices, grads, weights, strict=True):
            row = (index, weight, grad, self.state_of(index, weight))
            by_type.setdefault(weight.dtype, []).append(row)
        for rows in by_type.values():
            most = int(min(self.optimizer.aggregate_num, len(rows)))
            for begin in range(0, len(rows), most):
                columns = zip(*rows[begin:begin + most], strict=True)
                self.optimizer.update_multi_precision(*map(list, columns))  # type: ignore[arg-type]

    def sync_state_context(self, state: State, context: Context) -> State:
        """The state with all its arrays on `context`."""
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, (tuple, list)):
            return type(state)(self.sync_state_context(part, context) for part in state)
        return state

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """All states as bytes, with the optimizer itself (its counts, its settings) if wished."""
        return _dumped([self], dump_optimizer)

    def set_states(self, states: bytes) -> None:
        """Take over what `get_states` gave; arrays move to their weights' contexts when used."""
        _give([self], states)


def _is_on(state: State, context: Context) -> bool:
    """Whether the arrays of a state are on this context (weights may have been moved)."""
    if isinstance(state, (tuple, list)):
        return all([_is_on(each, context) for each in state])
    return not isinstance(state, NDArray) or state.context == context


def get_updater(optimizer: Optimizer) -> Updater:
    """An Updater for `optimizer`."""
    return Updater(optimizer)


def save_states(fname: str, updaters: Sequence[Updater], dump_optimizer: bool = False) -> None:
    """Write the states of one model's updaters, one for each context, to a file.

    The file is replaced as a whole or, on any error, not at all.
    """
    content = _dumped(updaters, dump_optimizer)
    with replacing(fname, "optimizer states") as file:
        file.write(content)


def load_states(fname: str, updaters: Sequence[Updater]) -> None:
    """Give each updater its states from a file; a saved optimizer becomes the one of all."""
    content = read_file(fname, "optimizer states")
    try:
        _give(updaters, content)
    except ArgumentValueError as error:
        raise ArgumentValueError(f"{fname}: {error}") from error


def _dumped(updaters: Sequence[Updater], dump_optimizer: bool) -> bytes:
    """The first one's states come as MXNet writes them: a pickled dict by index, or a pair of it
    and the optimizer. What differs on further contexts is added at the end.
    """
    first = updaters[0]
    rest = [_different(first.states, updater.states) for updater in updaters[1:]]
    content: Any = first.states
    if dump_optimizer or rest:
        content = (first.states, first.optimizer if dump_optimizer else None)
    return pickle.dumps((*content, rest) if rest else content)


def _give(updaters: Sequence[Updater], states: bytes) -> None:
    try:
        content = pickle.loads(states)
    except Exception as error:  # pickle raises what it likes for bytes that are none of its own
        raise ArgumentValueError(
            "optimizer states: expected the bytes of Updater.get_states(), whole and unchanged "
            f"({type(error).__name__}: {error})"
        ) from error
    if isinstance(content, dict):
        content = (content, None)
    if (not isinstance(content, tuple) or not 2 <= len(content) <= 3
            or not isinstance(content[0], dict)):
        raise ArgumentValueError("optimizer states: expected the bytes of Updater.get_states()")
    first, optimizer, rest = (*content, [])[:3]
    for place, updater in enumerate(updaters):
        own = rest[place - 1] if 0 < place <= len(rest) else {}
        updater.states = {k: _copied(own.get(k, state)) for k, state in first.items()}
        updater.states.update({k: state for k, state in own.items() if k not in first})
        updater.states_synced = dict.fromkeys(updater.states, False)
        if optimizer is not None:
            updater.optimizer = optimizer
            updater.aggregate_updates = optimizer.aggregate_num > 0


def _different(first: dict[Index, State], other: dict[Index, State]) -> dict[Index, State]:
    return {k: state for k, state in other.items() if not _equal(state, first.get(k))}


def _equal(a: State, b: State) -> bool:
    if isinstance(a, NDArray) and isinstance(b, NDArray):
        return a.shape == b.shape and np.array_equal(a.asnumpy(), b.asnumpy(), equal_nan=True)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_equal, a, b))
    return a is None and b is None


def _copied(state: State) -> State:
    """A copy of the state, so that updaters which start alike do not share arrays."""
    if isinstance(state, NDArray):
        return state.copyto(state.context)
    if isinstance(state, (tuple, list)):
        return type(state)(_copied(part) for part in state)
    return state
