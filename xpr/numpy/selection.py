"""Choices between arrays by conditions and indices, and limits."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import Tracer, get_aval
from xpr.dispatch.array import ArrayImpl
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import (
    as_operand,
    broadcast_to,
    check_arraylike,
    convert,
    promote_dtypes,
    refuse_out,
)
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.logic import to_bool
from xpr.numpy.nonzeros import nonzero
from xpr.numpy.ufuncs import maximum, minimum, remainder
from xpr.primitives.compare import select_n_p
from xpr.primitives.convert import convert_element_type_p


@overload
def where(
    condition: ArrayLike,
    x: None = None,
    y: None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> tuple[Array, ...]: ...
@overload
def where(
    condition: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array: ...
@overload
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any: ...
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """`x` where `condition` is not 0, else `y`, all three broadcast; or, with one argument, where.

    `x` and `y` are promoted to one dtype. With `condition` alone the result is the indices of its
    nonzero elements, one array for each axis, as `nonzero(condition, size=..., fill_value=...)`.
    Raises ValueError for shapes that do not fit.

    >>> import xpr.numpy as jnp
    >>> jnp.where(jnp.arange(4) > 1, jnp.arange(4), 0)
    Array([0, 0, 2, 3], dtype=int32)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if size is not None or fill_value is not None:
        raise ValueError(
            "size and fill_value arguments cannot be used in three-term where function."
        )
    if not (type(condition) is type(x) is type(y) is ArrayImpl):
        condition, x, y = (as_operand("where", v, i) for i, v in enumerate((condition, x, y)))
    if get_aval(x) is not get_aval(y):
        x, y = promote_dtypes(x, y)
    return select_where(to_bool(condition), x, y)


def select(condlist: Any, choicelist: Any, default: ArrayLike = 0) -> Array:
    """Elements from the first of `choicelist` whose condition holds, else from `default`.

    Raises ValueError for no conditions, or when there are not as many choices.

    >>> import xpr.numpy as jnp
    >>> x = jnp.arange(4)
    >>> jnp.select([x > 2, x > 0], [x * 10, x], default=-1)
    Array([-1,  1,  2, 30], dtype=int32)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})"
        )
    if len(condlist) == 0:
        raise ValueError("condlist must be non-empty")
    found, *choices = promote_dtypes(
        *(as_operand("select", v, i) for i, v in enumerate((default, *choicelist)))
    )
    for condition, choice in zip(reversed(list(condlist)), reversed(choices), strict=True):
        found = select_where(to_bool(as_operand("select", condition)), choice, found)
    return as_array(found)


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """Elements from the array of `choices` that the integer array `a` numbers, all broadcast.

    Numbers out of range raise ValueError with mode "raise", which needs concrete values; they are
    taken modulo the number of choices with "wrap" and limited with "clip".

    >>> import xpr.numpy as jnp
    >>> jnp.choose(jnp.array([1, 0]), [jnp.array([1, 2]), jnp.array([3, 4])])
    Array([3, 2], dtype=int32)
    """
    refuse_out("choose", out)
    index = as_operand("choose", a)
    if not dtypes.is_integer(get_aval(index).dtype):
        raise ValueError("`a` array must be integer typed")
    count = len(choices)
    if count == 0:
        raise ValueError("invalid entry in choice array")
    index = convert(index, dtypes.default_dtype("i"))
    if mode == "raise":
        if isinstance(index, Tracer):
            raise index._concretization(
                "choose with mode='raise' looks at the values; use mode='clip' or mode='wrap'."
            )
        host = np.asarray(index)
        if ((host < 0) | (host >= count)).any():
            raise ValueError("invalid entry in choice array")
    elif mode == "wrap":
        index = remainder(index, count)
    elif mode == "clip":
        index = clip(index, 0, count - 1)
    else:
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    cases = promote_dtypes(*(as_operand("choose", choices[i], i) for i in range(count)))
    shape = np.broadcast_shapes(get_aval(index).shape, *(get_aval(c).shape for c in cases))
    index = broadcast_to(as_array(index), shape)
    cases = [broadcast_to(as_array(c), shape) for c in cases]
    if count == 2:
        # Of two cases select_n takes a boolean as well, which costs less.
        index = convert_element_type_p.bind(index, new_dtype=dtypes.BOOL, weak_type=False)
    return select_n_p.bind(index, *cases)


def clip(
    arr: ArrayLike | None = None,
    /,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
) -> Array:
    """Elements limited to `min` from below, then to `max` from above; None is no limit.

    All operands are promoted to one dtype. Raises ValueError for complex operands.

    >>> import xpr.numpy as jnp
    >>> jnp.clip(jnp.arange(5), 1, 3)
    Array([1, 1, 2, 3, 3], dtype=int32)
    """
    if arr is None:
        raise ValueError("No input was provided to the clip function.")
    check_arraylike("clip", *(v for v in (arr, min, max) if v is not None))
    if any(v is not None and dtypes.is_complex(get_aval(v).dtype) for v in (arr, min, max)):
        raise ValueError(
            "Clip received a complex value either through the input or the min/max keywords. "
            "Complex values have no ordering and cannot be clipped. Please convert to a real value "
            "or array by taking the real or imaginary components via jax.numpy.real/imag "
            "respectively."
        )
    found = as_array(arr)
    if min is not None:
        found = maximum(min, found)
    if max is not None:
        found = minimum(max, found)
    return found
