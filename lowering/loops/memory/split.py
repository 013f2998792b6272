"""Loops whose elements know nothing of each other, cut in parts, each of them a loop of its own.

Ray marching, Newton's method on many numbers, the Mandelbrot set: all rounds of a part are done
while it lies in the nearest cache, and several threads share the parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from xpr.lowering.context import Shape
from xpr.primitives import ELEMENTWISE_FAMILIES

# Operations on elements in all rounds from which on parts are worth their threads.
_LEAST_WORK = 1 << 20
# Elements of a part, about: a few arrays of them fit into the nearest cache.
_PART = 1024


@dataclass(frozen=True)
class Split:
    """The arrays of shape `shape` are cut in `count` parts of `size` elements, in their order."""

    shape: Shape
    count: int
    size: int

    def is_cut(self, shape: Shape) -> bool:
        """Whether arrays of a shape are among those that are cut."""
        return shape == self.shape

    def part(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program on parts."""
        known: dict[Var, Var] = {}

        def moved(atom: Atom) -> Atom:
            if isinstance(atom, Literal):
                return atom
            if atom not in known:
                aval = atom.aval
                known[atom] = Var(self.aval(aval)) if self.is_cut(aval.shape) else atom
            return known[atom]

        def equation(e: JaxprEqn) -> JaxprEqn:
            params = dict(e.params)
            if e.primitive.name == "broadcast_in_dim":
                params |= {"shape": (self.size,), "broadcast_dimensions": ()}
            invars, outvars = list(map(moved, e.invars)), list(map(moved, e.outvars))
            return e.replace(invars=invars, outvars=outvars, params=params)

        jaxpr = closed.jaxpr
        changed = jaxpr.replace(
            invars=list(map(moved, jaxpr.invars)),
            eqns=list(map(equation, jaxpr.eqns)),
            outvars=list(map(moved, jaxpr.outvars)),
        )
        return ClosedJaxpr(changed, closed.consts)

    def aval(self, aval: ShapedArray) -> ShapedArray:
        return ShapedArray((self.size,), aval.dtype) if self.is_cut(aval.shape) else aval


def split_of(programs: Sequence[ClosedJaxpr], rounds: int) -> Split | None:
    """How a loop with these programs is cut; None if its elements depend on each other."""
    shapes = {a.shape for c in programs for a in (*c.in_avals, *c.out_avals) if a.shape}
    if len(shapes) != 1:
        return None
    (shape,) = shapes
    if not all(_is_elementwise(c.jaxpr, shape) for c in programs):
        return None
    elements = math.prod(shape)
    work = sum(len(c.jaxpr.eqns) for c in programs) * elements * rounds
    if work < _LEAST_WORK or elements < 2 * _PART:
        return None
    counts = [n for n in range(2, 4 * elements // _PART) if elements % n == 0]
    count = min(counts, key=lambda n: abs(elements // n - _PART), default=0)
    if not count or elements // count < _PART // 4:
        return None
    return Split(shape, count, elements // count)


def _is_elementwise(jaxpr: Jaxpr, shape: Shape) -> bool:
    """Whether there are only operations on numbers, and on elements of arrays of one shape."""
    if jaxpr.constvars or jaxpr.effects:
        return False
    for eqn in jaxpr.eqns:
        if any(v.aval.shape not in ((), shape) for v in (*eqn.invars, *eqn.outvars)):
            return False
        if eqn.primitive.name == "broadcast_in_dim":
            if eqn.invars[0].aval.shape:
                return False
        elif eqn.primitive.family not in ELEMENTWISE_FAMILIES:
            return False
    return True
