"""``python -m minigluon.info``: what this installation consists of and which parts are active."""
from __future__ import annotations

from . import runtime

__all__ = ["main"]


def main() -> None:
    """Print it."""
    rows = runtime.describe()
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:{width}}  {value}")
    print(f"{'features':{width}}  {runtime.Features()}")


if __name__ == "__main__":
    main()
