"""What a network is: blocks, parameters, layers. ``minigluon.gluon.nn`` is this module.

==============  ==================================================================================
block, hooks    Block: names, children, parameters, files; HookHandle
hybrid, trace   HybridBlock: eager or as a graph; how the graph is learned and run
symbolblock     SymbolBlock: a block made of a graph
parameter       Parameter; Constant in constant, ParameterDict in parameterdict
basic           Sequential, HybridSequential, Dense, Dropout, Embedding, Flatten, Lambda
activation      Activation and those with a slope; conv, pool, norm: what they say
==============  ==================================================================================
"""
from __future__ import annotations

from .activation import ELU, GELU, SELU, Activation, LeakyReLU, PReLU, Swish
from .basic import (
    Dense,
    Dropout,
    Embedding,
    Flatten,
    HybridLambda,
    HybridSequential,
    Lambda,
    Sequential,
)
from .block import Block
from .constant import Constant
from .conv import Conv1D, Conv2D, Conv3D
from .deconv import Conv1DTranspose, Conv2DTranspose, Conv3DTranspose
from .hooks import HookHandle
from .hybrid import HybridBlock
from .norm import BatchNorm, BatchNormReLU, GroupNorm, InstanceNorm, LayerNorm
from .parameter import Parameter, tensor_types
from .parameterdict import ParameterDict
from .pool import (
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    GlobalAvgPool1D,
    GlobalAvgPool2D,
    GlobalAvgPool3D,
    GlobalMaxPool1D,
    GlobalMaxPool2D,
    GlobalMaxPool3D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
    ReflectionPad2D,
)
from .symbolblock import SymbolBlock

__all__ = [
    "ELU", "GELU", "SELU", "Activation", "AvgPool1D", "AvgPool2D", "AvgPool3D", "BatchNorm",
    "BatchNormReLU", "Block", "Constant", "Conv1D", "Conv1DTranspose", "Conv2D",
    "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Dense", "Dropout", "Embedding", "Flatten",
    "GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalAvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D",
    "GlobalMaxPool3D", "GroupNorm", "HookHandle", "HybridBlock", "HybridLambda", "HybridSequential",
    "InstanceNorm", "Lambda", "LayerNorm", "LeakyReLU", "MaxPool1D", "MaxPool2D", "MaxPool3D",
    "PReLU", "Parameter", "ParameterDict", "ReflectionPad2D", "Sequential", "Swish",
    "SymbolBlock", "tensor_types",
]
