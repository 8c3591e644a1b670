"""Recording and differentiating: record, pause, backward, grad, Function.

>>> import minigluon as mx
>>> x = mx.nd.array([1.0, 2.0, 3.0])
>>> x.attach_grad()
>>> with mx.autograd.record():
...     y = (x * x).sum()
>>> y.backward()
>>> x.grad.asnumpy().tolist()
[2.0, 4.0, 6.0]
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import ndarray as nd
from . import tape
from .base import ArgumentError, ArgumentValueError, GradientError, ShapeError
from .device import device_of
from .graph import Entry, Node, inlined
from .ndarray import NDArray, wrap
from .ndarray.backward import as_it_is, heads_of, raw_face_of, run_backward
from .ops import Operator
from .ops.storage import Stored
from .symbol import Symbol

__all__ = [
    "Function", "backward", "get_symbol", "grad", "is_recording", "is_training",
    "mark_variables", "pause", "predict_mode", "record", "set_recording", "set_training",
    "train_mode",
]


def is_recording() -> bool:
    """Whether calls in this thread are remembered for backward."""
    return tape.state.recording


def is_training() -> bool:
    """Whether this thread runs for training (Dropout active, BatchNorm on batch statistics)."""
    return tape.state.training


def set_recording(is_recording: bool) -> bool:
    """Switch recording; returns what it was."""
    before, tape.state.recording = tape.state.recording, bool(is_recording)
    return before


def set_training(train_mode: bool) -> bool:
    """Switch training mode; returns what it was."""
    before, tape.state.training = tape.state.training, bool(train_mode)
    return before


class _Scope:
    """A ``with`` block that sets the flags that are not None, and puts them back."""

    def __init__(self, recording: bool | None, training: bool | None) -> None:
        self._wanted = (recording, training)
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        flags = tape.state
        self._before.append((flags.recording, flags.training))
        recording, training = self._wanted
        if recording is not None:
            flags.recording = recording
        if training is not None:
            flags.training = training

    def __exit__(self, *_: object) -> None:
        tape.state.recording, tape.state.training = self._before.pop()


def record(train_mode: bool = True) -> _Scope:
    """``with record():`` remember the calls inside; train_mode also switches training on."""
    return _Scope(True, train_mode)


def pause(train_mode: bool = False) -> _Scope:
    """``with pause():`` do not remember the calls inside a record() block."""
    return _Scope(False, train_mode)


def train_mode() -> _Scope:
    """``with train_mode():`` behave as in training, whether recording or not."""
    return _Scope(None, True)


def predict_mode() -> _Scope:
    """``with predict_mode():`` behave as in inference, whether recording or not."""
    return _Scope(None, False)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _check_arrays(what: str, values: Sequence[Any]) -> list[Any]:
    """`values` itself, if they are all NDArrays."""
    for value in values:
        if not isinstance(value, NDArray):
            raise ArgumentError(f"{what}: expected an NDArray or a list of them, got {value!r}")
    return list(values)


def _given_grads(what: str, head_grads: Any) -> list[Any] | None:
    """Head gradients as a list; each an NDArray or None."""
    if head_grads is None:
        return None
    given = _as_list(head_grads)
    _check_arrays(f"{what}: head_grads", [grad for grad in given if grad is not None])
    return given


def mark_variables(
    variables: NDArray | Sequence[NDArray],
    gradients: NDArray | Sequence[NDArray],
    grad_reqs: str | Sequence[str] = "write",
) -> None:
    """Make `variables` the ones backward differentiates for, with given gradient arrays.

    Args:
        variables: arrays. gradients: one array each, of the same shape, to be written.
        grad_reqs: 'write', 'add' or 'null', for all or one each.
    """
    arrays, grads = _as_list(variables), _as_list(gradients)
    reqs = [grad_reqs] * len(arrays) if isinstance(grad_reqs, str) else list(grad_reqs)
    if not len(arrays) == len(grads) == len(reqs):
        raise ArgumentValueError(
            f"mark_variables: {len(arrays)} variables, {len(grads)} gradients, "
            f"{len(reqs)} grad_reqs; expected as many of each"
        )
    for x, g, req in zip(arrays, grads, reqs, strict=True):
        if req not in ("write", "add", "null"):
            raise ArgumentValueError(f"mark_variables: unknown grad_req {req!r}")
        _check_arrays("mark_variables", [x, g])
        if x.shape != g.shape:
            raise ShapeError(f"mark_variables: a variable of shape {x.shape} cannot have a "
                             f"gradient of shape {g.shape}")
        x._ag = tape.Leaf(None, g, req)


def backward(
    heads: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool = False,
    train_mode: bool = True,
) -> None:
    """Compute the gradients of all variables `heads` were computed from.

    Args:
        heads: result arrays. head_grads: their gradients; None means ones.
        retain_graph: keep what was recorded for another backward.
        train_mode: run the backward as for training.

    Raises:
        MXNetError: a head that was not recorded, or a graph already used by a backward.
    """
    given = _given_grads("backward", head_grads)
    run_backward(_check_arrays("backward", _as_list(heads)), given, retain_graph)


def grad(
    heads: NDArray | Sequence[NDArray],
    variables: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> list[NDArray]:
    """The gradients of `heads` with respect to `variables`, returned, not written to ``.grad``.

    Args:
        create_graph: record the computation of the gradients too, so that they can be
            differentiated again. retain_graph: default the same as create_graph.

    Returns:
        A list with the gradient of each variable, for a single variable, too.

    >>> import minigluon as mx
    >>> x = mx.nd.array([2.0])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = x * x * x
    ...     dy = mx.autograd.grad(y, x, create_graph=True)[0]
    >>> dy.backward()
    >>> dy.asscalar().item(), x.grad.asscalar().item()
    (12.0, 12.0)
    """
    wanted = _check_arrays("grad: variables", _as_list(variables))
    for x in wanted:
        if x._ag is None:
            raise GradientError("grad: a variable was neither attached (attach_grad) nor computed "
                                "inside record()")
    given = _given_grads("grad", head_grads)
    sources, grads = heads_of(_check_arrays("grad", _as_list(heads)), given)
    ids = {id(x._ag) for x in wanted}
    retain = create_graph if retain_graph is None else retain_graph
    if create_graph:
        scope = _Scope(True, train_mode)
        values: list[Any] = list(grads)
        wrap, face = _wrap, _nd_face
    else:
        scope = _Scope(False, train_mode)
        values = [g._sync() for g in grads]
        wrap, face = as_it_is, raw_face_of
    with scope:
        found = tape.walk(sources, values, face, wrap, retain, ids)
    return [_gradient_of(x, found, create_graph) for x in wanted]


def _gradient_of(x: NDArray, found: dict[int, Any], wrapped: bool) -> NDArray:
    value = found.get(id(x._ag), (x, None))[1]
    if value is None:
        return nd.zeros_like(x.detach())  # type: ignore[attr-defined, no-any-return]
    if wrapped:
        return value  # type: ignore[no-any-return]
    if isinstance(value, Stored):
        return wrap(value.copy(), x._ctx)
    return type(x)(device_of(x._ctx).array(value, x._data.dtype), x._ctx)


def _nd_face(device: Any) -> Any:
    return nd


def _wrap(raw: Any, source: Any, device: Any) -> NDArray:
    """An NDArray around a remembered array, still tied to where it came from."""
    x = wrap(raw, device.ctx)
    x._ag = source
    return x


def get_symbol(x: NDArray) -> Symbol:
    """The recorded computation of `x` as a Symbol, for inspection.

    Arrays with attached gradients and other inputs become variables. A hybridized block is one
    call, unless it has no more than ``inline_limit`` calls.

    >>> import minigluon as mx
    >>> x = mx.nd.ones((2,))
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = x * x + 2 * x
    >>> get_symbol(y).list_arguments()
    ['var0']
    """
    if x._ag is None:
        raise GradientError("get_symbol: this array was not computed inside autograd.record()")
    known: dict[Any, list[Entry]] = {}
    variables = 0

    def entry_of(source: Any, raw: Any) -> Entry:
        nonlocal variables
        if isinstance(source, tape.Output):
            return known[id(source.entry)][source.index]
        key = id(raw) if source is None else id(source)
        if key not in known:
            known[key] = [Entry(Node(None, f"var{variables}"), 0)]
            variables += 1
        return known[key][0]

    for number, call in enumerate(tape.order([x._ag])):
        raws = call.inputs or [object() for _ in call.sources]
        inputs = [entry_of(source, raw)
                  for source, raw in zip(call.sources, raws, strict=True)]
        limit = getattr(call.op, "inline_limit", 0)
        node = Node(call.op, f"node_{number}", inputs, call.attrs)
        known[id(call)] = inlined(call.op, inputs, limit) or node.outputs(hidden=True)
    return Symbol([entry_of(x._ag, None)])


class Function:
    """A user's own forward and backward, as one recorded call.

    Subclass it with ``forward(self, *inputs)`` and ``backward(self, *output_grads)``, both on
    NDArrays; an instance is called once.

    >>> import minigluon as mx
    >>> class Double(mx.autograd.Function):
    ...     def forward(self, x):
    ...         return x * 2
    ...     def backward(self, dy):
    ...         return dy * 2
    >>> x = mx.nd.ones((2,)); x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = Double()(x)
    >>> y.backward(); x.grad.asnumpy().tolist()
    [2.0, 2.0]
    """

    def __init__(self) -> None:
        self._used = False
        self.saved_tensors: tuple[NDArray, ...] = ()

    def save_for_backward(self, *arrays: NDArray) -> None:
        """Keep arrays for backward as ``self.saved_tensors``."""
        self.saved_tensors = arrays

    def forward(self, *inputs: NDArray) -> Any:
        """Compute the output(s) from the inputs."""
        raise NotImplementedError(f"{type(self).__name__}.forward is not defined")

    def backward(self, *output_grads: NDArray) -> Any:
        """Compute the gradient of each input from the gradients of the outputs."""
        raise NotImplementedError(f"{type(self).__name__}.backward is not defined")

    def __call__(self, *inputs: NDArray) -> Any:
        if self._used:
            raise ArgumentError(f"{type(self).__name__}: an instance can be called only once; "
                                "make a new one for each call")
        self._used = True
        with pause(train_mode=is_training()):
            result = self.forward(*inputs)
        outputs = _as_list(result)
        if is_recording() and any(tape.alive(x._ag) is not None for x in inputs):
            ctx = inputs[0]._ctx
            outputs = [y.detach() for y in _check_arrays(f"{type(self).__name__}.forward", outputs)]
            entry = tape.append(
                self._operator(len(outputs), ctx), {}, device_of(ctx),
                tuple(tape.alive(x._ag) for x in inputs), tuple(x._sync() for x in inputs),
                tuple(y._sync() for y in outputs))
            for i, y in enumerate(outputs):
                y._ag = tape.Output(entry, i)
        return outputs if isinstance(result, (list, tuple)) else outputs[0]

    def _operator(self, count: int, ctx: Any) -> Operator:
        """A record for this one call, whose gradient rule is the user's backward."""

        def gradient(F: Any, dy: Any, out: Any, *inputs: Any, **attrs: Any) -> list[Any]:
            raw = F is not nd
            given = [dy] if count == 1 else [
                g if g is not None else F.zeros_like(o) for g, o in zip(dy, out, strict=True)]
            wrapped = [wrap(g, ctx) if raw else g for g in given]
            with _Scope(not raw, is_training()):
                grads = _as_list(self.backward(*wrapped))
            _check_arrays(f"{type(self).__name__}.backward", [g for g in grads if g is not None])
            if len(grads) != len(inputs):
                raise ArgumentError(
                    f"{type(self).__name__}.backward: expected {len(inputs)} gradients, "
                    f"one for each input, got {len(grads)}")
            return [g._sync() if raw and g is not None else g for g in grads]

        def body(xp: Any, *inputs: Any) -> Any:
            raise GradientError(f"{type(self).__name__} cannot be run again")

        return Operator(type(self).__name__, body, gradient=gradient, num_outputs=count)

