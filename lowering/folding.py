"""Which values the compiler may come to know as one number repeated.

IREE folds a sum, product or window whose operand is one number repeated as if it had few elements
(the hazard "reductions of uniform values" in docs/hazards.md). What may become such a value is
marked here, from operation to operation, and kept behind a barrier where it is reduced.

Only what MLIR's canonicalisation of single operations and the merging of equal ones can do counts:
floats are folded only with all operands known, integers also with an operand that decides alone
(`x * 0`), or with equal operands (`x - x`, `x == x`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from xpr.core import dtypes

if TYPE_CHECKING:
    from xpr.lowering.value import Value

SOLID = 0
"""Known when the program runs."""
KNOWN = 1
"""Perhaps known to the compiler, as one number repeated."""

Roots = frozenset["Value | None"]
"""The values that a value was computed from, element by element; None for too many of them."""

NO_ROOTS: Roots = frozenset()
"""Of a value that was not computed element by element: it is its own root."""

_MAX_ROOTS = 8
_MANY: Roots = frozenset({None})

# Operations of two integers that are one number when their operands are equal or each other's
# complement. Of `and` nothing but zeros can come in this way, which a sum does not mind.
_OF_EQUALS = frozenset({"subtract", "xor", "compare", "divide", "remainder", "or"})


# What puts elements in other places: two arrangements of one value are not equal to each other.
_ARRANGEMENTS = frozenset(
    {
        *("broadcast_in_dim", "concatenate", "dynamic_slice", "pad"),
        *("reshape", "reverse", "slice", "transpose"),
    }
)


def roots_of(op: str, operands: Sequence[Value]) -> Roots:
    """The roots of what `op` computes from `operands`."""
    found = NO_ROOTS
    if op in _ARRANGEMENTS:
        return found
    for v in operands:
        if v.fold == KNOWN:
            continue
        roots = v.roots or frozenset((v,))
        # Long formulas of few values: most operations have the roots of one operand.
        if roots is not found and not roots <= found:
            found = found | roots if found else roots
    return found if len(found) <= _MAX_ROOTS else _MANY


def _related(a: Value, b: Value) -> bool:
    """Whether the two may be equal, or complements, for every value of what they depend on."""
    if a is b:
        return True
    if a.fold == KNOWN or b.fold == KNOWN:
        return False
    if not a.roots and not b.roots:
        return False
    mine, other = a.roots or {a}, b.roots or {b}
    return None in mine or None in other or not mine.isdisjoint(other)


def _decides(op: str, number: int, dtype: np.dtype[Any]) -> bool:
    """Whether `op` with this integer on one side has a result that needs no other side."""
    if dtypes.kind(dtype) == "b":
        low, high = 0, 1
    else:
        limits: Any = np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.iinfo(dtype)
        low, high = int(limits.min), int(limits.max)
    ones = high if low == 0 else -1
    return {
        "multiply": number == 0,
        "and": number == 0,
        "or": number == ones,
        "remainder": number in (1, -1),
        "divide": number == 0,
        "minimum": number == low,
        "maximum": number == high,
        "compare": number in (low, high),
    }.get(op, False)


def fold_of(op: str, operands: Sequence[Value]) -> int:
    """The mark of an elementwise operation's result, or of another arrangement of elements."""
    if op == "select":
        return _of_select(*operands)
    for v in operands:
        if v.fold != KNOWN:
            return _of_two(op, *operands) if len(operands) == 2 else SOLID
    return KNOWN


def _of_select(pred: Value, a: Value, b: Value) -> int:
    if a is b:
        return a.fold
    if pred.fold == KNOWN:
        return KNOWN if KNOWN in (a.fold, b.fold) else SOLID
    if a.fold == b.fold == KNOWN:
        differ = a.splat is not None and b.splat is not None and a.splat != b.splat
        return SOLID if differ else KNOWN
    return SOLID


def _of_two(op: str, a: Value, b: Value) -> int:
    if dtypes.kind(a.dtype) in "fc":
        # Floats may be NaN, so that nothing is decided by one side or by equality.
        return SOLID
    for one in (a, b):
        if one.fold == KNOWN and (one.splat is None or _decides(op, int(one.splat), a.dtype)):
            return KNOWN
    if op == "or" and not (_is_inverted(a) or _is_inverted(b)):
        return SOLID
    return KNOWN if op in _OF_EQUALS and _related(a, b) else SOLID


def _is_inverted(x: Value) -> bool:
    return x.op is not None and x.op.name == "stablehlo.not"
