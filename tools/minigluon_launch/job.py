"""The running job: one event loop over roles, their output, and signals."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from . import keeper
from .console import Console
from .lines import Splitter
from .roles import Plan, Role, StartError
from .verdict import INFRASTRUCTURE, Outcome, culprit, exit_code, is_consequence, report

__all__ = ["Job"]

SETTLE_SECONDS = 2.0  # how long a role that says "peer lost" waits for the lost peer's own report
LINGER_SECONDS = 3.0  # how long servers may run on when every worker has ended well
DRAIN_SECONDS = 1.0  # what a reader that does not read may cost after a signal
GIVE_UP_SECONDS = 10.0  # after the kill: more than the keepers take to give up
_READ = 1 << 16
_REMEMBERED = 60


class _Child:
    """A started role: its keeper, its output, how it ended."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.outcome = Outcome(role.label)
        self.tail: deque[bytes] = deque(maxlen=_REMEMBERED)
        self.outcome.last_lines = self.tail
        self.kept = keeper.start(role.command, role.env)
        self.streams = {self.kept.stdout: (0, Splitter()), self.kept.stderr: (1, Splitter())}
        self.reported = b""
        self.gone = False
        self.keeper_killed = False

    @property
    def finished(self) -> bool:
        """Whether nothing of the role is left and all it said was read."""
        return self.gone and not self.streams

    def order(self, what: bytes) -> None:
        """TERM or KILL, by way of the keeper."""
        if not self.gone:
            self.outcome.stopped = self.outcome.stopped or self.outcome.status is None
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.kept.control.sendall(what)

    def hear(self) -> None:
        """Read the keeper's report; the end of its socket is the end of everything below it."""
        try:
            data = self.kept.control.recv(256)
        except ConnectionResetError:
            data = b""
        self.reported += data
        if self.outcome.status is None and self.reported.endswith(b"\n"):
            status, when = self.reported.split()
            self.outcome.status = os.waitstatus_to_exitcode(int(status))
            self.outcome.when = float(when)
        if not data:
            self._keeper_ended()

    def _keeper_ended(self) -> None:
        self.gone = True
        self.kept.control.close()
        os.waitpid(self.kept.pid, 0)
        if self.outcome.status is None:  # somebody killed the keeper, and so the role
            self.keeper_killed = True
            self.outcome.status, self.outcome.when = -signal.SIGKILL, time.monotonic()


class Job:
    """Starts the roles of a plan and sees them to their end.

    Args:
        plan: what to start.
        console: where output goes.
        grace: seconds between TERM and KILL.
        verbose: whether to say what is started.
    """

    def __init__(self, plan: Plan, console: Console, grace: float, verbose: bool = False) -> None:
        self.plan = plan
        self.console = console
        self.grace = grace
        self.verbose = verbose
        self.children: list[_Child] = []
        self.signals: list[int] = []
        self.stopping = False
        self.killed = False
        self.lingering = False
        self.deadline: float | None = None

    def run(self) -> int:
        """Start everything, wait for the end, and return the launcher's exit code."""
        self.began = time.monotonic()
        keeper.adopt_orphans()  # should a keeper be killed, its grandchildren come to us
        with self._signals():
            self._start()
            while not all(child.finished for child in self.children):
                self._wait()
                if any(child.keeper_killed and child.streams for child in self.children):
                    self._end_strays()
                self._decide(time.monotonic())
            code = self._conclude()
            self._drain()
        return code

    def _drain(self) -> None:
        """Write what still waits; once asked to end, no longer than a second for a slow reader."""
        self.deadline = None
        while self.console.waiting_fd is not None:
            if self.signals and self.deadline is None:
                self.deadline = time.monotonic() + DRAIN_SECONDS
            if self.deadline is not None and time.monotonic() >= self.deadline:
                return
            self._wait()

    def _start(self) -> None:
        self._say_verbose(f"job {self.plan.job}, scheduler at {self.plan.address}")
        for role in self.plan.roles:
            try:
                child = _Child(role)
            except OSError as error:  # what has started ends with this process
                raise StartError(f"cannot start {role.label}: {error.strerror}") from error
            self.children.append(child)
            self._say_verbose(f"{role.label} (keeper {child.kept.pid}): {shlex.join(role.command)}")

    def _say_verbose(self, text: str) -> None:
        if self.verbose:
            self.console.say(text)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Signals only leave a note and wake the loop."""
        self.wake, wake = os.pipe()
        os.set_blocking(wake, False)
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup leaves it
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._note) for number in numbers}
        previous = signal.set_wakeup_fd(wake)
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self.wake)
            os.close(wake)

    def _note(self, number: int, frame: object) -> None:
        self.signals.append(number)

    def _wait(self) -> None:
        """Sleep until a role speaks or ends, a signal comes, or the deadline is there."""
        watched: dict[int, tuple[int, Callable[[], object]]] = {
            self.wake: (select.POLLIN, lambda: os.read(self.wake, 4096))
        }
        for child in self.children:
            if not child.gone:
                watched[child.kept.control.fileno()] = (select.POLLIN, child.hear)
            if self.stopping or not self.console.full:
                for fd in child.streams:
                    watched[fd] = (select.POLLIN, partial(self._read, child, fd))
        if self.console.waiting_fd is not None:
            watched[self.console.waiting_fd] = (select.POLLOUT, self.console.flush)
        poll = select.poll()
        for fd, (event, _) in watched.items():
            poll.register(fd, event)
        left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
        for fd, _ in poll.poll(None if left is None else left * 1000):
            watched[fd][1]()

    def _read(self, child: _Child, fd: int) -> None:
        stream, splitter = child.streams[fd]
        data = os.read(fd, _READ)
        if not data:
            os.close(fd)
            del child.streams[fd]
        label = child.role.label
        for what, text in splitter.feed(data) if data else splitter.close():
            if what == "bar":
                self.console.bar(label, text, time.monotonic())
                continue
            self.console.end_bar(label)
            self.console.line(stream, label, text)
            if stream == 1:
                child.tail.append(text)

    def _decide(self, now: float) -> None:
        """Go on, or ask the others to end, or end them."""
        if self.stopping:
            self._hasten(now)
        elif self.signals or self.console.broken:
            self._stop(now)
        elif self.lingering:
            assert self.deadline is not None
            if now >= self.deadline:
                self._warn_of_lingering()
                self._stop(now)
        elif (first := culprit(self._outcomes())) is not None:
            self._settle(now, first)
        elif all(worker.outcome.status == 0 for worker in self._workers()):
            self.lingering = True
            self.deadline = now + LINGER_SECONDS

    def _settle(self, now: float, first: Outcome) -> None:
        """Stop at the first failure, after a moment if it says that somebody else was lost."""
        running = any(child.outcome.status is None for child in self.children)
        if self.deadline is None:
            self.deadline = first.when + SETTLE_SECONDS
        if not running or not is_consequence(first) or now >= self.deadline:
            self._stop(now)

    def _stop(self, now: float) -> None:
        if self.signals:
            name = signal.Signals(self.signals[0]).name
            self.console.say(f"{name}: ending the job (a second signal ends it at once)")
        self.stopping = True
        self.deadline = now + (min(self.grace, 1.0) if self.lingering else self.grace)
        for child in self.children:
            child.order(keeper.TERM)

    def _warn_of_lingering(self) -> None:
        for child in self.children:
            if child.outcome.status is None:
                self.console.say(
                    f"warning: {child.role.label} still ran {LINGER_SECONDS:.0f} s after the "
                    "last worker had ended; ending it"
                )

    def _hasten(self, now: float) -> None:
        """KILL when the grace is over or a second signal came; at last give up waiting."""
        assert self.deadline is not None
        if not self.killed and (now >= self.deadline or len(self.signals) > 1):
            self.killed = True
            self.deadline = now + GIVE_UP_SECONDS
            for child in self.children:
                child.order(keeper.KILL)
        elif self.killed and now >= self.deadline:
            for child in self.children:
                if not child.finished:
                    self.console.say(f"warning: {child.role.label} could not be ended")
                child.gone = True
                child.streams.clear()

    def _end_strays(self) -> None:
        """Kill what a killed keeper has left to us: this job's processes below no keeper."""
        below = keeper.descendants(os.getpid())
        kept = {child.kept.pid for child in self.children if not child.gone}
        kept.update(pid for root in tuple(kept) for pid in keeper.descendants(root))
        mark = f"MINIGLUON_JOB_ID={self.plan.job}".encode()
        for pid in set(below) - kept:
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/environ", "rb") as file:
                    ours = mark in file.read().split(b"\0")
                if ours:
                    os.kill(pid, signal.SIGKILL)

    def _conclude(self) -> int:
        """The exit code; a failure is told in one summary, the culprit's own words last."""
        outcomes = self._outcomes()
        seconds = time.monotonic() - self.began
        if self.signals:
            return 128 + self.signals[0]
        if self.console.broken is not None:
            return self._without_output(self.console.broken)
        first = culprit(outcomes)
        if first is None or self.lingering:
            self._warn_of_late_failures(outcomes)
            self._say_verbose(f"job {self.plan.job} ended well after {seconds:.1f} s")
            return 0
        text, lines = report(outcomes, first, seconds)
        self.console.say(text)
        for line in lines:
            self.console.line(1, first.label, line)
        return exit_code(first.status or INFRASTRUCTURE)

    def _without_output(self, error: OSError) -> int:
        """A closed pipe ends a job silently, as it ends any command; the rest is told."""
        if isinstance(error, BrokenPipeError):
            return 128 + signal.SIGPIPE
        with contextlib.suppress(OSError):
            os.write(2, f"launch: cannot write the output: {error.strerror}\n".encode())
        return INFRASTRUCTURE

    def _warn_of_late_failures(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            if outcome.failed:
                self.console.say(
                    f"warning: {outcome.label} failed after every worker had ended well "
                    f"(exit code {exit_code(outcome.status or 0)})"
                )

    def _outcomes(self) -> list[Outcome]:
        return [child.outcome for child in self.children]

    def _workers(self) -> list[_Child]:
        return [child for child in self.children if child.role.kind == "worker"]
