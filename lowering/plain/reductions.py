"""Reductions, of whole axes and of windows: one operation each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.attributes import Padding
from xpr.lowering.registry import register_plain, rules
from xpr.lowering.rules.reduce import jaxpr_body
from xpr.primitives import reduce as r
from xpr.primitives import window as w
from xpr.primitives._window_dims import WindowDims

Body = Callable[..., Sequence[Value]]
_BITS = {"maximum": "or", "minimum": "and"}


def _body(op: str, dtype: np.dtype[Any]) -> Body:
    name = _BITS.get(op, op) if dtypes.kind(dtype) == "b" else op
    return lambda inner, a, b: [inner.binary(name, a, b)]


def _reduction(primitive: Primitive, op: str, identity: Callable[[np.dtype[Any]], Any]) -> None:
    def lower(ctx: LoweringContext, x: Value, *, axes: tuple[int, ...], **params: Any) -> Value:
        if not axes:
            return x
        if dtypes.is_complex(x.dtype) and op in _BITS:
            return rules[primitive.name](ctx, x, axes=axes, **params)
        init = ctx.constant(identity(x.dtype), x.dtype)
        return ctx.reduce([x], [init], axes, _body(op, x.dtype))[0]

    register_plain(primitive, lower)


_reduction(r.reduce_sum_p, "add", lambda d: 0)
_reduction(r.reduce_prod_p, "multiply", lambda d: 1)
_reduction(r.reduce_max_p, "maximum", lambda d: r.limits(d)[0])
_reduction(r.reduce_min_p, "minimum", lambda d: r.limits(d)[1])


def _windows(
    ctx: LoweringContext, xs: Sequence[Value], inits: Sequence[Value], dims: WindowDims, body: Body
) -> list[Value]:
    outs = ctx.out_avals
    scalars = [((), x.dtype) for x in xs]
    about = {
        "window_dimensions": tuple(dims.dimensions),
        "window_strides": tuple(dims.strides),
        "base_dilations": tuple(dims.base_dilation),
        "window_dilations": tuple(dims.window_dilation),
        "padding": Padding(tuple((int(a), int(b)) for a, b in dims.padding)),
    }
    return ctx.op(
        "stablehlo.reduce_window",
        [*xs, *inits],
        [(o.shape, o.dtype) for o in outs],
        about,
        [ctx.region([*scalars, *scalars], body)],
    )


def _window_reduction(
    primitive: Primitive, op: str, identity: Callable[[np.dtype[Any]], Any]
) -> None:
    def lower(ctx: LoweringContext, x: Value, **params: Any) -> Value:
        out = ctx.out_avals[0]
        start = identity(x.dtype)
        if out.size == 0 or x.aval.size == 0:
            return ctx.constant(start, out.dtype, out.shape)
        if dtypes.is_complex(x.dtype) and op in _BITS:
            return rules[primitive.name](ctx, x, **params)
        init = ctx.constant(start, x.dtype)
        return _windows(ctx, [x], [init], w.window_dims(**params), _body(op, x.dtype))[0]

    register_plain(primitive, lower)


_window_reduction(w.reduce_window_sum_p, "add", lambda d: 0)
_window_reduction(w.reduce_window_max_p, "maximum", lambda d: r.limits(d)[0])
_window_reduction(w.reduce_window_min_p, "minimum", lambda d: r.limits(d)[1])


def _reduce_window(
    ctx: LoweringContext,
    *args: Value,
    jaxpr: ClosedJaxpr,
    consts: tuple[Any, ...],
    **params: Any,
) -> Sequence[Value]:
    half = len(args) // 2
    outs = ctx.out_avals
    if outs[0].size == 0 or args[0].aval.size == 0:
        pairs = zip(args[half:], outs, strict=True)
        return [ctx.broadcast_in_dim(i, o.shape, ()) for i, o in pairs]
    dims = w.window_dims(**params)
    return _windows(ctx, args[:half], args[half:], dims, jaxpr_body(jaxpr))


register_plain(w.reduce_window_p, _reduce_window)
