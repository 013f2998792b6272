"""Promotion of dtypes and ranks, weak types, scalar types and the functions about dtypes."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
from tests.numpy.cases import jnp
from xpr.core.config import override
from xpr.core.errors import TypePromotionError
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import get_aval
from xpr.numpy import _promote

# The published lattice: the dtype of x + y for each pair, weak kinds with a star.
TABLE = """
b1   b1  u1  u2  u4  u8  i1  i2  i4  i8  bf  f2  f4  f8  c8  c16 i*  f*  c*
u1   u1  u1  u2  u4  u8  i2  i2  i4  i8  bf  f2  f4  f8  c8  c16 u1  f*  c*
u2   u2  u2  u2  u4  u8  i4  i4  i4  i8  bf  f2  f4  f8  c8  c16 u2  f*  c*
u4   u4  u4  u4  u4  u8  i8  i8  i8  i8  bf  f2  f4  f8  c8  c16 u4  f*  c*
u8   u8  u8  u8  u8  u8  f*  f*  f*  f*  bf  f2  f4  f8  c8  c16 u8  f*  c*
i1   i1  i2  i4  i8  f*  i1  i2  i4  i8  bf  f2  f4  f8  c8  c16 i1  f*  c*
i2   i2  i2  i4  i8  f*  i2  i2  i4  i8  bf  f2  f4  f8  c8  c16 i2  f*  c*
i4   i4  i4  i4  i8  f*  i4  i4  i4  i8  bf  f2  f4  f8  c8  c16 i4  f*  c*
i8   i8  i8  i8  i8  f*  i8  i8  i8  i8  bf  f2  f4  f8  c8  c16 i8  f*  c*
bf   bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  f4  f4  f8  c8  c16 bf  bf  c8
f2   f2  f2  f2  f2  f2  f2  f2  f2  f2  f4  f2  f4  f8  c8  c16 f2  f2  c8
f4   f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f8  c8  c16 f4  f4  c8
f8   f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  c16 c16 f8  f8  c16
c8   c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c16 c8  c16 c8  c8  c8
c16  c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16
i*   i*  u1  u2  u4  u8  i1  i2  i4  i8  bf  f2  f4  f8  c8  c16 i*  f*  c*
f*   f*  f*  f*  f*  f*  f*  f*  f*  f*  bf  f2  f4  f8  c8  c16 f*  f*  c*
c*   c*  c*  c*  c*  c*  c*  c*  c*  c*  c8  c8  c8  c16 c8  c16 c*  c*  c*
"""
ROWS = [line.split() for line in TABLE.split("\n") if line]
NAMES = [row[0] for row in ROWS]
EXPECTED = {(row[0], b): row[1 + i] for row in ROWS for i, b in enumerate(NAMES)}
WEAK: dict[str, Any] = {"i*": 1, "f*": 1.0, "c*": 1j}
WEAK_DTYPES = {"i*": "int64", "f*": "float64", "c*": "complex128"}
IN_32_BITS = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}


def dtype_of(name: str) -> np.dtype[Any]:
    if name == "bf":
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(WEAK_DTYPES.get(name, name))


def operand(name: str) -> Any:
    return WEAK[name] if name in WEAK else jnp.ones((), dtype_of(name))


@pytest.mark.parametrize("a", NAMES)
def test_lattice_with_64_bits(a: str) -> None:
    with override("enable_x64", True):
        for b in NAMES:
            found = jnp.add(operand(a), operand(b))
            expected = EXPECTED[a, b]
            assert (found.dtype, found.weak_type) == (dtype_of(expected), "*" in expected), (a, b)
            assert jnp.result_type(operand(a), operand(b)) == dtype_of(expected)


def test_lattice_without_64_bits() -> None:
    for a, b in itertools.product(
        (n for n in NAMES if n not in ("i8", "u8", "f8", "c16")), repeat=2
    ):
        expected = EXPECTED[a, b]
        # Without 64 bits int64 is int32, so that nothing is wider than that.
        dtype = dtype_of(expected).name
        found = jnp.add(operand(a), operand(b))
        assert found.dtype.name == IN_32_BITS.get(dtype, dtype), (a, b)
        assert found.weak_type == ("*" in expected), (a, b)


def test_numpy_operands_promote_like_arrays_of_their_dtype() -> None:
    x = jnp.ones(3, jnp.float32)
    assert (x + np.float64(1)).dtype == jnp.float32
    assert (x + np.arange(3)).dtype == jnp.float32
    assert (jnp.ones(3, jnp.uint8) + np.int64(1)).dtype == jnp.int32
    assert not (x + np.float32(2)).weak_type


def test_python_numbers_give_way() -> None:
    half = jnp.ones(2, jnp.float16)
    assert (half * 2.5).dtype == jnp.float16
    assert (jnp.ones(2, jnp.int8) + 1).dtype == jnp.int8
    mixed = jnp.arange(2) * 1.5
    assert (mixed.dtype, mixed.weak_type) == (jnp.float32, True)
    assert (jnp.ones(2, jnp.bfloat16) + 1e300).tolist() == [np.inf, np.inf]


def test_python_integers_wrap_into_small_dtypes_and_must_fit_the_default() -> None:
    x = jnp.arange(2, dtype=jnp.uint8)
    assert (x + 300).tolist() == [44, 45]
    assert (x + -1).tolist() == [255, 0]
    for y in (x, jnp.ones(2)):
        with pytest.raises(
            OverflowError, match="Python int 1099511627776 too large to convert to int32"
        ):
            y + 2**40


def test_strict_promotion_refuses_different_dtypes() -> None:
    with override("numpy_dtype_promotion", "strict"):
        assert (jnp.ones(2) + 1).dtype == jnp.float32
        with pytest.raises(TypePromotionError, match="strict"):
            jnp.ones(2) + jnp.arange(2)


def test_rank_promotion_settings() -> None:
    x, y = jnp.ones((3, 4)), jnp.ones(4)
    with (
        override("numpy_rank_promotion", "raise"),
        pytest.raises(ValueError, match="numpy_rank_promotion"),
    ):
        x + y
    for _ in range(2):
        with (
            override("numpy_rank_promotion", "warn"),
            pytest.warns(UserWarning, match="rank promotion for add"),
        ):
            x + y
    assert (x + y).shape == (3, 4)
    with override("numpy_rank_promotion", "raise"):
        assert (x + 1).shape == (3, 4)


def test_small_floats_have_no_common_dtype() -> None:
    a, b = jnp.ones((), jnp.float8_e4m3fn), jnp.ones((), jnp.float8_e5m2)
    with pytest.raises(TypePromotionError, match="no available implicit dtype promotion path"):
        jnp.add(a, b)


def jaxpr_of(f: Any, *args: Any) -> str:
    return str(trace_to_jaxpr(lambda *xs: [f(*xs)], [get_aval(a) for a in args]))


def test_jaxprs_have_literals_and_few_broadcasts() -> None:
    x, row = np.ones((3, 4), "f4"), np.ones(4, "f4")
    assert jaxpr_of(lambda x: x + 1, x) == (
        "{ lambda ; a:f32[3,4]. let b:f32[3,4] = add a 1.0:f32[] in (b,) }"
    )
    assert jaxpr_of(jnp.add, x, row) == (
        "{ lambda ; a:f32[3,4] b:f32[4]. let\n"
        "    c:f32[1,4] = broadcast_in_dim[broadcast_dimensions=(1,)] b\n"
        "    d:f32[3,4] = add a c\n"
        "  in (d,) }"
    )
    assert jaxpr_of(lambda x, s: x * s, x, 2.0) == (
        "{ lambda ; a:f32[3,4] b:f32[]. let\n"
        "    c:f32[] = convert_element_type[new_dtype=float32 weak_type=False] b\n"
        "    d:f32[3,4] = mul a c\n"
        "  in (d,) }"
    )


class Wrapper:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __jax_array__(self) -> Any:
        return self.value


def test_objects_that_say_which_array_they_are() -> None:
    w = Wrapper(jnp.arange(3))
    assert jnp.add(w, 1).tolist() == [1, 2, 3]
    assert (jnp.ones(3) + w).tolist() == [1, 2, 3]
    assert jnp.sin(w).shape == (3,)
    assert jnp.sum(w).tolist() == 3
    assert jnp.asarray(w).tolist() == [0, 1, 2]


# ---- scalar types


def test_scalar_types_make_arrays_and_are_dtypes() -> None:
    one = jnp.float32(1)
    assert isinstance(one, xpr.Array)
    assert (one.dtype, one.shape, one.weak_type) == (np.float32, (), False)
    assert jnp.int8([1, 2]).tolist() == [1, 2]
    assert np.dtype(jnp.bfloat16) == ml_dtypes.bfloat16
    assert jnp.float32.dtype == np.dtype("f4")
    assert jnp.float32 == np.float32
    assert np.float32 == jnp.float32
    assert one.dtype == jnp.float32
    assert jnp.float32 != jnp.float16
    assert jnp.float32 != "float32"
    assert {jnp.float32: 1}[np.float32] == 1
    assert isinstance(np.float32(1), jnp.float32)
    assert not isinstance(one, jnp.float32)
    assert repr(jnp.int32) == "<class 'xpr.numpy.int32'>"
    with pytest.raises(OverflowError, match="out of bounds for int8"):
        jnp.int8(300)


def test_64_bit_types_are_truncated_with_a_warning() -> None:
    text = "Explicitly requested dtype float64 requested in {} is not available"
    with pytest.warns(UserWarning, match=text.format("asarray")):
        assert jnp.float64(1).dtype == jnp.float32
    for name, call in (
        ("zeros", lambda: jnp.zeros(3, "float64")),
        ("array", lambda: jnp.array([1], np.float64)),
        ("arange", lambda: jnp.arange(3, dtype="float64")),
        ("astype", lambda: jnp.arange(3).astype("float64")),
        ("sum", lambda: jnp.sum(jnp.ones(3), dtype="float64")),
    ):
        with pytest.warns(UserWarning, match=text.format(name)) as caught:
            assert call().dtype == jnp.float32
        assert caught[0].filename == __file__
    assert jnp.zeros(3, float).dtype == jnp.float32  # Python's types ask for the default
    with override("enable_x64", True):
        assert jnp.zeros(3, "float64").dtype == jnp.float64


# ---- functions about dtypes


def test_limits() -> None:
    assert jnp.finfo("bfloat16").bits == 16
    assert float(jnp.finfo(jnp.float32).eps) == 2.0**-23
    assert jnp.finfo(jnp.ones(2)).dtype == np.float32
    assert jnp.finfo(jnp.complex64).dtype == np.float32
    assert int(jnp.iinfo(jnp.uint8).max) == 255
    with pytest.raises(ValueError, match="not inexact"):
        jnp.finfo("int8")


def test_issubdtype() -> None:
    assert jnp.issubdtype(jnp.bfloat16, jnp.floating)
    assert jnp.issubdtype(jnp.float8_e5m2, jnp.inexact)
    assert jnp.issubdtype(jnp.floating, jnp.inexact)
    assert jnp.issubdtype(jnp.float32, jnp.float32)
    assert jnp.issubdtype(jnp.float64, float)
    assert not jnp.issubdtype("float32", float)
    assert not jnp.issubdtype("int8", int)
    assert not jnp.issubdtype(jnp.uint8, jnp.signedinteger)


def test_isdtype() -> None:
    assert jnp.isdtype("float32", "real floating")
    assert jnp.isdtype(jnp.bfloat16, "numeric")
    assert not jnp.isdtype("float32", ("integral", "bool"))
    assert jnp.isdtype("int8", (jnp.float32, np.int8))
    with pytest.raises(ValueError, match="Unrecognized kind='foo'"):
        jnp.isdtype("float32", "foo")


def test_types_of_mixtures() -> None:
    assert jnp.promote_types("float16", "bfloat16") == np.float32
    assert jnp.promote_types(int, "int8") == np.int8
    assert jnp.result_type(1) == np.int32
    assert jnp.result_type("int8", 1.0) == np.float32
    assert jnp.result_type(jnp.ones(2, jnp.bfloat16), 1.0) == ml_dtypes.bfloat16
    assert jnp.can_cast("int8", jnp.float32)
    assert not jnp.can_cast("int32", "float32")
    with pytest.raises(ValueError, match="at least one array or dtype"):
        jnp.result_type()


def test_uint32_and_signed_integers_warn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is JAX's: without 64 bits the common dtype, int64, is int32."""
    monkeypatch.setattr(_promote, "_warned_of", set())
    monkeypatch.setattr(_promote, "_plans", {})
    large, one = jnp.uint32(2**32 - 1), jnp.array([1, -1], "int32")
    with pytest.warns(UserWarning, match=r"^add: uint32 and a signed .* from 2\*\*31 on"):
        found = large + one
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, [0, -2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (one * large).dtype == np.int32
        assert xpr.jit(lambda x, y: x - y)(large, jnp.int8(1)).dtype == np.int32
        monkeypatch.setattr(_promote, "_warned_of", set())
        # Python numbers take the dtype of the array, questions about dtypes are only questions.
        assert (large + 1).dtype == np.uint32
        assert (large + jnp.uint8(1)).dtype == np.uint32
        assert jnp.promote_types("uint32", "int32") == np.int32
        with override("enable_x64", True):
            assert (jnp.uint32(5) + jnp.int32(-7)).dtype == np.int64
