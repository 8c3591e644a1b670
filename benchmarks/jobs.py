"""What programs of this folder that start distributed jobs have in common."""
from __future__ import annotations

import argparse
import socket


def parser(name: str, doc: str | None, workers: int = 4, servers: int = 2
           ) -> argparse.ArgumentParser:
    """Arguments of ``python -m benchmarks.NAME``: `n` workers and `s` servers, and more to come."""
    made = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=doc,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("-n", type=int, default=workers, help="workers")
    made.add_argument("-s", type=int, default=servers, help="servers")
    return made


def free_port() -> str:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
