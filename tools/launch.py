#!/usr/bin/env python3
"""Start a distributed job: ``python tools/launch.py -n 4 -s 2 train.py``  (--help tells more).

The code is the folder `minigluon_launch` beside this file; `pip install` puts the same folder
into the environment as the command `minigluon-launch`.
"""

from __future__ import annotations

import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until the job's own handlers are there, Ctrl-C just ends this process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from minigluon_launch.main import main

if __name__ == "__main__":
    sys.exit(main())
