"""How often and how long: sums of the events of each name, and their table."""
from __future__ import annotations

from typing import Any

from .record import recorder

__all__ = ["sums", "table", "totals"]


def sums() -> dict[str, dict[str, list[float]]]:
    """Category -> name -> count, sum, least, greatest of times in ms, with the events written.

    For counters the times are values.
    """
    recorder.take_spans()
    found = {category: {name: [*row] for name, row in rows.items()}
             for category, rows in recorder.written.items()}
    begun: dict[Any, float] = {}
    for event in recorder.events:
        if event["ph"] == "b":
            begun[event["id"]] = event["ts"]
            continue
        if event["ph"] == "C":
            value = event["args"][event["name"]]
        elif event["ph"] == "e":
            value = (event["ts"] - begun.pop(event["id"], event["ts"])) / 1000
        elif event["ph"] == "X":
            value = event["dur"] / 1000
        else:
            continue
        rows = found.setdefault(event["cat"], {})
        count, total, least, most = rows.get(event["name"], (0, 0, value, value))
        rows[event["name"]] = [count + 1, total + value, min(least, value), max(most, value)]
    return found


def totals() -> dict[str, dict[str, dict[str, float]]]:
    """Category -> name -> Count, Total, Min, Max, Avg."""
    return {category: {name: {"Count": count, "Total": total, "Min": least, "Max": most,
                              "Avg": total / count}
                       for name, (count, total, least, most) in rows.items()}
            for category, rows in sums().items()}


def table(found: dict[str, dict[str, dict[str, float]]]) -> str:
    """What `totals` gives, as text: category by category, a line for each name."""
    titles = ("Name", "Total Count", "Time (ms)", "Min Time (ms)", "Max Time (ms)",
              "Avg Time (ms)")
    lines = ["", "Profile Statistics:"]
    for category, rows in found.items():
        lines += [category, "=" * 17, _row(*titles), _row(*("-" * len(title) for title in titles))]
        lines += [_row(name, row["Count"], *(f"{row[key]:.4f}"
                                             for key in ("Total", "Min", "Max", "Avg")))
                  for name, row in rows.items()]
        lines.append("")
    return "\n".join(lines)


def _row(name: Any, count: Any, *times: Any) -> str:
    return f"{name:<30}{count:>11}" + "".join(f"{one:>17}" for one in times)
