"""Arrays as sets: union, intersection, differences and membership.

The operands are flattened and the results are sorted. How many elements a result has depends on
values, so that `size` must be given inside a transformation: the result is cut off or filled up to
it, with `fill_value`.
"""

from __future__ import annotations

from typing import Any

from xpr.core import dtypes
from xpr.core.trace import get_aval, is_eager
from xpr.numpy._promote import as_operand, convert, promote_dtypes, with_weak_type_of
from xpr.numpy._rows import rows_at
from xpr.numpy._select import select_where
from xpr.numpy._static import static_size
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.manipulation import ravel
from xpr.numpy.nonzeros import nonzero
from xpr.numpy.searching import searchsorted
from xpr.numpy.uniques import count_true, differs_from_previous, require_size, unique
from xpr.primitives import compare as cmp
from xpr.primitives import integer as bits
from xpr.primitives import shape as sh
from xpr.primitives import sort as so
from xpr.primitives.convert import convert_type
from xpr.primitives.creation import full, iota
from xpr.primitives.joining import concatenate
from xpr.primitives.reduce import reduce_or

_FEW = 16


def _hint(name: str) -> str:
    return (
        f"The error arose in {name}(). To make jnp.{name}() compatible with JIT and other "
        "transforms, you can specify a concrete value for the size argument, which will determine "
        "the output size."
    )


def _two(name: str, ar1: Any, ar2: Any, size: int | None) -> tuple[Any, Any]:
    """The flattened operands; ConcretizationTypeError for tracers without a size."""
    pair = as_operand(name, ar1, 0), as_operand(name, ar2, 1)
    for x in pair:
        require_size(x, size, _hint(name))
    return ravel(pair[0]), ravel(pair[1])


def _length(name: str, mask: Any, size: int | None) -> int:
    return count_true(mask, _hint(name)) if size is None else static_size(name, size)


def _picked(values: Any, mask: Any, count: int, fill_value: Any) -> Any:
    """The first `count` of the values where the mask holds; then `fill_value`.

    Without it the first such value is repeated, or 0 if there is none.
    """
    aval = get_aval(values)
    total = aval.shape[0]
    zero = aval.dtype.type(0)
    if not total:
        return full((count,), zero if fill_value is None else convert(fill_value, aval.dtype))
    index = dtypes.default_dtype("i")
    places = nonzero(mask, size=count, fill_value=total)[0]
    present = cmp.lt(places, index.type(total))
    found = rows_at(values, places)
    if fill_value is not None:
        return select_where(present, found, convert(fill_value, aval.dtype))
    if not count:
        return found
    first = sh.squeeze(rows_at(found, full((1,), index.type(0))), (0,))
    some = sh.squeeze(rows_at(present, full((1,), index.type(0))), (0,))
    return select_where(present, found, select_where(some, first, zero))


def _is_in(x: Any, ordered: Any) -> tuple[Any, Any]:
    """Whether the elements of the vector `x` are in a sorted one, and the first place there."""
    index = dtypes.default_dtype("i")
    if not get_aval(ordered).shape[0]:
        return full(get_aval(x).shape, False, dtypes.BOOL), full(get_aval(x).shape, index.type(0))
    places = searchsorted(ordered, x, method="sort")
    return cmp.eq(rows_at(ordered, places), x), convert_type(places, index)


def union1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The different elements of both arrays; filled up with the first one by default.

    >>> import xpr.numpy as jnp
    >>> jnp.union1d(jnp.array([3, 1]), jnp.array([2, 1]))
    Array([1, 2, 3], dtype=int32)
    """
    x, y = _two("union1d", ar1, ar2, size)
    both = concatenate(promote_dtypes(x, y), 0)
    return unique(both, size=size, fill_value=fill_value)


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """The different elements that both arrays have; NaN is in none.

    With `return_indices` also the index of the first occurrence of each in either (flattened)
    array, filled up with its size. Filled up with the first element by default, or 0.

    >>> import xpr.numpy as jnp
    >>> jnp.intersect1d(jnp.array([3, 1, 1]), jnp.array([2, 1]))
    Array([1], dtype=int32)
    """
    x, y = promote_dtypes(*_two("intersect1d", ar1, ar2, size))
    index = dtypes.default_dtype("i")
    sizes = get_aval(x).shape[0], get_aval(y).shape[0]
    ordered, order = so.sort_key_val(x, iota(index, sizes[0]))
    others, other_order = so.sort_key_val(y, iota(index, sizes[1]))
    found, places = _is_in(ordered, others)
    if not assume_unique:
        found = bits.bitwise_and(found, differs_from_previous([ordered], sizes[0]))
    count = _length("intersect1d", found, size)
    values = _picked(ordered, found, count, fill_value)
    if not return_indices:
        return values
    first = _picked(order, found, count, sizes[0])
    second = rows_at(other_order, places) if sizes[1] else places
    return values, first, _picked(second, found, count, sizes[1])


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The different elements of `ar1` that `ar2` does not have; filled up with 0 by default.

    With `assume_unique` they are all elements of `ar1` that `ar2` lacks, in their order.

    >>> import xpr.numpy as jnp
    >>> jnp.setdiff1d(jnp.array([3, 1, 2]), jnp.array([1]))
    Array([2, 3], dtype=int32)
    """
    x, y = _two("setdiff1d", ar1, ar2, size)
    values = x if assume_unique else so.sort(x)
    keep = isin(values, y, invert=True)
    if not assume_unique:
        keep = bits.bitwise_and(keep, differs_from_previous([values], get_aval(x).shape[0]))
    count = _length("setdiff1d", keep, size)
    found = _picked(values, keep, count, 0 if fill_value is None else fill_value)
    return with_weak_type_of(values, found)


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The different elements that one of the arrays has and the other lacks.

    Filled up with the first one by default, or 0.

    >>> import xpr.numpy as jnp
    >>> jnp.setxor1d(jnp.array([3, 1]), jnp.array([2, 1]))
    Array([2, 3], dtype=int32)
    """
    x, y = promote_dtypes(*_two("setxor1d", ar1, ar2, size))
    x, y = so.sort(x), so.sort(y)
    masks = []
    for own, other in ((x, y), (y, x)):
        mask = bits.bitwise_not(_is_in(own, other)[0])
        if not assume_unique:
            first = differs_from_previous([own], get_aval(own).shape[0])
            mask = bits.bitwise_and(mask, first)
        masks.append(mask)
    mask, values = concatenate(masks, 0), concatenate([x, y], 0)
    # What is wanted goes to the front, sorted.
    dropped, values = so.sort([bits.bitwise_not(mask), values], 0, num_keys=2)
    mask = bits.bitwise_not(dropped)
    return _picked(values, mask, _length("setxor1d", mask, size), fill_value)


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """For each element whether it is among the test elements (with `invert`: is not); NaN never is.

    All methods give the same answer: "compare_all" compares all pairs, "sort" and "binary_search"
    look in the sorted test elements, "auto" chooses. Raises ValueError for another method.

    >>> import xpr.numpy as jnp
    >>> jnp.isin(jnp.array([[1, 2], [3, 4]]), jnp.array([2, 3]))
    Array([[False,  True],
           [ True, False]], dtype=bool)
    """
    x, y = as_operand("isin", element, 0), as_operand("isin", test_elements, 1)
    if method not in ("compare_all", "binary_search", "sort", "auto"):
        raise ValueError(
            f"{method=} is not implemented; options are 'compare_all', 'binary_search', 'sort', "
            "and 'auto'"
        )
    shape = get_aval(x).shape
    x, y = promote_dtypes(ravel(x), ravel(y))
    few = get_aval(y).shape[0] <= _FEW and not is_eager()
    if method == "compare_all" or (method == "auto" and few):
        equal = cmp.eq(sh.expand_dims(x, (1,)), sh.expand_dims(y, (0,)))
        found = reduce_or(equal, (1,))
    else:
        found = _is_in(x, so.sort(y))[0]
    if invert:
        found = bits.bitwise_not(found)
    return convert_type(sh.reshape(found, shape), dtypes.BOOL)
