"""Along which manual axes values vary: types inside the body of a `shard_map`.

The body runs once for each device. A value *varies* along an axis of the mesh when devices that
differ along it may have different values; one that does not is the same for all of them. `vma`
("varying manual axes") of an aval holds the axes along which it varies. An operation on values that
vary along different axes first makes all of them vary along all of these, by the primitive `pvary`,
which computes nothing: but its transpose is a sum along the axes, and so derivatives come right.

A primitive may say itself along which axes its results vary: its rule `vma(avals, found, params)`
gets the types of its operands and what its abstract rule found, and gives the types of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from xpr.core.aval import ShapedArray, reduced_axes
from xpr.core.context import context
from xpr.core.jaxpr import sub_jaxprs
from xpr.core.trace import get_aval

if TYPE_CHECKING:
    from xpr.core.primitive import Primitive

Axes = frozenset[str]


def joined(avals: Iterable[ShapedArray]) -> Axes:
    """The axes along which a value that depends on such values varies."""
    return frozenset().union(*(a.vma for a in avals))


def in_order(axes: Iterable[str]) -> tuple[str, ...]:
    """Those of `axes` that are manual here, in the mesh's order."""
    wanted = frozenset(axes)
    return tuple(a for a in context.manual_axes if a in wanted)


def varying_cast(aval: ShapedArray, axes: Iterable[str]) -> str:
    """The name of the primitive that makes a value of this type vary along `axes`."""
    reduced = reduced_axes(aval)
    return "reduced_vary_cast" if reduced and reduced == frozenset(axes) else "pvary"


def varying_alike(
    primitive: Primitive, args: Sequence[Any], vary: Callable[[Any, tuple[str, ...]], Any]
) -> Sequence[Any]:
    """Operands that all vary along the same axes: `vary(x, axes)` makes `x` vary along more.

    Primitives that say themselves how their results vary, and those that hold programs, take
    operands as they are.
    """
    if primitive.vma is not None or len(args) < 2:
        return args
    found = [get_aval(x).vma for x in args]
    union = frozenset().union(*found)
    if all(v == union for v in found):
        return args
    return [
        vary(x, missing) if (missing := in_order(union - v)) else x
        for x, v in zip(args, found, strict=True)
    ]


def with_vma(aval: ShapedArray, vma: Axes) -> ShapedArray:
    """The type that varies along `vma`, and nothing else changed."""
    return aval if aval.vma == vma else aval.update(vma=vma)


def result_types(
    primitive: Primitive, avals: Sequence[ShapedArray], found: Any, params: dict[str, Any]
) -> Any:
    """What the abstract rule found, with the axes along which the results vary."""
    if primitive.vma is not None:
        return primitive.vma(avals, found, params)
    union = joined(avals)
    if primitive.multiple_results:
        return [with_vma(a, union) for a in found]
    return with_vma(found, union)


def of_programs(avals: Sequence[ShapedArray], found: Any, params: dict[str, Any]) -> Any:
    """The rule of primitives whose results are those of a program that they hold.

    The program's own types say how the results vary. Where an operand varies along more axes than
    the program was traced for, so may every result.
    """
    given = joined(avals)
    expected = frozenset().union(*(a.vma for sub in sub_jaxprs(params) for a in sub.in_avals))
    more = given - expected
    return [with_vma(a, a.vma | more) for a in found] if more else list(found)


def of_operands(avals: Sequence[ShapedArray], found: Any, params: dict[str, Any]) -> Any:
    """The rule of primitives that take operands as they are: results vary as all of these."""
    del params
    union = joined(avals)
    return [with_vma(a, union) for a in found]
