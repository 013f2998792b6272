"""Reductions: each device folds its own part, and the parts are reduced."""

from __future__ import annotations

from xpr.sharding.rule import FactorRule, RuleFunction, register
from xpr.sharding.rules._forms import NONE, Avals, Builder, Params, no_sharding, nothing, setting


def _reduction(op: str, *, places: bool = False) -> RuleFunction:
    def rule(operands: Avals, results: Avals, params: Params) -> FactorRule:
        del results
        build = Builder()
        factors = [
            build.reduced(n, op) if i in params["axes"] else build.through(n)
            for i, n in enumerate(operands[0].shape)
        ]
        kept = [f for i, f in enumerate(factors) if i not in params["axes"]]
        localize = setting(out_sharding=no_sharding) if places else None
        return build.rule([factors], [kept], localize=localize)

    return rule


register("reduce_sum", _reduction("sum", places=True))
for _op in ("prod", "max", "min", "and", "or", "xor"):
    register(f"reduce_{_op}", _reduction(_op))


def _arg_reduction(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del results
    build = Builder()
    factors = [
        NONE if i in params["axes"] else build.through(n) for i, n in enumerate(operands[0].shape)
    ]
    return build.rule([factors], [[f for i, f in enumerate(factors) if i not in params["axes"]]])


register("argmin", _arg_reduction)
register("argmax", _arg_reduction)


def _reduce(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """Whole along the axes folded by a program; the initial values have rank 0."""
    build = Builder()
    arrays = operands[: len(operands) // 2]
    dimensions = params["dimensions"]
    factors = [NONE if i in dimensions else build.through(n) for i, n in enumerate(arrays[0].shape)]
    kept = [f for i, f in enumerate(factors) if i not in dimensions]
    return build.rule(
        [factors] * len(arrays) + [nothing(a.shape) for a in operands[len(arrays) :]],
        [kept for _ in results],
        localize=setting(out_sharding=no_sharding) if "out_sharding" in params else None,
    )


register("reduce", _reduce)
