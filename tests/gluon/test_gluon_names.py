"""Gluon's names, in all the places where scripts look for them."""
from __future__ import annotations

import subprocess
import sys


def test_every_way_to_import_finds_the_same_thing() -> None:
    """In a fresh process: other tests have imported the rooms already."""
    script = """
import minigluon.gluon.nn as by_path
from minigluon.gluon import nn
from minigluon import nn as room
assert by_path is nn is room
from minigluon.gluon.nn import Dense
from minigluon.gluon.block import HybridBlock
from minigluon.gluon.parameter import Parameter
from minigluon import gluon
assert Dense is room.Dense and HybridBlock is gluon.HybridBlock is room.HybridBlock
assert Parameter is gluon.Parameter and gluon.block.Block is gluon.Block
from minigluon.gluon.loss import SoftmaxCrossEntropyLoss
from minigluon.gluon.utils import split_and_load
from minigluon.gluon.data import DataLoader
assert gluon.loss.SoftmaxCrossEntropyLoss is SoftmaxCrossEntropyLoss
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, timeout=60)
