"""Short ways to say derivative, transpose and batching rules, and what such rules are written with.

The marks (`LinearJVP()`, `Partials(...)`, ...) are given to `define`, which asks each for the rule
of the primitive at hand. Rules bind primitives under the trace that is current when they run, so
that rules are differentiated and batched in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.primitive import DerivedRule, Primitive, Rule, get_primitive
from xpr.core.trace import get_aval
from xpr.interpreters.batching import (
    BatchAxis,
    Dim,
    at_front,
    at_place,
    move_axis,
    moved_to_front,
)
from xpr.interpreters.transpose import Linear, is_linear
from xpr.interpreters.zeros import (
    Zero,
    add_tangents,
    full,
    instantiate,
    tangent_aval,
    zero_tangent,
    zeros,
)

__all__ = [
    "BatchAxis",
    "Dim",
    "ElementwiseBatch",
    "Linear",
    "LinearJVP",
    "NoTangent",
    "Partials",
    "Zero",
    "add_tangents",
    "at_front",
    "at_place",
    "broadcast_to",
    "const_like",
    "expand_dims",
    "full_like",
    "instantiate",
    "is_linear",
    "move_axis",
    "moved_to_front",
    "shape_of",
    "tangent_aval",
    "unbroadcast",
    "zero_tangent",
    "zeros",
]


# ---- small things to write rules with


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of a value or of a `Linear` or `Zero`."""
    aval = x.aval if isinstance(x, (Linear, Zero)) else get_aval(x)
    return aval.shape


def const_like(x: Any, value: complex) -> Any:
    """`value` as a rank-0 constant of the dtype of `x`, weakly typed if that is."""
    aval = x.aval if isinstance(x, (Linear, Zero)) else get_aval(x)
    scalar = np.asarray(value).astype(aval.dtype)[()]
    if not aval.weak_type:
        return scalar
    number = scalar.item()
    return number if get_aval(number).dtype == aval.dtype else scalar


def full_like(x: Any, value: float) -> Any:
    """An array of the type of `x` with all elements equal to `value`."""
    return full(get_aval(x), value)


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """`x` with axes of size 1 stretched, or a rank-0 `x` repeated, to `shape`."""
    found = shape_of(x)
    shape = tuple(shape)
    if found == shape:
        return x
    first = len(shape) - len(found)
    return get_primitive("broadcast_in_dim").bind(
        x, shape=shape, broadcast_dimensions=tuple(range(first, len(shape))), sharding=None
    )


def expand_dims(x: Any, axes: Sequence[int]) -> Any:
    """`x` with axes of size 1 at the places `axes` of the result."""
    shape = list(shape_of(x))
    if not axes:
        return x
    for axis in sorted(axes):
        shape.insert(axis, 1)
    kept = tuple(i for i in range(len(shape)) if i not in set(axes))
    return get_primitive("broadcast_in_dim").bind(
        x, shape=tuple(shape), broadcast_dimensions=kept, sharding=None
    )


def unbroadcast(ct: Any, shape: Sequence[int]) -> Any:
    """A cotangent summed to `shape`, from which its own shape came by broadcasting."""
    shape = tuple(shape)
    if type(ct) is Zero or shape_of(ct) == shape:
        return ct
    found = shape_of(ct)
    first = len(found) - len(shape)
    summed = tuple(
        i for i, n in enumerate(found) if i < first or (shape[i - first] == 1 and n != 1)
    )
    total = get_primitive("reduce_sum").bind(ct, axes=summed, out_sharding=None)
    if shape_of(total) == shape:
        return total
    return get_primitive("reshape").bind(total, new_sizes=shape, dimensions=None, sharding=None)


# ---- marks for JVP rules


class LinearJVP(DerivedRule):
    """The primitive is linear in all its operands together: it maps tangents as it maps values."""

    def rule_for(self, primitive: Primitive) -> Rule:
        def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
            out = primitive.bind(*primals, **params)
            return out, primitive.bind(*map(instantiate, tangents), **params)

        return jvp


class NoTangent(DerivedRule):
    """The result's tangent is zero: integers, comparisons, piecewise constant functions."""

    def rule_for(self, primitive: Primitive) -> Rule:
        def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
            del tangents
            out = primitive.bind(*primals, **params)
            if primitive.multiple_results:
                return out, [zero_tangent(x) for x in out]
            return out, zero_tangent(out)

        return jvp


class Partials(DerivedRule):
    """The tangent is the sum of one term for each operand that has one.

    Each term is `term(tangent, out, *primals, **params)`; None for an operand without derivative.
    """

    def __init__(self, *terms: Rule | None) -> None:
        self.terms = terms

    def rule_for(self, primitive: Primitive) -> Rule:
        terms = self.terms

        def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
            out = primitive.bind(*primals, **params)
            total: Any = None
            shape = shape_of(out)
            for term, tangent in zip(terms, tangents, strict=True):
                if term is None or type(tangent) is Zero:
                    continue
                part = broadcast_to(term(tangent, out, *primals, **params), shape)
                total = part if total is None else add_tangents(total, part)
            return out, zero_tangent(out) if total is None else total

        return jvp


# ---- marks for batching rules


class ElementwiseBatch(DerivedRule):
    """The primitive works element by element on operands of one shape, or of rank 0."""

    def rule_for(self, primitive: Primitive) -> Rule:
        def batch(axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any) -> Any:
            if len(args) == 1:
                return primitive.bind(*args, **params), dims[0]
            operands, dim = elementwise_operands(args, dims)
            return primitive.bind(*operands, **params), dim

        return batch


def elementwise_operands(args: Sequence[Any], dims: Sequence[Dim]) -> tuple[list[Any], int]:
    """Operands of an elementwise operation with their batch axes at one place.

    Operands without a batch axis get one of size 1, those of rank 0 axes of size 1 to the rank of
    the others, so that broadcasting does the rest.
    """
    ranks = [len(shape_of(x)) - (d is not None) for x, d in zip(args, dims, strict=True)]
    rank = max(ranks)
    places = {d for d in dims if d is not None}
    same = all(r == 0 if d is None else r == rank for d, r in zip(dims, ranks, strict=True))
    if len(places) == 1 and same:
        return list(args), places.pop()
    operands = []
    for x, d, r in zip(args, dims, ranks, strict=True):
        if d is None:
            operands.append(expand_dims(x, [0]) if r else x)
        else:
            front = move_axis(x, d, 0)
            operands.append(front if r == rank else expand_dims(front, range(1, rank - r + 1)))
    return operands, 0
