"""`jax._src.core`: the names of `jax.core` and `jax.extend.core`, and some that are private."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.compat.modules import core as _public
from xpr.compat.modules.api_util import safe_map as safe_map
from xpr.compat.modules.core import get_aval as get_aval
from xpr.compat.modules.extend import core as _extend
from xpr.compat.modules.extend.core.primitives import call_p as call_p
from xpr.compat.modules.extend.core.primitives import closed_call_p as closed_call_p
from xpr.core.aval import ShapedArray as ShapedArray
from xpr.core.physical import physical_aval as physical_aval
from xpr.core.trace import Trace, Tracer

JaxprEqnContext = type(None)
"""Equations of xpr keep no settings: there is no context, and its class is that of None."""

# Traces are compared by themselves; nothing tags them.
TraceTag = Trace


def __getattr__(name: str) -> Any:
    for module in (_public, _extend):
        found = getattr(module, name, None)
        if found is not None:
            return found
    raise AttributeError(f"module 'jax._src.core' has no attribute {name!r} in xpr")


def get_referent(value: Any) -> Any:
    """The value that a tracer stands for in what encloses its trace; here each is its own."""
    return value


def full_lower(value: Any) -> Any:
    """The value; xpr's tracers stand for nothing simpler."""
    return value


def safe_zip(*args: Sequence[Any]) -> list[tuple[Any, ...]]:
    """`zip` of sequences that must be equally long, as a list."""
    return list(zip(*args, strict=True))


def is_tracer(value: Any) -> bool:
    """Whether a value is being traced."""
    return isinstance(value, Tracer)


def concrete_or_error(force: Callable[[Any], Any] | None, value: Any, context: str = "") -> Any:
    """See `jax.extend.core.concrete_or_error`."""
    return _extend.concrete_or_error(force, value, context)


__all__ = [
    "JaxprEqnContext",
    "ShapedArray",
    "TraceTag",
    "call_p",
    "closed_call_p",
    "concrete_or_error",
    "full_lower",
    "get_aval",
    "get_referent",
    "is_tracer",
    "physical_aval",
    "safe_map",
    "safe_zip",
]
