"""Integers of the running program whose bounds are known while the program is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.lowering.loops.memory.affine import Place
from xpr.lowering.loops.memory.arrays import Array, Scalar


def constant_folded(name: str, xs: Sequence[Array], aval: ShapedArray) -> Scalar | None:
    """The result of an operation on numbers, if it is known as a place or a truth value."""
    rule = _RULES.get(name)
    if rule is None or not all(isinstance(x, Scalar) for x in xs):
        return None
    scalars = [x for x in xs if isinstance(x, Scalar)]
    if name == "select_n":
        return _select(scalars, aval)
    places = [_place(x) for x in scalars]
    known = [p for p in places if p is not None]
    if len(known) < len(places):
        return None
    found = rule(*known)
    if isinstance(found, bool):
        return Scalar(aval.shape, aval.dtype, literal=found)
    if found is None or dtypes.kind(aval.dtype) not in "iu" or not _fits(found, aval.dtype):
        return None
    return Scalar(aval.shape, aval.dtype, place=found, literal=found.known)


def _place(x: Scalar) -> Place | None:
    if x.dtype == np.bool_:
        return None if x.literal is None else Place(int(x.literal))
    return x.place


def _fits(place: Place, dtype: np.dtype[Any]) -> bool:
    info = dtypes.iinfo(dtype)
    low, high = place.bounds
    return int(info.min) <= low and high <= int(info.max)


def _select(xs: Sequence[Scalar], aval: ShapedArray) -> Scalar | None:
    which = _place(xs[0])
    if which is None or which.known is None:
        return None
    return xs[1 + which.known].shaped(aval.shape)


def _product(a: Place, b: Place) -> Place | None:
    if a.known is not None:
        return b * a.known
    return a * b.known if b.known is not None else None


def _greater(a: Place, b: Place) -> Place | None:
    low, high = (a - b).bounds
    return a if low >= 0 else b if high <= 0 else None


def _less(a: Place, b: Place) -> Place | None:
    low, high = (a - b).bounds
    return b if low >= 0 else a if high <= 0 else None


def _compare(decide: Callable[[int, int], bool | None]) -> Callable[[Place, Place], bool | None]:
    return lambda a, b: decide(*(a - b).bounds)


def _equal(low: int, high: int) -> bool | None:
    return True if low == high == 0 else False if low > 0 or high < 0 else None


def _not_equal(low: int, high: int) -> bool | None:
    equal = _equal(low, high)
    return None if equal is None else not equal


def _remainder(a: Place, b: Place) -> Place | None:
    low, high = a.bounds
    return a if b.known is not None and low >= 0 and high < b.known else None


_RULES: dict[str, Callable[..., Place | bool | None]] = {
    "add": lambda a, b: a + b,
    "add_any": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "neg": lambda a: a * -1,
    "mul": _product,
    "max": _greater,
    "min": _less,
    "rem": _remainder,
    "lt": _compare(lambda low, high: True if high < 0 else False if low >= 0 else None),
    "le": _compare(lambda low, high: True if high <= 0 else False if low > 0 else None),
    "gt": _compare(lambda low, high: True if low > 0 else False if high <= 0 else None),
    "ge": _compare(lambda low, high: True if low >= 0 else False if high < 0 else None),
    "eq": _compare(_equal),
    "ne": _compare(_not_equal),
    "convert_element_type": lambda a: a,
    "copy": lambda a: a,
    "select_n": lambda *_: None,
}
