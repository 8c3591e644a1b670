"""What all modules share: training and predicting, on top of bind, forward, backward, update."""
from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .. import metric
from .. import ndarray as nd
from ..base import ArgumentError, ArgumentValueError, NotForThisError
from ..checkpoint import BatchEndParam, join_params, split_params
from ..initializer import Initializer, Uniform
from ..io import DataBatch, DataDesc
from ..ndarray import NDArray
from ..symbol import Symbol
from .describe import as_list, check_input_names, parse_data_desc

__all__ = ["BaseModule"]

_check_input_names = check_input_names
_parse_data_desc = parse_data_desc
_as_list = as_list

Params = dict[str, NDArray]


class BaseModule:
    """A network with parameters and an optimizer, trained batch by batch.

    A module goes through states: ``bind`` allocates arrays for given shapes, ``init_params``
    fills them, ``init_optimizer`` makes it trainable. Then ``forward``, ``backward``, ``update``
    do one step each, and `fit`, `score` and `predict` do whole passes over data.

    Attributes:
        binded, params_initialized, optimizer_initialized: which of the states it is in.
        for_training, inputs_need_grad: what it was bound for.
    """

    def __init__(self, logger: Any = logging) -> None:
        self.logger = logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False
        self._symbol: Symbol | None = None

    def _lacks(self, what: str) -> NotForThisError:
        return NotForThisError(f"{type(self).__name__} has no {what}")

    def _need(self, *states: str) -> None:
        hints = {"binded": "call bind() first", "params_initialized": "call init_params() first",
                 "optimizer_initialized": "call init_optimizer() first",
                 "inputs_need_grad": "bind with inputs_need_grad=True",
                 "for_training": "bind with for_training=True"}
        for state in states:
            assert getattr(self, state), f"{type(self).__name__}: not {state}: {hints[state]}"

    # -- whole passes --------------------------------------------------------------------------

    def forward_backward(self, data_batch: DataBatch) -> None:
        """One forward in training mode and one backward."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def score(self, eval_data: Any, eval_metric: Any, num_batch: int | None = None,
              batch_end_callback: Any = None, score_end_callback: Any = None, reset: bool = True,
              epoch: int = 0, sparse_row_id_fn: Any = None) -> list[tuple[str, float]]:
        """Measure predictions on `eval_data`.

        Args:
            eval_data: an iterator with labels.
            eval_metric: a metric, its name, or a list.
            num_batch: how many batches; None for all.
            batch_end_callback, score_end_callback: called with a BatchEndParam.
            reset: begin at the beginning of the data.
            epoch: number told to the callbacks.

        Returns:
            (name, value) pairs.
        """
        self._need("binded", "params_initialized")
        if reset:
            eval_data.reset()
        eval_metric = metric.create(eval_metric)
        eval_metric.reset()
        count = 0
        for number, batch in enumerate(_first(eval_data, num_batch)):
            self._run(batch, sparse_row_id_fn)
            self._measure(eval_metric, batch)
            _call_all(batch_end_callback, BatchEndParam(epoch, number, eval_metric, locals()))
            count += 1
        _call_all(score_end_callback, BatchEndParam(epoch, count, eval_metric, locals()))
        return list(eval_metric.get_name_value())

    def _run(self, batch: Any, sparse_row_id_fn: Any) -> None:
        self.prepare(batch[0] if isinstance(batch, list) else batch, sparse_row_id_fn)
        self.forward(batch, is_train=False)

    def _measure(self, eval_metric: metric.EvalMetric, batch: Any) -> None:
        if isinstance(batch, list):
            self.update_metric(eval_metric, [each.label for each in batch], pre_sliced=True)
        else:
            self.update_metric(eval_metric, batch.label)

    def iter_predict(self, eval_data: Any, num_batch: int | None = None, reset: bool = True,
                     sparse_row_id_fn: Any = None) -> Iterator[tuple[list[NDArray], int, Any]]:
        """(outputs without padding, number, batch) for each batch."""
        self._need("binded", "params_initialized")
        if reset:
            eval_data.reset()
        for number, batch in enumerate(_first(eval_data, num_batch)):
            self._run(batch, sparse_row_id_fn)
            rest = batch.pad or 0
            yield [out[:out.shape[0] - rest] for out in self.get_outputs()], number, batch

    def predict(self, eval_data: Any, num_batch: int | None = None, merge_batches: bool = True,
                reset: bool = True, always_output_list: bool = False,
                sparse_row_id_fn: Any = None) -> Any:
        """The outputs for all data.

        Args:
            eval_data: an iterator, or an array that is one batch.
            num_batch: how many batches; None for all.
            merge_batches: one array for each output; otherwise a list of outputs for each batch.
            reset: begin at the beginning of the data.
            always_output_list: a list even if there is one output.
        """
        self._need("binded", "params_initialized")
        if isinstance(eval_data, (NDArray, np.ndarray)):
            data = eval_data if isinstance(eval_data, NDArray) else nd.array(eval_data)
            self.forward(DataBatch([data]), is_train=False)
            return self.get_outputs()[0]
        batches = [[out.copy() for out in outputs] for outputs, _, _ in self.iter_predict(
            eval_data, num_batch, reset, sparse_row_id_fn)]
        if not batches or not merge_batches:
            return batches
        if len({len(outputs) for outputs in batches}) > 1:
            raise ArgumentValueError("predict: batches have different numbers of outputs and "
                                     "cannot be merged; use merge_batches=False")
        merged = [nd.concat(*parts, dim=0)  # type: ignore[attr-defined]
                  for parts in zip(*batches, strict=True)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def fit(self, train_data: Any, eval_data: Any = None, eval_metric: Any = "acc",
            epoch_end_callback: Any = None, batch_end_callback: Any = None,
            kvstore: Any = "local", optimizer: Any = "sgd",
            optimizer_params: Any = (("learning_rate", 0.01),), eval_end_callback: Any = None,
            eval_batch_end_callback: Any = None, initializer: Initializer | None = None,
            arg_params: Mapping[str, NDArray] | None = None,
            aux_params: Mapping[str, NDArray] | None = None, allow_missing: bool = False,
            force_rebind: bool = False, force_init: bool = False, begin_epoch: int = 0,
            num_epoch: int | None = None, validation_metric: Any = None, monitor: Any = None,
            sparse_row_id_fn: Any = None) -> None:
        """Train on `train_data` for epochs `begin_epoch` to `num_epoch`.

        Args:
            train_data, eval_data: iterators.
            eval_metric, validation_metric: what to measure; the latter defaults to the former.
            epoch_end_callback: called with (epoch, symbol, arg_params, aux_params).
            batch_end_callback, eval_batch_end_callback, eval_end_callback: called with a
                BatchEndParam.
            kvstore: where gradients are summed: 'local', 'device', 'dist_sync', ...
            optimizer, optimizer_params: as for `init_optimizer`.
            initializer, arg_params, aux_params, allow_missing, force_init: as for `init_params`;
                default initializer Uniform(0.01).
            force_rebind: bind again.
            monitor: a Monitor.
        """
        assert num_epoch is not None, "fit: please say how many epochs: num_epoch=..."
        self.bind(train_data.provide_data, train_data.provide_label, for_training=True,
                  force_rebind=force_rebind)
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(initializer or Uniform(0.01), arg_params, aux_params, allow_missing,
                         force_init)
        self.init_optimizer(kvstore, optimizer, optimizer_params)
        eval_metric = metric.create(eval_metric)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        for epoch in range(begin_epoch, num_epoch):
            start = time.time()
            self._fit_epoch(epoch, train_data, eval_metric, batch_end_callback, monitor,
                            sparse_row_id_fn)
            # not what the intervals of a Speedometer left over, but the whole epoch
            for name, value in eval_metric.get_global_name_value():
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - start)
            args, aux = self.get_params()
            self.set_params(args, aux)
            for callback in as_list(epoch_end_callback):
                callback(epoch, self.symbol, args, aux)
            if eval_data is not None:
                for name, value in self.score(
                        eval_data, validation_metric, None, eval_batch_end_callback,
                        eval_end_callback, True, epoch, sparse_row_id_fn):
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _fit_epoch(self, epoch: int, train_data: Any, eval_metric: metric.EvalMetric,
                   batch_end_callback: Any, monitor: Any, sparse_row_id_fn: Any) -> None:
        eval_metric.reset()
        for nbatch, data_batch in enumerate(train_data):
            if monitor is not None:
                monitor.tic()
            self.prepare(data_batch[0] if isinstance(data_batch, list) else data_batch,
                         sparse_row_id_fn)
            self.forward_backward(data_batch)
            self.update()
            self._measure(eval_metric, data_batch)
            if monitor is not None:
                monitor.toc_print()
            _call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))

    # -- what it is ----------------------------------------------------------------------------

    @property
    def symbol(self) -> Symbol | None:
        """The network; None for a module that has none."""
        return self._symbol

    @property
    def data_names(self) -> list[str]:
        """Names of the inputs that are data."""
        raise self._lacks("data_names")

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        raise self._lacks("output_names")

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Descriptions of the data it was bound for."""
        raise self._lacks("data_shapes")

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the labels it was bound for; None without labels."""
        raise self._lacks("label_shapes")

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name, shape) of each output."""
        raise self._lacks("output_shapes")

    # -- parameters ----------------------------------------------------------------------------

    def get_params(self) -> tuple[Params, Params]:
        """(arg_params, aux_params), on the CPU."""
        raise self._lacks("get_params")

    def init_params(self, initializer: Initializer | None = None,
                    arg_params: Mapping[str, NDArray] | None = None,
                    aux_params: Mapping[str, NDArray] | None = None, allow_missing: bool = False,
                    force_init: bool = False, allow_extra: bool = False) -> None:
        """Fill the parameters from the dicts, and what they lack by the initializer.

        Args:
            initializer: for what is in neither dict; Uniform(0.01) if there are no dicts.
            arg_params, aux_params: values by name.
            allow_missing: names may be missing in the dicts.
            force_init: even if they are filled already.
            allow_extra: the dicts may have names that the network does not.
        """
        raise self._lacks("init_params")

    def set_params(self, arg_params: Mapping[str, NDArray] | None,
                   aux_params: Mapping[str, NDArray] | None, allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        """Fill the parameters from the dicts."""
        self.init_params(None, arg_params, aux_params, allow_missing, force_init, allow_extra)

    def save_params(self, fname: str) -> None:
        """Write the parameters to a file."""
        nd.save(fname, join_params(*self.get_params()))

    def load_params(self, fname: str) -> None:
        """Fill the parameters from a file that `save_params` (here or in MXNet) wrote."""
        loaded = nd.load(fname)
        if not isinstance(loaded, dict):
            raise ArgumentValueError(f"load_params: {fname} holds arrays without names")
        self.set_params(*split_params(loaded, fname))

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """Values of the states that live from batch to batch; none by default."""
        self._need("binded", "params_initialized")
        return []

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        """Set the states; there are none by default."""
        self._need("binded", "params_initialized")
        if states or value:
            raise self._lacks("states")

    # -- one step ------------------------------------------------------------------------------

    def install_monitor(self, mon: Any) -> None:
        """Let a Monitor watch the computation."""
        raise self._lacks("install_monitor")

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Any = None) -> None:
        """Get ready for a batch: nothing to do, except for sparse parameters."""

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs for a batch; `is_train` defaults to `for_training`."""
        raise self._lacks("forward")

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients; `out_grads` for outputs that are no losses."""
        raise self._lacks("backward")

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The outputs of the last forward."""
        raise self._lacks("get_outputs")

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients of the data."""
        raise self._lacks("get_input_grads")

    def update(self) -> None:
        """Change the parameters by the gradients of the last backward."""
        raise self._lacks("update")

    def update_metric(self, eval_metric: metric.EvalMetric, labels: Any, pre_sliced: bool = False
                      ) -> None:
        """Show a metric the labels and the outputs of the last forward."""
        raise self._lacks("update_metric")

    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: Any = None, grad_req: Any = "write") -> None:
        """Allocate arrays for batches of these shapes.

        Args:
            data_shapes, label_shapes: DataDescs or (name, shape) pairs.
            for_training: also for gradients.
            inputs_need_grad: also gradients of the data.
            force_rebind: even if it was bound before.
            shared_module: a bound module whose parameter arrays are used.
            grad_req: 'write', 'add', 'null', for all or by name.
        """
        raise self._lacks("bind")

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        """Make it trainable.

        Args:
            kvstore: where gradients are summed: a store or the name of one; None for none.
            optimizer: an Optimizer, or the name of one with `optimizer_params`.
            force_init: even if there is an optimizer.
        """
        raise self._lacks("init_optimizer")


def _first(batches: Any, count: int | None) -> Iterator[Any]:
    """The first `count` batches; no more are taken from the iterator."""
    for number, batch in enumerate(batches):
        yield batch
        if number + 1 == count:
            return


def _call_all(callbacks: Any, param: BatchEndParam) -> None:
    for callback in as_list(callbacks):
        if not callable(callback):
            raise ArgumentError(f"callback: expected a function, got {callback!r}")
        callback(param)

