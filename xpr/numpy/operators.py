"""Python's operators on arrays.

An operand that is no array or number is refused by NotImplemented, so that Python asks it in turn;
sequences, which NumPy would convert, raise TypeError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.jaxpr_trace import JaxprTracer
from xpr.core.trace import is_valid_value
from xpr.dispatch.array import ArrayImpl
from xpr.numpy import bitwise, logic, products, ufuncs, ufuncs_float
from xpr.numpy._promote import convert

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


def _operator(function: Callable[..., Any], symbol: str) -> Operator:
    def operator(x: Any, other: Any) -> Any:
        if type(other) in _KNOWN or _takes_part(x, other, symbol):
            return function(x, other)
        return NotImplemented

    return operator


def _reflected(function: Callable[..., Any], symbol: str) -> Operator:
    def operator(x: Any, other: Any) -> Any:
        if type(other) in _KNOWN or _takes_part(x, other, symbol):
            return function(other, x)
        return NotImplemented

    return operator


op_add, op_radd = _operator(ufuncs.add, "+"), _reflected(ufuncs.add, "+")
op_sub, op_rsub = _operator(ufuncs.subtract, "-"), _reflected(ufuncs.subtract, "-")
op_mul, op_rmul = _operator(ufuncs.multiply, "*"), _reflected(ufuncs.multiply, "*")
op_truediv = _operator(ufuncs.true_divide, "/")
op_rtruediv = _reflected(ufuncs.true_divide, "/")
op_floordiv = _operator(ufuncs.floor_divide, "//")
op_rfloordiv = _reflected(ufuncs.floor_divide, "//")
op_mod, op_rmod = _operator(ufuncs.remainder, "%"), _reflected(ufuncs.remainder, "%")
op_divmod, op_rdivmod = _operator(ufuncs.divmod, "divmod"), _reflected(ufuncs.divmod, "divmod")
op_pow, op_rpow = _operator(ufuncs.power, "**"), _reflected(ufuncs.power, "**")
op_matmul, op_rmatmul = _operator(products.matmul, "@"), _reflected(products.matmul, "@")
op_and, op_rand = _operator(bitwise.bitwise_and, "&"), _reflected(bitwise.bitwise_and, "&")
op_or, op_ror = _operator(bitwise.bitwise_or, "|"), _reflected(bitwise.bitwise_or, "|")
op_xor, op_rxor = _operator(bitwise.bitwise_xor, "^"), _reflected(bitwise.bitwise_xor, "^")
op_lshift, op_rlshift = _operator(bitwise.left_shift, "<<"), _reflected(bitwise.left_shift, "<<")
op_rshift = _operator(bitwise.right_shift, ">>")
op_rrshift = _reflected(bitwise.right_shift, ">>")
op_eq, op_ne = _operator(logic.equal, "=="), _operator(logic.not_equal, "!=")
op_lt, op_le = _operator(logic.less, "<"), _operator(logic.less_equal, "<=")
op_gt, op_ge = _operator(logic.greater, ">"), _operator(logic.greater_equal, ">=")


def op_round(x: Any, ndigits: int | None) -> Any:
    """Python's `round(x)`: the default integers without `ndigits`, else the array's own dtype."""
    if ndigits is not None:
        return ufuncs_float.round(x, ndigits)
    return convert(ufuncs_float.round(x), dtypes.default_dtype("i"))
