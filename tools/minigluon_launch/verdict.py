"""Who failed first, which exit code the job has, and the words about it."""

from __future__ import annotations

import signal
from collections.abc import Sequence

__all__ = [
    "INFRASTRUCTURE",
    "Outcome",
    "culprit",
    "describe",
    "exit_code",
    "is_consequence",
    "report",
]

INFRASTRUCTURE = 75  # EX_TEMPFAIL: not the script's fault; starting again may help
_LAST_LINES = 14
_PEER_ERRORS = (b"PeerLost", b"KVStoreTimeout")
_TRACEBACK = b"Traceback (most recent call last):"


class Outcome:
    """How a role ended.

    Args:
        label: ``worker 1``.
        status: exit code, or minus the signal that killed it; None while it runs.
        when: monotonic time of the end.
        stopped: whether the launcher had asked it to end before.
        last_lines: the end of its standard error.
    """

    def __init__(self, label: str, status: int | None = None, when: float = 0.0,
                 stopped: bool = False, last_lines: Sequence[bytes] = ()) -> None:
        self.label, self.status, self.when = label, status, when
        self.stopped, self.last_lines = stopped, last_lines

    @property
    def failed(self) -> bool:
        """Whether it ended badly by itself."""
        return self.status not in (None, 0) and not self.stopped


def is_consequence(outcome: Outcome) -> bool:
    """Whether this failure reports that another role was lost, rather than a fault of its own."""
    if outcome.status == INFRASTRUCTURE:
        return True
    last = next((line for line in reversed(outcome.last_lines) if line.strip()), b"")
    return any(name in last for name in _PEER_ERRORS)


def culprit(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The role that failed first; those that merely noticed another's end come after the rest."""
    failed = [outcome for outcome in outcomes if outcome.failed]
    return min(failed, key=lambda outcome: (is_consequence(outcome), outcome.when), default=None)


def exit_code(status: int) -> int:
    """The shell's convention: the code itself, or 128 + n for signal n.

    >>> exit_code(3), exit_code(-9)
    (3, 137)
    """
    return status if status >= 0 else 128 - status


def describe(status: int) -> str:
    """Words for an exit status.

    >>> describe(1), describe(-9)
    ('ended with exit code 1', 'was killed by SIGKILL')
    """
    if status >= 0:
        return f"ended with exit code {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def report(outcomes: Sequence[Outcome], first: Outcome, seconds: float) -> tuple[str, list[bytes]]:
    """The summary, and the lines of the first failing role to show below it."""
    assert first.status is not None
    parts = [f"job failed after {seconds:.1f} s: {first.label} {describe(first.status)}"]
    others: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome is not first:
            others.setdefault(_fate(outcome), []).append(outcome.label)
    parts += [f"  {', '.join(labels)}: {fate}" for fate, labels in others.items()]
    lines = _last_words(first.last_lines)
    if lines:
        parts.append(f"the last lines of {first.label}:")
    return "\n".join(parts), lines


def _fate(outcome: Outcome) -> str:
    if outcome.status == 0:
        return "ended well"
    if outcome.stopped or outcome.status is None:
        return "ended as a consequence (stopped by the launcher)"
    if is_consequence(outcome):
        return f"ended as a consequence ({describe(outcome.status).removeprefix('ended with ')})"
    return f"{describe(outcome.status)} too, later"


def _last_words(lines: Sequence[bytes]) -> list[bytes]:
    """The last traceback, or the last few lines where there is none."""
    lines = list(lines)
    while lines and not lines[-1].strip():
        lines.pop()
    starts = [index for index, line in enumerate(lines) if line.startswith(_TRACEBACK)]
    if not starts:
        return lines[-5:]
    shown = lines[starts[-1] :]
    if len(shown) > _LAST_LINES:
        shown = [shown[0], b"  ...", *shown[2 - _LAST_LINES :]]
    return shown
