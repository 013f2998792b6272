"""Elementwise functions of the parts of numbers: rounding, mantissas, neighbours, complex parts."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import (
    broadcast_all,
    convert,
    literal_type,
    one_inexact,
    one_operand,
    promote_args_inexact,
    refuse_out,
    with_weak_type_of,
)
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike, DType
from xpr.numpy.logic import isfinite, isinf, isnan
from xpr.numpy.ufuncs import copysign
from xpr.primitives import compare as cmp
from xpr.primitives import elementary as fn
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives.convert import bitcast_convert_type_p, convert_element_type_p
from xpr.primitives.creation import full_like
from xpr.primitives.custom import stop_gradient

_TO_EVEN = el.RoundingMethod.TO_NEAREST_EVEN

# ---- rounding


def floor(x: ArrayLike, /) -> Array:
    """The greatest whole number not above `x`; integers are their own. TypeError for complex.

    >>> import xpr.numpy as jnp
    >>> jnp.floor(jnp.array([1.7, -1.2]))
    Array([ 1., -2.], dtype=float32)
    """
    x, dtype = one_operand("floor", x)
    return as_array(x) if dtypes.kind(dtype) in "biu" else el.floor_p.bind(x)


def ceil(x: ArrayLike, /) -> Array:
    """The least whole number not below `x`; integers are their own. TypeError for complex.

    >>> import xpr.numpy as jnp
    >>> jnp.ceil(jnp.array([1.2, -1.2]))
    Array([ 2., -1.], dtype=float32)
    """
    x, dtype = one_operand("ceil", x)
    return as_array(x) if dtypes.kind(dtype) in "biu" else el.ceil_p.bind(x)


def trunc(x: ArrayLike) -> Array:
    """`x` without its fraction; integers are their own. TypeError for complex.

    >>> import xpr.numpy as jnp
    >>> jnp.trunc(jnp.array([1.7, -1.7]))
    Array([ 1., -1.], dtype=float32)
    """
    x, dtype = one_operand("trunc", x)
    if dtypes.kind(dtype) in "biu":
        return as_array(x)
    negative = cmp.lt_p.bind(x, dtype.type(0))
    return select_where(negative, el.ceil_p.bind(x), el.floor_p.bind(x))


def rint(x: ArrayLike, /) -> Array:
    """The nearest whole number, halves to even; integers become floats.

    The parts of a complex number are rounded each for itself.

    >>> import xpr.numpy as jnp
    >>> jnp.rint(jnp.array([0.5, 1.5, 1.6]))
    Array([0., 2., 2.], dtype=float32)
    """
    x, dtype = one_operand("rint", x)
    if dtypes.kind(dtype) in "biu":
        return as_array(convert(x, dtypes.default_dtype("f")))
    return _nearest(x, dtype)


def _nearest(x: Any, dtype: DType) -> Array:
    if dtypes.is_complex(dtype):
        parts = (el.real_p.bind(x), el.imag_p.bind(x))
        return el.complex_p.bind(*(el.round_p.bind(p, rounding_method=_TO_EVEN) for p in parts))
    return el.round_p.bind(x, rounding_method=_TO_EVEN)


def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """`a` rounded to `decimals` places after the point (before it if negative), halves to even.

    A number that has fewer digits than that stays as it is. Integers are their own. Raises
    NotImplementedError for integers with negative `decimals`.

    >>> import xpr.numpy as jnp
    >>> jnp.round(jnp.array([1.25, -0.5]), 1)
    Array([ 1.2, -0.5], dtype=float32)
    """
    refuse_out("round", out)
    places = operator.index(decimals)
    x, dtype = one_operand("round", a)
    if dtypes.kind(dtype) in "biu":
        if places < 0:
            raise NotImplementedError("integer np.round not implemented for decimals < 0")
        return as_array(x)
    if places == 0:
        return _nearest(x, dtype)
    if dtypes.is_complex(dtype):
        parts = (el.real_p.bind(x), el.imag_p.bind(x))
        return el.complex_p.bind(*(_to_places(p, places, get_aval(p).dtype) for p in parts))
    small = dtype.itemsize == 2
    wide = np.dtype(np.float32) if small else dtype
    rounded = _to_places(convert(x, wide) if small else x, places, wide)
    return convert(rounded, dtype) if small else rounded


def _to_places(x: Any, places: int, dtype: DType) -> Array:
    """Floats rounded to decimal places, of which any number may be asked for."""
    info = dtypes.finfo(dtype)
    most = int(np.log10(float(info.max)))
    if places > most:
        return as_array(x)  # the places are beyond the digits of all numbers
    zero = literal_type(x)(0.0)
    if places < -most:
        # All finite numbers are less than half of that power of ten.
        return select_where(isfinite(x), el.mul_p.bind(zero, el.sign_p.bind(x)), x)
    # Dividing by a power of ten is exact more often than multiplying by its reciprocal.
    power = literal_type(x)(10.0 ** abs(places))
    scale, unscale = (el.div_p, el.mul_p) if places < 0 else (el.mul_p, el.div_p)
    scaled = scale.bind(x, power)
    rounded = unscale.bind(_nearest(scaled, dtype), power)
    # Above this the scaled number is whole: to scale it there and back could only change it.
    whole = cmp.ge_p.bind(el.abs_p.bind(scaled), literal_type(x)(2.0 ** int(info.nmant)))
    return select_where(whole, stop_gradient(x), rounded) if places > 0 else rounded


def around(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """`a` rounded to `decimals` places, as `round`.

    >>> import xpr.numpy as jnp
    >>> jnp.around(jnp.array([1.25, 1.75]), 1)
    Array([1.2, 1.8], dtype=float32)
    """
    return round(a, decimals, out)


# ---- mantissa and exponent
#
# All of this works on bits: compiled code may take subnormal numbers for zeros.


class _Layout:
    """How a float lies in an integer of its size: its fields and their constants."""

    def __init__(self, dtype: DType) -> None:
        info = dtypes.finfo(dtype)
        self.dtype = dtype
        self.integer = np.dtype(f"i{dtype.itemsize}")
        self.nmant = int(info.nmant)
        self.bias = 1 - int(info.minexp)
        self.width = 8 * dtype.itemsize - 1 - self.nmant

    def const(self, value: int) -> Any:
        return self.integer.type(value)

    def pattern(self, x: Any) -> Any:
        return bitcast_convert_type_p.bind(x, new_dtype=self.integer)

    def number(self, pattern: Any) -> Any:
        return bitcast_convert_type_p.bind(pattern, new_dtype=self.dtype)

    def size(self, pattern: Any) -> Any:
        """The bits without the sign."""
        return bits.and_p.bind(pattern, self.const(2 ** (8 * self.dtype.itemsize - 1) - 1))

    def exponent(self, pattern: Any) -> Any:
        """The exponent field: 0 for zeros and subnormals, all ones for what is not finite."""
        field = bits.shift_right_logical_p.bind(pattern, self.const(self.nmant))
        return bits.and_p.bind(field, self.const((1 << self.width) - 1))

    def normalized(self, pattern: Any) -> tuple[Any, Any]:
        """Mantissa with its leading one at bit `nmant`, and the exponent field that goes with it.

        The field of a subnormal number is not positive. A zero gives what it may.
        """
        raw = self.exponent(pattern)
        fraction = bits.and_p.bind(pattern, self.const((1 << self.nmant) - 1))
        zeros = el.sub_p.bind(bits.clz_p.bind(fraction), self.const(self.width))
        moved = bits.shift_left_p.bind(fraction, zeros)
        whole = bits.or_p.bind(fraction, self.const(1 << self.nmant))
        subnormal = cmp.eq_p.bind(raw, self.const(0))
        return (
            select_where(subnormal, moved, whole),
            select_where(subnormal, el.sub_p.bind(self.const(1), zeros), raw),
        )


def _real_inexact(name: str, x: Any) -> Any:
    x = one_inexact(name, x)
    dtype = get_aval(x).dtype
    if dtypes.is_complex(dtype):
        raise TypeError(f"{name} does not accept dtype {dtype}: it requires real arguments")
    return x


def _to_int(x: Any, dtype: DType) -> Any:
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=False)


def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Mantissas in [0.5, 1) and int32 exponents: `x == mantissa * 2**exponent`.

    Zeros, infinities and NaN are their own mantissas, with exponent 0. Raises TypeError for complex
    operands.

    >>> import xpr.numpy as jnp
    >>> jnp.frexp(jnp.array([1.0, -6.0]))
    (Array([ 0.5 , -0.75], dtype=float32), Array([1, 3], dtype=int32))
    """
    x = _real_inexact("frexp", x)
    lay = _Layout(get_aval(x).dtype)
    pattern = lay.pattern(x)
    mantissa, field = lay.normalized(pattern)
    sign = bits.and_p.bind(pattern, lay.const(int(dtypes.iinfo(lay.integer).min)))
    fraction = bits.and_p.bind(mantissa, lay.const((1 << lay.nmant) - 1))
    half = lay.const((lay.bias - 1) << lay.nmant)
    found = lay.number(bits.or_p.bind(bits.or_p.bind(sign, half), fraction))
    exponent = el.sub_p.bind(_to_int(field, np.dtype(np.int32)), np.int32(lay.bias - 1))
    zero = cmp.eq_p.bind(lay.size(pattern), lay.const(0))
    keep = bits.or_p.bind(bits.not_p.bind(isfinite(x)), zero)
    return select_where(keep, x, found), select_where(keep, np.int32(0), exponent)


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 * 2**x2`, rounded once. `x1` is real, `x2` an integer; ValueError for other dtypes.

    >>> import xpr.numpy as jnp
    >>> jnp.ldexp(jnp.array([1.0, 0.75]), jnp.array([3, 2]))
    Array([8., 3.], dtype=float32)
    """
    x, x_dtype = one_operand("ldexp", x1)
    y, y_dtype = one_operand("ldexp", x2)
    if dtypes.is_complex(x_dtype) or dtypes.kind(y_dtype) not in "biu":
        raise ValueError(f"ldexp not supported for input types {(x_dtype, y_dtype)}")
    x = one_inexact("ldexp", x)
    lay = _Layout(get_aval(x).dtype)
    x, y = broadcast_all(x, _limited(y, y_dtype, 4 * lay.bias))
    pattern = lay.pattern(x)
    mantissa, field = lay.normalized(pattern)
    # int32 holds every sum of exponents; float16's own integers would not.
    field = el.add_p.bind(_to_int(field, np.dtype(np.int32)), y)
    top = np.int32((1 << lay.width) - 1)
    fraction = bits.and_p.bind(mantissa, lay.const((1 << lay.nmant) - 1))
    inside = _to_int(el.max_p.bind(el.min_p.bind(field, top), np.int32(0)), lay.integer)
    normal = bits.or_p.bind(bits.shift_left_p.bind(inside, lay.const(lay.nmant)), fraction)
    infinite = lay.const(((1 << lay.width) - 1) << lay.nmant)
    size = select_where(cmp.ge_p.bind(field, top), infinite, normal)
    subnormal = cmp.le_p.bind(field, np.int32(0))
    size = select_where(subnormal, _rounded_off(mantissa, field, lay), size)
    sign = bits.and_p.bind(pattern, lay.const(int(dtypes.iinfo(lay.integer).min)))
    found = lay.number(bits.or_p.bind(sign, size))
    zero = cmp.eq_p.bind(lay.size(pattern), lay.const(0))
    keep = bits.or_p.bind(bits.not_p.bind(isfinite(x)), zero)
    return select_where(keep, x, found)


def _limited(y: Any, dtype: DType, limit: int) -> Any:
    """An integer operand as int32 within bounds beyond which all results are 0 or infinite."""
    if dtype != dtypes.BOOL:
        info = dtypes.iinfo(dtype)
        y = el.min_p.bind(y, dtype.type(min(limit, int(info.max))))
        y = el.max_p.bind(y, dtype.type(max(-limit, int(info.min))))
    return _to_int(y, np.dtype(np.int32))


def _rounded_off(mantissa: Any, field: Any, lay: _Layout) -> Any:
    """The bits of a subnormal number: the mantissa moved down, halves rounded to even."""
    shift = el.min_p.bind(el.sub_p.bind(np.int32(1), field), np.int32(lay.nmant + 2))
    shift = _to_int(el.max_p.bind(shift, np.int32(1)), lay.integer)
    one = lay.const(1)
    kept = bits.shift_right_logical_p.bind(mantissa, shift)
    lost = el.sub_p.bind(mantissa, bits.shift_left_p.bind(kept, shift))
    half = bits.shift_left_p.bind(one, el.sub_p.bind(shift, one))
    odd = cmp.eq_p.bind(bits.and_p.bind(kept, one), one)
    up = bits.and_p.bind(cmp.eq_p.bind(lost, half), odd)
    up = bits.or_p.bind(up, cmp.gt_p.bind(lost, half))
    return el.add_p.bind(kept, _to_int(up, lay.integer))


def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """The fractional and the whole part of `x`, both with its sign. TypeError for complex.

    >>> import xpr.numpy as jnp
    >>> jnp.modf(jnp.array([1.5, -2.25]))
    (Array([ 0.5 , -0.25], dtype=float32), Array([ 1., -2.], dtype=float32))
    """
    refuse_out("modf", out)
    x = one_inexact("modf", x)
    whole = trunc(x)
    fraction = select_where(isinf(x), get_aval(x).dtype.type(0), el.sub_p.bind(x, whole))
    return with_weak_type_of(x, copysign(fraction, x)), whole


# ---- neighbours


def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The next representable number from `x` towards `y`. Raises TypeError for complex operands.

    >>> import xpr.numpy as jnp
    >>> jnp.nextafter(1.0, 2.0) - 1.0 == 2.0**-23
    Array(True, dtype=bool, weak_type=True)
    """
    (x, y), _ = promote_args_inexact("nextafter", x, y)
    return el.nextafter_p.bind(x, y)


def spacing(x: ArrayLike, /) -> Array:
    """The distance from `x` to the next number away from 0, with the sign of `x`.

    NaN for infinities and NaN. Raises ValueError for complex operands.

    >>> import xpr.numpy as jnp
    >>> jnp.spacing(jnp.float32(1)) == 2.0**-23
    Array(True, dtype=bool)
    """
    x = one_inexact("spacing", x)
    dtype = get_aval(x).dtype
    if dtypes.is_complex(dtype):
        raise ValueError("jnp.spacing is not defined for complex inputs.")
    lay = _Layout(dtype)
    raw = lay.exponent(lay.pattern(x))
    one, shift = lay.const(1), lay.const(lay.nmant)
    normal = bits.shift_left_p.bind(el.sub_p.bind(raw, shift), shift)
    place = el.max_p.bind(el.sub_p.bind(raw, one), lay.const(0))
    subnormal = bits.shift_left_p.bind(one, place)
    gap = lay.number(select_where(cmp.gt_p.bind(raw, shift), normal, subnormal))
    negative = cmp.lt_p.bind(x, dtype.type(0))
    gap = select_where(negative, el.neg_p.bind(gap), gap)
    return select_where(isfinite(x), gap, dtype.type(np.nan))


def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """`x` with NaN replaced by `nan`, infinities by `posinf` and `neginf`.

    The latter are the greatest and least finite number by default. Integers stay as they are.

    >>> import xpr.numpy as jnp
    >>> jnp.nan_to_num(jnp.array([jnp.nan, 1.0, jnp.inf]), posinf=9)
    Array([0., 1., 9.], dtype=float32)
    """
    del copy  # arrays never change, so there is nothing to protect
    x, dtype = one_operand("nan_to_num", x)
    if not dtypes.is_inexact(dtype):
        return as_array(x)
    if dtypes.is_complex(dtype):
        parts = (el.real_p.bind(x), el.imag_p.bind(x))
        return el.complex_p.bind(*(nan_to_num(p, True, nan, posinf, neginf) for p in parts))
    info = dtypes.finfo(dtype)
    high = convert(info.max if posinf is None else posinf, dtype)
    low = convert(info.min if neginf is None else neginf, dtype)
    out = select_where(isnan(x), convert(nan, dtype), x)
    out = select_where(cmp.eq_p.bind(x, dtype.type(np.inf)), high, out)
    return select_where(cmp.eq_p.bind(x, dtype.type(-np.inf)), low, out)


# ---- parts of complex numbers


def real(val: ArrayLike, /) -> Array:
    """The real part; real operands are their own.

    >>> import xpr.numpy as jnp
    >>> jnp.real(jnp.array([1 + 2j, 3]))
    Array([1., 3.], dtype=float32)
    """
    x, dtype = one_operand("real", val)
    return el.real_p.bind(x) if dtypes.is_complex(dtype) else as_array(x)


def imag(val: ArrayLike, /) -> Array:
    """The imaginary part, 0 for real operands.

    >>> import xpr.numpy as jnp
    >>> jnp.imag(jnp.array([1 + 2j, 3]))
    Array([2., 0.], dtype=float32)
    """
    x, dtype = one_operand("imag", val)
    return el.imag_p.bind(x) if dtypes.is_complex(dtype) else full_like(x, 0)


def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate; real operands are their own.

    >>> import xpr.numpy as jnp
    >>> jnp.conj(jnp.array([1 + 2j, 3]))
    Array([1.-2.j, 3.-0.j], dtype=complex64)
    """
    x, dtype = one_operand("conjugate", x)
    return el.conj(x) if dtypes.is_complex(dtype) else as_array(x)


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The angle of complex numbers in (-pi, pi], in degrees with `deg`.

    Of a real number it is 0, or pi if it is negative.

    >>> import xpr.numpy as jnp
    >>> jnp.angle(jnp.array([1, 1j, -1]), deg=True)
    Array([  0.,  90., 180.], dtype=float32)
    """
    x, dtype = one_operand("angle", z)
    if dtypes.is_complex(dtype):
        re, im = el.real_p.bind(x), el.imag_p.bind(x)
    else:
        re = x if dtypes.is_float(dtype) else convert(x, dtypes.default_dtype("f"))
        # JAX's zero is no weakly typed scalar.
        im = full_like(re, 0) if get_aval(re).shape else get_aval(re).dtype.type(0)
    found = fn.atan2_p.bind(im, re)
    if not deg:
        return found
    return el.mul_p.bind(found, literal_type(found)(180 / np.pi))


def op_round(x: Any, ndigits: int | None) -> Any:
    """Python's `round(x)`: the default integers without `ndigits`, else the array's own dtype."""
    if ndigits is not None:
        return round(x, ndigits)
    return convert(round(x), dtypes.default_dtype("i"))
