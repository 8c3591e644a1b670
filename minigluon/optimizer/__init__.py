"""Rules that turn gradients into new weights: ``create("sgd", learning_rate=0.1)``."""
from __future__ import annotations

from .adam import Adam
from .nag import NAG
from .optimizer import Optimizer, create, from_wire, register
from .sgd import SGD
from .testing import Test
from .updater import Updater, get_updater, load_states, save_states

__all__ = [
    "NAG", "SGD", "Adam", "Optimizer", "Test", "Updater", "create", "from_wire", "get_updater",
    "load_states", "register", "save_states",
]
