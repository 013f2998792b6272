"""`xpr.numpy` as a namespace of the array API standard, version 2025.12.

`docs/array_api.md` says where it departs from the standard, and why.
"""

from __future__ import annotations

import inspect
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

# ---- signatures
#
# Functions by what they take, as the standard writes it: names before "/" are positional only and
# may have another name here; names after "*" are keywords; "=" marks a default. Where xpr, like
# JAX, has None for the standard's default, it means the same.
SIGNATURES: dict[str, str] = {
    "x, /": """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1
        floor imag isfinite isinf isnan log log1p log2 log10 logical_not negative positive real
        reciprocal round sign signbit sin sinh square sqrt tan tanh trunc matrix_transpose nonzero
        unique_all unique_counts unique_inverse unique_values linalg.det linalg.eig linalg.eigh
        linalg.eigvals linalg.eigvalsh linalg.inv linalg.matrix_transpose linalg.slogdet
        linalg.svdvals""",
    "x1, x2, /": """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift
        bitwise_xor copysign divide equal floor_divide greater greater_equal hypot less less_equal
        logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal
        pow remainder subtract matmul linalg.matmul linalg.outer linalg.solve""",
    "x, /, min=, max=": "clip",
    "x, /, *, axis=, keepdims=": "all any argmax argmin count_nonzero max mean min",
    "x, /, *, axis=, dtype=, keepdims=": "sum prod",
    "x, /, *, axis=, correction=, keepdims=": "std var",
    "x, /, *, axis=, dtype=, include_initial=": "cumulative_sum cumulative_prod",
    "x, /, *, axis=, n=, prepend=, append=": "diff",
    "x, /, *, axis=, descending=, stable=": "sort argsort",
    "x1, x2, /, *, side=, sorter=": "searchsorted",
    "x1, x2, /, *, invert=": "isin",
    "condition, x1, x2, /": "where",
    "x, indices, /, *, axis=": "take take_along_axis",
    "x1, x2, /, *, axis=": "vecdot linalg.vecdot linalg.cross",
    "x1, x2, /, *, axes=": "tensordot linalg.tensordot",
    "*arrays": "broadcast_arrays broadcast_shapes result_type",
    "*arrays, indexing=": "meshgrid",
    "x, /, shape": "broadcast_to",
    "x, /, shape, *, copy=": "reshape",
    "x, /, axes": "permute_dims",
    "x, /, axis": "expand_dims squeeze",
    "x, /, *, axis=": "flip unstack",
    "x, source, destination, /": "moveaxis",
    "x, repeats, /, *, axis=": "repeat",
    "x, repetitions, /": "tile",
    "x, /, shift, *, axis=": "roll",
    "arrays, /, *, axis=": "concat stack",
    "x, /, *, k=": "tril triu",
    "start, /, stop=, step=, *, dtype=, device=": "arange",
    "obj, /, *, dtype=, device=, copy=": "asarray",
    "shape, *, dtype=, device=": "empty ones zeros",
    "x, /, *, dtype=, device=": "empty_like ones_like zeros_like",
    "shape, fill_value, *, dtype=, device=": "full",
    "x, /, fill_value, *, dtype=, device=": "full_like",
    "n_rows, n_cols=, /, *, k=, dtype=, device=": "eye",
    "start, stop, /, num, *, dtype=, device=, endpoint=": "linspace",
    "x, /, *, device=, copy=": "from_dlpack",
    "x, dtype, /, *, copy=, device=": "astype",
    "from_, to, /": "can_cast",
    "type, /": "finfo iinfo",
    "dtype, kind": "isdtype",
    "x, /, *, upper=": "linalg.cholesky",
    "x, /, *, offset=": "linalg.diagonal",
    "x, /, *, keepdims=, ord=": "linalg.matrix_norm",
    "x, n, /": "linalg.matrix_power",
    "x, /, *, rtol=": "linalg.matrix_rank linalg.pinv",
    "x, /, *, mode=": "linalg.qr",
    "x, /, *, full_matrices=": "linalg.svd",
    "x, /, *, offset=, dtype=": "linalg.trace",
    "x, /, *, axis=, keepdims=, ord=": "linalg.vector_norm",
    "x, /, *, n=, axis=, norm=": "fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft",
    "x, /, *, s=, axes=, norm=": "fft.fftn fft.ifftn fft.rfftn fft.irfftn",
    "x, /, *, axes=": "fft.fftshift fft.ifftshift",
    "n, /, *, d=, dtype=, device=": "fft.fftfreq fft.rfftfreq",
}
NAMES = [(name, spec) for spec, names in SIGNATURES.items() for name in names.split()]
CONSTANTS = {"e": np.e, "inf": np.inf, "nan": np.nan, "newaxis": None, "pi": np.pi}


def find(name: str) -> Any:
    found: Any = jnp
    for part in name.split("."):
        found = getattr(found, part)
    return found


def problems(function: Any, spec: str) -> list[str]:
    """What a call that the standard allows would trip over."""
    parameters = list(inspect.signature(function).parameters.values())
    by_name = {p.name: p for p in parameters}
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
    only_place = "/" in spec
    used, found, keywords = set(), [], False
    for item in (part.strip() for part in spec.split(",")):
        if item in ("/", "*"):
            only_place, keywords = False, keywords or item == "*"
        elif item.startswith("*"):
            keywords = True
            found += [] if rest else [f"{item}: takes a fixed number of arguments"]
        else:
            name, optional = item.rstrip("="), item.endswith("=")
            if keywords:
                parameter = by_name.get(name)
            else:
                parameter = by_place[len(used)] if len(used) < len(by_place) else None
            if parameter is None:
                found.append(f"{name}: missing")
                continue
            used.add(parameter.name)
            if not only_place and (
                parameter.name != name or parameter.kind is parameter.POSITIONAL_ONLY
            ):
                found.append(f"{name}: cannot be given by name")
            if optional and parameter.default is parameter.empty:
                found.append(f"{name}: has no default")
    required = {p.name for p in parameters if p.default is p.empty} - used
    return found + [f"{name}: required here only" for name in required - {p.name for p in rest}]


@pytest.mark.parametrize(("name", "spec"), NAMES, ids=[n for n, _ in NAMES])
def test_functions_can_be_called_as_the_standard_says(name: str, spec: str) -> None:
    function = find(name)
    if isinstance(function, jnp.ufunc):
        assert function.nin == spec.count("x")
    else:
        assert problems(function, spec) == []


def test_the_check_of_signatures_finds_faults() -> None:
    def short(x: Any, /, axis: Any, *, more: Any) -> None: ...

    assert problems(short, "x, /, *, axis=, keepdims=") == [
        "axis: has no default",
        "keepdims: missing",
        "more: required here only",
    ]
    assert problems(short, "x, axis, *, more") == ["x: cannot be given by name"]
    assert problems(short, "*x, axis, more")[0] == "*x: takes a fixed number of arguments"


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
        return [find(row[0])(*x) for row, x in zip(SPECIAL, inputs, strict=True)]

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
