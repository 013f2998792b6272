"""Values on the host: operands that are no arrays of xpr, and results that become such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.trace import Tracer, check_python_int, get_aval, leaked
from xpr.dispatch.array import ArrayImpl, freeze
from xpr.dispatch.nonfinite import check_operation
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
        check_operation(result, computed_by)
    freeze(result)
    return ArrayImpl(aval, (HostBuffer(result, device),), committed)


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
