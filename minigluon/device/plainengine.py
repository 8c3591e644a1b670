"""The engine in Python: what ``src/engine/`` does, for installations without the native core.

The names and their meaning are those of ``_core.engine``; ``engine.py`` is the door to both.
"""
from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic, perf_counter_ns
from typing import Any

from ..base import ArgumentValueError

__all__ = ["Failure", "Ticket", "Var", "after_fork", "begin", "limit", "open", "pause", "push",
           "resume", "set_threads", "setup", "spans", "stop", "threads", "trace", "wait_all"]

_inside = threading.local()  # .items: the items that this thread is inside of


class Failure:
    """An error that waits for its first reader; everything that comes of it shares it."""

    __slots__ = ("error", "late")

    def __init__(self, error: BaseException, late: bool = False) -> None:
        self.error: BaseException | None = error
        self.late = late

    def see(self) -> None:
        """Raise the error, unless somebody has seen it."""
        error, self.error = self.error, None
        if error is not None:
            raise error


class _Item:
    """One piece of work and what it needs; without `fn` somebody else does it."""

    __slots__ = ("began", "ended", "failure", "fn", "generation", "granted", "number", "priority",
                 "reads", "waits", "what", "writes")

    def __init__(self, fn: Callable[[], Any] | None, reads: Iterable[Var], writes: Iterable[Var],
                 priority: int, what: str) -> None:
        self.fn = fn
        self.writes = tuple(dict.fromkeys(writes))
        self.reads = tuple([var for var in dict.fromkeys(reads) if var not in self.writes])
        self.priority = priority
        self.what = what
        self.began = 0
        self.number = self.waits = self.generation = 0
        self.granted = self.ended = False
        self.failure: Failure | None = None

    def __lt__(self, other: _Item) -> bool:
        return (-self.priority, self.number) < (-other.priority, other.number)


class _Use:
    __slots__ = ("granted", "item", "write")

    def __init__(self, item: _Item, write: bool, granted: bool) -> None:
        self.item = item
        self.write = write
        self.granted = granted


class Var:
    """The order of reads and writes of one buffer."""

    __slots__ = ("failure", "generation", "orphan", "uses")

    def __init__(self) -> None:
        self.uses: deque[_Use] = deque()
        self.failure: Failure | None = None
        self.orphan = ""
        self.generation = 0

    @property
    def busy(self) -> bool:
        """Whether reading now must first wait, or raise a kept error."""
        # uses first: a write that fails meanwhile leaves its failure before it goes
        return any(use.write for use in list(self.uses)) or bool(self.failure or self.orphan)

    @property
    def used(self) -> bool:
        """Whether writing now must first wait, or raise a kept error."""
        return bool(self.uses or self.failure or self.orphan)

    def wait(self) -> None:
        """Return when no write is pending; raise the error of a failed one, once."""
        _engine.settle(self, False)
        self._see()

    def wait_to_write(self) -> None:
        """Return when nothing uses the buffer; raise the error of a failed write, once."""
        _engine.settle(self, True)
        self._see()

    def _see(self) -> None:
        failure, self.failure = self.failure, None
        if failure is not None:
            failure.see()

    def lost(self) -> Failure | None:
        """Wait for pending writes; the late failure that an operator reading this hands on."""
        _engine.settle(self, False)
        failure = self.failure
        if failure is not None and failure.late and failure.error is not None:
            return failure
        self._see()
        return None

    def fail(self, failure: Failure) -> None:
        """What should have been written will never be: readers see `failure`."""
        with _engine.lock:
            self.failure = failure
            _engine.remember(failure)


class Ticket:
    """One piece of work that ends elsewhere."""

    __slots__ = ("_item",)

    def __init__(self, item: _Item) -> None:
        self._item = item

    @property
    def what(self) -> str:
        """Its name in messages."""
        return self._item.what

    def done(self) -> None:
        """The writes are in place: readers go on."""
        _engine.end(self._item, None)

    def fail(self, error: BaseException) -> None:
        """The writes will never come: the next reader gets `error`."""
        _engine.end(self._item, Failure(error))


class _Engine:
    def __init__(self, count: int) -> None:
        self.count = count
        self.most = 64
        self.generation = 0
        self.numbers = 0
        self.tracing = False
        self.forget()

    def forget(self) -> None:
        """Nothing is under way and no worker exists, as in a forked child."""
        self.lock = threading.RLock()
        self.now = threading.Condition(self.lock)
        self.ready: list[_Item] = []
        self.open: dict[_Item, None] = {}
        self.unseen: list[Failure] = []
        self.spans: list[tuple[str, int, int, bool]] = []
        self.workers: list[threading.Thread] = []
        self.running = self.queued = 0
        self.stopped = False
        self.generation += 1

    # -- under the lock ------------------------------------------------------------------------

    def fresh(self, var: Var) -> None:
        if var.generation == self.generation:
            return
        var.generation = self.generation
        for use in var.uses:
            if use.write:
                var.orphan = use.item.what
        var.uses.clear()

    def enter(self, item: _Item) -> None:
        self.numbers += 1
        item.number, item.generation = self.numbers, self.generation
        self.open[item] = None
        for variables, write in ((item.reads, False), (item.writes, True)):
            for var in variables:
                self.fresh(var)
                free = not var.uses if write else not any(use.write for use in var.uses)
                var.uses.append(_Use(item, write, free))
                item.waits += not free
        self.queued += item.fn is not None
        if not item.waits:
            self.grant(item)

    def grant(self, item: _Item) -> None:
        item.granted = True
        if item.fn is not None:
            heapq.heappush(self.ready, item)
        elif self.tracing:
            item.began = perf_counter_ns()
        self.now.notify_all()

    def leave(self, var: Var, item: _Item) -> None:
        for use in var.uses:
            if use.item is item:
                var.uses.remove(use)
                break
        for place, use in enumerate(var.uses):
            if use.write and place:
                return
            if not use.granted:
                use.granted = True
                use.item.waits -= 1
                if not use.item.waits:
                    self.grant(use.item)
            if use.write:
                return

    def remember(self, failure: Failure) -> None:
        self.unseen = [each for each in self.unseen
                       if each is not failure and each.error is not None]
        self.unseen.append(failure)

    def finish(self, item: _Item, failure: Failure | None) -> None:
        item.failure, item.ended = failure, True
        if self.tracing and item.began:
            self.spans.append((item.what, item.began, perf_counter_ns(), item.fn is not None))
        if failure is not None and failure.error is not None:
            self.remember(failure)
        for var in item.writes:
            if failure is not None or item.fn is not None:
                var.failure = failure
            self.leave(var, item)
        for var in item.reads:
            self.leave(var, item)
        self.queued -= item.fn is not None
        del self.open[item]
        self.now.notify_all()

    def run_one(self) -> None:
        """Run the ready item of the highest priority; the lock is held before and after."""
        item = heapq.heappop(self.ready)
        assert item.fn is not None
        kept = [var.failure for var in (*item.reads, *item.writes)]
        failure = next((each for each in kept if each is not None and each.error is not None), None)
        self.running += 1
        item.began = perf_counter_ns() if self.tracing else 0
        lock = self.lock
        lock.release()
        if failure is None:
            items = _items()
            items.append(item)
            try:
                item.fn()
            except BaseException as error:
                failure = Failure(error)
            finally:
                items.pop()
        self.lock.acquire()
        if item.generation != self.generation:
            return  # forked meanwhile, and this is the child
        self.running -= 1
        self.finish(item, failure)
        item.fn = None

    def work(self) -> None:
        with self.lock:
            while True:
                while not self.ready and not self.stopped:
                    self.now.wait()
                if self.stopped:
                    return
                self.run_one()

    # -- from outside --------------------------------------------------------------------------

    def push(self, item: _Item) -> None:
        with self.lock:
            self.enter(item)
            if item.fn is None:
                return
            if self.count and not self.stopped:
                while len(self.workers) < self.count:
                    worker = threading.Thread(target=self.work, name="minigluon-engine",
                                              daemon=True)
                    self.workers.append(worker)
                    worker.start()
                return
            while True:
                if self.ready:
                    self.run_one()
                elif item.ended or _items():
                    return
                else:
                    self.now.wait(0.1)

    def end(self, item: _Item, failure: Failure | None) -> None:
        with self.lock:
            if not item.ended and item.generation == self.generation:
                self.finish(item, failure)

    def wait(self, done: Callable[[], bool], what: Callable[[], str]) -> None:
        """Until `done()`; inside an item, others are run meanwhile."""
        until: float | None = None
        with self.lock:
            while not done():
                if self.ready and (_items() or not self.count or self.stopped):
                    self.run_one()
                    continue
                if until is None:
                    until = monotonic() + _hooks[2]()
                self.now.wait(0.1)
                if monotonic() > until and not done():
                    _hooks[1](what())

    def settle(self, var: Var, to_write: bool) -> None:
        with self.lock:
            self.fresh(var)
            if var.uses:
                before, inside = self.numbers, _items()

                def free() -> bool:
                    for use in var.uses:
                        if use.item.number > before or use.item in inside:
                            return True
                        if use.write or to_write:
                            return False
                    return True

                self.wait(free, lambda: var.uses[0].item.what)
        if var.orphan:
            _hooks[0](var.orphan)


def _items() -> list[_Item]:
    try:
        return _inside.items  # type: ignore[no-any-return]
    except AttributeError:
        _inside.items = []
        return _inside.items  # type: ignore[no-any-return]


_engine = _Engine(0)
_hooks: list[Callable[..., Any]] = []


def setup(forked: Callable[[str], Any], timeout: Callable[[str], Any],
          seconds: Callable[[], float]) -> None:
    """What raises for work lost by a fork, what raises for a wait too long, and its limit."""
    _hooks[:] = [forked, timeout, seconds]


def push(fn: Callable[[], Any], reads: Iterable[Var], writes: Iterable[Var], priority: int,
         what: str) -> None:
    """Queue `fn`; without workers it has run when this returns."""
    item = _Item(fn, reads, writes, priority, what)
    engine = _engine
    if not _items() and engine.count and not engine.stopped:
        engine.wait(lambda: engine.queued < engine.most, lambda: next(iter(engine.open)).what)
    inline = not threads()
    engine.push(item)
    if inline and not item.writes and item.failure is not None:
        item.failure.see()


def begin(writes: Iterable[Var], what: str, reads: Iterable[Var] = ()) -> Ticket:
    """Announce work that ends elsewhere; returns when earlier uses have ended."""
    item = _Item(None, reads, writes, 0, what)
    for var in (*item.writes, *item.reads):
        with _engine.lock:
            _engine.fresh(var)
        if var.orphan:
            _hooks[0](var.orphan)
        if any(var in (*held.reads, *held.writes) for held in _items()):
            raise ArgumentValueError(
                f"{what}: announced inside queued work that holds the array itself; leave the "
                "array out of that work's reads and writes")
    _engine.push(item)
    try:
        _engine.wait(lambda: item.granted, lambda: what)
    except BaseException:
        _engine.end(item, None)
        raise
    return Ticket(item)


def wait_all() -> None:
    """Wait for all work under way; raise the first error that nobody has seen yet."""
    inside = _items()
    before = inside[0].number if inside else None

    def done() -> bool:
        first = next(iter(_engine.open), None)
        return first is None or (before is not None and first.number >= before)

    _engine.wait(done, lambda: next(iter(_engine.open)).what)
    with _engine.lock:
        found, _engine.unseen = _engine.unseen, []
    first: BaseException | None = None
    for failure in found:
        first, failure.error = first or failure.error, None
    if first is not None:
        raise first


def threads() -> int:
    """How many workers there are; 0: all runs in the caller's thread."""
    return 0 if _engine.stopped else _engine.count


def set_threads(threads: int) -> None:
    """Finish what is ready and go on with so many workers."""
    stop()
    _engine.count = threads
    _engine.stopped = False


def limit(items: int, bytes: int) -> None:
    """How much may wait before push does; bytes count for native work only."""
    _engine.most = items


def open() -> int:
    """How many items have not ended."""
    return len(_engine.open)


def trace(on: bool) -> None:
    """Keep the spans of items from now on, or no more."""
    _engine.tracing = on


def spans() -> list[tuple[str, int, int, bool]]:
    """What was kept: (what, begin, end, whether it ran here); it is forgotten."""
    with _engine.lock:
        found, _engine.spans = _engine.spans, []
    return found


def pause() -> None:
    """Before a fork: nothing of the engine is half done."""
    _engine.lock.acquire()


def resume() -> None:
    """After a fork, in the parent."""
    _engine.lock.release()


def after_fork() -> None:
    """After a fork, in the child: it owns none of the parent's work."""
    _items().clear()
    _engine.forget()


def stop() -> None:
    """Run what is ready, end the workers. Later work runs within push."""
    engine = _engine
    with engine.lock:
        while engine.workers and (engine.ready or engine.running):
            engine.now.wait(0.1)
        engine.stopped = True
        workers, engine.workers = engine.workers, []
        engine.now.notify_all()
    for worker in workers:
        worker.join()
