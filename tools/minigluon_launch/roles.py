"""From Options to the processes of the job: who runs what, with which environment."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import sysconfig
from collections.abc import Mapping
from typing import NamedTuple

from .options import Options

__all__ = ["Plan", "Role", "StartError", "make_plan"]

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# The folder one stands in comes last, as for a script elsewhere: `-m` would take the copy of
# minigluon in it, a checkout whose native core is not built, before the one that is installed.
_SERVE = (
    "import sys; sys.path.append(sys.path.pop(0)); "
    "from minigluon.kvstore.dist.node import run_role; sys.exit(run_role())"
)
_PREFIX_ROOM = len("scheduler | ")


class StartError(Exception):
    """The job cannot start here: no port, unknown host."""


class Role(NamedTuple):
    """One process of the job."""

    kind: str
    rank: int
    command: tuple[str, ...]
    env: dict[str, str]

    @property
    def label(self) -> str:
        """How messages call it: ``worker 1``, ``server 0``, ``scheduler``."""
        return self.kind if self.kind == "scheduler" else f"{self.kind} {self.rank}"


class Plan(NamedTuple):
    """All roles in starting order, the job's name, and the scheduler's address.

    `hold` keeps the scheduler's port from being given to anybody else until the job ends.
    """

    job: str
    roles: tuple[Role, ...]
    address: str
    hold: socket.socket


def make_plan(options: Options, environ: Mapping[str, str], columns: int | None = None) -> Plan:
    """Decide port, job id, token, thread shares, and every role's command and environment.

    Args:
        options: the command line.
        environ: the launcher's environment, which every role inherits.
        columns: width of the terminal the output goes to, if it is one.
    """
    given = {**environ, **options.env}
    # A launcher started inside another job inherits that job's address; it is not ours.
    inside = "MINIGLUON_JOB_ID" in environ
    asked = options.env if inside else given
    host = asked.get("DMLC_PS_ROOT_URI") or "127.0.0.1"
    hold, port = _reserve(host, asked.get("DMLC_PS_ROOT_PORT") or "0")
    job = os.urandom(6).hex()
    common = {
        **given,
        "DMLC_PS_ROOT_URI": host,
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_WORKER": str(options.workers),
        "DMLC_NUM_SERVER": str(options.servers),
        "MINIGLUON_JOB_ID": job,
        "MINIGLUON_JOB_TOKEN": os.urandom(32).hex(),
        "PYTHONPATH": _python_path(given.get("PYTHONPATH", ""), options.command[0]),
    }
    for name in ("DMLC_ROLE", "DMLC_WORKER_ID", "DMLC_SERVER_ID"):
        common.pop(name, None)
    _add_defaults(common, options, columns)
    counts = (("scheduler", 1), ("server", options.servers), ("worker", options.workers))
    roles = [_role(common, options, kind, rank) for kind, count in counts for rank in range(count)]
    return Plan(job, tuple(roles), f"{host}:{port}", hold)


def _role(common: Mapping[str, str], options: Options, kind: str, rank: int) -> Role:
    works = kind == "worker"
    env = {**common, **(options.env_worker if works else options.env_server), "DMLC_ROLE": kind}
    if kind != "scheduler":
        env[f"DMLC_{kind.upper()}_ID"] = str(rank)
    return Role(kind, rank, options.command if works else _server_command(options), env)


def _add_defaults(env: dict[str, str], options: Options, columns: int | None) -> None:
    """Settings that hold unless the user set them: threads, address, unbuffered output."""
    share = str(max(1, _cores() // (options.workers + options.servers)))
    for name in _THREADS:
        env.setdefault(name, share)
    env.setdefault("DMLC_NODE_HOST", "127.0.0.1")
    env.setdefault("PYTHONUNBUFFERED", "1")  # or a killed role's last words stay in its buffer
    if options.verbose:
        env.setdefault("PS_VERBOSE", "1")
    if columns is not None:  # tqdm fits its bar to this where it sees no terminal
        env["COLUMNS"] = str(max(20, columns - _PREFIX_ROOM))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _python_path(inherited: str, program: str) -> str:
    """PYTHONPATH such that a checkout works without being installed.

    What is installed in the Python that runs the job goes before the checkout beside the launcher,
    as in ``python script.py``: PYTHONPATH would put a checkout, in which the native core is not
    built, before it.
    """
    root = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    if not _holds_minigluon(root) or _installed_for(program):
        return inherited
    return os.pathsep.join(part for part in (inherited, root) if part)


def _holds_minigluon(folder: str) -> bool:
    return os.path.isdir(os.path.join(folder, "minigluon", "kvstore"))


def _installed_for(program: str) -> bool:
    """Whether `program` is of the launcher's own environment and minigluon is installed there."""
    place = shutil.which(program)
    if place is None or _folder(place) != _folder(sys.executable):
        return False
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return any(map(_holds_minigluon, folders))


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


def _server_command(options: Options) -> tuple[str, ...]:
    """Servers and scheduler run minigluon's own loop, in the Python that the workers use."""
    if options.role_command:
        return options.role_command
    python = options.command[0]
    named = re.fullmatch(r"python(\d(\.\d+)?)?", os.path.basename(python))
    if named is None or shutil.which(python) is None:
        python = sys.executable
    return (python, "-c", _SERVE)


def _reserve(host: str, port: str) -> tuple[socket.socket, int]:
    """A TCP port of `host` that nobody else gets: bound and held, not listened on.

    Linux lets the scheduler bind the same port beside us (SO_REUSEADDR on both, one listener),
    and gives it to no one who asks for any free port. So it cannot be lost between two calls.
    """
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, ValueError, OverflowError) as error:
        raise StartError(
            f"scheduler address {host}:{port}: {error}; "
            "check DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT"
        ) from error
    held = socket.socket(family, kind, proto)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(address)
    except OSError as error:
        held.close()
        raise StartError(
            f"scheduler address {host}:{port}: {error.strerror}; set DMLC_PS_ROOT_PORT "
            "to a free port, or unset it to have one chosen"
        ) from error
    return held, held.getsockname()[1]
