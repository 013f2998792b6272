"""Behaviours at the edges of NumPy's interface, with the results of JAX 0.10.2 as golden values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_lists_in_index_tuples() -> None:
    x = jnp.asarray(X)
    assert x[([0, 1], [1, 0])].tolist() == [1.0, 3.0]
    assert x.at[([0, 1], [1, 0])].set(9.0).tolist() == [[0.0, 9.0, 2.0], [9.0, 4.0, 5.0]]


def test_none_has_the_shape_of_a_scalar() -> None:
    for function, expected in ((jnp.shape, ()), (jnp.ndim, 0), (jnp.size, 1)):
        with pytest.warns(DeprecationWarning, match=f"^{function.__name__} requires ndarray or"):
            assert function(None) == expected


def test_bincount_of_booleans() -> None:
    x = jnp.array([True, False, True])
    assert jnp.bincount(x).tolist() == [1, 2]
    weights = jnp.array([1.0, 2.0, 3.0])
    assert jnp.bincount(x, weights, length=4).tolist() == [2.0, 4.0, 0.0, 0.0]
    assert xpr.jit(lambda x: jnp.bincount(x, length=3))(x).tolist() == [1, 2, 0]


def test_orders_of_tobytes() -> None:
    x = jnp.asarray(X)
    orders: tuple[str | None, ...] = ("C", "F", "A", "K", None)
    for order in orders:
        expected = [0, 3, 1, 4, 2, 5] if order == "F" else [0, 1, 2, 3, 4, 5]
        assert np.frombuffer(x.tobytes(order), np.float32).tolist() == expected
    with pytest.raises(ValueError, match="order must be one of 'C', 'F', 'A', or 'K'"):
        x.tobytes("x")


@pytest.mark.parametrize(
    ("indices", "axis", "expected"),
    [
        ([[2, 0], [-1, 7]], 1, [[2, 0], [5, 0]]),
        ([[1, 0, -1]], 0, [[3, 1, 5]]),
        ([3, -1, 9], None, [3, 5, 0]),
        ([[2, 0, 1]], 1, [[2, 0, 1], [5, 3, 4]]),
    ],
)
def test_take_along_axis_as_a_product(indices: Any, axis: int | None, expected: Any) -> None:
    def take(x, i):
        return jnp.take_along_axis(x, i, axis=axis, mode="one_hot")

    for run in (take, xpr.jit(take)):
        assert run(jnp.asarray(X), jnp.array(indices)).tolist() == expected
    assert take(jnp.asarray(X), jnp.array(indices, np.int8)).tolist() == expected


def test_integers_by_a_product() -> None:
    x = jnp.take_along_axis(jnp.arange(5), jnp.array([3, -1, 9]), axis=0, mode="one_hot")
    assert (x.tolist(), x.dtype) == ([3, 4, 0], np.int32)


@pytest.mark.parametrize("mode", ["one_hot", lax.GatherScatterMode.ONE_HOT])
def test_where_one_hot_is_no_mode(mode: str | lax.GatherScatterMode) -> None:
    x, i = jnp.asarray(X), jnp.array([0, 1, 5])
    with pytest.raises(ValueError, match=r"(?i)Invalid mode .*one_hot"):
        jnp.take(x, i, axis=1, mode=mode)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="gather has no mode one_hot"):
        x.at[i].get(mode=mode)
    assert x.at[i].set(1.0, mode=mode).tolist() == [[1.0] * 3] * 2
    assert x.at[i].add(1.0, mode=mode).tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_complex_ranges_and_masked_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="arange"):
        jnp.arange(3j)
    with pytest.raises(ValueError, match="masked arrays are not supported"):
        jnp.asarray(np.ma.masked_array([1.0, 2.0], [True, False]))
    with pytest.raises(TypeError, match="object"):
        jnp.asarray(np.array([object()]))


def test_prefixes_of_truth_values() -> None:
    x, y = jnp.array([0, 2, -2, 0]), jnp.array([2, 0, 1])
    for cumulative in (jnp.cumsum, jnp.nancumsum, jnp.cumulative_sum):
        assert cumulative(x, dtype=bool).tolist() == [False, True, True, True]
        assert cumulative(x, dtype=bool).dtype == bool
    for cumulative in (jnp.cumprod, jnp.nancumprod, jnp.cumulative_prod):
        assert cumulative(y, dtype=bool).tolist() == [True, False, False]
    assert jnp.cumsum(jnp.array([True, True])).tolist() == [1, 2]


def test_arrays_full_of_keys() -> None:
    key = xpr.random.key(7)
    data = xpr.random.key_data
    assert data(jnp.full((2,), 3, key.dtype)).tolist() == [[3, 3], [3, 3]]
    assert data(jnp.full_like(key, 3)).tolist() == [3, 3]
    assert data(jnp.full((2,), key, key.dtype)).tolist() == [[0, 7], [0, 7]]


def test_functions_of_one_origin_are_equal() -> None:
    def product(x: Any, y: Any) -> Any:
        return x * y

    first, second = (jnp.frompyfunc(product, 2, 1, identity=1) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != jnp.frompyfunc(product, 2, 1)
    assert jnp.add == jnp.add
    assert jnp.add != jnp.subtract


def test_sylvester_equations_in_batches() -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal((4, 2, 2)) + 4 * np.eye(2)
    b = rng.standard_normal((4, 3, 3)) + 4 * np.eye(3)
    c = rng.standard_normal((4, 2, 3))
    for method in ("schur", "eigen"):
        x = np.asarray(xpr.scipy.linalg.solve_sylvester(a, b, c, method=method), np.float64)
        np.testing.assert_allclose(a @ x + x @ b, c, atol=2e-5)
    one = xpr.scipy.linalg.solve_sylvester(a[0], b, c)
    assert one.shape == (4, 2, 3)


def test_masks_are_boolean() -> None:
    x, numbers = jnp.asarray(X), jnp.asarray(X)
    for reduce in (jnp.sum, jnp.prod, jnp.mean, jnp.var, jnp.all, jnp.any):
        with pytest.raises(ValueError, match="where must be None or a boolean array; got where"):
            reduce(x, where=numbers)
    with pytest.raises(ValueError, match=r"jnp\.max: where must be None or a boolean array"):
        jnp.max(x, where=numbers, initial=0.0)


def test_kinds_of_objects() -> None:
    assert (jnp.iscomplexobj([1j]), jnp.iscomplexobj([1.0])) == (True, False)
    assert (jnp.iscomplexobj("a"), jnp.isrealobj([1])) == (False, True)
    found = jnp.take(jnp.arange(3), jnp.array([True, False]))
    assert found.tolist() == [1, 0]
    with pytest.raises(ValueError, match="indices must have an integer type"):
        jnp.take(jnp.arange(3), jnp.array([1.0]))
    with pytest.raises(ValueError, match=r"Invalid mode 'nonsense' for np\.take"):
        jnp.take(jnp.arange(3), 0, mode="nonsense")


def test_words_about_dtypes_and_shapes() -> None:
    one, row = jnp.array(1), jnp.ones((2, 3))
    cases: list[tuple[Any, tuple[Any, ...], type[Exception], str]] = [
        (lax.sin, (one,), TypeError, "sin does not accept dtype int32. Accepted dtypes are sub"),
        (lax.add, (True, True), TypeError, "add does not accept dtype bool at position 0."),
        (lax.bitwise_and, (row, jnp.ones(4)), TypeError, "and: arrays must have the same number"),
        (lax.sin, ("a",), TypeError, "Error interpreting argument to sin as a JAX value. The"),
        (jnp.polyval, (row, jnp.ones(4)), ValueError, "Incompatible shapes for broadcasting"),
        (jnp.linalg.eig, (row,), ValueError, "The input to eig must be a square matrix. Got"),
        (jnp.linalg.svd, (one,), TypeError, "Input 0 to svd must have rank at least 2, but got"),
        (jnp.linalg.norm, (None,), TypeError, "jnp.linalg.norm requires ndarray or scalar arg"),
        (jnp.ones, (2, np.ones(2)), TypeError, "Cannot construct a dtype from an array"),
        (jnp.ones, (2, row), ValueError, "Passing an array as a dtype argument is no longer"),
        (jnp.asarray, ("abc",), TypeError, "Value 'abc' with dtype <U3 is not a valid JAX arr"),
        (jnp.asarray, (np.ma.masked_array([1.0]),), ValueError, "numpy masked arrays are not su"),
        (jnp.sin, (xpr.random.key(0),), TypeError, "Cannot interpret 'key<fry>' as a data typ"),
        (jnp.arange, (3j,), ValueError, "Passing complex start/stop/step to jnp.arange is not"),
    ]
    for function, args, error, text in cases:
        with pytest.raises(error) as caught:
            function(*args)
        assert str(caught.value).startswith(text)


def test_initial_values_that_are_numbers_take_the_dtype_of_what_is_reduced() -> None:
    half = np.array([[1, 2], [3, 4]], np.float16)
    found = lax.reduce(half, 0.5, lax.add, (0,))
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, half.sum(axis=0) + np.float16(0.5))
    whole = np.array([[1, 2], [3, 4]], np.int32)
    found = xpr.jit(lambda x: lax.reduce(x, 1.0, lax.mul, (1,)))(whole)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, [2, 12])
    with pytest.raises(TypeError, match="should match corresponding initial value dtypes"):
        lax.reduce(half, np.float32(0), lax.add, (0,))


@pytest.mark.parametrize("name", ["equal", "less_equal", "subtract", "multiply", "maximum"])
def test_advice_names_functions_that_there_are(name: str) -> None:
    of_lax = {"equal": "eq", "less_equal": "le", "subtract": "sub", "multiply": "mul"}
    operation = getattr(lax, of_lax.get(name, "max"))
    with pytest.raises(TypeError, match=rf"Tip: jnp\.{name} is a similar function"):
        operation(np.float32(1), np.int32(1))
    assert callable(getattr(jnp, name))


def test_what_has_no_meaning_is_refused() -> None:
    key = xpr.random.key(0)
    cases: list[tuple[Any, tuple[Any, ...], type[Exception], str]] = [
        (jnp.iscomplex, (key,), TypeError, "Cannot interpret 'key<fry>' as a data type"),
        (jnp.isreal, (key,), TypeError, "Cannot interpret 'key<fry>' as a data type"),
        (jnp.sort_complex, (1.0,), ValueError, "axis -1 is out of bounds for array of dimension"),
        (jnp.tril_indices, (2.0,), TypeError, "'float' object cannot be interpreted as an int"),
        (jnp.triu_indices, (2.0,), TypeError, "'float' object cannot be interpreted as an int"),
        (jnp.frompyfunc, (3, 1, 1), TypeError, "a ufunc requires a function, got 3 of type"),
        (xpr.scipy.linalg.hilbert, (-1,), TypeError, "shape must have every element be nonneg"),
        (xpr.dtypes.itemsize_bits, (None,), ValueError, "dtype cannot be None."),
    ]
    for function, arguments, error, words in cases:
        with pytest.raises(error, match=re.escape(words)):
            function(*arguments)
    with pytest.raises(ValueError, match="`unroll` must be a `bool` or a non-negative `int`"):
        jnp.polyval(jnp.ones(3), jnp.ones(3), unroll=-1)
