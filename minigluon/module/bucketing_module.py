"""BucketingModule: one network for each length of input, all with the same parameters."""
from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base import ArgumentValueError, NotForThisError, integer_types
from ..checkpoint import load_params, params_path
from ..initializer import Initializer
from ..io import DataBatch, DataDesc
from ..metric import EvalMetric
from ..ndarray import NDArray, array, save
from ..symbol import Symbol
from .base_module import BaseModule
from .describe import descriptions
from .module import Module

__all__ = ["BucketingModule"]

SymGen = Callable[[Any], tuple[Symbol, Sequence[str], Sequence[str]]]


class BucketingModule(BaseModule):
    """Modules for several buckets, made when a batch of their bucket first comes.

    Args:
        sym_gen: ``sym_gen(bucket_key) -> (symbol, data_names, label_names)``.
        default_bucket_key: the bucket whose network has all parameters; usually the longest.
        logger, context, work_load_list, fixed_param_names, state_names, group2ctxs,
        compression_params: as for Module.

    >>> import minigluon as mx
    >>> def network(length):
    ...     data = mx.sym.sum(mx.sym.var("data"), axis=1, keepdims=True)
    ...     net = mx.sym.FullyConnected(data, num_hidden=2, name="fc")
    ...     return mx.sym.SoftmaxOutput(net, name="softmax"), ["data"], ["softmax_label"]
    >>> module = BucketingModule(network, default_bucket_key=10)
    >>> module.bind([("data", (2, 10))], [("softmax_label", (2,))])
    >>> module.init_params()
    >>> batch = mx.io.DataBatch([mx.nd.ones((2, 4))], [mx.nd.zeros((2,))], bucket_key=4,
    ...                         provide_data=[("data", (2, 4))],
    ...                         provide_label=[("softmax_label", (2,))])
    >>> module.forward(batch)
    >>> module.get_outputs()[0].shape
    (2, 2)
    """

    def __init__(self, sym_gen: SymGen, default_bucket_key: Any = None, logger: Any = logging,
                 context: Any = None, work_load_list: Sequence[float] | None = None,
                 fixed_param_names: Sequence[str] | None = None,
                 state_names: Sequence[str] | None = None, group2ctxs: Any = None,
                 compression_params: dict[str, Any] | None = None) -> None:
        super().__init__(logger)
        assert default_bucket_key is not None, "BucketingModule: default_bucket_key is required"
        self._sym_gen = sym_gen
        self._default_bucket_key = default_bucket_key
        self._settings = {
            "logger": logger, "context": context, "work_load_list": work_load_list,
            "fixed_param_names": fixed_param_names, "state_names": state_names,
            "group2ctxs": group2ctxs, "compression_params": compression_params}
        self._make(default_bucket_key)  # complains at once about names that do not fit
        self._loaded: tuple[dict[str, NDArray], dict[str, NDArray]] | None = None
        self._monitor: Any = None
        self._grad_req: Any = "write"
        self._reset_bind()

    def _make(self, bucket_key: Any) -> Module:
        symbol, data_names, label_names = self._sym_gen(bucket_key)
        return Module(symbol, data_names, label_names, **self._settings)

    def _reset_bind(self) -> None:
        self.binded = False
        self._buckets: dict[Any, Module] = {}
        self._curr_module: Module | None = None
        self._curr_bucket_key: Any = None

    def _current(self) -> Module:
        self._need("binded")
        assert self._curr_module is not None
        return self._curr_module

    # -- what it is ----------------------------------------------------------------------------

    @property
    def symbol(self) -> Symbol:
        return self._current().symbol

    @property
    def data_names(self) -> list[str]:
        if self.binded:
            return self._current().data_names
        return list(self._sym_gen(self._default_bucket_key)[1])

    @property
    def output_names(self) -> list[str]:
        if self.binded:
            return self._current().output_names
        return self._sym_gen(self._default_bucket_key)[0].list_outputs()

    @property
    def data_shapes(self) -> list[DataDesc]:
        return self._current().data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        return self._current().label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return self._current().output_shapes

    # -- binding -------------------------------------------------------------------------------

    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: Any = None, grad_req: Any = "write") -> None:
        assert shared_module is None, "BucketingModule: shared_module is not supported"
        kept = None
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if self.binded and self.params_initialized:
            kept = self.get_params()
        self._reset_bind()
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self._grad_req = grad_req
        module = self._make(self._default_bucket_key)
        module.bind(data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req)
        self._buckets[self._default_bucket_key] = self._curr_module = module
        self._curr_bucket_key = self._default_bucket_key
        self.binded = True
        if self._loaded is not None:
            kept, self._loaded = self._loaded, None
        if kept is not None:
            module.set_params(*kept)
            self.params_initialized = True

    def switch_bucket(self, bucket_key: Any, data_shapes: Any, label_shapes: Any = None) -> None:
        """Make the module of a bucket the current one; bind it when it is new."""
        self._need("binded")
        if bucket_key not in self._buckets:
            module = self._make(bucket_key)
            module.bind(data_shapes, label_shapes, self.for_training, self.inputs_need_grad,
                        shared_module=self._buckets[self._default_bucket_key],
                        grad_req=self._grad_req)
            if self._monitor is not None:
                module.install_monitor(self._monitor)
            self._buckets[bucket_key] = module
        self._carry_dirt(self._buckets[bucket_key])
        self._curr_bucket_key = bucket_key

    def _carry_dirt(self, module: Module) -> None:
        """The current module's note that training has changed the shared parameters goes along."""
        before = self._current()
        if before is not module:
            module._params_dirty |= before._params_dirty
            before._params_dirty = False
            if self.params_initialized:
                module.params_initialized = True
                module._arg_params, module._aux_params = before._arg_params, before._aux_params
            self._curr_module = module

    # -- parameters ----------------------------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        self._need("binded", "params_initialized")
        self._carry_dirt(self._buckets[self._default_bucket_key])
        params = self._current().get_params()
        self._carry_dirt(self._buckets[self._curr_bucket_key])
        return params

    def init_params(self, initializer: Initializer | None = None,
                    arg_params: Mapping[str, NDArray] | None = None,
                    aux_params: Mapping[str, NDArray] | None = None, allow_missing: bool = False,
                    force_init: bool = False, allow_extra: bool = False) -> None:
        if self.params_initialized and not force_init:
            return
        assert self.binded, "call bind before initializing the parameters"
        default = self._buckets[self._default_bucket_key]
        default.init_params(initializer, arg_params, aux_params, allow_missing, force_init,
                            allow_extra)
        self._after_setting(default)

    def set_params(self, arg_params: Mapping[str, NDArray] | None,
                   aux_params: Mapping[str, NDArray] | None, allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        self._need("binded")
        default = self._buckets[self._default_bucket_key]
        default.set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
        self._after_setting(default)

    def _after_setting(self, default: Module) -> None:
        self.params_initialized = True
        for module in self._buckets.values():
            module.params_initialized = True
            module._arg_params, module._aux_params = default._arg_params, default._aux_params

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        self._need("binded", "params_initialized")
        return self._current().get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        self._need("binded", "params_initialized")
        self._current().set_states(states, value)

    # -- one step ------------------------------------------------------------------------------

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        self._need("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        default = self._buckets[self._default_bucket_key]
        default.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        for module in self._buckets.values():
            if module is not default:
                module.borrow_optimizer(default)
        self.optimizer_initialized = True

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Any = None) -> None:
        self._need("binded", "params_initialized")
        self._switch_to(data_batch)
        self._current().prepare(data_batch, sparse_row_id_fn)

    def _switch_to(self, batch: DataBatch) -> None:
        key = self._default_bucket_key if batch.bucket_key is None else batch.bucket_key
        data = batch.provide_data
        if data is None and key not in self._buckets:
            raise ArgumentValueError(f"BucketingModule: a batch for the new bucket {key!r} must "
                                     "say its shapes: provide_data, provide_label")
        self.switch_bucket(key, descriptions(data), batch.provide_label)

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        self._need("binded", "params_initialized")
        self._switch_to(data_batch)
        self._current().forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        self._need("binded", "params_initialized")
        self._current().backward(out_grads)

    def update(self) -> None:
        self._need("binded", "params_initialized", "optimizer_initialized")
        self._current().update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        self._need("binded", "params_initialized")
        return self._current().get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        self._need("binded", "params_initialized", "inputs_need_grad")
        return self._current().get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: EvalMetric, labels: Any, pre_sliced: bool = False
                      ) -> None:
        self._need("binded", "params_initialized")
        self._current().update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        self._need("binded")
        self._monitor = mon
        for module in self._buckets.values():
            module.install_monitor(mon)

    # -- files ---------------------------------------------------------------------------------

    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Write the parameters, and for each bucket so far ``PREFIX-KEY-symbol.json``.

        The keys of these buckets, if they are integers or tuples of equally many, are in
        ``PREFIX.buckets``.
        """
        self._need("binded", "params_initialized")
        for key, module in self._buckets.items():
            module.symbol.save(f"{prefix}-{key}-symbol.json", remove_amp_cast)
        keys = np.array(list(self._buckets), dtype=object)  # what does not fit together stays whole
        if all(isinstance(each, integer_types) for each in keys.flat):
            save(f"{prefix}.buckets", [array(keys.tolist(), dtype="int32")])
        self.save_params(params_path(prefix, epoch))

    @staticmethod
    def load(prefix: str, epoch: int, sym_gen: SymGen | None = None,
             default_bucket_key: Any = None, **kwargs: Any) -> BucketingModule:
        """The module of a checkpoint.

        Args:
            prefix, epoch: as for `save_checkpoint`.
            sym_gen, default_bucket_key, kwargs: as for BucketingModule.
        """
        if sym_gen is None or default_bucket_key is None:
            raise NotForThisError("BucketingModule.load: sym_gen and default_bucket_key are "
                                  "required: files do not say how a network depends on its bucket")
        module = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        module._loaded = load_params(prefix, epoch)
        return module

    @staticmethod
    def load_dict(sym_dict: Mapping[Any, Symbol] | None = None, sym_gen: SymGen | None = None,
                  default_bucket_key: Any = None, arg_params: Mapping[str, NDArray] | None = None,
                  aux_params: Mapping[str, NDArray] | None = None, **kwargs: Any
                  ) -> BucketingModule:
        """The module of symbols (or of `sym_gen`) and parameters in memory."""
        if sym_gen is None:
            symbols = dict(sym_dict or {})

            def sym_gen(key: Any) -> tuple[Symbol, Sequence[str], Sequence[str]]:
                return symbols[key], ("data",), ("softmax_label",)

        module = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        module._loaded = dict(arg_params or {}), dict(aux_params or {})
        return module
