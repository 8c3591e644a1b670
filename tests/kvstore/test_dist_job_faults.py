"""Faults of a whole launched job: everything ends in time, and says who failed."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JOB = ROOT / "tests" / "jobs" / "endless_job.py"
LIMIT = 20.0


class Job:
    """A launched job of 2 workers and 2 servers, in its steps."""

    def __init__(self, *arguments):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("DMLC_", "MINIGLUON_JOB"))}
        env.update(PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                   JOB_TEST_MARK=f"{os.getpid()}-{time.monotonic_ns()}")
        self.mark = env["JOB_TEST_MARK"]
        self.launcher = subprocess.Popen(
            [sys.executable, str(ROOT / "tools" / "launch.py"), "-n", "2", "-s", "2",
             sys.executable, str(JOB), *arguments],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines = []

    def read_until(self, text, count):
        for line in self.launcher.stdout:
            self.lines.append(line)
            if text in line:
                count -= 1
                if count == 0:
                    return
        pytest.fail("job ended early:\n" + "".join(self.lines))

    def processes(self):
        """pid -> environment of every live process of this job."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                raw = (entry / "environ").read_bytes()
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            pairs = dict(item.split("=", 1) for item in raw.decode(errors="replace").split("\0")
                         if "=" in item)
            if pairs.get("JOB_TEST_MARK") == self.mark and state != "Z":
                found[int(entry.name)] = pairs
        return found

    def pid_of(self, role, rank=None):
        """The process that runs a role itself: the youngest one with that role and rank."""
        names = {"worker": "DMLC_WORKER_ID", "server": "DMLC_SERVER_ID"}
        pids = [pid for pid, env in self.processes().items()
                if env.get("DMLC_ROLE") == role
                and (rank is None or env.get(names[role]) == str(rank))]
        assert pids, f"no process of {role} {rank}"
        return max(pids)

    def finish(self):
        """The rest of the output and the exit code; fails if anything outlives the limit."""
        begin = time.monotonic()
        rest, _ = self.launcher.communicate(timeout=LIMIT)
        while self.processes() and time.monotonic() - begin < LIMIT:
            time.sleep(0.05)  # the thing measured is that they go by themselves
        left = self.processes()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, f"left behind: {left}"
        return "".join(self.lines) + rest, self.launcher.returncode


@pytest.fixture
def job(request):
    started = Job(*getattr(request, "param", ()))
    yield started
    started.launcher.kill()
    started.launcher.wait()
    for pid in started.processes():
        os.kill(pid, signal.SIGKILL)
    started.launcher.stdout.close()


@pytest.mark.parametrize("role,rank", [("worker", 1), ("server", 0), ("scheduler", None)])
def test_kill_9_of_a_role_ends_the_job_and_names_it(job, role, rank):
    job.read_until("reached step", 2)
    os.kill(job.pid_of(role, rank), signal.SIGKILL)
    output, code = job.finish()
    assert code not in (0, None)
    name = role if rank is None else f"{role} {rank}"
    summary = output.strip().splitlines()[-12:]
    assert any(name in line and ("SIGKILL" in line or "died" in line or "killed" in line)
               for line in summary), output


def test_kill_9_of_the_launcher_ends_every_process(job):
    job.read_until("reached step", 2)
    assert len(job.processes()) >= 6
    os.kill(job.launcher.pid, signal.SIGKILL)
    _, code = job.finish()
    assert code == -signal.SIGKILL


@pytest.mark.parametrize("signum,code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_to_the_launcher(job, signum, code):
    job.read_until("reached step", 2)
    os.kill(job.launcher.pid, signum)
    _, got = job.finish()
    assert got == code


@pytest.mark.parametrize("job", [("--raise-rank", "1")], indirect=True)
def test_a_worker_that_raises_is_shown_last_and_the_rest_is_a_consequence(job):
    output, code = job.finish()
    assert code == 1
    tail = "".join(output.strip().splitlines(keepends=True)[-20:])
    assert "boom in the user's script" in tail and "Traceback" in tail
    assert "worker 1" in tail and "consequence" in tail
