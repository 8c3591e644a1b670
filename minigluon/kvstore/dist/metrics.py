"""What can be seen of a job from outside: a line, a table, and Prometheus' text format.

The format is described at prometheus.io/docs/instrumenting/exposition_formats/. The endpoint
listens on loopback only and gives away counters, nothing else.
"""
from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from .messages import Member, Role, Stall, workers
from .record import Record, field

__all__ = ["Endpoint", "Picture", "add_up"]


class Picture(Record):
    """A job at one moment, as the scheduler knows it.

    Args:
        phase: of the job.
        members: everybody.
        heard: seconds since a word of each uid, and its step.
        counters: of each server, by uid.
        stalls: open waits.
    """

    phase: str
    members: tuple[Member, ...] = ()
    heard: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    counters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stalls: tuple[Stall, ...] = ()

    def slowest(self) -> str:
        """The worker that the others have waited for the longest, in words; empty if none."""
        late = add_up(self.counters.values()).get("last_seconds", {})
        if not late:
            return ""
        rank = max(late, key=lambda r: late[r])
        return f"worker {rank} ({late[rank]:.1f} s)"

    def line(self) -> str:
        """One line for people who watch."""
        total = add_up(self.counters.values())
        words = [f"step {max((s for _, s in self.heard.values()), default=0)}"]
        words += [f"{way} {_size(total.get(f'bytes_{way}', 0))}" for way in ("in", "out")]
        for name in ("wait", "merge", "update"):
            words.append(f"{name} {total.get(name + '_seconds', 0.0):.1f} s")
        if total.get("staleness"):
            words.append("staleness " + " ".join(
                f"{lag}:{n}" for lag, n in sorted(total["staleness"].items(), key=_number)))
        slowest = self.slowest()
        return "; ".join([*words, *([f"most waited for: {slowest}"] if slowest else [])])

    def table(self) -> str:
        """Workers, servers, and who waits for whom."""
        rows = [("who", "where", "pid", "heard", "step", "keys", "held", "rounds")]
        for member in self.members:
            age, step = self.heard.get(member.uid, (0.0, 0))
            own = self.counters.get(member.uid, {})
            serves = member.role is Role.SERVER
            rows.append((
                str(member.node), member.host, str(member.pid), f"{age:.1f} s ago",
                "" if serves else str(step), str(own.get("keys", "")) if serves else "",
                _size(own.get("held_bytes", 0)) if serves else "",
                str(own.get("rounds", "")) if serves else "",
            ))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [f"job: {self.phase}"]
        lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        lines += [f"{stall} since {stall.seconds:.1f} s" for stall in self.stalls]
        if not self.stalls:
            lines.append("nobody waits for long")
        slowest = self.slowest()
        lines += [f"most waited for so far: {slowest}"] if slowest else []
        return "\n".join(lines) + "\n"

    def prometheus(self) -> str:
        """The counters in Prometheus' text format."""
        lines: list[str] = []
        series: dict[str, list[str]] = {}
        for member in self.members:
            who = f'role="{member.node.role.name.lower()}",rank="{member.rank}"'
            age, step = self.heard.get(member.uid, (0.0, 0))
            series.setdefault("silent_seconds", []).append(f"{{{who}}} {age:.3f}")
            if member.role is Role.WORKER:
                series.setdefault("step", []).append(f"{{{who}}} {step}")
            for name, value in self.counters.get(member.uid, {}).items():
                label = {"staleness": "lag", "last_seconds": "worker"}.get(name)
                if label is None:
                    series.setdefault(name, []).append(f"{{{who}}} {value}")
                else:
                    series.setdefault(name, []).extend(
                        f'{{{who},{label}="{one}"}} {n}' for one, n in value.items())
        for name, values in series.items():
            kind = "gauge" if name in _GAUGES else "counter"
            lines.append(f"# TYPE minigluon_{name} {kind}")
            lines += [f"minigluon_{name}{value}" for value in values]
        for stall in self.stalls:
            key = stall.key.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            who = workers(stall.missing)
            labels = f'key="{key}",for="{who}"'
            lines.append(f"minigluon_waiting_seconds{{{labels}}} {stall.seconds:.3f}")
        return "\n".join(lines) + "\n"


_GAUGES = ("silent_seconds", "step", "staleness_max", "keys", "held_bytes")


def _number(pair: tuple[str, Any]) -> int:
    return int(pair[0])


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 10_000 or unit == "GB":
            return f"{count:.0f} {unit}"
        count /= 1000
    return ""


def add_up(many: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The counters of several servers as one: sums, the maximum of ``*_max``, entry by entry.

    >>> add_up([{"a": 1, "b_max": 5, "c": {"x": 1}}, {"a": 2, "b_max": 3, "c": {"x": 1, "y": 2}}])
    {'a': 3, 'b_max': 5, 'c': {'x': 2, 'y': 2}}
    """
    total: dict[str, Any] = {}
    for counters in many:
        for name, value in counters.items():
            if isinstance(value, Mapping):
                total[name] = add_up([total.get(name, {}), value])
            elif name.endswith("_max"):
                total[name] = max(total.get(name, 0), value)
            else:
                total[name] = total.get(name, 0) + value
    return total


class Endpoint:
    """``/metrics`` (Prometheus) and ``/`` (the table) over HTTP on loopback.

    Args:
        port: where to listen; 0 takes a free port, see `port`.
    """

    def __init__(self, port: int) -> None:
        # Here, not above: every process of a job imports this file, few listen.
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        self.picture = Picture("gathering")
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5.0

            def do_GET(self) -> None:
                pages = {"/metrics": endpoint.picture.prometheus, "/": endpoint.picture.table}
                page = pages.get(self.path)
                body = (page() if page is not None else "try / or /metrics\n").encode()
                self.send_response(200 if page is not None else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Requests are not worth a line."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(2.0)
