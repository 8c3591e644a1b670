"""An operator is declared once: one record, and every face's function is made from it."""
from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd, sym
from minigluon.nn import HybridBlock
from minigluon.ops import Operator, operator, registry

_ROOT = Path(mx.__file__).parent
# Names whose function in a face is written by hand, because it takes a `ctx` or blocks of code.
_BY_HAND = {"zeros", "ones", "full", "arange", "linspace", "eye"}
_RUN_GRAPHS = {f"_{name}{end}" for name in ("foreach", "while_loop", "cond")
               for end in ("", "_grad")}


def _declared() -> list[str]:
    """The names in all ``@operator("NAME")`` of the sources; those made in a loop are not told."""
    return [decorator.args[0].value
            for path in _ROOT.rglob("*.py")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef)
            for decorator in node.decorator_list
            if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name)
            and decorator.func.id == "operator" and isinstance(decorator.args[0], ast.Constant)]


def _operators() -> list[Operator]:
    return list({id(op): op for op in registry.values()}.values())


def test_no_name_is_declared_twice() -> None:
    counts = Counter(_declared())
    assert len(counts) > 250
    assert [name for name, count in counts.items() if count > 1] == []
    assert set(counts) <= {op.name for op in _operators()}


def test_a_name_is_one_record_and_a_record_has_one_body() -> None:
    names = [name for op in _operators() for name in (op.name, *op.aliases)]
    assert len(set(names)) == len(names)
    assert all(registry[name] is op for op in _operators() for name in (op.name, *op.aliases))
    bodies = Counter(id(op.body) for op in _operators())
    assert [op.name for op in _operators() if bodies[id(op.body)] > 1] == []


@pytest.mark.parametrize("face", [nd, sym], ids=["nd", "sym"])
def test_every_function_of_a_face_is_made_from_the_record(face: Any) -> None:
    other = {name for name, op in registry.items()
             if getattr(getattr(face, name, None), "operator", None) is not op}
    assert other <= _BY_HAND | _RUN_GRAPHS, other - _BY_HAND


@pytest.mark.parametrize("kind", [nd.NDArray, sym.Symbol], ids=["NDArray", "Symbol"])
def test_methods_are_the_records_too(kind: Any) -> None:
    made = {word: method.operator for word, method in vars(kind).items()
            if hasattr(method, "operator")}
    assert len(made) > 60
    assert all(registry[op.name] is op for op in made.values())


def test_a_taken_name_is_refused() -> None:
    with pytest.raises(ValueError, match="operator name 'relu' is taken by <operator relu>"):
        operator("relu")(lambda xp, data: data)
    with pytest.raises(ValueError, match="operator name 'Flatten' is taken"):
        operator("_declared_once", aliases=("Flatten",))(lambda xp, data: data)
    assert "_declared_once" not in registry


def test_one_record_serves_all_ways_to_call_it() -> None:
    class Net(HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            assert F.relu.operator is registry["relu"]
            return F.relu(x)

    net, x = Net(), nd.array([-1, 2])
    plain = net(x)
    net.hybridize()
    assert net(x).asnumpy().tolist() == plain.asnumpy().tolist() == [0, 2]
    executor = sym.relu(sym.var("x")).bind(mx.cpu(), {"x": x})
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), [0, 2])
