"""Where Gluon scripts look for parameters: ``from minigluon.gluon.parameter import Parameter``."""
from ..base import DeferredInitializationError
from ..nn import Constant, Parameter, ParameterDict
from ..nn.parameter import tensor_types

__all__ = [
    "Constant", "DeferredInitializationError", "Parameter", "ParameterDict", "tensor_types",
]
