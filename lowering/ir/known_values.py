"""Which values the compiler may come to know as one number repeated.

Only what MLIR's canonicalisation of single operations and the merging of equal ones can do counts:
floats are folded only with all operands known, integers also with an operand that decides alone
(`x * 0`), or with equal operands (`x - x`, `x == x`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xpr.core import dtypes
from xpr.lowering.ir.constants import is_hidden_zero, splat_of
from xpr.lowering.ir.graph import Block, Module, Op, Value
from xpr.lowering.ir.memo import resolve
from xpr.lowering.ir.traits import ON_ELEMENTS, Kind

Roots = frozenset["Value | None"]
"""The values that a value was computed from, element by element; None for too many of them."""

NO_ROOTS: Roots = frozenset()
"""Of a value that was not computed element by element: it is its own root."""

_MAX_ROOTS = 8
_MANY: Roots = frozenset({None})

# Operations of two integers that are one number when their operands are equal or each other's
# complement. Of `and` nothing but zeros can come in this way, which a sum does not mind.
_OF_EQUALS = frozenset(
    f"stablehlo.{name}" for name in ("subtract", "xor", "compare", "divide", "remainder", "or")
)
# Elementwise operations whose results count as new values: formulas, and parts of complex numbers.
_NEW = frozenset(f"stablehlo.{name}" for name in ("map", "complex", "real", "imag", "clamp"))
_WHILE = "stablehlo.while"
# What rearranges the elements of its first operand.
_OF_FIRST = frozenset({"stablehlo.gather", "stablehlo.dynamic_slice"})


class KnownValues:
    """What is known of the values of a graph, found when it is asked for."""

    def __init__(self, module: Module | None = None) -> None:
        """With a `module`, none of whose blocks is being changed, what is called is looked into.

        So are branches and loops.
        """
        self._functions = None if module is None else {f.name: f for f in module.functions}
        self._known: dict[Value, bool] = {}
        self._roots: dict[Value, Roots] = {}

    def is_known(self, x: Value) -> bool:
        """Whether the compiler may know `x`, as one number repeated."""
        known = self._known
        pending = [x]
        while pending:
            v = pending[-1]
            if v in known:
                pending.pop()
                continue
            op = v.op
            operands = _elements(op)
            needs_all = op is None or not operands or _needs_all(op, operands)
            operands = operands or self._given(v)
            if not operands:
                known[v] = op is not None and op.name == "stablehlo.constant"
                continue
            for u in operands:
                found = known.get(u)
                if found is None:
                    pending.append(u)
                    break
                if needs_all and not found:
                    known[v] = False
                    break
            else:
                known[v] = op is None or needs_all or self._is_result_known(op, operands)
        return known[x]

    def _given(self, x: Value) -> Sequence[Value]:
        """What a result of a branch, a loop or a call may be, or what a loop carries unchanged."""
        op = x.op
        if self._functions is None:
            return ()
        if op is None:
            block = x.owner
            if not isinstance(block, Block) or not isinstance(block.parent, Op):
                return ()
            loop, i = block.parent, list(block.arguments).index(x)
            if loop.name != _WHILE:
                return ()
            return loop.operands[i : i + 1] if _is_invariant(loop, i) else ()
        i = list(op.results).index(x)
        if op.name == "stablehlo.case":
            return [region.ops[-1].operands[i] for region in op.regions]
        if op.name == _WHILE:
            start = op.operands[i]
            return (start,) if _is_invariant(op, i) else (start, op.regions[1].ops[-1].operands[i])
        callee = self._functions.get(op.attributes.get("callee", ""))
        return () if callee is None else (callee.body.ops[-1].operands[i],)

    def roots(self, x: Value) -> Roots:
        """The values that `x` was computed from, element by element."""
        return resolve(self._roots, x, self._computed_from, self._roots_of)

    def _computed_from(self, x: Value) -> Sequence[Value]:
        op = x.op
        if op is None or op.kind is not Kind.ELEMENTWISE or _is_new(op):
            return ()
        return [v for v in _elements(op) if not self.is_known(v)]

    def _roots_of(self, x: Value, operands: Sequence[Value]) -> Roots:
        found = NO_ROOTS
        for v in operands:
            roots = self._roots[v] or frozenset((v,))
            # Long formulas of few values: most operations have the roots of one operand.
            if roots is not found and not roots <= found:
                found = found | roots if found else roots
        return found if len(found) <= _MAX_ROOTS else _MANY

    def _is_result_known(self, op: Op, operands: Sequence[Value]) -> bool:
        known = [self._known[v] for v in operands]
        if op.name == "stablehlo.select":
            return self._is_choice_known(known, *operands)
        return all(known) or self._is_one_number(op, known, *operands)

    def _is_choice_known(self, known: Sequence[bool], pred: Value, a: Value, b: Value) -> bool:
        of_pred, of_a, of_b = known
        if a is b:
            return of_a
        if of_pred:
            return of_a or of_b
        if of_a and of_b:
            first, second = splat_of(a), splat_of(b)
            return first is None or second is None or first == second
        return False

    def _is_one_number(self, op: Op, known: Sequence[bool], a: Value, b: Value) -> bool:
        """Whether an operation of two, not both of them known, may give one number."""
        for one, is_known in zip((a, b), known, strict=True):
            if is_known:
                number = splat_of(one)
                if number is None or _decides(op.name, int(number), a.dtype):
                    return True
        if op.name not in _OF_EQUALS:
            return False
        if op.name == "stablehlo.or" and not (_is_inverted(a) or _is_inverted(b)):
            return False
        if op.name == "stablehlo.xor" and is_hidden_zero(b):
            return False  # a copy
        return a is b or (not any(known) and self._are_related(a, b))

    def _are_related(self, a: Value, b: Value) -> bool:
        """Whether the two may be equal, or complements, for every value of their roots."""
        mine, other = self.roots(a), self.roots(b)
        if not (mine or other):
            return False
        mine, other = mine or frozenset((a,)), other or frozenset((b,))
        return None in mine or None in other or not mine.isdisjoint(other)


def _is_invariant(loop: Op, i: int) -> bool:
    """Whether the step of a loop hands on what it carries at that place."""
    step = loop.regions[1]
    return step.ops[-1].operands[i] is step.arguments[i]


def _needs_all(op: Op, operands: Sequence[Value]) -> bool:
    """Whether a result is known if and only if all operands are.

    Floats may be NaN, so that nothing is decided by one side or by equality.
    """
    if op.name == "stablehlo.select":
        return False
    return len(operands) != 2 or dtypes.kind(operands[0].dtype) in "fc"


def _elements(op: Op | None) -> Sequence[Value]:
    """The operands that the elements of a result are computed from, where it may be known."""
    if op is None or len(op.results) != 1:
        return ()
    if op.name in _OF_FIRST:
        return op.operands[:1]
    kind = op.kind
    if kind in ON_ELEMENTS:
        return op.operands
    return ()


def _is_new(op: Op) -> bool:
    x = op.operands[0]
    if op.name == "stablehlo.abs":
        return x.dtype.kind == "c"
    return op.name in _NEW or (
        op.name == "stablehlo.bitcast_convert" and x.shape != op.result.shape
    )


def _decides(name: str, number: int, dtype: np.dtype[Any]) -> bool:
    """Whether an operation with this integer on one side has a result that needs no other side."""
    if dtypes.kind(dtype) == "b":
        low, high = 0, 1
    else:
        limits: Any = np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.iinfo(dtype)
        low, high = int(limits.min), int(limits.max)
    ones = high if low == 0 else -1
    return {
        "stablehlo.multiply": number == 0,
        "stablehlo.and": number == 0,
        "stablehlo.or": number == ones,
        "stablehlo.remainder": number in (1, -1),
        "stablehlo.divide": number == 0,
        "stablehlo.minimum": number == low,
        "stablehlo.maximum": number == high,
        "stablehlo.compare": number in (low, high),
    }.get(name, False)


def _is_inverted(x: Value) -> bool:
    return x.op is not None and x.op.name == "stablehlo.not"
