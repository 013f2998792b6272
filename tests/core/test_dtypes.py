"""The promotion lattice against the published table, canonical dtypes and kinds."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xpr.core import dtypes
from xpr.core.config import override
from xpr.core.errors import TypePromotionError

# The table of JAX's document on type promotion semantics, row by row. b1 is bool, i* f* c* are
# Python scalars; dtypes are as with 64 bits enabled.
_ORDER = [
    "b1",
    "u1",
    "u2",
    "u4",
    "u8",
    "i1",
    "i2",
    "i4",
    "i8",
    "bf",
    "f2",
    "f4",
    "f8",
    "c8",
    "c16",
    "i*",
    "f*",
    "c*",
]
_TABLE = """
b1 u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 c8 c16 i* f* c*
u1 u1 u2 u4 u8 i2 i2 i4 i8 bf f2 f4 f8 c8 c16 u1 f* c*
u2 u2 u2 u4 u8 i4 i4 i4 i8 bf f2 f4 f8 c8 c16 u2 f* c*
u4 u4 u4 u4 u8 i8 i8 i8 i8 bf f2 f4 f8 c8 c16 u4 f* c*
u8 u8 u8 u8 u8 f* f* f* f* bf f2 f4 f8 c8 c16 u8 f* c*
i1 i2 i4 i8 f* i1 i2 i4 i8 bf f2 f4 f8 c8 c16 i1 f* c*
i2 i2 i4 i8 f* i2 i2 i4 i8 bf f2 f4 f8 c8 c16 i2 f* c*
i4 i4 i4 i8 f* i4 i4 i4 i8 bf f2 f4 f8 c8 c16 i4 f* c*
i8 i8 i8 i8 f* i8 i8 i8 i8 bf f2 f4 f8 c8 c16 i8 f* c*
bf bf bf bf bf bf bf bf bf bf f4 f4 f8 c8 c16 bf bf c8
f2 f2 f2 f2 f2 f2 f2 f2 f2 f4 f2 f4 f8 c8 c16 f2 f2 c8
f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f8 c8 c16 f4 f4 c8
f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 c16 c16 f8 f8 c16
c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c16 c8 c16 c8 c8 c8
c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16
i* u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 c8 c16 i* f* c*
f* f* f* f* f* f* f* f* f* bf f2 f4 f8 c8 c16 f* f* c*
c* c* c* c* c* c* c* c* c* c8 c8 c8 c16 c8 c16 c* c* c*
"""
_DTYPE = {
    "b1": "bool",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "u8": "uint64",
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int64",
    "bf": "bfloat16",
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "c8": "complex64",
    "c16": "complex128",
    "i*": "int64",
    "f*": "float64",
    "c*": "complex128",
}


def _pair(name: str) -> tuple[np.dtype, bool]:
    text = _DTYPE[name]
    return np.dtype(getattr(ml_dtypes, text, text)), name.endswith("*")


def test_lattice_is_the_published_table() -> None:
    rows = [line.split() for line in _TABLE.strip().splitlines()]
    with override("enable_x64", True):
        for a, row in zip(_ORDER, rows, strict=True):
            for b, expected in zip(_ORDER, row, strict=True):
                assert dtypes.promote_avals(_pair(a), _pair(b)) == _pair(expected), f"{a} with {b}"


def test_lattice_is_associative_and_commutative() -> None:
    with override("enable_x64", True):
        for a in map(_pair, _ORDER):
            for b in map(_pair, _ORDER):
                ab = dtypes.promote_avals(a, b)
                assert ab == dtypes.promote_avals(b, a)
                for c in map(_pair, _ORDER):
                    assert dtypes.promote_avals(ab, c) == dtypes.promote_avals(
                        a, dtypes.promote_avals(b, c)
                    )


def test_without_x64_results_are_32_bit() -> None:
    i4, f4 = np.dtype("int32"), np.dtype("float32")
    assert dtypes.promote_avals((np.dtype("uint32"), False), (i4, False)) == (
        np.dtype("int32"),
        False,
    )
    assert dtypes.promote_avals((i4, False), (f4, True)) == (f4, True)
    assert dtypes.canonicalize("float64") == f4
    assert dtypes.canonicalize(float) == f4
    assert dtypes.canonicalize(np.complex128) == np.dtype("complex64")


def test_float8_does_not_promote_implicitly() -> None:
    with pytest.raises(TypePromotionError, match="no available implicit dtype promotion"):
        dtypes.promote_types(ml_dtypes.float8_e4m3fn, np.float32)
    assert dtypes.promote_types(ml_dtypes.float8_e4m3fn, float) == np.dtype(ml_dtypes.float8_e4m3fn)


def test_strict_promotion_refuses_all_but_weak_scalars() -> None:
    i4, f4 = np.dtype("int32"), np.dtype("float32")
    with override("numpy_dtype_promotion", "strict"):
        with pytest.raises(TypePromotionError, match="strict"):
            dtypes.promote_avals((i4, False), (f4, False))
        assert dtypes.promote_avals((f4, False), (i4, True)) == (f4, False)


@pytest.mark.parametrize("bad", [np.dtype(object), np.dtype("U3"), np.dtype("M8[s]")])
def test_foreign_types_are_refused(bad: np.dtype) -> None:
    with pytest.raises(TypeError, match="not a valid JAX array type"):
        dtypes.canonicalize(bad)


def test_foreign_byte_order_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="byte order"):
        dtypes.canonicalize(np.dtype(">i4"))


def test_issubdtype_knows_the_small_floats() -> None:
    assert dtypes.issubdtype(ml_dtypes.bfloat16, np.floating)
    assert dtypes.issubdtype(ml_dtypes.float8_e5m2, np.inexact)
    assert not dtypes.issubdtype(ml_dtypes.bfloat16, np.integer)
    assert dtypes.issubdtype(np.uint8, np.unsignedinteger)
    assert dtypes.issubdtype(np.int32, np.int32)
    assert not dtypes.issubdtype(np.int32, np.int64)
