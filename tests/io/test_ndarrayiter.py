"""NDArrayIter and its relatives: what batches hold at the end of an epoch, and after it."""
import pickle

import numpy as np
import pytest

import minigluon as mx
from minigluon.io import DataBatch, DataDesc, DataIter, NDArrayIter, ResizeIter

X, Y = np.arange(20).reshape(10, 2), np.arange(10)


def labels(iterator):
    return [batch.label[0].asnumpy().astype(int).tolist() for batch in iterator]


@pytest.mark.parametrize(("handle", "epochs"), [  # as MXNet 1.9.1 gives them
    ("pad", [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]] * 3),
    ("discard", [[[0, 1, 2, 3], [4, 5, 6, 7]]] * 3),
    ("roll_over", [[[0, 1, 2, 3], [4, 5, 6, 7]],
                   [[8, 9, 0, 1], [2, 3, 4, 5], [6, 7, 8, 9]],
                   [[0, 1, 2, 3], [4, 5, 6, 7]]]),
])
def test_end_of_epoch(handle, epochs):
    iterator = NDArrayIter(X, Y, 4, last_batch_handle=handle)
    for expected in epochs:
        assert labels(iterator) == expected
        with pytest.raises(StopIteration):
            iterator.next()
        iterator.reset()


def test_thousand_samples():
    data = np.arange(1000)
    counts = {}
    for handle in ("pad", "discard", "roll_over"):
        iterator = NDArrayIter(data, data, 128, last_batch_handle=handle)
        batches = labels(iterator)
        counts[handle] = len(batches)
        iterator.reset()
        first = labels(iterator)[0]
        if handle == "pad":
            padded = batches[-1]
    assert counts == {"pad": 8, "discard": 7, "roll_over": 7}
    assert first == padded == [*range(896, 1000), *range(24)]


def test_pad_is_told():
    assert [batch.pad for batch in NDArrayIter(X, Y, 4)] == [0, 0, 2]
    (batch,) = NDArrayIter(X, Y, 205)
    assert batch.data[0].shape == (205, 2) and batch.pad == 195
    assert batch.label[0].asnumpy().tolist() == [i % 10 for i in range(205)]


def test_shuffle_keeps_samples_and_labels_together():
    mx.random.seed(2)
    iterator = NDArrayIter(X, Y, 5, shuffle=True)
    epochs = []
    for _ in range(2):
        for batch in iterator:
            assert np.array_equal(batch.data[0].asnumpy()[:, 0], 2 * batch.label[0].asnumpy())
        iterator.reset()
        epochs.append(labels(iterator))
        assert [*epochs[-1][0], *epochs[-1][1]] == iterator.idx.tolist()
        iterator.reset()
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0][0] + epochs[0][1]) == Y.tolist()


def test_broken_off_epoch_rolls_nothing_over():
    iterator = NDArrayIter(X, Y, 4, last_batch_handle="roll_over")
    next(iterator)
    iterator.reset()
    assert labels(iterator) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    iterator.hard_reset()
    assert labels(iterator)[0] == [0, 1, 2, 3]


def test_what_rolled_over_counts_as_padding():
    iterator = NDArrayIter(np.arange(10), batch_size=4, last_batch_handle="roll_over")
    epochs = []
    for _ in range(2):
        epochs.append([(batch.data[0].asnumpy().tolist(), batch.pad) for batch in iterator])
        iterator.reset()
    assert epochs == [[([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0)],
                      [([8, 9, 0, 1], 2), ([2, 3, 4, 5], 0), ([6, 7, 8, 9], 0)]]


def test_types_and_names():
    iterator = NDArrayIter(X, Y, 4)
    assert iterator.provide_data == [("data", (4, 2))]
    assert iterator.provide_label == [("softmax_label", (4,))]
    assert iterator.next().data[0].dtype == np.float32
    kept = NDArrayIter(mx.nd.array(X, dtype="int32"), None, 4)
    assert kept.next().data[0].dtype == kept.provide_data[0].dtype == np.int32
    assert kept.next().label == [] == NDArrayIter(X, [], 4).next().label
    named = NDArrayIter({"a": X, "b": X}, {"l": Y}, 4)
    assert [name for name, _ in named.provide_data + named.provide_label] == ["a", "b", "l"]
    assert len(named.next().data) == 2
    listed = NDArrayIter([X, X], [Y, Y], 4)
    assert [name for name, _ in listed.provide_data + listed.provide_label] == [
        "_0_data", "_1_data", "_0_softmax_label", "_1_softmax_label"]


def test_refusals():
    with pytest.raises(TypeError, match="expected an NDArray"):
        NDArrayIter("text", Y, 2)
    with pytest.raises(ValueError, match="10 samples, got 9"):
        NDArrayIter(X, np.arange(9), 2)
    with pytest.raises(ValueError, match="last_batch_handle"):
        NDArrayIter(X, Y, 2, last_batch_handle="keep")
    with pytest.raises(ValueError, match="at least one"):
        NDArrayIter([], Y, 2)
    with pytest.raises(ValueError, match="iter_next"):
        NDArrayIter(X, Y, 2).getdata()


def test_step_by_step():
    iterator = NDArrayIter(X, Y, 4)
    assert iterator.iter_next()
    assert iterator.getdata()[0].shape == (4, 2) and iterator.getpad() == 0
    assert iterator.getlabel()[0].asnumpy().tolist() == [0, 1, 2, 3] and iterator.getindex() is None


def test_desc_and_batch():
    desc = DataDesc("data", [3, 4], np.float16, "NTC")
    name, shape = desc
    assert (name, shape, desc.dtype, desc.layout) == ("data", (3, 4), np.float16, "NTC")
    assert desc == ("data", (3, 4)) and pickle.loads(pickle.dumps(desc)).layout == "NTC"
    assert [DataDesc.get_batch_axis(layout) for layout in ("NCHW", "TNC", None)] == [0, 1, 0]
    assert str(DataBatch([mx.nd.zeros((2, 3))])) == (
        "DataBatch: data shapes: [(2, 3)] label shapes: None")
    with pytest.raises(AssertionError, match="list of NDArrays"):
        DataBatch(mx.nd.zeros((2, 3)))


def test_resize():
    longer = ResizeIter(NDArrayIter(X, Y, 4), 5)
    assert longer.provide_data == [("data", (4, 2))] and longer.batch_size == 4
    assert labels(longer) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1], [0, 1, 2, 3], [4, 5, 6, 7]]
    longer.reset()
    assert longer.iter_next() and longer.getlabel()[0].asnumpy()[0] == 0
    assert len(labels(ResizeIter(NDArrayIter(X, Y, 4), 2))) == 2


def test_own_iterator():
    class Three(DataIter):
        def __init__(self):
            super().__init__(1)
            self.left = 3

        def next(self):
            if not self.left:
                raise StopIteration
            self.left -= 1
            return DataBatch([mx.nd.zeros((1,))])

    assert len(list(Three())) == 3
    with pytest.raises(NotImplementedError, match="iter_next"):
        DataIter().next()


def test_arrays_of_a_dict_come_by_name():
    batches = mx.io.NDArrayIter({"b": np.ones((2, 1)), "a": np.zeros((2, 1))}, batch_size=2)
    assert [each.name for each in batches.provide_data] == ["a", "b"]
    assert [array.asnumpy().sum() for array in next(batches).data] == [0, 2]
