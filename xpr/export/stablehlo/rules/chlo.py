"""CHLO: functions that StableHLO lacks, and elementwise operations that broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import lax
from xpr import numpy as jnp
from xpr.core import dtypes
from xpr.export.stablehlo.importer import Rule, Site, dtype_of, shape_of
from xpr.export.stablehlo.rules import elementwise
from xpr.export.stablehlo.rules.elementwise import compare, power


def _broadcast(site: Site) -> tuple[Any, Any]:
    """Two operands in one shape: that of the lower rank at the dimensions that are said."""
    x, y = site.operand(0), site.operand(1)
    left, right = shape_of(x), shape_of(y)
    rank = max(len(left), len(right))
    said = site.get("broadcast_dimensions")
    dims = {}
    for shape in (left, right):
        places = tuple(range(rank - len(shape), rank))
        if said is not None and len(shape) < rank:
            places = site.ints("broadcast_dimensions")
        dims[shape] = places
    wide = []
    for shape in (left, right):
        grown = [1] * rank
        for place, size in zip(dims[shape], shape, strict=True):
            grown[place] = size
        wide.append(grown)
    sizes = tuple(b if a == 1 else a for a, b in zip(*wide, strict=True))
    return (
        lax.broadcast_in_dim(x, sizes, dims[left]),
        lax.broadcast_in_dim(y, sizes, dims[right]),
    )


def _broadcast_binary(function: Callable[[Any, Any], Any]) -> Rule:
    return lambda site: function(*_broadcast(site))


def _broadcast_compare(site: Site) -> Any:
    x, y = _broadcast(site)
    kind = site.get("compare_type", "NOTYPE")
    return compare(x, y, site.need("comparison_direction"), kind)


def _broadcast_select(site: Site) -> Any:
    which, a, b = (site.operand(i) for i in range(3))
    sizes = np.broadcast_shapes(shape_of(which), shape_of(a), shape_of(b))

    def wide(x: Any) -> Any:
        shape = shape_of(x)
        return lax.broadcast_in_dim(x, sizes, range(len(sizes) - len(shape), len(sizes)))

    return lax.select(wide(which), wide(a), wide(b))


def _constant_like(site: Site) -> Any:
    x = site.operand(0)
    return lax.full(shape_of(x), np.asarray(site.need("value")).astype(dtype_of(x))[()])


def _is_inf(x: Any) -> Any:
    return lax.eq(lax.abs(x), lax.full_like(x, np.inf))


def _is_neg_inf(x: Any) -> Any:
    return lax.eq(x, lax.full_like(x, -np.inf))


def _is_pos_inf(x: Any) -> Any:
    return lax.eq(x, lax.full_like(x, np.inf))


def square(x: Any) -> Any:
    """x * x."""
    return lax.mul(x, x)


def top_k(x: Any, k: int, dtype: Any = np.int32) -> list[Any]:
    """The greatest elements of the last axis, descending, and their places."""
    values, places = lax.top_k(x, k)
    return [values, lax.convert_element_type(places, dtype)]


def _top_k(site: Site) -> Any:
    return top_k(site.operand(0), site.int("k"), site.tensor(1).dtype)


def _ragged_dot(site: Site) -> Any:
    numbers = site.need("ragged_dot_dimension_numbers")
    if not isinstance(numbers, dict):
        raise site.error(f"dimension numbers that are unknown: {numbers!r}")

    def axes(name: str) -> tuple[int, ...]:
        return tuple(numbers.get(name, ()))

    contracting = axes("lhs_contracting_dimensions"), axes("rhs_contracting_dimensions")
    batching = axes("lhs_batching_dimensions"), axes("rhs_batching_dimensions")
    return lax.ragged_dot_general(
        site.operand(0),
        site.operand(1),
        site.operand(2),
        lax.RaggedDotDimensionNumbers(
            (contracting, batching),
            axes("lhs_ragged_dimensions"),
            axes("rhs_group_dimensions"),
        ),
    )


def _scan(site: Site) -> Any:
    """Inputs in slices along a dimension, and a carry that each step changes."""
    axis = site.int("dimension")
    types = [v.type for v in site.op.operands]
    arguments = [v.type for v in site.block(0).arguments]
    count = sum(a != b for a, b in zip(types, arguments, strict=True))
    inputs, init = site.operands[:count], tuple(site.operands[count:])
    region = site.region(0)
    outputs = len(site.op.results) - len(init)

    def step(carry: tuple[Any, ...], x: tuple[Any, ...]) -> tuple[Any, Any]:
        found = region(*x, *carry)
        return tuple(found[outputs:]), tuple(found[:outputs])

    moved = tuple(jnp.moveaxis(x, axis, 0) for x in inputs)
    length = site.get("scan_dim_size")
    carry, stacked = lax.scan(
        step, init, moved, None if moved else length, reverse=site.flag("is_reverse")
    )
    return [*(jnp.moveaxis(x, 0, axis) for x in stacked), *carry]


UNARY: dict[str, Callable[[Any], Any]] = {
    "acos": lax.acos,
    "acosh": lax.acosh,
    "asin": lax.asin,
    "asinh": lax.asinh,
    "atan": lax.atan,
    "atanh": lax.atanh,
    "bessel_i0e": lax.bessel_i0e,
    "bessel_i1e": lax.bessel_i1e,
    "conj": lambda x: lax.conj(x) if dtypes.is_complex(dtype_of(x)) else x,
    "cosh": lax.cosh,
    "digamma": lax.digamma,
    "erf": lax.erf,
    "erf_inv": lax.erf_inv,
    "erfc": lax.erfc,
    "is_inf": _is_inf,
    "is_neg_inf": _is_neg_inf,
    "is_pos_inf": _is_pos_inf,
    "lgamma": lax.lgamma,
    "sinh": lax.sinh,
    "square": square,
    "tan": lax.tan,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "mulhi": lax.mulhi,
    "next_after": lax.nextafter,
    "polygamma": lax.polygamma,
    "zeta": lax.zeta,
}
_BROADCAST: dict[str, Callable[[Any, Any], Any]] = {
    "add": elementwise.add,
    "and": lax.bitwise_and,
    "atan2": lax.atan2,
    "complex": lax.complex,
    "divide": lax.div,
    "maximum": elementwise.maximum,
    "minimum": elementwise.minimum,
    "multiply": elementwise.multiply,
    "next_after": lax.nextafter,
    "or": lax.bitwise_or,
    "polygamma": lax.polygamma,
    "power": power,
    "remainder": lax.rem,
    "shift_left": lax.shift_left,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "shift_right_logical": lax.shift_right_logical,
    "subtract": lax.sub,
    "xor": lax.bitwise_xor,
    "zeta": lax.zeta,
}


def _unary(function: Callable[[Any], Any]) -> Rule:
    return lambda site: function(site.operand(0))


def _binary(function: Callable[[Any, Any], Any]) -> Rule:
    return lambda site: function(site.operand(0), site.operand(1))


RULES: dict[str, Rule] = {f"chlo.{n}": _unary(f) for n, f in UNARY.items()}
RULES |= {f"chlo.{n}": _binary(f) for n, f in BINARY.items()}
RULES |= {f"chlo.broadcast_{n}": _broadcast_binary(f) for n, f in _BROADCAST.items()}
RULES |= {
    "chlo.broadcast_compare": _broadcast_compare,
    "chlo.broadcast_select": _broadcast_select,
    "chlo.constant": lambda site: np.asarray(site.need("value")),
    "chlo.constant_like": _constant_like,
    "chlo.ragged_dot": _ragged_dot,
    "chlo.scan": _scan,
    "chlo.top_k": _top_k,
}
