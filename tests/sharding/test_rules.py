"""Sharding rules: each row of the operation table, evaluated in parts, gives the whole result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import xpr.primitives
from tests.harness import assert_same, trace_cases
from tests.op_row import OpRow
from tests.op_runs import operands_of
from tests.op_table import WITHOUT_ROWS, rows_of
from tests.sharding.partitioned import (
    Array,
    choices,
    cut,
    reference,
    run_in_parts,
    spec_of,
)
from xpr.core.aval import ShapedArray
from xpr.core.config import override
from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var
from xpr.core.primitive import get_primitive, registry
from xpr.dispatch.compiled import interpret
from xpr.primitives import FAMILIES
from xpr.sharding import rules
from xpr.sharding.rule import (
    REDUCTIONS,
    FactorRule,
    ShardedWhole,
    Structural,
    missing_rules,
    rule_of,
)

rules.load_all()

# Sums in another order, and library routines that take other ways for other shapes.
_INEXACT = frozenset(
    {
        "reduce_sum",
        "reduce_prod",
        "cumsum",
        "cumprod",
        "cumlogsumexp",
        "dot_general",
        "conv_general_dilated",
        "fft",
        "triangular_solve",
        "scatter-add",
        "scatter-sub",
        "scatter-mul",
        "reduce_window_sum",
        "reduce_window",
    }
)


def test_every_primitive_has_a_rule() -> None:
    xpr.primitives.load_all()
    assert missing_rules(tuple(registry)) == []


def test_families_are_those_of_the_primitives() -> None:
    assert set(FAMILIES) <= set(rules.FAMILIES)


def test_a_primitive_without_a_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry, "unheard_of", type(get_primitive("add"))("unheard_of", "test"))
    with pytest.raises(NotImplementedError, match=r"without a sharding rule: unheard_of\."):
        rules.load_all()


def avals_of(arrays: Sequence[Any]) -> list[ShapedArray]:
    return [ShapedArray(np.shape(x), np.asarray(x).dtype) for x in arrays]


def check_form(name: str, rule: FactorRule, args: Sequence[Any], outs: Sequence[Any]) -> None:
    """Sizes agree with the axes; each factor goes somewhere."""
    assert len(rule.operands) == len(args), name
    assert len(rule.results) == len(outs), name
    for factors, aval in zip((*rule.operands, *rule.results), (*args, *outs), strict=True):
        assert len(factors) == aval.ndim, f"{name}: {factors} for {aval}"
        for axis, n in zip(factors, aval.shape, strict=True):
            size = int(np.prod([rule.sizes[f] for f in axis])) if axis else n
            assert size == n, f"{name}: factors {factors} of {rule.sizes} for {aval}"
        flat = [f for axis in factors for f in axis]
        assert len(set(flat)) == len(flat), f"{name}: a factor twice in {factors}"
    assert 1 not in rule.sizes
    assert set(rule.reduced.values()) <= REDUCTIONS
    in_results = {f for r in rule.results for axis in r for f in axis}
    in_operands = {f for o in rule.operands for axis in o for f in axis}
    ended = in_operands - in_results - rule.whole
    assert set(rule.reduced) <= ended, f"{name}: a reduced factor is left"
    if rule.apply is None:
        assert ended == set(rule.reduced), f"{name}: factors {ended} are neither kept nor reduced"


def check_equation(name: str, params: dict[str, Any], args: Sequence[Array]) -> int:
    """Compares the parts with the whole for each choice of sharded factors; how many there were."""
    primitive = get_primitive(name)
    function = rule_of(primitive)
    assert not isinstance(function, Structural), name
    expected = reference(primitive, args, params)
    ins = avals_of(args)
    found = primitive.abstract(*ins, **params)
    outs = list(found) if primitive.multiple_results else [found]
    rule = function(ins, outs, params)
    check_form(name, rule, ins, outs)
    tried = choices(rule)
    for choice, mesh in tried:
        what = f"{name} {[str(a) for a in ins]} {params} with {choice} of {rule.sizes}"
        devices = run_in_parts(primitive, params, rule, args, outs, choice, mesh)
        reordered = any(rule.reduced.get(f) in ("sum", "prod") for f in choice)
        for i, (aval, factors) in enumerate(zip(outs, rule.results, strict=True)):
            whole = np.asarray(expected[i], aval.dtype)
            rtol, atol = tolerance(name, whole, reordered)
            for place, results in zip(mesh.places(), devices, strict=True):
                assert_same(
                    np.asarray(results[i], aval.dtype),
                    cut(whole, spec_of(factors, choice), mesh, place),
                    rtol,
                    atol,
                    what=f"{what}, result {i} at {place}",
                )
    return len(tried)


def tolerance(name: str, whole: Array, reordered: bool) -> tuple[float, float]:
    """Relative and absolute: a few roundings of the greatest element of a sum, else none."""
    if whole.dtype.kind in "biu" or not (reordered or name in _INEXACT):
        return 0.0, 0.0
    rtol = {2: 2e-2, 1: 0.2}.get(whole.dtype.itemsize, 1e-5)
    wide = np.abs(whole.astype(np.complex128))
    finite = wide[np.isfinite(wide)]
    return rtol, rtol * float(finite.max(initial=0.0))


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


def _dtypes(row: OpRow) -> list[str]:
    preferred = [d for d in ("float32", "int32", "bool") if d in row.dtypes]
    return preferred or list(row.dtypes[:1])


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in WITHOUT_ROWS])
def test_parts_equal_the_whole(family: str) -> None:
    tried = 0
    with override("enable_x64", True):
        for row in rows_of(family):
            for dtype in _dtypes(row):
                closed, operands, _ = trace_cases([(row.function, operands_of(row, dtype))])
                for eqn, args in equations(closed, operands):
                    if not isinstance(rule_of(eqn.primitive), Structural):
                        tried += check_equation(eqn.primitive.name, eqn.params, args)
    own = [rule_of(p) for p in registry.values() if p.family == family]
    assert tried or all(isinstance(r, ShardedWhole) for r in own), "no factor was ever sharded"
