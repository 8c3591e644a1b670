"""In what order things happen to an array: variables, pending writes, and errors that wait.

The contract is MXNet's engine. ``push(fn, reads, writes, priority)`` queues work: it runs after all
earlier writes of what it reads, and after all earlier reads and writes of what it writes; what is
ready runs by priority on worker threads. Whoever reads an array waits for its pending writes,
whoever writes one waits for its pending reads, too. Work that ends elsewhere (a pull that a
KVStore's network thread completes) holds a Ticket on the variables it writes.

An error in queued work surfaces at the next read of what it should have written, or at
``wait_all``, once; work that needs a failed variable does not run and hands the error on. An
operator whose values turn out to be wrong only as it runs (a negative deviation, an index out of
range) does not raise at the call either: its results are failed arrays, and so are the results of
operators on them, until somebody reads one.

An array has a Var only when something needs one: views of one buffer share it. The engine itself
is ``src/engine/``, or `plainengine` where the native core is off. ``MXNET_ENGINE_TYPE=NaiveEngine``
runs everything within push. See docs/engine.md.
"""
from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from ..base import ArgumentValueError, KVStoreTimeout, MXNetError, env_bool, env_float, env_int
from . import plainengine
from .cpu import native

__all__ = ["Failure", "Ticket", "Var", "begin", "push", "set_workers", "spans", "trace", "wait_all",
           "workers"]

_engine: Any = native.core.engine if native.enabled else plainengine

if TYPE_CHECKING:
    from .plainengine import Failure, Ticket, Var
else:
    Failure, Ticket, Var = _engine.Failure, _engine.Ticket, _engine.Var


def begin(
    writes: Iterable[Var], what: str = "work", reads: Iterable[Var] = ()
) -> Ticket:
    """Announce work that will write `writes` and end elsewhere; returns when earlier uses ended.

    Args:
        writes: variables of the arrays that will be written (``array._variable()``).
        what: names the work in messages, e.g. "pull of key 3".
        reads: of arrays that it reads: they can be read meanwhile; whoever writes one waits.

    Returns:
        A Ticket. Exactly one of ``done()`` and ``fail(error)`` ends it, from any thread.
    """
    return _engine.begin(writes, what, reads)  # type: ignore[no-any-return]


def push(
    fn: Callable[[], Any],
    reads: Iterable[Var] = (),
    writes: Iterable[Var] = (),
    priority: int = 0,
    what: str = "work",
) -> None:
    """Queue `fn`, to run after earlier writes of what it reads and earlier uses of what it writes.

    It runs on a worker thread, with the GIL. What it reads and writes beyond `reads` and `writes`
    is not protected; inside `fn`, an array that it holds may be used as always. Waits where very
    much is queued already; from inside queued work it never does.

    Args:
        fn: called once, without arguments.
        reads, writes: variables (``array._variable()``).
        priority: among what is ready, the highest runs first.
        what: names the work in messages.

    An error of `fn` is kept in `writes` and raised by their next reader, or by ``wait_all``.
    Without worker threads (``NaiveEngine``) `fn` has run when this returns, and with no writes its
    error is raised here.

    >>> import minigluon as mx
    >>> x = mx.nd.zeros((2,))
    >>> push(lambda: x.__setitem__(slice(None), 3), writes=[x._variable()])
    >>> x.asnumpy().tolist()
    [3.0, 3.0]
    """
    _engine.push(fn, reads, writes, priority, what)


def wait_all() -> None:
    """Wait for all work under way; raise the first error that nobody has seen yet."""
    _engine.wait_all()


def trace(on: bool) -> None:
    """Keep from now on, or no more, when queued work was done (see `spans`)."""
    _engine.trace(on)


def spans() -> list[tuple[str, int, int, bool]]:
    """What was traced so far, which is forgotten: (what, begin, end, whether it ran here).

    Times are those of ``time.perf_counter_ns``. Work that ends elsewhere lasts from when its arrays
    were free for it to the call of ``done()``.
    """
    return list(_engine.spans())


def workers() -> int:
    """How many worker threads there are (once something is queued); 0: all runs at once."""
    return int(_engine.threads())


def set_workers(count: int) -> None:
    """Finish what is ready, then go on with `count` worker threads; 0 is NaiveEngine."""
    _engine.set_threads(count)


def _forked(what: str) -> NoReturn:
    raise MXNetError(
        f"{what}: still pending when this process was forked; its result arrives only in the "
        "parent. Wait for the array (wait_to_read) before forking.")


def _too_long(what: str) -> NoReturn:
    raise KVStoreTimeout(f"{what}: no end after {_patience():.0f} seconds")


def _patience() -> float:
    """The limit of a wait, in seconds. A last resort: work has a deadline of its own."""
    return 2 * env_float("MINIGLUON_OP_TIMEOUT", 300.0) + 60.0


def _workers_wanted() -> int:
    kind = os.environ.get("MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice")
    if kind == "NaiveEngine":
        return 0
    if not kind.startswith("ThreadedEngine"):
        raise ArgumentValueError(
            "MXNET_ENGINE_TYPE: expected NaiveEngine, ThreadedEngine or ThreadedEnginePerDevice, "
            f"got {kind!r}")
    return max(1, env_int("MXNET_CPU_WORKER_NTHREADS", 1))


def _worth_queueing() -> float:
    """Seconds from which on a compiled graph is queued; infinite: none is.

    On one core there is nobody to run ahead of.
    """
    if not env_bool("MINIGLUON_RUN_AHEAD", True) or _cores() < 2:
        return float("inf")
    return 1e-6 * env_float("MINIGLUON_RUN_AHEAD_US", 2000.0)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


_engine.setup(_forked, _too_long, _patience)
_engine.set_threads(_workers_wanted())
if native.enabled:
    _engine.queue_from(_worth_queueing())
atexit.register(_engine.stop)
os.register_at_fork(before=_engine.pause, after_in_parent=_engine.resume,
                    after_in_child=getattr(_engine, "after_fork", None) or (lambda: None))
