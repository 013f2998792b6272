"""Values on the host: operands that are no arrays of xpr, and results that become such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.errors import explained
from xpr.core.trace import Tracer, check_python_int, get_aval, leaked
from xpr.dispatch.array import ArrayImpl, freeze
from xpr.runtimes.base import Device
from xpr.runtimes.host import HostBuffer

HOST_OPERATION = "an operation on the host"


def own(result: Any, args: Sequence[Any]) -> Any:
    """`result`, copied if it may lie in a NumPy operand's memory, to which its owner may write."""
    if type(result) is np.ndarray and any(
        isinstance(a, np.ndarray) and np.may_share_memory(result, a) for a in args
    ):
        return result.copy()
    return result


def wrap(
    result: Any,
    aval: ShapedArray,
    device: Device,
    committed: bool,
    computed_by: str = HOST_OPERATION,
) -> ArrayImpl:
    """A NumPy result as an array of type `aval`; `computed_by` is for errors."""
    if type(result) is not np.ndarray or result.dtype is not aval.dtype:
        result = np.asarray(result, dtype=aval.dtype)
    if state.debug_nans or state.debug_infs:
        check_finite(result, computed_by)
    freeze(result)
    return ArrayImpl(aval, (HostBuffer(result, device),), committed)


def _not_finite(what: str, computed_by: str, sharded: bool) -> FloatingPointError:
    first = "Invalid" if sharded else "invalid"  # as JAX spells them
    error = FloatingPointError(f"{first} value ({what}) encountered in {computed_by}")
    return explained(error, "FloatingPointError")


def check_finite(result: np.ndarray[Any, Any], computed_by: str, *, sharded: bool = False) -> None:
    """Raises FloatingPointError for what `debug_nans` and `debug_infs` look for."""
    if result.dtype.kind in "biu":
        return
    if state.debug_nans and np.isnan(result).any():
        raise _not_finite("nan", computed_by, sharded)
    if state.debug_infs and np.isinf(result).any():
        raise _not_finite("inf", computed_by, sharded)


def host_value(x: Any) -> tuple[ShapedArray, np.ndarray[Any, Any]]:
    """The aval and values of an operand that is not an array of xpr."""
    if isinstance(x, Tracer):
        raise leaked(x)
    aval = get_aval(x)
    if type(x) is int:
        check_python_int(x, aval.dtype)
    host = x._value if isinstance(x, ArrayImpl) else np.asarray(x)
    if host.dtype != aval.dtype:
        host = host.astype(aval.dtype)
    return aval, host
