"""`jax._src.core`."""

from __future__ import annotations

from xpr.compat.modules.core import AbstractValue as AbstractValue
from xpr.compat.modules.core import Tracer as Tracer
from xpr.compat.modules.core import get_aval as get_aval
from xpr.compat.modules.core import get_opaque_trace_state as get_opaque_trace_state
from xpr.compat.modules.core import trace_state_clean as trace_state_clean
from xpr.core.aval import ShapedArray as ShapedArray

__all__ = [
    "AbstractValue",
    "ShapedArray",
    "Tracer",
    "get_aval",
    "get_opaque_trace_state",
    "trace_state_clean",
]
