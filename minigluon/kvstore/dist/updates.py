"""The optimizers of a server's stores: who has set which, with what settings, and using them.

Every worker sets optimizers in its own order with its own pushes, so each push is under a *regime*:
how many optimizers its worker had set by then, and what it had changed since. A step is done under
the regime of its pushes, not under whatever has arrived in the meantime.
"""
from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.storage import RowSparse
from . import messages as say
from .actions import Fatal, Refusal
from .messages import Item, Role
from .rule import Rule, fill, outline, state_arrays
from .shard import INITIAL, Regime, Shard, Step

__all__ = ["Updates"]

Array = np.ndarray[Any, Any]


class Updates:
    """Rules by store.

    Args:
        rank: of the server, for messages.
        make_rule: turns a `SetOptimizer` into a Rule.
    """

    def __init__(self, rank: int, make_rule: Callable[[say.SetOptimizer], Rule]) -> None:
        self.rank, self.make_rule = rank, make_rule
        self.rules: dict[int, list[tuple[Rule, say.SetOptimizer]]] = {}
        self.multi_precision: set[int] = set()
        self._applied: dict[int, Mapping[str, Any]] = {}
        self._regimes: dict[int, list[Regime]] = {}

    def regime(self, store: int, turn: int, settings: dict[str, Any]) -> Regime:
        """The regime with these settings: the same object for all workers that agree."""
        known = self._regimes.setdefault(store, [])
        made = Regime(turn, settings)
        for one in known:
            if one == made:
                return one
        self._regimes[store] = [made, *known[:7]]
        return made

    def rule(self, store: int, turn: int) -> Rule | None:
        """The rule that was set as number `turn` (from 1); None for 0."""
        return self.rules[store][turn - 1][0] if turn else None

    def latest(self, store: int) -> Rule | None:
        """The rule set last."""
        return self.rule(store, len(self.rules.get(store, [])))

    def applied(self, store: int) -> Mapping[str, Any]:
        """The changed settings that are in force."""
        return self._applied.get(store, INITIAL.settings)

    def choose(self, rank: int, turn: int, message: say.SetOptimizer) -> None:
        """Worker `rank` sets its optimizer number `turn`: the first to do so decides."""
        rules = self.rules.setdefault(message.store, [])
        if turn < len(rules):
            self._compare(rank, rules[turn][1], message)
            return
        try:
            if message.store in self.multi_precision:
                settings = {**message.settings, "multi_precision": True}
                message = message.changed(settings=settings)
            rules.append((self.make_rule(message), message))
        except Exception as error:
            raise Refusal(
                f"server {self.rank} cannot make optimizer {message.name}: "
                f"{type(error).__name__}: {error}"
            ) from error
        self._applied.pop(message.store, None)

    def _compare(self, rank: int, first: say.SetOptimizer, other: say.SetOptimizer) -> None:
        if (first.name, bool(first.pickled)) != (other.name, bool(other.pickled)):
            raise Refusal(
                f"set_optimizer: worker {rank} sets {other.name}, another worker {first.name}"
            )
        names = {*first.settings, *other.settings}
        if other.store in self.multi_precision:
            names.discard("multi_precision")
        for name in sorted(names):
            one, two = first.settings.get(name), other.settings.get(name)
            if one != two:
                raise Refusal(
                    f"set_optimizer: setting '{name}' of {other.name} is {two!r} on worker "
                    f"{rank} and {one!r} on another worker"
                )

    def agreed(self, shard: Shard, step: Step) -> Regime:
        """The regime of a step, on whose settings all workers have to agree.

        It is the one each worker had set when it pushed; so an optimizer that one worker has set
        already does not touch a step that the others pushed before they set it.
        """
        regimes = iter(step.ranks.values())
        one_for_all = next(regimes)
        if all(regime is one_for_all for regime in regimes):
            return one_for_all
        turn = max(regime.turn for regime in step.ranks.values())
        latest = {rank: r for rank, r in step.ranks.items() if r.turn == turn}
        first_rank = min(latest)
        first = latest[first_rank]
        base = self._base(shard.store, turn)
        for rank, regime in latest.items():
            one, two = first.settings, regime.settings
            if one is two or one == two:
                continue
            both = {n: (one.get(n, base.get(n)), two.get(n, base.get(n)))
                    for n in sorted({*one, *two})}
            differ = ", ".join(
                f"{name} is {here} on worker {first_rank} and {there} on worker {rank}"
                for name, (here, there) in both.items() if here != there
            )
            if differ:
                reason = f"key {shard.name}, step {shard.version + 1}: optimizer setting {differ}"
                raise Fatal(say.Abort(0, "error", reason, "", Role.WORKER, rank, 1))
        return first

    def _base(self, store: int, turn: int) -> Mapping[str, Any]:
        """The settings an optimizer came with."""
        return self.rules[store][turn - 1][1].settings if turn else {}

    def apply(
        self, shard: Shard, rule: Rule, grad: Array | RowSparse, settings: Mapping[str, Any]
    ) -> None:
        """Run the update rule on the shard."""
        try:
            before = self.applied(shard.store)
            if settings is not before:
                base = self.rules[shard.store][-1][1].settings
                back = {name: base[name] for name in before if name in base}  # set by a later step
                rule.configure({**back, **settings})
                self._applied[shard.store] = settings
            rule.update(shard.key, shard.part, shard.writable(), grad)
        except Exception as error:
            reason = (
                f"the optimizer failed on server {self.rank}, key {shard.name}, step "
                f"{shard.version}: {type(error).__name__}: {error}"
            )
            raise Fatal(
                say.Abort(0, "error", reason, traceback.format_exc(), Role.SERVER, self.rank, 1)
            ) from error

    # -- states ---------------------------------------------------------------------------------

    def _needed(self, store: int, what: str) -> Rule:
        rule = self.latest(store)
        if rule is None:
            raise Refusal(f"{what}: no optimizer has been set")
        return rule

    def states(
        self, store: int, shards: Sequence[Shard]
    ) -> tuple[dict[str, Any], tuple[Item, ...]]:
        """The states of the shards: their layout, and the arrays in its order."""
        rule = self._needed(store, "save_optimizer_states")
        places = {(shard.key, shard.part): shard.place for shard in shards}
        layout: list[Any] = []
        items: list[Item] = []
        for (key, part), state in rule.states().items():
            place = places.get((key, part))
            if place is not None:
                layout.append([key, part, outline(state)])
                items += [_item(place, array) for array in state_arrays(state)]
        counts = [[key, count] for key, count in rule.counts().items()]
        return {"states": layout, "counts": counts}, tuple(items)

    def load(self, message: say.LoadStates) -> None:
        """Take over states laid out as by `states`."""
        rule = self._needed(message.store, "load_optimizer_states")
        arrays = iter([item.data for item in message.items])
        try:
            if message.layout.get("anew"):
                rule.forget_states()
            for key, part, structure in message.layout["states"]:
                rule.set_state(key, part, fill(structure, arrays))
        except (KeyError, TypeError, ValueError, StopIteration) as error:
            raise Refusal(f"load_optimizer_states: not a layout ({error!r})") from error


def _item(place: Item, array: Array) -> Item:
    return Item(place.key, place.part, 0, array.size, array.dtype.name, array.shape, array)
