"""Absolute values and quotients of many complex numbers, by kernels that come with xpr.

A pass over arrays of parts (`loops/complex_passes.py`) reads each array twice more, to take it
apart. Where such operations are all that a pass does, kernels read the numbers as they lie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xpr.core import dtypes
from xpr.core.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.types import element_type
from xpr.lowering.rules._kernel_calls import LARGEST, available, call
from xpr.primitives._complex import real_dtype

_KERNELS = {"abs": "complex_absolute", "div": "complex_divide"}
# A workgroup does so many: some tens of microseconds.
_BLOCK = 1 << 14


def complex_kernels(
    ctx: LoweringContext, jaxpr: Jaxpr, operands: Sequence[Value]
) -> list[Value] | None:
    """The results of a program of nothing but such operations; None without kernels for them."""
    if not all(_has_kernel(ctx, eqn) for eqn in jaxpr.eqns):
        return None
    env: dict[Var, Value] = dict(zip(jaxpr.invars, operands, strict=True))

    def read(atom: Atom) -> Value:
        if isinstance(atom, Literal):
            return ctx.literal(atom.val, atom.aval.dtype, atom.aval.shape)
        return env[atom]

    for eqn in jaxpr.eqns:
        env[eqn.outvars[0]] = _operation(ctx, eqn, [read(a) for a in eqn.invars])
    return [read(v) for v in jaxpr.outvars]


def _has_kernel(ctx: LoweringContext, eqn: JaxprEqn) -> bool:
    kernel = _KERNELS.get(eqn.primitive.name)
    avals = [a.aval for a in eqn.invars]
    if kernel is None or not all(dtypes.is_complex(a.dtype) for a in avals):
        return False
    (out,) = eqn.outvars
    count = out.aval.size
    element = element_type(real_dtype(avals[0].dtype))
    return (
        element in ("f32", "f64")
        and 2 * count < LARGEST
        and len({a.dtype for a in avals}) == 1
        and all(a.size in (1, count) for a in avals)
        and available(ctx, "complex_numbers", f"{kernel}_{element}")
    )


def _operation(ctx: LoweringContext, eqn: JaxprEqn, operands: Sequence[Value]) -> Value:
    (out,) = eqn.outvars
    count = out.aval.size
    steps = [int(math.prod(x.shape) == count) for x in operands] if len(operands) > 1 else []
    result = Value(out.aval.shape, out.aval.dtype)
    kernel, groups = _KERNELS[eqn.primitive.name], (-(-count // _BLOCK), 1, 1)
    call(ctx, "complex_numbers", kernel, operands, [result], (count, *steps, _BLOCK), groups)
    return result
