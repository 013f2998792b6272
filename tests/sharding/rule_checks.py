"""Checks of a sharding rule: its form, and that parts computed by it are those of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.harness import assert_same
from tests.sharding.in_parts import Array, choices, cut, reference, run_in_parts, spec_of
from xpr.core.aval import ShapedArray
from xpr.core.primitive import get_primitive
from xpr.sharding.rule import REDUCTIONS, FactorRule, Structural, rule_of

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
    assert in_results | in_operands == set(range(len(rule.sizes))), f"{name}: an unused factor"
    assert set(rule.reduced) <= in_operands - in_results, f"{name}: a reduced factor is left"
    assert rule.apply is not None or not rule.ended, f"{name}: nothing ends {rule.ended}"


def rule_for(
    name: str, params: dict[str, Any], args: Sequence[Any]
) -> tuple[FactorRule, list[ShapedArray], list[ShapedArray]]:
    """The rule of an equation on these arrays, and the avals of operands and results."""
    primitive = get_primitive(name)
    function = rule_of(primitive)
    assert not isinstance(function, Structural), name
    ins = avals_of(args)
    found = primitive.abstract(*ins, **params)
    outs = list(found) if primitive.multiple_results else [found]
    return function(ins, outs, params), ins, outs


def check_equation(
    name: str, params: dict[str, Any], args: Sequence[Array], at_most: int = 1000
) -> int:
    """Compares the parts with the whole for the choices of sharded factors; how many there were.

    Of more than `at_most` there is a choice by chance, the same in each run.
    """
    primitive = get_primitive(name)
    expected = reference(primitive, args, params)
    rule, ins, outs = rule_for(name, params, args)
    check_form(name, rule, ins, outs)
    tried = choices(rule)
    if len(tried) > at_most:
        picked = np.random.default_rng(len(tried)).permutation(len(tried))[:at_most]
        tried = [tried[i] for i in sorted(picked)]
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
                    signed_zero=not rtol,
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
