"""Modules whose computation is written in Python: PythonModule, PythonLossModule."""
from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..initializer import Initializer
from ..io import DataBatch, DataDesc
from ..metric import EvalMetric
from ..ndarray import NDArray
from .base_module import BaseModule
from .describe import descriptions

__all__ = ["PythonLossModule", "PythonModule"]


class PythonModule(BaseModule):
    """Base of modules without parameters.

    A class of yours overrides ``forward``, ``backward`` and ``_compute_output_shapes``.

    Args:
        data_names, label_names, output_names: names of what comes in and goes out.
    """

    def __init__(self, data_names: Sequence[str], label_names: Sequence[str] | None,
                 output_names: Sequence[str], logger: Any = logging) -> None:
        super().__init__(logger)
        self._data_names = list(data_names)
        self._label_names = list(label_names or ())
        self._output_names = list(output_names)
        self._data_shapes: list[DataDesc] = []
        self._label_shapes: list[DataDesc] | None = None
        self._output_shapes: list[tuple[str, tuple[int, ...]]] = []

    @property
    def data_names(self) -> list[str]:
        return self._data_names

    @property
    def output_names(self) -> list[str]:
        return self._output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return self._output_shapes

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        return {}, {}

    def init_params(self, initializer: Initializer | None = None,
                    arg_params: Mapping[str, NDArray] | None = None,
                    aux_params: Mapping[str, NDArray] | None = None, allow_missing: bool = False,
                    force_init: bool = False, allow_extra: bool = False) -> None:
        self.params_initialized = True

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        self.optimizer_initialized = True

    def update(self) -> None:
        """Nothing: there are no parameters."""

    def update_metric(self, eval_metric: EvalMetric, labels: Any, pre_sliced: bool = False
                      ) -> None:
        if self._label_shapes:
            eval_metric.update(labels, self.get_outputs())

    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: Any = None, grad_req: Any = "write") -> None:
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        assert grad_req == "write", "PythonModule: grad_req: only 'write' is supported"
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self._data_shapes = descriptions(data_shapes)
        self._label_shapes = descriptions(label_shapes) if label_shapes else None
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        raise NotImplementedError(f"{type(self).__name__} must override _compute_output_shapes")


class PythonLossModule(PythonModule):
    """A loss on top of another module: passes its data on, and has a gradient for them.

    Args:
        name: prefix of the output's name.
        data_names, label_names: one name each.
        grad_func: ``grad_func(scores, labels)`` returns the gradient of the scores.
    """

    def __init__(self, name: str = "pyloss", data_names: Sequence[str] = ("data",),
                 label_names: Sequence[str] = ("softmax_label",), logger: Any = logging,
                 grad_func: Callable[[NDArray, NDArray], Any] | None = None) -> None:
        super().__init__(data_names, label_names, [f"{name}_output"], logger)
        assert len(data_names) == len(label_names) == 1, "a loss takes one input and one label"
        self._name = name
        self._grad_func = grad_func
        self._scores: NDArray | None = None
        self._labels: NDArray | None = None
        self._scores_grad: NDArray | None = None

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return [(f"{self._name}_output", self._data_shapes[0].shape)]

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        assert data_batch.data
        self._scores = data_batch.data[0]
        if data_batch.label and (self.for_training if is_train is None else is_train):
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        return [self._scores]

    def backward(self, out_grads: Any = None) -> None:
        assert out_grads is None, "a loss comes last: it takes no gradients of its outputs"
        self._need("for_training")
        self._backward_impl()

    def _backward_impl(self) -> None:
        """Compute ``self._scores_grad``; override it, or give a grad_func."""
        if self._grad_func is None:
            raise NotImplementedError(f"{type(self).__name__} needs a grad_func")
        assert self._scores is not None and self._labels is not None
        grad = self._grad_func(self._scores, self._labels)
        self._scores_grad = grad if isinstance(grad, NDArray) else nd.array(
            np.asarray(grad), self._scores.context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        return [self._scores_grad]

    def install_monitor(self, mon: Any) -> None:
        """Nothing: there is no executor to watch."""
