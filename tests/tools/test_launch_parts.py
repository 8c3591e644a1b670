"""The launcher's pure parts: options, roles, lines, console, verdict."""

from __future__ import annotations

import os
import socket
import sys
import sysconfig
from pathlib import Path

import pytest

from minigluon_launch import roles
from minigluon_launch.console import BAR_SECONDS, Console
from minigluon_launch.lines import Splitter
from minigluon_launch.options import LAUNCHERS, parse
from minigluon_launch.roles import StartError, make_plan
from minigluon_launch.verdict import Outcome, culprit, report

# ---- options


def test_servers_default_to_the_number_of_workers_as_in_mxnet() -> None:
    options = parse(["-n", "3", "true"])
    assert (options.workers, options.servers) == (3, 3)


def test_a_script_alone_runs_under_this_python(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    assert parse(["-n", "1", str(script), "--lr", "1"]).command == (
        sys.executable,
        str(script),
        "--lr",
        "1",
    )


def test_the_commands_own_options_stay_with_it() -> None:
    assert parse(["-n", "1", "--", "ls", "-n", "--help"]).command == ("ls", "-n", "--help")


def test_env_takes_a_value_or_passes_one_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "x=y")
    options = parse(
        [
            "-n",
            "1",
            "--env",
            "A=1=2",
            "--env",
            "HERE",
            "--env-worker",
            "B:3",
            "--env-server",
            "C=",
            "x",
        ]
    )
    assert options.env == {"A": "1=2", "HERE": "x=y"}
    assert parse(["-n", "1", "--p3", "x"]).env == {"DMLC_PS_VAN_TYPE": "p3"}
    assert (options.env_worker, options.env_server) == ({"B": "3"}, {"C": ""})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "2", "-H", "hosts", "x"], "not built yet: -H/--hostfile"),
        (["-n", "2", "--sync-dst-dir", "d", "x"], "not built yet: --sync-dst-dir"),
        (["-n", "2", "-s", "0", "x"], "not built yet: -s 0"),
        *[
            (["-n", "2", "--launcher", name, "x"], f"not built yet: --launcher {name}")
            for name in LAUNCHERS[1:]
        ],
        (["-n", "0", "x"], "-n: expected at least 1 worker, got 0"),
        (["-n", "1", "-s", "-1", "x"], "-s: expected at least 1 server, got -1"),
        (["-n", "1", "--grace", "nan", "x"], "--grace: expected seconds"),
        (["-n", "1", "--env", "1A=2", "x"], "expected NAME=VALUE or NAME, got '1A=2'"),
        (["-n", "1", "--env", "NOT_SET_ANYWHERE", "x"], "NOT_SET_ANYWHERE is not set here"),
        (["-n", "1", "nosuch.py"], "nosuch.py: no such file"),
        (["-n", "1"], "no command given"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


# ---- roles


def _environments(arguments: list[str], environ: dict[str, str]) -> dict[str, dict[str, str]]:
    plan = make_plan(parse(arguments), environ)
    plan.hold.close()
    return {role.label: role.env for role in plan.roles}


def test_every_role_gets_its_place_and_the_same_job() -> None:
    env = _environments(["-n", "2", "-s", "1", "x"], {"PATH": "p"})
    assert list(env) == ["scheduler", "server 0", "worker 0", "worker 1"]
    assert [env[label]["DMLC_ROLE"] for label in env] == ["scheduler", "server", "worker", "worker"]
    assert (env["worker 1"]["DMLC_WORKER_ID"], env["server 0"]["DMLC_SERVER_ID"]) == ("1", "0")
    assert "DMLC_WORKER_ID" not in env["server 0"]
    for name in ("DMLC_PS_ROOT_PORT", "MINIGLUON_JOB_ID", "MINIGLUON_JOB_TOKEN"):
        assert len({each[name] for each in env.values()}) == 1
    for each in env.values():
        assert each["DMLC_PS_ROOT_URI"] == each["DMLC_NODE_HOST"] == "127.0.0.1"
        assert (each["DMLC_NUM_WORKER"], each["DMLC_NUM_SERVER"]) == ("2", "1")


def test_two_jobs_share_neither_token_nor_port() -> None:
    plans = [make_plan(parse(["-n", "1", "x"]), {}) for _ in range(2)]
    first, second = (plan.roles[0].env for plan in plans)
    for plan in plans:
        plan.hold.close()
    for name in ("DMLC_PS_ROOT_PORT", "MINIGLUON_JOB_ID", "MINIGLUON_JOB_TOKEN"):
        assert first[name] != second[name]
    assert len(first["MINIGLUON_JOB_TOKEN"]) == 64


def test_worker_and_server_settings_reach_only_them() -> None:
    env = _environments(
        ["-n", "1", "--env", "A=1", "--env-worker", "B=2", "--env-server", "B=3", "x"], {"A": "0"}
    )
    assert [each["A"] for each in env.values()] == ["1"] * 3
    assert [env[label]["B"] for label in ("worker 0", "server 0", "scheduler")] == ["2", "3", "3"]


def test_threads_are_shared_out_unless_set() -> None:
    cores = len(os.sched_getaffinity(0))
    env = _environments(["-n", "1", "-s", "1", "x"], {"MKL_NUM_THREADS": "7"})["worker 0"]
    assert env["OMP_NUM_THREADS"] == env["OPENBLAS_NUM_THREADS"] == str(max(1, cores // 2))
    assert env["MKL_NUM_THREADS"] == "7"


def test_servers_run_under_the_workers_python() -> None:
    plan = make_plan(parse(["-n", "1", sys.executable, "-c", "0"]), dict(os.environ))
    plan.hold.close()
    assert plan.roles[0].command == (sys.executable, "-c", roles._SERVE)


def test_a_checkout_needs_no_installation() -> None:
    env = _environments(["-n", "1", "x"], {"PYTHONPATH": "mine"})["server 0"]
    root = Path(__file__).resolve().parents[2]
    assert env["PYTHONPATH"].split(os.pathsep) == ["mine", str(root)]


def test_what_is_installed_goes_before_a_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    command = ["-n", "1", sys.executable, "x"]
    root = Path(__file__).resolve().parents[2]
    assert _environments(command, {})["worker 0"]["PYTHONPATH"] == str(root)
    (tmp_path / "minigluon" / "kvstore").mkdir(parents=True)
    assert _environments(command, {"PYTHONPATH": "mine"})["worker 0"]["PYTHONPATH"] == "mine"
    other = _environments(["-n", "1", "another-python", "x"], {})["worker 0"]
    assert other["PYTHONPATH"] == str(root)


def test_the_port_is_held_until_the_scheduler_listens() -> None:
    plan = make_plan(parse(["-n", "1", "x"]), {})
    port = int(plan.roles[0].env["DMLC_PS_ROOT_PORT"])
    with plan.hold, socket.socket() as other, socket.socket() as scheduler:
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        scheduler.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        scheduler.bind(("127.0.0.1", port))
        scheduler.listen()


def test_an_address_given_by_the_user_is_kept_or_refused() -> None:
    env = _environments(["-n", "1", "x"], {"DMLC_PS_ROOT_URI": "localhost"})
    assert env["worker 0"]["DMLC_PS_ROOT_URI"] == "localhost"
    with pytest.raises(StartError, match=r"nosuch\.invalid"):
        make_plan(parse(["-n", "1", "x"]), {"DMLC_PS_ROOT_URI": "nosuch.invalid"})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with pytest.raises(StartError, match="in use"):
            make_plan(parse(["-n", "1", "x"]), {"DMLC_PS_ROOT_PORT": port})


def test_a_job_inside_a_job_has_an_address_of_its_own() -> None:
    outer = {"MINIGLUON_JOB_ID": "outer", "DMLC_PS_ROOT_URI": "nosuch", "DMLC_WORKER_ID": "3"}
    env = _environments(["-n", "1", "x"], outer)["server 0"]
    assert env["DMLC_PS_ROOT_URI"] == "127.0.0.1"
    assert env["MINIGLUON_JOB_ID"] != "outer"
    assert "DMLC_WORKER_ID" not in env


# ---- lines


def test_lines_are_split_wherever_the_bytes_are_cut() -> None:
    text = b"one\r\ntwo\n\n\rbar 1\rbar 2\nlast"
    expected = [b"one", b"two", b"", b"bar 2", b"last"]
    for size in range(1, len(text) + 1):
        split = Splitter()
        found = []
        for start in range(0, len(text), size):
            found += split.feed(text[start : start + size])
        found += split.close()
        assert [line for what, line in found if what == "line"] == expected, size


def test_a_bar_is_seen_before_its_line_ends() -> None:
    split = Splitter()
    assert split.feed(b"\r  5%|#   |") == [("bar", b"  5%|#   |")]
    assert split.feed(b"\r 10%|##  |") == [("bar", b" 10%|##  |")]
    assert split.feed(b"\n") == [("line", b" 10%|##  |")]
    assert split.feed(b"plain, unfinished") == []


def test_a_bar_that_ends_in_returns() -> None:
    split = Splitter()
    assert split.feed(b"5%\r") == [("bar", b"5%")]
    assert split.feed(b"9%\r") == [("bar", b"9%")]
    assert split.feed(b"\n") == [("line", b"9%")]


def test_a_warning_in_the_middle_of_a_bar_gets_a_line_of_its_own() -> None:
    split = Splitter()
    assert split.feed(b"\r 5%|#  | 1/20 [00:00<00:01]") == [("bar", b" 5%|#  | 1/20 [00:00<00:01]")]
    assert split.feed(b"UserWarning: x\n") == [("line", b"UserWarning: x")]
    assert split.feed(b"\r 9%") == [("bar", b" 9%")]


def test_a_bar_wiped_away_leaves_no_line() -> None:
    split = Splitter()
    split.feed(b"\r50%")
    split.feed(b"\r   \r")
    assert split.feed(b"next\n") == [("line", b"next")]


def test_cursor_moves_go_and_colours_stay() -> None:
    assert Splitter().feed(b"\x1b[A\x1b[31mred\x1b[0m\x1b[K\n") == [("line", b"\x1b[31mred\x1b[0m")]


def test_an_endless_line_is_cut() -> None:
    split = Splitter()
    found = [pair for _ in range(20) for pair in split.feed(b"x" * 10_000)]
    assert found
    assert sum(len(line) for _, line in found + split.close()) == 200_000


# ---- console


def _drain(console: Console, read: int) -> bytes:
    while console.waiting_fd is not None:
        console.flush()
    return os.read(read, 1 << 16)


def test_a_line_below_a_live_bar_keeps_the_bar_at_the_bottom() -> None:
    read, write = os.pipe()
    console = Console((write, write), live=True, width=24)
    console.bar("worker 0", b"50%|####    | and much more", 0.0)
    console.line(0, "worker 1", b"hello")
    console.end_bar("worker 0")
    console.line(1, "worker 0", b"100%")
    bar = b"worker 0 | 50%|####    "
    erase = b"\r\x1b[K"
    assert _drain(console, read) == (
        bar + erase + b"worker 1 | hello\n" + bar + erase + b"worker 0 | 100%\n"
    )
    os.close(read)
    os.close(write)


def test_without_a_terminal_a_bar_is_a_line_now_and_then() -> None:
    read, write = os.pipe()
    console = Console((write, write))
    for tick in range(25):
        console.bar("worker 0", b"%d%%" % tick, tick * BAR_SECONDS / 10)
        console.bar("worker 1", b"not shown", tick * BAR_SECONDS / 10)
    assert _drain(console, read) == b"worker 0 | 0%\nworker 0 | 10%\nworker 0 | 20%\n"
    os.close(read)
    os.close(write)


def test_a_closed_output_is_noticed_and_drops_the_rest() -> None:
    read, write = os.pipe()
    os.close(read)
    console = Console((write, write))
    console.line(0, "worker 0", b"x")
    console.flush()
    assert isinstance(console.broken, BrokenPipeError)
    console.line(0, "worker 0", b"y")
    assert console.waiting_fd is None
    os.close(write)


# ---- verdict


def test_the_killed_one_is_the_culprit_even_if_a_victim_ends_sooner() -> None:
    victim = Outcome("worker 0", 75, when=1.0)
    killed = Outcome("worker 1", -9, when=1.1)
    assert culprit([victim, killed]) is killed


def test_a_script_that_dies_of_a_lost_peer_is_a_victim_too() -> None:
    words = [b"minigluon.base.PeerLost: server 0 is gone", b""]
    victim = Outcome("worker 0", 1, when=1.0, last_lines=words)
    raised = Outcome("worker 1", 1, when=1.5, last_lines=[b"ValueError: boom"])
    assert culprit([victim, raised]) is raised


def test_the_first_of_equals_counts_and_the_stopped_never() -> None:
    first = Outcome("worker 2", 1, when=1.0)
    stopped = Outcome("worker 0", -15, when=0.5, stopped=True)
    assert (
        culprit([Outcome("worker 1", 1, when=2.0), first, stopped, Outcome("server 0", 0)]) is first
    )
    assert culprit([stopped, Outcome("worker 1")]) is None


def test_the_summary_names_everybody_once() -> None:
    trace = [
        b"noise",
        b"Traceback (most recent call last):",
        b"  old",
        b"KeyError: 1",
        b"",
        b"Traceback (most recent call last):",
        *[b"  line %d" % n for n in range(30)],
        b"ValueError: boom",
        b"",
    ]
    first = Outcome("worker 2", 1, when=1.0, last_lines=trace)
    text, lines = report(
        [
            Outcome("scheduler", -15, stopped=True),
            Outcome("worker 0", 75, when=1.2),
            Outcome("worker 1", 0),
            first,
            Outcome("worker 3", 2, when=1.4),
        ],
        first,
        3.21,
    )
    assert text.splitlines() == [
        "job failed after 3.2 s: worker 2 ended with exit code 1",
        "  scheduler: ended as a consequence (stopped by the launcher)",
        "  worker 0: ended as a consequence (exit code 75)",
        "  worker 1: ended well",
        "  worker 3: ended with exit code 2 too, later",
        "the last lines of worker 2:",
    ]
    assert lines[0] == b"Traceback (most recent call last):"
    assert lines[-1] == b"ValueError: boom"
    assert len(lines) == 14


def test_help_calls_the_launcher_as_it_was_called(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/minigluon-launch"])
    with pytest.raises(SystemExit) as ended:
        parse(["--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0 and "usage: minigluon-launch " in said
    assert "  minigluon-launch -n 4 -s 2 train.py" in said and "launch.py" not in said
