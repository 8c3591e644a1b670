"""The engine's promises: readers wait for writes, errors surface once at the right read."""
import threading

import numpy as np
import pytest
from forked import in_child

import minigluon as mx
from minigluon.device import engine


def test_reader_waits_until_the_ticket_is_done():
    x = mx.nd.zeros((3,))
    ticket = engine.begin([x._variable()], "test write")
    seen = []
    reader = threading.Thread(target=lambda: seen.append(x.asnumpy()))
    reader.start()
    reader.join(0.05)
    assert reader.is_alive() and not seen
    x._data[...] = 7
    ticket.done()
    reader.join(5)
    assert seen[0].tolist() == [7, 7, 7]


def test_views_wait_too_and_operators_queue_behind_the_write():
    x = mx.nd.zeros((4,))
    view = x[1:3]
    ticket = engine.begin([x._variable()])

    def finish():
        x._data[...] = 2
        ticket.done()

    threading.Timer(0.05, finish).start()
    assert (view + 1).asnumpy().tolist() == [3, 3]


def test_view_made_while_pending_shares_the_wait():
    x = mx.nd.zeros((2, 2))
    ticket = engine.begin([x._variable()])
    row = x.reshape((4,))
    ticket.fail(mx.MXNetError("lost"))
    with pytest.raises(mx.MXNetError, match="lost"):
        row.asnumpy()


def test_error_surfaces_once_at_the_next_read():
    x = mx.nd.zeros((2,))
    engine.begin([x._variable()], "pull of key w").fail(mx.base.PeerLost("server 0 died"))
    with pytest.raises(mx.base.PeerLost, match="server 0"):
        (x + 1).asnumpy()
    assert x.asnumpy().tolist() == [0, 0]


def test_waitall_reports_an_unseen_error_once():
    x, y = mx.nd.zeros((2,)), mx.nd.zeros((2,))
    engine.begin([x._variable()]).fail(mx.MXNetError("first"))
    engine.begin([y._variable()]).done()
    with pytest.raises(mx.MXNetError, match="first"):
        mx.nd.waitall()
    mx.nd.waitall()
    assert y.asnumpy().tolist() == [0, 0]


def test_push_keeps_an_error_for_the_reader_of_what_it_writes():
    x = mx.nd.ones((2,))

    def fails():
        raise mx.MXNetError("in queued work")

    engine.push(fails, writes=[x._variable()])
    with pytest.raises(mx.MXNetError, match="in queued work"):
        x.wait_to_read()
    engine.push(fails)
    with pytest.raises(mx.MXNetError, match="in queued work"):
        mx.nd.waitall()
    mx.nd.waitall()


def test_begin_waits_for_the_earlier_write_of_the_same_array():
    x = mx.nd.zeros((1,))
    first = engine.begin([x._variable()])
    order = []

    def end():
        order.append("first ends")
        first.done()

    threading.Timer(0.05, end).start()
    second = engine.begin([x._variable()])
    order.append("second begins")
    assert order == ["first ends", "second begins"]
    second.done()


def test_pending_array_in_a_forked_child_is_a_clear_error():
    x = mx.nd.zeros((1,))
    ticket = engine.begin([x._variable()], "pull of key 3")

    def read():
        try:
            x.asnumpy()
        except mx.MXNetError as error:
            return str(error)
        return "no error"

    text = in_child(read)
    ticket.done()
    assert "pull of key 3" in text and "fork" in text


def test_writes_wait_for_pending_writes():
    x = mx.nd.zeros((2,))
    ticket = engine.begin([x._variable()])

    def finish():
        x._data[...] = 1
        ticket.done()

    threading.Timer(0.05, finish).start()
    x[:] = 5
    assert np.array_equal(x.asnumpy(), [5, 5])
