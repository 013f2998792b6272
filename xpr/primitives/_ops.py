"""Operations for rules to be written with: looked up when called, so that families need no cycles.

They check and convert nothing; operands are what the primitives take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.extended import ExtendedDType
from xpr.core.primitive import get_primitive


def bind(name: str, *args: Any, **params: Any) -> Any:
    """The result of the primitive called `name`."""
    return get_primitive(name).bind(*args, **params)


def add(x: Any, y: Any) -> Any:
    return bind("add", x, y)


def sub(x: Any, y: Any) -> Any:
    return bind("sub", x, y)


def mul(x: Any, y: Any) -> Any:
    return bind("mul", x, y)


def div(x: Any, y: Any) -> Any:
    return bind("div", x, y)


def neg(x: Any) -> Any:
    return bind("neg", x)


def select(which: Any, on_true: Any, on_false: Any) -> Any:
    """`on_true` where the boolean `which` holds, else `on_false` (operands of one shape)."""
    return bind("select_n", which, on_false, on_true)


def eq(x: Any, y: Any) -> Any:
    return bind("eq", x, y)


def lt(x: Any, y: Any) -> Any:
    return bind("lt", x, y)


def gt(x: Any, y: Any) -> Any:
    return bind("gt", x, y)


def convert(x: Any, dtype: Any, weak_type: bool = False) -> Any:
    """`x` with its elements converted to `dtype`."""
    new = dtype if isinstance(dtype, ExtendedDType) else np.dtype(dtype)
    return bind("convert_element_type", x, new_dtype=new, weak_type=weak_type)


def reduce_sum(x: Any, axes: Sequence[int]) -> Any:
    return bind("reduce_sum", x, axes=tuple(axes), out_sharding=None)


def broadcast_in_dim(x: Any, shape: Sequence[int], dims: Sequence[int]) -> Any:
    return bind(
        "broadcast_in_dim",
        x,
        shape=tuple(shape),
        broadcast_dimensions=tuple(dims),
        sharding=None,
    )


def reshape(x: Any, shape: Sequence[int]) -> Any:
    return bind("reshape", x, new_sizes=tuple(shape), dimensions=None, sharding=None)


def transpose(x: Any, permutation: Sequence[int]) -> Any:
    return bind("transpose", x, permutation=tuple(permutation))
