"""The memory plan: what lives at the same time never overlaps; no result lies in the arena."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from minigluon.graph.plan import Call, Place, bytes_of, plan


class Step:
    """A made-up native step that adds its inputs; may write over those it says."""

    def __init__(self, inplace: bool = True, scratch: int = 0) -> None:
        self.may, self.bytes = inplace, scratch

    def inplace(self, _input: int, _output: int) -> bool:
        return self.may

    def scratch(self) -> int:
        return self.bytes


def _run(calls: list[Call], inputs: list[np.ndarray], made: Any, block: np.ndarray
         ) -> list[np.ndarray]:
    """What a program does, with NumPy over one buffer of bytes; scratch is filled with rubbish.

    `block`: bytes that the spent inputs lie in.
    """
    arena = np.full(made.arena_bytes, 0x5A, np.uint8)
    arrays: dict[int, np.ndarray] = {}

    def view(slot: int) -> np.ndarray:
        place, where, _dtype, shape = made.slots[slot]
        if place is Place.ALIAS:
            return view(where).reshape(shape)
        if place in (Place.ARENA, Place.KEPT):
            size, memory = bytes_of(("float32", shape)), arena if place is Place.ARENA else block
            assert where % 64 == 0 and where + size <= len(memory)
            return memory[where:where + size].view(np.float32).reshape(shape)
        return arrays[slot]

    for slot, (place, where, _dtype, shape) in enumerate(made.slots):
        if place is Place.INPUT:
            arrays[slot] = inputs[where]
        elif place is Place.OUTPUT:
            arrays[slot] = np.full(shape, np.nan, np.float32)
    for does, ins, outs, free, scratch in made.calls:
        results = does([view(slot) for slot in ins], len(outs))
        if isinstance(does, Native):
            if does.step.bytes:
                assert scratch + does.step.bytes <= len(arena)
                arena[scratch:scratch + does.step.bytes] = 0xFF
            for slot, result in zip(outs, results, strict=True):
                view(slot)[...] = result
        else:
            arrays.update(zip(outs, results, strict=True))
        for slot in free:
            del arrays[slot]
    return [view(slot).copy() for slot in made.returned]


class Native:
    def __init__(self, step: Step) -> None:
        self.step = step

    def __call__(self, arrays: list[np.ndarray], count: int) -> list[np.ndarray]:
        return [sum(array.reshape(-1) for array in arrays).reshape(arrays[0].shape) * (i + 1.0)
                for i in range(count)]


def _random_calls(rng: random.Random) -> tuple[list[Call], int, list[Any], list[int]]:
    inputs = rng.randint(1, 3)
    shapes = [(4, 6), (24,), (2, 12)]
    descs: list[Any] = [("float32", rng.choice(shapes)) for _ in range(inputs)]
    calls = []
    for _ in range(rng.randint(1, 14)):
        kind = rng.choice(["native"] * 4 + ["callback", "alias"])
        ins = tuple(rng.randrange(len(descs)) for _ in range(rng.randint(1, 3)))
        count = 1 if kind == "alias" else rng.randint(1, 2)
        outs = tuple(range(len(descs), len(descs) + count))
        shape = rng.choice(shapes) if kind == "alias" else descs[ins[0]][1]
        descs += [("float32", shape)] * count
        if kind == "alias":
            calls.append(Call("alias", ins[:1], outs, None))
            continue
        step = Step(rng.random() < 0.7, rng.choice([0, 0, 100, 1000]))
        does = Native(step)
        calls.append(Call(step, ins, outs, does) if kind == "native"
                     else Call(None, ins, outs, does.__call__))
    returned = [rng.randrange(len(descs)) for _ in range(rng.randint(1, 4))]
    return calls, inputs, descs, returned


@pytest.mark.parametrize("seed", range(300))
def test_a_plan_computes_what_the_calls_say(seed: int) -> None:
    calls, inputs, descs, returned = _random_calls(random.Random(seed))
    arrays = [np.random.default_rng(i).random(descs[i][1]).astype(np.float32)
              for i in range(inputs)]
    values = dict(enumerate(arrays))
    for call in calls:
        given = [values[slot] for slot in call.inputs]
        results = ([given[0].reshape(descs[call.outputs[0]][1])] if call.step == "alias"
                   else call.does(given, len(call.outputs)))
        values.update(zip(call.outputs, results, strict=True))
    for numbers in ((), range(0, inputs, 2), range(inputs)):
        spent = [(slot, 128 * slot) for slot in numbers]
        made = plan(calls, inputs, descs, returned, spent)
        given, block = [array.copy() for array in arrays], np.zeros(128 * inputs, np.uint8)
        for slot, offset in spent:
            given[slot] = block[offset:offset + 96].view(np.float32).reshape(arrays[slot].shape)
            given[slot][...] = arrays[slot]
        for slot in returned:
            assert made.slots[slot].place is not Place.ARENA
        for one, slot in zip(_run(calls, given, made, block), returned, strict=True):
            np.testing.assert_allclose(one, values[slot], rtol=1e-5)
        for slot in set(range(inputs)).difference(numbers):
            np.testing.assert_array_equal(given[slot], arrays[slot])


def _chain(length: int, inplace: bool) -> Any:
    step = Step(inplace)
    calls = [Call(step, (i,), (i + 1,), Native(step)) for i in range(length)]
    return plan(calls, 1, [("float32", (1000,))] * (length + 1), [length])


def test_a_chain_in_place_needs_no_arena_at_all() -> None:
    made = _chain(6, inplace=True)
    assert made.arena_bytes == 0  # it runs within the array that is returned
    assert [slot.place for slot in made.slots] == [Place.INPUT, *[Place.ALIAS] * 5, Place.OUTPUT]


def test_a_chain_not_in_place_needs_two_buffers() -> None:
    assert _chain(6, inplace=False).arena_bytes == 2 * 4032


def test_an_input_is_never_written_over() -> None:
    made = _chain(1, inplace=True)
    assert [slot.place for slot in made.slots] == [Place.INPUT, Place.OUTPUT]


def test_a_spent_input_is_memory_once_it_was_read() -> None:
    step, descs = Step(False), [("float32", (1000,))] * 6
    calls = [Call(step, (0,), (2,), Native(step)), Call(step, (2,), (3,), Native(step)),
             Call(step, (3, 1), (4,), Native(step)), Call(step, (4,), (5,), Native(step))]
    made = plan(calls, 2, descs, [5], spent=[(0, 64)])
    assert made.slots[2].place is Place.ARENA  # it is written while 0 is read
    assert made.slots[3][:2] == (Place.KEPT, 0) and made.arena_bytes == 4032
    assert plan(calls, 2, descs, [0, 5], spent=[(0, 0)]).arena_bytes == 2 * 4032  # 0 is returned


def test_neighbours_that_were_read_make_room_for_something_large() -> None:
    step = Step(False)
    small, large = ("float32", (1000,)), ("float32", (2000,))
    descs = [small, small, small, large, large]
    calls = [Call(step, (0, 1), (2,), Native(step)), Call(step, (2,), (3,), Native(step)),
             Call(step, (3,), (4,), Native(step))]
    made = plan(calls, 2, descs, [4], spent=[(0, 0), (1, 4032)])
    assert made.slots[3][:2] == (Place.KEPT, 0) and made.arena_bytes == 4032


def test_scratch_does_not_touch_what_lives() -> None:
    step = Step(False, 256)
    calls = [Call(step, (0,), (1,), Native(step)), Call(step, (1,), (2,), Native(step))]
    made = plan(calls, 1, [("float32", (64,))] * 3, [2])
    assert made.slots[1].place is Place.ARENA and made.arena_bytes == 512
    assert all(call[4] != made.slots[1].where for call in made.calls)
