"""DataLoader: what batches hold, in every way of making them."""
import pickle
import random
import time
from multiprocessing.pool import ThreadPool

import numpy as np
import pytest

import minigluon as mx
from minigluon.gluon.data import (
    ArrayDataset,
    BatchSampler,
    DataLoader,
    Dataset,
    SequentialSampler,
)
from minigluon.gluon.data.dataloader import (
    _MultiWorkerIter,
    default_batchify_fn,
    default_mp_batchify_fn,
)

WAYS = [{}, {"num_workers": 2}, {"num_workers": 2, "thread_pool": True},
        {"num_workers": 2, "auto_reload": True},
        {"num_workers": 2, "thread_pool": True, "auto_reload": True}]
ways = pytest.mark.parametrize("way", WAYS, ids=["alone", "processes", "threads", "reload",
                                                 "threads reload"])


class Ragged(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, idx):
        return np.full(idx + 1, idx, np.float32)


class Late(Dataset):
    """Samples that take longer the earlier they are in a batch of workers."""

    def __len__(self):
        return 12

    def __getitem__(self, idx):
        time.sleep(0.02 if idx % 4 == 0 else 0)
        return idx


class Failing(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, idx):
        if idx == 7:
            raise KeyError(f"no picture {idx}")
        return idx


class Drawn(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, idx):
        return np.array([random.random(), np.random.rand(), mx.nd.random.uniform().asscalar()])


def values(loader):
    return [batch.asnumpy().tolist() for batch in loader]


@ways
def test_pairs_in_order_for_several_epochs(way):
    x, y = np.random.rand(10, 3).astype("float32"), np.arange(10, dtype="int32")
    loader = DataLoader(ArrayDataset(x, y), 4, **way)
    assert len(loader) == 3
    for _ in range(3):
        batches = list(loader)
        assert [type(batch) for batch in batches] == [list] * 3
        assert np.array_equal(np.concatenate([a.asnumpy() for a, _ in batches]), x)
        assert np.array_equal(np.concatenate([b.asnumpy() for _, b in batches]), y)
        data, label = batches[-1]
        assert data.shape == (2, 3) and data.dtype == np.float32 and label.dtype == np.int32
        assert data.context == label.context == mx.cpu(0)


@ways
def test_order_is_fixed_when_workers_are_not_equally_fast(way):
    assert values(DataLoader(Late(), 2, **way)) == [[i, i + 1] for i in range(0, 12, 2)]


@ways
def test_batches_can_be_written_to_and_kept(way):
    loader = DataLoader(ArrayDataset(np.zeros((600, 50))), 2, **way)
    kept = list(loader)
    for i, batch in enumerate(kept):
        batch[:] = i
    assert all((batch.asnumpy() == i).all() for i, batch in enumerate(kept))
    assert (next(iter(loader)).asnumpy() == 0).all()


@ways
def test_big_batches(way):
    data = np.random.rand(1024, 11, 12)
    (batch,) = DataLoader(ArrayDataset(data), 1024, **way)
    assert batch.dtype == np.float64 and np.array_equal(batch.asnumpy(), data)


@ways
def test_ragged_samples(way):
    def pad(samples):
        result = mx.nd.zeros((len(samples), 6), ctx=mx.Context("cpu_shared", 0))
        for row, sample in enumerate(samples):
            result[row, : len(sample)] = mx.nd.array(sample)
        return result, [len(sample) for sample in samples]

    batches = list(DataLoader(Ragged(), 3, batchify_fn=pad, **way))
    assert [lengths for _, lengths in batches] == [[1, 2, 3], [4, 5, 6]]
    assert batches[1][0].asnumpy()[2].tolist() == [5] * 6
    with pytest.raises(ValueError, match=r"one shape.*batchify_fn"):
        list(DataLoader(Ragged(), 3, **way))


@ways
def test_lists_of_lists_and_numbers(way):
    samples = [([1, 2], 0), ([3, 4], 1), ([5, 6], 0)]
    (batch,) = DataLoader(samples, 3, **way)
    assert batch[0].asnumpy().tolist() == [[1, 2], [3, 4], [5, 6]]
    assert batch[1].asnumpy().tolist() == [0, 1, 0]


@ways
def test_dataset_may_be_an_array(way):
    assert values(DataLoader(np.arange(4), 2, **way)) == [[0, 1], [2, 3]]
    assert values(DataLoader(mx.nd.array([[1], [2]]), 2, **way)) == [[[1], [2]]]


@ways
def test_last_batch_and_shuffle(way):
    assert values(DataLoader(range(5), 2, last_batch="discard", **way)) == [[0, 1], [2, 3]]
    loader = DataLoader(range(5), 2, last_batch="rollover", **way)
    assert values(loader) == [[0, 1], [2, 3]]
    assert values(loader) == [[4, 0], [1, 2], [3, 4]]
    batches = values(DataLoader(range(50), 7, shuffle=True, **way))
    shuffled = [value for batch in batches for value in batch]
    assert sorted(shuffled) == list(range(50)) != shuffled


def test_shuffle_is_the_same_for_every_number_of_workers():
    orders = []
    for way in WAYS[:3]:
        mx.random.seed(3)
        loader = DataLoader(range(20), 4, shuffle=True, **way)
        orders.append([values(loader) for _ in range(2)])
    assert orders[0] == orders[1] == orders[2]


@ways
def test_sampler_and_batch_sampler(way):
    assert values(DataLoader(range(9), 2, sampler=SequentialSampler(3, 4), **way)) == [[4, 5], [6]]
    assert values(DataLoader(range(9), batch_sampler=[[8, 1], [3]], **way)) == [[8, 1], [3]]


@ways
def test_pin_memory(way):
    for batch in DataLoader(ArrayDataset(np.ones((4, 2)), np.ones(4)), 2, pin_memory=True, **way):
        assert all(array.context == mx.cpu_pinned(0) for array in batch)


@ways
def test_error_shows_the_sample_and_ends_only_that_epoch(way):
    loader = DataLoader(Failing(), 2, **way)
    for _ in range(2):
        seen = []
        with pytest.raises(KeyError, match="no picture 7") as caught:
            for batch in loader:
                seen.append(batch.asnumpy().tolist())
        assert seen == [[0, 1], [2, 3], [4, 5]]
    text = str(caught.getrepr(chain=True)) + str(getattr(caught.value, "__notes__", ""))
    assert "sample 7" in text and "raise KeyError" in text


@pytest.mark.parametrize("way", WAYS[1:3], ids=["processes", "threads"])
def test_timeout(way):
    class Stuck(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, idx):
            time.sleep(1.5)
            return idx

    with pytest.raises(TimeoutError, match=r"0\.1 seconds.*timeout="):
        next(iter(DataLoader(Stuck(), 1, timeout=0.1, **way)))


def test_two_iterators_at_once():
    loader = DataLoader(range(8), 2, num_workers=2)
    for i, pair in enumerate(zip(loader, loader, strict=True)):
        assert [batch.asnumpy().tolist() for batch in pair] == [[2 * i, 2 * i + 1]] * 2


def test_workers_draw_different_numbers_that_a_seed_repeats():
    def epochs():
        mx.random.seed(11)
        loader = DataLoader(Drawn(), 2, num_workers=2)
        return np.array([[batch.asnumpy() for batch in loader] for _ in range(2)])

    first = epochs()
    assert np.array_equal(first, epochs())
    assert len(np.unique(first)) == first.size


def test_recording_does_not_reach_the_workers():
    weight = mx.nd.ones((1,))
    weight.attach_grad()
    with mx.autograd.record():
        loader = DataLoader(ArrayDataset(np.ones((4, 1), "float32")).transform(
            lambda x: float(mx.autograd.is_recording())), 4, num_workers=1)
        (batch,) = loader
    assert batch.asnumpy().tolist() == [0] * 4


@pytest.mark.parametrize(("kwargs", "words"), [
    ({}, "batch_size must be specified"),
    ({"batch_size": 2, "batch_sampler": [[0]]}, "must not be specified if batch_sampler"),
    ({"batch_size": 2, "shuffle": True, "sampler": SequentialSampler(2)}, "if sampler"),
])
def test_arguments_that_do_not_fit(kwargs, words):
    with pytest.raises(ValueError, match=words):
        DataLoader(range(4), **kwargs)


# -- default_batchify_fn, types as in MXNet 1.9.1 -------------------------------------------------


@pytest.mark.parametrize(("samples", "dtype", "shape"), [
    ([1, 2], "int64", (2,)),
    ([1.5, 2.0], "float64", (2,)),
    ([np.int32(3)] * 2, "int32", (2,)),
    ([np.zeros(3)] * 2, "float64", (2, 3)),
    ([np.zeros(3, "uint8")] * 2, "uint8", (2, 3)),
    ([[1, 2, 3]] * 2, "int64", (2, 3)),
    ([True, False], "bool", (2,)),
])
def test_batch_types(samples, dtype, shape):
    for batchify, ctx in ((default_batchify_fn, mx.cpu(0)),
                          (default_mp_batchify_fn, mx.cpu_shared(0))):
        batch = batchify(samples)
        assert (batch.dtype, batch.shape, batch.context) == (np.dtype(dtype).type, shape, ctx)


def test_batch_of_tuples_and_ndarrays():
    samples = [(mx.nd.ones((2,), dtype="float16"), 1), (mx.nd.zeros((2,), dtype="float16"), 2)]
    batch = default_batchify_fn(samples)
    assert type(batch) is list and batch[0].dtype == np.float16
    assert batch[0].asnumpy().tolist() == [[1, 1], [0, 0]] and batch[1].dtype == np.int64


def test_batch_of_what_has_no_array():
    with pytest.raises(TypeError, match="batchify_fn"):
        default_batchify_fn(["a", "b"])


def pickled_batch(indices, batchify_fn, dataset):
    return pickle.dumps(batchify_fn([dataset[i] for i in indices]))


def test_an_iterator_over_a_pool_of_the_callers():
    class Countdown(_MultiWorkerIter):
        def _push_next(self):
            pushed.append(self._sent_idx)
            super()._push_next()

    pushed = []
    sampler = BatchSampler(SequentialSampler(5), 2)
    with ThreadPool(2) as pool:
        found = Countdown(pool, default_batchify_fn, sampler, pin_memory=True,
                          worker_fn=pickled_batch, prefetch=2, dataset=np.arange(5.0))
        batches = list(found)
    assert [batch.asnumpy().tolist() for batch in batches] == [[0, 1], [2, 3], [4]]
    assert len(found) == 3 and batches[0].context.device_type == "cpu_pinned"
    assert pushed[:3] == [0, 1, 2]
