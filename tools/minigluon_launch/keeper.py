"""One keeper process between the launcher and each role: nothing of the role outlives it.

A keeper is a fork of the launcher that starts one role in a session of its own and then only
waits: for the role to end, for a byte from the launcher (TERM, KILL), or for the launcher's end,
which it sees as the end of their socket. As the "subreaper" of everything below it, it
finds grandchildren too, however they were forked (wrapper shells, data-loader processes).
The role in turn is killed by the kernel if its keeper is.

    launcher --socket-- keeper 0 -- role 0 -- its children
             --socket-- keeper 1 -- role 1 -- ...

Linux gives both halves (PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG); elsewhere a role's process
group is what can be ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["KILL", "TERM", "Kept", "adopt_orphans", "descendants", "start"]

TERM, KILL = b"T", b"K"
LEFTOVER_SECONDS = 2.0  # what children may use after their role, or the launcher, has ended
GIVE_UP_SECONDS = 5.0  # after SIGKILL: a process that is still there cannot be ended
_RESTORED = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class Kept(NamedTuple):
    """The launcher's ends of a started role."""

    pid: int
    control: socket.socket
    stdout: int
    stderr: int


def start(command: Sequence[str], env: Mapping[str, str]) -> Kept:
    """Fork a keeper that runs `command`; call it from a process with a single thread.

    Over `Kept.control` the keeper takes TERM and KILL, and reports ``status monotonic-time`` in
    one line when the role itself ends; the socket ends when nothing of the role is left.
    """
    ours, theirs = socket.socketpair()
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _Keeper(theirs, out_write, err_write).run(command, env)
        finally:
            os._exit(0)
    theirs.close()
    os.close(out_write)
    os.close(err_write)
    return Kept(pid, ours, out_read, err_read)


def descendants(root: int) -> list[int]:
    """Every living process below `root`, by /proc; empty where there is none."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # it has just ended
        if state not in (b"Z", b"X"):
            children.setdefault(int(parent), []).append(int(name))
    found: list[int] = []
    ahead = [root]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends (Linux; no effect elsewhere)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class _Keeper:
    def __init__(self, control: socket.socket, out: int, err: int) -> None:
        self.control = control
        self.out, self.err = out, err
        self.role = 0
        self.role_ended = False
        self.launcher_ended = False
        self.kill_at: float | None = None

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        self._close_all_but(self.control.fileno(), self.out, self.err)
        self.wake, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        adopt_orphans()
        self._start_role(command, env)
        while self._reap():
            self._wait()

    def _close_all_but(self, *keep: int) -> None:
        """Above all the launcher's ends of other keepers' sockets: they must end with it alone."""
        empty = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(empty, fd)
        # Those that are open, not all that could be: in containers the limit may be a billion.
        folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
        for fd in map(int, os.listdir(folder)):
            if fd > 2 and fd not in keep:
                with contextlib.suppress(OSError):  # the listing's own is closed already
                    os.close(fd)

    def _start_role(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        keeper = os.getpid()
        # Blocked while it is still ignored, a TERM that comes between fork and exec is not lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        self.role = os.fork()
        if self.role == 0:
            try:
                self._become_role(keeper, command, env)
            finally:
                os._exit(127)
        os.close(self.out)
        os.close(self.err)

    def _become_role(self, keeper: int, command: Sequence[str], env: Mapping[str, str]) -> None:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            return  # the keeper ended before the kernel knew that we end with it
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.dup2(self.out, 1)
        os.dup2(self.err, 2)
        try:
            os.execvpe(command[0], list(command), dict(env))
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)

    def _wait(self) -> None:
        """Sleep until something happens; then do what it asks for."""
        now = time.monotonic()
        timeout = None if self.kill_at is None else max(0.0, self.kill_at - now)
        watched = [self.wake] if self.launcher_ended else [self.wake, self.control.fileno()]
        ready = select.select(watched, [], [], timeout)[0]
        if self.wake in ready:
            os.read(self.wake, 4096)
        if self.control.fileno() in ready:
            self._obey(self.control.recv(64))
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self._kill_until_gone()

    def _obey(self, orders: bytes) -> None:
        if KILL in orders:
            self.kill_at = time.monotonic()
        elif TERM in orders:
            self._signal_role_group()
        if not orders:
            self.launcher_ended = True
            self._signal_role_group()
            self._kill_later()

    def _reap(self) -> bool:
        """Collect ended children; False when there is none left."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.role:
                    self._role_has_ended(status)
        return False

    def _role_has_ended(self, status: int) -> None:
        self.role_ended = True
        with contextlib.suppress(OSError):  # the launcher may be gone
            self.control.sendall(f"{status} {time.monotonic()}\n".encode())
        _send(signal.SIGTERM, descendants(os.getpid()))
        self._kill_later()

    def _kill_later(self) -> None:
        limit = time.monotonic() + LEFTOVER_SECONDS
        self.kill_at = limit if self.kill_at is None else min(limit, self.kill_at)

    def _signal_role_group(self) -> None:
        """TERM, as a terminal would: to the role and what it runs, even if it is stopped."""
        if self.role_ended:
            return
        for number in (signal.SIGTERM, signal.SIGCONT):
            try:
                os.killpg(self.role, number)
            except ProcessLookupError:  # it has not reached its setsid yet
                _send(number, [self.role])

    def _kill_until_gone(self) -> None:
        """SIGKILL everything below, again for what was forked meanwhile."""
        limit = time.monotonic() + GIVE_UP_SECONDS
        while self._reap():
            if time.monotonic() > limit:
                os._exit(1)
            if not self.role_ended:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.role, signal.SIGKILL)
            _send(signal.SIGKILL, descendants(os.getpid()))
            if select.select([self.wake], [], [], 0.02)[0]:
                os.read(self.wake, 4096)


def _send(number: int, pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
