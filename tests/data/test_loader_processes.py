"""Worker processes of the DataLoader: they end with the loader and say how they died."""
import gc
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import minigluon as mx
from minigluon.gluon.data import ArrayDataset, DataLoader, Dataset, SimpleDataset

LIMIT = 10.0


def children(pid=None):
    """Process numbers of the living children of a process."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    state, parent = file.read().rpartition(")")[2].split()[:2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(parent) == (pid or os.getpid()) and state != "Z":
                found.append(int(name))
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def named_segments():
    """Files in /dev/shm of the kinds that Python and minigluon make."""
    return {name for name in os.listdir("/dev/shm") if name.startswith(("psm_", "minigluon"))}


def eventually(condition):
    limit = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > limit:
            return False
        threading.Event().wait(0.01)
    return True


def run(script, **kwargs):
    return subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
                          capture_output=True, text=True, timeout=60, **kwargs)


def start(script):
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Where(Dataset):
    """Samples that tell the process they were made in."""

    def __len__(self):
        return 64

    def __getitem__(self, idx):
        return os.getpid()


def test_batches_are_made_by_that_many_processes():
    before = set(children())
    loader = DataLoader(Where(), 2, num_workers=3)
    pids = {int(pid) for batch in loader for pid in batch.asnumpy()}
    assert os.getpid() not in pids and len(pids) == 3
    assert pids == set(children()) - before


def test_pools_end_when_iterator_and_loader_are_deleted():
    before = children()
    loaders = [DataLoader(SimpleDataset(list(range(100))), 3, num_workers=4) for _ in range(5)]
    iterators = [iter(loader) for loader in loaders]
    for iterator in iterators:
        next(iterator)
    assert len(children()) == len(before) + 20
    del loaders
    assert next(iterators[0]).asnumpy().tolist() == [3, 4, 5]  # an iterator keeps its loader alive
    del iterators, iterator
    assert set(children()) <= set(before)


def test_auto_reload_pool_ends_too():
    before = children()
    loader = DataLoader(range(6), 2, num_workers=2, auto_reload=True)
    assert len(list(loader)) == 3
    del loader
    assert set(children()) <= set(before)


def test_breaking_off_is_quiet_and_complete():
    result = run("""
        import os, subprocess
        import numpy as np
        from minigluon.gluon.data import ArrayDataset, DataLoader
        loader = DataLoader(ArrayDataset(np.ones((100, 5))), 4, num_workers=2)
        for _ in range(20):
            for batch in loader:
                break
        del loader
        with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
            print("children:", file.read())
    """)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split() == ["children:"]


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)", "del loader"])
def test_quiet_at_interpreter_exit(end):
    result = run(f"""
        import numpy as np
        from minigluon.gluon.data import DataLoader
        loader = DataLoader(np.ones((100, 5)), 4, num_workers=4)
        iterator = iter(loader)
        next(iterator)
        {end}
    """)
    assert (result.returncode, result.stderr) == (0, "")


def test_shared_memory_is_flat_and_gone():
    def mappings(pid, what):
        with open(f"/proc/{pid}/maps") as file:
            return file.read().count(what)

    earlier = mappings("self", "minigluon-batch")
    data = ArrayDataset(np.ones((50, 3, 64, 64), np.float32))
    loader = DataLoader(data, 2, num_workers=4)
    for _ in range(5):
        descriptors = set()
        for batch in loader:
            assert batch.shape == (2, 3, 64, 64)
            descriptors.add(len(os.listdir("/proc/self/fd")))
        assert len(descriptors) == 1
        for pid in ("self", *children()):
            assert mappings(pid, "/dev/shm") == 0
    assert mappings("self", "minigluon-batch") <= earlier + 1  # of the last batch


ENDLESS = """
    import time
    import numpy as np
    from minigluon.gluon.data import DataLoader, Dataset
    class Slow(Dataset):
        def __len__(self): return 1000
        def __getitem__(self, idx):
            if idx > 20: time.sleep(60)
            return np.ones((3, 64, 64))
    for number, batch in enumerate(DataLoader(Slow(), 2, num_workers=3)):
        if number == 9: print("ready", flush=True)
"""


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_a_killed_parent(sign):
    shared = named_segments()
    parent = start(ENDLESS)
    try:
        assert parent.stdout.readline() == "ready\n"
        workers = children(parent.pid)
        assert len(workers) == 3
        parent.send_signal(sign)
        _, errors = parent.communicate(timeout=LIMIT)
        assert eventually(lambda: not any(alive(pid) for pid in workers))
    finally:
        parent.kill()
    assert named_segments() <= shared
    if sign == signal.SIGINT:
        assert errors.count("KeyboardInterrupt") == 1  # the parent's; no worker's
    else:
        assert errors == ""


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_killed_worker_is_reported_soon(sign):
    class Killed(Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, idx):
            if idx == 20:
                os.kill(os.getpid(), sign)
            return idx

    before = children()
    loader = DataLoader(Killed(), 2, num_workers=2)
    begin = time.monotonic()
    with pytest.raises(mx.MXNetError, match=rf"worker \d .*{sign.name}.* batch 10"):
        list(loader)
    assert time.monotonic() - begin < 5
    assert set(children()) <= set(before)
    iterator = iter(loader)  # new workers
    assert next(iterator).asnumpy().tolist() == [0, 1]


def test_worker_that_leaves_by_itself_is_reported():
    class Leaving(Where):
        def __getitem__(self, idx):
            os._exit(3)

    with pytest.raises(mx.MXNetError, match="exit code 3 while it made batch 0"):
        next(iter(DataLoader(Leaving(), 2, num_workers=1)))


def test_system_exit_in_a_sample_does_not_end_the_parent():
    class Exiting(Where):
        def __getitem__(self, idx):
            raise SystemExit(4)

    with pytest.raises(mx.MXNetError, match="traceback") as caught:
        next(iter(DataLoader(Exiting(), 2, num_workers=1)))
    assert "SystemExit: 4" in str(caught.value.__cause__)


def test_traceback_of_the_worker_is_shown():
    result = run("""
        from minigluon.gluon.data import DataLoader
        def broken(x):
            return 1 // (x - 5)
        from minigluon.gluon.data import SimpleDataset
        list(DataLoader(SimpleDataset(range(9)).transform(broken), 4, num_workers=2))
    """)
    assert result.returncode == 1
    assert re.search(r"DataLoader worker \d, batch 1:\n", result.stderr)
    assert "in broken" in result.stderr and "while loading sample 5" in result.stderr
    assert "\nZeroDivisionError: " in result.stderr


def test_exception_that_cannot_be_pickled():
    class Odd(Exception):
        def __init__(self, a, b):
            super().__init__(f"{a} {b}")

    class Failing(Where):
        def __getitem__(self, idx):
            raise Odd("left", "right")

    with pytest.raises(mx.MXNetError) as caught:
        next(iter(DataLoader(Failing(), 2, num_workers=1)))
    assert "left right" in str(caught.value.__cause__) and "sample 0" in str(caught.value.__cause__)


def test_batch_that_cannot_be_pickled():
    loader = DataLoader(range(4), 2, num_workers=1, batchify_fn=lambda samples: threading.Lock())
    with pytest.raises(TypeError, match="pickle"):
        next(iter(loader))


def test_inherited_sockets_are_closed_in_workers():
    """A peer of this process must see it die although its workers may live a moment longer."""
    here, there = socket.socketpair()
    loader = DataLoader(Where(), 2, num_workers=2)
    next(iter(loader))
    here.close()
    there.settimeout(LIMIT)
    assert there.recv(1) == b""  # end of stream: no worker holds the other side
    there.close()


def test_fork_beside_threads_is_quiet():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        batches = list(DataLoader(range(8), 2, num_workers=2))  # warnings are errors in tests
    finally:
        stop.set()
        thread.join()
    assert len(batches) == 4


def test_loader_made_in_a_thread_that_ended():
    made = []
    thread = threading.Thread(target=lambda: made.append(DataLoader(range(8), 2, num_workers=2)))
    thread.start()
    thread.join()
    assert [batch.asnumpy().tolist() for batch in made[0]] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_forked_user_process_leaves_the_pool_alone():
    loader = DataLoader(range(8), 2, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    pid = os.fork()
    if pid == 0:
        del iterator, loader
        gc.collect()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert next(iterator).asnumpy().tolist() == [2, 3]


def test_more_batches_than_descriptors():
    result = run("""
        import resource
        import numpy as np
        from minigluon.gluon.data import DataLoader
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
        kept = list(DataLoader(np.ones((600, 300)), 1, num_workers=2, prefetch=60))
        assert len(kept) == 600 and all((batch.asnumpy() == 1).all() for batch in kept)
    """)
    assert (result.returncode, result.stderr) == (0, "")


def test_long_index_lists_and_small_ones():
    data = np.arange(100_000)
    batches = list(DataLoader(data, 40_000, num_workers=1, prefetch=200))
    assert np.array_equal(np.concatenate([batch.asnumpy() for batch in batches]), data)
    assert len(list(DataLoader(data[:3000], 1, num_workers=1, prefetch=2000))) == 3000


def test_empty_arrays_pass():
    (batch,) = DataLoader(np.ones((3, 0, 2)), 3, num_workers=1)
    assert batch.shape == (3, 0, 2)
    (batch,) = DataLoader(range(300), 300, num_workers=1,
                          batchify_fn=lambda s: [np.array(s), np.array([]), "word"])
    assert batch[0].tolist() == list(range(300)) and batch[1].shape == (0,) and batch[2] == "word"
