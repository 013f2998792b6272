"""Numbers that follow each other by a step: `arange`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.placing import resharded
from xpr.numpy._promote import as_operand, convert, wide_dtype
from xpr.numpy._static import concrete
from xpr.numpy._typing import Array, ArrayLike, DType, DTypeLike
from xpr.numpy.creation import placed
from xpr.numpy.dtype_api import requested_dtype, result_type
from xpr.primitives import elementwise as el
from xpr.primitives.creation import iota


def _number(x: Any, name: str) -> Any:
    """The argument `name` of arange as a Python number."""
    x = as_operand("arange", x)
    value = concrete(x, f"It arose in the jnp.arange argument '{name}'")
    if value.ndim:
        raise ValueError(f"jax.numpy.arange: arguments must be scalars; got {name}={value}")
    if value.dtype.kind == "c":
        raise ValueError(
            f"Passing complex start/stop/step to jnp.arange is not supported, got {name}={value}"
        )
    return value[()].item() if value.dtype.kind in "biuf" else float(value)


def arange(
    start: ArrayLike,
    stop: ArrayLike | None = None,
    step: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The numbers `start`, `start + step`, ... before `stop`; with one argument from 0 up to it.

    The dtype is the promoted one of the arguments unless given. They must be known when a function
    is traced. Raises ValueError for arrays with axes and complex numbers, ZeroDivisionError for
    step 0, OverflowError for integers that do not fit the dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.arange(2, 10, 3)
    Array([2, 5, 8], dtype=int32)
    """
    if out_sharding is not None:
        return resharded(
            "arange", out_sharding, lambda: arange(start, stop, step, dtype, device=device)
        )
    if stop is None:
        given: tuple[Any, ...] = (start,) if step is None else (start, step)
        first, last = 0, _number(start, "stop")
    else:
        given = (start, stop) if step is None else (start, stop, step)
        first, last = _number(start, "start"), _number(stop, "stop")
    by = 1 if step is None else _number(step, "step")
    wanted = result_type(*given) if dtype is None else requested_dtype(dtype, "arange")
    if all(isinstance(v, int) for v in (first, last, by)):
        count = max(0, -((first - last) // by))
    else:
        count = max(0, math.ceil((last - first) / by))
    if dtypes.is_integer(wanted):
        first, by = int(first), int(by)
        _check_range(first, by, count, wanted)
    return placed(_progression(first, by, count, wanted), device)


def _check_range(first: int, by: int, count: int, dtype: DType) -> None:
    info = dtypes.iinfo(dtype)
    for value in (first, first + max(0, count - 1) * by):
        if not int(info.min) <= value <= int(info.max):
            raise OverflowError(f"arange reaches {value}, which is out of bounds for {dtype}")


def _progression(first: Any, by: Any, count: int, dtype: DType) -> Any:
    compute = wide_dtype(dtype)
    found = iota(compute, count)
    with np.errstate(all="ignore"):
        if by != 1:
            found = el.mul_p.bind(_as_dtype(by, compute), found)
        if first != 0:
            found = el.add_p.bind(_as_dtype(first, compute), found)
    return found if compute == dtype else convert(found, dtype)


def _as_dtype(value: Any, dtype: DType) -> Any:
    return np.asarray(value).astype(dtype)[()]
