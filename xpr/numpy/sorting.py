"""Sorting along an axis.

Numbers are ordered by value, so that -0 equals 0; NaN comes last; complex numbers are ordered by
real part, then by imaginary part. Operands are arrays or numbers; lists raise TypeError.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, convert, to_inexact
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.manipulation import ravel
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives import sort as so
from xpr.primitives._complex import complex_dtype
from xpr.primitives._index_dims import canonicalize_axis, require_places
from xpr.primitives.convert import convert_type
from xpr.primitives.creation import broadcasted_iota
from xpr.primitives.joining import unstack


def _check_arguments(name: str, kind: Any, order: Any) -> None:
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or stable=False to "
            "specify sort stability."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported.")


def _along(name: str, a: Any, axis: int | None) -> tuple[Any, int]:
    """The operand, flattened where `axis` is None, and the axis counted from the front."""
    x = as_operand(name, a)
    if axis is None:
        return ravel(x), 0
    return x, canonicalize_axis(axis, get_aval(x).ndim)


def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements sorted along `axis`; without axis (None) all of them, flattened.

    Sorting is stable in any case. Raises TypeError for `kind` and `order`, ValueError for an
    axis out of range.

    >>> import xpr.numpy as jnp
    >>> jnp.sort(jnp.array([3, 1, 2]), descending=True)
    Array([3, 2, 1], dtype=int32)
    """
    _check_arguments("sort", kind, order)
    x, dimension = _along("sort", a, axis)
    found = so.sort(x, dimension, is_stable=stable)
    return sh.rev(found, (dimension,)) if descending else found


def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike = None,
) -> Array:
    """The indices that sort `a` along `axis`; without axis (None) those of the flattened array.

    Equal elements keep their order, in descending order too (unless `stable` is False). The
    indices are int32 (int64 with enable_x64) or of the integer `dtype` given.

    >>> import xpr.numpy as jnp
    >>> jnp.argsort(jnp.array([3, 1, 2, 1]))
    Array([1, 3, 2, 0], dtype=int32)
    """
    _check_arguments("argsort", kind, order)
    x, dimension = _along("argsort", a, axis)
    index = dtypes.default_dtype("i") if dtype is None else requested_dtype(dtype, "argsort")
    if not dtypes.is_integer(index):
        raise TypeError(f"argsort requires an integer dtype, got {index}")
    require_places("argsort", get_aval(x).shape[dimension], index)
    places = broadcasted_iota(index, get_aval(x).shape, dimension)
    # The stable order of descending values is the reverse of the stable order of reversed ones.
    turn = descending and stable
    if turn:
        x, places = sh.rev(x, (dimension,)), sh.rev(places, (dimension,))
    found = so.sort_key_val(x, places, dimension, is_stable=stable)[1]
    return sh.rev(found, (dimension,)) if descending else found


def lexsort(keys: Any, axis: int = -1) -> Array:
    """The indices that sort by several keys, the last one foremost.

    `keys` is a sequence of arrays of one shape, or one array whose rows are the keys. Raises
    TypeError for no keys, ValueError for different shapes.

    >>> import xpr.numpy as jnp
    >>> jnp.lexsort((jnp.array([5, 6, 4]), jnp.array([1, 0, 1])))
    Array([1, 2, 0], dtype=int32)
    """
    if hasattr(keys, "ndim"):
        columns = list(unstack(as_operand("lexsort", keys)))
    else:
        columns = [as_operand("lexsort", k, i) for i, k in enumerate(keys)]
    if not columns:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    shapes = {get_aval(k).shape for k in columns}
    if len(shapes) > 1:
        raise ValueError(
            f"all keys need to be the same shape, got {' and '.join(map(str, shapes))}"
        )
    index = dtypes.default_dtype("i")
    (shape,) = shapes
    if not shape:
        return as_array(convert(0, index))
    dimension = canonicalize_axis(axis, len(shape))
    operands = [*columns[::-1], broadcasted_iota(index, shape, dimension)]
    return so.sort(operands, dimension, num_keys=len(columns))[-1]


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """`a` rearranged along `axis` so that smaller elements stand before place `kth`, greater after.

    The element at `kth` is the one that sorting puts there; the others are sorted too, which
    nobody should rely on. Raises ValueError for `kth` out of range.

    >>> import xpr.numpy as jnp
    >>> jnp.partition(jnp.array([3, 1, 2]), 1)[1]
    Array(2, dtype=int32)
    """
    x, dimension = _along("partition", a, axis)
    canonicalize_axis(kth, get_aval(x).shape[dimension])
    return so.sort(x, dimension)


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The indices that rearrange `a` as `partition` does.

    >>> import xpr.numpy as jnp
    >>> jnp.argpartition(jnp.array([3, 1, 2]), 0)[0]
    Array(1, dtype=int32)
    """
    x, dimension = _along("argpartition", a, axis)
    canonicalize_axis(kth, get_aval(x).shape[dimension])
    return argsort(x, dimension)


def sort_complex(a: ArrayLike) -> Array:
    """`a` sorted along its last axis, as complex numbers.

    >>> import xpr.numpy as jnp
    >>> jnp.sort_complex(jnp.array([2, 1]))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    x = as_operand("sort_complex", a)
    canonicalize_axis(-1, get_aval(x).ndim)
    dtype = get_aval(x).dtype
    wide = dtype if dtypes.is_complex(dtype) else complex_dtype(to_inexact(dtype))
    return so.sort(convert_type(x, wide))


def top_k(
    a: ArrayLike, k: int, /, *, axis: int = -1, mode: str = "largest", sorted: bool = True
) -> tuple[Array, Array]:
    """The `k` greatest or least elements along `axis`, and their indices, which are int32.

    `mode` is "largest" or "smallest". The best element comes first; `sorted` False promises no
    order, and changes nothing. NaN counts as greater than any number; of equal elements the first
    comes first. Raises ValueError for complex numbers, other modes, and a `k` that is negative or
    above the axis's size.

    >>> import xpr.numpy as jnp
    >>> jnp.top_k(jnp.array([3, 1, 2]), 2, mode="smallest")
    (Array([1, 2], dtype=int32), Array([1, 2], dtype=int32))
    """
    del sorted
    x = as_operand("top_k", a)
    if dtypes.is_complex(get_aval(x).dtype):
        raise ValueError("top_k is not compatible with complex inputs.")
    if mode not in ("largest", "smallest"):
        raise ValueError(f"mode must be 'largest' or 'smallest', got {mode!r}")
    shape = get_aval(x).shape
    dimension = canonicalize_axis(axis, len(shape))
    if mode == "largest":
        values, indices = so.top_k(x, k, axis=dimension)
        return values, indices
    count, size = operator.index(k), shape[dimension]
    if not 0 <= count <= size:
        raise ValueError(f"top_k requires k in 0 .. {size}, the axis's size, got {k}")
    numbers = broadcasted_iota(np.dtype(np.int32), shape, dimension)
    values, indices = so.sort_key_val(x, numbers, dimension)
    return (
        sl.slice_in_dim(values, 0, count, axis=dimension),
        sl.slice_in_dim(indices, 0, count, axis=dimension),
    )
