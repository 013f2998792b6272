"""Einstein's sum: any product of arrays, summed over any labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xpr.core import dtypes
from xpr.core.placing import given_sharding, resharded
from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand
from xpr.numpy._typing import Array, DType, DTypeLike
from xpr.numpy.dtype_api import requested_dtype
from xpr.primitives import reduce as rd
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives.convert import convert_type
from xpr.primitives.dot_general import dot_general

if TYPE_CHECKING:
    from xpr.numpy._einsum_plan import Diagonal, Preparation, Step


def _arguments(name: str, subscripts: Any, operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    if isinstance(subscripts, str):
        text, given = subscripts, list(operands)
    else:
        from xpr.numpy._einsum_plan import from_interleaved  # noqa: PLC0415  as below

        text, given = from_interleaved((subscripts, *operands))
    return text, [as_operand(name, x, i) for i, x in enumerate(given)]


def _hashable(optimize: Any) -> Any:
    if isinstance(optimize, (str, bool)):
        return optimize
    return tuple(tuple(int(i) for i in pair) for pair in optimize if pair != "einsum_path")


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    _dot_general: Callable[..., Array] = dot_general,
    out_sharding: Any = None,
) -> Array:
    """The product of arrays, summed over labels: `einsum("ij,jk->ik", a, b)` multiplies matrices.

    Each operand has a label for each of its axes. Axes with one label run together; a label that
    the result lacks is summed over; a label that an operand repeats picks its diagonal. "..."
    stands for axes that are broadcast. Without "->" the result has the axes of "..." and then, in
    alphabetical order, the labels that occur once. `einsum(a, [0, 1], b, [1, 2], [0, 2])`
    says the same with labels as sequences. Axes of size 1 go with any size.

    Operands meet in pairs, each pair in one `dot_general`; `optimize` says how the order is found:
    a method of opt_einsum, False for from left to right, True for the best, or a list of pairs.
    The result has the promoted dtype of all operands, or `preferred_element_type`.

    Raises ValueError, which names the subscripts, for labels that do not fit.

    >>> import xpr.numpy as jnp
    >>> jnp.einsum("ij,j->i", jnp.arange(6).reshape(2, 3), jnp.ones(3, int))
    Array([ 3, 12], dtype=int32)

    The order of contraction is found as in D. G. A. Smith and J. Gray, "opt_einsum - A Python
    package for optimizing contraction order for einsum-like expressions", JOSS 3(26), 2018.
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.einsum is not supported.")
    text, xs = _arguments("einsum", subscripts, operands)
    from xpr.numpy._einsum_plan import plan  # noqa: PLC0415  most programs have no einsum

    steps = plan(text, tuple(get_aval(x).shape for x in xs), _hashable(optimize))
    given = given_sharding("einsum", out_sharding)
    if given is not None and not _is_contraction(steps):
        options: dict[str, Any] = {
            "optimize": optimize,
            "precision": precision,
            "preferred_element_type": preferred_element_type,
            "_dot_general": _dot_general,
        }
        return resharded("einsum", given, lambda: einsum(subscripts, *operands, **options))
    avals = [get_aval(x) for x in xs]
    dtype, weak = dtypes.promote_avals(*((a.dtype, a.weak_type) for a in avals))
    if preferred_element_type is not None:
        dtype, weak = requested_dtype(preferred_element_type, "einsum"), False
    for step in steps:
        taken = {i: xs[i] for i in step.operands}
        prepared = dict(zip(step.operands, step.preparations, strict=True))
        for i in sorted(taken, reverse=True):
            taken[i] = _prepared(taken[i], prepared[i], dtype)
            del xs[i]
        found = [taken[i] for i in step.operands]
        if step.dimension_numbers is None:
            value = found[0]
        else:
            value = _dot_general(
                *found,
                step.dimension_numbers,
                precision=precision,
                preferred_element_type=dtype,
                **({} if given is None else {"out_sharding": _unturned(given, step.permutation)}),
            )
        if step.permutation is not None:
            value = sh.transpose(value, step.permutation)
        xs.append(value)
    return as_array(convert_type(xs[0], dtype, weak))


def _is_contraction(steps: Sequence[Step]) -> bool:
    """Whether one product of two operands is all there is to do."""
    return len(steps) == 1 and steps[0].dimension_numbers is not None


def _unturned(sharding: Any, permutation: Sequence[int] | None) -> Any:
    """The sharding of what, its axes permuted, is sharded as given."""
    if permutation is None:
        return sharding
    parts: list[Any] = [None] * len(permutation)
    spec = sharding.normalized_spec(len(permutation))
    for axis, axes in zip(permutation, spec, strict=True):
        parts[axis] = axes
    return sharding.with_spec(sharding.spec.update(partitions=parts))


def _prepared(x: Any, how: Preparation, dtype: DType) -> Any:
    if how.squeeze:
        x = sh.squeeze(x, how.squeeze)
    for diagonal in how.diagonals:
        x = _diagonal(x, diagonal)
    if how.sums:
        aval = get_aval(x)
        common, weak = dtypes.promote_avals((aval.dtype, aval.weak_type), (dtype, False))
        if common == dtypes.BOOL:
            return rd.reduce_or(x, how.sums)
        x = rd.reduce_sum(convert_type(x, common, weak), how.sums)
    return x


def _diagonal(x: Any, how: Diagonal) -> Any:
    if how.permutation is not None:
        x = sh.transpose(x, how.permutation)
    x = sh.reshape(x, how.merged)
    return sl.slice_in_dim(x, 0, how.merged[how.axis], how.stride, axis=how.axis)


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: Any = "auto"
) -> tuple[list[tuple[int, ...]], Any]:
    """The order in which `einsum` would contract its operands, and a report of what that costs.

    The order is a list of the positions of the operands that meet; each result goes to the end of
    the list. It can be given to `einsum` as `optimize`.

    >>> import xpr.numpy as jnp
    >>> a, b, c = jnp.ones((2, 9)), jnp.ones((9, 9)), jnp.ones((9, 2))
    >>> jnp.einsum_path("ij,jk,kl", a, b, c)[0]
    [(0, 1), (0, 1)]
    """
    from opt_einsum import contract_path  # noqa: PLC0415  slow to load and rarely needed

    from xpr.numpy._einsum_plan import parse  # noqa: PLC0415  as above

    text, xs = _arguments("einsum_path", subscripts, operands)
    shapes = [get_aval(x).shape for x in xs]
    parse(text, tuple(shapes))
    method = "optimal" if optimize is True else optimize
    path, report = contract_path(text, *shapes, shapes=True, optimize=method)
    return list(path), report
