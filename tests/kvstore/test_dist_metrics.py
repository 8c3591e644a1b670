"""What can be seen of a job: counters, the line, the table, Prometheus' text, the page itself."""
import contextlib
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from dist_jobs import Job

from minigluon.kvstore.dist import messages as say
from minigluon.kvstore.dist.actions import Limits
from minigluon.kvstore.dist.messages import Item, Member, Role, Stall
from minigluon.kvstore.dist.metrics import Endpoint, Picture
from minigluon.kvstore.dist.server import ServerState

ROOT = Path(__file__).parents[2]
MEMBERS = (Member(Role.SERVER, 0, "h", 5, 9, "s0"), Member(Role.WORKER, 0, "h", 0, 1, "w0"),
           Member(Role.WORKER, 1, "h", 0, 2, "w1"))


def item(value=None):
    data = None if value is None else np.full(4, value, np.float32)
    return Item(0, 0, 0, 4, "float32", (4,), data)


def test_a_server_counts_rounds_bytes_and_who_came_last():
    ticks = iter(range(100))
    state = ServerState(0, MEMBERS, "sched", Limits(), None, stopwatch=lambda: next(ticks))
    for uid, rank in (("w0", 0), ("w1", 1)):
        state.handle(say.Attach(0, uid, rank), uid, 0.0)
    state.handle(say.Init(1, 0, "dist_sync", ("w",), (item(0),)), "w0", 0.0)
    for step, late in enumerate((1, 1, 0)):
        first = 1 - late
        state.handle(say.PushPull(2 + step, (item(1),)), f"w{first}", 10.0 * step)
        assert state.report(10.0 * step + 3).stalls == (Stall("w", step + 1, (late,), 3.0),)
        state.handle(say.PushPull(2 + step, (item(1),)), f"w{late}", 10.0 * step + 4)
    report = state.report(50.0)
    assert report.stalls == ()
    wanted = {"rounds": 3, "bytes_in": 6 * 16, "bytes_out": 6 * 16, "keys": 1, "held_bytes": 16,
              "wait_seconds": 12.0, "last_seconds": {"1": 8.0, "0": 4.0}, "merge_seconds": 3,
              "update_seconds": 3}
    assert {name: report.counters[name] for name in wanted} == wanted


def test_line_table_and_prometheus():
    counters = {"rounds": 7, "bytes_in": 12_345_678, "bytes_out": 5, "staleness": {"0": 3, "2": 1},
                "last_seconds": {"0": 1.0, "1": 2.5}, "keys": 4, "held_bytes": 4000,
                "wait_seconds": 3.5}
    picture = Picture("running", MEMBERS, {"w1": (0.5, 9)}, {"s0": counters},
                      (Stall('we"ird', 3, (1,), 2.0),))
    assert picture.line() == ("step 9; in 12 MB; out 5 B; wait 3.5 s; merge 0.0 s; update 0.0 s; "
                              "staleness 0:3 2:1; most waited for: worker 1 (2.5 s)")
    table = picture.table()
    assert 'we"ird (step 3) waits for worker 1 since 2.0 s' in table
    assert re.search(r"server 0 +h +9 .* 4 +4000 B +7", table)
    text = picture.prometheus()
    assert "# TYPE minigluon_rounds counter" in text and "# TYPE minigluon_keys gauge" in text
    assert 'minigluon_rounds{role="server",rank="0"} 7' in text
    assert 'minigluon_staleness{role="server",rank="0",lag="2"} 1' in text
    assert 'minigluon_step{role="worker",rank="1"} 9' in text
    assert 'minigluon_waiting_seconds{key="we\\"ird",for="worker 1"} 2.000' in text
    for line in text.splitlines():
        assert line.startswith("# TYPE ") or re.fullmatch(r'minigluon_\w+\{.*\} [\d.]+', line), line


def test_the_page_is_on_loopback_and_ends():
    endpoint = Endpoint(0)
    assert endpoint._server.server_address[0] == "127.0.0.1"
    address = f"http://127.0.0.1:{endpoint.port}"
    endpoint.picture = Picture("running", MEMBERS)
    with urllib.request.urlopen(address + "/metrics", timeout=5) as answer:
        assert b"minigluon_silent_seconds" in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="404") as caught:
        urllib.request.urlopen(address + "/other", timeout=5)
    caught.value.close()
    endpoint.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)


SLOW = """
kv = mx.kv.create("dist_sync")
kv.init("slow key", nd.zeros((4,)))
out = nd.zeros((4,))
for step in range(3):
    if kv.rank == 1:
        compute(0.5)
    kv.pushpull("slow key", nd.ones((4,)), out=out)
    out.wait_to_read()
print("ready", flush=True)
if kv.rank == 1:
    open(os.environ["GO"]).close()  # waits for who opens it to write
kv.pushpull("slow key", nd.ones((4,)), out=out)
out.wait_to_read()
stats = kv.stats()
assert stats["rounds"] == 4 and stats["last_seconds"]["1"] > 1, stats
"""


def test_the_table_of_a_job_names_the_slow_worker(go):
    env = {"MINIGLUON_METRICS_PORT": "0", "MINIGLUON_STATS": "1", "GO": str(go),
           "PS_HEARTBEAT_INTERVAL": "0.2"}
    with Job(SLOW, workers=2, servers=1, env=env) as job:
        job.wait_for("scheduler", "status at http://127.0.0.1:")
        port = re.search(r"status at http://127.0.0.1:(\d+)/", job.text("scheduler")).group(1)
        job.wait_for("worker 0", "ready")
        job.wait_for("worker 1", "ready")
        command = [sys.executable, str(ROOT / "tools" / "ps_status.py"), port]
        said = ""
        for _ in range(50):
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            if "waits for worker 1" in said:
                break
        assert re.search(r"slow key \(step 4\) waits for worker 1 since \d", said), said
        assert "most waited for so far: worker 1" in said
        with opened(go):
            job.succeed(30)
        assert "most waited for: worker 1" in job.text("scheduler")
    gone = subprocess.run(command, capture_output=True, text=True)
    assert gone.returncode == 75 and "no scheduler at" in gone.stderr


EPOCHS = """
kv = mx.kv.create("dist_sync")
kv.init("w", nd.zeros((4,)))
for epoch in range(2):
    value = nd.ones((4,))
    kv.pushpull("w", value)
    value.wait_to_read()
    kv.barrier()
open(os.environ["GO"]).close()  # waits for who opens it to write
"""


@pytest.fixture
def go(tmp_path):
    """A pipe by name: who opens it to read waits until `opened(go)`."""
    path = tmp_path / "go"
    os.mkfifo(path)
    return path


@contextlib.contextmanager
def opened(go):
    descriptor = os.open(go, os.O_RDWR)  # does not wait for readers
    try:
        yield
    finally:
        os.close(descriptor)


def test_a_line_after_each_epoch_that_ends_with_a_barrier(go):
    env = {"MINIGLUON_STATS": "600", "GO": str(go), "PS_HEARTBEAT_INTERVAL": "0.1"}
    with Job(EPOCHS, workers=2, servers=1, env=env) as job:
        job.wait_for("scheduler", "barrier 2: step 2; in 64 B; out 64 B; wait ", 60)
        with opened(go):
            job.succeed(30)


SHORT = """
kv = mx.kv.create("dist_sync")
kv.init("w", nd.zeros((4,)))
for step in range(3):
    value = nd.ones((4,))
    kv.pushpull("w", value)
    value.wait_to_read()
"""


def test_the_last_line_counts_what_came_after_the_last_heartbeat():
    env = {"MINIGLUON_STATS": "600", "PS_HEARTBEAT_INTERVAL": "60", "PS_HEARTBEAT_TIMEOUT": "600"}
    with Job(SHORT, workers=2, servers=2, env=env) as job:
        job.succeed(30)
        assert "step 3; in 96 B; out 96 B; wait " in job.text("scheduler")
