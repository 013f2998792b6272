"""Convolutions of sparse signals along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import lax
from xpr.experimental.sparse._array import BCOO
from xpr.experimental.sparse._parts import masked, placed
from xpr.experimental.sparse.layout import bcoo_update_layout
from xpr.transforms.tracing import ShapeDtypeStruct, make_jaxpr

_PLAIN = (0, 1, 2)


def bcoo_conv_general_dilated(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> BCOO:
    """`lax.conv_general_dilated` of one signal [1, 1, n] and one filter [1, 1, k], as a BCOO array.

    Each of the two is a BCOO array or an array. Each specified element of one meets each of the
    other: the result has as many elements as there are pairs.

    Raises NotImplementedError for strides, dilations, groups, several channels and more axes.

    >>> import xpr.numpy as jnp
    >>> signal = BCOO.fromdense(jnp.array([[[0.0, 2.0, 0.0, 3.0]]]))
    >>> filter = jnp.array([[[1.0, 10.0]]])
    >>> found = bcoo_conv_general_dilated(signal, filter, window_strides=(1,), padding="VALID")
    >>> found.todense().tolist()
    [[[20.0, 2.0, 30.0]]]
    """
    del out_sharding

    def dense(x: Any, y: Any) -> Any:
        return lax.conv_general_dilated(
            x,
            y,
            window_strides,
            padding,
            lhs_dilation=lhs_dilation,
            rhs_dilation=rhs_dilation,
            dimension_numbers=dimension_numbers,
            feature_group_count=feature_group_count,
            batch_group_count=batch_group_count,
            precision=precision,
            preferred_element_type=preferred_element_type,
        )

    # The shapes and options are checked as those of arrays are, and strings become numbers.
    types = (ShapeDtypeStruct(x.shape, x.dtype) for x in (lhs, rhs))
    traced = make_jaxpr(dense)(*types)
    params, dtype = traced.eqns[0].params, traced.out_avals[0].dtype
    numbers = params["dimension_numbers"]
    refused = {
        "lhs_dilation": any(d != 1 for d in params["lhs_dilation"]),
        "rhs_dilation": any(d != 1 for d in params["rhs_dilation"]),
        "non-unit window_strides": any(s != 1 for s in params["window_strides"]),
        "non-unit group counts": params["batch_group_count"] * params["feature_group_count"] != 1,
        "leading dimensions other than (1, 1)": {lhs.shape[:2], rhs.shape[:2]} != {(1, 1)},
        "other axes than one for space": len(lhs.shape) != 3,
        "other dimension_numbers": any(spec != _PLAIN[: len(spec)] for spec in numbers),
    }
    for what, there in refused.items():
        if there:
            raise NotImplementedError(
                f"bcoo convolution with {what}: it takes a signal [1, 1, n] and a filter [1, 1, k]"
            )
    (((before, after),),) = (params["padding"],)
    (x, i), (y, j) = _entries(lhs), _entries(rhs)
    size = max(0, lhs.shape[2] + before + after - rhs.shape[2] + 1)
    at = (i[:, None] + (before - j)[None, :]).reshape(-1)
    data = (x.astype(dtype)[:, None] * y.astype(dtype)[None, :]).reshape(-1)
    inside = (at >= 0) & (at < size)
    # What falls outside is out of bounds: a negative index would count from the end.
    at = jnp.where(inside, at, size)
    return BCOO((masked(data, inside)[None, None], at[None, None, :, None]), shape=(1, 1, size))


def _entries(mat: Any) -> tuple[Any, Any]:
    """The elements of a signal [1, 1, n] and their places; zeros for those out of bounds."""
    if not isinstance(mat, BCOO):
        data = jnp.asarray(mat)[0, 0]
        return data, jnp.arange(len(data), dtype=np.int32)
    # Batch axes of size 1 cost nothing.
    mat = bcoo_update_layout(mat, n_batch=2, n_dense=0, on_inefficient=None)
    at, valid = placed(mat.indices[0, 0], mat.shape[2:])
    return masked(mat.data[0, 0], valid), at[:, 0]
