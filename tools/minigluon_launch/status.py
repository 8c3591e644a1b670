"""The live table of a job, fetched from its scheduler."""

from __future__ import annotations

import argparse
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table once, or again and again; 75 where no scheduler answers."""
    parser = argparse.ArgumentParser(
        prog="minigluon-status",
        description="Print who is in a job, how far, and who waits for whom.",
    )
    parser.add_argument("port", type=int,
                        help="the port in the address that a job with --stats prints first")
    parser.add_argument("--watch", type=float, metavar="SECONDS", help="repeat that often")
    options = parser.parse_args(argv)
    address = f"http://127.0.0.1:{options.port}/"
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                sys.stdout.write(answer.read().decode())
        except (urllib.error.URLError, OSError) as error:
            print(f"minigluon-status: no scheduler at {address}: {error}", file=sys.stderr)
            return 75
        sys.stdout.flush()
        if not options.watch:
            return 0
        time.sleep(options.watch)  # the pace asked for; nothing is waited for
