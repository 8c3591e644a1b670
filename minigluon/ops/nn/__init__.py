"""Operators of neural networks. Importing this room enters them all."""
from . import (
    activation,
    batchnorm,
    channel,
    conv,
    deconv,
    dense,
    dropout,
    embedding,
    loss,
    norm,
    pool,
    softmax,
)

__all__ = ["activation", "batchnorm", "channel", "conv", "deconv", "dense", "dropout",
           "embedding", "loss", "norm", "pool", "softmax"]
