"""A Module whose gradients have their variance reduced.

Every `update_freq` epochs a copy of the weights is kept and the mean gradient over all data is
taken there; from then on a batch's gradient g(w) becomes g(w) - g(copy) + mean (R. Johnson,
T. Zhang, "Accelerating Stochastic Gradient Descent using Predictive Variance Reduction", 2013).
"""
from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ...base import ArgumentError, ArgumentValueError, NotForThisError
from ...context import Context
from ...module import Module
from ...ndarray import NDArray
from ...symbol import Symbol

__all__ = ["SVRGModule"]


class SVRGModule(Module):
    """A Module trained with variance-reduced gradients; `fit` is Module's.

    Args:
        symbol, data_names, label_names, logger, context, work_load_list, fixed_param_names,
            state_names, group2ctxs, compression_params: as for Module.
        update_freq: after how many epochs the mean gradient is taken again.

    With a loop of your own: `update_full_grads` every `update_freq` epochs, then `forward`,
    `backward` and `update` for each batch. Stores of one process only.
    """

    def __init__(self, symbol: Symbol, data_names: Sequence[str] | None = ("data",),
                 label_names: Sequence[str] | None = ("softmax_label",), logger: Any = logging,
                 context: Context | Sequence[Context] | None = None,
                 work_load_list: Sequence[float] | None = None,
                 fixed_param_names: Sequence[str] | None = None,
                 state_names: Sequence[str] | None = None, group2ctxs: Any = None,
                 compression_params: Any = None, update_freq: int | None = None) -> None:
        if not isinstance(update_freq, int) or isinstance(update_freq, bool):
            raise ArgumentError("update_freq in SVRGModule must be an integer to represent the "
                                f"frequency for calculating full gradients, got {update_freq!r}")
        if update_freq < 1:
            raise ArgumentValueError("update_freq in SVRGModule must be a positive integer to "
                                     "represent the frequency for calculating full gradients, "
                                     f"got {update_freq}")
        settings: dict[str, Any] = {
            "data_names": data_names, "label_names": label_names, "logger": logger,
            "context": context, "work_load_list": work_load_list,
            "fixed_param_names": fixed_param_names, "state_names": state_names,
            "group2ctxs": group2ctxs}
        super().__init__(symbol, compression_params=compression_params, **settings)
        self.update_freq = update_freq
        self._mod_aux = Module(symbol, **settings)
        self._means: list[list[NDArray]] | None = None  # for each weight, one on each context

    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: Any = None, grad_req: Any = "write") -> None:
        """As Module's."""
        super().bind(data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind,
                     shared_module, grad_req)
        if for_training:
            self._mod_aux.bind(data_shapes, label_shapes, for_training, False, force_rebind,
                               None, grad_req)

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """As Module's."""
        super().reshape(data_shapes, label_shapes)
        self._mod_aux.reshape(data_shapes, label_shapes)

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        """As Module's; a store of several machines is refused."""
        kind = kvstore if isinstance(kvstore, str) else getattr(kvstore, "type", "")
        if kind.startswith("dist"):
            raise NotForThisError(f"SVRGModule: kvstore '{kind}': full gradients over several "
                                  "machines are not built; use 'local', 'device' or None")
        super().init_optimizer(kvstore, optimizer, optimizer_params, force_init)

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """As Module's; in training at the weights kept, too."""
        super().forward(data_batch, is_train)
        if self._means is not None and (self.for_training if is_train is None else is_train):
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """As Module's; at the weights kept, too."""
        super().backward(out_grads)
        if self._means is not None:
            self._mod_aux.backward(out_grads)

    def update(self) -> None:
        """Reduce the variance of the gradients, then update the weights."""
        if self._means is not None:
            for grads, kept, means in zip(self._group().grad_arrays,
                                          self._mod_aux._group().grad_arrays, self._means,
                                          strict=True):
                for grad, old, mean in zip(grads, kept, means, strict=True):
                    if grad is not None:
                        grad[:] = grad - old + mean
        super().update()

    def update_full_grads(self, train_data: Any) -> None:
        """Keep the weights, and take the mean over all batches of the gradients there.

        Args:
            train_data: an iterator; it is reset before and after.
        """
        args, aux = self.get_params()
        self._mod_aux.init_params(arg_params=args, aux_params=aux, force_init=True)
        group = self._mod_aux._group()
        sums: list[NDArray | None] = [None] * len(group.grad_arrays)
        count = 0
        train_data.reset()
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            count += 1
            for place, grads in enumerate(group.grad_arrays):
                for grad in grads:
                    if grad is not None:
                        known = sums[place]
                        here = grad if known is None else grad.as_in_context(known.context)
                        sums[place] = here.copy() if known is None else known + here
        train_data.reset()
        if not count:
            raise ArgumentValueError("update_full_grads: train_data gave no batch")
        share = 1.0 / (count * len(group.contexts))  # the contexts' gradients are added up later
        self._means = [
            [mean if mean is None else (total * share).as_in_context(mean.context)
             for mean in grads] if total is not None else list(grads)
            for grads, total in zip(group.grad_arrays, sums, strict=True)]

    def _fit_epoch(self, epoch: int, train_data: Any, *rest: Any) -> None:
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
        super()._fit_epoch(epoch, train_data, *rest)
