"""NameManager, Prefix and AttrScope: context managers, one a thread."""
from __future__ import annotations

import threading

import pytest

from minigluon import symbol as sym
from minigluon.attribute import AttrScope
from minigluon.base import ArgumentValueError
from minigluon.name import NameManager, Prefix


def test_names_are_counted_for_each_kind():
    with NameManager():
        x = sym.var("x")
        named = [sym.Activation(x, act_type="relu"), sym.Activation(x, act_type="relu"), x + x,
                 x * 2, sym.FullyConnected(x, num_hidden=2)]
    assert [each.name for each in named] == [
        "activation0", "activation1", "_plus0", "_mulscalar0", "fullyconnected0"]


def test_scopes_nest_and_come_back():
    outer = NameManager.current
    with NameManager() as first:
        assert first.get(None, "a") == "a0"
        with NameManager() as second:
            assert NameManager.current is second
            assert second.get(None, "a") == "a0"
        assert first.get(None, "a") == "a1"
        with first:
            assert first.get(None, "a") == "a2"
        assert NameManager.current is first
    assert NameManager.current is outer


def test_prefix_also_goes_before_given_names_but_not_variables():
    with Prefix("net_"):
        x = sym.var("x")
        assert x.name == "x"
        assert sym.relu(x, name="k").name == "net_k"
        assert sym.FullyConnected(x, num_hidden=2).list_arguments() == [
            "x", "net_fullyconnected0_weight", "net_fullyconnected0_bias"]


def test_current_can_be_assigned():
    before = NameManager.current
    try:
        NameManager.current = Prefix("mine_")
        assert sym.relu(sym.var("x")).name == "mine_relu0"
    finally:
        NameManager.current = before


def test_each_thread_has_its_own():
    seen = []
    with Prefix("main_"), AttrScope(group="main"):
        thread = threading.Thread(target=lambda: seen.append(
            (NameManager.current.get(None, "a"), AttrScope.current.get(None))))
        thread.start()
        thread.join()
    assert seen == [("a0", {})]


def test_attributes_of_a_scope():
    with AttrScope(__group__="4", __data__="great"):
        x = sym.var("x", attr={"__dtype__": "1", "__group__": "1"})
        y = sym.FullyConnected(x, num_hidden=2, name="fc", attr={"__mood__": "so so"})
    assert x.attr("__group__") == "1"
    assert x.attr("__data__") == "great"
    assert y.attr("__group__") == "4"
    weight = y.get_internals()["fc_weight"]
    assert weight.attr("__group__") == "4"
    assert weight.attr("__mood__") == "so so"
    assert AttrScope.current.get(None) == {}


def test_inner_scopes_add_to_outer_ones_and_can_be_used_again():
    inner = AttrScope(b="2")
    with AttrScope(a="1", b="1"):
        with inner:
            assert AttrScope.current.get({"c": "3"}) == {"a": "1", "b": "2", "c": "3"}
        assert AttrScope.current.get(None) == {"a": "1", "b": "1"}
    with inner:
        assert AttrScope.current.get(None) == {"b": "2"}


def test_values_are_strings():
    with pytest.raises(ArgumentValueError, match="lr_mult: expected a string, got 2"):
        AttrScope(lr_mult=2)
