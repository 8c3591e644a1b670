"""In what order things happen to an array: variables, pending writes, and errors that wait.

The contract is MXNet's engine, made cheap. Work whose inputs are ready runs at once in the
caller's thread. Work that ends elsewhere (a pull that a KVStore's network thread completes) holds
a Ticket on the variables it writes; whoever reads such an array waits for the ticket. An error in
such work surfaces at the next read of what it should have written, or at ``wait_all``, once.

An operator whose values turn out to be wrong only as it runs (a negative deviation, an index out
of range) does not raise at the call either: its results are failed arrays, and so are the results
of operators on them, until somebody reads one.

An array has a Var only when something needs one: views of one buffer share it.
"""
from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable

from ..base import KVStoreTimeout, MXNetError, env_float

__all__ = ["Failure", "Ticket", "Var", "begin", "push", "wait_all"]


class Failure:
    """An error that waits for its first reader; every array that comes of a failed one shares it.

    Attributes:
        error: None once somebody has seen it.
        late: an operator failed as it ran: operators on the array fail too, and say so when their
            results are read. Otherwise (a pull that never came) using the array is an error.
    """

    __slots__ = ("error", "late")

    def __init__(self, error: BaseException, late: bool = False) -> None:
        self.error: BaseException | None = error
        self.late = late

    def see(self) -> None:
        """Raise the error, unless somebody has seen it."""
        error, self.error = self.error, None
        if error is not None:
            raise error


class Var:
    """The order of reads and writes of one buffer. ``busy`` is true while a reader must wait."""

    __slots__ = ("error", "ticket")

    def __init__(self) -> None:
        self.ticket: Ticket | None = None
        self.error: Failure | None = None

    def fail(self, failure: Failure) -> None:
        """What should have been written will never be: readers see `failure`."""
        with _lock:
            self.error = failure
            _failed.add(self)

    def lost(self) -> Failure | None:
        """Wait for pending writes; the late failure that an operator reading this hands on."""
        failure = self.error
        if self.ticket is None and failure is not None and failure.late:
            if failure.error is not None:
                return failure
        self.wait()
        return None

    @property
    def busy(self) -> bool:
        """Whether reading now must first wait, or raise a kept error."""
        return self.ticket is not None or self.error is not None

    def wait(self) -> None:
        """Return when no write is pending; raise the error of a failed one, once."""
        ticket = self.ticket
        if ticket is not None:
            ticket.wait()
        failure = self.error
        if failure is not None:
            self.error = None
            with _lock:
                _failed.discard(self)
            failure.see()


_lock = threading.Lock()
_open: set[Ticket] = set()
_failed: set[Var] = set()


class Ticket:
    """One piece of work under way elsewhere, and the variables it will have written.

    Exactly one of ``done()`` and ``fail(error)`` ends it, from any thread.
    """

    __slots__ = ("_ended", "_pid", "what", "writes")

    def __init__(self, writes: tuple[Var, ...], what: str) -> None:
        self.writes = writes
        self.what = what
        self._ended = threading.Event()
        self._pid = os.getpid()

    def done(self) -> None:
        """The writes are in place: readers go on."""
        self._end(None)

    def fail(self, error: BaseException) -> None:
        """The writes will never come: the next reader gets `error`."""
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        with _lock:
            for var in self.writes:
                if var.ticket is self:
                    var.ticket = None
                    if error is not None:
                        var.error = Failure(error)
                        _failed.add(var)
            _open.discard(self)
        self._ended.set()

    def wait(self) -> None:
        """Block until the work ended. The limit is a last resort: the work has its own deadline."""
        if self._pid != os.getpid():
            raise MXNetError(
                f"{self.what}: still pending when this process was forked; its result arrives "
                "only in the parent. Wait for the array (wait_to_read) before forking."
            )
        limit = 2 * env_float("MINIGLUON_OP_TIMEOUT", 300.0) + 60.0
        if not self._ended.wait(limit):
            raise KVStoreTimeout(f"{self.what}: no end after {limit:.0f} seconds")


def begin(writes: Iterable[Var], what: str = "work") -> Ticket:
    """Announce work that will write `writes` and end elsewhere; earlier such work ends first.

    Args:
        writes: variables of the arrays that will be written (``array._variable()``).
        what: names the work in messages, e.g. "pull of key 3".
    """
    variables = tuple(writes)
    for var in variables:
        if var.ticket is not None:
            var.ticket.wait()
    ticket = Ticket(variables, what)
    with _lock:
        for var in variables:
            var.ticket = ticket
        _open.add(ticket)
    return ticket


def push(
    fn: Callable[[], None],
    reads: Iterable[Var] = (),
    writes: Iterable[Var] = (),
    priority: int = 0,
) -> None:
    """Run `fn` after earlier writes of what it reads and writes.

    Runs at once in the caller's thread; `priority` orders queued work only. An error of `fn` is
    kept in `writes` and raised by their next reader; with no writes it is raised here.
    """
    written = tuple(writes)
    for var in (*reads, *written):
        if var.ticket is not None:
            var.ticket.wait()
    try:
        fn()
    except Exception as error:
        if not written:
            raise
        for var in written:
            var.fail(Failure(error))


def wait_all() -> None:
    """Wait for all work under way; raise the first error that nobody has seen yet."""
    while True:
        with _lock:
            tickets = list(_open)
        if not tickets:
            break
        for ticket in tickets:
            ticket.wait()
    with _lock:
        failed = list(_failed)
        _failed.clear()
    first: BaseException | None = None
    for var in failed:
        failure, var.error = var.error, None
        if failure is not None:
            first, failure.error = first or failure.error, None
    if first is not None:
        raise first


def _forget_in_child() -> None:
    """A forked child owns none of the parent's open work (its readers get a clear error)."""
    global _lock
    _lock = threading.Lock()
    _open.clear()
    _failed.clear()


os.register_at_fork(after_in_child=_forget_in_child)
