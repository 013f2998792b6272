"""Partition specs: their entries, texts, and what makes them equal."""

from __future__ import annotations

import copy
import operator
import pickle

import pytest

import xpr
from xpr import P
from xpr.sharding.spec import axes_of

U = P.UNCONSTRAINED


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (P(), "P()"),
        (P("x"), "P('x',)"),
        (P(None, "x"), "P(None, 'x')"),
        (P(("x", "y"), None), "P(('x', 'y'), None)"),
        (P(("x",)), "P('x',)"),
        (P(["x"]), "P('x',)"),
        (P(()), "P(None,)"),
        (P(U, "x"), "P(UNCONSTRAINED, 'x')"),
        (P("x", unreduced={"y"}), "P('x', unreduced={'y'})"),
        (P("x", "z", unreduced={"y"}), "P('x', 'z', unreduced={'y'})"),
        (P(unreduced={"y"}), "P(unreduced={'y'})"),
        (P("x", reduced={"y"}, unreduced={"z"}), "P('x', unreduced={'z'}, reduced={'y'})"),
    ],
)
def test_texts(spec: P, text: str) -> None:
    assert repr(spec) == str(spec) == text


def test_equal_specs_are_one_object() -> None:
    assert P(("x",), ()) is P("x", None)
    assert P("x") != P("x", None)
    assert P("x") != ("x",)
    assert P(unreduced={"x"}) is P(unreduced=frozenset("x"))
    assert P(unreduced={"x"}) != P(reduced={"x"})
    spec = P("x", (U, "y"), unreduced={"z"})
    assert pickle.loads(pickle.dumps(spec)) is copy.copy(spec) is copy.deepcopy(spec) is spec
    assert {P("x"): 1}[P("x")] == 1


def test_a_spec_is_a_sequence_of_its_entries() -> None:
    spec = P("x", None, ("y", "z"))
    assert (len(spec), spec[0], spec[2], spec[:2]) == (3, "x", ("y", "z"), ("x", None))
    assert list(spec) == ["x", None, ("y", "z")]
    assert spec.partitions == tuple(spec)
    assert (spec.index(["y", "z"]), spec.count(("x",))) == (2, 1)
    assert not isinstance(spec, tuple)
    assert not P()
    assert P("x") + P("y", unreduced={"z"}) is P("x", "y", unreduced={"z"})
    assert operator.add(P("x"), ("y",)) is operator.add(("x",), P("y")) is P("x", "y")
    assert spec.update(partitions=["x"]) is P("x")
    assert xpr.tree_util.tree_leaves({"a": spec}) == [spec]
    assert [axes_of(e) for e in P(U, None, "x", ("x", "y"))] == [(), (), ("x",), ("x", "y")]


def test_bad_specs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"partitions cannot overlap with unreduced.*\('x',\)"):
        P("x", unreduced={"x"})
    with pytest.raises(ValueError, match=r"partitions cannot overlap with reduced"):
        P(("x", "y"), reduced={"y"})
    with pytest.raises(ValueError, match="argument to PartitionSpec cannot overlap"):
        P(unreduced={"x"}, reduced={"x"})
    with pytest.raises(ValueError, match="unreduced cannot contain None"):
        P(unreduced={None})
    with pytest.raises(TypeError, match=r"should be of type `frozenset` or `set`. Got \['x'\]"):
        P(unreduced=["x"])
    with pytest.raises(ValueError, match="cannot contain a nested tuple"):
        P(("x", ("y",)))
    with pytest.raises(ValueError, match=r"pspec\[...\] is dangerous"):
        P("x", unreduced={"y"})[0]
    with pytest.raises(ValueError, match=r"\*pspec is dangerous"):
        list(P("x", unreduced={"y"}))
    with pytest.raises(NotImplementedError, match="joined with a tuple"):
        operator.add(P("x"), ["y"])
    with pytest.raises(TypeError, match=r"joined with P\('x', unreduced"):
        operator.add(P("x", unreduced={"y"}), ("z",))
    with pytest.raises(AttributeError, match="cannot assign"):
        P("x").partitions = ()
    with pytest.raises(AttributeError, match="cannot delete"):
        del P("x").partitions
    with pytest.raises(TypeError, match="cannot be subclassed"):
        type("Mine", (P,), {})
