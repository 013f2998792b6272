"""Arrays from values, filled arrays, ranges, meshes and triangles."""

from __future__ import annotations

import io
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
from tests.numpy.cases import Case, check, jnp
from xpr.core.config import override

# ---- array and asarray


@pytest.mark.parametrize(
    ("value", "dtype", "weak"),
    [
        (1, "int32", True),
        (1.5, "float32", True),
        (1j, "complex64", True),
        (True, "bool", False),
        (np.int8(1), "int8", False),
        (np.float64(1), "float32", False),
        (np.array(1), "int32", False),
        ([1, 2], "int32", False),
        ([1, 2.5], "float32", False),
        ([1, True], "int32", False),
        ([True, False], "bool", False),
        ([1, 2.0, 3j], "complex64", False),
        ([np.float32(1), 2], "float32", False),
        ([np.float16(1), 1.5], "float16", False),
        ([np.int8(1), np.int8(2)], "int8", False),
        ([], "float32", False),
        ([[], []], "float32", False),
        (((1, 2), [3, 4]), "int32", False),
        (range(3), "int32", False),
        (memoryview(b"abc"), "uint8", False),
        (bytearray(b"abc"), "uint8", False),
        ([np.ones(2), [1, 2]], "float32", False),
        (np.ones((2, 2), ml_dtypes.bfloat16), "bfloat16", False),
        (np.ones(2, ml_dtypes.float8_e5m2), "float8_e5m2", False),
    ],
)
def test_values_and_types(value: Any, dtype: str, weak: bool) -> None:
    for make in (jnp.array, jnp.asarray):
        found = make(value)
        assert isinstance(found, xpr.Array)
        assert (found.dtype.name, found.weak_type) == (dtype, weak)
        expected = np.asarray(list(value) if isinstance(value, range) else value)
        assert found.shape == expected.shape
        np.testing.assert_array_equal(np.asarray(found), expected.astype(found.dtype))


def test_lists_of_arrays() -> None:
    x = jnp.arange(2, dtype=jnp.int8)
    assert jnp.array([x, [3, 4]]).tolist() == [[0, 1], [3, 4]]
    assert jnp.array([x, [3, 4]]).dtype == jnp.int8
    assert jnp.array([jnp.float32(1), 2]).tolist() == [1, 2]
    found = xpr.jit(lambda a, b: jnp.array([[a, 1], [b, 2.5]]))(jnp.float32(7), jnp.int8(3))
    assert found.tolist() == [[7, 1], [3, 2.5]]
    assert found.dtype == jnp.float32
    with pytest.raises(ValueError, match="All input arrays must have the same shape"):
        xpr.jit(lambda a: jnp.array([a, 1]))(x)


def test_numpy_arrays_are_copied() -> None:
    for make in (
        jnp.array,
        jnp.asarray,
        lambda a: jnp.array(a, copy=False),
        lambda a: jnp.asarray(a) + 0,
    ):
        source = np.arange(4, dtype=np.float32)
        found = make(source)
        source[:] = -1
        assert found.tolist() == [0, 1, 2, 3]
    nested = [np.arange(2, dtype=np.float32)]
    found = jnp.array(nested)
    nested[0][:] = -1
    assert found.tolist() == [[0, 1]]
    strided = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert jnp.array(strided).tolist() == strided.tolist()


def test_copies_of_arrays() -> None:
    x = jnp.arange(3)
    assert jnp.asarray(x) is x
    assert jnp.array(x, copy=False) is x
    assert jnp.asarray(x, copy=True) is not x
    again = jnp.array(x)
    x.delete()
    assert again.tolist() == [0, 1, 2]
    assert jnp.copy(again).tolist() == [0, 1, 2]


def test_dtype_argument_converts() -> None:
    assert jnp.array([1.7, -1.7], int).tolist() == [1, -1]
    assert jnp.array(1.5, dtype=jnp.bfloat16).dtype == jnp.bfloat16
    assert jnp.array(5, bool).tolist() is True
    assert jnp.array(np.array([300]), jnp.uint8).tolist() == [44]
    assert jnp.array(np.array([np.nan, 1e20, -1e20, 2.9]), jnp.int32).tolist() == [
        0,
        2**31 - 1,
        -(2**31),
        2,
    ]
    assert jnp.array([2**32 - 1], jnp.uint32).tolist() == [2**32 - 1]
    assert jnp.array(1, ndmin=3).shape == (1, 1, 1)
    assert not jnp.array(1, jnp.int32).weak_type


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: jnp.array(None), ValueError, "None is not a valid value for jnp.array"),
        (lambda: jnp.array([1, None]), ValueError, "None is not a valid value for jnp.array"),
        (lambda: jnp.array("a"), TypeError, "not a valid JAX array type"),
        (lambda: jnp.array(["a"]), TypeError, "not a valid JAX array type"),
        (lambda: jnp.array(b"abc"), TypeError, "not a valid JAX array type"),
        (lambda: jnp.array({"a": 1}), TypeError, "not a valid JAX array type"),
        (lambda: jnp.array(object()), TypeError, "not a valid JAX array type"),
        (lambda: jnp.array(x for x in (1,)), TypeError, "not a valid JAX array type"),
        (
            lambda: jnp.array(np.array([1, None])),
            TypeError,
            "Dtype object is not a valid JAX array type",
        ),
        (lambda: jnp.array(np.array(["a"])), TypeError, "not a valid JAX array type"),
        (lambda: jnp.array(np.datetime64("2020")), TypeError, "not a valid JAX array type"),
        (lambda: jnp.array(np.arange(3, dtype=">i4")), TypeError, "foreign byte order"),
        (
            lambda: jnp.array(1, dtype="U3"),
            TypeError,
            "only supports number and bool dtypes, got dtype <U3 in array",
        ),
        (
            lambda: jnp.zeros(3, object),
            TypeError,
            "only supports number and bool dtypes, got dtype object in zeros",
        ),
        (lambda: jnp.array([[1, 2], [3]]), ValueError, "inhomogeneous shape"),
        (
            lambda: jnp.array(2**31),
            OverflowError,
            "Python int 2147483648 too large to convert to int32",
        ),
        (lambda: jnp.array([2**31]), OverflowError, "out of bounds for int32"),
        (lambda: jnp.array(-1, jnp.uint8), OverflowError, "out of bounds for uint8"),
        (lambda: jnp.full(2, 300, jnp.uint8), OverflowError, "out of bounds for uint8"),
        (lambda: jnp.array(float("nan"), int), ValueError, "cannot convert float NaN to integer"),
        (lambda: jnp.array(1, order="F"), NotImplementedError, "Only implemented for order='K'"),
        (lambda: jnp.zeros(3, jnp.ones(2)), ValueError, "use dtype=arr.dtype. zeros got an array"),
        (
            lambda: jnp.ones(3).astype(np.ones(2)),
            TypeError,
            "Cannot construct a dtype from an array: astype",
        ),
        (lambda: jnp.zeros((-1,)), TypeError, "nonnegative"),
        (lambda: jnp.zeros((2.5,)), TypeError, "of integer type"),
        (lambda: jnp.zeros("a"), TypeError, "of integer type"),
        (
            lambda: jnp.zeros_like([1, 2]),
            TypeError,
            "zeros_like requires ndarray or scalar arguments",
        ),
        (lambda: jnp.full((2,), jnp.ones(3)), ValueError, "Incompatible types for broadcasting"),
        (lambda: xpr.jit(lambda n: jnp.zeros(n))(3), TypeError, "concrete values of integer type"),
    ],
)
def test_errors_of_arrays(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_integers_of_the_default_dtype_with_64_bits() -> None:
    with override("enable_x64", True):
        assert jnp.array(2**40).tolist() == 2**40
        assert jnp.array([1.5]).dtype == jnp.float64
        assert jnp.zeros(2).dtype == jnp.float64


# ---- filled arrays


def filled_cases() -> list[Case]:
    x, i = np.ones((2, 3), "f4"), np.arange(3, dtype="i4")
    return [
        Case("zeros", ((2, 3),)),
        Case("zeros", (4,)),
        Case("ones", ((2,), np.int8)),
        Case("ones", ((),)),
        Case("empty", ((0, 2),)),
        Case("full", ((2, 3), 7), dtype="int32"),
        Case("full", ((2, 3), i), dtype="int32"),
        Case("full", ((2,), 2.7, np.int32)),
        Case("full", ((2,), np.nan, np.int32), expected=lambda *_: np.zeros(2, "i4")),
        Case("zeros_like", (x,)),
        Case("ones_like", (i,)),
        Case("ones_like", (x,), {"dtype": bool}),
        Case("zeros_like", (x,), {"shape": (5,)}),
        Case("empty_like", (i,), expected=np.zeros_like),
        Case("full_like", (x, 2)),
        Case("full_like", (x, i)),
        Case("full_like", (i, 2.7)),
    ]


def range_cases() -> list[Case]:
    ends = (np.zeros(2, "f4"), np.array([1.0, 3.0], "f4"))
    f32: dict[str, Any] = {"dtype": "float32"}
    return [
        *(
            Case("arange", a, dtype="int32")
            for a in ((5,), (2, 9), (2, 9, 3), (9, 2, -2), (5, 1), (-3,))
        ),
        *(
            Case("arange", a, **f32)
            for a in ((5.5,), (0, 1, 0.25), (1.0, -1.0, -0.5), (0.0, 1.0, 0.3))
        ),
        Case("arange", (3,), {"dtype": np.uint8}),
        Case("arange", (4,), {"dtype": np.complex64}),
        Case("arange", (np.int8(4),), dtype="int8"),
        Case("arange", (np.float32(3),), **f32),
        *(
            Case("linspace", (0, 10, n), kw, **f32)
            for n in (5, 2, 1, 0)
            for kw in ({}, {"endpoint": False})
        ),
        Case("linspace", (0, 1), **f32, atol=1e-7),
        Case("linspace", (0, 10, 4), {"dtype": np.int32}),
        Case("linspace", (3, -5, 4), {"dtype": np.int32}),
        Case("linspace", (0.0, 1.0, 5), {"retstep": True}, **f32),
        Case("linspace", (*ends, 3), {"axis": -1}, **f32),
        Case("linspace", (*ends, 3), {"axis": 1, "endpoint": False}, **f32, atol=1e-6),
        Case("linspace", (0, 1j, 3), dtype="complex64"),
        Case("logspace", (0, 3, 4), **f32, rtol=1e-5),
        Case("logspace", (0, 3, 4), {"base": 2, "endpoint": False}, **f32, rtol=1e-5),
        Case("geomspace", (1, 1000, 4), **f32, rtol=1e-5),
        Case("geomspace", (-2, -32, 5), **f32, rtol=1e-5),
        Case("geomspace", (1, 256, 4), {"endpoint": False}, **f32, rtol=1e-5),
    ]


def matrix_cases() -> list[Case]:
    m, v, deep = (
        np.arange(12, dtype="f4").reshape(3, 4),
        np.arange(1, 4, dtype="i4"),
        np.ones((2, 3, 3), "f4"),
    )
    cases = [
        Case("eye", (3,)),
        *(Case("eye", (2, 4, k)) for k in (-1, 0, 1, 9)),
        Case("eye", (2,), {"dtype": np.int8}),
        Case("identity", (3,)),
        *(Case("tri", (3, 4, k), expected=np.tri, dtype="float32") for k in (-2, 0, 1)),
        *(Case(n, (x, k)) for n in ("tril", "triu") for x in (m, deep) for k in (-1, 0, 2)),
        *(Case("diagonal", (m,), {"offset": k}) for k in (-5, -2, -1, 0, 1, 3, 4)),
        Case("diagonal", (deep * np.arange(3, dtype="f4"),), {"axis1": 2, "axis2": 0, "offset": 1}),
        *(Case("diag", (x, k)) for x in (m, v) for k in (-2, 0, 1)),
        Case("diag", (np.zeros(0, "f4"),)),
        Case("diagflat", (m[:2, :2], 1)),
        Case("vander", (v,), dtype="int32"),
        Case("vander", (v, 2), dtype="int32"),
        Case("vander", (v, 5), {"increasing": True}, dtype="int32"),
        Case("vander", (np.array([0.5, -2.0], "f4"), 0)),
        *(
            Case(n, (3, k, 4), dtype="int32")
            for n in ("tril_indices", "triu_indices")
            for k in (-1, 0, 1)
        ),
        Case("triu_indices_from", (m,), dtype="int32"),
        Case("tril_indices_from", (m, 1), dtype="int32"),
        Case("diag_indices", (3,), dtype="int32"),
        Case("diag_indices_from", (deep[0],), dtype="int32"),
    ]
    return cases


def mesh_cases() -> list[Case]:
    a, b, c = np.arange(2, dtype="i4"), np.arange(3, dtype="f4"), np.float32(5).reshape(())
    return [
        *(
            Case("meshgrid", args, kw)
            for args in ((a, b), (a,), (a, b, a), (a, c))
            for kw in ({}, {"indexing": "ij"}, {"sparse": True})
        ),
        Case("indices", ((2, 3),), dtype="int32"),
        Case("indices", ((2, 3),), {"sparse": True}, dtype="int32"),
        Case("indices", ((2,),), {"dtype": np.float32}),
        Case("fromfunction", (lambda i, j: i + 10 * j, (2, 3)), dtype="float32"),
        Case("mgrid", (), call=lambda m: m.mgrid[0:2, 0:3], dtype="int32"),
        Case("mgrid", (), call=lambda m: m.mgrid[0:1:3j], dtype="float32"),
        Case("mgrid", (), call=lambda m: m.mgrid[0:1:3j, 0:2], dtype="float32"),
        Case("ogrid", (), call=lambda m: m.ogrid[0:2, 1:6:2], dtype="int32"),
        Case("ogrid", (), call=lambda m: m.ogrid[:3], dtype="int32"),
        Case("r_", (a,), call=lambda m, a: m.r_[1:4, 0, a], dtype="int32"),
        Case("r_", (a,), call=lambda m, a: m.r_["0,2", a, a], dtype="int32"),
        Case("r_", (a,), call=lambda m, a: m.r_["0,2,0", a, a], dtype="int32"),
        Case("r_", (a,), call=lambda m, a: m.r_["1,2,0", a, a], dtype="int32"),
        Case("r_", (), call=lambda m: m.r_[-1:1:5j], dtype="float32"),
        Case(
            "r_",
            (a,),
            call=lambda m, a: np.asarray(m.r_["c", a, a]) if m is np else m.r_["c", a, a],
            dtype="int32",
        ),
        Case("c_", (a, a + 5), call=lambda m, x, y: m.c_[x, y], dtype="int32"),
        Case(
            "c_",
            (a,),
            call=lambda m, x: (
                m.c_[x[None], x[None] * 2]
                if m is np
                else m.c_[m.expand_dims(x, 0), m.expand_dims(x, 0) * 2]
            ),
            dtype="int32",
        ),
    ]


def test_filled_arrays() -> None:
    check(filled_cases())


def test_ranges() -> None:
    check(range_cases())


def test_matrices() -> None:
    check(matrix_cases())


def test_meshes() -> None:
    check(mesh_cases())


def test_weak_types_of_filled_arrays() -> None:
    assert jnp.full((2,), 1).weak_type
    assert not jnp.full((2,), 1, jnp.int32).weak_type
    assert jnp.zeros_like(1.5).weak_type
    assert not jnp.zeros_like(1.5, dtype=jnp.float32).weak_type
    assert jnp.ones_like(xpr.ShapeDtypeStruct((2,), jnp.int8)).dtype == jnp.int8


def test_index_expressions() -> None:
    assert jnp.s_[1:2, ...] == (slice(1, 2), ...)
    assert jnp.index_exp[1] == (1,)


def test_mask_indices() -> None:
    rows, columns = jnp.mask_indices(3, jnp.triu, 1)
    assert (rows.tolist(), columns.tolist()) == ([0, 0, 1], [1, 2, 2])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: jnp.arange(jnp.ones(2)), ValueError, "arguments must be scalars; got stop="),
        (lambda: jnp.arange(1j), ValueError, "Passing complex start/stop/step"),
        (lambda: jnp.arange(0, 1, 0), ZeroDivisionError, "zero"),
        (lambda: jnp.arange("a"), TypeError, "arange requires ndarray or scalar arguments"),
        (lambda: jnp.arange(300, dtype=jnp.int8), OverflowError, "out of bounds for int8"),
        (lambda: xpr.jit(jnp.arange)(3), TypeError, "It arose in the jnp.arange argument 'stop'"),
        (lambda: jnp.linspace(0, 1, -1), ValueError, "Number of samples, -1, must be non-negative"),
        (lambda: jnp.linspace(0, 1, 2.5), TypeError, "integer"),
        (lambda: jnp.eye(-1), ValueError, "negative dimensions are not allowed, got -1 and None"),
        (lambda: jnp.eye(2, k=1.5), ValueError, "k must be a scalar integer; got 1.5"),
        (
            lambda: jnp.tril(jnp.ones(2)),
            ValueError,
            "Argument to jax.numpy.tril must be at least 2D",
        ),
        (lambda: jnp.diag(jnp.ones((1, 1, 1))), ValueError, "diag input must be 1d or 2d"),
        (lambda: jnp.diagonal(jnp.ones(2)), ValueError, "at least two dimensions"),
        (
            lambda: jnp.diagonal(jnp.ones((2, 2)), axis1=0, axis2=-2),
            ValueError,
            "cannot be the same",
        ),
        (lambda: jnp.meshgrid(jnp.ones((2, 2))), ValueError, "must be 1D, got shapes"),
        (lambda: jnp.meshgrid(jnp.ones(2), indexing="foo"), ValueError, "'xy' and 'ij'"),
        (lambda: jnp.r_["foo", jnp.ones(2)], ValueError, "could not understand directive 'foo'"),
        (lambda: jnp.tril_indices_from(jnp.ones(2)), ValueError, "Only 2-D inputs"),
        (lambda: jnp.ones(2, 3), TypeError, r"when you meant `jax.numpy.ones\(\(2, 3\)\)`"),
        (lambda: jnp.empty(2, 3), TypeError, r"when you meant `jax.numpy.empty\(\(2, 3\)\)`"),
        (lambda: jnp.fromfile("x"), NotImplementedError, r"jnp.fromfile\(\) is not implemented"),
        (
            lambda: jnp.fromiter([1], int),
            NotImplementedError,
            r"jnp.fromiter\(\) is not implemented",
        ),
    ],
)
def test_errors_of_constructors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


# ---- bytes, files, other libraries


def test_buffers_and_text() -> None:
    assert jnp.frombuffer(b"\x01\x00\x00\x00", dtype=jnp.int32).tolist() == [1]
    assert jnp.frombuffer(b"abcd", dtype="uint8", count=2, offset=1).tolist() == [98, 99]
    assert jnp.frombuffer(np.arange(3.0)).dtype == jnp.float32
    writable = bytearray(b"abc")
    found = jnp.frombuffer(writable, dtype=np.uint8)
    writable[0] = 0
    assert found.tolist() == [97, 98, 99]
    assert jnp.fromstring("1 2.5", sep=" ").tolist() == [1, 2.5]
    assert jnp.array_str(jnp.arange(3)) == "[0 1 2]"
    assert jnp.array_repr(jnp.arange(3)) == "array([0, 1, 2], dtype=int32)"


def test_dlpack_copies() -> None:
    source = np.arange(3, dtype=np.float32)
    found = jnp.from_dlpack(source)
    source[:] = -1
    assert found.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="copy=False"):
        jnp.from_dlpack(source, copy=False)
    with pytest.raises(TypeError, match=r"requires an array with __dlpack__ .* got <class 'int'>"):
        jnp.from_dlpack(3)


def test_dlpack_of_an_array_keeps_its_type() -> None:
    for source in (jnp.ones(2, jnp.bfloat16), jnp.arange(3)):
        found = jnp.from_dlpack(source)
        assert found.dtype == source.dtype
        np.testing.assert_array_equal(np.asarray(found), np.asarray(source))


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "bfloat16", "float16"])
def test_files(dtype: str) -> None:
    x = jnp.array([[0, 1], [2, 3]], dtype=getattr(jnp, dtype))
    file = io.BytesIO()
    jnp.save(file, x)
    file.seek(0)
    found = jnp.load(file)
    assert isinstance(found, xpr.Array)
    assert found.dtype == x.dtype
    assert found.tolist() == x.tolist()


def test_archives() -> None:
    file = io.BytesIO()
    jnp.savez(file, jnp.arange(2), named=jnp.ones(1))
    file.seek(0)
    found = jnp.load(file)
    assert found["arr_0"].tolist() == [0, 1]
    assert found["named"].tolist() == [1]


def test_sizes() -> None:
    x = jnp.ones((2, 3))
    assert jnp.shape(x) == (2, 3)
    assert jnp.shape(3) == ()
    assert jnp.ndim([1, 2]) == 1
    assert jnp.size(x) == 6
    assert jnp.size(x, -1) == 3
    assert jnp.size(x, (0, 1)) == 6
    with pytest.raises(ValueError, match="axis 5 is out of bounds"):
        jnp.size(x, 5)


def test_arrays_without_values() -> None:
    """Tangents of integers, as `grad` with `allow_int` returns them."""
    float0 = xpr.dtypes.float0
    for made in (
        jnp.zeros((2, 3), float0),
        jnp.zeros_like(jnp.ones((2, 3)), dtype=float0),
        jnp.zeros_like(np.zeros((2, 3), float0)),
    ):
        assert (made.shape, made.dtype) == ((2, 3), float0)
    _, tangent = xpr.jvp(lambda n: n + 1, (3,), (jnp.zeros((), float0),))
    assert tangent.dtype == float0
