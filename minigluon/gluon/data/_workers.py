"""Worker processes of a DataLoader: forked, watched, and gone when the loader is gone.

Why fork: a dataset may hold anything (lambdas, open files, arrays of gigabytes) and nothing of it
must be pickled or imported again. What makes it safe beside other threads (a KVStore's network
thread, ZeroMQ) is that the child touches nothing they own: it runs only the dataset and the
batching, never leaves `_run_child`, replaces every socket it inherited (so that a dead worker's
peers see it die), freezes the inherited objects against garbage collection (so that no finalizer
of the parent's objects runs), and ends by ``os._exit``. Operators run inline there. A dataset that
computes on a GPU cannot be forked: use ``thread_pool=True``.

The parent has no helper thread: results are taken from the sockets when the next batch is asked
for. The workers end when the parent does, by any signal, as their socket then hangs up.
"""
from __future__ import annotations

import contextlib
import gc
import os
import pickle
import random as python_random
import select
import signal
import stat
import sys
import threading
import time
import traceback
import warnings
import weakref
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import autograd, random
from ...base import MXNetError, NotForThisError
from ...context import cpu
from ...ndarray import waitall
from ._channel import Channel

__all__ = ["LoaderTimeout", "WorkerPool", "WorkerTraceback", "note_sample"]

MOST_TASKS = 64  # waiting in one worker's socket


class LoaderTimeout(MXNetError, TimeoutError):
    """A DataLoader worker did not deliver a batch in time."""


class WorkerTraceback(Exception):
    """Shows the traceback of a worker as the cause of the error raised in the parent."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def note_sample(error: BaseException, index: Any) -> None:
    """Let the traceback of `error` say which sample it came from."""
    text = f"while loading sample {index}"
    if hasattr(error, "add_note"):
        error.add_note(text)
    elif error.__cause__ is None:  # Python 3.10
        error.__cause__ = WorkerTraceback(text)


class _Failure:
    """An exception on its way to the parent."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.text = f"{where}:\n" + "".join(traceback.format_exception(error)).rstrip()
        self.error: BaseException | None = error
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            self.error = None
        if not isinstance(error, Exception):
            self.error = None  # a worker's SystemExit must not end the parent

    def throw(self) -> None:
        error = self.error or MXNetError(
            "a DataLoader worker failed; its traceback stands above"
        )
        raise error from WorkerTraceback(self.text)


class _Worker:
    """The parent's view of one worker process."""

    def __init__(self, number: int, pid: int, channel: Channel) -> None:
        self.number = number
        self.pid = pid
        self.channel = channel
        self.tasks: list[tuple[int, int]] = []  # (mailbox, batch) it still owes
        self.reaped = False  # its process number may belong to another process by now


class WorkerPool:
    """Processes that run ``job(indices) -> batch``.

    Args:
        job: runs in the workers, on the state of the parent at the moment of construction.
        count: number of processes.
    """

    def __init__(self, job: Callable[[Sequence[int]], Any], count: int) -> None:
        if not hasattr(os, "fork"):
            raise NotForThisError(
                "DataLoader: worker processes need fork, which this system lacks; "
                "use thread_pool=True or num_workers=0"
            )
        waitall()  # arrays of the dataset that are still on their way would never arrive there
        self._workers = [_start(number, job) for number in range(count)]
        self._mail: dict[int, dict[int, Any]] = {}
        self._count = 0
        self._poll = select.poll()
        for worker in self._workers:
            self._poll.register(worker.channel, select.POLLIN)
        self.close = weakref.finalize(self, _end, os.getpid(), self._workers)

    @property
    def most_tasks(self) -> int:
        """How many batches may be under way at once."""
        return MOST_TASKS * len(self._workers)

    def open(self) -> int:
        """A new mailbox; its number goes with each task."""
        self._count += 1
        self._mail[self._count] = {}
        return self._count

    def discard(self, mailbox: int) -> None:
        """Forget a mailbox; what still arrives for it is dropped."""
        self._mail.pop(mailbox, None)

    def submit(self, mailbox: int, batch: int, indices: Sequence[int], seed: int) -> None:
        """Have batch number `batch` of a mailbox made by the worker with the least to do."""
        worker = min(self._workers, key=lambda one: len(one.tasks))
        worker.tasks.append((mailbox, batch))
        try:
            worker.channel.send((mailbox, batch, indices, seed))
        except OSError:
            self._lost(worker)

    def take(self, mailbox: int, batch: int, timeout: float | None) -> Any:
        """The result of one task, waiting for it; raises the worker's exception."""
        mail = self._mail[mailbox]
        limit = time.monotonic() + timeout if timeout else None
        while batch not in mail:
            self._receive(batch, limit, timeout)
        result = mail.pop(batch)
        if isinstance(result, _Failure):
            result.throw()
        return result

    def _receive(self, batch: int, limit: float | None, timeout: float | None) -> None:
        wait = None if limit is None else max(0.0, limit - time.monotonic()) * 1000
        ready = {fd for fd, _ in self._poll.poll(wait)}
        if not ready:
            raise LoaderTimeout(
                f"DataLoader: no batch {batch} after {timeout:g} seconds; samples that take long "
                "need a larger timeout= (None waits for ever)"
            )
        for worker in self._workers:
            if worker.channel.fileno() in ready:
                self._collect(worker)

    def _collect(self, worker: _Worker) -> None:
        try:
            mailbox, number, result = worker.channel.receive()
        except (EOFError, OSError):
            self._lost(worker)
        worker.tasks.remove((mailbox, number))
        if mailbox in self._mail:
            self._mail[mailbox][number] = result

    def _lost(self, worker: _Worker) -> None:
        """Say how a worker died; the others end with it."""
        owed = [batch for _, batch in worker.tasks]
        status = _reap(worker, wait=2.0)
        self.close()
        doing = f"while it made batch {owed[0]}" if owed else "while it was idle"
        raise MXNetError(
            f"DataLoader: worker {worker.number} (process {worker.pid}) {_how(status)} {doing}; "
            "use num_workers=0 to see the error in this process"
        ) from None


def _how(status: int | None) -> str:
    if status is None:
        return "ended"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"


def _end(owner: int, workers: list[_Worker]) -> None:
    """Kill and reap the workers. They hold nothing that outlives them."""
    if os.getpid() != owner:  # a forked process that inherited the pool
        return
    for worker in workers:
        if not worker.reaped:
            with contextlib.suppress(ProcessLookupError):  # someone else reaped it
                os.kill(worker.pid, signal.SIGKILL)
    for worker in workers:
        worker.channel.close()
        if not worker.reaped:
            _reap(worker)


def _reap(worker: _Worker, wait: float | None = None) -> int | None:
    """The exit status of a dead child; None when someone else took it or it lives after `wait`."""
    try:
        if wait is not None and hasattr(os, "pidfd_open"):
            handle = os.pidfd_open(worker.pid)
            try:
                if not select.select([handle], [], [], wait)[0]:
                    return None
            finally:
                os.close(handle)
        status = os.waitpid(worker.pid, 0)[1]
    except (ChildProcessError, ProcessLookupError):
        status = None
    worker.reaped = True
    return status


# -- in the child ----------------------------------------------------------------------------------


def _start(number: int, job: Callable[[Sequence[int]], Any]) -> _Worker:
    here, there = Channel.pair()
    parent = os.getpid()
    with warnings.catch_warnings():
        # Python 3.12 warns of threads at any fork; the module's text says why this one may
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _run_child(number, parent, there, job)
    there.close()
    return _Worker(number, pid, here)


def _run_child(number: int, parent: int, channel: Channel,
               job: Callable[[Sequence[int]], Any]) -> None:
    code = 1
    try:
        gc.freeze()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        _forget_sockets(keep=channel.fileno())
        threading.Thread(target=_end_with_parent, args=(parent, channel), daemon=True).start()
        autograd.set_recording(False)
        _serve(number, channel, job)
        code = 0
    except (EOFError, OSError):
        code = 0  # the parent is gone or has closed the pool
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _forget_sockets(keep: int) -> None:
    """Put /dev/null in the place of every inherited socket but one.

    The numbers stay taken, so that objects of the parent that close "their" socket do no harm.
    """
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir(folder):
        fd = int(name)
        if fd <= 2 or fd in (keep, null):
            continue
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.dup2(null, fd, inheritable=False)
        except OSError:
            continue  # the descriptor of the listing itself
    os.close(null)


def _end_with_parent(parent: int, channel: Channel) -> None:
    """End this process when the parent's side hangs up, also in the midst of a slow sample."""
    poll = select.poll()
    poll.register(channel, 0)  # reports hang-ups alone
    while not poll.poll(1000) and os.getppid() == parent:
        continue  # a sibling forked by user code may hold the parent's side open: ask for the pid
    os._exit(0)


def _serve(number: int, channel: Channel, job: Callable[[Sequence[int]], Any]) -> None:
    while True:
        mailbox, batch, indices, seed = channel.receive()
        _seed_batch(seed, batch)
        result: Any
        try:
            result = job(indices)
        except BaseException as error:
            result = _Failure(error, f"DataLoader worker {number}, batch {batch}")
        try:
            channel.send((mailbox, batch, result))
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            where = f"DataLoader worker {number}, batch {batch}: it cannot be sent (pickled)"
            channel.send((mailbox, batch, _Failure(error, where)))


def _seed_batch(seed: int, batch: int) -> None:
    """Give each batch random streams of its own, whichever worker makes it."""
    mixed = zlib.crc32(f"{seed}:{batch}".encode())
    python_random.seed(mixed)
    np.random.seed(mixed)
    random.seed(mixed, ctx=cpu(0))  # that one alone: a GPU cannot be touched after a fork
