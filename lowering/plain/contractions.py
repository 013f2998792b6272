"""Products and convolutions: one operation each, whatever their axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.attributes import Padding
from xpr.lowering.registry import register_plain
from xpr.primitives._conv_dims import ConvDimensionNumbers
from xpr.primitives.conv import conv_general_dilated_p
from xpr.primitives.dot_general import DotDims, dot_general_p

_F32 = np.dtype(np.float32)


def _dot_general(
    ctx: LoweringContext,
    lhs: Value,
    rhs: Value,
    *,
    dimension_numbers: Any,
    precision: Any,
    **_: Any,
) -> Value:
    out = ctx.out_avals[0]
    dims = DotDims.of(dimension_numbers)
    numbers = {
        "lhs_batching_dimensions": dims.lhs_batch,
        "rhs_batching_dimensions": dims.rhs_batch,
        "lhs_contracting_dimensions": dims.lhs_contract,
        "rhs_contracting_dimensions": dims.rhs_contract,
    }
    inside = ", ".join(f"{k} = {list(v)}" for k, v in numbers.items())
    about = {
        "dot_dimension_numbers": f"#stablehlo.dot<{inside}>",
        "precision_config": _precision(precision),
    }
    if lhs.dtype != rhs.dtype:
        lhs, rhs = (ctx.convert(x, out.dtype) for x in (lhs, rhs))
    if dtypes.kind(lhs.dtype) == "b":  # the number of pairs that are true
        counted = [ctx.convert(x, _F32) for x in (lhs, rhs)]
        found = ctx.assign("stablehlo.dot_general", counted, out.shape, _F32, about)
        return ctx.compare("NE", found, ctx.full_like(found, 0.0))
    return ctx.assign("stablehlo.dot_general", (lhs, rhs), out.shape, out.dtype, about)


def _precision(precision: Any) -> str:
    """The precision of both operands; algorithms are XLA's default one."""
    pair = precision if isinstance(precision, tuple) else (precision, precision)
    names = [str(getattr(one, "name", one) or "DEFAULT").upper() for one in pair]
    known = [name if name in ("DEFAULT", "HIGH", "HIGHEST") else "DEFAULT" for name in names]
    return f"[{', '.join(f'#stablehlo<precision {name}>' for name in known)}]"


def _conv_general_dilated(
    ctx: LoweringContext,
    lhs: Value,
    rhs: Value,
    *,
    dimension_numbers: ConvDimensionNumbers,
    window_strides: tuple[int, ...],
    padding: Any,
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    feature_group_count: int,
    batch_group_count: int,
    precision: Any = None,
    **_: Any,
) -> Value:
    out = ctx.out_avals[0]
    if 0 in (*lhs.shape, *rhs.shape, *out.shape):
        return ctx.constant(0, out.dtype, out.shape)
    dims = dimension_numbers
    axes = (
        f"{_axes(dims.lhs_spec, 'b', 'f')}x{_axes(dims.rhs_spec, 'o', 'i')}"
        f"->{_axes(dims.out_spec, 'b', 'f')}"
    )
    about = {
        "batch_group_count": batch_group_count,
        "dimension_numbers": f"#stablehlo.conv<{axes}>",
        "feature_group_count": feature_group_count,
        "lhs_dilation": tuple(lhs_dilation),
        "padding": Padding(tuple((int(a), int(b)) for a, b in padding)),
        "precision_config": _precision(precision),
        "rhs_dilation": tuple(rhs_dilation),
        "window_strides": tuple(window_strides),
    }
    if not window_strides:
        about["padding"] = "dense<> : tensor<0x2xi64>"
    if lhs.dtype != rhs.dtype:
        lhs, rhs = (ctx.convert(x, out.dtype) for x in (lhs, rhs))
    if dtypes.kind(lhs.dtype) == "b":
        counted = [ctx.convert(x, _F32) for x in (lhs, rhs)]
        found = ctx.assign("stablehlo.convolution", counted, out.shape, _F32, about)
        return ctx.compare("NE", found, ctx.full_like(found, 0.0))
    return ctx.assign("stablehlo.convolution", (lhs, rhs), out.shape, out.dtype, about)


def _axes(spec: tuple[int, ...], first: str, second: str) -> str:
    """What each axis is, in order: a letter, or the number of a spatial axis."""
    names = {spec[0]: first, spec[1]: second}
    names |= {axis: str(i) for i, axis in enumerate(spec[2:])}
    return f"[{', '.join(names[axis] for axis in range(len(spec)))}]"


register_plain(dot_general_p, _dot_general)
register_plain(conv_general_dilated_p, _conv_general_dilated)
