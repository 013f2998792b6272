"""Factors of a few small matrices, by kernels that come with xpr.

A call of LAPACK goes through Python, which takes longer than the factor of a small matrix.
"""

from __future__ import annotations

import math
from typing import Any

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.types import element_type
from xpr.lowering.rules._kernel_calls import LARGEST, available, call

# Rows of a matrix, and matrices: of many there is a vector for each element (the host's functions
# for stacks), and of large ones LAPACK's blocks are worth the call. (Float32, us, with the kernel
# and the host's: one of 10 rows 2.5 and 26, of 64 rows 19 and 61; 64 of 8 rows 16 and 37.)
_MOST_ROWS = 64
_MOST_MATRICES = 64
# Multiplications of a workgroup.
_GROUP_WORK = 1 << 16


def small_cholesky(ctx: LoweringContext, x: Value, **_: Any) -> list[Value] | None:
    """The lower factors; None where the host's LAPACK is to be called."""
    n, count = x.shape[-1], math.prod(x.shape[:-2])
    if x.dtype.name not in ("float32", "float64") or n > _MOST_ROWS or count > _MOST_MATRICES:
        return None
    if not available(ctx, "matrices", f"cholesky_{element_type(x.dtype)}"):
        return None
    if math.prod(x.shape) >= LARGEST:
        return None
    result = Value(x.shape, x.dtype)
    block = max(1, min(count, _GROUP_WORK // max(1, n**3 // 3)))
    groups = (-(-count // block), 1, 1)
    call(ctx, "matrices", "cholesky", [x], [result], (n, count, block), groups)
    return [result]
