"""Context: equality, nesting, threads."""
import pickle
import threading

import pytest

import minigluon as mx


def test_equality_and_text():
    assert mx.cpu() == mx.cpu(0) != mx.cpu(1) and hash(mx.cpu(1)) == hash(mx.Context("cpu", 1))
    assert repr(mx.gpu(2)) == "gpu(2)" and mx.Context(mx.cpu(3)) == mx.cpu(3)
    assert mx.cpu_pinned().device_typeid == 3 and mx.cpu() != "cpu(0)"
    assert pickle.loads(pickle.dumps(mx.cpu(4))) == mx.cpu(4)
    with pytest.raises(ValueError, match="device type"):
        mx.Context("tpu")


def test_nesting_of_one_object_in_two_threads():
    ctx = mx.cpu(1)
    inside, leave = threading.Event(), threading.Event()
    seen = []

    def other():
        with mx.cpu(7), ctx:
            inside.set()
            leave.wait(5)
        seen.append(mx.current_context())

    thread = threading.Thread(target=other)
    with ctx:
        thread.start()
        inside.wait(5)
        with ctx:
            assert mx.current_context() == ctx
        leave.set()
        thread.join()
    assert mx.current_context() == mx.cpu(0) and seen == [mx.cpu(0)]


def test_the_default_may_be_assigned():
    before = mx.Context.default_ctx
    assert before == mx.cpu(0)
    try:
        mx.Context.default_ctx = mx.cpu(3)
        assert mx.current_context() == mx.cpu(3) == mx.nd.ones(1).context
        with mx.cpu(4):
            assert mx.Context.default_ctx == mx.cpu(4)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(mx.Context.default_ctx))
        thread.start()
        thread.join()
        assert seen == [mx.cpu(0)]
    finally:
        mx.Context.default_ctx = before


@pytest.mark.skipif(mx.num_gpus() > 0, reason="asks what is said without a GPU")
def test_memory_of_a_gpu_that_is_not_there():
    with pytest.raises(mx.MXNetError):
        mx.context.gpu_memory_info(0)


@pytest.mark.gpu
def test_memory_of_a_gpu():
    free, total = mx.context.gpu_memory_info(0)
    assert 0 < free <= total
