"""Windows: axes without windows pass through, others where each part has as many windows.

Then the parts need a few elements of their neighbours, or none where windows do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.primitive import get_primitive
from xpr.core.trace import get_aval
from xpr.primitives._window_dims import WindowDims, window_dims
from xpr.primitives.reduce import limits
from xpr.sharding.rule import FactorRule, LocalShapes, Place, RuleFunction, register
from xpr.sharding.rules._forms import Avals, AxisFactors, Builder, Params, axes_over
from xpr.sharding.rules._halo import Halo, halo_of, window_factors, with_halos

_GEOMETRY = (
    "window_dimensions",
    "window_strides",
    "padding",
    "base_dilation",
    "window_dilation",
)


def _dims(params: Params) -> WindowDims:
    return window_dims(**{k: v for k, v in params.items() if k in _GEOMETRY})


def _halo(dims: WindowDims, axis: int, size: int, count: int) -> Halo | None:
    return halo_of(
        size,
        count,
        dims.dimensions[axis],
        dims.strides[axis],
        dims.padding[axis][0],
        dims.base_dilation[axis],
        dims.window_dilation[axis],
    )


def _windowed(
    name: str, outside: Callable[[np.dtype[Any]], Any] | None, several: bool = False
) -> RuleFunction:
    """`outside` is the value of the padding, if no operand is."""

    def rule(operands: Avals, results: Avals, params: Params) -> FactorRule:
        build = Builder()
        dims, count = _dims(params), len(results)
        shape, windows = operands[0].shape, results[0].shape
        own: list[AxisFactors] = []
        made: list[AxisFactors] = []
        halos: dict[int, Halo] = {}
        for i, (n, m) in enumerate(zip(shape, windows, strict=True)):
            halo = _halo(dims, i, n, m)
            before, after = window_factors(build, halo, n, m)
            own.append(before)
            made.append(after)
            if halo is not None:
                halos[i] = halo

        def apply(
            place: Place, args: Sequence[Any], params: Params, local: LocalShapes
        ) -> Sequence[Any]:
            padding, needed = list(params["padding"]), {}
            for axis, halo in halos.items():
                over = axes_over(own[axis], local)
                if over:
                    needed[axis] = halo, over
                    padding[axis] = halo.low, halo.high
            ready = []
            for i, x in enumerate(args[:count]):
                dtype = get_aval(x).dtype
                blank = args[count + i] if outside is None else _scalar(outside(dtype), dtype)
                ready.append(with_halos(place, x, needed, blank))
            reduction = get_primitive(name)
            found = reduction.bind(*ready, *args[count:], **{**params, "padding": tuple(padding)})
            return found if several else [found]

        inits = [[] for _ in operands[count:]]
        return build.rule([own] * count + inits, [made] * count, apply=apply)

    return rule


def _scalar(value: Any, dtype: np.dtype[Any]) -> Any:
    return np.asarray(value).astype(dtype)[()]


register("reduce_window_sum", _windowed("reduce_window_sum", lambda dtype: 0))
register("reduce_window_max", _windowed("reduce_window_max", lambda dtype: limits(dtype)[0]))
register("reduce_window_min", _windowed("reduce_window_min", lambda dtype: limits(dtype)[1]))
register("reduce_window", _windowed("reduce_window", None, several=True))


def _apart(build: Builder, dims: WindowDims, shape: Sequence[int]) -> tuple[Any, Any]:
    """The factors of axes and windows where windows neither overlap nor reach into padding."""
    own: list[AxisFactors] = []
    made: list[AxisFactors] = []
    for i, (n, m) in enumerate(zip(shape, dims.out_shape(tuple(shape)), strict=True)):
        halo = _halo(dims, i, n, m)
        if halo is not None and any((halo.left, halo.right, halo.low, halo.spacing - 1)):
            halo = None
        before, after = window_factors(build, halo, n, m)
        own.append(before)
        made.append(after)
    return own, made


def _select_and_scatter_add(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del results
    build = Builder()
    own, made = _apart(build, _dims(params), operands[1].shape)
    return build.rule([made, own], [own])


def _select_and_gather_add(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del results
    build = Builder()
    own, made = _apart(build, _dims(params), operands[1].shape)
    return build.rule([own, own], [made])


register("select_and_scatter_add", _select_and_scatter_add)
register("select_and_gather_add", _select_and_gather_add)
