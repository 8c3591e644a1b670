"""CSVIter, LibSVMIter, MNISTIter, PrefetchingIter: rounds, parts, files that do not fit."""
import gc
import gzip
import struct
import threading
import weakref

import numpy as np
import pytest

import minigluon as mx
from minigluon.io import CSVIter, DataIter, LibSVMIter, MNISTIter, MXDataIter, NDArrayIter
from minigluon.io import PrefetchingIter as Prefetching


def rows(iterator):
    return [batch.data[0].asnumpy().reshape(iterator.batch_size, -1)[:, 0].astype(int).tolist()
            for batch in iterator]


def joined(lists):
    return [item for each in lists for item in each]


# -- csv -------------------------------------------------------------------------------------------


@pytest.fixture
def csv(tmp_path):
    (tmp_path / "x.csv").write_text("".join(f"{i},{i + 0.5},7,8\n" for i in range(5)))
    (tmp_path / "y.csv").write_text("0\n10\n20\n30\n40\n")
    return tmp_path


@pytest.mark.parametrize(("size", "rounds", "epochs"), [  # as MXNet 1.9.1 gives them
    (2, True, [[[0, 1], [2, 3], [4, 0]], [[1, 2], [3, 4]], [[0, 1], [2, 3], [4, 0]]]),
    (3, True, [[[0, 1, 2], [3, 4, 0]], [[1, 2, 3], [4, 0, 1]], [[2, 3, 4]]]),
    (3, False, [[[0, 1, 2], [3, 4, 2]]] * 3),
])
def test_rounds(csv, size, rounds, epochs):
    iterator = CSVIter(data_csv=csv / "x.csv", data_shape=(4,), batch_size=size,
                       round_batch=rounds)
    for expected in epochs:
        assert rows(iterator) == expected
        with pytest.raises(StopIteration):
            iterator.next()
        iterator.reset()


def test_shapes_labels_and_types(csv):
    iterator = CSVIter(data_csv=csv / "x.csv", data_shape=(2, 2), label_csv=csv / "y.csv",
                       batch_size=2, dtype="float64", data_name="a")
    assert iterator.provide_data == [("a", (2, 2, 2))]
    assert iterator.provide_label == [("softmax_label", (2,))]
    assert iterator.provide_data[0].dtype is np.float64 and isinstance(iterator, MXDataIter)
    batch = iterator.next()
    assert batch.data[0].dtype == np.float64 and batch.data[0].asnumpy()[1, 0, 1] == 1.5
    assert batch.label[0].asnumpy().tolist() == [0, 10] and batch.pad == 0
    assert batch.index.tolist() == [0, 1]
    assert iterator.iter_next() and iterator.getdata().shape == (2, 2, 2)
    plain = CSVIter(data_csv=csv / "x.csv", data_shape=(4,), batch_size=2)
    assert plain.next().label[0].asnumpy().tolist() == [0, 0]


def test_integers_are_cut_off_after_the_point(csv):
    (csv / "x.csv").write_text("1.9,-2.7\n3e1,4\n")
    batch = CSVIter(data_csv=csv / "x.csv", data_shape=(2,), batch_size=2, dtype="int32").next()
    assert batch.data[0].dtype == np.int32
    assert batch.data[0].asnumpy().tolist() == [[1, -2], [30, 4]]
    (csv / "x.csv").write_text("1,x\n")
    with pytest.raises(mx.MXNetError, match=r"x\.csv: could not convert"):
        CSVIter(data_csv=csv / "x.csv", data_shape=(2,), batch_size=1, dtype="int32")


def test_folder_and_parts(csv):
    (csv / "parts").mkdir()
    for word in "ab":
        (csv / "parts" / word).write_text("".join(f"{i},{word == 'b':d}\n" for i in range(3)))
    settings = {"data_csv": csv / "parts", "data_shape": (2,), "batch_size": 2}
    assert rows(CSVIter(**settings)) == [[0, 1], [2, 0], [1, 2]]
    parts = [rows(CSVIter(num_parts=4, part_index=i, **settings)) for i in range(4)]
    assert parts == [[[0, 1]], [[2, 0]], [[1, 2]], [[0, 1]]], "equally many batches everywhere"


def test_csv_refuses(csv):
    def make(**settings):
        return CSVIter(**{"data_csv": csv / "x.csv", "data_shape": (4,), "batch_size": 2,
                          **settings})

    with pytest.raises(mx.MXNetError, match="do not fit"):
        make(data_shape=(3,))
    with pytest.raises(mx.MXNetError, match="no such file"):
        make(data_csv="none.csv")
    with pytest.raises(mx.MXNetError, match="as many samples, got 5"):
        make(batch_size=8)
    with pytest.raises(ValueError, match="batch_size"):
        make(batch_size=0)
    with pytest.raises(ValueError, match="part 2 of 2"):
        make(num_parts=2, part_index=2)
    with pytest.raises(TypeError, match="batch_size"):
        CSVIter(data_csv=csv / "x.csv", data_shape=(4,))
    with pytest.warns(UserWarning, match="unknown argument 'round_bach'; did you mean 'round_bat"):
        make(round_bach=True)
    make(prefetch_buffer=1, ctx="cpu")  # MXNet's, of no use here
    (csv / "y.csv").write_text("1\n2\n")
    with pytest.raises(ValueError, match=r"5 rows, .* 2"):
        make(label_csv=csv / "y.csv")
    (csv / "x.csv").write_text("1,2,x,4\n")
    with pytest.raises(mx.MXNetError, match=r"x\.csv: could not convert"):
        make()


# -- libsvm ----------------------------------------------------------------------------------------

TEXT = "1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n"
DENSE = np.float32([[0.5, 0, 1.2], [0, 0, 0], [0.6, 2.4, 1.2], [0, 0, -1.2]])


def test_libsvm(tmp_path):
    (tmp_path / "x.t").write_text(TEXT)
    settings = {"data_libsvm": tmp_path / "x.t", "data_shape": (3,)}
    iterator = LibSVMIter(batch_size=3, **settings)
    first, second = iterator
    assert first.data[0].stype == "csr"
    assert np.array_equal(first.data[0].asnumpy(), DENSE[:3])
    assert np.array_equal(second.data[0].asnumpy(), DENSE[[3, 0, 1]]) and second.pad == 2
    assert second.label[0].asnumpy().tolist() == [4, 1, -2]
    both = LibSVMIter(label_libsvm=tmp_path / "x.t", label_shape=(3,), batch_size=2, **settings)
    assert np.array_equal(both.next().label[0].asnumpy(), DENSE[:2])
    part = LibSVMIter(batch_size=1, num_parts=2, part_index=1, **settings)
    assert [batch.label[0].asnumpy().tolist() for batch in part] == [[-3], [4]]
    with pytest.raises(ValueError, match="columns from 0 to 1"):
        LibSVMIter(tmp_path / "x.t", (2,), 2)
    with pytest.raises(NotImplementedError, match="round_batch"):
        LibSVMIter(batch_size=2, round_batch=False, **settings)
    (tmp_path / "x.t").write_text("1 a:b\n")
    with pytest.raises(mx.MXNetError, match="line 1"):
        LibSVMIter(batch_size=1, **settings)


# -- mnist -----------------------------------------------------------------------------------------


@pytest.fixture
def digits(tmp_path):
    """Ten pictures of one brightness each, their number times ten."""
    pixels = np.repeat(np.arange(10, dtype=np.uint8) * 10, 28 * 28).tobytes()
    (tmp_path / "images").write_bytes(struct.pack(">IIII", 0x803, 10, 28, 28) + pixels)
    (tmp_path / "labels.gz").write_bytes(
        gzip.compress(struct.pack(">II", 0x801, 10) + bytes(range(10))))
    return {"image": str(tmp_path / "images"), "label": str(tmp_path / "labels"), "batch_size": 4}


def test_mnist(digits):
    iterator = MNISTIter(shuffle=False, **digits)
    assert iterator.provide_data == [("data", (4, 1, 28, 28))]
    for _ in range(2):
        batches = list(iterator)
        assert [batch.label[0].asnumpy().tolist() for batch in batches] == [
            [0, 1, 2, 3], [4, 5, 6, 7]]
        assert batches[0].data[0].asnumpy()[3].max() == np.float32(30 / 256)
        iterator.reset()
    assert MNISTIter(flat=True, **digits).next().data[0].shape == (4, 784)
    quiet = MNISTIter(silent=True, input_shape=(784,), **digits)
    assert quiet.next().data[0].dtype == np.float32


def test_mnist_order_and_parts(digits):
    def order(**settings):
        return [number for batch in MNISTIter(**{**digits, "batch_size": 1, **settings})
                for number in batch.label[0].asnumpy().astype(int).tolist()]

    assert order(seed=1) == order(seed=1) != order(seed=2)
    assert sorted(order(seed=1)) == list(range(10))
    assert order(shuffle=False, num_parts=3, part_index=1) == [4, 5, 6, 7]
    parts = [order(seed=1, num_parts=5, part_index=i) for i in range(5)]
    assert sorted(joined(parts)) == list(range(10))


def test_mnist_refuses(digits):
    with pytest.raises(mx.MXNetError, match="cannot read nowhere"):
        MNISTIter(image="nowhere", label=digits["label"])
    with pytest.raises(mx.MXNetError, match="expected \\(n, height, width\\)"):
        MNISTIter(image=digits["label"], label=digits["label"])


# -- prefetching -----------------------------------------------------------------------------------


def test_prefetching_joins():
    first = NDArrayIter(np.arange(10), np.arange(10), 4)
    second = NDArrayIter(np.arange(10).reshape(10, 1) * 2, None, 4)
    both = Prefetching([first, second], [{"data": "a"}, {"data": "b"}])
    assert both.provide_data == [("a", (4,)), ("b", (4, 1))] and both.batch_size == 4
    assert both.provide_label == [("softmax_label", (4,))] and both.n_iter == 2
    for _ in range(2):
        batches = list(both)
        assert [batch.pad for batch in batches] == [0, 0, 2]
        for batch in batches:
            x, y = (array.asnumpy() for array in batch.data)
            assert np.array_equal(2 * x, y[:, 0]) and len(batch.label) == 1
        both.reset()
    both.next()
    both.reset()
    assert both.next().data[0].asnumpy().tolist() == [0, 1, 2, 3], "broken off in the middle"


def test_prefetching_works_ahead():
    ready = threading.Event()

    class Slow(DataIter):
        provide_data = (("data", (1,)),)
        provide_label = ()
        made = 0

        def next(self):
            self.made += 1
            if self.made == 2:
                ready.set()
            return mx.io.DataBatch([mx.nd.ones((1,)) * self.made])

    ahead = Prefetching(Slow())
    assert ahead.next().data[0].asscalar() == 1
    assert ready.wait(10), "the second is made while the first is used"
    gone = weakref.ref(ahead)
    del ahead
    gc.collect()
    assert gone() is None


def test_prefetching_passes_errors_on():
    class Broken(DataIter):
        provide_data = (("data", (1,)),)
        provide_label = ()

        def next(self):
            raise RuntimeError("no disk")

    with pytest.raises(RuntimeError, match="no disk"):
        Prefetching(Broken()).next()
    uneven = Prefetching([NDArrayIter(np.arange(4), None, 2), NDArrayIter(np.arange(2), None, 2)])
    uneven.next()
    with pytest.raises(AssertionError, match="different length"):
        uneven.next()
    with pytest.raises(TypeError, match="at least one"):
        Prefetching([])
