"""Scatters: batches in step and windows as wide as their axis pass through.

Along a sharded axis that single elements are written to, each device takes the updates of its own
part. Updates that are sharded are put into an array of their own by each device, and these are
reduced: sums of floats are then added in another order than on one device, as in JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.primitive import get_primitive
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._index_dims import GatherScatterMode, ScatterDimensionNumbers
from xpr.primitives._scatter_rules import window_axes, window_sizes
from xpr.primitives.reduce import limits as type_limits
from xpr.sharding.rule import FactorRule, LocalShapes, Place, RuleFunction, register
from xpr.sharding.rules._forms import NONE, Avals, AxisFactors, Builder, Params, axes_over
from xpr.sharding.rules._local import INT32, filled, neutral
from xpr.sharding.rules.gather import LocalIndices, index_factors

_INT32_MAX = np.iinfo(np.int32).max


def _scatter(name: str, binary: str | None) -> RuleFunction:
    """`binary` is the primitive that updates are combined with, if their order does not matter."""

    def rule(operands: Avals, results: Avals, params: Params) -> FactorRule:
        del results
        build = Builder()
        x, indices, updates = operands
        dims: ScatterDimensionNumbers = params["dimension_numbers"]
        targets = dims.scatter_dims_to_operand_dims
        sizes = window_sizes(x.shape, updates.shape, dims)
        shared, batch = index_factors(
            build,
            indices,
            dims.operand_batching_dims,
            dims.scatter_indices_batching_dims,
            others=binary is not None,
        )
        stepped = {f for axis in shared.values() for f in axis}
        countable = all(x.shape[a] <= _INT32_MAX for a in targets)
        own: list[AxisFactors] = []
        picked: set[int] = set()
        for a, n in enumerate(x.shape):
            if a in shared:
                own.append(shared[a])
            elif sizes[a] == n:
                own.append(build.through(n))
            elif sizes[a] == 1 and a in targets and countable:
                own.append(build.through(n))
                picked.add(a)
            else:
                own.append(NONE)
        windows = iter([NONE if a in picked else own[a] for a in window_axes(x.ndim, dims)])
        rest = iter(batch)
        new = [
            next(windows) if i in dims.update_window_dims else next(rest)
            for i in range(updates.ndim)
        ]
        spread_over = [f for axis in batch for f in axis if f not in stepped]

        def apply(
            place: Place, args: Sequence[Any], params: Params, local: LocalShapes
        ) -> Sequence[Any]:
            target, index, update = args
            over = {a: axes_over(own[a], local) for a in picked if axes_over(own[a], local)}
            parts = axes_over(tuple(spread_over), local)
            into = target
            if parts:
                assert binary is not None
                aval = get_aval(target)
                into = filled(aval.shape, _identity(binary, aval.dtype), aval.dtype)
            if over:
                greatest = [x.shape[a] - sizes[a] for a in targets]
                found = LocalIndices(place, index, targets, greatest, over, local.operands[0])
                mine = found.mine
                if params["mode"] is GatherScatterMode.FILL_OR_DROP:
                    mine = get_primitive("and").bind(mine, found.inside)
                # An index below zero: the update is dropped.
                away = filled(get_aval(mine).shape, -1, INT32)
                found.columns = [ops.select(mine, c, away) for c in found.columns]
                index = found.vectors()
                params = {
                    **params,
                    "mode": GatherScatterMode.FILL_OR_DROP,
                    "indices_are_sorted": False,
                }
            result = get_primitive(name).bind(into, index, update, **params)
            if not parts:
                return [result]
            assert binary is not None
            everything = place.reduce(result, parts, _reduction(binary, get_aval(target).dtype))
            return [_combined(binary, target, everything)]

        return build.rule([own, [*batch, NONE], new], [own], apply=apply)

    return rule


def _identity(binary: str, dtype: np.dtype[Any]) -> Any:
    """What changes nothing when it is combined with anything."""
    if binary == "add":
        return neutral(dtype)[1]
    if binary == "mul":
        return 1
    return type_limits(dtype)[0 if binary == "max" else 1]


def _reduction(binary: str, dtype: np.dtype[Any]) -> str:
    """The reduction of what devices have got; for booleans sums are "or", products "and"."""
    if binary == "add":
        return neutral(dtype)[0]
    if binary == "mul":
        return "and" if dtype == np.bool_ else "prod"
    return binary


def _combined(binary: str, x: Any, y: Any) -> Any:
    if get_aval(x).dtype == np.bool_:
        binary = {"add": "or", "mul": "and"}.get(binary, binary)
    return get_primitive(binary).bind(x, y)


register("scatter", _scatter("scatter", None))
register("scatter-add", _scatter("scatter-add", "add"))
register("scatter-sub", _scatter("scatter-sub", "add"))
register("scatter-mul", _scatter("scatter-mul", "mul"))
register("scatter-min", _scatter("scatter-min", "min"))
register("scatter-max", _scatter("scatter-max", "max"))
