"""A tiny launcher for tests: scheduler, servers and workers as real processes on this machine."""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRELUDE = """
import os, sys, time
import numpy as np
import minigluon as mx
from minigluon import nd

def compute(seconds):
    'Stands for work of so long, by which this worker comes later than others.'
    time.sleep(seconds)
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Job:
    """Starts the roles at once; `with` sees to it that none is left.

    Args:
        script: Python text of a worker (after PRELUDE).
        workers, servers: how many.
        missing_workers: so many of the workers are not started.
        env: for all roles; `env_of` by label ("worker 1") on top.
        token: the job token; None for none.
        own_server: Python text (after PRELUDE) that runs each server.
    """

    def __init__(self, script, workers=2, servers=1, missing_workers=0, env=None, env_of=None,
                 token="secret", worker_ids=True, own_server=""):
        self.port = free_port()
        self.script = tempfile.NamedTemporaryFile("w", suffix=".py", delete=False)
        self.script.write(PRELUDE + script)
        self.script.close()
        self.base = {k: v for k, v in os.environ.items()
                     if not k.startswith(("DMLC_", "PS_", "MINIGLUON_"))}
        self.base.update(
            PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
            DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=str(self.port),
            DMLC_NUM_WORKER=str(workers), DMLC_NUM_SERVER=str(servers),
            MINIGLUON_START_TIMEOUT="20", MINIGLUON_OP_TIMEOUT="15", PYTHONUNBUFFERED="1",
            PYTHONWARNINGS="error")
        self.base.update({} if token is None else {"MINIGLUON_JOB_TOKEN": token})
        self.base.update(env or {})
        self.env_of = env_of or {}
        self.worker_ids = worker_ids
        self.processes = {}
        self.out = {}
        role = [sys.executable, "-m", "minigluon.kvstore.dist"]
        self.start("scheduler", "scheduler", role)
        for rank in range(servers):
            ids = {"DMLC_SERVER_ID": str(rank)}
            if own_server:  # a script that runs a server without the role in its environment
                own = [sys.executable, "-c", PRELUDE + own_server]
                self.start(f"server {rank}", "", own, ids)
            else:
                self.start(f"server {rank}", "server", role, ids)
        for rank in range(workers - missing_workers):
            ids = {"DMLC_WORKER_ID": str(rank)} if worker_ids else {}
            self.start(f"worker {rank}", "worker", [sys.executable, self.script.name], ids)

    def start(self, label, role, command, env=None):
        self.out[label] = tempfile.TemporaryFile("w+")
        env = {**self.base, **(env or {}), "DMLC_ROLE": role, **self.env_of.get(label, {})}
        self.processes[label] = subprocess.Popen(
            command, env=env, stdout=self.out[label], stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        for file in self.out.values():
            file.close()
        os.unlink(self.script.name)

    def text(self, label):
        self.out[label].flush()
        return Path(f"/proc/self/fd/{self.out[label].fileno()}").read_text()

    def everything(self):
        return "\n".join(f"--- {label} ({process.poll()})\n{self.text(label)}"
                         for label, process in self.processes.items())

    def wait_for(self, label, text, limit=20):
        end = time.monotonic() + limit
        while text not in self.text(label):
            assert time.monotonic() < end, f"{label} never wrote {text!r}\n{self.everything()}"
            assert self.processes[label].poll() is None or text in self.text(label), (
                f"{label} ended early\n{self.everything()}")
            time.sleep(0.02)

    def kill(self, label, signum=signal.SIGKILL):
        self.processes[label].send_signal(signum)

    def codes(self, limit=20):
        """Exit codes of all; fails if somebody is still there after `limit` seconds."""
        end = time.monotonic() + limit
        for label, process in self.processes.items():
            try:
                process.wait(max(0.01, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{label} still runs\n{self.everything()}") from None
        return {label: process.returncode for label, process in self.processes.items()}

    def succeed(self, limit=20):
        codes = self.codes(limit)
        assert not any(codes.values()), f"{codes}\n{self.everything()}"
        return self
