"""References: what programs with them compute, against the same loops in NumPy and JAX's errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax


def _values(*refs: Any) -> list[Any]:
    return [np.asarray(r[...]).tolist() for r in refs]


# ---- outside of programs


def test_reading_and_writing() -> None:
    ref, array = xpr.new_ref(jnp.arange(12.0).reshape(3, 4)), np.arange(12.0).reshape(3, 4)
    rows, columns = np.array([2, 0]), np.array([1, 3])
    for index in (
        (0, 1), -1, (slice(None), 2), (slice(0, 2), slice(None, None, 2)), (..., 0),
        (rows, columns),
        (jnp.int32(1), 3), (None, 1), [2, 1], (1, [0, 3]),
    ):  # fmt: skip
        np.testing.assert_array_equal(ref[index], array[index])
        value = np.asarray(array[index]) * 2 + 1
        before = xpr.ref.swap(ref, index, value.astype("f4"))
        np.testing.assert_array_equal(before, array[index])
        array[index] = value
        np.testing.assert_array_equal(ref[...], array)
        ref[index] += np.ones(value.shape, "f4")
        array[index] += 1
    np.testing.assert_array_equal(ref[...], array)
    xpr.ref.addupdate(ref, (np.array([0, 0]), np.array([1, 1])), jnp.array([5.0, 6.0]))
    np.add.at(array, (np.array([0, 0]), np.array([1, 1])), [5.0, 6.0])
    np.testing.assert_array_equal(xpr.ref.get(ref), array)
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((3, 4), np.float32, 2, 12, 3)


def test_what_a_reference_is() -> None:
    x = jnp.zeros(3)
    ref = xpr.new_ref(x)
    ref[1] = 2.0
    assert repr(ref) == "Ref([0., 2., 0.], dtype=float32)"
    assert str(xpr.typeof(ref)) == "Ref{float32[3]}"
    assert isinstance(ref, xpr.Ref)
    assert not isinstance(ref, xpr.Array)
    assert x.tolist() == [0, 0, 0]  # what it was made of stays as it is
    assert xpr.tree_util.tree_map(lambda r: r[1], {"a": ref})["a"] == 2
    assert xpr.freeze(ref).tolist() == [0, 2, 0]


def test_its_own_copy() -> None:
    x = jnp.arange(3.0)
    ref = xpr.new_ref(x)
    xpr.jit(lambda y: y + 1, donate_argnums=0)(x)
    assert ref[...].tolist() == [0, 1, 2]


_VMAPPED = "performing a set/swap operation with vmapped value on an unbatched array reference"
_MOVED = "performing a set/swap operation with a differentiated value on a non-differentiated"


def _put(r: Any, x: Any) -> Any:
    r[0] = x
    return x


@pytest.mark.parametrize(
    ("action", "kind", "message"),
    [
        (lambda r: r[3], ValueError, "Out of bound indexer: idx=3, dim=3"),
        (lambda r: r[0, 0], ValueError, "`indices` must not be longer than `shape`"),
        (lambda r: r.__setitem__(..., jnp.ones(4)), ValueError, "Invalid shape for `swap`"),
        (lambda r: r.__setitem__(..., 1.0), ValueError, r"Expected shape: \(3,\)"),
        (lambda r: _put(r, 1), ValueError, "Invalid dtype for `swap`. Ref dtype: float32"),
        (lambda r: xpr.ref.addupdate(r, ..., 1.0), ValueError, "Invalid shape for `addupdate`"),
        (lambda r: xpr.ref.get(r[...]), ValueError, "Can only call `ref_get` on a `Ref`"),
        (jnp.sin, TypeError, "requires ndarray or scalar arguments"),
        (xpr.jit(lambda r: jnp.sin(r)), TypeError, "sin requires ndarray or scalar arguments"),
        (lambda r: jnp.stack([r, r]), TypeError, "got a reference"),
        (lambda r: r + 1, TypeError, "unsupported operand"),
        (xpr.new_ref, TypeError, "new_ref takes an array"),
        (xpr.jit(lambda r: r), ValueError, "references cannot be returned.*\n.*\n.*argument r"),
        (lambda r: lax.map(lambda _: r, jnp.arange(3)), ValueError, "cannot be returned"),
        (lambda r: lax.scan(lambda c, x: (c, x), r, jnp.ones(3)), ValueError, "be returned"),
        (lambda r: xpr.jit(lambda a, b: a[0] + b[0])(r, r), ValueError, "at both a and b"),
        (lambda r: xpr.jit(lambda a: a[0] + r[0])(r), ValueError, "passed as the argument a"),
        (
            xpr.jit(lambda r: (xpr.freeze(q := xpr.new_ref(1.0)), q[...])),
            ValueError,
            "Can only call `ref_get` on a `Ref`: ~float32",
        ),
        (lambda r: xpr.vmap(lambda x: _put(r, x))(jnp.ones(3)), ValueError, _VMAPPED),
        (lambda r: xpr.grad(lambda x: _put(r, x))(1.0), ValueError, _MOVED),
        (xpr.grad(lambda r: r[0]), TypeError, "cannot differentiate with respect to a reference"),
        (
            lambda r: lax.while_loop(lambda i: _put(r, 1.0) > i, lambda i: i + 1, 0),
            NotImplementedError,
            "condition of a while loop cannot write",
        ),
        (
            lambda r: xpr.export.export(xpr.jit(lambda x: x[0]))(r),
            NotImplementedError,
            "can be called",
        ),
    ],
)
def test_errors(action: Any, kind: type[Exception], message: str) -> None:
    ref = xpr.new_ref(jnp.zeros(3))
    with pytest.raises(kind, match=message):
        action(ref)
    assert ref[...].tolist() == [0, 0, 0]


def test_a_reference_that_outlives_its_function() -> None:
    kept: list[Any] = []
    xpr.vmap(lambda x: kept.append(xpr.new_ref(x)))(jnp.ones(2))
    xpr.make_jaxpr(lambda x: kept.append(xpr.new_ref(x)))(1.0)
    for ref in kept:
        with pytest.raises(xpr.errors.UnexpectedTracerError, match="outside of the function"):
            ref[...]


# ---- in programs


def test_jaxprs() -> None:
    outside = xpr.new_ref(jnp.zeros(3))

    def f(x: Any, i: Any) -> Any:
        ref = xpr.new_ref(x)
        ref[0] = 1.0
        ref[i, ...] += 2.0
        xpr.ref.addupdate(outside, slice(1, None), x[1:])
        return xpr.freeze(ref)

    assert str(xpr.make_jaxpr(f)(jnp.zeros(3), 1)) == (
        "{ lambda a:Ref{f32[3]}; b:f32[3] c:i32[]. let\n"
        "    d:Ref{f32[3]} = new_ref[kind=None memory_space=None] b\n"
        "    _:f32[], d[0] <- d[0], 1.0:f32[]\n"
        "    e:f32[] <- d[c,...]\n"
        "    f:f32[] = add e 2.0:f32[]\n"
        "    _:f32[], d[c,...] <- d[c,...], f\n"
        "    g:f32[2] = slice[limit_indices=(3,) start_indices=(1,) strides=None] b\n"
        "    a[1:] += g\n"
        "    h:f32[3] = freeze d\n"
        "  in (h,) }"
    )


def test_given_and_closed_over() -> None:
    """What a jitted function writes is there after the call, and its next call reads it."""
    ref, other = xpr.new_ref(jnp.zeros(3)), xpr.new_ref(jnp.ones(2))
    traces: list[None] = []

    @xpr.jit
    def f(r: Any, x: Any) -> Any:
        traces.append(None)
        r[0] += x
        other[1] = other[1] * 2.0 + r[0]
        return r[0] * 10

    expected, a, b = [], 0.0, 1.0
    for x in (1.0, 2.0, 3.0):
        a += x
        b = b * 2 + a
        expected.append(a * 10)
    assert [float(f(ref, x)) for x in (1.0, 2.0, 3.0)] == expected
    assert _values(ref, other) == [[a, 0, 0], [1, b]]
    assert len(traces) == 1
    assert float(f(xpr.new_ref(jnp.ones(3)), 1.0)) == 20
    assert len(traces) == 1


@pytest.mark.parametrize("transform", [lambda f: f, xpr.jit], ids=["eager", "jit"])
def test_loops_and_branches(transform: Any) -> None:
    x = np.arange(1.0, 5.0, dtype="f4")
    total, log, rows = (xpr.new_ref(jnp.zeros(s)) for s in ((), 4, (4, 2)))

    def program(data: Any, n: Any) -> Any:
        def step(carry: Any, item: Any) -> Any:
            value, row = item
            total[...] += value
            row[0] = value
            return carry * 2, total[...]

        carry, sums = lax.scan(step, 1.0, (data, rows))

        def write(i: Any, c: Any) -> Any:
            log[i] = data[i] + total[...]
            return c + log[i]

        c = lax.fori_loop(0, n, write, 0.0)
        w = lax.while_loop(
            lambda i: i < total[...].astype(int),
            lambda i: (total.__setitem__(..., total[...] - 1.0), i + 1)[1],
            0,
        )
        lax.cond(n > 2, lambda: log.__setitem__(3, -1.0), lambda: None)
        lax.switch(n, [lambda: None, lambda: total.__setitem__(..., 9.0), lambda: None])
        return carry, sums, c, w

    carry, sums, c, w = transform(program)(jnp.asarray(x), 3)
    np.testing.assert_array_equal(sums, np.cumsum(x))
    expected = np.append(x[:3] + x.sum(), -1)
    np.testing.assert_array_equal(log[...], expected)
    np.testing.assert_array_equal(rows[...], np.stack([x, 0 * x], 1))
    assert (float(carry), float(c), int(w)) == (16, expected[:3].sum(), 5)
    assert float(total[...]) == 5


def test_references_to_keys() -> None:
    """A generator that keeps its key in a reference draws what the split keys draw."""

    def program() -> Any:
        key = xpr.new_ref(xpr.random.key(0))

        def draw() -> Any:
            new, use = xpr.random.split(key[...])
            key[...] = new
            return xpr.random.normal(use)

        return draw(), lax.map(lambda _: draw(), jnp.arange(2))

    first, rest = xpr.jit(program)()
    key, expected = xpr.random.key(0), []
    for _ in range(3):
        key, use = xpr.random.split(key)
        expected.append(xpr.random.normal(use))
    np.testing.assert_allclose([first, *rest], expected, rtol=1e-6)


# ---- derivatives and batches


def _momentum(w: Any, data: Any) -> Any:
    """Gradient descent whose state lives in references."""
    weights, velocity = xpr.new_ref(w), xpr.new_ref(jnp.zeros_like(w))

    def step(i: Any, c: Any) -> Any:
        slope = xpr.grad(lambda v: (v @ data[i] - 1) ** 2)(weights[...])
        velocity[...] = 0.9 * velocity[...] + slope
        weights[...] -= 0.05 * velocity[...]
        return c

    lax.fori_loop(0, data.shape[0], step, ())
    return weights[...]


def _momentum_in_numpy(w: np.ndarray[Any, Any], data: np.ndarray[Any, Any]) -> Any:
    v = np.zeros_like(w)
    for x in data:
        v = 0.9 * v + 2 * (w @ x - 1) * x
        w = w - 0.05 * v
    return w


def test_derivatives_and_batches() -> None:
    data = np.random.default_rng(0).normal(size=(5, 3))
    starts = np.random.default_rng(1).normal(size=(2, 3))
    x = jnp.asarray(data, "f4")

    def both(w: Any) -> Any:
        return _momentum(w, x), xpr.jacrev(_momentum)(w, x)

    values, jacobians = xpr.jit(xpr.vmap(both))(jnp.asarray(starts, "f4"))
    forward = xpr.jacfwd(lambda w: _momentum(w, x))(jnp.asarray(starts[0], "f4"))
    h = 1e-6
    for w, value, jacobian in zip(starts, values, jacobians, strict=True):
        np.testing.assert_allclose(value, _momentum_in_numpy(w, data), rtol=1e-5)
        columns = [
            (_momentum_in_numpy(w + h * e, data) - _momentum_in_numpy(w - h * e, data)) / (2 * h)
            for e in np.eye(3)
        ]
        np.testing.assert_allclose(jacobian, np.stack(columns, 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(forward, jacobians[0], rtol=1e-4, atol=1e-5)


def test_higher_derivatives_of_branches() -> None:
    def f(x: Any) -> Any:
        ref = xpr.new_ref(x)
        lax.cond(x > 0, lambda: ref.__setitem__(..., ref[...] ** 3), lambda: None)
        return ref[...]

    twice = xpr.grad(xpr.grad(f))
    assert float(twice(2.0)) == 12
    assert float(twice(-2.0)) == 0
    assert xpr.jit(xpr.vmap(twice))(jnp.array([2.0, -2.0])).tolist() == [12, 0]
    assert float(xpr.grad(xpr.checkpoint(f))(2.0)) == 12


def test_references_beside_a_derivative() -> None:
    ref = xpr.new_ref(jnp.array([3.0, 0.0]))

    def f(x: Any) -> Any:
        ref[1] += lax.stop_gradient(x)
        return ref[0] * x

    assert float(xpr.grad(f)(2.0)) == 3
    assert float(xpr.jit(xpr.grad(f))(2.0)) == 3
    assert _values(ref) == [[3, 4]]
    assert float(xpr.grad(lambda x, r: r[0] * x)(2.0, ref)) == 3


def test_forward_mode_of_references() -> None:
    def f(r: Any) -> Any:
        r[1] = r[0] ** 2
        return r[1]

    value, tangent = xpr.new_ref(jnp.array([3.0, 1.0])), xpr.new_ref(jnp.array([1.0, 5.0]))
    out, moved = xpr.jvp(f, (value,), (tangent,))
    assert (float(out), float(moved)) == (9, 6)
    assert _values(value, tangent) == [[3, 9], [1, 6]]


def test_cotangents_are_put_away() -> None:
    """A backward rule writes what passes it to a reference among its residuals."""

    @xpr.custom_vjp
    def watched(x: Any, place: Any) -> Any:
        return x

    def backward(place: Any, ct: Any) -> Any:
        place[...] = ct
        return ct, None

    watched.defvjp(lambda x, place: (x, place), backward)
    place = xpr.new_ref(0.0)
    slope = xpr.grad(lambda x: jnp.cos(watched(x * 2, place)))
    for f, x in ((slope, 0.5), (xpr.jit(slope), 0.7)):
        np.testing.assert_allclose(f(x), -2 * np.sin(2 * x), rtol=1e-6)
        np.testing.assert_allclose(place[...], -np.sin(2 * x), rtol=1e-6)


def test_batches_of_references() -> None:
    rows, shared = xpr.new_ref(jnp.zeros((2, 3))), xpr.new_ref(jnp.array([1.0, 2.0, 4.0]))

    def f(r: Any, x: Any, i: Any) -> Any:
        r[i] = x + shared[i]
        return shared[...].sum()

    xpr.vmap(f, in_axes=(1, 0, 0))(rows, jnp.array([1.0, 2.0, 3.0]), jnp.array([0, 1, 0]))
    assert _values(rows) == [[[2, 0, 4], [0, 4, 0]]]
    again = xpr.jit(xpr.vmap(f, in_axes=(1, 0, None)))
    assert again(rows, jnp.zeros(3), 1).tolist() == [7, 7, 7]
    assert _values(rows) == [[[2, 0, 4], [2, 2, 2]]]


def test_empty_references() -> None:
    def run() -> xpr.Array:
        ref = xpr.empty_ref(xpr.ShapeDtypeStruct((3,), jnp.int32))
        ref[1] = 5
        return ref[...]

    assert run().tolist() == xpr.jit(run)().tolist() == [0, 5, 0]
    with pytest.raises(NotImplementedError, match="memory spaces"):
        xpr.empty_ref(jnp.ones(2), memory_space="smem")


@pytest.mark.parametrize("transform", [lambda f: f, xpr.jit], ids=["eager", "jit"])
def test_views_of_a_reference(transform: Any) -> None:
    def write(x: Any) -> Any:
        ref = xpr.new_ref(jnp.arange(12.0).reshape(3, 4))
        view = ref.at[1:]
        view.at[1][2:] = x[:2]
        view[0, jnp.array([0, 0])] += x[:2]
        view.addupdate(x[0], (0, 3))
        ref.at[0].addupdate(x)
        before = xpr.ref.swap(ref.at[:, 1], 0, 50.0)
        xpr.ref.set(ref.at[2], 0, 60.0)
        xpr.ref.addupdate(ref.at[2], 1, 1.0)
        return ref[...], before, xpr.ref.get(view, (1, 3)), view.at[..., 0][...]

    def in_numpy(x: np.ndarray) -> Any:
        whole = np.arange(12.0, dtype=np.float32).reshape(3, 4)
        view = whole[1:]
        view[1][2:] = x[:2]
        view[0, [0, 0]] += x[:2]
        view[0, 3] += x[0]
        whole[0] += x
        before = whole[0, 1].copy()
        whole[0, 1] = 50.0
        whole[2, 0] = 60.0
        whole[2, 1] += 1.0
        return whole, before, view[1, 3], view[..., 0]

    x = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    for found, expected in zip(transform(write)(x), in_numpy(x), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_derivatives_through_views_of_a_reference() -> None:
    def f(x: Any) -> Any:
        ref = xpr.new_ref(jnp.ones(5))
        ref.at[1:4][...] += x
        return jnp.sum(ref[...] ** 2)

    x = jnp.array([1.0, 2.0, 3.0])
    for g in (xpr.grad(f), xpr.jit(xpr.grad(f))):
        np.testing.assert_array_equal(g(x), 2 * (1 + x))
    view = xpr.new_ref(jnp.zeros((2, 3))).at[0]
    assert (view.shape, view.ndim, view.size, view.dtype) == ((3,), 1, 3, np.float32)


def test_programs_with_references_are_compiled_ahead_of_time() -> None:
    closed_over = xpr.new_ref(jnp.ones(3))

    def f(x: Any, ref: Any) -> Any:
        ref[...] += 1.0
        ref[0] += x
        closed_over[...] *= 2
        return ref[1] + closed_over[0], x

    ref = xpr.new_ref(jnp.zeros(3))
    lowered = xpr.jit(f).lower(1.0, ref)
    assert "stablehlo.multiply" in lowered.as_text()
    run = lowered.compile()
    for k in (1.0, 2.0, 3.0):
        found, same = run(k, ref)
        assert float(found) == ref[1] + closed_over[0]
        assert float(same) == k
    np.testing.assert_array_equal(ref[...], [9.0, 3.0, 3.0])
    np.testing.assert_array_equal(closed_over[...], [8.0, 8.0, 8.0])
    with pytest.raises(ValueError, match=r"f has the reference of type .* twice"):
        run(1.0, closed_over)
    with pytest.raises(TypeError, match=r"compiled with Ref\{float32\[3\]\} and called with"):
        run(1.0, xpr.new_ref(jnp.zeros(4)))

    keys = xpr.new_ref(xpr.random.key(0))

    def draw(keys: Any) -> Any:
        keys[...], key = xpr.random.split(keys[...])
        return xpr.random.uniform(key)

    drawn = xpr.jit(draw).lower(keys).compile()
    numbers = [float(drawn(keys)) for _ in range(3)]
    keys[...] = xpr.random.key(0)
    assert numbers == [float(draw(keys)) for _ in range(3)]
