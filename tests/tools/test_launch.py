"""The launcher with real processes: output, exit codes, and nothing left behind.

The scheduler and servers are stand-ins (``--role-command``), so that a test costs a fraction of a
second; `tests/kvstore` starts the real ones.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = [sys.executable, str(ROOT / "tools" / "launch.py")]
SLEEP = "sleep 600"
Start = Callable[..., subprocess.Popen[str]]


def run(*arguments: str, roles: str = "true", **settings: str) -> subprocess.CompletedProcess[str]:
    """One job to its end."""
    return subprocess.run(
        [*LAUNCH, "--role-command", roles, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **settings},
        check=False,
    )


def marked(mark: str) -> list[int]:
    """Processes that carry the test's mark in their environment."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                environ = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
                state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if f"MARK={mark}".encode() in environ and state not in "ZX":
                found.append(int(name))
    return found


def wait_until(true: Callable[[], bool], seconds: float) -> bool:
    """Whether the condition comes true in time."""
    limit = time.monotonic() + seconds
    while not true():
        if time.monotonic() > limit:
            return False
        select.select([], [], [], 0.02)
    return True


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> Iterator[str]:
    """A word that every process of the test carries; nothing may carry it afterwards."""
    word = f"{os.getpid()}-{request.node.name}"
    yield word
    wait_until(lambda: not marked(word), 5)
    left = marked(word)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


@pytest.fixture
def start(mark: str) -> Iterator[Start]:
    """Starts a job in the background; kills the launcher at the end if it still runs."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, roles: str = SLEEP) -> subprocess.Popen[str]:
        job = subprocess.Popen(
            [*LAUNCH, "--env", f"MARK={mark}", "--role-command", roles, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(job)
        return job

    yield begin
    for job in started:
        job.kill()
        job.communicate()


def python(tmp_path: Path, code: str) -> str:
    """A script file with that code."""
    path = tmp_path / "t.py"
    path.write_text(code)
    return str(path)


# ---- success and output


def test_success_returns_0_with_every_line_prefixed() -> None:
    done = run("-n", "2", "-s", "1", "bash", "-c", "echo out $DMLC_WORKER_ID; echo err >&2")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == ["worker 0 | out 0", "worker 1 | out 1"]
    assert sorted(done.stderr.splitlines()) == ["worker 0 | err", "worker 1 | err"]


def test_roles_know_their_place(tmp_path: Path) -> None:
    show = "printf '%s ' $DMLC_ROLE$DMLC_WORKER_ID$DMLC_SERVER_ID $A $B; echo"
    done = run(
        *("-n", "2", "-s", "1", "--env", "A=1", "--env-worker", "B=2", "bash", "-c", show),
        roles=f'bash -c "{show}"',
    )
    assert sorted(done.stdout.splitlines()) == [
        "scheduler | scheduler 1 ",
        "server 0 | server0 1 ",
        "worker 0 | worker0 1 2 ",
        "worker 1 | worker1 1 2 ",
    ]


def test_a_script_alone_is_run_and_its_last_unfinished_line_shown(tmp_path: Path) -> None:
    script = python(tmp_path, "import sys; print(sys.argv[1:], end='')")
    done = run("-n", "1", script, "--lr", "0.1")
    assert (done.returncode, done.stdout) == (0, "worker 0 | ['--lr', '0.1']\n")


def test_the_token_is_on_no_command_line(start: Start, mark: str) -> None:
    job = start("-n", "1", "bash", "-c", "echo $MINIGLUON_JOB_TOKEN; sleep 600")
    assert job.stdout is not None
    token = job.stdout.readline().split(" | ")[1].strip()
    assert re.fullmatch("[0-9a-f]{64}", token)
    for pid in [job.pid, *marked(mark)]:
        assert token.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_progress_bar_comes_through_once(tmp_path: Path) -> None:
    script = python(
        tmp_path, "from tqdm import tqdm\nfor _ in tqdm(range(500), mininterval=0): pass\n"
    )
    done = run("-n", "1", script)
    lines = done.stderr.splitlines()
    assert "\r" not in done.stderr
    assert lines[-1].startswith("worker 0 | 100%|")
    assert len(lines) <= 3


def test_much_output_is_complete() -> None:
    done = run("-n", "2", "-s", "1", "seq", "50000")
    assert done.stdout.count("\n") == 100_000
    for worker in ("worker 0", "worker 1"):
        lines = [line for line in done.stdout.splitlines() if line.startswith(worker)]
        assert lines == [f"{worker} | {number}" for number in range(1, 50_001)]


def test_a_reader_that_stops_reading_ends_the_job(mark: str) -> None:
    command = " ".join([*LAUNCH, "--env", f"MARK={mark}", "--role-command true -n 1 yes | head -1"])
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (141, "worker 0 | y\n")


def test_a_reader_that_sleeps_does_not_keep_the_job_from_ending(start: Start, mark: str) -> None:
    job = start("-n", "1", "-s", "1", "--grace", "0.5", "bash", "-c", "trap '' TERM; yes")
    assert job.stdout is not None
    assert job.stdout.readline() == "worker 0 | y\n"
    select.select([], [], [], 0.5)  # let it fill the pipe and the queue
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=10) == 143


def test_colours_and_a_live_bar_on_a_terminal_only(tmp_path: Path) -> None:
    script = python(tmp_path, "import sys; sys.stderr.write('\\r 10%\\r 20%\\n')")
    controller, terminal = os.openpty()
    done = subprocess.run(
        [*LAUNCH, "-n", "1", "--role-command", "true", script],
        stdout=terminal,
        stderr=terminal,
        timeout=30,
        check=False,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(terminal)
    shown = os.read(controller, 4096)
    os.close(controller)
    assert done.returncode == 0
    assert b"\x1b[36mworker 0 |\x1b[0m  20%\r\n" in shown


def test_servers_that_stay_after_the_last_worker_are_ended_with_a_warning(mark: str) -> None:
    stubborn = "bash -c 'trap \"\" TERM; while true; do sleep 600; done'"
    began = time.monotonic()
    done = run("--env", f"MARK={mark}", "-n", "1", "true", roles=stubborn)
    assert time.monotonic() - began < 5
    assert done.returncode == 0
    assert "warning: server 0 still ran" in done.stderr


def test_a_server_that_fails_after_the_last_worker_is_only_a_warning() -> None:
    done = run("-n", "1", "true", roles="bash -c 'sleep 0.3; exit 4'")
    assert done.returncode == 0
    assert "warning: server 0 failed after every worker had ended well (exit code 4)" in done.stderr


def test_verbose_says_what_is_started() -> None:
    done = run("-n", "1", "--verbose", "bash", "-c", "echo $PS_VERBOSE")
    assert done.stdout == "worker 0 | 1\n"
    assert re.search(r"launch: worker 0 \(keeper \d+\): bash -c 'echo \$PS_VERBOSE'", done.stderr)


# ---- failure


def test_a_failing_worker_ends_the_job_with_its_traceback_last(tmp_path: Path, mark: str) -> None:
    script = python(
        tmp_path,
        "import os, time\n"
        "if os.environ['DMLC_WORKER_ID'] == '2': raise ValueError('boom')\n"
        "time.sleep(600)\n",
    )
    began = time.monotonic()
    done = run("--env", f"MARK={mark}", "-n", "3", "-s", "1", script, roles=SLEEP)
    assert time.monotonic() - began < 10
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[-1] == "worker 2 | ValueError: boom"
    summary = next(
        index for index, line in enumerate(lines) if line.startswith("launch: job failed")
    )
    assert "worker 2 ended with exit code 1" in lines[summary]
    assert "scheduler, server 0, worker 0, worker 1: ended as a consequence" in lines[summary + 1]
    assert lines[summary + 2] == "launch: the last lines of worker 2:"
    assert lines[summary + 3] == "worker 2 | Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["bash", "-c", "exit 7"], 7, "worker 0 ended with exit code 7"),
        (["bash", "-c", "kill -9 $$"], 137, "worker 0 was killed by SIGKILL"),
        (["bash", "-c", "kill -SEGV $$"], 139, "worker 0 was killed by SIGSEGV"),
        (["no-such-command"], 127, "no-such-command: No such file or directory"),
        ([str(ROOT)], 126, "Permission denied"),
    ],
)
def test_the_exit_code_is_the_failing_roles(command: list[str], code: int, words: str) -> None:
    done = run("-n", "1", "-s", "1", *command, roles=SLEEP)
    assert done.returncode == code
    assert words in done.stderr


def test_victims_that_end_first_do_not_hide_the_culprit(mark: str) -> None:
    script = "if [ $DMLC_WORKER_ID = 1 ]; then sleep 0.5; kill -9 $$; else exit 75; fi"
    done = run("--env", f"MARK={mark}", "-n", "2", "-s", "1", "bash", "-c", script, roles=SLEEP)
    assert done.returncode == 137
    assert "worker 1 was killed by SIGKILL" in done.stderr
    assert "worker 0: ended as a consequence (exit code 75)" in done.stderr


def test_a_failing_server_is_named(mark: str) -> None:
    server = "bash -c 'if [ $DMLC_ROLE = server ]; then exit 75; else sleep 600; fi'"
    done = run("--env", f"MARK={mark}", "-n", "1", "-s", "1", "sleep", "600", roles=server)
    assert done.returncode == 75
    assert "job failed after" in done.stderr
    assert "server 0 ended with exit code 75" in done.stderr


def test_a_killed_keeper_ends_the_job(start: Start, mark: str) -> None:
    job = start("-n", "1", "-s", "1", "bash", "-c", "(sleep 600) & echo ready $PPID; wait")
    assert job.stdout is not None
    keeper = int(job.stdout.readline().split()[-1])
    os.kill(keeper, signal.SIGKILL)
    assert job.wait(timeout=10) == 137
    assert "worker 0 was killed by SIGKILL" in job.stdout.read()


def test_an_unusable_address_is_told_before_anything_starts() -> None:
    done = run("-n", "1", "echo", "started", DMLC_PS_ROOT_URI="nosuch.invalid")
    assert done.returncode == 75
    assert "nosuch.invalid" in done.stderr
    assert done.stdout == ""


def test_a_job_that_cannot_be_started_whole_is_not_left_in_part(mark: str) -> None:
    command = " ".join(
        [*LAUNCH, "--env", f"MARK={mark}", "--role-command", f"'{SLEEP}'", "-n 20 true"]
    )
    done = subprocess.run(
        ["bash", "-c", f"ulimit -n 30; {command}"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 75
    assert re.fullmatch(r"launch: cannot start server \d+: Too many open files\n", done.stderr)


# ---- signals; nothing is left behind (fixture `mark`)

LOADER = """
import multiprocessing, os, sys, time

def work(ready):
    ready.set()
    time.sleep(600)

if __name__ == "__main__":
    # One child stays in the role's process group, another leaves it and the session.
    context = multiprocessing.get_context("fork")
    events = [context.Event() for _ in range(2)]
    for event in events:
        context.Process(target=work, args=(event,), daemon=True).start()
        event.wait()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            print("ready", flush=True)
            time.sleep(600)
        os._exit(0)
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 129),
        (signal.SIGKILL, -9),
    ],
)
def test_a_signal_to_the_launcher_ends_every_descendant(
    number: int, code: int, start: Start, mark: str, tmp_path: Path
) -> None:
    script = python(tmp_path, LOADER)
    job = start("-n", "2", "-s", "1", "bash", "-c", f"{sys.executable} {script}; true")
    assert job.stdout is not None
    assert all("ready" in job.stdout.readline() for _ in range(2))
    assert len(marked(mark)) >= 2 * 5 + 2
    job.send_signal(number)
    assert job.wait(timeout=10) == code
    assert wait_until(lambda: not marked(mark), 5)
    said = job.stdout.read()
    assert "Traceback" not in said
    assert (signal.Signals(number).name in said) == (number != signal.SIGKILL)


STUBBORN = "trap '' TERM INT; echo ready; while true; do sleep 600; done"


def test_the_grace_ends_in_a_kill(start: Start, mark: str) -> None:
    job = start("-n", "1", "-s", "1", "--grace", "0.3", "bash", "-c", STUBBORN)
    assert job.stdout is not None
    job.stdout.readline()
    began = time.monotonic()
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=10) == 143
    assert 0.3 <= time.monotonic() - began < 5


def test_a_second_signal_ends_it_at_once(start: Start, mark: str) -> None:
    job = start("-n", "1", "-s", "1", "--grace", "600", "bash", "-c", STUBBORN)
    assert job.stdout is not None
    job.stdout.readline()
    job.send_signal(signal.SIGINT)
    assert "SIGINT: ending the job" in job.stdout.readline()
    job.send_signal(signal.SIGINT)
    assert job.wait(timeout=5) == 130


def test_a_frozen_role_is_ended_too(start: Start, mark: str) -> None:
    job = start("-n", "1", "-s", "1", "bash", "-c", "echo $$; exec sleep 600")
    assert job.stdout is not None
    os.kill(int(job.stdout.readline().split()[-1]), signal.SIGSTOP)
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=5) == 143


def test_what_a_finished_worker_leaves_running_is_ended(mark: str) -> None:
    began = time.monotonic()
    done = run(
        *("--env", f"MARK={mark}", "-n", "1", "bash", "-c", "setsid sleep 600 & echo over"),
    )
    assert (done.returncode, done.stdout) == (0, "worker 0 | over\n")
    assert time.monotonic() - began < 5


def test_an_early_ctrl_c_leaves_no_traceback() -> None:
    """Before the job's own handlers are there, Ctrl-C ends the launcher without a word."""
    early = (
        "import os, signal, sys; sys.path.insert(0, 'tools'); import minigluon_launch.main as m\n"
        "m.parse = lambda argv: os.kill(os.getpid(), signal.SIGINT)\n"
        "m.main([])\n"
    )
    done = subprocess.run([sys.executable, "-c", early], capture_output=True, text=True,
                          cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
