"""What test suites are run with: retries, environments, contexts, small sums."""
from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .. import context
from ..base import FileMissingError
from ..context import Context, current_context
from ..device import num_gpus
from ..util import getenv, setenv
from .compare import Host

__all__ = [
    "collapse_sum_like", "default_context", "discard_stderr", "environment", "get_im2rec_path",
    "has_tvm_ops", "is_aarch64_run", "is_cd_run", "is_op_runnable", "list_gpus", "np_reduce",
    "retry", "set_default_context",
]

F = TypeVar("F", bound=Callable[..., Any])


def retry(n: int) -> Callable[[F], F]:
    """Decorator for tests with chance in them: run up to `n` times, until one succeeds.

    >>> tries = []
    >>> @retry(3)
    ... def test():
    ...     tries.append(1)
    ...     assert len(tries) == 2
    >>> test(); len(tries)
    2
    """
    if n < 1:
        raise AssertionError(f"retry: expected a number of tries of 1 or more, got {n}")

    def decorate(test: F) -> F:
        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> Any:
            for _ in range(n - 1):
                try:
                    return test(*args, **kwargs)
                except AssertionError:
                    continue
            return test(*args, **kwargs)

        return run  # type: ignore[return-value]

    return decorate


@contextlib.contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Environment variables for the length of a ``with``: a name and a value, or a dict of them.

    A value of None takes the variable away.

    >>> with environment("MINIGLUON_DOC", "1"):
    ...     print(os.environ["MINIGLUON_DOC"])
    1
    """
    if len(args) == 1 and isinstance(args[0], dict):
        wanted = args[0]
    elif len(args) == 2:
        wanted = {args[0]: args[1]}
    else:
        raise AssertionError("Expecting one dict arg or two args: env var name and value")
    before = {name: getenv(name) for name in wanted}
    try:
        for name, value in wanted.items():
            setenv(name, value)
        yield
    finally:
        for name, value in before.items():
            setenv(name, value)


@contextlib.contextmanager
def discard_stderr() -> Iterator[None]:
    """What the process writes to its error output during a ``with`` is thrown away."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


# -- contexts --------------------------------------------------------------------------------------

def default_context() -> Context:
    """The context that checks run on: the current one."""
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Make `ctx` the current context of this thread from now on."""
    context._current.ctx = ctx


def list_gpus() -> range:
    """The numbers of the GPUs that can be used."""
    return range(num_gpus())


def is_op_runnable() -> bool:
    """Whether operators can be run on the current context: always."""
    return True


def has_tvm_ops() -> bool:
    """Whether operators made by TVM are built in: never."""
    return False


def is_cd_run() -> bool:
    """Whether environment variable CD_JOB says that this is a run for delivery."""
    return os.environ.get("CD_JOB", "0") == "1"


def is_aarch64_run() -> bool:
    """Whether this is a 64-bit ARM machine."""
    return platform.machine() == "aarch64"


# -- sums ------------------------------------------------------------------------------------------

def np_reduce(dat: Any, axis: int | Sequence[int] | None, keepdims: bool,
              numpy_reduce_func: Callable[..., Any]) -> Any:
    """Reduce several axes with a function that takes one at a time.

    >>> np_reduce(np.ones((2, 3)), (0, 1), True, np.sum)
    array([[6.]])
    """
    axes = (range(dat.ndim) if axis is None else
            sorted({axis} if isinstance(axis, int) else set(axis)))
    result = dat
    for one in reversed(list(axes)):
        result = numpy_reduce_func(result, axis=one)
    if keepdims:
        result = np.asarray(result).reshape(
            [1 if place in axes else size for place, size in enumerate(dat.shape)])
    return result


def collapse_sum_like(a: Host, shape: Sequence[int]) -> Host:
    """Sum `a` over the axes along which an array of `shape` would be broadcast to it.

    >>> collapse_sum_like(np.ones((2, 3)), (1, 3))
    array([[2., 2., 2.]])
    """
    if len(a.shape) < len(shape):
        raise AssertionError(f"shape {tuple(shape)} has more axes than the array, {a.shape}")
    if np.prod(a.shape) == 0:
        return np.zeros(shape, a.dtype)
    padded = (1,) * (a.ndim - len(shape)) + tuple(shape)
    for size, wanted in zip(a.shape, padded, strict=True):
        if wanted not in (1, size):
            raise AssertionError(f"an array of shape {tuple(shape)} does not broadcast to "
                                 f"{a.shape}")
    axes = tuple(place for place, (size, wanted) in enumerate(zip(a.shape, padded, strict=True))
                 if size != wanted)
    return np.asarray(a.sum(axis=axes, keepdims=True).reshape(shape) if axes
                      else a.reshape(shape))


def get_im2rec_path(home_env: str = "MXNET_HOME") -> str:
    """The path to im2rec.py: below the folder that an environment variable names.

    Raises:
        FileNotFoundError: there is none.
    """
    if home_env in os.environ:
        place = Path(os.environ[home_env])
        for path in (place / "im2rec.py", place / "tools" / "im2rec.py"):
            if path.is_file():
                return str(path)
    raise FileMissingError(f"get_im2rec_path: no im2rec.py below {home_env}="
                           f"{os.environ.get(home_env)!r}; set it to a folder that has one")
