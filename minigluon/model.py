"""Checkpoints, and FeedForward, the oldest way to train a symbol."""
from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from .base import ArgumentValueError
from .checkpoint import BatchEndParam, load_checkpoint, load_params, save_checkpoint
from .context import cpu
from .initializer import Initializer, Uniform
from .io import NDArrayIter
from .module import (
    Module,
    create_kvstore,
    initialize_kvstore,
    update_params,
    update_params_on_kvstore,
)
from .ndarray import NDArray
from .symbol import Symbol

__all__ = ["BatchEndParam", "FeedForward", "load_checkpoint", "load_params", "save_checkpoint"]

# MXNet's spelling
_create_kvstore = create_kvstore
_initialize_kvstore = initialize_kvstore
_update_params = update_params
_update_params_on_kvstore = update_params_on_kvstore


class FeedForward:
    """A symbol that is trained on arrays or iterators; a thin cover of Module.

    Args:
        symbol: the network, with a loss.
        ctx: one context or several.
        num_epoch: epochs of `fit`.
        epoch_size: batches of an epoch; default all data.
        optimizer: an Optimizer, or the name of one with its settings among `kwargs`.
        initializer: of parameters that are not given.
        numpy_batch_size: size of batches made of arrays.
        arg_params, aux_params: values by name.
        allow_extra_params: they may have names that the network does not.
        begin_epoch: where `fit` starts to count.

    >>> import minigluon as mx
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    >>> model = FeedForward(mx.sym.SoftmaxOutput(net, name="softmax"), num_epoch=20,
    ...                     numpy_batch_size=2, learning_rate=1.0)
    >>> model.fit(np.array([[0, 1], [1, 0]]), np.array([0, 1]))
    >>> model.predict(np.array([[0, 1], [1, 0]])).argmax(axis=1).tolist()
    [0, 1]
    """

    def __init__(self, symbol: Symbol, ctx: Any = None, num_epoch: int | None = None,
                 epoch_size: int | None = None, optimizer: Any = "sgd",
                 initializer: Initializer | None = None, numpy_batch_size: int = 128,
                 arg_params: Mapping[str, NDArray] | None = None,
                 aux_params: Mapping[str, NDArray] | None = None,
                 allow_extra_params: bool = False, begin_epoch: int = 0, **kwargs: Any) -> None:
        self.symbol = symbol
        self.ctx = ctx if ctx is not None else [cpu()]
        self.num_epoch = num_epoch
        self.epoch_size = epoch_size
        self.optimizer = optimizer
        self.initializer = initializer or Uniform(0.01)
        self.numpy_batch_size = numpy_batch_size
        self.arg_params = None if arg_params is None else dict(arg_params)
        self.aux_params = None if aux_params is None else dict(aux_params)
        self.allow_extra_params = allow_extra_params
        self.begin_epoch = begin_epoch
        self.kwargs = kwargs

    # -- data ----------------------------------------------------------------------------------

    def _init_iter(self, X: Any, y: Any, is_train: bool) -> Any:
        """An iterator over arrays; iterators pass."""
        if not isinstance(X, (np.ndarray, NDArray)):
            return X
        if y is None:
            if is_train:
                raise ArgumentValueError("FeedForward: y must be given when X is an array")
            y = np.zeros(X.shape[0])
        size = min(X.shape[0], self.numpy_batch_size)
        rest = "roll_over" if is_train else "pad"
        label = next((name for name in self.symbol.list_arguments() if name.endswith("label")),
                     "softmax_label")
        return NDArrayIter(X, y, size, shuffle=is_train, last_batch_handle=rest, label_name=label)

    def _init_eval_iter(self, eval_data: Any) -> Any:
        if isinstance(eval_data, (tuple, list)) and len(eval_data) == 2:
            X, y = (part if isinstance(part, NDArray) else np.asarray(part) for part in eval_data)
            return self._init_iter(X, y, is_train=False)
        return eval_data

    def _module(self, data: Any, for_training: bool) -> Module:
        arguments = set(self.symbol.list_arguments())
        given = [each[0] for each in data.provide_label or () if each[0] in arguments]
        labels = given
        if not for_training:
            if self.arg_params is None:
                raise ArgumentValueError("FeedForward: there are no parameters yet; call fit, "
                                         "or load a checkpoint")
            if not given:  # data alone, as for `predict`: what is no parameter is a label
                known = {each[0] for each in data.provide_data} | set(self.arg_params)
                labels = [name for name in self.symbol.list_arguments() if name not in known]
        module = Module(self.symbol, [each[0] for each in data.provide_data], labels,
                        context=self.ctx)
        if not for_training:
            module.bind(data.provide_data, data.provide_label if given else None, False)
            module.init_params(None, self.arg_params, self.aux_params,
                               allow_extra=self.allow_extra_params)
        return module

    # -- training and using --------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, eval_data: Any = None, eval_metric: Any = "acc",
            epoch_end_callback: Any = None, batch_end_callback: Any = None,
            kvstore: Any = "local", logger: Any = None, work_load_list: Any = None,
            monitor: Any = None, eval_end_callback: Any = None,
            eval_batch_end_callback: Any = None) -> None:
        """Train.

        Args:
            X, y: data and labels as arrays, or X an iterator of both.
            eval_data: an iterator or a pair (X, y), measured after each epoch.
            eval_metric, epoch_end_callback, batch_end_callback, kvstore, monitor,
            eval_end_callback, eval_batch_end_callback: as for ``Module.fit``.
        """
        data = self._init_iter(X, y, is_train=True)
        module = self._module(data, for_training=True)
        module.logger = logger or logging
        module.fit(
            data, self._init_eval_iter(eval_data), eval_metric, epoch_end_callback,
            batch_end_callback, kvstore, self.optimizer, tuple(self.kwargs.items()),
            eval_end_callback, eval_batch_end_callback, self.initializer, self.arg_params,
            self.aux_params, allow_missing=True, begin_epoch=self.begin_epoch,
            num_epoch=self.num_epoch, monitor=monitor)
        self.arg_params, self.aux_params = module.get_params()

    def predict(self, X: Any, num_batch: int | None = None, return_data: bool = False,
                reset: bool = True) -> Any:
        """The outputs as NumPy arrays; with `return_data` also data and labels."""
        data = self._init_iter(X, None, is_train=False)
        module = self._module(data, for_training=False)
        parts: dict[str, list[list[np.ndarray[Any, Any]]]] = {"out": [], "data": [], "label": []}
        for outputs, _, batch in module.iter_predict(data, num_batch, reset):
            count = outputs[0].shape[0]
            parts["out"].append([out.asnumpy() for out in outputs])
            parts["data"].append([each.asnumpy()[:count] for each in batch.data])
            parts["label"].append([each.asnumpy()[:count] for each in batch.label or ()])
        joined = {}
        for word, batches in parts.items():
            arrays = [np.concatenate(each) for each in zip(*batches, strict=True)]
            joined[word] = arrays[0] if len(arrays) == 1 else arrays
        return (joined["out"], joined["data"], joined["label"]) if return_data else joined["out"]

    def score(self, X: Any, eval_metric: Any = "acc", num_batch: int | None = None,
              batch_end_callback: Any = None, reset: bool = True) -> float:
        """Measure predictions on an iterator with labels; the value of the (first) metric."""
        data = self._init_eval_iter(X)
        found = self._module(data, for_training=False).score(
            data, eval_metric, num_batch, batch_end_callback, reset=reset)
        return found[0][1]

    # -- files ---------------------------------------------------------------------------------

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Write a checkpoint; `epoch` defaults to ``num_epoch``."""
        number = self.num_epoch if epoch is None else epoch
        assert number is not None, "FeedForward.save: epoch is required without num_epoch"
        save_checkpoint(prefix, number, self.symbol, self.arg_params or {}, self.aux_params or {},
                        remove_amp_cast)

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Any = None, **kwargs: Any) -> FeedForward:
        """The model of a checkpoint."""
        symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
        return FeedForward(symbol, ctx, arg_params=arg_params, aux_params=aux_params,
                           begin_epoch=epoch, **kwargs)

    @staticmethod
    def create(symbol: Symbol, X: Any, y: Any = None, ctx: Any = None,
               num_epoch: int | None = None, epoch_size: int | None = None,
               optimizer: Any = "sgd", initializer: Initializer | None = None,
               eval_data: Any = None, eval_metric: Any = "acc", epoch_end_callback: Any = None,
               batch_end_callback: Any = None, kvstore: Any = "local", logger: Any = None,
               work_load_list: Any = None, eval_end_callback: Any = None,
               eval_batch_end_callback: Any = None, **kwargs: Any) -> FeedForward:
        """Make a model and train it; arguments as for FeedForward and `fit`."""
        model = FeedForward(symbol, ctx, num_epoch, epoch_size, optimizer, initializer, **kwargs)
        model.fit(X, y, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore,
                  logger, work_load_list, None, eval_end_callback, eval_batch_end_callback)
        return model
