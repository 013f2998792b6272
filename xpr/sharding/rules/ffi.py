"""Foreign functions: whole arrays, but for those that are known to treat a batch as examples."""

from __future__ import annotations

from xpr.primitives.ffi import takes_batches
from xpr.sharding.rule import FactorRule, LocalShapes, ShardedWhole, register
from xpr.sharding.rules._forms import NONE, Avals, Builder, Params

_WHOLE = ShardedWhole("the function is written for whole arrays")


def _ffi_call(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """The leading axes that all operands and results share are a batch, if the target says so."""
    everything = [*operands, *results]
    if not takes_batches(params["target_name"]) or params["tokens"] or not everything:
        return _WHOLE(operands, results, params)
    shapes = [a.shape for a in everything]
    count = 0
    while all(len(s) > count for s in shapes) and len({s[count] for s in shapes}) == 1:
        count += 1
    build = Builder()
    batch = build.axes(shapes[0][:count])
    of = [batch + [NONE] * (a.ndim - count) for a in everything]
    return build.rule(of[: len(operands)], of[len(operands) :], localize=_localize)


def _localize(params: Params, local: LocalShapes) -> Params:
    pairs = zip(params["result_avals"], local.results, strict=True)
    return {**params, "result_avals": tuple(a.update(shape=s, sharding=None) for a, s in pairs)}


register("ffi_call", _ffi_call)
