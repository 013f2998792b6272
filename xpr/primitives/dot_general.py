"""Contractions: `dot_general`, and the matrix products that are special cases of it."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.placing import bound_there, given_sharding, places_now, resharded
from xpr.core.primitive import define
from xpr.core.trace import get_aval
from xpr.interpreters.zeros import cotangent_aval
from xpr.primitives import _ops as ops
from xpr.primitives._precision import (
    DotAlgorithm,
    DotAlgorithmPreset,
    Precision,
    canonicalize_precision,
)
from xpr.primitives.convert import convert_element_type_p
from xpr.primitives.families import ANY, require_kind
from xpr.primitives.rules import BatchAxis, Dim, Partials, is_linear, shape_of

__all__ = [
    "DotAlgorithm",
    "DotAlgorithmPreset",
    "DotDims",
    "Precision",
    "batch_matmul",
    "dot",
    "dot_general",
]

NDArray = np.ndarray[Any, Any]
Axes = tuple[int, ...]
# ((lhs contracting, rhs contracting), (lhs batch, rhs batch)): the form in jaxprs.
DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


@dataclass(frozen=True, slots=True)
class DotDims:
    """Which axes of two operands a contraction sums over and which it runs along together.

    Contracting axes are summed over in pairs, batch axes are kept in pairs; all others are free.
    The result's axes are the batch axes, then lhs's free ones, then rhs's.

    >>> DotDims((1,), (0,)).out_shape((2, 3), (3, 4))
    (2, 4)
    """

    lhs_contract: Axes
    rhs_contract: Axes
    lhs_batch: Axes = ()
    rhs_batch: Axes = ()

    def __post_init__(self) -> None:
        for kind, left, right in (
            ("contracting", self.lhs_contract, self.rhs_contract),
            ("batch", self.lhs_batch, self.rhs_batch),
        ):
            if len(left) != len(right):
                raise TypeError(
                    f"dot_general requires equal numbers of lhs_{kind} and rhs_{kind} dimensions, "
                    f"got lhs_{kind} {left} and rhs_{kind} {right}."
                )
        for side, contract, batch in (
            ("lhs", self.lhs_contract, self.lhs_batch),
            ("rhs", self.rhs_contract, self.rhs_batch),
        ):
            for kind, axes in (("contracting", contract), ("batch", batch)):
                if len(set(axes)) != len(axes):
                    raise TypeError(
                        f"dot_general requires {side} {kind} dimensions to be distinct, got "
                        f"{side}_{kind} {axes}."
                    )
            if set(contract) & set(batch):
                raise TypeError(
                    f"dot_general requires {side} batch dimensions to be disjoint from contracting "
                    f"dimensions, got {side}_batch {batch} and {side}_contracting {contract}."
                )

    @staticmethod
    def of(numbers: DotDimensionNumbers) -> DotDims:
        """From the nested tuples ((lhs contracting, rhs contracting), (lhs batch, rhs batch))."""
        return _dot_dims(numbers)

    @property
    def numbers(self) -> tuple[tuple[Axes, Axes], tuple[Axes, Axes]]:
        """The nested tuples that jaxprs hold."""
        return ((self.lhs_contract, self.rhs_contract), (self.lhs_batch, self.rhs_batch))

    def check_shapes(self, lhs: Axes, rhs: Axes) -> None:
        """Raises TypeError unless the axes exist and paired sizes agree."""
        for side, shape, contract, batch in (
            ("lhs", lhs, self.lhs_contract, self.lhs_batch),
            ("rhs", rhs, self.rhs_contract, self.rhs_batch),
        ):
            if not all(0 <= a < len(shape) for a in (*contract, *batch)):
                raise TypeError(
                    f"dot_general requires {side} dimension numbers to be nonnegative and less "
                    f"than the number of axes of the {side} value, got {side}_batch of {batch} and "
                    f"{side}_contracting of {contract} for {side} of rank {len(shape)}"
                )
        for kind, left, right in (
            ("batch", self.lhs_batch, self.rhs_batch),
            ("contracting", self.lhs_contract, self.rhs_contract),
        ):
            for i, j in zip(left, right, strict=True):
                if lhs[i] != rhs[j]:
                    sizes = tuple(lhs[a] for a in left), tuple(rhs[a] for a in right)
                    raise TypeError(
                        f"dot_general requires {kind} dimensions to have the same shape, got "
                        f"{sizes[0]} and {sizes[1]}. Sizes {lhs[i]} (lhs axis {i}) and {rhs[j]} "
                        f"(rhs axis {j}) of shapes {lhs} and {rhs} differ."
                    )

    def free_axes(self, side: int, rank: int) -> Axes:
        """The axes of operand `side` (0 lhs, 1 rhs) that are neither contracting nor batch."""
        used = (
            (*self.lhs_contract, *self.lhs_batch)
            if side == 0
            else (*self.rhs_contract, *self.rhs_batch)
        )
        return tuple(i for i in range(rank) if i not in used)

    def out_shape(self, lhs: Axes, rhs: Axes) -> Axes:
        """The shape of the result: batch sizes, lhs's free sizes, rhs's free sizes."""
        return (
            *(lhs[i] for i in self.lhs_batch),
            *(lhs[i] for i in self.free_axes(0, len(lhs))),
            *(rhs[i] for i in self.free_axes(1, len(rhs))),
        )

    def sizes(self, lhs: Axes, rhs: Axes) -> tuple[int, int, int, int]:
        """The sizes (batch, m, n, k) of the equivalent batch of matrix products."""
        return (
            math.prod(lhs[i] for i in self.lhs_batch),
            math.prod(lhs[i] for i in self.free_axes(0, len(lhs))),
            math.prod(rhs[i] for i in self.free_axes(1, len(rhs))),
            math.prod(lhs[i] for i in self.lhs_contract),
        )

    def for_transpose(self, side: int, lhs_rank: int, rhs_rank: int) -> tuple[DotDims, Axes, bool]:
        """How the cotangent of operand `side` is made from the result's and the other operand.

        Returns the dimensions of dot_general(cotangent, other), the permutation that brings its
        result into the operand's order of axes, and whether the two are to change places because
        no permutation is needed then.
        """
        if side == 0:
            mine, rank, my_contract, my_batch = 0, lhs_rank, self.lhs_contract, self.lhs_batch
            other_rank, contract, batch = rhs_rank, self.rhs_contract, self.rhs_batch
        else:
            mine, rank, my_contract, my_batch = 1, rhs_rank, self.rhs_contract, self.rhs_batch
            other_rank, contract, batch = lhs_rank, self.lhs_contract, self.lhs_batch
        my_free = self.free_axes(mine, rank)
        other_free = self.free_axes(1 - mine, other_rank)
        count = len(batch)
        # The cotangent's axes: batch, lhs free, rhs free.
        first = count + (len(my_free) if side == 0 else 0)
        dims = DotDims(
            tuple(range(first, first + len(other_free))), other_free, tuple(range(count)), batch
        )
        # Its product's axes: batch, my free ones, then the contracting ones in the other's order.
        order = sorted(range(len(contract)), key=contract.__getitem__)
        contracted = [my_contract[i] for i in order]
        axes = (*my_batch, *my_free, *contracted)
        if my_free and contracted and (*my_batch, *contracted, *my_free) == tuple(range(rank)):
            return dims.swapped(), tuple(range(rank)), True
        return dims, tuple(sorted(range(rank), key=axes.__getitem__)), False

    def swapped(self) -> DotDims:
        """The dimensions when the operands change places."""
        return DotDims(self.rhs_contract, self.lhs_contract, self.rhs_batch, self.lhs_batch)

    def with_batch_dims(
        self, lhs: int | None, rhs: int | None, lhs_rank: int, rhs_rank: int
    ) -> tuple[DotDims, int]:
        """The dimensions when operands have one more axis, at `lhs` and `rhs`, and its place.

        The ranks are those of the operands with it. Where both have it, it becomes the first
        batch axis; where one has it, a free axis. The second value is its place in the result.
        """

        def moved(axes: Axes, new: int | None) -> Axes:
            return axes if new is None else tuple(a + (a >= new) for a in axes)

        lhs_contract, lhs_batch = moved(self.lhs_contract, lhs), moved(self.lhs_batch, lhs)
        rhs_contract, rhs_batch = moved(self.rhs_contract, rhs), moved(self.rhs_batch, rhs)
        if lhs is not None and rhs is not None:
            return DotDims(lhs_contract, rhs_contract, (lhs, *lhs_batch), (rhs, *rhs_batch)), 0
        dims = DotDims(lhs_contract, rhs_contract, lhs_batch, rhs_batch)
        lhs_free = dims.free_axes(0, lhs_rank)
        if lhs is not None:
            return dims, len(lhs_batch) + lhs_free.index(lhs)
        assert rhs is not None
        first = len(lhs_batch) + len(lhs_free)
        return dims, first + dims.free_axes(1, rhs_rank).index(rhs)


@functools.lru_cache(maxsize=4096)
def _dot_dims(numbers: Any) -> DotDims:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    return DotDims(lhs_contract, rhs_contract, lhs_batch, rhs_batch)


def _axes(axes: Sequence[int]) -> Axes:
    return tuple(operator.index(a) for a in axes)


# ---- the primitive


def _dot_general_abstract(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    dimension_numbers: DotDimensionNumbers,
    precision: Any,
    preferred_element_type: np.dtype[Any] | None,
    out_sharding: Any = None,
) -> ShapedArray:
    dims = DotDims.of(dimension_numbers)
    dims.check_shapes(lhs.shape, rhs.shape)
    for position, operand in enumerate((lhs, rhs)):
        require_kind("dot_general", operand, ANY, position)
    # One weakly typed operand does not take the other's dtype here, as in JAX.
    weak = lhs.weak_type and rhs.weak_type
    dtype = dtypes.joined(lhs.dtype, rhs.dtype)
    if preferred_element_type is not None:
        _check_preferred(dtype, preferred_element_type)
        dtype = preferred_element_type
    return ShapedArray(dims.out_shape(lhs.shape, rhs.shape), dtype, weak)


def _check_preferred(dtype: np.dtype[Any], preferred: np.dtype[Any]) -> None:
    kinds = dtypes.kind(dtype), dtypes.kind(preferred)
    if kinds[0] in "iu" and kinds[1] in "iu" and preferred.itemsize < dtype.itemsize:
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type, got "
            f"preferred_element_type of {preferred} for result type of {dtype}."
        )


def accumulation_dtype(
    lhs: np.dtype[Any], rhs: np.dtype[Any], result: np.dtype[Any]
) -> np.dtype[Any]:
    """The dtype that products are summed in: the result's, at least 32 bits wide for floats."""
    common = dtypes.joined(lhs, rhs)
    kind, wanted = dtypes.kind(common), dtypes.kind(result)
    if kind in "iub" and wanted in "iub":
        return result
    wide = common if wanted in "iub" else dtypes.joined(common, result)
    if wide.itemsize < 4 and dtypes.is_float(wide):
        return np.dtype(np.float32)
    return wide


def _is_matmul(lhs: NDArray, rhs: NDArray, dtype: np.dtype[Any]) -> bool:
    """Whether NumPy's `matmul` multiplies such matrices and vectors in the right dtype."""
    shapes = 1 <= lhs.ndim <= 2 and 1 <= rhs.ndim <= 2
    return shapes and lhs.dtype == rhs.dtype == dtype and dtype in (np.float32, np.float64)


def _dot_general_reference(
    lhs: NDArray,
    rhs: NDArray,
    *,
    dimension_numbers: DotDimensionNumbers,
    precision: Any,
    preferred_element_type: np.dtype[Any] | None,
    out_sharding: Any = None,
) -> NDArray:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    dtype = preferred_element_type or dtypes.joined(lhs.dtype, rhs.dtype)
    if _is_matmul(lhs, rhs, dtype) and not lhs_batch:
        if lhs_contract == (lhs.ndim - 1,) and rhs_contract == (0,):
            return np.matmul(lhs, rhs)
    wide = accumulation_dtype(lhs.dtype, rhs.dtype, dtype)
    # Both operands as stacks of matrices, batch x m x k and batch x k x n, which BLAS multiplies.
    lhs_free = [i for i in range(lhs.ndim) if i not in lhs_contract and i not in lhs_batch]
    rhs_free = [i for i in range(rhs.ndim) if i not in rhs_contract and i not in rhs_batch]
    batch = [lhs.shape[i] for i in lhs_batch]
    m, n = [lhs.shape[i] for i in lhs_free], [rhs.shape[i] for i in rhs_free]
    depth = math.prod(lhs.shape[i] for i in lhs_contract)
    left = lhs.transpose((*lhs_batch, *lhs_free, *lhs_contract))
    left = left.reshape((*batch, math.prod(m), depth)).astype(wide, copy=False)
    right = rhs.transpose((*rhs_batch, *rhs_contract, *rhs_free))
    right = right.reshape((*batch, depth, math.prod(n))).astype(wide, copy=False)
    found = np.matmul(left, right).reshape((*batch, *m, *n))
    return convert_element_type_p.reference(found, new_dtype=dtype, weak_type=False)


def _dot_general_printed(params: dict[str, Any]) -> dict[str, Any]:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = params["dimension_numbers"]
    numbers = ([*lhs_contract], [*rhs_contract]), ([*lhs_batch], [*rhs_batch])
    rest = {k: v for k, v in params.items() if v is not None and k != "dimension_numbers"}
    return {"dimension_numbers": numbers, **rest}


def _dot_general_transpose(
    ct: Any,
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: DotDimensionNumbers,
    precision: Any,
    preferred_element_type: np.dtype[Any] | None,
    out_sharding: Any = None,
) -> list[Any]:
    """The cotangent contracted with the other operand over that operand's free axes."""
    del out_sharding
    side = 0 if is_linear(lhs) else 1
    mine, other = (lhs, rhs) if side == 0 else (rhs, lhs)
    numbers = DotDims.of(dimension_numbers)
    dims, order, swap = numbers.for_transpose(side, len(shape_of(lhs)), len(shape_of(rhs)))
    wanted = mine.aval.dtype
    product = dtypes.joined(get_aval(ct).dtype, get_aval(other).dtype)
    # One product may both sum in the wide type and round to the operand's.
    narrow = product != wanted and dtypes.is_float(product) and dtypes.is_float(wanted)
    operands = (other, ct) if swap else (ct, other)
    found = dot_general_p.bind(
        *operands,
        dimension_numbers=dims.numbers,
        precision=precision,
        preferred_element_type=wanted if narrow or preferred_element_type == wanted else None,
        out_sharding=_parts_of_sum(mine.aval, operands, dims.numbers, order),
    )
    if order != tuple(range(len(order))):
        found = ops.transpose(found, order)
    if product != wanted and not narrow:
        found = ops.convert(found, wanted)
    return [found, None] if side == 0 else [None, found]


def _parts_of_sum(
    aval: ShapedArray,
    operands: Sequence[Any],
    dimension_numbers: DotDimensionNumbers,
    order: Sequence[int],
) -> Any:
    """How the product is sharded that becomes, its axes in `order`, the cotangent of an operand.

    Of an operand that is reduced along the mesh axes that are summed over, it is each device's part
    of the sum; None where that is not so, and the cotangent is put where it belongs afterwards.
    """
    sharding = cotangent_aval(aval).sharding
    if sharding is None or not sharding.spec.unreduced or sharding.mesh.are_all_axes_manual:
        return None
    contracting, _ = dimension_numbers
    for x, dims in zip(operands, contracting, strict=True):
        found = get_aval(x).sharding
        if found is None:
            return None
        spec = found.normalized_spec(get_aval(x).ndim)
        if {a for d in dims for a in spec[d]} != sharding.spec.unreduced:
            return None
    parts: list[Any] = [None] * aval.ndim
    for axis, axes in zip(order, sharding.normalized_spec(aval.ndim), strict=True):
        parts[axis] = axes
    return sharding.with_spec(sharding.spec.update(partitions=parts))


def _batch_first(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    dimension_numbers: DotDimensionNumbers,
    precision: Any,
    **params: Any,
) -> tuple[Any, int]:
    """`_dot_general_batch` with the operands swapped."""
    contract, batch = dimension_numbers
    return _dot_general_batch(
        axis,
        args[::-1],
        dims[::-1],
        dimension_numbers=((contract[1], contract[0]), (batch[1], batch[0])),
        precision=precision[::-1] if isinstance(precision, tuple) else precision,
        **params,
    )


def _dot_general_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    dimension_numbers: DotDimensionNumbers,
    **params: Any,
) -> tuple[Any, int]:
    lhs, rhs = (len(shape_of(x)) for x in args)
    given = params.get("out_sharding")
    if given is None and dims[0] is None and rhs - 1 == len(dimension_numbers[0][1]):
        # A matrix times a batch of vectors: as the batch times the matrix, the batch comes first,
        # and what follows works on whole rows.
        return _batch_first(axis, args, dims, dimension_numbers=dimension_numbers, **params)
    numbers, place = DotDims.of(dimension_numbers).with_batch_dims(dims[0], dims[1], lhs, rhs)
    if given is not None:
        batched = sum(d is not None for d in dims)
        (contracted, _), (shared, _) = dimension_numbers
        ndim = lhs + rhs - batched - 2 * len(contracted) - len(shared)
        params["out_sharding"] = axis.added_to(given, ndim, place)
    return dot_general_p.bind(*args, dimension_numbers=numbers.numbers, **params), place


dot_general_p = define(
    "dot_general",
    family="dot_general",
    doc="Sums products over contracting axes, along shared batch axes.",
    abstract=_dot_general_abstract,
    reference=_dot_general_reference,
    jvp=Partials(
        lambda t, out, lhs, rhs, **params: dot_general_p.bind(t, rhs, **params),
        lambda t, out, lhs, rhs, **params: dot_general_p.bind(lhs, t, **params),
    ),
    transpose=_dot_general_transpose,
    batch=_dot_general_batch,
    pp_params=_dot_general_printed,
)


# ---- the functions


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """The sum of products of `lhs` and `rhs` over contracting axes, along shared batch axes.

    `dimension_numbers` is ((lhs contracting, rhs contracting), (lhs batch, rhs batch)), each a
    sequence of axes; axes are paired in order. The result has the batch axes, then the free
    axes of `lhs`, then those of `rhs`.

    Any dtype; the result has the promoted dtype of the two, or `preferred_element_type`. 16-bit
    floats are summed in float32; integers wrap around; for bool the sum is "or". `precision` says
    what GPUs with tensor cores may make of float32: with "tensorfloat32" or "high" three products
    of bfloat16 (a relative error of 2^-15 in each term), with "BF16_BF16_F32" one. Without it they
    compute in full precision, as the CPU always does.

    Raises TypeError when the axes do not exist, repeat, or differ in number or size.

    >>> a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    >>> dot_general(a, b, (((1,), (0,)), ((), ()))).shape
    (2, 4)
    """
    if places_now(out_sharding):
        return resharded(
            "dot_general",
            out_sharding,
            lambda: dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type),
        )
    if hasattr(type(lhs), "__jax_array__"):
        lhs = lhs.__jax_array__()
    if hasattr(type(rhs), "__jax_array__"):
        rhs = rhs.__jax_array__()
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    numbers = (_axes(lhs_contract), _axes(rhs_contract)), (_axes(lhs_batch), _axes(rhs_batch))
    preferred = (
        None if preferred_element_type is None else dtypes.canonicalize(preferred_element_type)
    )
    return bound_there(
        dot_general_p,
        lhs,
        rhs,
        dimension_numbers=numbers,
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred,
        out_sharding=given_sharding("dot_general", out_sharding),
    )


def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The product of two vectors, a matrix and a vector, or two matrices.

    With `dimension_numbers` any contraction, as `dot_general`, which also states the dtypes.
    Without, raises ValueError unless both have rank 1 or 2 and the inner sizes agree.

    >>> dot(np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32))
    Array(11., dtype=float32)
    """
    if dimension_numbers is None:
        left, right = get_aval(lhs).shape, get_aval(rhs).shape
        if not (1 <= len(left) <= 2 and 1 <= len(right) <= 2 and left[-1] == right[0]):
            raise ValueError(
                "jax.lax.dot: dimension_numbers must be specified when not performing simple "
                "un-batched matrix-matrix, matrix-vector, or vector-vector products; got "
                f"lhs_shape={left} rhs_shape={right}"
            )
        dimension_numbers = (((len(left) - 1,), (0,)), ((), ()))
    return dot_general(
        lhs,
        rhs,
        dimension_numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Array:
    """Matrix products over the last two axes, one for each index of the leading axes.

    Shapes (..., m, k) and (..., k, n) with equal leading sizes give (..., m, n). Raises
    ValueError when ranks differ or are below 2, TypeError when sizes do not go together.

    >>> batch_matmul(np.ones((5, 2, 3), np.float32), np.ones((5, 3, 4), np.float32)).shape
    (5, 2, 4)
    """
    left, right = get_aval(lhs).ndim, get_aval(rhs).ndim
    if left < 2 or right < 2:
        raise ValueError(f"Arguments to batch_matmul must be at least 2D, got {left}, {right}")
    if left != right:
        raise ValueError(f"Arguments to batch_matmul must have same ndim, got {left}, {right}")
    batch = tuple(range(left - 2))
    return dot_general(lhs, rhs, (((left - 1,), (left - 2,)), (batch, batch)), precision=precision)
