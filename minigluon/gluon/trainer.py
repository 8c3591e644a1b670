"""Trainer: gradients of Parameters, through a KVStore or not, become new values.

The one place where networks (``nn``) and stores (``kvstore``) meet.
"""
from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import kvstore as kvs
from .. import optimizer as opt
from ..autograd import pause
from ..base import (
    ArgumentError,
    ArgumentValueError,
    DeferredInitializationError,
    KVStoreError,
    numeric_types,
)
from ..context import Context
from ..ndarray import NDArray
from ..nn import Parameter, ParameterDict
from .exchange import exchange
from .prepared import Prepared
from .statistics import average, statistics
from .stores import keep_states, make_store, put_values, updates_there

__all__ = ["Trainer"]


class Trainer:
    """Apply an optimizer to a set of Parameters.

    `batch_size` of `step` is that of one worker's gradients summed: N workers with batches of B
    and ``step(N * B)`` do what one worker does with a batch of N * B.

    Args:
        params: Parameters by name (``net.collect_params()``; taken in the order of the names) or a
            list of them.
        optimizer: name or Optimizer.
        optimizer_params: settings for an optimizer given by name.
        kvstore: name, KVStoreBase or None. Names other than dist ones need no store at all where
            there is one context only.
        compression_params: given to the store's ``set_gradient_compression``.
        update_on_kvstore: run the optimizer in the store (True), in this Trainer (False), or where
            it suits the store and MXNET_UPDATE_ON_KVSTORE (None). A wish that cannot be met is a
            ValueError when the store is made, in the first step.
        update_interval: gradients of so many steps are added up before one update (the
            Parameters' grad_req 'write' becomes 'add'): ``step(B)`` n times with interval n does
            what one step with a batch of n * B does.

    >>> import minigluon as mx
    >>> w = mx.gluon.Parameter("w", shape=(2,))
    >>> w.initialize("ones")
    >>> trainer = Trainer([w], "sgd", {"learning_rate": 0.5})
    >>> with mx.autograd.record():
    ...     loss = (w.data() * 2).sum()
    >>> loss.backward()
    >>> trainer.step(batch_size=1)
    >>> w.data().asnumpy().tolist()
    [0.0, 0.0]
    """

    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: dict[str, Any] | None = None,
        kvstore: Any = "device",
        compression_params: dict[str, Any] | None = None,
        update_on_kvstore: bool | None = None,
        update_interval: int = 1,
    ) -> None:
        if isinstance(update_interval, bool) or not isinstance(update_interval, int):
            raise ArgumentError(
                f"Trainer: update_interval: expected an int, got {update_interval!r}"
            )
        if update_interval < 1:
            raise ArgumentValueError(
                f"Trainer: update_interval: expected 1 or more, got {update_interval}"
            )
        self._params = _in_order(params)
        self._interval, self._steps = update_interval, 0
        self._reached: set[int] = set()
        for param in self._params if update_interval > 1 else ():
            if param.grad_req == "write":
                param.grad_req = "add"
        self._param2idx = {param.name: i for i, param in enumerate(self._params)}
        for param in self._params:
            param._set_trainer(self)
        self._compression_params = compression_params
        self._contexts = self._check_contexts()
        self._init_optimizer(optimizer, optimizer_params)
        self._scale = self._optimizer.rescale_grad
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._kvstore: Any = None
        self._prepared = Prepared(self._params, self._updaters)
        self._sums: Any = None  # where running statistics of all workers are added up
        self._averaged: set[str] = set()
        self._clear_kvstore()

    def _clear_kvstore(self) -> None:
        self._kv_initialized = False
        self._kvstore = None
        self._distributed: bool | None = None
        self._update_on_kvstore: bool | None = None
        self._sent: dict[str, Any] = {}
        self._has_scale = False
        self._params_to_init = list(self._params)

    def _check_contexts(self) -> list[Context]:
        contexts: list[Context] | None = None
        for param in self._params:
            here = param.list_ctx()
            assert contexts is None or contexts == here, (
                f"Trainer: all Parameters must be on the same contexts, but {param.name} is on "
                f"{here} and those before it on {contexts}"
            )
            contexts = here
        return list(contexts or [])

    def _init_optimizer(self, optimizer: Any, optimizer_params: dict[str, Any] | None) -> None:
        by_index: dict[int | str, Any] = dict(enumerate(self._params))
        if isinstance(optimizer, opt.Optimizer):
            assert not optimizer_params, (
                "Trainer: optimizer_params must be None when the optimizer is an Optimizer; "
                "give the settings to it"
            )
            self._optimizer = optimizer
            optimizer.param_dict = by_index
        else:
            settings = {**(optimizer_params or {}), "param_dict": by_index}
            self._optimizer = opt.create(optimizer, **settings)
        count = max(1, len(self._contexts))
        self._updaters = [opt.get_updater(self._optimizer) for _ in range(count)]

    def _adopt(self, optimizer: opt.Optimizer) -> None:
        """Make an optimizer that came out of a file the one of these Parameters."""
        optimizer.param_dict = dict(enumerate(self._params))
        self._optimizer = optimizer

    # -- the store ------------------------------------------------------------------------------

    def _init_kvstore(self) -> None:
        """Make the store and decide who updates."""
        wish, update = self._kvstore_params["kvstore"], self._kvstore_params["update_on_kvstore"]
        store = make_store(wish, update, self._params, len(self._contexts))
        self._distributed = store is not None and "dist" in store.type
        if store is None:
            self._kvstore, self._update_on_kvstore = None, None
        else:
            update = updates_there(store, update, self._params)
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if update:
                store.set_optimizer(self._optimizer)
                keep_states(store, self._updaters[0])
                self._sent = self._optimizer.live_settings() if self._distributed else {}
            self._kvstore, self._update_on_kvstore = store, update
        self._kv_initialized = True

    def _init_params(self) -> None:
        """Put the values that exist by now into the store; deferred ones wait."""
        ready = [param for param in self._params_to_init if not param._deferred_init]
        self._params_to_init = [param for param in self._params_to_init if param._deferred_init]
        if self._kvstore is not None and ready:
            put_values(self._kvstore, [(self._param2idx[param.name], param) for param in ready])

    def _ensure_ready(self) -> None:
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    def _reset_kvstore(self) -> None:
        """Start anew with the values that the Parameters have now (they were loaded)."""
        if self._kvstore is not None and self._distributed:
            if not self._update_on_kvstore:
                return
            raise KVStoreError(
                "Trainer: parameters were set while the servers of a distributed KVStore hold "
                "them; load them before the first step, or use update_on_kvstore=False"
            )
        updater = getattr(self._kvstore, "_updater", None)
        if self._update_on_kvstore and isinstance(updater, opt.Updater):
            self._updaters[0].states = updater.states
        self._clear_kvstore()

    # -- the learning rate ----------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The current learning rate of the optimizer."""
        return self._optimizer.learning_rate

    @property
    def optimizer(self) -> opt.Optimizer:
        """The optimizer."""
        return self._optimizer

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate from the next step on; UserWarning where a scheduler decides."""
        self._optimizer.set_learning_rate(lr)

    # -- a step ---------------------------------------------------------------------------------

    def step(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """One step: sum the gradients over devices and workers, update, spread the new values.

        Args:
            batch_size: gradients are divided by it.
            ignore_stale_grad: leave Parameters alone whose gradient no backward has written since
                the last step; otherwise they are a UserWarning.
        """
        self._check_and_rescale_grad(batch_size)
        self._ensure_ready()
        if self._interval == 1 and self._kvstore is None and self._prepared.run(self._optimizer):
            return
        with pause():
            fresh = self._fresh(ignore_stale_grad)
            if self._interval > 1:
                fresh = self._accumulated(fresh)
            if self._steps:
                return
            self._allreduce_grads(fresh)
            self._update(fresh)
            for i in fresh if self._interval > 1 else ():
                self._params[i].zero_grad()

    def _accumulated(self, fresh: list[int]) -> list[int]:
        """Count a step; the Parameters that any step since the last update has reached."""
        self._steps = (self._steps + 1) % self._interval
        self._reached.update(fresh)
        for i in fresh:
            for data in self._params[i].list_data():
                data._fresh_grad = False
        if self._steps:
            return []
        reached, self._reached = sorted(self._reached), set()
        return reached

    @contextlib.contextmanager
    def join(self) -> Iterator[Trainer]:
        """Around a worker's steps of an epoch, where workers may have unequal numbers of them.

        At the end of the block the worker is counted out: the steps of the others go on without
        it. The block ends when all workers are at its end; they all have the last weights then.

        >>> import minigluon as mx
        >>> w = mx.gluon.Parameter("w", shape=(2,))
        >>> w.initialize("ones")
        >>> with mx.gluon.Trainer([w], "sgd").join() as trainer:
        ...     pass  # for batch in batches: ... trainer.step(n)
        """
        self._ensure_ready()
        yield self
        store = self._kvstore
        if store is None or not self._distributed:
            return
        if not self._update_on_kvstore:
            raise KVStoreError(
                "Trainer.join: a worker that is counted out cannot follow updates made by the "
                "others; use update_on_kvstore=True"
            )
        store.leave()
        for i, param in enumerate(self._params):
            if param.grad_req != "null" and not param._deferred_init and param._stype == "default":
                store.pull(i, param.list_data(), priority=-i)

    def average_statistics(self) -> None:
        """Give the running statistics of all devices and workers (BatchNorm's) their mean.

        Each device gathers them of the samples it sees, and no step exchanges them. Before an
        evaluation, or before saving, this makes them equal everywhere, to the bit, so that any
        worker's network and file give the same predictions. All workers call it; it waits for them.

        >>> import minigluon as mx
        >>> net = mx.gluon.nn.BatchNorm(in_channels=1)
        >>> net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
        >>> for mean, array in enumerate(net.running_mean.list_data()):
        ...     array[:] = mean
        >>> mx.gluon.Trainer(net.collect_params(), "sgd").average_statistics()
        >>> [array.asnumpy().tolist() for array in net.running_mean.list_data()]
        [[0.5], [0.5]]
        """
        if not self._kv_initialized:
            self._init_kvstore()
        if self._distributed and self._sums is None:
            own = self._kvstore.type.lower() in kvs.KVStoreBase.registry.entries
            self._sums = self._kvstore if own else kvs.create("dist_sync")  # no optimizer in it
        average(statistics(self._params), self._sums, self._averaged)

    def allreduce_grads(self) -> None:
        """Sum the gradients over devices and workers, for ``update`` after a look at them."""
        self._ensure_ready()
        self._only_apart("allreduce_grads")
        trained = [i for i, param in enumerate(self._params) if param.grad_req != "null"]
        for i in trained:
            _check_reached(self._params[i])
        with pause():
            self._allreduce_grads(trained)

    def update(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """Apply the gradients that ``allreduce_grads`` has summed; arguments as in `step`."""
        self._ensure_ready()
        self._only_apart("update")
        self._check_and_rescale_grad(batch_size)
        with pause():
            self._update(self._fresh(ignore_stale_grad))

    def _only_apart(self, what: str) -> None:
        if self._interval > 1:
            raise ArgumentValueError(f"Trainer.{what}() does not count steps: with "
                                     "update_interval call step()")
        assert not (self._kvstore is not None and self._update_on_kvstore), (
            f"Trainer.{what}() is not possible when the KVStore runs the optimizer: gradients and "
            "update are one there; make the Trainer with update_on_kvstore=False, or call step()"
        )

    def _check_and_rescale_grad(self, batch_size: Any) -> None:
        if isinstance(batch_size, NDArray):
            batch_size = batch_size.item()
        if isinstance(batch_size, bool) or not isinstance(batch_size, numeric_types):
            raise ArgumentError(f"Trainer: batch_size: expected a number, got {batch_size!r}")
        samples = float(batch_size)
        if not 0 < samples < float("inf"):
            raise ArgumentValueError(
                f"Trainer: batch_size: expected a positive number of samples, got {batch_size}"
            )
        scale = self._scale / (samples * self._interval)
        before = self._optimizer.rescale_grad
        if (self._update_on_kvstore and self._distributed and self._sent and before != scale
                and self._has_scale):
            warnings.warn(
                f"Trainer: the gradient scale changes from {before:g} to {scale:g} (another "
                "batch_size?). The servers follow; all workers must give the same batch_size.",
                UserWarning,
                stacklevel=3,
            )
        self._optimizer.rescale_grad = scale
        self._has_scale = True  # rows may have been fetched before the first step

    def _fresh(self, ignore_stale_grad: bool) -> list[int]:
        """Indices of the Parameters to update; stale ones raise before anything has changed."""
        fresh = []
        trained = [(i, p) for i, p in enumerate(self._params) if p.grad_req != "null"]
        if ignore_stale_grad:
            trained = [(i, p) for i, p in trained if not p._deferred_init]
        for _, param in trained:
            _check_reached(param)
        for i, param in trained:
            stale = [data.context for data in param._arrays() if not data._fresh_grad]
            if stale and not ignore_stale_grad:
                raise UserWarning(
                    f"Gradient of Parameter `{param.name}` on context {stale[0]} has not been "
                    "updated by backward since last `step`. This could mean a bug in your model "
                    "that made it only use a subset of the Parameters (Blocks) for this iteration. "
                    "If you are intentionally only using a subset, call step with "
                    "ignore_stale_grad=True to suppress this warning and skip updating of "
                    "Parameters with stale gradient"
                )
            if len(stale) < len(self._contexts):
                fresh.append(i)
        return fresh

    def _allreduce_grads(self, indices: Sequence[int]) -> None:
        if self._kvstore is None:
            return
        indices, there = self._pushed(indices), bool(self._update_on_kvstore)
        if self._distributed and there:
            self._send_settings()
        exchange(self._kvstore, {i: self._params[i] for i in indices}, there,
                 bool(self._distributed))
        if self._distributed and there:
            self._optimizer._update_count(indices)  # so that learning_rate shows the schedule

    def _pushed(self, indices: Sequence[int]) -> Sequence[int]:
        """The keys of this step. All workers must push the same ones: stale gradients as zeros."""
        if not self._distributed:
            return indices
        everyone = [
            i for i, param in enumerate(self._params)
            if param.grad_req != "null" and not param._deferred_init
        ]
        for i in set(everyone).difference(indices):
            self._params[i].zero_grad()
        return everyone

    def _send_settings(self) -> None:
        """Tell the servers what the user has changed on the optimizer since the last step."""
        now = self._optimizer.live_settings()
        changed = {name: value for name, value in now.items() if self._sent.get(name) != value}
        if changed:
            self._kvstore.update_optimizer_settings(changed)
            self._sent = now

    def _update(self, indices: Sequence[int]) -> None:
        here = not (self._kvstore is not None and self._update_on_kvstore)
        params = [self._params[i] for i in indices]
        if here and params:
            for place, updater in enumerate(self._updaters):
                updater(list(indices), [param.list_grad()[place] for param in params],
                        [param._arrays()[place] for param in params])
        for param in params:
            for data in param._arrays():
                data._fresh_grad = False

    def _row_sparse_pull(
        self, parameter: Parameter, out: Any, row_id: Any, full_idx: bool = False
    ) -> None:
        """Fetch the rows `row_id` of a row_sparse parameter from the store."""
        self._ensure_ready()
        key = self._param2idx[parameter.name]
        if full_idx and not self._distributed:
            self._kvstore.pull(key, out=out, priority=-key, ignore_sparse=False)
        else:
            self._kvstore.row_sparse_pull(key, out=out, row_ids=row_id, priority=-key)

    # -- files ----------------------------------------------------------------------------------

    def save_states(self, fname: str) -> None:
        """Write optimizer and states to a file, also before the first step.

        The file is replaced as a whole or not at all; states of every context are kept.
        """
        self._ensure_ready()
        if self._update_on_kvstore:
            self._kvstore.save_optimizer_states(fname, dump_optimizer=True)
        else:
            opt.save_states(fname, self._updaters, dump_optimizer=True)

    def load_states(self, fname: str) -> None:
        """Go on with what `save_states` wrote, also before the first step."""
        self._ensure_ready()
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
            updater = getattr(self._kvstore, "_updater", self._kvstore)
            loaded = getattr(updater, "optimizer", getattr(updater, "_optimizer", None))
            if isinstance(loaded, opt.Optimizer) and loaded is not self._optimizer:
                self._sent = loaded.live_settings() if self._distributed else {}
                self._adopt(loaded)
        else:
            opt.load_states(fname, self._updaters)
            self._adopt(self._updaters[0].optimizer)


def _check_reached(param: Parameter) -> None:
    """An error that says which layer no forward has reached."""
    if param._deferred_init:
        raise DeferredInitializationError(
            f"Trainer: Parameter '{param.name}' still has no shape: its layer was not reached by "
            "the forward. Use it in forward, give it its input size, leave it out of the "
            "Trainer's parameters, set its grad_req to 'null', or call step with "
            "ignore_stale_grad=True"
        )


def _in_order(params: Any) -> list[Parameter]:
    """The Parameters by index, each once."""
    if isinstance(params, (Mapping, ParameterDict)):
        params = [params[name] for name in sorted(params.keys())]
    if not isinstance(params, (list, tuple)):
        raise ArgumentValueError(
            f"Trainer: expected a ParameterDict, dict or list of Parameters, got {type(params)}"
        )
    for param in params:
        if not isinstance(param, Parameter):
            raise ArgumentValueError(
                f"Trainer: expected a list of Parameters, got one of {type(param)}"
            )
    return list({id(param): param for param in params}.values())
