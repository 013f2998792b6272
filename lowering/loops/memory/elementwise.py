"""Rules of elementwise operations: those of lowering, on registers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.primitive import Primitive
from xpr.lowering.loops.memory.affine import ZERO
from xpr.lowering.loops.memory.arrays import Array, Map, Moved, Scalar, actual, moved
from xpr.lowering.loops.memory.costs import cost_of_operation
from xpr.lowering.loops.memory.nest import applied, number
from xpr.lowering.loops.memory.program import Program
from xpr.lowering.loops.memory.scalars import constant_folded
from xpr.lowering.loops.refusal import NotInMemory
from xpr.lowering.loops.registers.table import register_rule


def elementwise(
    p: Program, primitive: Primitive, avals: Sequence[ShapedArray], *xs: Array, **params: Any
) -> Array:
    (aval,) = avals
    xs = tuple(_one_number(x) for x in xs)
    found = constant_folded(primitive.name, xs, aval)
    if found is not None:
        return found
    rule = functools.partial(register_rule(primitive, p.ctx.target), **params)
    if all(isinstance(x, Scalar) for x in xs):
        scalars = [x for x in xs if isinstance(x, Scalar)]
        return numbers(p, primitive, rule, scalars, aval)
    xs = tuple(_stretched(x, aval.shape) for x in xs)
    return Map(rule, xs, aval.shape, aval.dtype, cost_of_operation(primitive))


def _stretched(x: Array, shape: tuple[int, ...]) -> Array:
    """`x` repeated along its unit axes."""
    if x.shape in ((), shape):
        return x
    if len(x.shape) != len(shape):
        raise NotInMemory("elements of another width")
    unit = [n == 1 for n in x.shape]
    return moved(
        x, shape, lambda index: tuple(ZERO if u else i for i, u in zip(index, unit, strict=True))
    )


def _one_number(x: Array) -> Array:
    """The number that all elements of `x` are, if it is written as one."""
    x = actual(x)
    if isinstance(x, Moved) and isinstance(x.operand, Scalar):
        return x.operand.shaped(())
    return x.shaped(()) if isinstance(x, Scalar) else x


def numbers(
    p: Program, primitive: Primitive, rule: Any, xs: Sequence[Scalar], aval: ShapedArray
) -> Array:
    """An operation on numbers, done at once, and once for the same numbers."""
    found = applied(p.ctx, rule, [number(p.ctx, x) for x in xs], aval.dtype, ())
    one = Scalar((), aval.dtype, found)
    return full(one, aval.shape)


def full(x: Array, shape: tuple[int, ...]) -> Array:
    """An array of one number."""
    assert isinstance(x, Scalar)
    return moved(x, shape, lambda _: ())
