"""Module: a symbol with parameters and an optimizer, on one or several contexts."""
from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from .. import ndarray as nd
from .. import optimizer as opt
from ..base import ArgumentError, ArgumentValueError, MXNetError
from ..checkpoint import load_checkpoint, params_path
from ..context import Context, cpu, current_context
from ..initializer import InitDesc, Initializer, Uniform
from ..io import DataBatch, DataDesc
from ..kvstore import KVStoreBase
from ..metric import EvalMetric
from ..ndarray import NDArray, zeros
from ..symbol import Symbol
from .base_module import BaseModule
from .describe import as_list, check_input_names, parse_data_desc
from .executor_group import DataParallelExecutorGroup
from .store import (
    create_kvstore,
    initialize_kvstore,
    update_params,
    update_params_on_kvstore,
)

__all__ = ["Module"]

Params = dict[str, NDArray]


class Module(BaseModule):
    """A symbol that can be trained.

    Args:
        symbol: the network.
        data_names, label_names: its arguments that are data and labels. Labels that are no
            arguments (of a network without loss) are only shown to metrics.
        logger: gets the lines of `fit`.
        context: where it runs; of several, each takes a part of every batch.
        work_load_list: how large the parts are, relative to each other.
        fixed_param_names: parameters that are not trained.
        state_names: arguments that are neither data nor parameters; see `set_states`.
        group2ctxs: for each context where the groups (``ctx_group``) of the symbol lie.
        compression_params: how a kvstore sends gradients in fewer bits.

    >>> import minigluon as mx
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    >>> module = Module(mx.sym.SoftmaxOutput(net, name="softmax"))
    >>> data = mx.io.NDArrayIter(mx.nd.array([[0, 1], [1, 0]]), mx.nd.array([0, 1]), batch_size=2)
    >>> module.fit(data, num_epoch=20, optimizer_params={"learning_rate": 1.0})
    >>> module.score(data, "acc")
    [('accuracy', 1.0)]
    """

    def __init__(self, symbol: Symbol, data_names: Sequence[str] | None = ("data",),
                 label_names: Sequence[str] | None = ("softmax_label",), logger: Any = logging,
                 context: Any = None, work_load_list: Sequence[float] | None = None,
                 fixed_param_names: Sequence[str] | None = None,
                 state_names: Sequence[str] | None = None, group2ctxs: Any = None,
                 compression_params: dict[str, Any] | None = None) -> None:
        super().__init__(logger)
        self._context = [Context(each) for each in as_list(context)] or [current_context()]
        self._work_load_list = work_load_list or [1] * len(self._context)
        if len(self._work_load_list) != len(self._context):
            raise ArgumentValueError(f"Module: work_load_list: expected {len(self._context)} "
                                     f"numbers, got {self._work_load_list}")
        self._symbol: Symbol = symbol
        self._data_names = as_list(data_names)
        self._label_names = as_list(label_names)
        self._state_names = as_list(state_names)
        self._fixed_param_names = as_list(fixed_param_names)
        for names, word in ((self._data_names, "data"), (self._label_names, "label"),
                            (self._state_names, "state"), (self._fixed_param_names, "fixed_param")):
            check_input_names(symbol, names, word, throw=word != "label")
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [name for name in symbol.list_arguments() if name not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self._output_names = symbol.list_outputs()
        self._group2ctxs = group2ctxs
        self._compression_params = compression_params
        self._arg_params: Params | None = None
        self._aux_params: Params | None = None
        self._params_dirty = False
        self._optimizer: opt.Optimizer | None = None
        self._kvstore: KVStoreBase | None = None
        self._update_on_kvstore = False
        self._updater: opt.Updater | None = None
        self._sent_settings: dict[str, Any] = {}
        self._preload_opt_states: str | None = None
        self._reset_bind()

    def _reset_bind(self) -> None:
        self.binded = False
        self._exec_group: DataParallelExecutorGroup | None = None
        self._data_shapes: list[DataDesc] | None = None
        self._label_shapes: list[DataDesc] | None = None

    # -- files ---------------------------------------------------------------------------------

    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """The module that `save_checkpoint` (here or in MXNet) wrote.

        Args:
            prefix, epoch: as for `save_checkpoint`.
            load_optimizer_states: also take the optimizer's states, at ``init_optimizer``.
            kwargs: further arguments of Module.
        """
        symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
        module = Module(symbol, **kwargs)
        module._arg_params, module._aux_params = arg_params, aux_params
        module.params_initialized = True
        if load_optimizer_states:
            module._preload_opt_states = f"{prefix}-{epoch:04d}.states"
        return module

    def save_checkpoint(self, prefix: str, epoch: int, save_optimizer_states: bool = False,
                        remove_amp_cast: bool = True) -> None:
        """Write ``PREFIX-symbol.json``, ``PREFIX-0001.params`` and maybe ``PREFIX-0001.states``."""
        self._symbol.save(f"{prefix}-symbol.json", remove_amp_cast)
        path = params_path(prefix, epoch)
        self.save_params(path)
        self.logger.info('Saved checkpoint to "%s"', path)
        if save_optimizer_states:
            states = f"{prefix}-{epoch:04d}.states"
            self.save_optimizer_states(states)
            self.logger.info('Saved optimizer state to "%s"', states)

    def save_optimizer_states(self, fname: str) -> None:
        """Write the optimizer's states to a file."""
        self._need("optimizer_initialized")
        if self._update_on_kvstore:
            assert self._kvstore is not None
            self._kvstore.save_optimizer_states(fname)
        else:
            assert self._updater is not None
            opt.save_states(fname, [self._updater])

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from a file."""
        self._need("optimizer_initialized")
        if self._update_on_kvstore:
            assert self._kvstore is not None
            self._kvstore.load_optimizer_states(fname)
        else:
            assert self._updater is not None
            opt.load_states(fname, [self._updater])

    # -- what it is ----------------------------------------------------------------------------

    @property
    def symbol(self) -> Symbol:
        return self._symbol

    @property
    def data_names(self) -> list[str]:
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """Names of the inputs that are labels."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        return self._output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        self._need("binded")
        return self._data_shapes or []

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        self._need("binded")
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return self._group().get_output_shapes()

    def _group(self) -> DataParallelExecutorGroup:
        self._need("binded")
        assert self._exec_group is not None
        return self._exec_group

    # -- parameters ----------------------------------------------------------------------------

    def get_params(self) -> tuple[Params, Params]:
        self._need("binded", "params_initialized")
        self._sync_params_from_devices()
        assert self._arg_params is not None and self._aux_params is not None
        return self._arg_params, self._aux_params

    def _sync_params_from_devices(self) -> None:
        """Bring what training has changed to the arrays that `get_params` gives."""
        if self._params_dirty:
            assert self._arg_params is not None and self._aux_params is not None
            self._group().get_params(self._arg_params, self._aux_params)
            self._fetch_rows(self._arg_params)
            self._params_dirty = False

    def init_params(self, initializer: Initializer | None = None,
                    arg_params: Mapping[str, NDArray] | None = None,
                    aux_params: Mapping[str, NDArray] | None = None, allow_missing: bool = False,
                    force_init: bool = False, allow_extra: bool = False) -> None:
        if self.params_initialized and not force_init:
            return
        assert self.binded, "call bind before initializing the parameters"
        if initializer is None and arg_params is None and aux_params is None:
            initializer = Uniform(0.01)
        attributes = self._symbol.attr_dict()
        group = self._group()

        def filled(names: Sequence[str], arrays: Sequence[Sequence[NDArray]],
                   given: Mapping[str, NDArray] | None) -> Params:
            found = {}
            for name, parts in sorted(zip(names, arrays, strict=True), key=lambda pair: pair[0]):
                value = None if given is None else given.get(name)
                target = found[name] = zeros(parts[0].shape, cpu(), parts[0].dtype, parts[0].stype)
                if value is not None:
                    target[:] = value
                elif given is not None and not allow_missing:
                    raise MXNetError(f"{name} is not presented")
                elif initializer is not None:
                    initializer(InitDesc(name, attributes.get(name)), target)
                else:
                    target[:] = parts[0]
            return {name: found[name] for name in names}

        args = filled(self._param_names, group.param_arrays, arg_params)
        aux = filled(self._aux_names, group.aux_arrays, aux_params)
        self._take(args, aux)  # others than the symbol's are let go: a net's weights for a part
        group.set_params(args, aux)
        self.params_initialized = True
        self._params_dirty = False

    def _take(self, args: Params, aux: Params) -> None:
        """Keep the dicts that other modules may share."""
        if self._arg_params is None or self._aux_params is None:
            self._arg_params, self._aux_params = args, aux
        else:
            self._arg_params.update(args)
            self._aux_params.update(aux)

    def _refuse_extra(self, given: Mapping[str, NDArray]) -> None:
        known = {*self._symbol.list_arguments(), *self._aux_names}
        for name in given:
            if name not in known:
                raise ArgumentValueError(f'Find name "{name}" that is not in the arguments; '
                                         "use allow_extra=True to ignore it")

    def set_params(self, arg_params: Mapping[str, NDArray] | None,
                   aux_params: Mapping[str, NDArray] | None, allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        if not allow_missing:
            self.init_params(None, arg_params or {}, aux_params or {}, allow_missing, force_init,
                             allow_extra)
            return
        if self.params_initialized and not force_init:
            self.logger.warning("Parameters already initialized and force_init=False. "
                                "set_params call ignored.")
            return
        self._group()
        if not allow_extra:
            self._refuse_extra({**(arg_params or {}), **(aux_params or {})})
        self._group().set_params(arg_params or {}, aux_params or {}, True)
        if self._arg_params is None:
            self._arg_params, self._aux_params = {}, {}
        self._params_dirty = True
        self.params_initialized = True

    # -- binding -------------------------------------------------------------------------------

    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: Module | None = None, grad_req: Any = "write") -> None:
        if force_rebind:
            if self.binded and self.params_initialized:
                self._sync_params_from_devices()
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if not for_training:
            assert not inputs_need_grad, "bind: inputs_need_grad needs for_training=True"
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self._grad_req = grad_req
        self._data_shapes, self._label_shapes = parse_data_desc(
            self._data_names, self._label_names, data_shapes, label_shapes or None)
        shared = None
        if shared_module is not None:
            shared = shared_module._group()
        self._exec_group = DataParallelExecutorGroup(
            self._symbol, self._context, self._work_load_list, self._data_shapes,
            self._label_shapes, self._param_names, for_training, inputs_need_grad, shared,
            self.logger, self._fixed_param_names, grad_req, self._state_names, self._group2ctxs)
        self.binded = True
        if shared_module is not None and shared_module.params_initialized:
            self.params_initialized = True
            self._arg_params = shared_module._arg_params
            self._aux_params = shared_module._aux_params
        elif self.params_initialized:
            assert self._arg_params is not None and self._aux_params is not None
            self._exec_group.set_params(self._arg_params, self._aux_params, allow_extra=True)
        if shared_module is not None and shared_module.optimizer_initialized:
            self.borrow_optimizer(shared_module)

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Take batches of other shapes from now on, with the same parameters."""
        group = self._group()
        data, labels = parse_data_desc(
            self._data_names, self._label_names, data_shapes, label_shapes or None)
        group.reshape(data, labels)
        self._data_shapes, self._label_shapes = data, labels

    # -- the optimizer -------------------------------------------------------------------------

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        self._need("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        self._sync_params_from_devices()
        assert self._arg_params is not None
        store, on_store = create_kvstore(kvstore, len(self._context), self._arg_params)
        self._optimizer = self._make_optimizer(optimizer, optimizer_params, store, on_store)
        self._kvstore, self._update_on_kvstore, self._updater = store, on_store, None
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if on_store:
                store.set_optimizer(self._optimizer)
                self._sent_settings = self._live_settings()
            initialize_kvstore(store, self._group().param_arrays, self._arg_params,
                               self._param_names, on_store)
            self._params_dirty = store.num_workers > 1  # rank 0's values are everybody's now
        if not on_store:
            self._updater = opt.get_updater(self._optimizer)
        self.optimizer_initialized = True
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def _make_optimizer(self, optimizer: Any, params: Any, store: KVStoreBase | None,
                        on_store: bool) -> opt.Optimizer:
        batch_size = self._group().batch_size
        if store is not None and "dist" in store.type and "_async" not in store.type:
            batch_size *= store.num_workers
        rescale = 1.0 / batch_size if batch_size else 1.0
        devices = 1 if on_store else len(self._context)
        names: dict[Any, str] = {
            place * devices + device: name
            for place, name in enumerate(self._param_names) for device in range(devices)}
        if isinstance(optimizer, str):
            settings = dict(params)
            settings.setdefault("rescale_grad", rescale)
            return opt.create(optimizer, sym=self._symbol, param_idx2name=names, **settings)
        if not isinstance(optimizer, opt.Optimizer):
            raise ArgumentError(f"init_optimizer: expected an Optimizer or the name of one, "
                                f"got {optimizer!r}")
        if optimizer.rescale_grad != rescale:
            self.logger.warning(
                "Optimizer created manually outside Module but rescale_grad is not normalized to "
                "1.0/batch_size/num_workers (%s vs. %s). Is this intended?",
                optimizer.rescale_grad, rescale)
        if not optimizer.idx2name:
            optimizer.idx2name = names
        return optimizer

    def _live_settings(self) -> dict[str, Any]:
        """The optimizer's settings, where another process has to hear of changes."""
        assert self._kvstore is not None and self._optimizer is not None
        return self._optimizer.live_settings() if "dist" in self._kvstore.type else {}

    def borrow_optimizer(self, shared_module: Module) -> None:
        """Use the optimizer of another module, with its states."""
        shared_module._need("optimizer_initialized")
        self._optimizer = shared_module._optimizer
        self._kvstore = shared_module._kvstore
        self._update_on_kvstore = shared_module._update_on_kvstore
        self._updater = shared_module._updater
        self._sent_settings = shared_module._sent_settings
        self.optimizer_initialized = True

    def _fetch_rows(self, params: Params) -> None:
        """Whole values of row_sparse parameters: the executors have the rows of a batch alone."""
        if self._kvstore is None or not self._update_on_kvstore:
            return
        for name, arrays in zip(self._param_names, self._group().param_arrays, strict=True):
            if arrays[0].stype == "row_sparse":
                whole = nd.zeros(arrays[0].shape, dtype=arrays[0].dtype, stype="row_sparse")
                rows = nd.arange(0, arrays[0].shape[0], dtype="int64")
                self._kvstore.row_sparse_pull(name, out=whole, row_ids=rows)
                params[name][:] = whole

    # -- one step ------------------------------------------------------------------------------

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Any = None) -> None:
        """Pull the rows of sparse parameters that `sparse_row_id_fn(batch)` names."""
        self._need("binded")
        if sparse_row_id_fn is None or self._kvstore is None or not self._update_on_kvstore:
            return
        group = self._group()
        for name, rows in sparse_row_id_fn(data_batch).items():
            out = group.param_arrays[self._param_names.index(name)]
            self._kvstore.row_sparse_pull(name, out=list(out), row_ids=[rows] * len(out))

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        self._need("binded", "params_initialized")
        batches = data_batch if isinstance(data_batch, list) else None
        if batches is not None:  # one batch for each context
            data_batch = _joined(batches)
        data = data_batch.data or []
        labels = data_batch.label
        new_data = [DataDesc(each.name, array.shape, each.dtype, each.layout)
                    for each, array in zip(self._data_shapes or (), data, strict=False)]
        if new_data != self._data_shapes:
            described = getattr(data_batch, "provide_data", None) or new_data
            self.reshape(described, self._described_labels(data_batch, labels, new_data))
        self._group().forward(data_batch, is_train)

    def _described_labels(self, batch: Any, labels: Any, data: Sequence[DataDesc]) -> Any:
        given = getattr(batch, "provide_label", None)
        if given or not self._label_shapes:
            return given or None
        if labels:
            return [DataDesc(each.name, array.shape, each.dtype, each.layout)
                    for each, array in zip(self._label_shapes, labels, strict=True)]
        size = data[0].shape[DataDesc.get_batch_axis(data[0].layout)]
        described = []
        for each in self._label_shapes:  # a batch without labels: as many as there are data
            shape = list(each.shape)
            shape[max(DataDesc.get_batch_axis(each.layout), 0)] = size
            described.append(DataDesc(each.name, shape, each.dtype, each.layout))
        return described

    def backward(self, out_grads: Any = None) -> None:
        self._need("binded", "params_initialized")
        self._group().backward(out_grads)

    def update(self) -> None:
        self._need("binded", "params_initialized", "optimizer_initialized")
        self._params_dirty = True
        group = self._group()
        if self._update_on_kvstore:
            assert self._kvstore is not None
            now = self._live_settings()
            changed = {name: value for name, value in now.items()
                       if self._sent_settings.get(name) != value}
            if changed:
                self._kvstore.update_optimizer_settings(changed)
                self._sent_settings.update(now)
            update_params_on_kvstore(group.param_arrays, group.grad_arrays, self._kvstore,
                                     self._param_names)
        else:
            update_params(group.param_arrays, group.grad_arrays, self._updater,
                          len(self._context), self._kvstore, self._param_names)

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        self._need("binded", "params_initialized")
        return self._group().get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        self._need("binded", "params_initialized", "inputs_need_grad")
        return self._group().get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        self._need("binded", "params_initialized")
        return self._group().get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        self._need("binded", "params_initialized")
        self._group().set_states(states, value)

    def update_metric(self, eval_metric: EvalMetric, labels: Any, pre_sliced: bool = False
                      ) -> None:
        self._group().update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        self._group().install_monitor(mon)


def _joined(batches: Sequence[DataBatch]) -> DataBatch:
    """One batch from one for each context."""
    def whole(parts: Sequence[Any]) -> list[NDArray] | None:
        if parts[0] is None:
            return None
        together = ([part.as_in_context(cpu()) for part in each]
                    for each in zip(*parts, strict=True))
        return [nd.concat(*each, dim=0) for each in together]  # type: ignore[attr-defined]

    return DataBatch(whole([each.data for each in batches]),
                     whole([each.label for each in batches]),
                     sum(each.pad or 0 for each in batches))
