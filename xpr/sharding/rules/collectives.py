"""Named collectives: the engine resolves their names in the body of a `shard_map`.

Over mesh axes that the body does not name arrays may be sharded still: `FACTORS` has the rules
that say how. Axes along which a collective joins or splits parts are whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from xpr.sharding.rule import FactorRule, RuleFunction, Structural, register
from xpr.sharding.rules._forms import NONE, Avals, AxisFactors, Builder, Params, elementwise


def _axis_index(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del operands, results, params
    return Builder().rule([], [[]])


def _all_gather(operands: Avals, results: Avals, params: Params) -> FactorRule:
    return _joining(operands, results, params["all_gather_dimension"], params["tiled"], longer=1)


def _reduce_scatter(operands: Avals, results: Avals, params: Params) -> FactorRule:
    return _joining(operands, results, params["scatter_dimension"], params["tiled"], longer=0)


def _joining(operands: Avals, results: Avals, axis: int, tiled: bool, longer: int) -> FactorRule:
    """Of operand and result, the one numbered `longer` has the parts along `axis`.

    If tiled the other has the axis, too: one part.
    """
    build = Builder()
    shape = (operands, results)[longer][0].shape
    rest: list[AxisFactors] = build.axes(n for i, n in enumerate(shape) if i != axis)
    parts = [*rest[:axis], NONE, *rest[axis:]]
    one = parts if tiled else rest
    return build.rule([one], [parts]) if longer else build.rule([parts], [one])


def _all_to_all(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del results
    build = Builder()
    split, concat = params["split_axis"], params["concat_axis"]
    shape = operands[0].shape
    if params["tiled"]:
        factors = build.axes(shape, but=(split, concat))
        return build.rule([factors], [factors])
    rest: list[AxisFactors] = build.axes(n for i, n in enumerate(shape) if i != split)
    return build.rule(
        [[*rest[:split], NONE, *rest[split:]]], [[*rest[:concat], NONE, *rest[concat:]]]
    )


FACTORS: Mapping[str, RuleFunction] = {
    "psum": elementwise,
    "psum_invariant": elementwise,
    "pvary": elementwise,
    "pmax": elementwise,
    "pmin": elementwise,
    "axis_index": _axis_index,
    "all_gather": _all_gather,
    "all_gather_invariant": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "ppermute": elementwise,
}

for _name in FACTORS:
    register(_name, Structural("named collectives"))
