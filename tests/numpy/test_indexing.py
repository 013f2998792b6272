"""Indexing, read and update, against NumPy on random index expressions, and its errors."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import run_compiled, run_reference
from xpr.core.config import override
from xpr.errors import NonConcreteBooleanIndexError


def _random_index(shape: tuple[int, ...], r: random.Random) -> tuple[Any, ...]:
    """Any mix of integers, slices, new axes, an Ellipsis, integer and boolean arrays."""
    rng = np.random.default_rng(r.randrange(1 << 30))
    batch = r.choice([(), (2,), (3, 1), (2, 3), (1,)])
    items: list[Any] = []
    axis, count = 0, r.randint(0, len(shape))
    while axis < count:
        extent, kind = shape[axis], r.random()
        if kind < 0.25:
            items.append(r.randint(-extent, extent - 1))
        elif kind < 0.55:
            ends = [r.choice([None, r.randint(-extent - 2, extent + 2)]) for _ in range(2)]
            items.append(slice(*ends, r.choice([None, None, 1, 2, -1, -2, 3])))
        elif kind < 0.8:
            own = r.choice([batch, (), batch[-1:]])
            dtype = r.choice(["i4", "i8", "i1"])
            items.append(np.asarray(rng.integers(-extent, extent, own)).astype(dtype))
        elif kind < 0.9:
            mask = np.zeros(extent, bool)
            mask[rng.integers(extent)] = True
            items.append(mask)
        else:
            items.append(None)
            continue
        axis += 1
    for extra, chance in ((None, 0.2), (True, 0.05), (False, 0.03), (Ellipsis, 0.3)):
        if r.random() < chance:
            items.insert(r.randint(0, len(items)), extra)
    return tuple(items)


def _cases(seed: int, count: int) -> list[tuple[np.ndarray[Any, Any], tuple[Any, ...]]]:
    r = random.Random(seed)
    found: list[tuple[np.ndarray[Any, Any], tuple[Any, ...]]] = []
    while len(found) < count:
        shape = tuple(r.randint(1, 4) for _ in range(r.randint(1, 4)))
        x = np.arange(np.prod(shape), dtype="f4").reshape(shape)
        index = _random_index(shape, r)
        try:
            x[index]
        except IndexError:  # index arrays whose shapes do not go together
            continue
        found.append((x, index))
    return found


def _is_traceable(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype != bool


def _with_arrays(index: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    rest = iter(arrays)
    return tuple(next(rest) if _is_traceable(i) else i for i in index)


def _update(x: Any, index: tuple[Any, ...], kind: str, values: Any) -> Any:
    return getattr(x.at[index], kind)(values)


_UFUNCS = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


def _expected_update(
    x: np.ndarray[Any, Any], index: tuple[Any, ...], kind: str, values: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    out = x.copy()
    if kind == "set":
        out[index] = values
    else:
        _UFUNCS[kind].at(out, index, values)
    return out


@pytest.mark.parametrize("seed", range(4))
def test_reads_equal_numpys(seed: int) -> None:
    for x, index in _cases(seed, 150):
        expected = x[index]
        found = np.asarray(jnp.array(x)[index])
        np.testing.assert_array_equal(found, expected, err_msg=f"{x.shape}{index}")
        assert found.shape == expected.shape
        arrays = [i for i in index if _is_traceable(i)]
        case = (lambda a, *t, index=index: a[_with_arrays(index, t)], [x, *arrays])
        traced = run_reference([case])[0][0]
        np.testing.assert_array_equal(traced, expected, err_msg=f"traced {x.shape}{index}")


@pytest.mark.parametrize("seed", range(4, 8))
def test_updates_equal_numpys(seed: int) -> None:
    r = random.Random(seed)
    for x, index in _cases(seed, 100):
        values = np.arange(x[index].size, dtype="f4").reshape(x[index].shape) + 2
        kind = r.choice(["set", *_UFUNCS])
        expected = _expected_update(x, index, kind, values)
        found = np.asarray(_update(jnp.array(x), index, kind, values))
        np.testing.assert_array_equal(found, expected, err_msg=f"{kind} {x.shape}{index}")
        arrays = [i for i in index if _is_traceable(i)]
        case = (
            lambda a, v, *t, index=index, kind=kind: _update(a, _with_arrays(index, t), kind, v),
            [x, values, *arrays],
        )
        traced = run_reference([case])[0][0]
        np.testing.assert_array_equal(traced, expected, err_msg=f"{kind} traced {x.shape}{index}")


def test_compiled_reads_and_updates_equal_numpys(runtime: str) -> None:
    cases: list[Any] = []
    expected = []
    r = random.Random(99)
    for x, index in _cases(99, 24):
        arrays = [i for i in index if _is_traceable(i)]
        cases.append((lambda a, *t, index=index: a[_with_arrays(index, t)], [x, *arrays]))
        expected.append(x[index])
        values = np.arange(x[index].size, dtype="f4").reshape(x[index].shape) + 2
        kind = r.choice(["set", *_UFUNCS])
        cases.append(
            (
                lambda a, v, *t, index=index, kind=kind: _update(
                    a, _with_arrays(index, t), kind, v
                ),
                [x, values, *arrays],
            )
        )
        expected.append(_expected_update(x, index, kind, values))
    for (found,), want in zip(run_compiled(cases, runtime), expected, strict=True):
        np.testing.assert_array_equal(found, want)


def test_values_broadcast() -> None:
    x = np.zeros((3, 4, 2), "f4")
    for shape in ((), (1,), (2,), (4, 1), (1, 4, 2), (1, 1, 4, 2)):
        values = np.arange(np.prod(shape, dtype=int), dtype="f4").reshape(shape) + 1
        expected = x.copy()
        expected[1:] = values
        np.testing.assert_array_equal(np.asarray(jnp.array(x).at[1:].set(values)), expected)


def test_out_of_bounds_reads_and_writes() -> None:
    x = jnp.arange(5)
    assert int(x[11]) == 4
    assert int(x[-11]) == 0
    idx = jnp.array([7, -1, -9, 2])
    np.testing.assert_array_equal(np.asarray(x[idx]), [4, 4, 0, 2])
    np.testing.assert_array_equal(np.asarray(x.at[idx].get(mode="clip")), [4, 4, 0, 2])
    filled = x.at[idx].get(mode="fill", fill_value=-7)
    np.testing.assert_array_equal(np.asarray(filled), [-7, 4, -7, 2])
    np.testing.assert_array_equal(np.asarray(x.at[idx].set(9)), [0, 1, 9, 3, 9])
    np.testing.assert_array_equal(np.asarray(x.at[idx].set(9, mode="clip")), [9, 1, 9, 3, 9])
    np.testing.assert_array_equal(np.asarray(x.at[11].set(9)), np.arange(5))
    np.testing.assert_array_equal(np.asarray(x.at[11].set(9, mode="clip")), [0, 1, 2, 3, 9])
    big = jnp.array([4_000_000_000, 1], jnp.uint32)
    np.testing.assert_array_equal(np.asarray(x[big]), [4, 1])


@pytest.mark.parametrize(
    ("index", "error", "match"),
    [
        ("a", TypeError, "string indexing"),
        (1.0, TypeError, "integer or boolean type"),
        ([0, 1], TypeError, "non-tuple sequence"),
        ((0, 0), IndexError, "array is 1-dimensional, but 2 were indexed"),
        (np.ones(3, bool), IndexError, "boolean index did not match"),
        (np.ones(2, "f4"), TypeError, "integer or boolean type"),
        ((..., ...), IndexError, "single ellipsis"),
        (slice(None, None, 0), ValueError, "slice step cannot be zero"),
        (slice(0.5, None), TypeError, "slice indices must be integers"),
    ],
)
def test_bad_indices(index: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        jnp.arange(10)[index]
    with pytest.raises(error, match=match):
        jnp.arange(10).at[index].set(0)


def test_traced_masks_and_slices_explain_themselves() -> None:
    with pytest.raises(NonConcreteBooleanIndexError, match="must be concrete; got bool"):
        xpr.jit(lambda x: x[x < 0])(jnp.ones(3))
    with pytest.raises(IndexError, match="must be static integers"):
        xpr.jit(lambda x, n: x[:n])(jnp.ones(3), 2)


def test_values_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="Incompatible types for broadcasting"):
        jnp.arange(4).at[1:3].set(jnp.ones(3, int))
    with pytest.warns(FutureWarning, match="scatter inputs have incompatible types"):
        jnp.arange(4).at[0].set(1.5)


def test_other_update_methods() -> None:
    x = jnp.array([1.0, 2.0, 4.0])
    idx = jnp.array([0, 2, 2])
    np.testing.assert_array_equal(np.asarray(x.at[idx].divide(2.0)), [0.5, 2, 1])
    np.testing.assert_array_equal(np.asarray(x.at[1].power(3.0)), [1, 8, 4])
    np.testing.assert_array_equal(np.asarray(x.at[idx].subtract(1.0)), [0, 2, 2])
    np.testing.assert_array_equal(np.asarray(x.at[:].apply(lambda v: v * v)), [1, 4, 16])
    np.testing.assert_array_equal(np.asarray(x.at[idx].apply(lambda v: v + 1)), [2, 2, 6])


def test_take_and_along_axis() -> None:
    x = np.arange(24, dtype="f4").reshape(2, 3, 4)
    idx = np.array([[0, 2], [1, 1]])
    for axis in (0, 1, 2, -1, None):
        want = np.take(x, idx, axis, mode="wrap")
        found = np.asarray(jnp.take(x, idx, axis, mode="wrap"))
        np.testing.assert_array_equal(found, want)
    assert np.isnan(np.asarray(jnp.take(jnp.ones(3), 5)))
    assert float(jnp.take(jnp.ones(3), 5, mode="clip")) == 1.0
    with pytest.raises(NotImplementedError, match="'raise' mode"):
        jnp.take(jnp.ones(3), 5, mode="raise")
    order = np.argsort(-x, axis=1)
    found = np.asarray(jnp.take_along_axis(jnp.array(x), order, axis=1))
    np.testing.assert_array_equal(found, np.take_along_axis(x, order, axis=1))
    wide = np.zeros((1, 3, 4), int)
    np.testing.assert_array_equal(
        np.asarray(jnp.take_along_axis(jnp.array(x), wide, axis=0)),
        np.take_along_axis(x, wide, axis=0),
    )
    target = np.zeros((2, 3), "f4")
    np.put_along_axis(target, np.array([[0], [2]]), 9.0, axis=1)
    found = jnp.put_along_axis(jnp.zeros((2, 3)), np.array([[0], [2]]), 9.0, 1, inplace=False)
    np.testing.assert_array_equal(np.asarray(found), target)
    with pytest.raises(ValueError, match="inplace=False"):
        jnp.put_along_axis(jnp.zeros((2, 3)), np.array([[0], [2]]), 9.0, 1)


def test_static_indices_lower_to_slices() -> None:
    names = [
        e.primitive.name
        for e in xpr.make_jaxpr(lambda x: (x[0], x[1:3], x[::-1, None], x[..., 1]))(
            np.ones((4, 3))
        ).eqns
    ]
    assert "gather" not in names
    updates = xpr.make_jaxpr(lambda x: (x.at[0].set(1.0), x.at[1:3, 1].add(2.0)))(np.ones((4, 3)))
    assert not any(e.primitive.name.startswith("scatter") for e in updates.eqns)


_INDEX_DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
_WINDOWS: tuple[tuple[Any, ...], ...] = (
    (slice(None),),
    (slice(1, 3),),
    (slice(None, None, 2),),
    (slice(None, None, -1),),
    (slice(4, 0, -3),),
    (slice(2, 2),),
    (None, slice(1, None)),
    (Ellipsis, 1),
    (-1,),
)


@pytest.mark.parametrize("dtype", _INDEX_DTYPES)
def test_traced_integers_next_to_slices(dtype: str, runtime: str) -> None:
    x = np.arange(30.0, dtype="f4").reshape(6, 5)
    info = np.iinfo(dtype)
    values = [0, 3, 5, 6, info.max, info.min, *([-1, -6, -7] if info.min < 0 else [])]
    cases: list[Any] = []
    expected = []
    for value in values:
        inside = int(np.clip(value + 6 if value < 0 else value, 0, 5))
        for rest in _WINDOWS:
            cases.append((lambda a, i, rest=rest: a[(i, *rest)], [x, np.array(value, dtype)]))
            expected.append(x[(inside, *rest)])
    for found, want in zip(run_reference(cases), expected, strict=True):
        np.testing.assert_array_equal(found[0], want)
    for found, want in zip(run_compiled(cases, runtime), expected, strict=True):
        np.testing.assert_array_equal(found[0], want)


def test_a_traced_integer_takes_one_dynamic_slice() -> None:
    jaxpr = xpr.make_jaxpr(lambda x, i: x[i, 1:3, 0])(np.ones((4, 5, 2)), 1)
    names = [e.primitive.name for e in jaxpr.eqns]
    assert names.count("dynamic_slice") == 1
    assert "slice" not in names
    assert "gather" not in names


def test_windows_go_into_the_gather() -> None:
    jaxpr = xpr.make_jaxpr(lambda x, i: x[i, 1:3])(np.ones((4, 5)), np.array([1, 2]))
    names = [e.primitive.name for e in jaxpr.eqns]
    assert "slice" not in names
    assert jaxpr.eqns[-1].params["slice_sizes"] == (1, 2)


def test_concrete_and_traced_updates_agree_out_of_bounds() -> None:
    x = np.arange(5, dtype="f4")
    for index in (np.array([7, -1, -9, 2, 2]), np.array([True, False, True, True, False]), 4, 9):
        size = x[np.clip(index, -5, 4) if not isinstance(index, np.ndarray) else index % 5].size
        values = np.arange(1.0, size + 1, dtype="f4") if np.ndim(index) else np.float32(3)
        if isinstance(index, np.ndarray) and index.dtype == bool:
            values = values[: int(index.sum())]
        for kind in ("set", "add", "subtract", "multiply", "min", "max"):
            eager = np.asarray(_update(jnp.array(x), (index,), kind, jnp.asarray(values)))
            case = (lambda a, v, i=index, k=kind: _update(a, (i,), k, v), [x, values])
            np.testing.assert_array_equal(eager, run_reference([case])[0][0], err_msg=kind)


def test_updates_leave_the_array_alone() -> None:
    x = jnp.arange(4.0)
    x.at[1].set(9.0)
    x.at[jnp.array([0, 0])].add(1.0)
    x.at[1:3].multiply(5.0)
    np.testing.assert_array_equal(np.asarray(x), [0, 1, 2, 3])


def test_values_of_other_types() -> None:
    x = jnp.arange(3)
    np.testing.assert_array_equal(np.asarray(x.at[:2].set([7, 8])), [7, 8, 2])
    np.testing.assert_array_equal(np.asarray(x.at[1].add(True)), [0, 2, 2])
    small = jnp.arange(3, dtype=jnp.int8)
    np.testing.assert_array_equal(np.asarray(small.at[0].set(300)), [44, 1, 2])
    assert small.at[0].set(300).dtype == np.int8
    # Computed in float32 and converted back: two halves make one.
    with pytest.warns(FutureWarning, match="scatter inputs have incompatible types"):
        np.testing.assert_array_equal(np.asarray(x.at[jnp.array([0, 0])].add(0.5)), [1, 1, 2])
    # Setting converts the value alone: what is not indexed keeps every digit.
    large = jnp.array([16777217, 5])
    with pytest.warns(FutureWarning, match="scatter inputs have incompatible types"):
        np.testing.assert_array_equal(np.asarray(large.at[1].set(1.5)), [16777217, 1])
    for kind in ("add", "multiply"):
        with pytest.raises(TypeError, match="does not accept dtype bool"):
            _update(jnp.ones(3, bool), (0,), kind, True)
    np.testing.assert_array_equal(
        np.asarray(jnp.ones(3, bool).at[0].min(False)), [False, True, True]
    )


def test_weak_types_of_updates_are_the_arrays() -> None:
    weak = xpr.lax.full((3,), 1)
    assert weak.weak_type
    assert weak.at[0].set(2).weak_type
    assert weak.at[jnp.array([0])].add(2).weak_type
    assert not jnp.arange(3).at[0].set(2).weak_type


def test_tuples_inside_an_index_are_arrays() -> None:
    x = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(np.asarray(jnp.array(x)[(1, 2),]), x[[1, 2]])
    np.testing.assert_array_equal(np.asarray(jnp.array(x)[(0, 2), 1]), x[[0, 2], 1])


def test_an_empty_axis_has_no_elements() -> None:
    x = jnp.zeros((0, 3))
    assert x[np.zeros(0, int)].shape == (0, 3)
    for index in (0, jnp.array([0])):
        with pytest.raises(IndexError, match="out of bounds for axis 0 with size 0"):
            x[index]
    with pytest.raises(IndexError, match="from an empty axis"):
        jnp.take(x, jnp.array([0]), 0)
    assert np.isnan(np.asarray(x.at[jnp.array([0])].get(mode="fill"))).all()


def _oracle_take_along(x: Any, idx: Any, axis: int, mode: str) -> Any:
    shape = np.broadcast_shapes(
        tuple(1 if i == axis else n for i, n in enumerate(x.shape)),
        tuple(1 if i == axis else n for i, n in enumerate(idx.shape)),
    )
    shape = (*shape[:axis], idx.shape[axis], *shape[axis + 1 :])
    out = np.zeros(shape, x.dtype)
    for place in np.ndindex(*shape):
        i = int(idx[tuple(p if n > 1 else 0 for p, n in zip(place, idx.shape, strict=True))])
        i = i + x.shape[axis] if i < 0 else i
        if mode == "fill" and not 0 <= i < x.shape[axis]:
            out[place] = np.nan
            continue
        source = [p if n > 1 else 0 for p, n in zip(place, x.shape, strict=True)]
        source[axis] = min(max(i, 0), x.shape[axis] - 1)
        out[place] = x[tuple(source)]
    return out


@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_take_along_axis_broadcasts(mode: str, runtime: str) -> None:
    rng = np.random.default_rng(3)
    cases: list[Any] = []
    expected = []
    for shape, ishape, axis in (
        ((3, 4), (3, 2), 1),
        ((3, 4), (1, 2), 1),
        ((3, 1), (3, 4), 0),
        ((1, 4, 2), (3, 5, 1), 1),
        ((3, 4, 2), (1, 1, 2), 0),
        ((2, 3), (2, 0), 1),
    ):
        x = rng.standard_normal(shape).astype("f4")
        idx = rng.integers(-6, 7, ishape).astype("i4")
        expected.append(_oracle_take_along(x, idx, axis, mode))
        cases.append((lambda a, i, k=axis: jnp.take_along_axis(a, i, k, mode=mode), [x, idx]))
        eager = jnp.take_along_axis(jnp.array(x), jnp.array(idx), axis, mode=mode)
        np.testing.assert_array_equal(np.asarray(eager), expected[-1])
    for found, want in zip(run_compiled(cases, runtime), expected, strict=True):
        np.testing.assert_array_equal(found[0], want)


def test_take_modes(runtime: str) -> None:
    x = np.arange(12.0, dtype="f4").reshape(3, 4)
    idx = np.array([[-1, 7], [-9, 2]], "i4")
    wanted = {
        "clip": np.take(x, idx, 1, mode="clip"),
        "wrap": np.take(x, idx, 1, mode="wrap"),
        "fill": np.where((idx >= -4) & (idx < 4), np.take(x, idx, 1, mode="wrap"), np.nan),
    }
    cases: list[Any] = [
        (lambda a, i, m=mode: jnp.take(a, i, 1, mode=m), [x, idx]) for mode in wanted
    ]
    for found, (mode, want) in zip(run_compiled(cases, runtime), wanted.items(), strict=True):
        np.testing.assert_array_equal(found[0], want, err_msg=mode)
        eager = jnp.take(jnp.array(x), jnp.array(idx), 1, mode=mode)
        np.testing.assert_array_equal(np.asarray(eager), want, err_msg=mode)


def test_wide_unsigned_indices() -> None:
    with xpr.enable_x64(True):
        x = jnp.arange(4.0)
        # As a signed number the index would be -1, the last element.
        far = jnp.array([2**64 - 1, 1], jnp.uint64)
        np.testing.assert_array_equal(np.asarray(x[far]), [3.0, 1.0])
        np.testing.assert_array_equal(np.asarray(x.at[far].set(9.0)), [0.0, 9.0, 2.0, 3.0])


_AT_METHODS: dict[str, Any] = {
    "set": lambda a, i, v: a.at[i].set(v, wrap_negative_indices=False),
    "add": lambda a, i, v: a.at[i].add(v, wrap_negative_indices=False),
    "max": lambda a, i, v: a.at[i].max(v, wrap_negative_indices=False),
    "divide": lambda a, i, v: a.at[i].divide(v, wrap_negative_indices=False),
    "apply": lambda a, i, v: a.at[i].apply(lambda e: e + 7, wrap_negative_indices=False),
}


@pytest.mark.parametrize("method", _AT_METHODS)
def test_negative_indices_that_do_not_wrap_are_out_of_bounds(method: str) -> None:
    a = jnp.arange(5.0)
    update = _AT_METHODS[method]
    plain = {
        "set": lambda e: 7.0,
        "add": lambda e: e + 7,
        "max": lambda e: max(e, 7.0),
        "divide": lambda e: e / 7,
        "apply": lambda e: e + 7,
    }[method]
    for index in (-1, -5, -9, 2, [-1, -9, 2], [3, -5]):
        expected = np.arange(5.0, dtype="f4")
        for i in np.atleast_1d(index):
            if i >= 0:
                expected[i] = plain(expected[i])
        for dtype in ("i1", "i4"):
            at = index if isinstance(index, int) else np.asarray(index, dtype)
            np.testing.assert_allclose(update(a, at, 7.0), expected, rtol=1e-6)
        np.testing.assert_allclose(xpr.jit(update)(a, np.asarray(index), 7.0), expected, rtol=1e-6)


def test_reads_at_negative_indices_that_do_not_wrap() -> None:
    a = jnp.arange(5)

    def get(a: Any, i: Any, **options: Any) -> Any:
        return a.at[i].get(wrap_negative_indices=False, **options)

    for f in (get, xpr.jit(get, static_argnames=("mode", "fill_value"))):
        assert int(f(a, -1)) == 0
        np.testing.assert_array_equal(f(a, np.array([-2, 3])), [0, 3])
        np.testing.assert_array_equal(f(a, np.array([-2, 3]), mode="fill", fill_value=-7), [-7, 3])
        assert int(f(a, -1, mode="fill", fill_value=-7)) == -7
    # Slices and masks are no integers: they mean what they always do.
    np.testing.assert_array_equal(get(a, slice(-2, None)), [3, 4])
    np.testing.assert_array_equal(get(a, np.array([True, False, False, False, True])), [0, 4])


@pytest.mark.parametrize(("dtype", "expected"), [("i4", 2), ("f4", 2), ("u1", 2), ("?", True)])
def test_a_complex_number_set_into_other_types_loses_its_imaginary_part(
    dtype: str, expected: Any
) -> None:
    for value in (2 + 1j, np.complex64(2 + 1j)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = jnp.zeros(3, dtype).at[1].set(value)
        np.testing.assert_array_equal(found, np.array([0, expected, 0], dtype))


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("i4", np.nan, 0),
        ("i4", 1e30, 2**31 - 1),
        ("i4", -np.inf, -(2**31)),
        ("u1", -3.5, 0),
        ("u1", 256.0, 255),
        ("i1", np.inf, 127),
        ("?", np.nan, True),
    ],
)
def test_a_float_set_into_integers_saturates(dtype: str, value: float, expected: int) -> None:
    def update(x: Any) -> Any:
        return x.at[1].set(value)

    for f in (update, xpr.jit(update)):
        with pytest.warns(FutureWarning, match="incompatible types"):
            found = f(jnp.zeros(3, dtype))
        np.testing.assert_array_equal(found, np.array([0, expected, 0], dtype))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (-4, "index -4 out of bounds for axis 0 with size 2"),
        (2, "index 2 out of bounds for axis 0 with size 2"),
        (np.index_exp[:, 4], "index 4 out of bounds for axis 1 with size 3"),
        (np.index_exp[..., -4], "index -4 out of bounds for axis 1 with size 3"),
        (np.index_exp[np.arange(2), 6, None], "index 6 out of bounds for axis 1 with size 3"),
    ],
)
def test_static_indices_are_checked_where_the_setting_says(index: Any, message: str) -> None:
    x = jnp.zeros((2, 3))
    reads = (lambda x: x[index], xpr.jit(lambda x: x[index]), lambda x: x.at[index].get())
    for read in reads:
        read(x)  # clamped
    with override("check_static_indices", True):
        for read in reads:
            with pytest.raises(IndexError, match=message):
                read(x)
        assert x.at[index].get(mode="clip").size <= x.size
        np.testing.assert_array_equal(x[-2:7, -3], [0, 0])
        np.testing.assert_array_equal(x.at[index].set(1.0, mode="drop"), np.zeros((2, 3)))
