"""What must hold for every operator: one test a property, over all samples of all operators."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sample import draw
from samples import ALL, EXEMPT, SAMPLES

import minigluon as mx
from minigluon import autograd, nd, sym
from minigluon.device import device_of
from minigluon.dispatch import call, raw_face
from minigluon.nn import HybridBlock
from minigluon.ops import Operator, registry

Arrays = list[np.ndarray]

_DEVICE = device_of(mx.cpu())


def _each(keep: Any = lambda op, sample: True) -> Any:
    """Parametrise over the samples for which `keep` holds."""
    chosen = [(name, sample) for _, name, sample in ALL if keep(registry[name], sample)]
    ids = [label for label, name, sample in ALL if keep(registry[name], sample)]
    return pytest.mark.parametrize(("name", "sample"), chosen, ids=ids)


def _run(op: Operator, arrays: Arrays, attrs: dict[str, Any]) -> Arrays:
    """The operator on raw arrays (which it may change), in training; all its outputs."""
    return list(call(op, arrays, op.parse(attrs), _DEVICE, training=True))


def _copies(arrays: Arrays) -> Arrays:
    return [array.copy() for array in arrays]


def _nd(arrays: Arrays) -> list[Any]:
    return [nd.array(array, dtype=array.dtype) for array in arrays]


def _list(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _function(space: Any, name: str) -> Any:
    return getattr(space, name)


def _same(first: Arrays, second: Arrays, tolerance: float) -> None:
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# -- every operator is here ---------------------------------------------------------------------


def test_every_operator_has_samples() -> None:
    names = {op.name for op in registry.values()}
    assert names - set(SAMPLES) - set(EXEMPT) == set()
    assert set(SAMPLES) & set(EXEMPT) == set()
    assert set(EXEMPT) - names == set()


def test_every_public_operator_says_what_it_does() -> None:
    public = [op for op in set(registry.values()) if not op.name.startswith("_")]
    assert [op.name for op in public if "Shapes:" not in op.doc or ">>>" not in op.doc] == []


# -- shapes and element types -------------------------------------------------------------------


@_each()
def test_inferred_is_real(name: str, sample: Any) -> None:
    op, arrays = registry[name], sample.arrays()
    attrs = op.parse(sample.attrs)
    outputs = _run(op, _copies(arrays), sample.attrs)
    assert len(outputs) == op.num_outputs(attrs)
    assert op.infer is not None
    shapes, inferred = op.infer([array.shape for array in arrays], attrs)
    assert [tuple(shape) for shape in shapes] == [array.shape for array in arrays]
    assert [tuple(shape) for shape in inferred] == [output.shape for output in outputs]
    real = [output.dtype.name for output in outputs]
    if op.infer_dtype is None:
        assert set(real) <= {array.dtype.name for array in arrays}
    else:
        dtypes, found = op.infer_dtype([array.dtype.name for array in arrays], attrs)
        assert list(dtypes) == [array.dtype.name for array in arrays]
        assert list(found) == real


# Inputs that may have several shapes, of which inference picks one when nothing is said.
_CHOSEN = {("LeakyReLU", 1), ("SoftmaxOutput", 1), ("pick", 1), ("LinearRegressionOutput", 1),
           ("MAERegressionOutput", 1), ("LogisticRegressionOutput", 1)}


@_each(lambda op, sample: sample.inputs)
def test_partly_known_shapes_never_contradict(name: str, sample: Any) -> None:
    op, arrays = registry[name], sample.arrays()
    attrs = op.parse(sample.attrs)
    shapes = [array.shape for array in arrays]
    outputs = [output.shape for output in _run(op, _copies(arrays), sample.attrs)]
    partly: list[list[Any]] = [[None] * len(shapes), [(0,) * len(shape) for shape in shapes],
                               [shapes[0]] + [None] * (len(shapes) - 1)]
    for known in partly:
        assert op.infer is not None
        filled, inferred = op.infer(known, attrs)
        for place, (guess, shape) in enumerate(zip([*filled, *inferred], [*shapes, *outputs],
                                                   strict=True)):
            chosen = place < len(known) and known[place] is None and (name, place) in _CHOSEN
            if guess is not None and not chosen:
                assert len(guess) == len(shape)
                assert all(a in (0, b) for a, b in zip(guess, shape, strict=True)), (guess, shape)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@_each(lambda op, sample: sample.dtype == "float32"
       and any(not isinstance(item, np.ndarray) or item.dtype.kind == "f"
               for item in sample.inputs))
def test_element_types_are_kept(name: str, sample: Any, dtype: str) -> None:
    op, arrays = registry[name], sample.arrays(dtype)
    attrs = op.parse(sample.attrs)
    with np.errstate(over="ignore"):
        outputs = _run(op, arrays, sample.attrs)
    expected = [dtype] * len(outputs)
    if op.infer_dtype is not None:
        _, expected = op.infer_dtype([array.dtype.name for array in arrays], attrs)
    assert [output.dtype.name for output in outputs] == list(expected)
    if not sample.grad or op.gradient is None:
        return
    if op.needs_training:
        attrs = {**attrs, "training": True}
    heads: Any = [np.ones_like(output) for output in outputs]
    visible = op.visible(op.parse(sample.attrs))
    heads = [head if place < visible else None for place, head in enumerate(heads)]
    with np.errstate(over="ignore"):
        grads = op.gradient(raw_face(_DEVICE), heads[0] if op.single else heads,
                            outputs[0] if op.single else outputs, *arrays, **attrs)
    assert len(grads) == len(arrays)
    for place in sample.checked():
        if grads[place] is not None:
            assert grads[place].shape == arrays[place].shape
            assert grads[place].dtype == arrays[place].dtype


# -- values -------------------------------------------------------------------------------------


@_each(lambda op, sample: sample.reference is not None)
def test_equals_reference(name: str, sample: Any) -> None:
    op, arrays = registry[name], sample.arrays()
    outputs = _run(op, _copies(arrays), sample.attrs)[:op.visible(op.parse(sample.attrs))]
    expected = [np.asarray(value) for value in _list(sample.reference(*arrays))]
    assert len(outputs) == len(expected)
    for output, value in zip(outputs, expected, strict=True):
        assert output.shape == value.shape
        np.testing.assert_allclose(output, value, rtol=sample.tolerance, atol=sample.tolerance)


# Helpers of gradient rules, which hand an input on where there is nothing to do.
_PASSING_ON = ("_sum_like", "_cast_like")


@_each()
def test_inputs_stay_unless_they_are_states(name: str, sample: Any) -> None:
    op, arrays = registry[name], sample.arrays()
    given = _copies(arrays)
    outputs = _run(op, given, sample.attrs)
    for place, (before, after) in enumerate(zip(arrays, given, strict=True)):
        if op.input_names[0 if op.variadic else place] not in op.mutates:
            np.testing.assert_array_equal(before, after)
            assert name in _PASSING_ON or not any(
                np.shares_memory(after, output) for output in outputs)


def _on_nd(name: str, sample: Any) -> tuple[Arrays, Arrays]:
    arrays = _nd(sample.arrays())
    mx.random.seed(3)
    with autograd.train_mode():
        outputs = _list(_function(nd, name)(*arrays, **sample.attrs))
    return [out.asnumpy() for out in outputs], [array.asnumpy() for array in arrays]


@_each()
def test_symbol_equals_nd(name: str, sample: Any) -> None:
    expected, changed = _on_nd(name, sample)
    variables = [sym.Variable(f"x{place}") for place in range(len(sample.inputs))]
    symbol = _function(sym, name)(*variables, **sample.attrs)
    values = {f"x{place}": array for place, array in enumerate(_nd(sample.arrays()))}
    states = {key: values.pop(key) for key in symbol.list_auxiliary_states()}
    executor = symbol.bind(mx.cpu(), values, grad_req="null", aux_states=states)
    mx.random.seed(3)
    outputs = executor.forward(is_train=True)
    _same([out.asnumpy() for out in outputs], expected, 1e-6)
    for key, value in states.items():
        np.testing.assert_allclose(value.asnumpy(), changed[int(key[1:])], rtol=1e-6)


class _Calls(HybridBlock):
    def __init__(self, operator_name: str, attrs: dict[str, Any]) -> None:
        super().__init__()
        self._operator_name, self._attrs = operator_name, attrs

    def hybrid_forward(self, F: Any, *inputs: Any) -> Any:
        return _function(F, self._operator_name)(*inputs, **self._attrs)


@_each(lambda op, sample: sample.inputs and not op.mutates)
def test_hybridized_equals_nd(name: str, sample: Any) -> None:
    expected, _ = _on_nd(name, sample)
    block = _Calls(name, sample.attrs)
    block.hybridize()
    mx.random.seed(3)
    with autograd.train_mode():
        outputs = _list(block(*_nd(sample.arrays())))
    _same([out.asnumpy() for out in outputs], expected, 1e-6)


@_each()
def test_json_round_trip(name: str, sample: Any) -> None:
    variables = [sym.Variable(f"x{place}") for place in range(len(sample.inputs))]
    symbol = _function(sym, name)(*variables, **sample.attrs)
    text = symbol.tojson(remove_amp_cast=False)
    loaded = sym.load_json(text)
    assert loaded.tojson(remove_amp_cast=False) == text
    assert loaded.list_outputs() == symbol.list_outputs()
    (before, _), (after, _) = symbol.entries[0], loaded.entries[0]
    assert after.op is before.op
    # files say how many inputs a variadic operator has, as MXNet's do
    assert {**before.attrs, "num_args": 0} == {**after.attrs, "num_args": 0}


# -- gradients ----------------------------------------------------------------------------------


class _Direction:
    """<u, op(x)> as a function of the inputs moved along one random direction, in float64."""

    def __init__(self, name: str, sample: Any) -> None:
        self.sample, self.function = sample, _function(nd, name)
        self.arrays = sample.arrays("float64")
        self.places = sample.checked()
        self.random = np.random.default_rng(7)
        self.v, self.w = self.direction(), self.direction()
        outputs = self.forward(_nd(self.arrays))
        self.heads = [nd.array(self.random.uniform(0.5, 1.5, out.shape), dtype=out.dtype)
                      for out in outputs]

    def direction(self) -> dict[int, np.ndarray]:
        return {place: self.random.uniform(-1, 1, self.arrays[place].shape)
                for place in self.places}

    def moved(self, step: float, along: dict[int, np.ndarray]) -> list[Any]:
        return _nd([array + step * along[place] if place in along else array
                    for place, array in enumerate(self.arrays)])

    def forward(self, inputs: list[Any]) -> list[Any]:
        with autograd.record():
            return [out for out in _list(self.function(*inputs, **self.sample.attrs))
                    if np.dtype(out.dtype).kind == "f"]

    def value(self, inputs: list[Any]) -> float:
        return sum(float((out.asnumpy() * head.asnumpy()).sum())
                   for out, head in zip(self.forward(inputs), self.heads, strict=True))

    def attached(self, inputs: list[Any]) -> list[Any]:
        for place in self.places:
            inputs[place].attach_grad()
        return [inputs[place] for place in self.places]

    def slope(self, inputs: list[Any], create_graph: bool = False) -> Any:
        """<v, vjp(u)>: the derivative along v, by backward."""
        wanted = self.attached(inputs)
        outputs = self.forward(inputs)
        grads = autograd.grad(outputs, wanted, self.heads, create_graph=create_graph)
        with autograd.record():
            parts = [nd.sum(grad * nd.array(self.v[place], dtype="float64"))
                     for place, grad in zip(self.places, grads, strict=True)]
            return nd.add_n(*parts)


def _close(analytic: float, numeric: float, scale: float, tolerance: float) -> None:
    assert abs(analytic - numeric) <= tolerance * max(1.0, scale), (analytic, numeric)


def _differentiable(op: Operator, sample: Any) -> bool:
    return op.gradient is not None and not sample.random and bool(sample.checked())


@_each(_differentiable)
def test_gradient(name: str, sample: Any) -> None:
    along, eps = _Direction(name, sample), 1e-6
    numeric = (along.value(along.moved(eps, along.v))
               - along.value(along.moved(-eps, along.v))) / (2 * eps)
    analytic = float(along.slope(along.moved(0, along.v)).asscalar())
    _close(analytic, numeric, abs(numeric), 1e-6)


@_each(lambda op, sample: sample.second_order and _differentiable(op, sample))
def test_second_order_gradient(name: str, sample: Any) -> None:
    along, eps = _Direction(name, sample), 1e-6
    upper, lower = (float(along.slope(along.moved(step, along.w)).asscalar())
                    for step in (eps, -eps))
    numeric = (upper - lower) / (2 * eps)
    inputs = along.moved(0, along.w)
    slope = along.slope(inputs, create_graph=True)
    analytic = 0.0
    if slope._ag is not None:  # of a linear function the slope is a constant: nothing was recorded
        slope.backward()
        analytic = sum(float((inputs[place].grad.asnumpy() * along.w[place]).sum())
                       for place in along.places)
    _close(analytic, numeric, abs(numeric), 1e-6)


@_each(_differentiable)
def test_gradient_requests(name: str, sample: Any) -> None:
    """'add' sums over two backwards; 'null' leaves the gradient alone."""

    def gradients(grad_req: str, times: int) -> Arrays:
        arrays = _nd(sample.arrays())
        for place in sample.checked():
            arrays[place].attach_grad(grad_req=grad_req)
        factor = nd.ones((1,))
        factor.attach_grad()
        for _ in range(times):
            with autograd.record():
                outputs = [nd.broadcast_mul(out, factor.astype(out.dtype))
                           for out in _list(_function(nd, name)(*arrays, **sample.attrs))
                           if np.dtype(out.dtype).kind == "f"]
            autograd.backward(outputs)
        if grad_req == "null":
            grads = [arrays[place].grad for place in sample.checked()]
            return [grad.asnumpy() for grad in grads if grad is not None]
        return [arrays[place].grad.asnumpy() for place in sample.checked()]

    once = gradients("write", 1)
    _same(gradients("write", 2), once, 1e-6)
    _same(gradients("add", 2), [2 * grad for grad in once], 1e-5)
    assert not any(grad.any() for grad in gradients("null", 1))


@_each(lambda op, sample: op.gradient is None and bool(sample.inputs) and not op.mutates)
def test_no_gradient_is_said(name: str, sample: Any) -> None:
    arrays = _nd(sample.arrays())
    floats = [array for array in arrays if np.dtype(array.dtype).kind == "f"]
    for array in floats:
        array.attach_grad()
    if not floats:
        return
    with autograd.record():
        outputs = _list(_function(nd, name)(*arrays, **sample.attrs))
    with pytest.raises(mx.MXNetError, match="not differentiable"):
        autograd.backward(outputs)


# -- errors --------------------------------------------------------------------------------------

_BAD = [(f"{label}-{number}", name, bad) for label, name, sample in ALL
        for number, bad in enumerate(sample.bad)]


@pytest.mark.parametrize(("name", "bad"), [(name, bad) for _, name, bad in _BAD],
                         ids=[label for label, _, _ in _BAD])
def test_bad_inputs_are_explained(name: str, bad: Any) -> None:
    inputs, attrs, kind, text = bad
    arrays = _nd(draw(inputs, "float32"))
    with pytest.raises(kind) as caught:
        found = _function(nd, name)(*arrays, **attrs)
        for out in found if isinstance(found, list) else [found]:
            out.wait_to_read()  # what only running can tell is told to who reads
    assert type(caught.value) is kind
    assert text in str(caught.value)
    assert name.startswith("_") or str(caught.value).startswith(name)
