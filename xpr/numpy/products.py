"""Products of arrays: dot, matmul, tensordot, outer, kron, cross and the like.

Operands are brought to one dtype inside the product: `dot_general` takes different ones. Where a
function takes `preferred_element_type`, the result has that dtype, otherwise the promoted dtype of
the operands. `precision` is for hardware that offers several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core import dtypes
from xpr.core.placing import given_sharding, resharded
from xpr.core.trace import Tracer, get_aval
from xpr.dispatch.array import ArrayImpl
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, promote_dtypes, without_weak_type
from xpr.numpy._promote import broadcast_to as broadcast_to_shape
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike, DType, DTypeLike, Shape
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.manipulation import moveaxis, ravel, reshape
from xpr.numpy.operators import operator_of, reflected
from xpr.numpy.reductions import sum as _sum
from xpr.numpy.ufuncs import multiply, subtract
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives._index_dims import canonicalize_axes, canonicalize_axis
from xpr.primitives.convert import convert_type
from xpr.primitives.creation import broadcasted_iota
from xpr.primitives.dot_general import dot_general
from xpr.primitives.joining import concatenate


def _operands(name: str, a: Any, b: Any) -> tuple[Any, Any]:
    if type(a) is type(b) is ArrayImpl:
        return a, b
    return as_operand(name, a, 0), as_operand(name, b, 1)


def _result_type(name: str, x: Any, y: Any, preferred: DTypeLike) -> tuple[DType, bool]:
    if preferred is not None:
        return requested_dtype(preferred, name), False
    if get_aval(x) is get_aval(y):
        return get_aval(x).dtype, get_aval(x).weak_type
    return dtypes.promote_avals(
        (get_aval(x).dtype, get_aval(x).weak_type), (get_aval(y).dtype, get_aval(y).weak_type)
    )


def _contract(
    name: str,
    x: Any,
    y: Any,
    numbers: Any,
    precision: Any,
    preferred: DTypeLike,
    sharding: Any = None,
) -> Any:
    dtype, weak = _result_type(name, x, y, preferred)
    found = dot_general(
        x, y, numbers, precision=precision, preferred_element_type=dtype, out_sharding=sharding
    )
    return convert_type(found, dtype, weak)


# ---- sums over the last axes


def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
) -> Array:
    """The sum of products over the last axis of `a` and the last but one (or only) axis of `b`.

    The result has the other axes of `a`, then those of `b`. A number multiplies elementwise.
    Raises TypeError when the two axes differ in size.

    >>> import xpr.numpy as jnp
    >>> jnp.dot(jnp.ones((2, 3)), jnp.arange(3.0))
    Array([3., 3.], dtype=float32)
    """
    x, y = _operands("dot", a, b)
    left, right = get_aval(x).ndim, get_aval(y).ndim
    numbers: Any = (((), ()), ((), ()))
    if left and right:
        numbers = (((left - 1,), (max(right - 2, 0),)), ((), ()))
    return _contract("dot", x, y, numbers, precision, preferred_element_type, out_sharding)


def inner(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The sum of products over the last axes of both; a number multiplies elementwise.

    >>> import xpr.numpy as jnp
    >>> jnp.inner(jnp.ones((2, 3)), jnp.ones((4, 3))).shape
    (2, 4)
    """
    x, y = _operands("inner", a, b)
    left, right = get_aval(x).ndim, get_aval(y).ndim
    if not (left and right):
        found = multiply(x, y)
        if preferred_element_type is None:
            return found
        return convert_type(found, requested_dtype(preferred_element_type, "inner"))
    numbers = (((left - 1,), (right - 1,)), ((), ()))
    return _contract("inner", x, y, numbers, precision, preferred_element_type)


def vdot(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The sum of products of all elements, those of `a` conjugated.

    >>> import xpr.numpy as jnp
    >>> jnp.vdot(jnp.array([1j, 2]), jnp.array([1j, 2]))
    Array(5.+0.j, dtype=complex64)
    """
    x, y = _operands("vdot", a, b)
    if dtypes.is_complex(get_aval(x).dtype):
        x = el.conj(x)
    numbers = (((0,), (0,)), ((), ()))
    return _contract("vdot", ravel(x), ravel(y), numbers, precision, preferred_element_type)


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: int | Sequence[int] | Sequence[Sequence[int]] = 2,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
) -> Array:
    """The sum of products over pairs of axes.

    `axes` is a number n (the last n axes of `a` with the first n of `b`), or the axes of `a` and
    those of `b`. The result has the other axes of `a`, then those of `b`. Raises TypeError when
    sizes or counts differ.

    >>> import xpr.numpy as jnp
    >>> jnp.tensordot(jnp.ones((2, 3, 4)), jnp.ones((4, 3, 5)), ((1, 2), (1, 0))).shape
    (2, 5)
    """
    x, y = _operands("tensordot", a, b)
    left, right = get_aval(x).ndim, get_aval(y).ndim
    if isinstance(axes, int):
        if axes > min(left, right):
            raise TypeError(
                f"Number of tensordot axes (axes {axes}) exceeds input ranks "
                f"({get_aval(x).shape} and {get_aval(y).shape})"
            )
        summed = tuple(range(left - axes, left)), tuple(range(axes))
    elif isinstance(axes, (tuple, list)) and len(axes) == 2:
        summed = canonicalize_axes(axes[0], left), canonicalize_axes(axes[1], right)
        if len(summed[0]) != len(summed[1]):
            raise TypeError(
                f"tensordot requires axes lists to have equal length, got {axes[0]} and {axes[1]}."
            )
    else:
        raise TypeError(
            "tensordot axes argument must be an int, a pair of ints, or a pair of lists/tuples of "
            f"ints, got {axes!r}."
        )
    numbers = (summed, ((), ()))
    return _contract("tensordot", x, y, numbers, precision, preferred_element_type, out_sharding)


# ---- products along batch axes


def _batched(
    name: str,
    x: Any,
    y: Any,
    cores: tuple[str, str],
    precision: Any = None,
    preferred: DTypeLike = None,
    sharding: Any = None,
) -> Array:
    """A contraction of the last axes of each operand, labelled by `cores`, over their label "k".

    The leading axes are broadcast. One of size 1 that meets another one is dropped before the
    contraction, and one that only one operand has is a free axis in it, so that nothing is repeated
    in memory.
    """
    leads = [
        get_aval(v).shape[: get_aval(v).ndim - len(c)] for v, c in zip((x, y), cores, strict=True)
    ]
    try:
        lead = sh.broadcast_shapes(*leads)
    except ValueError:
        types = " and ".join(get_aval(v).str_short() for v in (x, y))
        raise ValueError(
            f"Incompatible types for {name} arguments: {types}; their leading axes "
            f"{leads[0]} and {leads[1]} do not broadcast"
        ) from None
    # Leading axes are labelled from the last one backwards; the labels of the cores are letters.
    places = [str(len(lead) - i) for i in range(len(lead))]
    both = min(map(len, leads))
    terms, operands = [], []
    for v, shape, core in zip((x, y), leads, cores, strict=True):
        own = places[len(lead) - len(shape) :]
        ones = [i for i, n in enumerate(shape) if n == 1 and i >= len(shape) - both]
        terms.append([*(c for i, c in enumerate(own) if i not in ones), *core])
        operands.append(sh.squeeze(v, tuple(ones)) if ones else v)
    core = [c for c in cores[0] + cores[1] if c != "k"]
    wanted = [c for c in places if c in terms[0] + terms[1]] + core
    from xpr.numpy._einsum_plan import contraction  # noqa: PLC0415  few products need a plan

    numbers, found = contraction(terms[0], terms[1], wanted)
    given = given_sharding(name, sharding)
    inner = None if given is None else _of_axes(given, [*places, *core], found)
    out = _contract(name, operands[0], operands[1], numbers, precision, preferred, inner)
    out = sh.transpose(out, [found.index(c) for c in wanted])
    whole = as_array(sh.expand_dims(out, [i for i, c in enumerate(places) if c not in wanted]))
    if given is None or len(wanted) == len(places) + len(core):
        return whole
    return resharded(name, given, lambda: whole)  # axes of size 1 may be sharded, too


def _of_axes(sharding: Any, axes: Sequence[str], some: Sequence[str]) -> Any:
    """The sharding of an array that has only some of the axes, in another order."""
    entries = dict(zip(axes, sharding.normalized_spec(len(axes)), strict=True))
    return sharding.with_spec(sharding.spec.update(partitions=tuple(entries[c] for c in some)))


def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
) -> Array:
    """Matrix products over the last two axes, the leading ones broadcast; the operator `@`.

    An operand of one axis is a row on the left, a column on the right, and that axis is left out
    of the result. Raises ValueError for numbers and for leading axes that do not broadcast,
    TypeError when the inner sizes differ.

    >>> import xpr.numpy as jnp
    >>> jnp.matmul(jnp.ones((5, 1, 2, 3)), jnp.ones((4, 3, 2))).shape
    (5, 4, 2, 2)
    """
    x, y = _operands("matmul", a, b)
    left, right = get_aval(x).ndim, get_aval(y).ndim
    for i, ndim in enumerate((left, right)):
        if not ndim:
            raise ValueError(
                f"matmul input operand {i} must have ndim at least 1, but it has ndim 0"
            )
    if left <= 2 and right <= 2:  # without leading axes there is nothing to arrange
        numbers = (((left - 1,), (0,)), ((), ()))
        return as_array(
            _contract("matmul", x, y, numbers, precision, preferred_element_type, out_sharding)
        )
    cores = "k" if left == 1 else "mk", "k" if right == 1 else "kn"
    return _batched("matmul", x, y, cores, precision, preferred_element_type, out_sharding)


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """The sum of products along `axis`, `x1` conjugated, the other axes broadcast.

    Raises ValueError when the sizes along `axis` differ.

    >>> import xpr.numpy as jnp
    >>> jnp.vecdot(jnp.ones((2, 3)), jnp.arange(3.0))
    Array([3., 3.], dtype=float32)
    """
    x, y = _operands("vecdot", x1, x2)
    shapes = get_aval(x).shape, get_aval(y).shape
    places = [canonicalize_axis(axis, len(s)) for s in shapes]
    if shapes[0][places[0]] != shapes[1][places[1]]:
        raise ValueError(f"axes must match; got shapes {shapes[0]} and {shapes[1]} with {axis=}")
    if dtypes.is_complex(get_aval(x).dtype):
        x = el.conj(x)
    x, y = moveaxis(x, places[0], -1), moveaxis(y, places[1], -1)
    return _batched("vecdot", x, y, ("k", "k"), precision, preferred_element_type)


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of matrices (n, m) and vectors (m,), the leading axes broadcast.

    Raises ValueError when there are too few axes or the sizes m differ.

    >>> import xpr.numpy as jnp
    >>> jnp.matvec(jnp.ones((5, 2, 3)), jnp.ones(3)).shape
    (5, 2)
    """
    x, y = _operands("matvec", x1, x2)
    _check_cores("matvec", "(n,m),(m)->(n)", x, y, ("nk", "k"))
    return _batched("matvec", x, y, ("nk", "k"))


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of vectors (n,), conjugated, and matrices (n, m), the leading axes broadcast.

    Raises ValueError when there are too few axes or the sizes n differ.

    >>> import xpr.numpy as jnp
    >>> jnp.vecmat(jnp.ones(2), jnp.ones((5, 2, 3))).shape
    (5, 3)
    """
    x, y = _operands("vecmat", x1, x2)
    _check_cores("vecmat", "(n),(n,m)->(m)", x, y, ("k", "km"))
    if dtypes.is_complex(get_aval(x).dtype):
        x = el.conj(x)
    return _batched("vecmat", x, y, ("k", "km"))


def _check_cores(name: str, signature: str, x: Any, y: Any, cores: tuple[str, str]) -> None:
    sizes = []
    for v, core in zip((x, y), cores, strict=True):
        shape = get_aval(v).shape
        if len(shape) < len(core):
            raise ValueError(
                f"input with shape {shape} does not have enough dimensions for all core "
                f"dimensions of {name}, whose signature is {signature!r}"
            )
        sizes.append(shape[core.index("k") - len(core)])
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"inconsistent size for core dimension of {name}, whose signature is {signature!r}: "
            f"{sizes[1]} vs {sizes[0]}"
        )


# ---- products without sums


def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """The products of each element of `a` with each of `b`, both flattened.

    >>> import xpr.numpy as jnp
    >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.outer is not supported.")
    x, y = _operands("outer", a, b)
    x, y = promote_dtypes(x, y)
    return multiply(sh.expand_dims(ravel(x), (1,)), sh.expand_dims(ravel(y), (0,)))


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: `a` with each element replaced by that element times `b`.

    >>> import xpr.numpy as jnp
    >>> jnp.kron(jnp.array([1, 10]), jnp.array([1, 2]))
    Array([ 1,  2, 10, 20], dtype=int32)
    """
    x, y = promote_dtypes(*_operands("kron", a, b))
    rank = max(get_aval(x).ndim, get_aval(y).ndim)
    x, y = sh.broadcast_to_rank(x, rank), sh.broadcast_to_rank(y, rank)
    shape = [m * n for m, n in zip(get_aval(x).shape, get_aval(y).shape, strict=True)]
    x = sh.expand_dims(x, range(1, 2 * rank, 2))
    y = sh.expand_dims(y, range(0, 2 * rank, 2))
    return reshape(el.mul(x, y), shape)


def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """The cross product of vectors of 3 (or 2: the third is 0) elements along an axis.

    The vectors lie along `axisa`, `axisb` and, in the result, `axisc`; `axis` stands for all three.
    Two vectors of 2 elements give only the third element. Raises ValueError for other sizes.

    >>> import xpr.numpy as jnp
    >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    x, y = (without_weak_type(v) for v in promote_dtypes(*_operands("cross", a, b)))
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    sizes = x.shape[-1], y.shape[-1]
    if not set(sizes) <= {2, 3}:
        raise ValueError(
            f"Dimension must be either 2 or 3 for cross product, got {sizes[0]} and {sizes[1]}"
        )
    lead = sh.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    u = [sl.index_in_dim(x, i, x.ndim - 1, False) for i in range(sizes[0])]
    v = [sl.index_in_dim(y, i, y.ndim - 1, False) for i in range(sizes[1])]

    def minor(i: int, j: int) -> Any:
        """u[i] v[j] - u[j] v[i], where a missing element is 0."""
        first = multiply(u[i], v[j]) if i < sizes[0] and j < sizes[1] else None
        second = multiply(u[j], v[i]) if j < sizes[0] and i < sizes[1] else None
        if first is None:
            return el.neg(second)
        return first if second is None else subtract(first, second)

    if sizes == (2, 2):
        return as_array(minor(0, 1))
    parts = [minor(1, 2), minor(2, 0), minor(0, 1)]
    columns = [sh.expand_dims(broadcast_to_shape(p, lead), (len(lead),)) for p in parts]
    return moveaxis(concatenate(columns, len(lead)), -1, axisc)


# ---- trace


def trace(
    a: ArrayLike,
    offset: Any = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike = None,
    out: None = None,
) -> Array:
    """The sum along a diagonal of the plane of two axes, `offset` places above the main one.

    Small integers are summed in int32 or uint32, unless `dtype` is given; `offset` may be traced.
    Raises ValueError for equal axes and axes out of range.

    >>> import xpr.numpy as jnp
    >>> jnp.trace(jnp.arange(6).reshape(2, 3), offset=1)
    Array(6, dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.trace is not supported.")
    x = as_operand("trace", a)
    ndim = get_aval(x).ndim
    first, second = canonicalize_axis(axis1, ndim), canonicalize_axis(axis2, ndim)
    if first == second:
        raise ValueError(f"axis1 and axis2 can not be same. axis1={axis1} and axis2={axis2}")
    planes = moveaxis(x, (first, second), (-2, -1))
    if isinstance(offset, Tracer):
        return _sum(_only_diagonal(planes, offset), axis=(-2, -1), dtype=dtype)
    return _sum(diagonal_of_planes(planes, int(offset)), axis=-1, dtype=dtype)


def _only_diagonal(x: Any, offset: Any) -> Any:
    """`x` with zeros outside a diagonal of its last two axes."""
    index = dtypes.default_dtype("i")
    shape: Shape = get_aval(x).shape[-2:]
    rows = el.add(broadcasted_iota(index, shape, 0), convert_type(offset, index))
    mask = cmp.eq(rows, broadcasted_iota(index, shape, 1))
    zero = broadcast_to_shape(get_aval(x).dtype.type(0), get_aval(x).shape)
    return select_where(broadcast_to_shape(mask, get_aval(x).shape), x, zero)


def diagonal_of_planes(x: Any, offset: int) -> Any:
    """A diagonal of the last two axes of `x`, as its last axis: a strided slice."""
    *lead, rows, columns = get_aval(x).shape
    start = offset if offset >= 0 else -offset * columns
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    if not length:
        return sl.slice_in_dim(sh.reshape(x, (*lead, rows * columns)), 0, 0, axis=len(lead))
    flat = sh.reshape(x, (*lead, rows * columns))
    stop = start + (length - 1) * (columns + 1) + 1
    return sl.slice_in_dim(flat, start, stop, columns + 1, axis=len(lead))


op_matmul, op_rmatmul = operator_of(matmul, "@"), reflected(matmul, "@")
