"""Concrete arrays: immutability, NumPy, DLPack, pickling, printing, conversions."""

from __future__ import annotations

import copy
import operator
import pickle
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from matplotlib.figure import Figure

import xpr
import xpr.numpy as jnp
from xpr.core.config import override


def test_assignment_points_to_at() -> None:
    x = jnp.arange(10)
    with pytest.raises(TypeError, match=r"immutable.*x = x\.at\[idx\]\.set\(y\)"):
        x[0] = 10
    assert int(x[0]) == 0


def test_hash_is_refused() -> None:
    with pytest.raises(TypeError, match="unhashable type"):
        hash(jnp.ones(3))


def test_numpy_view_is_free_and_read_only() -> None:
    x = jnp.arange(12.0).reshape(3, 4)
    view = np.asarray(x)
    assert view is not None
    assert not view.flags.writeable
    assert np.shares_memory(view, np.asarray(x))
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        view.flags.writeable = True
    own = np.array(x)
    own[0, 0] = 5
    assert float(x[0, 0]) == 0.0


def test_compiled_results_are_read_only_views_too() -> None:
    view = np.asarray(xpr.jit(lambda x: x + 1)(jnp.ones(100)))
    assert not view.flags.writeable
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        view.flags.writeable = True


def test_writing_to_the_source_never_shows() -> None:
    source = np.arange(64, dtype="f4")
    arrays = [
        jnp.array(source),
        jnp.asarray(source),
        xpr.device_put(source),
        jnp.asarray(source[::2]),
    ]
    values = [np.array(a) for a in arrays]
    source[:] = -1
    for a, v in zip(arrays, values, strict=True):
        np.testing.assert_array_equal(np.asarray(a), v)


def test_array_protocol_dtype_and_copy() -> None:
    x = jnp.arange(3)
    assert np.asarray(x, dtype="f8").dtype == np.float64
    with pytest.raises(ValueError, match="needs a copy"):
        x.__array__(np.float64, copy=False)
    assert x.__array__(copy=True).flags.writeable


def test_dlpack_both_ways() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    shared = np.from_dlpack(x)
    np.testing.assert_array_equal(shared, np.arange(6.0).reshape(2, 3))
    assert not shared.flags.writeable
    y = jnp.from_dlpack(np.arange(4, dtype="i4"))
    np.testing.assert_array_equal(np.asarray(y), np.arange(4))
    assert x.__dlpack_device__()[0] == 1
    with pytest.raises(BufferError, match="no type for bfloat16"):
        jnp.ones(3, jnp.bfloat16).__dlpack__()
    # A consumer of the old protocol gets a copy that it may write to.
    assert "dltensor" in repr(x.__dlpack__())
    with pytest.raises(BufferError, match="copy=False"):
        x.__dlpack__(copy=False)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint32", "float16", "bfloat16", "float32", "complex64", "float8_e4m3fn"],
)
def test_pickling(dtype: str) -> None:
    d = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = jnp.array(np.arange(6).reshape(2, 3).astype(d))
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype == d
    np.testing.assert_array_equal(np.asarray(y).astype("c8"), np.asarray(x).astype("c8"))
    assert pickle.loads(pickle.dumps(jnp.asarray(1.0))).weak_type


def test_copies() -> None:
    x = jnp.arange(3.0) + 0
    y = copy.deepcopy(x)
    x.delete()
    np.testing.assert_array_equal(np.asarray(y), [0, 1, 2])


def test_deleted_arrays_raise() -> None:
    x = jnp.ones((2, 3)) + 0
    x.delete()
    assert x.is_deleted()
    for use in (
        lambda: np.asarray(x),
        lambda: x + 1,
        lambda: x.block_until_ready(),
        lambda: xpr.jit(lambda v: v)(x),
    ):
        with pytest.raises(RuntimeError, match=r"Array has been deleted with shape"):
            use()
    assert x.shape == (2, 3)
    assert "deleted" in repr(x)


# The texts are those JAX prints.
_REPR = [
    (lambda: jnp.arange(10), "Array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], dtype=int32)"),
    (lambda: jnp.add(1, 1.0), "Array(2., dtype=float32, weak_type=True)"),
    (lambda: jnp.zeros((0, 3)), "Array([], shape=(0, 3), dtype=float32)"),
    (lambda: jnp.zeros((0,), jnp.int32), "Array([], shape=(0,), dtype=int32)"),
    (lambda: jnp.array([True, False]), "Array([ True, False], dtype=bool)"),
    (lambda: jnp.ones((2, 2)), "Array([[1., 1.],\n       [1., 1.]], dtype=float32)"),
    (lambda: jnp.array([1.5, 2], jnp.bfloat16), "Array([1.5, 2], dtype=bfloat16)"),
    (lambda: jnp.array(1 + 2j), "Array(1.+2.j, dtype=complex64, weak_type=True)"),
    (lambda: jnp.arange(2000), "Array([   0,    1,    2, ..., 1997, 1998, 1999], dtype=int32)"),
    (
        lambda: jnp.arange(12.0),
        "Array([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11.],      dtype=float32)",
    ),
]


@pytest.mark.parametrize(("make", "text"), _REPR)
def test_repr(make, text: str) -> None:
    assert repr(make()) == text


def test_str_and_format() -> None:
    assert str(jnp.arange(3)) == "[0 1 2]"
    assert f"{jnp.float32(1.25):.1f}" == "1.2"
    assert f"{jnp.arange(2)}" == "[0 1]"


def test_scalar_conversions() -> None:
    assert (int(jnp.int32(3)), float(jnp.float32(1.5)), complex(jnp.complex64(1j))) == (3, 1.5, 1j)
    assert bool(jnp.array([[True]])) is True
    assert [10, 20, 30][jnp.int32(1)] == 20
    assert jnp.arange(6).reshape(2, 3).item(1, 2) == 5
    assert jnp.arange(4).reshape(2, 2).tolist() == [[0, 1], [2, 3]]
    with pytest.raises(
        ValueError, match="truth value of an array with more than one element is ambiguous"
    ):
        bool(jnp.arange(2))
    with pytest.raises(ValueError, match="truth value of an empty array is ambiguous"):
        bool(jnp.zeros(0))
    with pytest.raises(TypeError, match="Only scalar arrays"):
        float(jnp.arange(2))
    with pytest.raises(TypeError, match="Only integer scalar arrays"):
        [1, 2][jnp.float32(1)]


def test_iteration_and_length() -> None:
    assert [int(v) for v in jnp.arange(3)] == [0, 1, 2]
    assert len(jnp.zeros((4, 2))) == 4
    with pytest.raises(TypeError, match="unsized"):
        len(jnp.float32(1))
    with pytest.raises(TypeError, match="0-d"):
        iter(jnp.float32(1))
    assert 2 in jnp.arange(3)


def test_iteration_computes_only_what_is_asked_for() -> None:
    """NumPy and plotting libraries ask whether a value can be iterated over by calling `iter`."""
    x = jnp.arange(10_000_000)
    tracemalloc.start()
    try:
        assert np.iterable(x)
        rows = iter(x)
        assert [int(next(rows)) for _ in range(3)] == [0, 1, 2]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    whole = jnp.arange(2550.0, dtype=jnp.bfloat16).reshape(255, 5, 2)
    found = list(whole)
    assert {(type(row), row.dtype, row.shape) for row in found} == {
        (type(whole), whole.dtype, (5, 2))
    }
    np.testing.assert_array_equal(np.stack([np.asarray(row) for row in found]), whole)
    assert list(jnp.zeros((0, 2))) == []
    (weak,) = jnp.asarray(2.0)[None]
    assert weak.weak_type
    with pytest.raises(ValueError, match="too many values"):
        _first, _second = jnp.arange(3)


def test_plots_take_arrays_whole() -> None:
    """`to_numpy` is what matplotlib asks of arrays that it does not know."""
    y = jnp.sin(jnp.arange(1000.0))
    values = y.to_numpy()
    assert type(values) is np.ndarray
    assert not values.flags.writeable
    np.testing.assert_array_equal(values, y)
    figure = Figure()
    axes = figure.add_subplot()
    (line,) = axes.plot(y, y)
    np.testing.assert_array_equal(line.get_ydata(), values)
    counts, edges, _ = axes.hist(y, bins=7)
    expected = np.histogram(values, bins=7)
    np.testing.assert_array_equal(counts, expected[0])
    np.testing.assert_allclose(edges, expected[1], rtol=1e-6)


def test_a_row_does_not_keep_the_whole_array() -> None:
    x = jnp.zeros((100, 10_000))
    last = list(x)[-1]
    owner = np.asarray(last)
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    assert owner.nbytes == last.nbytes


def test_tracers_are_unpacked_in_one_operation() -> None:
    x = jnp.arange(6.0).reshape(3, 2)

    def f(x: xpr.Array) -> xpr.Array:
        assert np.iterable(x)  # costs no equation
        a, b, c = x
        return a * b + c

    assert str(xpr.make_jaxpr(f)(x)).count("unstack") == 1
    np.testing.assert_array_equal(xpr.jit(f)(x), [4, 8])
    np.testing.assert_array_equal(xpr.jacobian(f)(x)[0], [[2, 0], [0, 0], [1, 0]])
    np.testing.assert_array_equal(xpr.vmap(f)(x[None]), [[4, 8]])


def test_operators_with_numpy_and_python() -> None:
    x = jnp.arange(3.0)
    for result in (np.arange(3.0) + x, x + np.arange(3.0), 1 + x, x + 1, np.float32(1) + x):
        assert isinstance(result, xpr.Array)
        assert result.dtype == np.float32
    with pytest.raises(TypeError, match="list"):
        operator.add(x, [1, 2, 3])
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "a"


def test_weak_types_follow_the_lattice() -> None:
    assert (jnp.ones(2, jnp.bfloat16) * 2.0).dtype == jnp.bfloat16
    assert (jnp.ones(2, jnp.int8) + 1).dtype == np.int8
    assert (jnp.ones(2, jnp.int8) + 1.0).dtype == np.float32
    assert (jnp.asarray(1) + 1).weak_type
    assert (jnp.array(1) + 1).weak_type
    assert not (jnp.int32(1) + 1).weak_type
    with override("enable_x64", True):
        assert (jnp.ones(2, jnp.int8) + 1.0).dtype == np.float64


def test_device_and_sharding() -> None:
    x = jnp.ones(3)
    device = xpr.devices()[0]
    assert x.devices() == {device}
    assert x.device is device
    assert repr(device) == "CpuDevice(id=0)"
    assert x.sharding == xpr.sharding.SingleDeviceSharding(device)
    assert "SingleDeviceSharding(device=CpuDevice(id=0)" in repr(x.sharding)
    assert x.is_fully_addressable
    assert x.is_fully_replicated
    assert x.addressable_shards[0].data is x
    assert not x.committed
    assert xpr.device_put(x, device).committed
    assert xpr.device_put(1.5).weak_type
    assert x.block_until_ready() is x
    assert x.nbytes == 12
    assert x.itemsize == 4
    assert x.on_device_size_in_bytes() >= 12
