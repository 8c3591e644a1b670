"""Operators of neural networks. Importing this room enters them all."""
from . import (
    activation,
    batchnorm,
    channel,
    conv,
    ctc,
    deconv,
    dense,
    dropout,
    embedding,
    legacy,
    loss,
    norm,
    pool,
    recurrent,
    rnn,
    softmax,
)

__all__ = ["activation", "batchnorm", "channel", "conv", "ctc", "deconv", "dense", "dropout",
           "embedding", "legacy", "loss", "norm", "pool", "recurrent", "rnn", "softmax"]
