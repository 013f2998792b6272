"""What the special functions share: their operands, polynomials, sines of multiples of pi."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import tree_util
from xpr.core import dtypes
from xpr.core.trace import get_aval, is_eager
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import convert, promote_args_inexact
from xpr.numpy._typing import Array
from xpr.transforms.custom_jvp import SymbolicZero, custom_jvp

# For each dtype, the coefficients of a numerator and a denominator, highest powers first.
Table = Mapping[str, tuple[Sequence[float], Sequence[float]]]


def floats(name: str, *args: Any) -> list[Array]:
    """The operands of the function `name` as arrays of one floating or complex dtype."""
    promoted, _ = promote_args_inexact(name, *args)
    return [as_array(x) for x in promoted]


def reals(name: str, *args: Any) -> list[Array]:
    """The operands of the function `name` as arrays of one floating dtype.

    Raises ValueError for complex numbers.
    """
    out = floats(name, *args)
    if dtypes.is_complex(out[0].dtype):
        raise ValueError(f"{name} does not support complex-valued inputs.")
    return out


def strong(*args: Array) -> list[Array]:
    """The arrays without weak types."""
    return [convert(x, x.dtype) if get_aval(x).weak_type else x for x in args]


def strong_with_axes(*args: Array) -> list[Array]:
    """The arrays without weak types, if the first one has axes; JAX types many results so."""
    return strong(*args) if args[0].ndim else list(args)


def strong_reals(name: str, *args: Any) -> list[Array]:
    """As `reals`, and not weakly typed."""
    return strong(*reals(name, *args))


def only_32_or_64(name: str, x: Any) -> Array:
    """The operand of a function of float32 and float64 only; TypeError for other dtypes."""
    array = jnp.asarray(x)
    if array.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise TypeError(
            f"{name}: dtype={array.dtype} is not supported, only float32 and float64 are."
        )
    return strong(array)[0]


def rounded_once(function: Callable[..., Any], *args: Array) -> Any:
    """`function(*args)`, where 16-bit floats are computed in float32 and rounded at the end."""
    dtype = args[0].dtype
    if dtype.itemsize > 2:
        return function(*args)
    out = function(*(x.astype(np.float32) for x in args))
    return tuple(x.astype(dtype) for x in out) if isinstance(out, tuple) else out.astype(dtype)


def on_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` for operands that may be Python numbers, as transformations pass them."""
    return lambda *args: function(*(as_array(x) for x in args))


def with_tangents(
    value: Callable[..., Any], *rules: Callable[..., Any] | None
) -> Callable[..., Any]:
    """`value` with the rule `rules[i](tangent, out, *args)` for its i-th argument, None for 0.

    Arguments that do not move add nothing, even where the derivative is infinite. Where nothing is
    traced the rules are not needed, and `value` alone is faster.
    """
    ruled = custom_jvp(on_arrays(value))

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        args = [as_array(x) for x in primals]
        out = ruled(*args)
        total = tree_util.tree_map(jnp.zeros_like, out)
        for rule, tangent in zip(rules, tangents, strict=True):
            if rule is not None and not isinstance(tangent, SymbolicZero):
                total = tree_util.tree_map(jnp.add, total, rule(tangent, out, *args))
        return out, total

    ruled.defjvp(jvp, symbolic_zeros=True)
    return lambda *args: value(*args) if is_eager() else ruled(*args)


def horner(x: Array, coefficients: Sequence[float]) -> Array:
    """The polynomial with these coefficients, highest power first."""
    out = jnp.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        out = out * x + c
    return out


def ratio(x: Array, table: Table) -> Array:
    """The rational function that `table` holds for the dtype of `x`."""
    above, below = table[x.dtype.name]
    return horner(x, above) / horner(x, below) if len(below) > 1 else horner(x, above)


@functools.cache
def bernoulli_fractions(n: int) -> tuple[Fraction, ...]:
    """Bernoulli's numbers B_0 to B_n, with B_1 = -1/2, by their recurrence (DLMF 24.5.3)."""
    numbers = [Fraction(1)]
    for m in range(1, n + 1):
        if m > 1 and m % 2:
            numbers.append(Fraction(0))
            continue
        total = sum((math.comb(m + 1, k) * b for k, b in enumerate(numbers)), Fraction(0))
        numbers.append(-total / (m + 1))
    return tuple(numbers)


def is_whole(x: Array) -> Array:
    """Whether the elements are finite whole numbers."""
    return jnp.isfinite(x) & (x == jnp.floor(x))


def is_pole(x: Array) -> Array:
    """Whether gamma is infinite there: at 0 and at negative whole numbers."""
    return (x <= 0) & is_whole(x)


def sin_pi(x: Array) -> Array:
    """sin(pi x), exact at multiples of 1/2."""
    x = jnp.fmod(x, 2.0)
    # Now |x| < 2; the nearest whole number is taken away without rounding.
    whole = jnp.round(x)
    odd = jnp.abs(whole) == 1
    # Slopes of pieces that are nowhere chosen do no harm: rounding has slope 0.
    value = jnp.sin(math.pi * (x - whole))
    return jnp.where(odd, -value, value)


def cos_pi(x: Array) -> Array:
    """cos(pi x), exact at multiples of 1/2."""
    x = jnp.abs(jnp.fmod(x, 2.0))
    return jnp.sin(math.pi * (0.5 - jnp.where(x > 1, 2.0 - x, x)))


def exp_neg_square(x: Array, scale: float = 1.0) -> Array:
    """exp(-scale x**2) for `scale` 1 or 1/2, without the error that rounding x**2 would make.

    x is split in a multiple of 1/8, whose square is exact, and a remainder, as in W. J. Cody,
    "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969).
    """
    x = jnp.minimum(jnp.abs(x), 64.0)
    head = jnp.round(x * 8.0) * 0.125
    return jnp.exp(-scale * head * head) * jnp.exp(-scale * ((x - head) * (x + head)))
