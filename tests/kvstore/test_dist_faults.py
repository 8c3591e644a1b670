"""What goes wrong in a job of real processes: everybody ends in time, and is told why."""
import os
import pickle
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest
from dist_jobs import ROOT, Job, free_port

FAST = {"PS_HEARTBEAT_TIMEOUT": "4", "PS_HEARTBEAT_INTERVAL": "0.3"}
ENDLESS = """
kv = mx.kv.create("dist_sync")
kv.init("w", nd.zeros((4,)))
out = nd.zeros((4,))
step = 0
while True:
    kv.push("w", nd.ones((4,)))
    kv.pull("w", out=out)
    out.wait_to_read()
    assert (out.asnumpy() == kv.num_workers).all()
    step += 1
    if step in (5, 500):
        print("step", step, flush=True)
"""


@pytest.mark.parametrize("victim", ["worker 1", "server 1", "scheduler"])
def test_kill_9_of_any_role_ends_all_with_one_line_that_names_it(victim):
    with Job(ENDLESS, workers=3, servers=2, env=FAST) as job:
        for rank in range(3):
            job.wait_for(f"worker {rank}", "step 5", 40)
        begin = time.monotonic()
        job.kill(victim)
        codes = job.codes(20)
        took = time.monotonic() - begin
        assert codes.pop(victim) == -signal.SIGKILL
        assert set(codes.values()) == {75}, job.everything()
        assert took < 4 + 5 + 6, took  # T_hb + 5 s, and a machine that is shared
        for label in codes:
            lines = [line for line in job.text(label).splitlines() if "job aborted" in line]
            assert len(lines) == 1, job.everything()
            assert f"{victim} (127.0.0.1" in lines[0] or "the scheduler at" in lines[0]
            assert "died (connection lost)" in lines[0]
            if victim.startswith("worker"):
                assert re.search(r"pid \d+\) .* at step \d+, key w", lines[0]), lines
            if label.startswith("worker"):
                assert "PeerLost" in lines[0]


def test_a_worker_that_raises_ends_all_and_its_words_reach_everybody():
    script = ENDLESS.replace("step += 1", "step += 1\n    if step == 3 and kv.rank == 2:\n"
                                          "        raise ValueError('boom')")
    with Job(script, workers=3, servers=1, env=FAST) as job:
        codes = job.codes(40)
        assert codes == {"scheduler": 75, "server 0": 75, "worker 0": 75, "worker 1": 75,
                         "worker 2": 1}
        assert job.text("worker 2").splitlines()[-1] == "ValueError: boom"
        for label in ("scheduler", "server 0", "worker 0", "worker 1"):
            assert re.search(r"worker 2 \(127.*\) failed: ValueError: boom", job.text(label))


UNEVEN = """
kv = mx.kv.create("dist_sync")
kv.init("w", nd.zeros((2,)))
out = nd.zeros((2,))
for step in range(5 - kv.rank):
    kv.push("w", nd.ones((2,)))
    kv.pull("w", out=out)
    out.wait_to_read()
"""


def test_uneven_steps_end_at_once_naming_the_worker_that_stopped_and_its_last_step():
    with Job(UNEVEN, workers=2, servers=1) as job:
        codes = job.codes(40)
        assert codes["worker 0"] == 1 and codes["worker 1"] in (0, 1), job.everything()
        assert re.search(
            r"KVStoreError: .*key w, step 5: waiting for worker 1 .*left after step 4",
            job.text("worker 0"))


MISMATCH = """
kv = mx.kv.create("dist_sync")
kv.init(["a", "b", "c"], [nd.zeros((2,))] * 3)
mine = ["a", "c"] if kv.rank else ["a", "b"]
kv.push(mine, [nd.ones((2,))] * 2)
outs = [nd.zeros((2,)) for _ in mine]
kv.pull(mine, out=outs)
for out in outs:
    out.wait_to_read()
"""


def test_different_keys_are_reported_as_key_and_missing_worker():
    with Job(MISMATCH, workers=2, servers=2, env={"MINIGLUON_OP_TIMEOUT": "2"}) as job:
        codes = job.codes(40)
        assert set(codes.values()) == {75}, job.everything()
        for rank in range(2):
            assert "b (step 1) waits for worker 1; c (step 1) waits for worker 0" in (
                job.text(f"worker {rank}"))
        warned = job.text("server 0") + job.text("server 1")
        assert "warning" not in warned and "since" in warned


def test_the_roll_call_at_the_start_names_who_is_missing():
    env = {"MINIGLUON_START_TIMEOUT": "4"}
    with Job(ENDLESS, workers=2, servers=1, missing_workers=1, env=env) as job:
        codes = job.codes(30)
        assert all(codes.values())
        for label in codes:
            assert "missing: worker 1" in job.text(label), job.everything()
            assert f"127.0.0.1:{job.port}" in job.text(label)


def test_a_worker_without_a_scheduler_says_whom_it_could_not_reach():
    with Job("mx.kv.create('dist_sync')", workers=1, missing_workers=1,
             env={"MINIGLUON_START_TIMEOUT": "1"}) as job:
        job.kill("scheduler")
        job.kill("server 0")
        job.codes()
        job.start("alone", "worker", [sys.executable, job.script.name])
        assert job.processes["alone"].wait(20) == 75
        text = job.text("alone")
        assert f"the scheduler at 127.0.0.1:{job.port} was not reached for 3 s" in text
        assert "connection refused" in text and "KVStoreTimeout" in text


@pytest.mark.parametrize("theirs", ["wrong", ""])
def test_a_worker_with_another_token_is_refused_and_the_job_waits_for_the_right_one(theirs):
    env_of = {"worker 1": {"MINIGLUON_JOB_TOKEN": theirs}}
    with Job("kv = mx.kv.create('dist_sync')\nkv.barrier()", workers=2, env_of=env_of) as job:
        assert job.processes["worker 1"].wait(30) == 1
        assert "wrong job token: MINIGLUON_JOB_TOKEN" in job.text("worker 1")
        job.start("worker 1 again", "worker", [sys.executable, job.script.name],
                  {"DMLC_WORKER_ID": "1"})
        job.processes.pop("worker 1")
        job.succeed(40)


def test_without_any_token_a_job_runs_on_loopback_and_nowhere_else():
    with Job("mx.kv.create('dist_sync').barrier()", workers=1, token=None) as job:
        job.succeed(40)
    with Job("", workers=1, missing_workers=1, token=None,
             env={"DMLC_NODE_HOST": "0.0.0.0"}) as job:
        assert set(job.codes(40).values()) == {1}
        assert "without a job token" in job.text("scheduler")
        assert "without a job token" in job.text("server 0")


@pytest.mark.parametrize("env, words", [
    ({"DMLC_PS_ROOT_URI": "nosuch.invalid"}, "nosuch.invalid"),
    ({"DMLC_PS_ROOT_URI": "192.0.2.7"}, "cannot listen at 192.0.2.7"),
    ({"DMLC_NUM_SERVER": ""}, "not set: DMLC_NUM_SERVER"),
    ({"DMLC_ROLE": "scheduler", "PS_HEARTBEAT_TIMEOUT": "soon"}, "PS_HEARTBEAT_TIMEOUT"),
])
def test_a_scheduler_that_cannot_start_says_why(env, words):
    base = {k: v for k, v in os.environ.items() if not k.startswith("DMLC_")}
    base.update(DMLC_ROLE="scheduler", DMLC_PS_ROOT_URI="127.0.0.1", DMLC_NUM_WORKER="1",
                DMLC_PS_ROOT_PORT=str(free_port()), DMLC_NUM_SERVER="1", PYTHONPATH=str(ROOT),
                MINIGLUON_JOB_TOKEN="t")
    done = subprocess.run([sys.executable, "-c", "import minigluon"], env={**base, **env},
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with Job("", workers=1, missing_workers=1, env={"DMLC_PS_ROOT_PORT": port}) as job:
            assert job.processes["scheduler"].wait(20) == 1
            assert f"cannot listen at 127.0.0.1:{port}" in job.text("scheduler")


def test_a_short_stop_is_survived_and_a_long_one_is_an_error_that_names_the_worker():
    with Job(ENDLESS, workers=2, servers=1, env=FAST) as job:
        for rank in range(2):
            job.wait_for(f"worker {rank}", "step 5", 40)
        job.kill("worker 1", signal.SIGSTOP)
        time.sleep(1)  # the short stop
        job.kill("worker 1", signal.SIGCONT)
        job.wait_for("worker 0", "step 500", 40)
        job.kill("worker 1", signal.SIGSTOP)
        used = cpu(job, "worker 0")
        time.sleep(2)  # the time over which it is measured
        assert cpu(job, "worker 0") - used < 0.3  # waiting costs next to nothing
        assert job.processes["worker 0"].wait(20) == 75, job.everything()
        assert re.search(r"PeerLost: .*worker 1 \(127.*is stopped", job.text("worker 0"))
        job.kill("worker 1", signal.SIGCONT)
        assert set(job.codes(30).values()) == {75}


def cpu(job, label):
    with open(f"/proc/{job.processes[label].pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_script_that_computes_on_without_its_store_is_ended_all_the_same():
    script = ENDLESS.replace("while True:", "if kv.rank == 0:\n    print('step 5', flush=True)\n"
                                            "    time.sleep(60)\nwhile True:")
    with Job(script, workers=2, servers=1, env=FAST) as job:
        job.wait_for("worker 0", "step 5", 40)
        job.kill("worker 1")
        codes = job.codes(30)
        assert codes["worker 0"] == 75
        assert "worker 1" in job.text("worker 0") and "did not call" in job.text("worker 0")


def test_a_script_may_catch_the_loss_and_save_its_work_and_every_later_call_fails_at_once():
    script = ENDLESS.replace("while True:", "def train():\n  global step\n  while True:").replace(
        "\n    ", "\n      ") + """
try:
    train()
except mx.MXNetError as error:
    assert "worker 1" in str(error) and isinstance(error, ConnectionError)
for call in (lambda: kv.push("w", nd.ones((4,))), lambda: kv.pull("w", out=out), kv.barrier):
    begin = time.time()
    try:
        call()
    except mx.MXNetError as error:
        assert "worker 1" in str(error) and time.time() - begin < 0.5
    else:
        raise AssertionError("it works without worker 1")
time.sleep(6)
print("saved", flush=True)
"""
    with Job(script, workers=2, servers=1, env=FAST) as job:
        job.wait_for("worker 1", "step 5", 40)
        job.kill("worker 1")
        codes = job.codes(40)
        assert "saved" in job.text("worker 0") and codes["worker 0"] == 0, job.everything()


def test_a_dead_worker_is_noticed_although_its_forked_child_lives_on():
    script = ENDLESS.replace("while True:", "if kv.rank == 1 and os.fork() == 0:\n"
                                            "    time.sleep(30)\n    os._exit(0)\nwhile True:")
    with Job(script, workers=2, servers=1, env=FAST) as job:
        job.wait_for("worker 1", "step 5", 40)
        job.kill("worker 1")
        begin = time.monotonic()
        assert job.codes(20)["worker 0"] == 75
        assert time.monotonic() - begin < 15


def test_a_forked_child_is_told_that_the_store_is_not_its_own():
    script = """
kv = mx.kv.create("dist_sync")
kv.init("w", nd.zeros((2,)))
pid = os.fork()
if pid == 0:
    try:
        kv.push("w", nd.ones((2,)))
    except mx.MXNetError as error:
        os._exit(7 if "forked" in str(error) else 8)
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
a = nd.ones((2,))
kv.pushpull("w", a)
assert (a.asnumpy() == kv.num_workers).all()
"""
    with Job(script, workers=2, servers=1) as job:
        job.succeed(40)


def listening_ports(job):
    """The ports this job's scheduler and server listen on."""
    ports = {job.port}
    said = r"listening at 127\.0\.0\.1:(\d+), for numbers at port (\d+)"
    ports.update(map(int, re.search(said, job.text("server 0")).groups()))
    assert len(ports) == 3 and 0 not in ports
    return ports


def memory(job, label):
    with open(f"/proc/{job.processes[label].pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


def test_garbage_on_every_port_harms_nothing(tmp_path):
    pwned = tmp_path / "pwned"
    bomb = pickle.dumps(Bomb(str(pwned)))
    # a valid ZMTP 3 greeting, so that what follows reaches the decoder of frames
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + bytes(32)
    ready = b"\x04\x26\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
    noise = os.urandom(1 << 20)
    payloads = [
        b"", noise, bomb,
        greeting + ready + b"\x02" + (1 << 40).to_bytes(8, "big"),
        greeting + ready + b"\x00" + bytes([len(bomb)]) + bomb,
        greeting + ready + b"\x02" + len(noise).to_bytes(8, "big") + noise,
        struct.pack("<4sIIIQQ", b"MGCH", 1, 0, 0, 0, 16 << 20) + noise,
        struct.pack("<4sI", b"MGCH", 1 << 16) + noise,
    ]
    with Job(ENDLESS, workers=2, servers=1, env={**FAST, "PS_VERBOSE": "1"}) as job:
        job.wait_for("worker 0", "step 5", 40)
        before = memory(job, "server 0")
        connections = []
        for port in listening_ports(job):
            for payload in payloads * 3:
                connection = socket.create_connection(("127.0.0.1", port))
                connections.append(connection)
                try:
                    connection.sendall(payload)
                except OSError:
                    continue  # it has been closed on us already
        job.wait_for("worker 0", "step 500", 40)
        assert memory(job, "server 0") - before < 100_000
        assert not pwned.exists()
        for connection in connections:
            connection.close()
        assert all(process.poll() is None for process in job.processes.values())


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)
