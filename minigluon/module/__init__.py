"""Symbols that are trained batch by batch: Module and its relatives (``mx.mod``)."""
from . import base_module, executor_group
from .base_module import BaseModule
from .bucketing_module import BucketingModule
from .executor_group import DataParallelExecutorGroup
from .module import Module
from .python_module import PythonLossModule, PythonModule
from .sequential_module import SequentialModule
from .store import (
    create_kvstore,
    initialize_kvstore,
    update_params,
    update_params_on_kvstore,
)

__all__ = [
    "BaseModule", "BucketingModule", "DataParallelExecutorGroup", "Module", "PythonLossModule",
    "PythonModule", "SequentialModule", "base_module", "create_kvstore", "executor_group",
    "initialize_kvstore", "update_params", "update_params_on_kvstore",
]
