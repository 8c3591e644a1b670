#!/usr/bin/env python3
"""Print the live table of a job: ``python tools/ps_status.py PORT`` (--watch repeats it).

The scheduler shows it where ``MINIGLUON_METRICS_PORT`` says, and prints the address when it starts
(``launch.py --stats`` picks a free port). The code is `minigluon_launch/status.py`; `pip install`
gives it the name `minigluon-status`.
"""

from __future__ import annotations

import sys

from minigluon_launch.status import main

if __name__ == "__main__":
    sys.exit(main())
