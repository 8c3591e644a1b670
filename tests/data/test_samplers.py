"""Samplers: order, batches, and the equal split among workers."""
import subprocess
import sys

import numpy as np
import pytest

import minigluon as mx
from minigluon.gluon.data import (
    BatchSampler,
    FilterSampler,
    RandomSampler,
    SequentialSampler,
    SplitSampler,
)


def test_sequential():
    assert list(SequentialSampler(4)) == [0, 1, 2, 3]
    assert list(SequentialSampler(2, start=7)) == [7, 8]
    assert len(SequentialSampler(5)) == 5


def test_random_is_a_new_permutation_each_time():
    sampler = RandomSampler(200)
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(200))
    assert first != second and first != list(range(200))
    assert all(type(index) is int for index in first)


def test_seed_repeats_the_shuffle():
    mx.random.seed(5)
    first = list(RandomSampler(100))
    mx.random.seed(5)
    assert list(RandomSampler(100)) == first
    mx.random.seed(6)
    assert list(RandomSampler(100)) != first


def test_unseeded_processes_differ():
    code = "from minigluon.gluon.data import RandomSampler; print(list(RandomSampler(50)))"
    outputs = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              check=True).stdout for _ in range(2)}
    assert len(outputs) == 2


def test_filter():
    assert list(FilterSampler(lambda x: x % 2, [1, 2, 3, 4, 5])) == [0, 2, 4]


@pytest.mark.parametrize(("last", "expected", "length"), [
    ("keep", [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]], 4),
    ("discard", [[0, 1, 2], [3, 4, 5], [6, 7, 8]], 3),
])
def test_batches(last, expected, length):
    batches = BatchSampler(SequentialSampler(10), 3, last)
    assert list(batches) == expected == list(batches)
    assert len(batches) == length


def test_rollover_goes_into_the_next_epoch():
    batches = BatchSampler(SequentialSampler(10), 3, "rollover")
    assert len(batches) == 3
    assert list(batches) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert len(batches) == 3  # 11 samples
    assert list(batches) == [[9, 0, 1], [2, 3, 4], [5, 6, 7]]
    assert len(batches) == 4  # 12 samples
    assert list(batches) == [[8, 9, 0], [1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_bad_batch_arguments():
    with pytest.raises(ValueError, match="'keep', 'discard' or 'rollover'"):
        BatchSampler(SequentialSampler(3), 2, "half")
    with pytest.raises(ValueError, match="batch_size"):
        BatchSampler(SequentialSampler(3), 0)


# -- SplitSampler ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [True, False])
def test_ranks_cover_everything_once_without_a_seed(shuffle):
    parts = [SplitSampler(8, 4, rank, shuffle=shuffle) for rank in range(4)]
    for _ in range(3):
        taken = [index for part in parts for index in part]
        assert sorted(taken) == list(range(8))


@pytest.mark.parametrize("last", ["wrap", "drop"])
@pytest.mark.parametrize(("length", "count"), [(101, 2), (10, 4), (7, 3), (3, 5)])
def test_every_part_has_the_same_length(length, count, last):
    parts = [SplitSampler(length, count, rank, last=last) for rank in range(count)]
    taken = [list(part) for part in parts]
    size = length // count if last == "drop" else -(-length // count)
    assert [len(part) for part in parts] == [len(one) for one in taken] == [size] * count
    together = np.concatenate(taken) if size else np.array([])
    seen = np.bincount(together.astype(int), minlength=length)
    assert seen.max(initial=0) <= (1 if last == "drop" else -(-size * count // length))
    if last == "wrap":
        assert seen.min() >= 1


def test_each_epoch_shuffles_anew_and_alike():
    one, other = (SplitSampler(50, 2, 0, seed=3) for _ in range(2))
    epochs = [list(one) for _ in range(3)]
    assert epochs == [list(other) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    other.set_epoch(1)
    assert list(other) == epochs[1]
    assert list(SplitSampler(50, 2, 0, seed=4)) != epochs[0]


def test_job_id_is_the_common_seed(monkeypatch):
    monkeypatch.setenv("MINIGLUON_JOB_ID", "one")
    first = [list(SplitSampler(30, 3, rank)) for rank in range(3)]
    assert sorted(index for part in first for index in part) == list(range(30))
    mx.random.seed(99)  # of one rank alone: must not change what the ranks agreed on
    assert list(SplitSampler(30, 3, 1)) == first[1]
    monkeypatch.setenv("MINIGLUON_JOB_ID", "two")
    assert list(SplitSampler(30, 3, 1)) != first[1]


def test_single_part_follows_the_seed_of_the_process():
    mx.random.seed(1)
    first = list(SplitSampler(40))
    second = list(SplitSampler(40))
    mx.random.seed(1)
    assert list(SplitSampler(40)) == first != second


def test_unshuffled_parts_are_ranges():
    assert [list(SplitSampler(6, 2, rank, shuffle=False)) for rank in range(2)] == [
        [0, 1, 2], [3, 4, 5]]


def test_bad_split_arguments():
    with pytest.raises(ValueError, match="part_index"):
        SplitSampler(10, 2, 2)
    with pytest.raises(ValueError, match="'wrap' or 'drop'"):
        SplitSampler(10, 2, 1, last="keep")
    with pytest.raises(ValueError, match="length"):
        SplitSampler(0, 2, 1)
