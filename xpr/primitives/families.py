"""Constructors for whole families: an elementwise primitive is one declaration.

Shapes of elementwise operands must be equal; a rank-0 operand goes with any shape. Dtypes must be
equal; a weakly typed scalar takes the other's dtype only in `xpr.numpy`, never here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.primitive import NOT_LINEAR, Absent, DerivedRule, Primitive, Rule, define
from xpr.primitives.rules import ElementwiseBatch

# The kinds that a primitive takes, in the letters of `dtypes.kind`.
FLOATING = "f"
INEXACT = "fc"
NUMERIC = "iufc"
REAL = "iuf"
ANY = "biufc"
INTEGRAL = "iu"
BITWISE = "biu"

_KIND_NAMES = {
    "i": "signedinteger",
    "u": "unsignedinteger",
    "f": "floating",
    "c": "complexfloating",
    "b": "bool",
    "x": "extended",
}
# Types that are only stored: arithmetic wants a conversion first.
_STORAGE_ONLY = frozenset(dtypes.SMALL_FLOAT_TYPES)


def require_kind(name: str, aval: ShapedArray, kinds: str, position: int | None = None) -> None:
    """Raises TypeError unless the dtype of `aval`, the operand at `position`, is of `kinds`."""
    if dtypes.kind(aval.dtype) not in kinds:
        allowed = [text for k, text in _KIND_NAMES.items() if k in kinds]
        if "i" in kinds:
            allowed = ["integer", *allowed[2:]] if "u" in kinds else [*allowed[1:], allowed[0]]
        raise unaccepted(name, aval, ", ".join(allowed), position)


def unaccepted(name: str, aval: ShapedArray, allowed: str, position: int | None) -> TypeError:
    """The error about an operand of which the dtype is none of those `allowed`."""
    at = "" if position is None else f" at position {position}"
    return TypeError(
        f"{name} does not accept dtype {aval.dtype}{at}. Accepted dtypes{at} are subtypes of "
        f"{allowed}."
    )


def require_same_dtypes(name: str, *avals: ShapedArray) -> np.dtype[Any]:
    """The common dtype of `avals`; TypeError, naming all of them, when they differ."""
    first = avals[0].dtype
    for aval in avals[1:]:
        if aval.dtype != first:
            found = ", ".join(str(a.dtype) for a in avals)
            promoting = _PROMOTING.get(name)
            tip = (
                f" (Tip: jnp.{promoting} is a similar function that does automatic type promotion "
                "on inputs)."
                if promoting
                else ""
            )
            raise TypeError(
                f"lax.{name} requires arguments to have the same dtypes, got {found}.{tip}"
            )
    return first


_PROMOTING = {
    "add": "add",
    "atan2": "arctan2",
    "concatenate": "concatenate",
    "div": "divide",
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lt": "less",
    "max": "maximum",
    "min": "minimum",
    "mul": "multiply",
    "ne": "not_equal",
    "nextafter": "nextafter",
    "pow": "power",
    "rem": "remainder",
    "shift_left": "left_shift",
    "shift_right_arithmetic": "right_shift",
    "shift_right_logical": "right_shift",
    "sub": "subtract",
}
"""The functions of xpr.numpy that promote, for those of lax that do not."""


def elementwise_shape(name: str, *avals: ShapedArray) -> tuple[int, ...]:
    """The shape of an elementwise result: equal shapes, where rank-0 operands go with any."""
    shape: tuple[int, ...] | None = None
    for aval in avals:
        if not aval.shape or aval.shape is shape:
            continue
        if shape is None:
            shape = aval.shape
        elif aval.shape != shape:
            return _broadcast_ones(name, *avals)
    return shape or ()


def _broadcast_ones(name: str, *avals: ShapedArray) -> tuple[int, ...]:
    shapes = [a.shape for a in avals if a.shape]
    ranks = sorted({len(s) for s in shapes})
    if len(ranks) > 1:
        shown = ", ".join(str(a.shape) for a in avals)
        raise TypeError(
            f"{name}: arrays must have the same number of dimensions, got "
            f"{' and '.join(map(str, ranks))} "
            f"(shapes {shown})"
        )
    result = []
    for axis, sizes in enumerate(zip(*shapes, strict=True)):
        wide = {s for s in sizes if s != 1}
        if len(wide) > 1:
            shown = ", ".join(str(a.shape) for a in avals)
            raise TypeError(
                f"{name} got incompatible shapes for broadcasting: {shown}. "
                f"Axis {axis} has sizes {' and '.join(str(s) for s in sizes)}."
            )
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function made to work on 16-bit floats by computing in float32 and rounding once."""

    def reference(*arrays: Any, **params: Any) -> Any:
        dtype = arrays[0].dtype
        if dtype.itemsize <= 2 and dtypes.is_float(dtype):
            return np.asarray(function(*(a.astype(np.float32) for a in arrays), **params)).astype(
                dtype
            )
        return function(*arrays, **params)

    reference.__name__ = getattr(function, "__name__", "reference")
    return reference


_SMALL_INTEGERS = frozenset(dtypes.SMALL_INT_TYPES)
_BYTES = {d: np.dtype(f"{dtypes.kind(d)}1") for d in dtypes.SMALL_INT_TYPES}


def in_bytes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function made to work on integers of less than a byte: in a byte, wrapped at the end.

    NumPy's own loops lack most operations on these types, or compute them otherwise.
    """

    def reference(x: Any, *rest: Any, **params: Any) -> Any:
        dtype = x.dtype
        if dtype.kind != "V" or dtype not in _SMALL_INTEGERS:
            return function(x, *rest, **params)
        wide = _BYTES[dtype]
        out = np.asarray(function(*(a.astype(wide) for a in (x, *rest)), **params))
        return out.astype(dtype) if out.dtype == wide else out

    reference.__name__ = getattr(function, "__name__", "reference")
    return reference


def by_bits(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference rule of `function`, which is told how many bits an element has as `bits`.

    It computes on whole bytes, and integers of less than a byte are sign-extended.
    """

    def reference(x: Any, *rest: Any) -> Any:
        dtype = x.dtype
        if dtype.kind != "V" or dtype not in _SMALL_INTEGERS:
            return function(x, *rest, bits=8 * dtype.itemsize)
        wide, bits = _BYTES[dtype], int(dtypes.iinfo(dtype).bits)
        return np.asarray(function(*(a.astype(wide) for a in (x, *rest)), bits=bits)).astype(dtype)

    reference.__name__ = getattr(function, "__name__", "reference")
    reference.is_told_bits = True  # type: ignore[attr-defined]
    return reference


def _reference_for(kinds: str, reference: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a primitive that takes these kinds, for integers of less than a byte too."""
    takes_integers = not set("iu").isdisjoint(kinds)
    is_told = getattr(reference, "is_told_bits", False)
    return in_bytes(reference) if takes_integers and not is_told else reference


def unary(
    name: str,
    *,
    family: str,
    kinds: str,
    doc: str,
    reference: Callable[..., Any],
    result: Callable[[np.dtype[Any]], np.dtype[Any]] | None = None,
    jvp: Rule | DerivedRule | Absent,
    transpose: Rule | Absent = NOT_LINEAR,
) -> Primitive:
    """An elementwise primitive of one operand; `result` maps its dtype to the result's."""

    def abstract(x: ShapedArray, **_: Any) -> ShapedArray:
        require_kind(name, x, kinds)
        if x.dtype in _STORAGE_ONLY:
            raise TypeError(f"{name} does not compute in {x.dtype}; convert to a wider float first")
        if result is None:
            return x
        return ShapedArray(x.shape, result(x.dtype), x.weak_type)

    return define(
        name,
        family=family,
        doc=doc,
        abstract=abstract,
        reference=_reference_for(kinds, reference),
        jvp=jvp,
        transpose=transpose,
        batch=ElementwiseBatch(),
    )


def nary(
    name: str,
    arity: int,
    *,
    family: str,
    kinds: str,
    doc: str,
    reference: Callable[..., Any],
    result: np.dtype[Any] | None = None,
    jvp: Rule | DerivedRule | Absent,
    transpose: Rule | Absent = NOT_LINEAR,
) -> Primitive:
    """An elementwise primitive of `arity` operands of one dtype; `result` fixes another one."""

    def abstract(*avals: ShapedArray, **_: Any) -> ShapedArray:
        first, rest = avals[0], avals[1:]
        dtype = first.dtype
        for aval in rest:
            if aval.dtype is not dtype and aval.dtype != dtype:
                raise _mismatch(name, kinds, avals)
        if dtypes.kind(dtype) not in kinds:
            raise _mismatch(name, kinds, avals)
        if dtype in _STORAGE_ONLY and result is None:
            raise TypeError(f"{name} does not compute in {dtype}; convert to a wider float first")
        shape = elementwise_shape(name, *avals)
        weak = all(a.weak_type for a in avals)
        return ShapedArray(shape, dtype if result is None else result, weak)

    del arity
    return define(
        name,
        family=family,
        doc=doc,
        abstract=abstract,
        reference=_reference_for(kinds, reference),
        jvp=jvp,
        transpose=transpose,
        batch=ElementwiseBatch(),
    )


def _mismatch(name: str, kinds: str, avals: Sequence[ShapedArray]) -> Exception:
    """The error about operands of which the shapes, the kinds or the dtypes do not fit.

    They are looked at in this order, as JAX does.
    """
    try:
        elementwise_shape(name, *avals)
        for i, aval in enumerate(avals):
            require_kind(name, aval, kinds, i if len(avals) > 1 else None)
        require_same_dtypes(name, *avals)
    except (TypeError, ValueError) as error:
        return error
    raise AssertionError(f"{name} takes operands of these types: {avals}")


def binary(name: str, **options: Any) -> Primitive:
    """An elementwise primitive of two operands; options as in `nary`."""
    return nary(name, 2, **options)
