"""Events of one's own: tasks, frames, counters and markers."""
from __future__ import annotations

import time
from typing import Any

from ..base import ArgumentValueError
from .record import numbers, recorder

__all__ = ["Counter", "Domain", "Event", "Frame", "Marker", "Task"]


class Domain:
    """A group of tasks, frames, counters and markers.

    >>> domain = Domain("input")
    >>> with domain.new_task("decode"):
    ...     images = domain.new_counter("images", 0)
    ...     images += 8
    >>> str(domain), str(images)
    ('input', 'images')
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """A Task of this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """A Frame of this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: float | None = None) -> Counter:
        """A Counter of this domain."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """A Marker of this domain."""
        return Marker(self, name)


class _Span:
    """Something with a start and a stop; also a ``with`` block."""

    def __init__(self, category: str, name: str) -> None:
        self.name = name
        self._category = category
        self._id = next(numbers)

    def start(self) -> None:
        """It begins now."""
        recorder.add(self.name, self._category, "b", time.perf_counter_ns(), id=self._id)

    def stop(self) -> None:
        """It ends now."""
        recorder.add(self.name, self._category, "e", time.perf_counter_ns(), id=self._id)

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def __str__(self) -> str:
        return self.name


class Task(_Span):
    """A piece of work; may begin in one thread and end in another."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(domain.name, name)


class Frame(_Span):
    """One of many passes of the same kind, e.g. an image."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(f"{domain.name},frame", name)


class Event(_Span):
    """A piece of work in one thread, of no domain."""

    def __init__(self, name: str) -> None:
        super().__init__("event", name)
        self._begin: int | None = None

    def start(self) -> None:
        """It begins now."""
        self._begin = time.perf_counter_ns()

    def stop(self) -> None:
        """It ends now."""
        if self._begin is not None:
            recorder.span(self.name, self._category, self._begin, time.perf_counter_ns())
            self._begin = None


class Counter:
    """A number that changes: ``counter += 3``, ``counter.set_value(7)``."""

    def __init__(self, domain: Domain, name: str, value: float | None = None) -> None:
        self.name = name
        self._category = domain.name
        self._value = 0.0
        if value is not None:
            self.set_value(value)

    def set_value(self, value: float) -> None:
        """It is this from now on."""
        self._value = value
        recorder.add(self.name, self._category, "C", time.perf_counter_ns(),
                     args={self.name: value})

    def increment(self, delta: float = 1) -> None:
        """It grows."""
        self.set_value(self._value + delta)

    def decrement(self, delta: float = 1) -> None:
        """It shrinks."""
        self.set_value(self._value - delta)

    def __iadd__(self, delta: float) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: float) -> Counter:
        self.decrement(delta)
        return self

    def __str__(self) -> str:
        return self.name


class Marker:
    """A moment."""

    def __init__(self, domain: Domain, name: str) -> None:
        self.name = name
        self._category = f"{domain.name},instant_marker"

    def mark(self, scope: str = "process") -> None:
        """It is now; `scope` is 'global', 'process', 'thread', 'task' or 'marker'."""
        scopes = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}
        if scope not in scopes:
            raise ArgumentValueError(f"Marker.mark: scope must be one of {', '.join(scopes)}, "
                                     f"got {scope!r}")
        recorder.add(self.name, self._category, "i", time.perf_counter_ns(), s=scopes[scope])

    def __str__(self) -> str:
        return self.name
