"""``python -m minigluon.kvstore.dist``: run the server or scheduler that DMLC_ROLE names."""
from __future__ import annotations

import sys

from .node import run_role

if __name__ == "__main__":
    sys.exit(run_role())
