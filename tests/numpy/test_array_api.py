"""`xpr.numpy` as a namespace of the array API standard, version 2025.12.

`docs/array_api.md` says where it departs from the standard, and why.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.test_util import check_grads

INFO = jnp.__array_namespace_info__()
KINDS = {
    "bool": ["bool"],
    "signed integer": ["int8", "int16", "int32", "int64"],
    "unsigned integer": ["uint8", "uint16", "uint32", "uint64"],
    "real floating": ["float32", "float64"],
    "complex floating": ["complex64", "complex128"],
}

CONSTANTS = {"e": np.e, "inf": np.inf, "nan": np.nan, "newaxis": None, "pi": np.pi}


def test_constants_and_methods() -> None:
    for name, value in CONSTANTS.items():
        np.testing.assert_equal(getattr(jnp, name), value)
    x = jnp.ones((2, 3))
    for name in ("dtype", "device", "ndim", "shape", "size", "T", "mT"):
        assert hasattr(x, name)
    operators = "abs add and bool complex eq float floordiv ge getitem gt index int invert le \
        lshift lt matmul mod mul ne neg or pos pow rshift sub truediv xor radd rsub rmul rtruediv \
        rfloordiv rmod rpow rmatmul rand ror rxor rlshift rrshift dlpack dlpack_device"
    for name in operators.split():
        assert callable(getattr(x, f"__{name}__"))


# ---- what can be asked


def test_a_program_finds_the_namespace_from_an_array() -> None:
    x = jnp.ones(2)
    assert jnp.__array_api_version__ == "2025.12"
    for version in (None, "2024.12", "2025.12"):
        assert x.__array_namespace__(api_version=version) is jnp
    with pytest.raises(ValueError, match=r"api_version='2020\.10' is not available"):
        x.__array_namespace__(api_version="2020.10")
    traced: list[Any] = []
    xpr.jit(lambda x: (traced.append(x.__array_namespace__()), x)[1])(x)
    assert traced == [jnp]


def test_capabilities_and_defaults() -> None:
    assert INFO.capabilities() == {
        "boolean indexing": False,
        "data-dependent shapes": False,
        "max dimensions": 64,
    }
    assert jnp.ones((1,) * 64).ndim == 64
    assert INFO.default_device() in INFO.devices()
    assert INFO.devices()[1:] == xpr.devices()
    for x64, bits in ((False, 32), (True, 64)):
        with xpr.enable_x64(x64):
            found = INFO.default_dtypes(device=xpr.devices()[0])
            assert found["real floating"] == jnp.asarray(1.0).dtype == f"float{bits}"
            assert found["complex floating"] == jnp.asarray(1j).dtype == f"complex{2 * bits}"
            assert found["integral"] == jnp.asarray(1).dtype == f"int{bits}"
            assert found["indexing"] == jnp.argmax(jnp.ones(2)).dtype


def test_dtypes_of_each_kind() -> None:
    everything = [name for names in KINDS.values() for name in names]
    with xpr.enable_x64(True):
        assert sorted(INFO.dtypes()) == sorted(everything)
        for kind, names in KINDS.items():
            assert list(INFO.dtypes(kind=kind)) == names
        assert sorted(INFO.dtypes(kind=("bool", "integral"))) == sorted(everything[:9])
        assert sorted(INFO.dtypes(kind="numeric")) == sorted(everything[1:])
        for name, dtype in INFO.dtypes().items():
            assert getattr(jnp, name) == dtype
            assert jnp.zeros(1, dtype=dtype).dtype == dtype
            for kind, names in KINDS.items():
                assert jnp.isdtype(dtype, kind) == (name in names)
                assert jnp.isdtype(dtype, (kind, "numeric")) == (name in names or name != "bool")
    narrow = [name for name in everything if name[-2:] not in ("64", "28") or name == "complex64"]
    assert sorted(INFO.dtypes(device=None)) == sorted(narrow)
    with pytest.raises(ValueError, match=r"kind must be one of .* got 'float'"):
        INFO.dtypes(kind="float")
    with pytest.raises(ValueError, match=r"one of devices\(\) or None, got 'gpu'"):
        INFO.dtypes(device="gpu")


# ---- promotion


def common(a: str, b: str) -> str | None:
    """The standard's tables: within a kind the wider, signed with unsigned one wider than both."""
    if a == b:
        return a
    if "bool" in (a, b):
        return None
    one, two = np.dtype(a), np.dtype(b)
    if {one.kind, two.kind} == {"i", "u"}:
        signed, unsigned = (one, two) if one.kind == "i" else (two, one)
        bits = 8 * max(signed.itemsize, 2 * unsigned.itemsize)
        return f"int{bits}" if bits <= 64 else None
    if one.kind == two.kind:
        return max(a, b, key=lambda d: np.dtype(d).itemsize)
    if {one.kind, two.kind} == {"f", "c"}:
        real, whole = (one, two) if one.kind == "f" else (two, one)
        return f"complex{8 * max(2 * real.itemsize, whole.itemsize)}"
    return None


def test_promotion_follows_the_tables() -> None:
    everything = [name for names in KINDS.values() for name in names]
    with xpr.enable_x64(True):
        for a in everything:
            for b in everything:
                if (wanted := common(a, b)) is None:
                    continue
                x, y = jnp.ones(2, dtype=a), jnp.ones(2, dtype=b)
                assert jnp.result_type(a, b) == jnp.result_type(x, y) == wanted
                assert jnp.where(x == x, x, y).dtype == jnp.concat([x, y]).dtype == wanted
                assert jnp.can_cast(a, wanted)
            for scalar, kinds in ((True, "b"), (1, "iufc"), (1.0, "fc"), (1j, "c")):
                if np.dtype(a).kind in kinds:
                    assert jnp.result_type(a, scalar) == a
        assert not jnp.can_cast("float64", "float32")
        assert not jnp.can_cast("int16", "uint16")


def test_dtypes_of_sums_and_indices() -> None:
    with xpr.enable_x64(True):
        for name in KINDS["signed integer"] + KINDS["unsigned integer"]:
            x = jnp.ones(3, dtype=name)
            wide = "uint64" if name[0] == "u" else "int64"
            sums = (jnp.sum(x), jnp.prod(x), jnp.cumulative_sum(x))
            assert [str(s.dtype) for s in sums] == [wide] * 3
            assert jnp.sum(x, dtype=jnp.int16).dtype == "int16"
            indices = (jnp.argsort(x), jnp.argmin(x), *jnp.nonzero(x), jnp.count_nonzero(x))
            assert {str(i.dtype) for i in (*indices, jnp.unique_inverse(x)[1])} == {"int64"}
        for name in KINDS["real floating"] + KINDS["complex floating"]:
            x = jnp.ones((2, 2), dtype=name)
            assert jnp.sum(x).dtype == jnp.mean(x).dtype == name
            assert jnp.fft.ifft(x).dtype == jnp.result_type(x, 1j)
            assert jnp.linalg.vector_norm(x).dtype == jnp.abs(x).dtype == jnp.real(x).dtype


# ---- values that the standard fixes

INF, NAN = np.inf, np.nan
# (function, first operands, second operands or None, results): one column for one case.
SPECIAL: list[tuple[str, list[Any], list[Any] | None, list[Any]]] = [
    (
        "floor_divide",
        [0.0, -0.0, 0.0, -0.0, INF, 1, -1, 1, -1, 1, -1, 0.0, INF, -0.5],
        [1.0, 1.0, -1.0, -1.0, INF, INF, INF, -INF, -INF, 0.0, 0.0, 0.0, 2, -1],
        [0.0, -0.0, -0.0, 0.0, NAN, 0.0, -1, -1, 0.0, INF, -INF, NAN, None, 0.0],
    ),
    (
        "remainder",
        [0.0, -0.0, 0.0, -0.0, INF, 1, -1, 1, -1, 1, 6, -6],
        [1.0, 1.0, -1.0, -1.0, 1, INF, INF, -INF, -INF, 0.0, -3, 3],
        [0.0, 0.0, -0.0, -0.0, NAN, 1, INF, -INF, -1, NAN, -0.0, 0.0],
    ),
    (
        "pow",
        [NAN, 1, 2, 0.5, -1, 0.0, -0.0, -0.0, -0.0, -INF, -INF, -INF, -2, 0.0],
        [0.0, NAN, INF, INF, INF, -1, -1, -2, 3, 3, 2, -3, 0.5, 0.5],
        [1, 1, INF, 0.0, 1, INF, -INF, INF, -0.0, -INF, INF, -0.0, NAN, 0.0],
    ),
    (
        "atan2",
        [0.0, -0.0, 0.0, -0.0, 1, -1, INF, -INF, INF, 1, -1],
        [0.0, 0.0, -0.0, -0.0, 0.0, 0.0, INF, -INF, -INF, -INF, -INF],
        [0.0, -0.0, *np.array([4, -4, 2, -2, 1, -3, 3, 4, -4]) * np.pi / 4],
    ),
    ("hypot", [INF, NAN, -INF, 3], [NAN, INF, 1, 4], [INF, INF, INF, 5]),
    ("maximum", [NAN, 1, 2, -INF], [1, NAN, 1, 5], [NAN, NAN, 2, 5]),
    ("copysign", [1, NAN, 0.0, -2], [-0.0, -1, -3, 1], [-1, NAN, -0.0, 2]),
    ("logaddexp", [NAN, INF, -INF, -INF], [1, 1, -INF, 2], [NAN, INF, -INF, 2]),
    ("nextafter", [0.0, 1.0, NAN], [0.0, 1.0, 1.0], [0.0, 1.0, NAN]),
    ("round", [0.5, 1.5, -0.5, -0.0, INF, 2.5], None, [0, 2, -0.0, -0.0, INF, 2]),
    ("trunc", [-0.0, 0.7, -0.7, -INF, NAN], None, [-0.0, 0.0, -0.0, -INF, NAN]),
    ("ceil", [-0.0, -0.5, INF], None, [-0.0, -0.0, INF]),
    ("sqrt", [-0.0, -1, INF], None, [-0.0, NAN, INF]),
    ("log", [0.0, -0.0, -1, 1, INF], None, [-INF, -INF, NAN, 0.0, INF]),
    ("log1p", [-1, -0.0, -2, INF], None, [-INF, -0.0, NAN, INF]),
    ("expm1", [-0.0, -INF, INF], None, [-0.0, -1, INF]),
    ("acosh", [0.5, 1, INF], None, [NAN, 0.0, INF]),
    ("atanh", [-1, 1, 2, -0.0], None, [-INF, INF, NAN, -0.0]),
    ("tanh", [-0.0, INF, -INF], None, [-0.0, 1, -1]),
    ("sinh", [-0.0, -INF], None, [-0.0, -INF]),
    ("signbit", [-0.0, 0.0, -INF, 3], None, [True, False, True, False]),
    (
        "log2",
        [8 + 0j, complex(0, INF), complex(-INF, 0)],
        None,
        [3, complex(INF, np.pi / np.log(4)), None],
    ),
    ("log10", [100 + 0j, complex(0, -INF)], None, [2, complex(INF, -np.pi / np.log(100))]),
]


def exactly_equal(found: Any, wanted: Any, dtype: Any) -> None:
    """Equal up to rounding, with zeros of the same sign; None is for anything."""
    keep = [i for i, w in enumerate(wanted) if w is not None]
    found = np.asarray(found)[keep]
    want = np.array([wanted[i] for i in keep], dtype if found.dtype != bool else bool)
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(found, part), getattr(want, part), 1e-6, 1e-6)
    if found.dtype.kind == "f":
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(want)[number])


def test_special_cases() -> None:
    def operands(row: Any) -> list[np.ndarray]:
        kind = np.complex64 if isinstance(row[1][0], complex) else np.float32
        return [np.array(x, kind) for x in row[1:3] if x is not None]

    inputs = [operands(row) for row in SPECIAL]

    def everything(inputs: Any) -> Any:
        return [getattr(jnp, row[0])(*x) for row, x in zip(SPECIAL, inputs, strict=True)]

    for run in (everything, xpr.jit(everything)):
        for row, x, found in zip(SPECIAL, inputs, run(inputs), strict=True):
            try:
                exactly_equal(found, row[3], x[0].dtype)
            except AssertionError as error:
                raise AssertionError(f"{row[0]}: {error}") from None


def test_a_remainder_of_zero_keeps_its_derivative() -> None:
    with xpr.enable_x64(True):
        assert float(xpr.grad(lambda x: jnp.remainder(x, 1.0))(2.0)) == 1.0
        assert float(xpr.grad(lambda y: jnp.remainder(6.0, y))(-3.0)) == 2.0
        check_grads(jnp.remainder, (np.array([5.3, -5.3]), np.array([2.0, -3.1])), order=1)
        check_grads(lambda z: jnp.log2(z) * jnp.log10(z), (np.array([1 + 2j, -3 + 1j]),), order=1)


def test_empty_reductions() -> None:
    x = jnp.zeros((0, 2))
    assert float(jnp.sum(x)) == 0
    assert float(jnp.prod(x)) == 1
    assert bool(jnp.all(x))
    assert not bool(jnp.any(x))
    np.testing.assert_array_equal(np.isnan(jnp.mean(x, axis=0)), True)
    with pytest.raises(ValueError, match="zero-size array"):
        jnp.max(x)
    np.testing.assert_array_equal(
        jnp.cumulative_sum(x, axis=0, include_initial=True), np.zeros((1, 2))
    )


# ---- sets, searches, other functions of the last versions


def test_sets_tell_what_they_tell() -> None:
    x = jnp.array([[3, 1], [3, 2]])
    values, indices, inverse, counts = jnp.unique_all(x)
    found = jnp.unique_all(x)
    assert found.values is not None
    np.testing.assert_array_equal(values, [1, 2, 3])
    np.testing.assert_array_equal(np.ravel(x)[np.asarray(indices)], values)
    np.testing.assert_array_equal(np.asarray(values)[np.asarray(inverse)], x)
    np.testing.assert_array_equal(counts, [1, 1, 2])
    assert jnp.unique_inverse(x).inverse_indices.shape == x.shape
    np.testing.assert_array_equal(jnp.unique_counts(x).counts, counts)
    nans = jnp.array([NAN, 1.0, NAN, 0.0, -0.0])
    assert jnp.unique_values(nans).shape[0] in (3, 4, 5)
    np.testing.assert_array_equal(jnp.isin(x, jnp.array([1, 2]), invert=True), [[1, 0], [1, 0]])


def test_orders_and_searches() -> None:
    x = jnp.array([2, 0, 2, 1])
    np.testing.assert_array_equal(jnp.argsort(x, descending=True, stable=True), [0, 2, 3, 1])
    np.testing.assert_array_equal(jnp.sort(x, descending=True), [2, 2, 1, 0])
    by = jnp.argsort(x)
    np.testing.assert_array_equal(
        jnp.searchsorted(x, jnp.array([1, 2, 3]), side="right", sorter=by), [2, 4, 4]
    )
    nothing = jnp.zeros(0)
    np.testing.assert_array_equal(jnp.searchsorted(nothing, x, sorter=jnp.argsort(nothing)), 0)
    rows = jnp.array([[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(
        jnp.take_along_axis(rows, jnp.array([[2], [0]]), axis=1), [[3], [4]]
    )
    last = jnp.array([[-1], [0]])
    for wrap, want in ((None, 3), (True, 3), (False, np.iinfo(np.int32).min)):
        found = jnp.take_along_axis(rows, last, axis=1, wrap_negative_indices=wrap)
        np.testing.assert_array_equal(found, [[want], [4]])
    first, second = jnp.unstack(rows)
    np.testing.assert_array_equal(jnp.concat([first, second]), np.arange(1, 7))
    np.testing.assert_array_equal(
        jnp.diff(rows, n=2, prepend=jnp.array([[0], [0]])), [[0, 0], [-3, 0]]
    )
    np.testing.assert_array_equal(jnp.count_nonzero(rows > 2, axis=0, keepdims=True), [[1, 1, 2]])
    assert jnp.broadcast_shapes((3, 1), (2,)) == (3, 2)


# ---- devices and other libraries


def test_arrays_are_made_on_the_device_asked_for() -> None:
    device = xpr.devices()[0]
    made = [
        jnp.zeros(2, device=device),
        jnp.asarray([1, 2], device=device),
        jnp.arange(3, device=device),
        jnp.full_like(jnp.ones(2), 3, device=device),
        jnp.fft.fftfreq(4, device=device),
        jnp.astype(jnp.ones(2), jnp.int32, device=device),
        jnp.from_dlpack(np.ones(2, np.float32), device=device),
        jnp.ones(2).to_device(device),
    ]
    for x in made:
        assert x.device == device
        assert x.committed
    assert jnp.zeros(2, device=INFO.default_device()).device == device
    with pytest.raises(NotImplementedError, match="stream=None"):
        jnp.ones(2).to_device(device, stream=1)


def test_memory_is_shared_with_libraries_that_ask() -> None:
    x = jnp.arange(4)
    assert x.__dlpack_device__() == np.arange(2).__dlpack_device__()
    view = np.from_dlpack(x)
    np.testing.assert_array_equal(view, [0, 1, 2, 3])
    assert not view.flags.writeable
    source = np.arange(3, dtype=np.float32)
    copy = jnp.from_dlpack(source)
    source[0] = 9
    np.testing.assert_array_equal(copy, [0, 1, 2])
    assert jnp.from_dlpack(x, copy=False) is not None
    with pytest.raises(ValueError, match="copy=False would share memory"):
        jnp.from_dlpack(source, copy=False)
    with pytest.raises(BufferError, match="copy=False"):
        x.__dlpack__(copy=False)


def test_copies_are_made_when_asked_for() -> None:
    x = jnp.arange(4)
    for y in (jnp.asarray(x, copy=True), jnp.reshape(x, (2, 2), copy=True), jnp.astype(x, x.dtype)):
        np.testing.assert_array_equal(np.ravel(y), x)
    assert jnp.asarray(x, copy=False) is x


# ---- dtypes of one bit


def test_integers_of_one_bit() -> None:
    for dtype, low, high in ((jnp.int1, -1, 0), (jnp.uint1, 0, 1)):
        info = jnp.iinfo(dtype)
        assert (int(info.min), int(info.max), info.bits) == (low, high, 1)
        x = jnp.array([0, 1, 1]).astype(dtype)
        assert x.dtype == dtype
        np.testing.assert_array_equal(x.astype(jnp.int32), np.array([0, 1, 1]) * (low + high))
        np.testing.assert_array_equal((x + x).astype(jnp.int32), [0, 0, 0])
        assert jnp.result_type(dtype, 1) == dtype
        with pytest.raises(TypeError, match="int1 cannot be used in compiled programs"):
            xpr.jit(lambda x: x + x)(x)
