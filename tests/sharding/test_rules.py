"""Sharding rules: each row of the operation table, evaluated in parts, gives the whole result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import xpr.primitives
from tests.harness import trace_cases
from tests.op_row import OpRow
from tests.op_runs import operands_of
from tests.op_table import WITHOUT_ROWS, rows_of
from tests.sharding.in_parts import Array, reference
from tests.sharding.rule_checks import check_equation
from xpr.core.config import override
from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var
from xpr.core.primitive import get_primitive, registry
from xpr.dispatch.compiled import interpret
from xpr.primitives import FAMILIES
from xpr.sharding import rules
from xpr.sharding.rule import (
    ShardedWhole,
    Structural,
    missing_rules,
    rule_of,
)

rules.load_all()


def test_every_primitive_has_a_rule() -> None:
    xpr.primitives.load_all()
    assert missing_rules(tuple(registry)) == []


def test_a_primitive_without_a_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry, "unheard_of", type(get_primitive("add"))("unheard_of", "test"))
    with pytest.raises(NotImplementedError, match=r"without a sharding rule: unheard_of\."):
        rules.load_all()


def equations(closed: ClosedJaxpr, args: Sequence[Array]) -> Iterator[tuple[JaxprEqn, list[Array]]]:
    """Each equation and its operands, those of called programs included."""
    env: dict[Var, Array] = {}
    env.update(zip(closed.jaxpr.constvars, map(np.asarray, closed.consts), strict=True))
    env.update(zip(closed.jaxpr.invars, args, strict=True))
    for eqn in closed.jaxpr.eqns:
        operands = [
            np.asarray(a.val, a.aval.dtype) if isinstance(a, Literal) else env[a]
            for a in eqn.invars
        ]
        inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
        if eqn.primitive.family in ("call", "custom") and isinstance(inner, ClosedJaxpr):
            yield from equations(inner, operands)
            found = _results(inner, operands)
        else:
            yield eqn, operands
            found = reference(eqn.primitive, operands, eqn.params)
        for v, x in zip(eqn.outvars, found, strict=True):
            env[v] = np.asarray(x, v.aval.dtype)


def _results(closed: ClosedJaxpr, args: Sequence[Array]) -> list[Array]:
    return interpret(closed, [np.asarray(c) for c in closed.consts], list(args))


_AT_MOST = 6
"""Ways to shard that are tried of an equation: there are some hundred equations."""


def _dtypes(row: OpRow) -> list[str]:
    """At most two: to the rules other types are like one of these."""
    preferred = [d for d in ("float32", "int32", "bool") if d in row.dtypes]
    return preferred[:2] or list(row.dtypes[:1])


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in WITHOUT_ROWS])
def test_parts_equal_the_whole(family: str) -> None:
    tried = 0
    with override("enable_x64", True):
        for row in rows_of(family):
            for dtype in _dtypes(row):
                closed, operands, _ = trace_cases([(row.function, operands_of(row, dtype))])
                for eqn, args in equations(closed, operands):
                    if not isinstance(rule_of(eqn.primitive), Structural):
                        tried += check_equation(eqn.primitive.name, eqn.params, args, _AT_MOST)
    own = [rule_of(p) for p in registry.values() if p.family == family]
    assert tried or all(isinstance(r, ShardedWhole) for r in own), "no factor was ever sharded"
