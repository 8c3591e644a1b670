"""Rules that turn gradients into new weights: ``create("sgd", learning_rate=0.1)``."""
from __future__ import annotations

from types import SimpleNamespace

from .adadelta import AdaDelta
from .adagrad import AdaGrad, GroupAdaGrad
from .adam import Adam
from .adamax import Adamax
from .dcasgd import DCASGD
from .ftrl import FTML, Ftrl
from .lamb import LAMB
from .lars import LARS, LBSGD
from .nadam import Nadam
from .nag import NAG
from .optimizer import Optimizer, create, from_wire, register
from .rmsprop import RMSProp
from .sgd import SGD, ccSGD
from .sgld import SGLD
from .signum import Signum
from .testing import Test
from .updater import Updater, get_updater, load_states, save_states

contrib = SimpleNamespace(GroupAdaGrad=GroupAdaGrad)  # where MXNet has it

__all__ = [
    "DCASGD", "FTML", "LAMB", "LARS", "LBSGD", "NAG", "SGD", "SGLD", "AdaDelta", "AdaGrad",
    "Adam", "Adamax", "Ftrl", "GroupAdaGrad", "Nadam", "Optimizer", "RMSProp", "Signum", "Test",
    "Updater", "ccSGD", "contrib", "create", "from_wire", "get_updater", "load_states", "register",
    "save_states",
]
