"""The bookkeeping that all update rules share: counts, multipliers, precision, and travelling."""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from inspect import signature
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentError, ArgumentValueError, NotForThisError, Registry, did_you_mean
from ..lr_scheduler import LRScheduler
from ..ndarray import NDArray, invoke
from ..ops import Attrs, Operator, find_operator
from . import settings as plain

__all__ = ["Index", "Optimizer", "State", "apply_rule", "create", "from_wire", "is_own",
           "register"]

Index = int | str
State = Any  # None, an NDArray, or a tuple of states

#: Attributes of an optimizer that belong to its process and never travel as settings.
_HOME = ("_all_index_update_counts", "_index_update_count", "lr_scheduler", "param_dict")
#: Attributes that move on by themselves where the optimizer runs.
_MOVING = ("_begin_counts", "begin_num_update", "idx2name", "num_update", "sym_info")


@lru_cache(maxsize=512)
def _rule(op_name: str, settings: tuple[tuple[str, Any], ...]) -> tuple[Operator, Attrs]:
    op = find_operator(op_name)
    return op, op.parse(dict(settings))


def apply_rule(op_name: str, weight: NDArray, arrays: Sequence[NDArray], **settings: Any) -> None:
    """Update `weight` by an update operator; `arrays` are the gradient and the states it changes.

    The same as ``nd.OP(weight, *arrays, out=weight, **settings)``, but settings that came before
    are not read and checked again: a step of a small network has more of that than arithmetic.
    """
    op, attrs = _rule(op_name, tuple(settings.items()))
    invoke(op, [weight, *arrays], attrs, weight)


class Optimizer:
    """One update rule. A subclass says `create_state` and `update`; the rest is here.

    Args:
        rescale_grad: factor on every gradient; a Trainer sets it to 1 / batch_size.
        param_idx2name: names by index, for the multipliers set by name.
        wd: weight decay.
        clip_gradient: clip rescaled gradients to [-clip_gradient, clip_gradient].
        learning_rate: 0.01 when there is neither this nor a scheduler.
        lr_scheduler: asked for the learning rate at each update; a `learning_rate` given as
            well becomes its `base_lr`.
        sym: a Symbol whose attributes lr_mult and wd_mult give multipliers by name.
        begin_num_update: where the counts start.
        multi_precision: keep a float32 copy of float16 weights and update that.
        param_dict: Parameters by index, whose lr_mult and wd_mult are read at each update.

    Attributes:
        aggregate_num: an optimizer of your own that sets it above 0 is handed lists of up to so
            many indices, weights, gradients and states of one dtype in ``update``.

    >>> sgd = create("sgd", learning_rate=0.5, momentum=0.9)
    >>> sgd.learning_rate, from_wire(*sgd.wire()).momentum
    (0.5, 0.9)
    """

    opt_registry: dict[str, Any]  # set below

    def __init__(
        self,
        rescale_grad: float = 1.0,
        param_idx2name: dict[Index, str] | None = None,
        wd: float = 0.0,
        clip_gradient: float | None = None,
        learning_rate: float | None = None,
        lr_scheduler: LRScheduler | None = None,
        sym: Any = None,
        begin_num_update: int = 0,
        multi_precision: bool = False,
        param_dict: dict[Index, Any] | None = None,
        **unknown: Any,
    ) -> None:
        for name in unknown:
            known = [n for kind in type(self).__mro__[:-1] for n in signature(kind).parameters]
            raise ArgumentError(
                f"optimizer {type(self).__name__}: unknown argument '{name}'"
                f"{did_you_mean(name, set(known) - {'kwargs', 'unknown'})}"
            )
        if param_idx2name is not None and not isinstance(param_idx2name, dict):
            raise ArgumentError(f"param_idx2name: expected a dict, got {param_idx2name!r}")
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        self.lr = 0.01 if learning_rate is None else learning_rate
        if lr_scheduler is not None and learning_rate is not None:
            lr_scheduler.base_lr = learning_rate
        self.wd = wd
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.aggregate_num: float = 0
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        self._begin_counts: dict[Index, int] = {}
        self._all_index_update_counts: dict[Any, dict[Index, int]] = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        self.idx2name = dict(param_idx2name or {})
        self.sym_info = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.param_dict = dict(param_dict or {})
        self.set_lr_mult({})
        self.set_wd_mult({})

    # -- what a rule implements -----------------------------------------------------------------

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The state kept for `weight`: None, an NDArray, or a tuple of them."""
        return None

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Change `weight` and `state` in place by the gradient; lists of all four are allowed."""
        if isinstance(index, (list, tuple)):
            for row in zip(index, weight, grad, state, strict=True):
                self.update(*row)
            return
        self._update_count(index)
        rule = self._as_operator(self._index_update_count[index], state is not None)
        if rule is None:
            raise NotImplementedError(f"{type(self).__name__} must implement update()")
        name, factor, settings = rule
        if grad.stype != "default" and "lazy_update" in find_operator(name).attr_names:
            settings = {**settings, "lazy_update": getattr(self, "lazy_update", True)}
        states = state if isinstance(state, (tuple, list)) else () if state is None else (state,)
        apply_rule(name, weight, [grad, *states], lr=self._get_lr(index) * factor,
                   wd=self._get_wd(index), **settings)

    def _as_operator(self, count: int, has_state: bool) -> tuple[str, float, dict[str, Any]] | None:
        """The update as one operator on (weight, grad, *states), where it is no more than that.

        Args:
            count: the number of the update, from 1. has_state: whether create_state gave one.

        Returns:
            The operator's name, a factor on the learning rate, and its attributes but lr and wd.
            Then `update` need not be written, and many weights are updated by one call.
        """
        return None

    # -- float16 weights ------------------------------------------------------------------------

    def _is_half(self, weight: NDArray) -> bool:
        return self.multi_precision and bool(weight.dtype == np.float16)

    def create_state_multi_precision(self, index: Index, weight: NDArray) -> State:
        """`create_state`, or (a float32 copy, that of the copy) for float16 weights."""
        if self._is_half(weight):
            master = weight.astype("float32")
            return master, self.create_state(index, master)
        if weight.dtype == np.float16 and not self.multi_precision:
            warnings.warn(
                f"{type(self).__name__}: updating a float16 weight in float16 loses accuracy; "
                "pass multi_precision=True to keep a float32 copy of it",
                stacklevel=2,
            )
        return self.create_state(index, weight)

    def update_multi_precision(
        self, index: Index, weight: NDArray, grad: NDArray, state: State
    ) -> None:
        """`update`, done on the float32 copy for float16 weights; lists are allowed."""
        if isinstance(index, (list, tuple)):
            if any(map(self._is_half, weight)):
                for row in zip(index, weight, grad, state, strict=True):
                    self.update_multi_precision(*row)
            else:
                self.update(index, weight, grad, state)
        elif self._is_half(weight):
            master, inner = state
            self.update(index, master, grad.astype("float32"), inner)
            master.astype(weight.dtype).copyto(weight)
        else:
            self.update(index, weight, grad, state)

    # -- learning rate, multipliers, counts -----------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next update, before multipliers."""
        if self.lr_scheduler is not None:
            return self.lr_scheduler(self.num_update)
        return self.lr

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate; refused (UserWarning) where a scheduler decides it."""
        if self.lr_scheduler is not None:
            raise UserWarning(
                "set_learning_rate: this optimizer has an lr_scheduler, which decides the learning "
                "rate; change the scheduler, or make the optimizer without one"
            )
        self.lr = lr

    def _mults_from_symbol(self, attribute: str) -> dict[Index, float]:
        if not self.sym_info:
            return {}
        attributes, arguments = self.sym_info
        found: dict[Index, float] = {}
        for name in arguments:
            if attribute in attributes.get(name, {}):
                found[name] = float(attributes[name][attribute])
        return found

    def set_lr_scale(self, args_lrscale: Any) -> None:
        """The old name of `set_lr_mult`, which has gone, as in MXNet."""
        raise DeprecationWarning("set_lr_scale has gone; use set_lr_mult")

    def set_lr_mult(self, args_lr_mult: dict[Index, float]) -> None:
        """Set learning rate multipliers by parameter name or index; those not named are 1."""
        self.lr_mult = {**self._mults_from_symbol("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult: dict[Index, float]) -> None:
        """Set weight decay multipliers by parameter name or index.

        Names known through `param_idx2name` that end neither in _weight nor in _gamma get 0.
        """
        weak = ("_weight", "_gamma")
        self.wd_mult: dict[Index, float] = {
            name: 0.0 for name in self.idx2name.values() if not name.endswith(weak)
        }
        self.wd_mult.update(self._mults_from_symbol("__wd_mult__"))
        self.wd_mult.update(args_wd_mult)

    def _mult(self, index: Index, kind: str) -> float:
        parameter = self.param_dict.get(index)
        if parameter is not None:
            return float(getattr(parameter, kind))
        table: dict[Index, float] = getattr(self, kind)
        if index in table:
            return table[index]
        return table.get(self.idx2name.get(index, index), 1.0)

    def _get_lr(self, index: Index) -> float:
        return self.learning_rate * self._mult(index, "lr_mult")

    def _get_lrs(self, indices: Sequence[Index]) -> list[float]:
        return [self._get_lr(index) for index in indices]

    def _get_wd(self, index: Index) -> float:
        return self.wd * self._mult(index, "wd_mult")

    def _get_wds(self, indices: Sequence[Index]) -> list[float]:
        return [self._get_wd(index) for index in indices]

    def _update_count(self, index: Index | Sequence[Index]) -> None:
        for one in index if isinstance(index, (list, tuple)) else (index,):
            count = self._index_update_count.get(one, self.begin_num_update) + 1
            self._index_update_count[one] = count
            self.num_update = max(count, self.num_update)

    def _set_current_context(self, device: Any) -> None:
        """Count the updates of each device apart: a step on several counts once."""
        counts = self._all_index_update_counts.get(device)
        if counts is None:
            counts = self._all_index_update_counts[device] = dict(self._begin_counts)
        self._index_update_count = counts

    def _settle_counts(self) -> dict[Index, int]:
        """The count of each index, over all devices."""
        settled = dict(self._begin_counts)
        for counts in self._all_index_update_counts.values():
            for index, count in counts.items():
                settled[index] = max(count, settled.get(index, 0))
        return settled

    # -- what update rules share ----------------------------------------------------------------

    def _rates(self, index: Index) -> tuple[float, float, int]:
        """(learning rate, weight decay, number of this update) after counting one."""
        self._update_count(index)
        return self._get_lr(index), self._get_wd(index), self._index_update_count[index]

    def _common(self) -> dict[str, Any]:
        """The attributes that all update operators take, but lr and wd."""
        return {
            "rescale_grad": self.rescale_grad,
            "clip_gradient": -1.0 if self.clip_gradient is None else self.clip_gradient,
        }

    def _op_settings(self, index: Index) -> dict[str, Any]:
        """The attributes that all update operators take, after counting one update."""
        self._update_count(index)
        return {"lr": self._get_lr(index), "wd": self._get_wd(index), **self._common()}

    def _clipped(self, grad: NDArray) -> NDArray:
        if self.clip_gradient is None:
            return grad
        return nd.clip(grad, -self.clip_gradient, self.clip_gradient)

    @staticmethod
    def _zeros(weight: NDArray, lazy: bool) -> NDArray:
        """A state of zeros, stored as the weight where rows are updated alone, else dense."""
        if lazy or weight.stype == "default":
            return nd.zeros_like(weight)  # type: ignore[attr-defined, no-any-return]
        return nd.zeros(weight.shape, weight.context, weight.dtype)

    @staticmethod
    def _norm(array: NDArray) -> float:
        """The Euclidean length of all elements, computed in float32."""
        return float(nd.norm(array.astype("float32", copy=False)).asscalar())

    # -- travelling -----------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """All but the Parameters; counts in a form that holds on whatever devices come next."""
        state = dict(self.__dict__)
        state["param_dict"] = {}
        state["_begin_counts"] = self._settle_counts()
        del state["_all_index_update_counts"], state["_index_update_count"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._index_update_count = dict(self._begin_counts)
        self._all_index_update_counts = {0: self._index_update_count}

    def live_settings(self) -> dict[str, Any]:
        """Everything a user may change during training, as JSON values.

        Left out are a scheduler, which moves on by itself, and what has no JSON form.
        """
        return self._settings_on_wire(strict=False)

    def _settings_on_wire(self, strict: bool) -> dict[str, Any]:
        settings = {
            name: value
            for name, value in vars(self).items()
            if name not in _HOME and name not in _MOVING
        }
        for kind in ("lr_mult", "wd_mult"):
            mults = {index: float(getattr(p, kind)) for index, p in self.param_dict.items()}
            settings[kind] = {**settings[kind], **mults}
        encoded: dict[str, Any] = {}
        for name, value in settings.items():
            try:
                encoded[name] = plain.encode(value, self._where(name))
            except NotForThisError:
                if strict:
                    raise
        return encoded

    def apply_settings(self, settings: dict[str, Any]) -> None:
        """Take over what another process' `live_settings` (or a part of them) says."""
        for name, value in settings.items():
            if hasattr(type(self), name) or name.startswith("__"):
                raise ArgumentValueError(f"{type(self).__name__}: '{name}' is not a setting")
            setattr(self, name, plain.decode(value))

    def _where(self, name: str) -> str:
        return f"optimizer {type(self).__name__}, setting '{name}'"

    def wire(self) -> tuple[str, dict[str, Any]]:
        """(name, settings): this optimizer as JSON values; `from_wire` makes its equal from them.

        Optimizer states do not travel, counts do. A class that is not minigluon's own raises
        NotForThisError: another process could not find it.
        """
        _check_own(type(self), "optimizer")
        settings = self._settings_on_wire(strict=True)
        moving = {name: getattr(self, name) for name in _MOVING if name != "sym_info"}
        moving["_begin_counts"] = self._settle_counts()
        for name, value in moving.items():
            settings[name] = plain.encode(value, self._where(name))
        if self.lr_scheduler is not None:
            kind = type(self.lr_scheduler)
            _check_own(kind, "lr_scheduler")
            state = {k: plain.encode(v, kind.__name__) for k, v in vars(self.lr_scheduler).items()}
            settings["lr_scheduler"] = [kind.__name__, state]
        return type(self).__name__.lower(), settings

    # -- MXNet's spelling -----------------------------------------------------------------------

    @staticmethod
    def register(klass: type[Any]) -> type[Any]:
        """Decorator: make the class known to ``create`` under its lower-case name."""
        return _registry.register(klass)

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> Optimizer:
        """The same as ``create``."""
        return create(name, **kwargs)


_registry = Registry("optimizer", Optimizer)
Optimizer.opt_registry = _registry.entries
register = Optimizer.register


def create(name: Any, **kwargs: Any) -> Optimizer:
    """An optimizer by name ('sgd', 'Adam', any case) with its settings, or the one given."""
    made: Optimizer = _registry.create(name, **kwargs)
    return made


def is_own(thing: Any) -> bool:
    """Whether the class of an object is minigluon's own, not a user's."""
    return _is_own(type(thing))


def _is_own(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]


def _check_own(cls: type, what: str) -> None:
    if not _is_own(cls):
        raise NotForThisError(
            f"{what} {cls.__name__} is defined in module '{cls.__module__}', not in minigluon: it "
            "cannot travel by name and settings, because another process would not know the class"
        )


def from_wire(name: str, settings: dict[str, Any]) -> Optimizer:
    """The optimizer that ``wire()`` described; nothing but the known classes can come of it."""
    rest = dict(settings)
    schedule = rest.pop("lr_scheduler", None)
    counts = plain.decode(rest.pop("_begin_counts", {"pairs": []}))
    optimizer: Optimizer = _registry.find(name)()
    optimizer.apply_settings(rest)
    optimizer.__setstate__({"_begin_counts": counts})
    if schedule is not None:
        optimizer.lr_scheduler = plain.scheduler(*schedule)
    return optimizer
