"""How Python's operators on arrays are made of functions: `op_add` stands beside `add`, and so on.

An operand that is no array or number is refused by NotImplemented, so that Python asks it in turn;
sequences, which NumPy would convert, raise TypeError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.core.jaxpr_trace import JaxprTracer
from xpr.core.trace import is_valid_value
from xpr.dispatch.array import ArrayImpl

Operator = Callable[[Any, Any], Any]

_KNOWN = frozenset((ArrayImpl, JaxprTracer, int, float, bool, complex, np.ndarray, np.float32))


def _takes_part(x: Any, other: Any, symbol: str) -> bool:
    """Whether `other` is an operand; TypeError for sequences."""
    if isinstance(other, (Array, np.ndarray, np.generic)) or is_valid_value(other):
        return True
    if hasattr(type(other), "__jax_array__"):
        return True
    if isinstance(other, (list, tuple, set, dict)):
        raise TypeError(
            f"unsupported operand type(s) for {symbol}: "
            f"{type(x).__name__!r} and {type(other).__name__!r}"
        )
    return False


def operator_of(function: Callable[..., Any], symbol: str) -> Operator:
    """The operator `x symbol other`."""

    def operator(x: Any, other: Any) -> Any:
        if type(other) in _KNOWN or _takes_part(x, other, symbol):
            return function(x, other)
        return NotImplemented

    return operator


def reflected(function: Callable[..., Any], symbol: str) -> Operator:
    """The operator `other symbol x`, which Python asks for when `other` knows nothing of arrays."""

    def operator(x: Any, other: Any) -> Any:
        if type(other) in _KNOWN or _takes_part(x, other, symbol):
            return function(other, x)
        return NotImplemented

    return operator
