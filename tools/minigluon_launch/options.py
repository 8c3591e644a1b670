"""The command line, read and checked before anything is started."""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["LAUNCHERS", "Options", "parse"]

LAUNCHERS = ("local", "ssh", "mpi", "slurm", "kubernetes", "sge", "yarn")

EXAMPLES = """\
examples:
  %(prog)s -n 4 -s 2 train.py --epochs 3      4 workers run `python train.py --epochs 3`
  %(prog)s -n 2 python -m my.package          any command; as many servers as workers
  %(prog)s -n 2 python -m minigluon.as_mxnet train.py    a script that says `import mxnet`
  %(prog)s -n 2 --env-worker OMP_NUM_THREADS=4 train.py

Each worker runs the command with DMLC_ROLE=worker and DMLC_WORKER_ID set; kvstore type
"dist_sync" or "dist_async" inside it finds the servers. Standard input is empty.

exit codes: 0 every worker ended well; 2 wrong usage; 75 the job could not start or lost a part;
130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP; otherwise the code of the process that
failed first (128 + n if signal n killed it, 127 if the command was not found).
"""


class Options(NamedTuple):
    """What the user asked for, checked.

    >>> parse(["-n", "2", "-s", "1", "--env", "A=1", "true"]).env
    {'A': '1'}
    """

    workers: int
    servers: int
    command: tuple[str, ...]
    env: dict[str, str]
    env_worker: dict[str, str]
    env_server: dict[str, str]
    grace: float = 5.0
    verbose: bool = False
    role_command: tuple[str, ...] = ()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Start the scheduler, servers and workers of a distributed job, show their "
        "output, and end them all together.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-n", "--num-workers", type=int, required=True, metavar="N", help="worker processes")
    add("-s", "--num-servers", type=int, metavar="S", help="server processes (default: N)")
    add("-H", "--hostfile", metavar="FILE", help="one host a line (not built yet)")
    add("--launcher", choices=LAUNCHERS, help="how processes are started (only local is built)")
    for option, whom in (
        ("--env", "every role"),
        ("--env-worker", "workers only"),
        ("--env-server", "servers and the scheduler only"),
    ):
        add(
            option,
            action="append",
            default=[],
            metavar="K[=V]",
            help=f"an environment variable for {whom}; K alone passes on the value it has here",
        )
    add("--sync-dst-dir", metavar="DIR", help="copy the working folder to hosts (not built yet)")
    add("--p3", action="store_true", help="send slices by priority (P3); for dist_sync")
    add("--stats", action="store_true", help="a line about the job every 10 s, and a status page")
    add(
        "--grace",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="time between the request to end and the kill (default: 5)",
    )
    add("--verbose", action="store_true", help="say what is started, and PS_VERBOSE=1 for roles")
    # What runs in place of servers and scheduler: tests of the launcher alone use it.
    add("--role-command", default="", help=argparse.SUPPRESS)
    add("command", nargs=argparse.REMAINDER, help="what each worker runs; x.py means python x.py")
    return parser


def parse(argv: Sequence[str] | None = None) -> Options:
    """Options from the command line; wrong usage prints one line and exits with code 2."""
    parser = _parser()
    args = parser.parse_args(argv)
    missing = _not_built(args)
    if missing:
        parser.exit(2, f"launch: not built yet: {missing}\n")
    servers = args.num_workers if args.num_servers is None else args.num_servers
    try:
        _check_numbers(args.num_workers, servers, args.grace)
        return Options(
            workers=args.num_workers,
            servers=servers,
            command=_command(args.command),
            env={
                **({"DMLC_PS_VAN_TYPE": "p3"} if args.p3 else {}),
                **({"MINIGLUON_STATS": "10", "MINIGLUON_METRICS_PORT": "0"} if args.stats else {}),
                **_settings("--env", args.env),
            },
            env_worker=_settings("--env-worker", args.env_worker),
            env_server=_settings("--env-server", args.env_server),
            grace=args.grace,
            verbose=args.verbose,
            role_command=tuple(shlex.split(args.role_command)),
        )
    except ValueError as error:
        parser.exit(2, f"launch: {error}\n")
        raise  # parser.exit does not return


def _not_built(args: argparse.Namespace) -> str:
    if args.launcher not in (None, "local"):
        return f"--launcher {args.launcher}; use --launcher local"
    if args.hostfile is not None:
        return "-H/--hostfile; leave it out to run every role on this machine"
    if args.sync_dst_dir is not None:
        return "--sync-dst-dir; every role of --launcher local shares this machine's folders"
    if args.num_servers == 0:
        return "-s 0 (all-reduce jobs without servers); give at least one server"
    return ""


def _check_numbers(workers: int, servers: int, grace: float) -> None:
    if workers < 1:
        raise ValueError(f"-n: expected at least 1 worker, got {workers}")
    if servers < 1:
        raise ValueError(f"-s: expected at least 1 server, got {servers}")
    if not (math.isfinite(grace) and grace >= 0):
        raise ValueError(f"--grace: expected seconds, 0 or more, got {grace}")


def _command(words: Sequence[str]) -> tuple[str, ...]:
    """The workers' command: a leading -- goes, and `x.py` runs under this Python."""
    command = tuple(words[1:] if words[:1] == ["--"] else words)
    if not command:
        raise ValueError("no command given; try: launch.py -n 2 -s 1 train.py")
    if not command[0].endswith(".py"):
        return command
    if not os.path.isfile(command[0]):
        raise ValueError(f"{command[0]}: no such file (looked in {os.getcwd()})")
    return (sys.executable, *command)


def _settings(option: str, texts: Sequence[str]) -> dict[str, str]:
    """``K=V`` sets K (MXNet's ``K:V`` too); ``K`` alone takes the value it has here."""
    found: dict[str, str] = {}
    for text in texts:
        match = re.fullmatch(r"([A-Za-z_]\w*)(?:[=:](.*))?", text, re.DOTALL)
        if match is None:
            raise ValueError(f"{option}: expected NAME=VALUE or NAME, got {text!r}")
        name, value = match.groups()
        if value is None:
            value = os.environ.get(name)
        if value is None:
            raise ValueError(f"{option} {name}: {name} is not set here; write {name}=VALUE")
        found[name] = value
    return found
