"""The one place where operators and devices meet: ``call(op, arrays, attrs, device)``.

The device's kernel is taken if one accepts the call, else the operator's own body with the
device's array module. Errors of a body are explained in the operator's words.
"""
from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from time import perf_counter_ns
from typing import Any

from numpy import asarray, generic

from .base import DTypeError, MXNetError, OutOfRangeError, ShapeError, env_bool
from .device import Device, kernels_of
from .device.cpu import native
from .ops import Attrs, Operator, function, registry
from .ops.sparse import form_for
from .ops.storage import STORED, Stored, dense_of, fill, stype_of

__all__ = ["call", "observing", "prepared", "raw_face"]

Array = Any

_OF_BODIES = (ValueError, TypeError, IndexError, ArithmeticError)  # what NumPy complains with
_prepared: dict[Operator, Any] = {}
_log = logging.getLogger(__name__)


class _NothingPrepared(dict[Operator, Any]):
    """While calls are observed: no short path around `call`."""

    def __missing__(self, op: Operator) -> None:
        return None


Observer = Callable[[Operator, Sequence[Array], int, int], None]


class _Observing:
    """Who is told of each call: the profiler, while it runs.

    While nobody observes, it costs one look at `observer` in `call`, and nothing elsewhere.

    Attributes:
        observer: ``observer(op, arrays, begin, end)`` with times of ``time.perf_counter_ns``.
        inside: compiled graphs run operator by operator, so that those are seen, too.
        changed: functions called with True and False when observing begins and ends.
    """

    def __init__(self) -> None:
        self.observer: Observer | None = None
        self.inside = False
        self.changed: list[Callable[[bool], None]] = []
        self._all = _prepared

    def by(self, observer: Observer | None, inside: bool = False) -> None:
        """Tell `observer` of all calls from now on; None: nobody."""
        global _prepared
        self.observer, self.inside = observer, observer is not None and inside
        _prepared = self._all if observer is None else _NothingPrepared()
        for change in self.changed:
            change(observer is not None)

    def call(self, observer: Observer, op: Operator, arrays: Sequence[Array], attrs: Attrs,
             device: Device, training: bool) -> tuple[Array, ...]:
        """`call`, and tell."""
        begin = perf_counter_ns()
        outputs = call(op, arrays, attrs, device, training, told=True)
        observer(op, arrays, begin, perf_counter_ns())
        return outputs

    def prepared(self, op: Operator) -> Any:
        """What `prepared` gives while nobody observes."""
        try:
            return self._all[op]
        except KeyError:
            return _ready(op)


observing = _Observing()
# Operators of an array and a number are called with ever new numbers: their bodies are quicker
# than preparing a Step, but for big arrays.
_WORTH_A_STEP = 65536


def prepared(op: Operator) -> Any:
    """The native Steps of an operator by the shapes of its inputs; None where it has no kernel."""
    try:
        return _prepared[op]
    except KeyError:
        return _ready(op)


def _ready(op: Operator) -> Any:
    found = None
    if native.has_kernel(op.name) and not op.needs_device:
        least = _WORTH_A_STEP if "scalar" in op.attr_names else 0
        found = native.core.Eager(op, partial(_prepare, op), int(op.single), least)
    observing._all[op] = found
    return found


def _prepare(op: Operator, arrays: Sequence[Array], attrs: Attrs) -> Any:
    """A Step for arrays like these, or None."""
    if op.infer is None:
        return None
    public = {name: attrs[name] for name in op.attr_names if name in attrs}
    ins = [native.desc_of(array) for array in arrays]
    if op.infer_dtype is None and len({dtype for dtype, _ in ins}) > 1:
        return None
    try:
        wanted, shapes = op.infer([shape for _, shape in ins], public)
        if any(one != shape for one, (_, shape) in zip(wanted, ins, strict=True)):
            return None
        if op.infer_dtype is None:
            types: Sequence[str | None] = [ins[0][0]] * len(shapes)
        else:
            _, types = op.infer_dtype([dtype for dtype, _ in ins], public)
    except (MXNetError, *_OF_BODIES):
        return None  # the general way says what is wrong
    outs = [(dtype, shape) for dtype, shape in zip(types, shapes, strict=True)
            if dtype is not None and shape is not None and 0 not in shape]
    if len(outs) != op.num_outputs(attrs):
        return None
    return native.step(op.name, ins, outs, attrs)


def call(
    op: Operator, arrays: Sequence[Array], attrs: Attrs, device: Device, training: bool = False,
    told: bool = False,
) -> tuple[Array, ...]:
    """Run one operator on raw arrays of `device`; always a tuple of raw arrays.

    Args:
        op: the operator record.
        arrays: its inputs, in order. Inputs the record names in `mutates` are written to.
        attrs: complete attributes (``op.parse`` or ``op.bind`` made them); not changed.
        device: where the arrays live.
        training: for operators that behave differently in training; ``attrs["training"]`` wins.
        told: the observer is not to be told of this call.

    Raises:
        ShapeError, DTypeError, MXNetError: naming the operator and what it was given.
    """
    if observing.observer is not None and not told:
        return observing.call(observing.observer, op, arrays, attrs, device, training)
    if op.direct is not None:
        return op.direct(arrays, device)
    if op.needs_training:
        attrs = {"training": training, **attrs}
    if op.infer_dtype is None and len(arrays) > 1:
        first = arrays[0].dtype
        for array in arrays:
            if array.dtype != first:
                raise _mixed_dtypes(op, arrays)
    if device.type == "cpu":
        steps = observing.prepared(op) if told else prepared(op)
        if steps is not None:
            results: tuple[Array, ...] | None = steps.raw(arrays, attrs, device)
            if results is not None:
                return results
    if op.needs_rng or op.needs_device:
        attrs = _with_services(op, attrs, device)
    body = op.body
    stored = not STORED.isdisjoint(map(type, arrays))
    if stored:
        body = form_for(op, arrays, attrs) or _dense_body(op, arrays, attrs)
    kernels = None if stored else kernels_of(device.type, op.name)
    if kernels is not None:
        for when, candidate in kernels:
            if when is None or when(arrays, attrs):
                body = candidate
                break
    try:
        result = device.run(body, arrays, attrs, op.small_steps)
    except MXNetError as error:
        if op.name not in registry or _names_operator(op, error):
            raise
        named = type(error)(f"{op.name}: {error}")
        named.late = error.late
        raise named from error
    except _OF_BODIES as error:
        raise _explain(op, arrays, attrs, error) from error
    if type(result) is tuple:
        return result
    # NumPy turns arrays of shape () into scalars, which nobody could write to
    return (asarray(result) if isinstance(result, generic) else result,)


def _dense_body(op: Operator, arrays: Sequence[Array], attrs: Attrs) -> Callable[..., Any]:
    """The operator's own body behind inputs that are made dense: it has no form for them."""
    if attrs.get("lazy_update", True):  # where it is False, dense is what was asked for
        _tell_fallback(op, tuple(map(stype_of, arrays)))

    def body(xp: Any, *given: Array, **attrs: Any) -> Any:
        whole = [dense_of(xp, array) for array in given]
        result = op.body(xp, *whole, **attrs)
        for name, array, changed in zip(op.input_names, given, whole, strict=False):
            if name in op.mutates and isinstance(array, Stored):
                fill(xp, array, changed)
        return result

    return body


@cache
def _tell_fallback(op: Operator, stypes: tuple[str, ...]) -> None:
    """Once for each operator and storage types; MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0: never."""
    if env_bool("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", True) and not op.name.startswith("_"):
        _log.warning("%s has no form for storage types (%s): its inputs are made dense. "
                     "MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0 hides this.", op.name, ", ".join(stypes))


def _with_services(op: Operator, attrs: Attrs, device: Device) -> Attrs:
    attrs = dict(attrs)
    if op.needs_rng:
        attrs["rng"] = device.rng
    if op.needs_device:
        attrs["device"] = device
    return attrs


def _describe(op: Operator, arrays: Sequence[Array]) -> str:
    names = op.input_names
    parts = []
    for place, array in enumerate(arrays):
        name = f"{names[-1]}[{place}]" if op.variadic or place >= len(names) else names[place]
        parts.append(f"{name} {tuple(array.shape)} {array.dtype}")
    return ", ".join(parts)


def _names_operator(op: Operator, error: MXNetError) -> bool:
    """Whether the text begins with an operator's name, as in ``Pooling: pad: ...``.

    ``mean: ...`` may also speak of an attribute: then it does not.
    """
    word = re.split(r"[:( ]", str(error), maxsplit=1)[0]
    return word in registry and word not in op.attr_names


def _mixed_dtypes(op: Operator, arrays: Sequence[Array]) -> DTypeError:
    return DTypeError(
        f"{op.name}: expected arrays of one dtype, got {_describe(op, arrays)}; "
        "convert with .astype()"
    )


def _explain(op: Operator, arrays: Sequence[Array], attrs: Attrs, error: Exception) -> MXNetError:
    """The record's own shape rule usually says better what was wrong than the failing body."""
    if op.infer is not None:
        public = {name: attrs[name] for name in op.attr_names if name in attrs}
        try:
            op.infer([tuple(array.shape) for array in arrays], public)
        except MXNetError as better:
            return better
        except _OF_BODIES as as_well:  # the rule stumbles over the same
            error = as_well
    kind = (ShapeError if isinstance(error, ValueError) else
            OutOfRangeError if isinstance(error, IndexError) else MXNetError)
    return kind(f"{op.name}({_describe(op, arrays)}): {error}")


def _raw_call(device: Device) -> Callable[[Operator, tuple[Any, ...], dict[str, Any]], Any]:
    """What calling an operator means for raw arrays of one device."""

    def apply(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        training = kwargs.pop("training", None) if op.needs_training else None
        arrays, attrs = op.bind(args, kwargs)
        outputs = call(op, arrays, attrs, device, bool(training))
        visible = op.visible(attrs)
        return outputs[0] if visible == 1 else list(outputs[:visible])

    return apply


def raw_face(device: Device) -> Any:
    """Raw F: every operator as a function of raw arrays; what gradient rules run with."""
    return _face(device, observing.observer is not None)


class _RawFace:
    """Raw F of one device; a function is made when a rule first asks for it."""

    def __init__(self, device: Device, observed: bool) -> None:
        self._device, self._observed = device, observed
        self._apply = _raw_call(device)
        self._short = native.enabled and device.type == "cpu" and not observed

    def __getattr__(self, name: str) -> Any:
        op = registry.get(name)
        if op is None:
            raise AttributeError(f"there is no operator '{name}'")
        made = function(op, self._apply, name)
        if self._short:
            made = native.core.raw_functions({name: made}).get(name, made)
        self.__dict__[name] = made
        return made

    def _invoke(self, op: Operator, *inputs: Any, **attrs: Any) -> Any:
        if op.direct is None or self._observed:
            return self._apply(op, inputs, attrs)
        outputs = op.direct(inputs, self._device)
        visible = op.visible(attrs)
        return outputs[0] if visible == 1 else list(outputs[:visible])


_face = cache(_RawFace)
