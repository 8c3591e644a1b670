"""Recurrent networks in one call: layers, directions, and the states through time.

How it computes: the part of a layer that sees its input is one matrix product over all steps; only
the part that sees the state runs step by step, in `recurrent.py`. What backward needs is laid out
in one flat array, the hidden output `reserve`, so that a kernel of a device may replace both bodies
and use that array as it likes.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from ...base import ArgumentValueError, DTypeError, ShapeError
from ..operator import Attrs, operator
from ..rules import DTypes, Shapes, known, merge_shapes, size_of
from .recurrent import BACKWARD, FORWARD, GATES, KEPT, previous

__all__ = ["GATES", "packed", "packed_size"]

Array = Any
Mode = Literal["rnn_relu", "rnn_tanh", "lstm", "gru"]


def packed(mode: str, inputs: int, hidden: int, layers: int = 1, bidirectional: bool = False,
           projection: int | None = None) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the matrices in the vector `parameters`, in order.

    All weights come first, layer by layer and direction by direction, then all biases.

    >>> packed("gru", 3, 2)
    [('l0_i2h_weight', (6, 3)), ('l0_h2h_weight', (6, 2)), ('l0_i2h_bias', (6,)), \
('l0_h2h_bias', (6,))]
    """
    rows, width = GATES[mode] * hidden, projection or hidden
    sides = "lr" if bidirectional else "l"
    weights: list[tuple[str, tuple[int, ...]]] = []
    biases: list[tuple[str, tuple[int, ...]]] = []
    for layer in range(layers):
        columns = inputs if layer == 0 else width * len(sides)
        for side in sides:
            name = f"{side}{layer}_"
            weights += [(name + "i2h_weight", (rows, columns)),
                        (name + "h2h_weight", (rows, width))]
            if projection:
                weights.append((name + "h2r_weight", (projection, hidden)))
            biases += [(name + "i2h_bias", (rows,)), (name + "h2h_bias", (rows,))]
    return weights + biases


def packed_size(*args: Any, **kwargs: Any) -> int:
    """The length of the vector `parameters`; arguments as for `packed`.

    >>> packed_size("lstm", 3, 2, layers=2, bidirectional=True)
    240
    """
    return sum(size_of(shape) for _, shape in packed(*args, **kwargs))


class _Net(NamedTuple):
    """The sizes of one call."""

    mode: str
    steps: int
    batch: int
    inputs: int
    hidden: int
    layers: int
    bidirectional: bool
    projection: int | None
    p: float

    @property
    def sides(self) -> str:
        return "lr" if self.bidirectional else "l"

    @property
    def width(self) -> int:
        """Size of the state that is handed on and put out, in one direction."""
        return self.projection or self.hidden

    def parameters(self, flat: Array) -> dict[str, Array]:
        """The matrices as views of the vector."""
        return _views(flat, packed(self.mode, self.inputs, self.hidden, self.layers,
                                   self.bidirectional, self.projection))

    def reserved(self) -> list[tuple[str, tuple[int, ...]]]:
        """What is kept for backward: gates and cells, and between layers their output and mask."""
        time = (self.steps, self.batch)
        kept: list[tuple[str, tuple[int, ...]]] = []
        for layer in range(self.layers):
            for side in self.sides:
                kept += [(f"{side}{layer}_{word}", (*time, count * self.hidden))
                         for word, count in KEPT[self.mode].items()]
            if layer < self.layers - 1:
                shape = (*time, self.width * len(self.sides))
                kept.append((f"out{layer}", shape))
                if self.p > 0:
                    kept.append((f"mask{layer}", shape))
        return kept

    @property
    def reserve_size(self) -> int:
        """Length of the array with all that is kept; never 0, which would mean "unknown"."""
        return max(1, sum(size_of(shape) for _, shape in self.reserved()))

    def order(self, side: str) -> range:
        """The steps in the order in which this direction takes them."""
        return range(self.steps) if side == "l" else range(self.steps - 1, -1, -1)

    def directions(self, layer: int) -> Iterator[tuple[int, str, slice]]:
        """(place of its state, side, its part of the layer's output) for each direction."""
        for number, side in enumerate(self.sides):
            yield (layer * len(self.sides) + number, side,
                   slice(number * self.width, (number + 1) * self.width))


def _views(flat: Array, parts: list[tuple[str, tuple[int, ...]]]) -> dict[str, Array]:
    found, start = {}, 0
    for name, shape in parts:
        end = start + size_of(shape)
        found[name] = flat[start:end].reshape(shape)
        start = end
    return found


def _net(data: tuple[int, ...], attrs: Attrs) -> _Net:
    steps, batch, inputs = data
    return _Net(attrs["mode"], steps, batch, inputs, attrs["state_size"], attrs["num_layers"],
                attrs["bidirectional"], attrs["projection_size"], attrs["p"])


# -- rules -----------------------------------------------------------------------------------------

def _names(attrs: Attrs) -> list[str]:
    names = ["data", "parameters", "state"]
    if attrs["mode"] == "lstm":
        names.append("state_cell")
    return names + ["sequence_length"] * attrs["use_sequence_length"]


def _check(attrs: Attrs) -> None:
    for word in ("state_size", "num_layers"):
        if attrs[word] < 1:
            raise ArgumentValueError(f"{word}: expected a number from 1 up, got {attrs[word]}")
    if not 0 <= attrs["p"] <= 1:
        raise ArgumentValueError(f"p: expected a probability from 0 to 1, got {attrs['p']}")
    if attrs["projection_size"] and attrs["mode"] != "lstm":
        raise ArgumentValueError("projection_size: only mode='lstm' has projections, "
                                 f"got mode={attrs['mode']!r}")
    if (attrs["lstm_state_clip_min"] is None) != (attrs["lstm_state_clip_max"] is None):
        raise ArgumentValueError("lstm_state_clip_min and lstm_state_clip_max: expected both or "
                                 "neither")


def _shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    _check(attrs)
    data, vector, *states = shapes
    if data is not None and len(data) != 3:
        raise ShapeError(f"expected data (time, batch, size), got shape {data}")
    steps, batch, inputs = data = data or (0, 0, 0)
    lstm = attrs["mode"] == "lstm"
    places = attrs["num_layers"] * (2 if attrs["bidirectional"] else 1)
    width = attrs["projection_size"] or attrs["state_size"]
    names = _names(attrs)[2:]
    wanted = [(places, batch, width), (places, batch, attrs["state_size"])][:1 + lstm]
    for place, (name, given) in enumerate(zip(names, states, strict=False)):
        shape = (batch,) if name == "sequence_length" else wanted[place]
        try:
            states[place] = merge_shapes(shape, given)
        except ShapeError:
            raise ShapeError(f"{name}: expected shape {shape} for data {data}, got {given}"
                             ) from None
    found = next((shape[-1 if len(shape) == 1 else 1] for shape in states if shape), 0)
    batch = batch or found
    states = [None if s is None else (batch,) if len(s) == 1 else (s[0], batch, s[2])
              for s in states]
    if inputs:
        size = packed_size(attrs["mode"], inputs, attrs["state_size"], attrs["num_layers"],
                           attrs["bidirectional"], attrs["projection_size"])
        try:
            vector = merge_shapes((size,), vector)
        except ShapeError:
            raise ShapeError(f"parameters: expected shape ({size},) for data {data} and these "
                             f"attributes, got {vector}") from None
    data = (steps, batch, inputs)
    outs: Shapes = [(steps, batch, width * (2 if attrs["bidirectional"] else 1)),
                    *[(shape[0], batch, shape[2]) for shape in wanted], None]
    if known(data):
        outs[-1] = (_net(data, attrs).reserve_size,)
    return [data if shapes[0] is not None or batch else None, vector, *states], outs


def _working(dtype: str) -> str:
    """What a type is computed in: products of float16 are summed in float32."""
    return "float32" if dtype == "float16" else dtype


def _agreed(dtypes: DTypes, free: int) -> str | None:
    """The one type of all inputs but the last `free`."""
    found = {dtype for dtype in dtypes[:len(dtypes) - free] if dtype is not None}
    if len(found) > 1:
        raise DTypeError(f"RNN: expected data, parameters and states of one dtype, "
                         f"got {', '.join(sorted(found))}")
    return found.pop() if found else None


def _dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    free = int(attrs["use_sequence_length"])
    agreed = _agreed(dtypes, free)
    count = len(dtypes) - free
    outs = [agreed] * _count(attrs)
    outs[-1] = agreed and _working(agreed)
    return [agreed] * count + [dtype or agreed for dtype in dtypes[count:]], outs


def _count(attrs: Attrs) -> int:
    return 4 if attrs["mode"] == "lstm" else 3


def _visible(attrs: Attrs) -> int:
    return _count(attrs) - 1 if attrs["state_outputs"] else 1


def _gradient(F: Any, dy: Any, out: Any, data: Any, parameters: Any, state: Any, *rest: Any,
              training: bool, **attrs: Any) -> list[Any]:
    states = _count(attrs) - 1
    heads = [F.zeros_like(out[i]) if dy[i] is None else dy[i] for i in range(states)]
    cells = [heads[2], rest[0]] if states == 3 else []
    lengths = list(rest[states - 2:])
    grads = F._rnn_grad(heads[0], heads[1], data, parameters, state, out[0], out[states], *cells,
                        *lengths, **attrs)
    return [*grads, *[None] * len(lengths)]


# -- bodies ----------------------------------------------------------------------------------------

@operator("RNN", infer=_shape, infer_dtype=_dtype, inputs=_names, num_outputs=_count,
          visible=_visible, gradient=_gradient, aliases=("rnn",),
          output_names=("output", "state_output", "statecell_output", "reserve"),
          small_steps=True)
def rnn(
    xp: Any, data: Array, parameters: Array, state: Array, state_cell: Array | None = None,
    sequence_length: Array | None = None, *, state_size: int, num_layers: int,
    bidirectional: bool = False, mode: Mode, p: float = 0.0, state_outputs: bool = False,
    projection_size: int | None = None, lstm_state_clip_min: float | None = None,
    lstm_state_clip_max: float | None = None, lstm_state_clip_nan: bool = False,
    use_sequence_length: bool = False, rng: Any, training: bool,
) -> Any:
    """Layers of a recurrent network over whole sequences.

    Args:
        state_size: size H of a state. num_layers: layers L, one above the other.
        bidirectional: each layer also runs backwards in time (D = 2 directions, else 1).
        mode: 'rnn_relu', 'rnn_tanh', 'lstm' or 'gru'.
        p: chance of Dropout of what one layer hands to the next, while training.
        state_outputs: also return the last states.
        projection_size: lstm only: h is projected to this size P before it is handed on.
        lstm_state_clip_min, lstm_state_clip_max: bounds of the cell state.
        lstm_state_clip_nan: with bounds, nan becomes the lower one.
        use_sequence_length: steps from `sequence_length` on are padding: output 0, states stay.

    Shapes:
        data (T, N, C), parameters as `ops.nn.rnn.packed` says, state (L D, N, H or P),
        state_cell (L D, N, H) for lstm only, sequence_length (N,)
        -> (T, N, D H or D P), and with `state_outputs` the states in their shapes.

    >>> import minigluon as mx
    >>> data, state = mx.nd.ones((4, 2, 3)), mx.nd.zeros((1, 2, 5))
    >>> mx.nd.RNN(data, mx.nd.ones((50,)), state, state_size=5, num_layers=1,
    ...           mode="rnn_tanh").shape
    (4, 2, 5)
    """
    attrs = {"mode": mode, "state_size": state_size, "num_layers": num_layers, "p": p,
             "bidirectional": bidirectional, "projection_size": projection_size}
    _refuse(data, parameters, state, state_cell, {
        **attrs, "use_sequence_length": use_sequence_length,
        "lstm_state_clip_min": lstm_state_clip_min, "lstm_state_clip_max": lstm_state_clip_max})
    net, dtype = _net(data.shape, attrs), data.dtype
    if mode != "lstm":  # the optional inputs move up
        state_cell, sequence_length = None, state_cell
    clip = _clip(lstm_state_clip_min, lstm_state_clip_max, lstm_state_clip_nan)
    live = _live(xp, net, sequence_length if use_sequence_length else None)
    work = _working(dtype.name)
    reserve = xp.empty(net.reserve_size, work)
    reserve[-1] = 0  # where there is nothing to keep
    kept = _views(reserve, net.reserved())
    weights = net.parameters(parameters.astype(work, copy=False))
    x, state = data.astype(work, copy=False), state.astype(work, copy=False)
    last = xp.empty(state.shape, work)
    cells = None if state_cell is None else state_cell.astype(work, copy=False)
    last_cells = None if cells is None else xp.empty(cells.shape, work)
    for layer in range(num_layers):
        top = layer == num_layers - 1
        out = (xp.empty((net.steps, net.batch, net.width * len(net.sides)), work) if top
               else kept[f"out{layer}"])
        for place, side, part in net.directions(layer):
            h, c = FORWARD[mode](
                xp, x, _own(weights, side, layer), _own(kept, side, layer), state[place],
                None if cells is None else cells[place], out[:, :, part], net.order(side), live,
                clip)
            last[place] = h
            if last_cells is not None:
                last_cells[place] = c
        x = out if top or p == 0 else _dropped(xp, out, kept[f"mask{layer}"], p, training, rng)
    ends = [last] if last_cells is None else [last, last_cells]
    return (*[array.astype(dtype, copy=False) for array in (x, *ends)], reserve)


def _refuse(data: Array, parameters: Array, state: Array, cells: Array | None, attrs: Attrs
            ) -> None:
    """What NumPy would broadcast or fail on late."""
    given = [array for array in (data, parameters, state, cells) if array is not None]
    _shape([array.shape for array in given], attrs)
    _agreed([array.dtype.name for array in given], int(len(given) > 3 and attrs["mode"] != "lstm"))


def _clip(low: float | None, high: float | None, nan: bool) -> tuple[float, float, bool] | None:
    return None if low is None or high is None else (low, high, nan)


def _live(xp: Any, net: _Net, lengths: Array | None) -> Array | None:
    """(T, N, 1): whether a step is no padding."""
    if lengths is None:
        return None
    return (xp.arange(net.steps)[:, None] < lengths[None, :])[:, :, None]


def _own(named: dict[str, Array], side: str, layer: int) -> dict[str, Array]:
    """The arrays of one direction of one layer, without their prefix."""
    prefix = f"{side}{layer}_"
    return {name[len(prefix):]: array for name, array in named.items() if name.startswith(prefix)}


def _dropped(xp: Any, out: Array, mask: Array, p: float, training: bool, rng: Any) -> Array:
    if not training:
        mask[...] = 1
        return out
    mask[...] = rng.random(out.shape, dtype=xp.float32) >= p
    mask *= 1 / (1 - p) if p < 1 else 0
    return out * mask


def _grad_names(attrs: Attrs) -> list[str]:
    names = ["dy", "dstate", "data", "parameters", "state", "out", "reserve"]
    if attrs["mode"] == "lstm":
        names += ["dcell", "state_cell"]
    return names + ["sequence_length"] * attrs["use_sequence_length"]


def _grad_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    cells = [shapes[8]] if attrs["mode"] == "lstm" else []
    return shapes, [*shapes[2:5], *cells]


def _grad_dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    return dtypes, [dtypes[2]] * _count(attrs)


@operator("_rnn_grad", infer=_grad_shape, infer_dtype=_grad_dtype, inputs=_grad_names,
          num_outputs=_count, small_steps=True)
def rnn_grad(
    xp: Any, dy: Array, dstate: Array, data: Array, parameters: Array, state: Array, out: Array,
    reserve: Array, dcell: Array | None = None, state_cell: Array | None = None,
    sequence_length: Array | None = None, *, state_size: int, num_layers: int,
    bidirectional: bool = False, mode: Mode, p: float = 0.0, state_outputs: bool = False,
    projection_size: int | None = None, lstm_state_clip_min: float | None = None,
    lstm_state_clip_max: float | None = None, lstm_state_clip_nan: bool = False,
    use_sequence_length: bool = False,
) -> Any:
    """Gradients of RNN for data, parameters and states."""
    net = _net(data.shape, {
        "mode": mode, "state_size": state_size, "num_layers": num_layers, "p": p,
        "bidirectional": bidirectional, "projection_size": projection_size})
    if mode != "lstm":
        dcell, state_cell, sequence_length = None, None, dcell
    clip = _clip(lstm_state_clip_min, lstm_state_clip_max, lstm_state_clip_nan)
    live = _live(xp, net, sequence_length if use_sequence_length else None)
    dtype, work = data.dtype, _working(data.dtype.name)
    dy, dstate, data, parameters, state, out = (
        array.astype(work, copy=False) for array in (dy, dstate, data, parameters, state, out))
    kept, weights = _views(reserve, net.reserved()), net.parameters(parameters)
    vector, first = xp.empty(parameters.shape, work), xp.empty(state.shape, work)
    grads = net.parameters(vector)
    first_cells = None if state_cell is None else xp.empty(state_cell.shape, work)
    for layer in reversed(range(num_layers)):
        y = out if layer == num_layers - 1 else kept[f"out{layer}"]
        x = data if layer == 0 else kept[f"out{layer - 1}"]
        if layer and p > 0:
            x = x * kept[f"mask{layer - 1}"]
        dx = None
        for place, side, part in net.directions(layer):
            own, h0 = _own(weights, side, layer), state[place]
            c0 = dc = None
            if state_cell is not None and dcell is not None:
                c0, dc = (array[place].astype(work, copy=False) for array in (state_cell, dcell))
            order, saved = net.order(side), _own(kept, side, layer)
            before = previous(xp, y[:, :, part], h0, side == "r", live)
            back = BACKWARD[mode](xp, dy[:, :, part], dstate[place], dc, own, saved, c0,
                                  y[:, :, part], before, order, live, clip)
            _products(xp, _own(grads, side, layer), back, x, before)
            part_dx = back.inner.reshape(-1, own["i2h_weight"].shape[0]) @ own["i2h_weight"]
            dx = part_dx if dx is None else dx + part_dx
            first[place] = back.dh
            if first_cells is not None:
                first_cells[place] = back.dc
        assert dx is not None
        dy = dx.reshape(x.shape)
        if layer and p > 0:
            dy = dy * kept[f"mask{layer - 1}"]
    found = [dy, vector, first] + ([] if first_cells is None else [first_cells])
    return tuple(array.astype(dtype, copy=False) for array in found)


def _products(xp: Any, grads: dict[str, Array], back: Any, x: Array, before: Array) -> None:
    """Gradients of weights and biases: one product over all steps each."""
    rows = grads["i2h_bias"].shape[0]
    inner, outer = back.inner.reshape(-1, rows), back.outer.reshape(-1, rows)
    grads["i2h_weight"][...] = inner.T @ x.reshape(-1, x.shape[-1])
    grads["h2h_weight"][...] = outer.T @ before.reshape(-1, before.shape[-1])
    grads["i2h_bias"][...] = inner.sum(axis=0)
    grads["h2h_bias"][...] = outer.sum(axis=0) if outer is not inner else grads["i2h_bias"]
    if "h2r_weight" in grads:
        grads["h2r_weight"][...] = back.projection


# -- the vector of parameters ----------------------------------------------------------------------

def _concat_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                  ) -> tuple[Shapes, Shapes]:
    if attrs["dim"] not in (0, -1):  # MXNet's default, 1, never works
        raise ArgumentValueError(f"dim: expected 0, got {attrs['dim']}")
    for shape in shapes:
        if shape is not None and len(shape) != 1:
            raise ShapeError(f"expected vectors, got shape {shape}")
    sizes = [shape[0] if shape else 0 for shape in shapes]
    total, unknown = outs[0] if outs else None, sizes.count(0)
    if not unknown:
        return shapes, [(sum(sizes),)]
    if total and total[0]:  # the input weights of the lowest layer, equal in both directions
        rest = total[0] - sum(sizes)
        if rest > 0 and rest % unknown == 0:
            sizes = [size or rest // unknown for size in sizes]
            return [(size,) for size in sizes], [total]
    return shapes, [total or (0,)]


@operator("_rnn_param_concat", infer=_concat_shape,
          gradient=lambda F, dy, out, *data, **attrs: _split(F, dy, data))
def rnn_param_concat(xp: Any, *data: Array, dim: int = 1, num_args: int = 0) -> Array:
    """Vectors one after the other: the `parameters` of RNN. `dim` must be 0."""
    _concat_shape([array.shape for array in data], {"dim": dim})
    return xp.concatenate(data)


def _split(F: Any, dy: Any, data: Any) -> list[Any]:
    if len(data) == 1:
        return [dy]
    return list(F._split_like(dy, *data, dim=0, count=len(data)))
