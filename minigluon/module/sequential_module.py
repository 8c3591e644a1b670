"""SequentialModule: modules in a row, each fed with the outputs of the one before."""
from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ..base import ArgumentError, ArgumentValueError
from ..initializer import Initializer
from ..io import DataBatch, DataDesc
from ..metric import EvalMetric
from ..ndarray import NDArray
from .base_module import BaseModule

__all__ = ["SequentialModule"]


class SequentialModule(BaseModule):
    """Modules in a row.

    >>> import minigluon as mx
    >>> one = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc1")
    >>> two = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc2")
    >>> row = SequentialModule()
    >>> row = row.add(mx.mod.Module(one, label_names=[]))
    >>> row = row.add(mx.mod.Module(mx.sym.SoftmaxOutput(two, name="softmax")), take_labels=True,
    ...               auto_wiring=True)
    >>> row.bind([("data", (4, 5))], [("softmax_label", (4,))])
    >>> row.output_shapes
    [('softmax_output', (4, 2))]
    """

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger: Any = logging) -> None:
        super().__init__(logger)
        self._modules: list[BaseModule] = []
        self._metas: list[dict[str, Any]] = []
        self._label_shapes: Any = None

    def add(self, module: BaseModule, **kwargs: Any) -> SequentialModule:
        """Put one more module at the end.

        Args:
            module: not bound yet.
            kwargs: ``take_labels=True`` gives it the labels; ``auto_wiring=True`` calls the
                outputs of the module before by the names of its data.

        Returns:
            self.
        """
        for key in kwargs:
            if key not in (self.META_TAKE_LABELS, self.META_AUTO_WIRING):
                raise ArgumentError(f"SequentialModule.add: unknown meta '{key}'; there are "
                                    "take_labels and auto_wiring")
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    # -- what it is ----------------------------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self) -> list[str]:
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> list[DataDesc]:
        self._need("binded")
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        self._need("binded")
        return self._label_shapes  # type: ignore[no-any-return]

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        self._need("binded")
        return self._modules[-1].output_shapes

    # -- parameters ----------------------------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        self._need("binded", "params_initialized")
        args: dict[str, NDArray] = {}
        aux: dict[str, NDArray] = {}
        for module in self._modules:
            own_args, own_aux = module.get_params()
            args.update(own_args)
            aux.update(own_aux)
        return args, aux

    def init_params(self, initializer: Initializer | None = None,
                    arg_params: Mapping[str, NDArray] | None = None,
                    aux_params: Mapping[str, NDArray] | None = None, allow_missing: bool = False,
                    force_init: bool = False, allow_extra: bool = False) -> None:
        if self.params_initialized and not force_init:
            return
        assert self.binded, "call bind before initializing the parameters"
        seen: dict[str, int] = {}
        for place, module in enumerate(self._modules):
            # the dicts hold the parameters of all modules
            module.init_params(initializer, arg_params, aux_params, allow_missing, force_init,
                               allow_extra=True)
            for name in (name for params in module.get_params() for name in params):
                if name in seen:
                    raise ArgumentValueError(
                        f"SequentialModule: modules {seen[name]} and {place} both have a "
                        f"parameter '{name}'")
                seen[name] = place
        self.params_initialized = True

    # -- binding -------------------------------------------------------------------------------

    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: Any = None, grad_req: Any = "write") -> None:
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        assert shared_module is None, "SequentialModule: shared_module is not supported"
        assert self._modules, "SequentialModule: add modules before bind"
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        anybody = False
        for place, (module, meta) in enumerate(zip(self._modules, self._metas, strict=True)):
            takes = bool(meta.get(self.META_TAKE_LABELS))
            anybody = anybody or takes
            if meta.get(self.META_AUTO_WIRING):
                data_shapes = [(name, shape[1]) for name, shape in
                               zip(module.data_names, data_shapes, strict=True)]
            module.bind(data_shapes, label_shapes if takes else None, for_training,
                        inputs_need_grad=inputs_need_grad or (for_training and place > 0),
                        force_rebind=force_rebind, grad_req=grad_req)
            data_shapes = module.output_shapes
        self._label_shapes = label_shapes if anybody else None
        self.binded = True

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        self._need("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    # -- one step ------------------------------------------------------------------------------

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        self._need("binded", "params_initialized")
        batch = DataBatch(data_batch.data, data_batch.label, data_batch.pad, data_batch.index)
        for place, module in enumerate(self._modules):
            module.forward(batch, is_train)
            if place + 1 < len(self._modules):
                batch.data = module.get_outputs()

    def backward(self, out_grads: Any = None) -> None:
        self._need("binded", "params_initialized")
        for place in reversed(range(len(self._modules))):
            self._modules[place].backward(out_grads)
            if place:
                out_grads = self._modules[place].get_input_grads()

    def update(self) -> None:
        self._need("binded", "params_initialized", "optimizer_initialized")
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        self._need("binded", "params_initialized")
        return self._modules[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        self._need("binded", "params_initialized", "inputs_need_grad")
        return self._modules[0].get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: EvalMetric, labels: Any, pre_sliced: bool = False
                      ) -> None:
        self._need("binded", "params_initialized")
        for module, meta in zip(self._modules, self._metas, strict=True):
            if meta.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        self._need("binded")
        for module in self._modules:
            module.install_monitor(mon)
