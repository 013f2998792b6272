"""Convolutions: batches and output features pass through, input features are summed.

Groups of features, or of the batch, pass through, too. Along a spatial axis with as many windows
for each part (padding "SAME", say) the parts need a few elements of their neighbours, and so they
do where a great kernel is cut like the axis, whose parts are summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.primitive import get_primitive
from xpr.core.trace import get_aval
from xpr.primitives._conv_dims import ConvDimensionNumbers
from xpr.sharding.rule import FactorRule, LocalShapes, Place, register
from xpr.sharding.rules._forms import NONE, Avals, AxisFactors, Builder, Params, axes_over
from xpr.sharding.rules._halo import Halo, halo_of, summed_halo, window_factors, with_halos


def _conv(operands: Avals, results: Avals, params: Params) -> FactorRule:
    build = Builder()
    (lhs, rhs), (out,) = operands, results
    dims: ConvDimensionNumbers = params["dimension_numbers"]
    left: list[AxisFactors] = [NONE] * lhs.ndim
    right: list[AxisFactors] = [NONE] * rhs.ndim
    made: list[AxisFactors] = [NONE] * out.ndim
    (batch, feature), (output, inner) = dims.lhs_spec[:2], dims.rhs_spec[:2]
    feature_groups = build.through(params["feature_group_count"])
    batch_groups = build.through(params["batch_group_count"])

    rest = build.through(out.shape[dims.out_spec[0]])
    left[batch], made[dims.out_spec[0]] = batch_groups + rest, rest
    groups = params["feature_group_count"] * params["batch_group_count"]
    right[output] = feature_groups + batch_groups + build.through(rhs.shape[output] // groups)
    made[dims.out_spec[1]] = right[output]
    # For booleans the sum is "or".
    total = "or" if out.dtype == np.bool_ else "sum"
    right[inner] = build.reduced(rhs.shape[inner], total)
    left[feature] = feature_groups + right[inner]

    halos: dict[int, tuple[int, Halo]] = {}
    for i, (a, b, c) in enumerate(
        zip(dims.lhs_spec[2:], dims.rhs_spec[2:], dims.out_spec[2:], strict=True)
    ):
        size, count = lhs.shape[a], out.shape[c]
        halo = halo_of(
            size,
            count,
            rhs.shape[b],
            params["window_strides"][i],
            params["padding"][i][0],
            params["lhs_dilation"][i],
            params["rhs_dilation"][i],
        )
        left[a], made[c] = window_factors(build, halo, size, count)
        if halo is None and params["lhs_dilation"][i] == 1:
            halo = summed_halo(
                size,
                rhs.shape[b],
                count,
                params["window_strides"][i],
                params["padding"][i][0],
                params["rhs_dilation"][i],
            )
            if halo is not None:
                right[b] = build.reduced(rhs.shape[b], total)
                left[a] = right[b] + build.whole(halo.block)
        if halo is not None:
            halos[a] = i, halo

    def apply(
        place: Place, args: Sequence[Any], params: Params, local: LocalShapes
    ) -> Sequence[Any]:
        x, kernel = args
        padding = list(params["padding"])
        needed = {}
        for axis, (i, halo) in halos.items():
            over = axes_over(left[axis], local)
            if over:
                needed[axis] = halo, over
                padding[i] = halo.low, halo.high
        own = {
            **params,
            "padding": tuple(padding),
            "feature_group_count": params["feature_group_count"]
            // place.count(axes_over(feature_groups, local)),
            "batch_group_count": params["batch_group_count"]
            // place.count(axes_over(batch_groups, local)),
        }
        x = with_halos(place, x, needed, get_aval(x).dtype.type(0))
        return [get_primitive("conv_general_dilated").bind(x, kernel, **own)]

    return build.rule([left, right], [made], apply=apply)


register("conv_general_dilated", _conv)
