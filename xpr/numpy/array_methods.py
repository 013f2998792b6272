"""The functions behind the operators and methods of arrays: see `xpr.core.array`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from xpr.core.trace import get_aval, is_eager
from xpr.dispatch.array import ArrayImpl
from xpr.numpy import (
    conversion,
    creation,
    cumulative,
    extraction,
    indexing,
    insertion,
    manipulation,
    products,
    reductions,
    searching,
    selection,
    sorting,
    statistics,
    triangular,
)
from xpr.numpy._host_index import host_rows
from xpr.numpy._typing import Array
from xpr.numpy.bitwise import invert as invert
from xpr.numpy.indexing import getitem as getitem
from xpr.numpy.logic import equal as equal
from xpr.numpy.manipulation import matrix_transpose as matrix_transpose
from xpr.numpy.manipulation import transpose as transpose
from xpr.numpy.namespace_info import ARRAY_API_VERSIONS
from xpr.numpy.nonzero import nonzero as nonzero
from xpr.numpy.operators import (
    op_add as op_add,
)
from xpr.numpy.operators import (
    op_and as op_and,
)
from xpr.numpy.operators import (
    op_divmod as op_divmod,
)
from xpr.numpy.operators import (
    op_eq as op_eq,
)
from xpr.numpy.operators import (
    op_floordiv as op_floordiv,
)
from xpr.numpy.operators import (
    op_ge as op_ge,
)
from xpr.numpy.operators import (
    op_gt as op_gt,
)
from xpr.numpy.operators import (
    op_le as op_le,
)
from xpr.numpy.operators import (
    op_lshift as op_lshift,
)
from xpr.numpy.operators import (
    op_lt as op_lt,
)
from xpr.numpy.operators import (
    op_matmul as op_matmul,
)
from xpr.numpy.operators import (
    op_mod as op_mod,
)
from xpr.numpy.operators import (
    op_mul as op_mul,
)
from xpr.numpy.operators import (
    op_ne as op_ne,
)
from xpr.numpy.operators import (
    op_or as op_or,
)
from xpr.numpy.operators import (
    op_pow as op_pow,
)
from xpr.numpy.operators import (
    op_radd as op_radd,
)
from xpr.numpy.operators import (
    op_rand as op_rand,
)
from xpr.numpy.operators import (
    op_rdivmod as op_rdivmod,
)
from xpr.numpy.operators import (
    op_rfloordiv as op_rfloordiv,
)
from xpr.numpy.operators import (
    op_rlshift as op_rlshift,
)
from xpr.numpy.operators import (
    op_rmatmul as op_rmatmul,
)
from xpr.numpy.operators import (
    op_rmod as op_rmod,
)
from xpr.numpy.operators import (
    op_rmul as op_rmul,
)
from xpr.numpy.operators import (
    op_ror as op_ror,
)
from xpr.numpy.operators import (
    op_round as op_round,
)
from xpr.numpy.operators import (
    op_rpow as op_rpow,
)
from xpr.numpy.operators import (
    op_rrshift as op_rrshift,
)
from xpr.numpy.operators import (
    op_rshift as op_rshift,
)
from xpr.numpy.operators import (
    op_rsub as op_rsub,
)
from xpr.numpy.operators import (
    op_rtruediv as op_rtruediv,
)
from xpr.numpy.operators import (
    op_rxor as op_rxor,
)
from xpr.numpy.operators import (
    op_sub as op_sub,
)
from xpr.numpy.operators import (
    op_truediv as op_truediv,
)
from xpr.numpy.operators import (
    op_xor as op_xor,
)
from xpr.numpy.reductions import any as any
from xpr.numpy.ufuncs import abs as abs
from xpr.numpy.ufuncs import negative as negative
from xpr.numpy.ufuncs import positive as positive
from xpr.numpy.ufuncs_float import conjugate as _conjugate
from xpr.numpy.ufuncs_float import imag as imag
from xpr.numpy.ufuncs_float import real as real
from xpr.numpy.ufuncs_float import round as round
from xpr.numpy.updates import at as at
from xpr.primitives.joining import unstack
from xpr.primitives.slicing import dynamic_slice

method_all = reductions.all
method_any = reductions.any
method_argmax = reductions.argmax
method_argmin = reductions.argmin
method_argpartition = sorting.argpartition
method_argsort = sorting.argsort
method_choose = selection.choose
method_clip = selection.clip
method_conj = method_conjugate = _conjugate
method_copy = creation.copy
method_cumprod = cumulative.cumprod
method_cumsum = cumulative.cumsum
method_diagonal = triangular.diagonal
method_dot = products.dot
method_max = reductions.max
method_mean = statistics.mean
method_min = reductions.min
method_nonzero = nonzero
method_prod = reductions.prod
method_ptp = reductions.ptp
method_ravel = manipulation.ravel
method_repeat = insertion.repeat
method_round = round
method_searchsorted = searching.searchsorted
method_sort = sorting.sort
method_squeeze = manipulation.squeeze
method_std = statistics.std
method_sum = reductions.sum
method_swapaxes = manipulation.swapaxes
method_trace = products.trace
method_var = statistics.var


def method_astype(x: Any, dtype: Any, copy: bool, device: Any) -> Array:
    """`x.astype(...)`."""
    return conversion.astype(x, dtype, copy=copy, device=device)


def method_byteswap(x: Any, inplace: bool) -> Array:
    """`x.byteswap()`."""
    if inplace:
        raise NotImplementedError("byteswap(inplace=True) is not possible: arrays are immutable")
    return conversion.byteswap(x)


def method_compress(
    x: Any, condition: Any, axis: int | None, *, out: None, size: int | None, fill_value: Any
) -> Array:
    """`x.compress(condition, axis)`."""
    return extraction.compress(condition, x, axis, size=size, fill_value=fill_value, out=out)


def method_flatten(x: Any, order: str) -> Array:
    """`x.flatten(order)`."""
    return manipulation.ravel(x, order)


def method_reshape(x: Any, *args: Any, order: str) -> Array:
    """`x.reshape(shape)` or `x.reshape(*shape)`."""
    shape = args[0] if len(args) == 1 else args
    return manipulation.reshape(x, shape, order)


def method_transpose(x: Any, *args: Any) -> Array:
    """`x.transpose()`, `x.transpose(axes)` or `x.transpose(*axes)`."""
    if not args or args == (None,):
        return manipulation.transpose(x)
    one = len(args) == 1 and not isinstance(args[0], int)
    axes: Any = args[0] if one else args
    return manipulation.transpose(x, axes)


def method_view(x: Any, dtype: Any, type: None) -> Array:
    """`x.view(dtype)`."""
    if type is not None:
        raise NotImplementedError("the `type` argument of array.view() is not supported")
    return conversion.view(x, dtype)


def contains(x: Any, value: Any) -> bool:
    """`value in x`, for a scalar value."""
    shape = get_aval(value).shape
    if shape:
        raise ValueError(f"Array.__contains__: query value must be a scalar, got query.{shape=}")
    return bool(any(equal(x, value)))


def flat(x: Any) -> Array:
    """`x.flat`, which would have to be a writable iterator."""
    raise NotImplementedError(
        "arrays do not implement the arr.flat property: consider arr.flatten() instead."
    )


_CHUNK = 100
"""How many rows of an array on another device are taken from it at a time."""


def iterate(x: Any) -> Iterator[Array]:
    """The slices of `x` along its first axis; nothing is computed before the first is asked for."""
    rows = host_rows(x)
    return _unstacked(x) if rows is None else rows


def _unstacked(x: Any) -> Iterator[Array]:
    """The rows of a tracer in one operation, those of a long array on a device in several."""
    shape = get_aval(x).shape
    if not (isinstance(x, ArrayImpl) and is_eager() and shape[0] > _CHUNK):
        yield from unstack(x)
        return
    corner = [0] * (len(shape) - 1)
    for start in range(0, shape[0], _CHUNK):
        # The start is an operand, so that one program serves for all chunks.
        size = min(_CHUNK, shape[0] - start)
        yield from unstack(dynamic_slice(x, [start, *corner], (size, *shape[1:])))


def namespace(api_version: str | None) -> Any:
    """The module of array functions, as the array API asks for it."""
    if api_version is not None and api_version not in ARRAY_API_VERSIONS:
        raise ValueError(
            f"{api_version=} is not available; available versions are: {list(ARRAY_API_VERSIONS)}"
        )
    return sys.modules["xpr.numpy"]


def method_take(
    x: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Any:
    """`x.take(indices)`."""
    return indexing.take(
        x, indices, axis, out, mode, unique_indices, indices_are_sorted, fill_value
    )
