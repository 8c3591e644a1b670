"""The door: main(argv) -> exit code."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from .console import Console
from .job import Job
from .options import parse
from .roles import StartError, make_plan
from .verdict import INFRASTRUCTURE

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job that the command line describes; returns the exit code of the launcher."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing has been started that needs an end
    options = parse(argv)
    _fill_standard_descriptors()
    console = Console.on_this_terminal()
    try:
        plan = make_plan(options, os.environ, console.width if console.live else None)
        with plan.hold:
            return Job(plan, console, options.grace, options.verbose).run()
    except StartError as error:
        os.write(2, f"launch: {error}\n".encode())
        return INFRASTRUCTURE


def _fill_standard_descriptors() -> None:
    """Started with one of them closed (``>&-``), a pipe to a role would take its number."""
    while (fd := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(fd, True)
    os.close(fd)
