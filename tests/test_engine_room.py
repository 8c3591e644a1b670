"""mx.engine: accepted as in MXNet, without an effect on results."""
import threading

from minigluon import engine, nd


def test_bulk_changes_nothing():
    with engine.bulk(10):
        x = nd.ones((10,))
        x *= 2
        x += 1
        x.wait_to_read()
        x += 1
        assert (x.asnumpy() == 4).all()
        for _ in range(100):
            x += 1
    assert (x.asnumpy() == 104).all()


def test_the_size_belongs_to_a_thread_and_comes_back():
    before = engine.set_bulk_size(20)
    seen = []
    with engine.bulk(5):
        thread = threading.Thread(target=lambda: seen.append(engine.set_bulk_size(1)))
        thread.start()
        thread.join()
    assert seen == [15] and engine.set_bulk_size(before) == 20
