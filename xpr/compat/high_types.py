"""`jax.typeof`: the types of values, also of those of high types."""

from __future__ import annotations

from typing import Any

from xpr.core import high
from xpr.core.trace import get_aval
from xpr.transforms.tracing import ShapeDtypeStruct, abstractify


def typeof(x: Any) -> Any:
    """The aval of `x`: its shape, dtype and weak type; or the high type of a value of one."""
    if high.is_high_value(x):
        return high.type_of(x)
    return abstractify(x) if isinstance(x, ShapeDtypeStruct) else get_aval(x)
