"""Datasets and what is made of them."""
import numpy as np
import pytest

import minigluon as mx
from minigluon.gluon.data import (
    ArrayDataset,
    Dataset,
    SequentialSampler,
    SimpleDataset,
)


class Squares(Dataset):
    def __len__(self):
        return 9

    def __getitem__(self, idx):
        return idx * idx


def items(dataset):
    return [dataset[i] for i in range(len(dataset))]


def test_simple():
    dataset = SimpleDataset([5, 6, 7])
    assert len(dataset) == 3 and dataset[1] == 6 and list(dataset) == [5, 6, 7]


def test_array_dataset():
    x, y = np.arange(6).reshape(3, 2), [7, 8, 9]
    dataset = ArrayDataset(x, y)
    assert len(dataset) == 3
    first, second = dataset[1]
    assert first.tolist() == [2, 3] and second == 8 and type(dataset[1]) is tuple
    assert ArrayDataset(x)[2].tolist() == [4, 5]


def test_array_dataset_of_ndarrays():
    dataset = ArrayDataset(mx.nd.ones((3, 2)), mx.nd.array([1, 2, 3]))
    image, label = dataset[2]
    assert isinstance(image, mx.nd.NDArray) and image.shape == (2,)
    assert isinstance(label, np.float32) and label == 3


def test_array_dataset_of_datasets():
    assert items(ArrayDataset(Squares(), list(range(9))))[3] == (9, 3)


def test_array_dataset_refuses():
    with pytest.raises(AssertionError, match="equal length"):
        ArrayDataset([1], [1, 2])
    with pytest.raises(AssertionError, match="at least one"):
        ArrayDataset()


@pytest.mark.parametrize("lazy", [True, False])
def test_transform(lazy):
    assert items(Squares().transform(lambda x: x + 1, lazy)) == [i * i + 1 for i in range(9)]
    pairs = ArrayDataset([1, 2], [3, 4])
    assert items(pairs.transform(lambda a, b: a * b, lazy)) == [3, 8]
    assert items(pairs.transform_first(lambda a: -a, lazy)) == [(-1, 3), (-2, 4)]
    assert items(SimpleDataset([1, 2]).transform_first(lambda a: -a, lazy)) == [-1, -2]


def test_lazy_means_at_each_use():
    calls = []
    lazy = SimpleDataset([1, 2]).transform(lambda x: calls.append(x) or x)
    assert not calls
    assert lazy[0] == 1 and lazy[0] == 1 and calls == [1, 1]
    eager = SimpleDataset([1, 2]).transform(lambda x: calls.append(x) or x, lazy=False)
    assert calls == [1, 1, 1, 2] and eager[0] == 1 and len(calls) == 4


def test_filter_runs_after_transforms():
    assert items(Squares().transform(lambda x: x + 1).filter(lambda x: x % 2)) == [1, 5, 17, 37, 65]


def test_shard():
    shards = [Squares().shard(4, i) for i in range(4)]
    assert [len(shard) for shard in shards] == [3, 2, 2, 2]
    assert [item for shard in shards for item in items(shard)] == items(Squares())
    with pytest.raises(AssertionError, match="index"):
        Squares().shard(3, 3)


def test_take():
    assert items(Squares().take(3)) == [0, 1, 4]
    assert len(Squares().take(None)) == len(Squares().take(100)) == 9
    with pytest.raises(ValueError, match="count"):
        Squares().take(-1)


def test_sample():
    assert items(Squares().sample(SequentialSampler(2, 3))) == [9, 16]
    with pytest.raises(TypeError, match="Sampler"):
        Squares().sample([1, 2])


# -- whole batches at once -------------------------------------------------------------------------


def twice(x):
    return x * 2


twice.batched = True


@pytest.mark.parametrize("make", [
    lambda data: data,
    lambda data: data.take(5),
    lambda data: data.transform_first(twice),
    lambda data: data.transform(lambda x, y: (x, y)),
    lambda data: data.transform_first(twice).filter(lambda pair: pair[1] != 2),
], ids=["plain", "take", "batched", "by sample", "filtered"])
def test_batch_equals_samples(make):
    dataset = make(ArrayDataset(np.arange(24.0).reshape(8, 3), np.arange(8)))
    batch = dataset._get_batch([3, 0, 3])
    if batch is not None:
        samples = [dataset[i] for i in (3, 0, 3)]
        for field, column in zip(batch, zip(*samples, strict=True), strict=True):
            assert np.array_equal(field, np.stack(column))
            assert field.dtype == np.asarray(column[0]).dtype


def test_who_can_batch():
    data = ArrayDataset(np.ones((4, 2)))
    assert data._get_batch([0, 1]).shape == (2, 2)
    assert data.transform(twice)._get_batch([0, 1]).tolist() == [[2, 2], [2, 2]]
    assert data.transform(lambda x: x)._get_batch([0]) is None
    assert SimpleDataset(["a", "b"])._get_batch([0]) is None


def test_changed_getitem_is_respected():
    class Doubled(ArrayDataset):
        def __getitem__(self, idx):
            return 2 * super().__getitem__(idx)

    dataset = Doubled(np.ones((4, 2)))
    assert dataset._get_batch([0]) is None
    batch = next(iter(mx.gluon.data.DataLoader(dataset, 4)))
    assert batch.asnumpy().tolist() == [[2, 2]] * 4
