"""`Expr`: StableHLO values with Python's operators, for writing numerical algorithms down.

Comparisons give boolean expressions; `&`, `|` and `~` combine them. Shifts to the right bring in
zeros for unsigned integers and copies of the sign bit for signed ones.

The compiler may contract a product and a sum into one fused operation, so no algorithm here relies
on a product being rounded before it is added; sums and differences are never reordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.lowering.context import LoweringContext, Value

Number = int | float
Operand = "Expr | int | float | np.generic"


class Expr:
    """A value of the program under construction."""

    __slots__ = ("ctx", "value")

    def __init__(self, ctx: LoweringContext, value: Value) -> None:
        self.ctx = ctx
        self.value = value

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value.dtype

    def _of(self, value: Value) -> Expr:
        return Expr(self.ctx, value)

    def like(self, number: Any) -> Expr:
        """A constant of this value's type."""
        return self._of(self.ctx.full_like(self.value, number))

    def _pair(self, other: Any) -> tuple[Any, Any]:
        return self.value, other.value if isinstance(other, Expr) else other

    def _binary(self, op: str, other: Any, swapped: bool = False) -> Expr:
        a, b = self._pair(other)
        return self._of(self.ctx.binary(op, b, a) if swapped else self.ctx.binary(op, a, b))

    def unary(self, op: str) -> Expr:
        """`stablehlo.<op>` of this value."""
        return self._of(self.ctx.unary(op, self.value))

    def __add__(self, other: Any) -> Expr:
        return self._binary("add", other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Expr:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Expr:
        return self._binary("subtract", other, swapped=True)

    def __mul__(self, other: Any) -> Expr:
        return self._binary("multiply", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Expr:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Any) -> Expr:
        return self._binary("divide", other, swapped=True)

    def __neg__(self) -> Expr:
        return self.unary("negate")

    def __abs__(self) -> Expr:
        return self._of(self.ctx.abs(self.value))

    def __and__(self, other: Any) -> Expr:
        return self._binary("and", other)

    def __or__(self, other: Any) -> Expr:
        return self._binary("or", other)

    def __xor__(self, other: Any) -> Expr:
        return self._binary("xor", other)

    def __invert__(self) -> Expr:
        return self.unary("not")

    def __lshift__(self, other: Any) -> Expr:
        return self._binary("shift_left", other)

    def __rshift__(self, other: Any) -> Expr:
        signed = self.dtype.kind == "i"
        return self._binary("shift_right_arithmetic" if signed else "shift_right_logical", other)

    def _compare(self, direction: str, other: Any) -> Expr:
        a, b = self._pair(other)
        return self._of(self.ctx.compare(direction, a, b))

    def __lt__(self, other: Any) -> Expr:
        return self._compare("LT", other)

    def __le__(self, other: Any) -> Expr:
        return self._compare("LE", other)

    def __gt__(self, other: Any) -> Expr:
        return self._compare("GT", other)

    def __ge__(self, other: Any) -> Expr:
        return self._compare("GE", other)

    def eq(self, other: Any) -> Expr:
        """Whether the two are equal."""
        return self._compare("EQ", other)

    def ne(self, other: Any) -> Expr:
        """Whether the two differ."""
        return self._compare("NE", other)

    def max(self, other: Any) -> Expr:
        """The greater of the two, NaN if either is."""
        return self._binary("maximum", other)

    def min(self, other: Any) -> Expr:
        """The lesser of the two, NaN if either is."""
        return self._binary("minimum", other)

    def is_nan(self) -> Expr:
        """Whether it is NaN."""
        return self.ne(self)

    def to(self, dtype: Any) -> Expr:
        """Converted, unguarded: a float must fit the integer type."""
        return self._of(self.ctx.convert(self.value, dtype))

    def bits(self, dtype: Any) -> Expr:
        """The same bits as another type of the same width."""
        return self._of(self.ctx.bitcast(self.value, dtype))

    def floor(self) -> Expr:
        """The greatest whole number below."""
        return self.unary("floor")

    def round(self) -> Expr:
        """The nearest whole number, halves to even."""
        return self.unary("round_nearest_even")

    def sqrt(self) -> Expr:
        """The square root, correctly rounded."""
        return self.unary("sqrt")

    def copysign(self, sign: Expr) -> Expr:
        """This magnitude with the sign bit of another value."""
        unsigned = np.dtype(f"u{self.dtype.itemsize}")
        mask = 1 << (8 * self.dtype.itemsize - 1)
        magnitude = self.bits(unsigned) & (mask - 1)
        return (magnitude | (sign.bits(unsigned) & mask)).bits(self.dtype)

    def sign_bit(self) -> Expr:
        """Whether the sign bit is set, which -0.0 and some NaNs have too."""
        return self.bits(np.dtype(f"i{self.dtype.itemsize}")) < 0


def where(condition: Expr, on_true: Any, on_false: Any) -> Expr:
    """`on_true` where the condition holds, else `on_false`; one of them must be an Expr."""
    a = on_true.value if isinstance(on_true, Expr) else on_true
    b = on_false.value if isinstance(on_false, Expr) else on_false
    return Expr(condition.ctx, condition.ctx.select(condition.value, a, b))


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """The sum of `coefficients[i] * x**i`, by Horner's rule."""
    result: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        result = x * result + c
    return result if isinstance(result, Expr) else x.like(result)


def by_dtype(x: Expr, single: Any, double: Any) -> Any:
    """The table for the dtype of `x`: float32 or float64."""
    return single if x.dtype == np.float32 else double


def least_normal(x: Expr) -> float:
    """The least normal number of the dtype of x.

    What takes a number's bits apart compares with it, never with 0: whether a denormal number is
    greater than 0 depends on how the compiler came to compare.
    """
    return float(np.finfo(x.dtype).tiny)


def power_of_two(k: Expr, dtype: np.dtype[Any]) -> Expr:
    """`2.0**k` for an integer k of the float's width whose result is a normal number."""
    stored, bias = (23, 127) if dtype == np.float32 else (52, 1023)
    return ((k + bias) << stored).bits(dtype)


# ---- doubled precision: unevaluated sums high + low


def opaque(x: Expr) -> Expr:
    """`x`, of which no compiler knows how it was made: for sums that must not be rearranged.

    Some drivers compute (a + b) - a as b. Adding a bit that is always zero, the last one of the
    product of two neighbours, costs four integer operations, which only such targets pay.
    """
    if x.ctx.target.exact_sums:
        return x
    bits = x.bits(np.dtype(f"u{x.dtype.itemsize}"))
    return (bits ^ ((bits * (bits + 1)) & 1)).bits(x.dtype)


def fast_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a + b exactly, for |a| >= |b| or a == 0 (Dekker 1971)."""
    total = opaque(a + b)
    return total, b - (total - a)


def exact_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a + b exactly (Knuth, The Art of Computer Programming, volume 2, section 4.2.2)."""
    total = opaque(a + b)
    part = opaque(total - a)
    return total, (a - (total - part)) + (b - part)


def halves(x: Expr) -> tuple[Expr, Expr]:
    """`x` as a sum of two numbers of half as many bits, whose products are exact.

    The upper bits are cut out: the usual multiplication by 2**s + 1 fails when it is contracted.
    """
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    mask = by_dtype(x, 0xFFFFF000, 0xFFFFFFFFF8000000)
    high = (x.bits(unsigned) & mask).bits(x.dtype)
    return high, x - high


def exact_product(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """x * y as a sum of two numbers, up to a rounding of the second (Dekker 1971)."""
    product = x * y
    error = x.ctx.product_error(x.value, y.value, product.value)
    if error is not None:
        return product, Expr(x.ctx, error)
    xh, xl = halves(x)
    yh, yl = halves(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl
