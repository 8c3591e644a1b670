"""Threads at the native ends of the parameter server, in a job of real processes.

`tools/sanitize.sh thread-kvstore` runs this under ThreadSanitizer: no process has the GIL of
another, so what orders the accesses of its threads is what does in use.
"""
import contextlib

import pytest
from dist_jobs import Job

from minigluon.device.cpu.native import core

pytestmark = pytest.mark.skipif(not hasattr(core, "kv_lanes"), reason="without the native core")

# Each thread has a list of its own, with keys on all servers.
THREADS = """
import socket, threading
from minigluon.base import KVStoreError
from minigluon.kvstore.dist.messages import Node, Role
sys.setswitchinterval(1e-4)
kv = mx.kv.create("dist_sync")
client = kv._client
count, rounds, all_well = 4, int(os.environ["ROUNDS"]), True
lists = [[f"{t}.{i}" for i in range(4)] for t in range(count)]
shapes = [(40,), (3, 5), (7,), (200,)]
for names in lists:
    kv.init(names, [nd.zeros(shape) for shape in shapes])
together = threading.Barrier(count)
natively, called = [], client.call
client.call = lambda *request: natively.append(called(*request)) or natively[-1]

def tell(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")  # in one piece

def exchange(t, step, outs):
    kv.pushpull(lists[t], [nd.full(shape, step * 10 + kv.rank + t) for shape in shapes], out=outs)

def expect(t, step, outs):
    wanted = sum(step * 10 + rank + t for rank in range(kv.num_workers))
    for out in outs:
        assert (out.asnumpy() == wanted).all(), (t, step, wanted, out)

def work(t):
    outs = [nd.zeros(shape) for shape in shapes]
    together.wait()
    for step in range(1, rounds + 1):
        exchange(t, step, outs)
        if t == 1 and all_well:
            mx.nd.waitall()              # for those of others, too: it would take their errors
        if t < 3 or step % 5 == 0:       # else the next call finds this one under way
            expect(t, step, outs)
        if step % 40 == 0:               # everybody at once again
            together.wait()
    return outs

def run(body):
    def guarded(t):
        try:
            body(t)
        except KVStoreError as error:
            tell("thread", t, type(error).__name__, error)
        else:
            tell("thread", t, "ended")

    threads = [threading.Thread(target=guarded, args=(t,)) for t in range(count)]
    for thread in threads:
        thread.start()
    return threads

def join(threads):
    for thread in threads:
        thread.join()
"""

WELL = THREADS + """
outs, steps = [nd.zeros(shape) for shape in shapes], range(1, 2 * rounds)
everybody = threading.Barrier(count + 1)

def watch(t):
    for step in steps:
        everybody.wait()
        expect(0, step, outs[t:])
        everybody.wait()

watchers = run(watch)
for step in steps:      # servers do these by themselves; several threads wait for the same sums
    exchange(0, step, outs)
    everybody.wait()
    expect(0, step, outs)
    everybody.wait()
join(watchers)
join(run(work))         # and these now and then
kv.barrier()
tell("natively", sum(natively) > len(natively) // 2 > rounds)
"""

# A server that says how many rounds native code has done.
SERVER = """
from minigluon.kvstore.dist import rounds
from minigluon.kvstore.dist.node import serve
tell, told = rounds.Rounds.tell, []

def counts(self, machine):
    before = self._done
    tell(self, machine)
    told.append(self._done - before)

rounds.Rounds.tell = counts
code = serve(lambda *command: None)
print("did", sum(told), "rounds")
sys.exit(code)
"""

# Worker 1 stands still in mid-round: the threads of worker 0 wait for sums that do not come.
WAITS = THREADS + """
all_well, waiting = False, threading.Event()

def body(t):
    outs = work(t)
    together.wait()
    exchange(t, rounds + 1, outs)
    together.wait()
    waiting.set()
    outs[t].asnumpy()

if kv.rank:
    join(run(work))
    tell("stands still")
    threading.Event().wait()
threads = run(body)
waiting.wait()
tell("waits")
"""

# What ends the waiting, and how it is told.
BREAKS = {
    "a lane": ("""
kv.stats()
lane = client.transport.near[client._ways[Node(Role.SERVER, 1)]]
lane.sock.shutdown(socket.SHUT_RDWR)
""", "PeerLost job aborted: server 1 (127.0.0.1"),
    "a server": ("", "PeerLost job aborted: server 1 (127.0.0.1"),
    "the store": ("""
kv.stats()
client.stop()
""", "KVStoreError this KVStore has left the job"),
}


def said(job, rank):
    return sorted(line for line in job.text(f"worker {rank}").splitlines()
                  if line.startswith("thread"))


@contextlib.contextmanager
def run(script, **more):
    with Job(script, workers=2, servers=3, env={"ROUNDS": "120"}, **more) as job:
        yield job
        assert "Sanitizer" not in job.everything(), job.everything()


def test_threads_of_a_worker_exchange_over_all_lanes_at_once():
    with run(WELL, own_server=SERVER) as job:
        job.succeed(60)
        for rank in (0, 1):
            assert said(job, rank) == [f"thread {t} ended" for t in range(4) for _ in range(2)]
            assert "natively True" in job.text(f"worker {rank}"), job.everything()
        assert all(int(job.text(f"server {rank}").split()[1]) > 30 for rank in range(3))


@pytest.mark.parametrize("what", BREAKS)
def test_threads_that_wait_in_mid_round_are_told_that_it_ends(what):
    action, words = BREAKS[what]
    with run(WAITS + action + "join(threads)\n") as job:
        job.wait_for("worker 1", "stands still", 40)
        job.wait_for("worker 0", "waits", 40)
        if what == "a server":
            job.kill("server 1")
        assert job.processes["worker 0"].wait(40) in (0, 75), job.everything()
        assert len(said(job, 0)) == 4, job.everything()
        for t, line in enumerate(said(job, 0)):
            assert line.startswith(f"thread {t} {words}"), job.everything()
