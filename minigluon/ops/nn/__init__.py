"""Operators of neural networks. Importing this room enters them all."""
from . import (
    activation,
    batchnorm,
    channel,
    conv,
    ctc,
    deconv,
    dense,
    displacement,
    dropout,
    embedding,
    epilogue,
    legacy,
    loss,
    lrn,
    norm,
    pool,
    recurrent,
    rnn,
    softmax,
    sync,
    unfold,
)

__all__ = ["activation", "batchnorm", "channel", "conv", "ctc", "deconv", "dense", "displacement",
           "dropout",
           "embedding", "epilogue", "legacy", "loss", "lrn", "norm", "pool", "recurrent", "rnn",
           "softmax", "sync", "unfold"]
