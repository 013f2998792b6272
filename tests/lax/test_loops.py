"""Loops and branches against Python's: eager, jitted, mapped and differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override
from xpr.test_util import check_grads


def close(found, expected, rtol=1e-5):
    """Trees agree; a list stands for an array."""
    a = xpr.tree.leaves(found)
    b = xpr.tree.leaves(expected, is_leaf=lambda x: isinstance(x, list))
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=1e-6)


def python_scan(f, init, xs, reverse=False):
    """The loop that `scan` stands for."""
    n = len(xpr.tree.leaves(xs)[0])
    carry, ys = init, []
    for i in reversed(range(n)) if reverse else range(n):
        carry, y = f(carry, xpr.tree.map(lambda x, i=i: x[i], xs))
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, xpr.tree.map(lambda *parts: jnp.stack(parts), *ys)


RNG = np.random.default_rng(3)
W = RNG.standard_normal((3, 3)).astype("f4") * 0.5
XS = {"a": RNG.standard_normal((5, 3)).astype("f4"), "n": np.arange(5, dtype="i4")}
INIT = (np.ones(3, "f4"), np.int32(2))


def step(carry, x):
    """A step with constants, integers, nested calls, and a result that is no carry."""
    h, count = carry
    new = jnp.tanh(h @ W + x["a"]) * jnp.where(x["n"] % 2 == 0, 1.0, 0.5)
    return (new, count + x["n"]), {"y": new.sum(), "h": h, "k": count}


# ---- scan


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [0, 1, 2, 5, True])
def test_scan_equals_its_loop(reverse: bool, unroll: int) -> None:
    def run(init, xs):
        return lax.scan(step, init, xs, reverse=reverse, unroll=unroll)

    expected = python_scan(step, INIT, XS, reverse)
    close(run(INIT, XS), expected)
    close(xpr.jit(run)(INIT, XS), expected)


@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_scan(reverse: bool) -> None:
    def loss(w, h, a, run):
        def body(carry, x):
            new = jnp.tanh(carry @ w + x)
            return new, new * jnp.sin(x)

        last, ys = run(body, h, a, reverse=reverse)
        return jnp.sum(last**2) + jnp.sum(ys)

    args = (W, INIT[0], XS["a"])
    expected = xpr.grad(lambda *xs: loss(*xs, python_scan), argnums=(0, 1, 2))(*args)

    def scanned(*xs):
        return loss(*xs, lax.scan)

    for g in (
        xpr.grad(scanned, argnums=(0, 1, 2)),
        xpr.jit(xpr.grad(scanned, argnums=(0, 1, 2))),
        xpr.grad(xpr.jit(scanned), argnums=(0, 1, 2)),
        xpr.jacfwd(scanned, argnums=(0, 1, 2)),
    ):
        close(g(*args), expected, rtol=1e-4)
    with xpr.enable_x64(True):
        wide = [np.asarray(x, "f8") for x in args]
        check_grads(scanned, wide, order=2)


def test_scan_under_vmap() -> None:
    hs = RNG.standard_normal((4, 3)).astype("f4")
    axs = RNG.standard_normal((5, 4, 3)).astype("f4")

    def run(h, a):
        return lax.scan(lambda c, x: (jnp.sin(c @ W + x), c.sum()), h, a)

    for in_axes, args in (
        ((0, 1), (hs, axs)),
        ((0, None), (hs, axs[:, 0])),
        ((None, 1), (hs[0], axs)),
    ):
        found = xpr.vmap(run, in_axes=in_axes)(*args)
        each = []
        for i in range(4):
            h = args[0][i] if in_axes[0] == 0 else args[0]
            a = args[1][:, i] if in_axes[1] == 1 else args[1]
            each.append(run(h, a))
        close(found, xpr.tree.map(lambda *parts: jnp.stack(parts), *each))
        close(xpr.jit(xpr.vmap(run, in_axes=in_axes))(*args), found)
    per_example = xpr.vmap(xpr.grad(lambda h, a: run(h, a)[1].sum()), in_axes=(0, 1))(hs, axs)
    close(per_example[2], xpr.grad(lambda h, a: run(h, a)[1].sum())(hs[2], axs[:, 2]))


def test_residuals_that_do_not_change_are_kept_once() -> None:
    """exp(w) is computed outside of the loop, and x is not stacked a second time."""

    def loss(w, xs):
        return lax.scan(lambda c, x: (c * jnp.exp(w) * x, None), 1.0, xs)[0]

    jaxpr = xpr.make_jaxpr(xpr.grad(loss))(0.5, np.ones(100, "f4"))
    forward = next(e for e in jaxpr.eqns if e.primitive.name == "scan")
    stacked = [v.aval for v in forward.outvars if v.aval.shape == (100,)]
    # c * exp(w) is needed for x, c for exp(w): both are carried through the steps.
    assert len(stacked) <= 2
    assert "exp" in [e.primitive.name for e in jaxpr.eqns]


def test_scan_without_slices_or_carry() -> None:
    close(lax.scan(lambda c, _: (c * 2, c), 1, None, length=4), (16, [1, 2, 4, 8]))
    close(lax.scan(lambda c, x: (c, x), (), jnp.arange(3))[1], [0, 1, 2])
    carry, ys = lax.scan(lambda c, x: (c + x, c), 1.5, jnp.zeros((0,)))
    close(carry, 1.5)
    assert ys.shape == (0,)
    assert xpr.jit(lambda: lax.scan(lambda c, _: (c, c), 1.0, None, length=0)[1])().shape == (0,)


def test_weak_carries_are_promoted() -> None:
    carry, _ = lax.scan(lambda c, x: (c * 1.5 + x, None), 1, jnp.ones(3))
    assert carry.dtype == jnp.float32
    close(carry, 8.125)
    assert lax.while_loop(lambda x: x < 10, lambda x: x * 1.5, 1).dtype == jnp.float32


def test_branches_evaluated_at_once_return_arrays() -> None:
    """Literals and operands of NumPy become arrays, in memory of their own."""
    mine = np.arange(3.0, dtype="f4")
    same, seven = lax.cond(True, lambda x: (x, 7), lambda x: (x, 8), mine)
    assert isinstance(same, xpr.Array)
    assert repr(seven) == "Array(7, dtype=int32, weak_type=True)"
    mine[0] = 100.0
    close(same, [0.0, 1.0, 2.0])
    assert repr(lax.switch(0, [lambda x: x, lambda x: -x], 2.5)) == (
        "Array(2.5, dtype=float32, weak_type=True)"
    )


def test_closures_over_tracers_and_arrays() -> None:
    big = jnp.arange(6.0)

    def f(x):
        return lax.scan(lambda c, i: (c + big[i] * x, None), 0.0, jnp.arange(6))[0]

    close(xpr.grad(f)(2.0), 15.0)
    close(xpr.jit(xpr.grad(f))(2.0), 15.0)
    # Arrays are operands of the loop, not written into its program.
    text = str(xpr.make_jaxpr(f)(2.0))
    assert "num_consts=2" in text


def test_nested_scans() -> None:
    def inner(c, x):
        return lax.scan(lambda d, y: (d * y, d), c, x)

    def outer(c, xs):
        return lax.scan(inner, c, xs)

    xs = RNG.uniform(0.5, 1.5, (3, 4)).astype("f4")
    expected = python_scan(
        lambda c, x: python_scan(lambda d, y: (d * y, d), c, x), np.float32(1), xs
    )
    close(xpr.jit(outer)(np.float32(1), xs), expected)
    close(xpr.grad(lambda xs: outer(np.float32(1), xs)[0])(xs), xs.prod() / xs, rtol=1e-4)


def test_compile_time_does_not_grow_with_the_length() -> None:
    texts = [
        xpr.jit(lambda x, n=n: lax.scan(lambda c, _: (jnp.sin(c), c), x, None, length=n)[1])
        .lower(1.0)
        .as_text("iree")
        for n in (10, 10_000)
    ]
    assert abs(len(texts[0]) - len(texts[1])) < 100


# ---- while, fori


def test_while_loop() -> None:
    def collatz(n):
        return lax.while_loop(
            lambda s: s[0] != 1,
            lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
            (n, 0),
        )[1]

    expected = []
    for n in range(1, 10):
        count, m = 0, n
        while m != 1:
            m, count = (m // 2 if m % 2 == 0 else 3 * m + 1), count + 1
        expected.append(count)
    assert [int(collatz(n)) for n in (1, 7, 9)] == [expected[0], expected[6], expected[8]]
    close(xpr.vmap(collatz)(jnp.arange(1, 10)), expected)
    close(xpr.jit(xpr.vmap(collatz))(jnp.arange(1, 10)), expected)
    # An end that is the same for all, and one that differs by a constant of the condition.
    f = xpr.vmap(
        lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, x))
    )
    close(f(jnp.array([1.0, 2.0]))[1], [1.0, 16.0])
    g = xpr.vmap(lambda n: lax.while_loop(lambda i: i < n, lambda i: i + 2, 0))
    close(g(jnp.array([3, 6, 0])), [4, 6, 0])


def test_forward_mode_of_while_loop() -> None:
    def power(x, n):
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * x), (0, 1.0))[1]

    close(xpr.jvp(lambda x: power(x, 3), (2.0,), (1.0,))[1], 12.0)
    close(xpr.jacfwd(power)(2.0, 4), 32.0)
    close(xpr.jit(xpr.jacfwd(power))(2.0, 4), 32.0)
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work for lax"):
        xpr.grad(power)(2.0, 3)
    # Values of a loop that are not differentiated are no obstacle.
    close(xpr.grad(lambda x: x * power(xpr.lax.stop_gradient(x), 2))(3.0), 9.0)


def test_fori_loop() -> None:
    def power(x, n):
        return lax.fori_loop(0, n, lambda i, y: y * x + i, 1.0)

    expected = ((1.0 * 2 + 0) * 2 + 1) * 2 + 2
    close(power(2.0, 3), expected)
    close(xpr.jit(power)(2.0, 3), expected)
    close(xpr.jit(power, static_argnums=1)(2.0, 3), expected)
    close(xpr.grad(lambda x: power(x, 3))(2.0), 3 * 4 + 1)
    close(lax.fori_loop(2, 2, lambda i, y: y + 1, 0), 0)
    close(lax.fori_loop(5, 2, lambda i, y: y + 1, 0), 0)
    close(lax.fori_loop(0, 6, lambda i, y: y + i, 0, unroll=4), 15)
    close(
        xpr.linear_transpose(lambda x: lax.fori_loop(0, 3, lambda i, y: y * 2.0, x), 1.0)(1.0)[0],
        8.0,
    )


def test_bounds_of_a_fori_loop_are_those_of_jax() -> None:
    add = lambda i, c: c + i  # noqa: E731
    # Golden: JAX 0.10.2. Bounds that are known become integers that give way to the carry's dtype.
    close(lax.fori_loop(0.0, 3.5, add, 0.0), 3.0)
    close(lax.fori_loop(np.float32(0), np.float32(3), add, 0.0), 3.0)
    close(lax.fori_loop(False, True, lambda i, c: c + 1, 0.0), 1.0)
    close(xpr.jit(lambda n: lax.fori_loop(0.0, n, add, 0.0))(2.5), 3.0)
    close(xpr.grad(lambda x: lax.fori_loop(0.0, 3.0, lambda i, c: c * x, 1.0))(2.0), 12.0)
    assert lax.fori_loop(np.int8(0), np.int8(3), add, np.int8(0)).dtype == np.int8
    _error(
        TypeError,
        "has type int8[] but the corresponding output carry component has type int32[]",
        lambda: lax.fori_loop(np.int8(0), np.int8(3), lambda i, c: i, np.int8(0)),
    )


def test_unroll_of_zero_writes_all_steps_out() -> None:
    # JAX 0.10.2 keeps the 0 in the jaxpr, and has no loop in what it lowers.
    summed = lambda: lax.fori_loop(0, 3, lambda i, c: c * c + i, 1, unroll=0)  # noqa: E731
    assert "unroll=0" in str(xpr.make_jaxpr(summed)())
    close(xpr.jit(summed)(), 6)
    loop = lambda x: lax.scan(lambda c, y: (c + y, c), 0.0, x, unroll=0)  # noqa: E731
    close(xpr.grad(lambda x: loop(x)[0] ** 2)(jnp.arange(3.0)), [6.0, 6.0, 6.0])
    empty, none = loop(jnp.zeros(0))
    assert (float(empty), none.shape) == (0.0, (0,))


# ---- branches


def test_cond_and_switch() -> None:
    def f(x, y):
        return lax.cond(x > 0, lambda a: {"r": jnp.sin(a) * y}, lambda a: {"r": a * a}, x)["r"]

    xs = np.array([0.5, -0.5], "f4")
    values = np.array([np.sin(0.5) * 2, 0.25])
    slopes = np.array([np.cos(0.5) * 2, -1.0])
    for x, value, slope in zip(xs, values, slopes, strict=True):
        close(f(x, 2.0), value)
        close(xpr.jit(f)(x, 2.0), value)
        close(xpr.grad(f)(x, 2.0), slope)
        close(xpr.jit(xpr.grad(f))(x, 2.0), slope)
        close(xpr.jacfwd(f)(x, 2.0), slope)
        close(xpr.grad(xpr.jit(f), argnums=1)(x, 2.0), np.sin(0.5) if x > 0 else 0.0)
    close(xpr.vmap(f, in_axes=(0, None))(xs, 2.0), values)
    close(xpr.vmap(xpr.grad(f), in_axes=(0, None))(xs, 2.0), slopes)
    close(xpr.jit(xpr.vmap(f, in_axes=(None, 0)))(xs[0], xs), np.sin(0.5) * xs)

    branches = [lambda x: x, lambda x: x * x, jnp.exp]
    for i, expected in ((0, 2.0), (1, 4.0), (2, np.exp(2)), (-5, 2.0), (9, np.exp(2))):
        close(lax.switch(i, branches, 2.0), expected)
        close(xpr.jit(lambda i, x: lax.switch(i, branches, x))(i, 2.0), expected)
    close(
        xpr.vmap(lambda i: lax.switch(i, branches, 2.0))(jnp.array([2, -1, 1])), [np.exp(2), 2, 4]
    )
    close(xpr.jit(xpr.grad(lambda x: lax.switch(1, branches, x)))(3.0), 6.0)
    # Wider numbers are taken modulo 2**32, as in JAX.
    wide = ((2**32 - 1, 2.0), (2**31, 2.0), (2**32 + 1, 4.0), (-(2**40) + 2, np.exp(2)))
    for i, expected in wide:
        close(lax.switch(i, branches, 2.0), expected)
    close(lax.switch(np.uint32(2**32 - 1), branches, 2.0), 2.0)


def test_gradients_of_branches_keep_weak_types() -> None:
    f = xpr.grad(lambda x: lax.cond(x > 0, lambda y: y * 0.25, lambda y: y, x))
    assert f(1.0).weak_type
    assert not f(jnp.float32(1.0)).weak_type


def test_both_forms_of_cond() -> None:
    close(lax.cond(True, 3, lambda x: x + 1, 5, lambda x: x - 1), 4)
    close(lax.cond(False, 3, lambda x: x + 1, 5, lambda x: x - 1), 4)
    close(lax.cond(False, lambda x: x + 1, lambda x: x - 1, operand=5), 4)
    close(lax.cond(True, lambda _: 1, lambda _: 2, operand=None), 1)
    close(lax.switch(1, [lambda _: 1, lambda _: 2], operand=None), 2)
    close(lax.cond(2, lambda: 1, lambda: 0), 1)


def test_only_the_chosen_branch_runs() -> None:
    def bad(x):
        return lax.while_loop(lambda s: True, lambda s: s, x)

    close(lax.cond(True, lambda x: x + 1, bad, 1.0), 2.0)
    close(xpr.jit(lambda p, x: lax.cond(p, lambda x: x + 1, bad, x))(True, 1.0), 2.0)


def test_derivatives_of_branches_keep_few_residuals() -> None:
    def f(i, x):
        return lax.switch(i, [lambda x: jnp.sin(x), lambda x: jnp.exp(x), lambda x: x * 3.0], x)

    jaxpr = xpr.make_jaxpr(xpr.grad(f, argnums=1))(0, 1.0)
    forward = next(e for e in jaxpr.eqns if e.primitive.name == "cond")
    assert len(forward.outvars) == 1
    for i, slope in enumerate((np.cos(0.3), np.exp(0.3), 3.0)):
        close(xpr.grad(f, argnums=1)(i, 0.3), slope)


def test_loops_in_branches_and_branches_in_loops() -> None:
    def f(x):
        def body(c, i):
            return lax.cond(i % 2 == 0, lambda c: c * x, lambda c: jnp.sin(c), c), c

        return lax.scan(body, 1.0, jnp.arange(4))[0]

    x = 0.7
    close(f(x), np.sin(np.sin(x) * x))
    slope = np.cos(np.sin(x) * x) * (np.cos(x) * x + np.sin(x))
    close(xpr.grad(f)(x), slope)
    close(xpr.jit(xpr.grad(f))(x), slope)
    close(xpr.vmap(xpr.grad(f))(jnp.array([x, x]))[1], slope)


def test_map_and_associative_scan() -> None:
    xs = RNG.standard_normal((7, 2)).astype("f4")
    expected = np.sin(xs).sum(1)
    for size in (None, 1, 3, 7, 10):
        close(lax.map(lambda x: jnp.sin(x).sum(), xs, batch_size=size), expected)
    for n in (0, 1, 2, 3, 8, 13):
        x = RNG.standard_normal((n, 2)).astype("f4")
        close(lax.associative_scan(jnp.add, x), np.cumsum(x, axis=0))
        close(lax.associative_scan(jnp.add, x, reverse=True), np.cumsum(x[::-1], axis=0)[::-1])
    x = RNG.uniform(0.5, 1.5, (3, 6)).astype("f4")
    close(xpr.jit(lambda x: lax.associative_scan(jnp.multiply, x, axis=-1))(x), np.cumprod(x, 1))
    pair = lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x[0], x[1]))
    h = 0.0
    for i in range(6):
        h = h * x[0, i] + x[1, i]
    close(pair[1][-1], h)
    with xpr.enable_x64(True):
        check_grads(lambda x: lax.associative_scan(jnp.multiply, x), (x[0].astype("f8"),), order=2)


def test_platform_dependent_and_disable_jit() -> None:
    assert int(lax.platform_dependent(1, cpu=lambda x: x + 1, default=lambda x: x)) == 2
    with pytest.raises(NotImplementedError, match="no function for 'cpu'"):
        lax.platform_dependent(1, cuda=lambda x: x)
    with xpr.disable_jit():
        out = lax.scan(lambda c, x: (c + x, float(c)), 0.0, jnp.arange(3.0))
        close(lax.fori_loop(0, 3, lambda i, c: c + int(i), 0), 3)
        close(lax.while_loop(lambda c: c < 5, lambda c: c + int(c) + 1, 0), 7)
        close(lax.cond(True, lambda x: float(x), lambda x: 0.0, 2.0), 2.0)
    close(out, (3.0, [0.0, 0.0, 1.0]))


# ---- bad input


def _error(kind, match, f):
    with pytest.raises(kind, match=match):
        f()


def test_errors_of_scan() -> None:
    ones = jnp.ones(3)
    _error(
        TypeError,
        r"(?s)carry c has type float32\[\] .* type int32\[\], so the dtypes",
        lambda: lax.scan(lambda c, x: (c.astype(int), x), 1.0, ones),
    )
    _error(
        TypeError,
        r"(?s)component c\['y'\] has type float32\[\] .* float32\[3\], so the shapes",
        lambda: lax.scan(lambda c, x: ({"x": c["x"], "y": ones}, x), {"x": 1.0, "y": 2.0}, ones),
    )
    _error(
        TypeError, "same pytree structure", lambda: lax.scan(lambda c, x: ((c, c), x), 1.0, ones)
    )
    _error(TypeError, "must be a pair", lambda: lax.scan(lambda c, x: c, 1.0, ones))
    _error(
        ValueError,
        "different leading axis sizes: 3, 4",
        lambda: lax.scan(lambda c, x: (c, x), 1.0, (ones, jnp.ones(4))),
    )
    _error(ValueError, "no values to scan over", lambda: lax.scan(lambda c, x: (c, x), 1.0))
    _error(
        ValueError,
        "`length` argument of 4 which disagrees",
        lambda: lax.scan(lambda c, x: (c, x), 1.0, ones, length=4),
    )
    _error(
        ValueError, "negative length", lambda: lax.scan(lambda c, x: (c, x), 1.0, None, length=-1)
    )
    _error(ValueError, "no leading axis", lambda: lax.scan(lambda c, x: (c, x), 1.0, 2.0))
    _error(
        ValueError,
        "`unroll` must be a `bool` or a non-negative `int`. Got -1",
        lambda: lax.scan(lambda c, x: (c, x), 1.0, ones, unroll=-1),
    )
    _error(TypeError, "not a valid JAX type", lambda: lax.scan(lambda c, x: (c, x), "a", ones))


def test_errors_of_while_and_fori() -> None:
    _error(TypeError, "boolean scalar", lambda: lax.while_loop(lambda c: c, lambda c: c, 1.0))
    _error(
        TypeError,
        "boolean scalar",
        lambda: lax.while_loop(lambda c: jnp.ones(2) > 0, lambda c: c, 1.0),
    )
    _error(
        TypeError,
        "boolean scalar, but got pytree",
        lambda: lax.while_loop(lambda c: (True, True), lambda c: c, 1.0),
    )
    _error(
        TypeError,
        "so the dtypes do not match",
        lambda: lax.while_loop(lambda c: c < 2, lambda c: 1, 1.0),
    )
    for lower, upper in ((0.0, 3), (np.int8(0), np.int16(3)), (0, np.uint8(3))):
        _error(
            TypeError,
            "lower and upper arguments to fori_loop must have equal types",
            lambda lower=lower, upper=upper: lax.fori_loop(lower, upper, lambda i, c: c, 1.0),
        )
    _error(TypeError, "be scalars", lambda: lax.fori_loop(jnp.ones(2), 3.0, lambda i, c: c, 1.0))
    _error(TypeError, "lt ", lambda: lax.fori_loop(0j, 3j, lambda i, c: c, 1.0))
    _error(
        ValueError,
        "if the loop bounds are statically known",
        lambda: xpr.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c, 1.0, unroll=0))(3),
    )


def test_errors_of_branches() -> None:
    same = lambda x: x  # noqa: E731
    _error(
        TypeError,
        r"(?s)same pytree structure.*true_fun output is a pytree leaf but false_fun output is a "
        r"<class 'tuple'>, so their Python types differ\..*Revise true_fun and/or false_fun",
        lambda: lax.cond(True, same, lambda x: (x, x), 1.0),
    )
    _error(
        TypeError,
        r"(?s)branch 0 output is a tuple of length 2 but branch2 output is a tuple of length 1",
        lambda: lax.switch(1, [lambda: (1, 2), lambda: (1, 2), lambda: (1,)]),
    )
    _error(
        TypeError,
        r"(?s)true_fun has type float32\[\].*false_fun has type int32\[\], so the dtypes",
        lambda: lax.cond(True, same, lambda x: x.astype(int), jnp.float32(1.0)),
    )
    _error(TypeError, "Pred must be a scalar", lambda: lax.cond(jnp.ones(2) > 0, same, same, 1.0))
    _error(TypeError, "Pred must be a scalar", lambda: lax.cond("a", same, same, 1.0))
    _error(TypeError, "should be callable", lambda: lax.cond(True, 1.0, same, 1.0))
    _error(TypeError, "Index type must be an integer", lambda: lax.switch(1.0, [same, same], 1.0))
    _error(TypeError, "must be scalar", lambda: lax.switch(jnp.ones(2, int), [same, same], 1.0))
    _error(ValueError, "Empty branch sequence", lambda: lax.switch(0, [], 1.0))


@pytest.mark.usefixtures("plain_loops")
def test_an_update_at_a_carried_index_in_a_plain_loop() -> None:
    """As an update in place, IREE lost the array: "ref is null"."""

    def f(x, i, t):
        return lax.while_loop(
            lambda s: s[2] < 6,
            lambda s: (jnp.sin(s[0].at[s[1]].set(1.0)), s[1] + 1, s[2] + 1),
            (x, i, t),
        )

    # Too long for registers, so that the loop is a `stablehlo.while`.
    x = np.linspace(0, 1, 2000, dtype="f4")
    found = xpr.jit(f)(x, np.int32(1), np.float32(0))
    expected = x.copy()
    for i in range(1, 7):
        expected[i] = 1
        expected = np.sin(expected)
    close(found, (expected, 7, 6.0))


@pytest.mark.usefixtures("plain_loops")
def test_carried_arrays_that_change_places_in_a_plain_loop() -> None:
    x = np.linspace(0, 1, 3000, dtype="f4")

    def body(s):
        i, a, b, c, _last, total = s
        window = lax.dynamic_update_slice(c, a[:7] + 1, (i,))
        return i + 1, b, jnp.sin(a), window, total, (total + window.sum()) / 2

    def f(x):
        return lax.while_loop(lambda s: s[0] < 4, body, (0, x, -x, 2 * x, x[1], x[2]))

    a, b, c, last, total = x, -x, 2 * x, x[1], x[2]
    for i in range(4):
        c = c.copy()
        c[i : i + 7] = a[:7] + 1
        a, b, last, total = b, np.sin(a), total, (total + c.sum()) / 2
    for run in (f, xpr.jit(f)):
        close(run(x), (4, a, b, c, last, total))
    assert "stablehlo.while" in xpr.jit(f).lower(x).as_text("iree")


def test_a_step_that_returns_a_value_twice() -> None:
    x = np.linspace(0, 1, 5000, dtype="f4")

    def body(s):
        y = jnp.cos(s[0]).sum() + s[1] - s[2]
        return s[0] / 2, y, y, s[3] + 1

    start = (x, x[1], 3 * x[1], np.int32(0))
    found = xpr.jit(lambda s: lax.while_loop(lambda s: (s[3] < 5) & (s[1] < 1e9), body, s))(start)
    total = np.cos(x.astype("f8") / 16).sum()
    close(found, (x / 32, total, total, 5))


_MANY = 40


@pytest.mark.parametrize("length", [3, 300])
def test_loops_with_more_arrays_than_a_dispatch_takes(length: int) -> None:
    """40 arrays, on registers or not, each from all before it or alone, also under a predicate."""
    start = [np.linspace(0, 1, length, dtype="f4") + i for i in range(_MANY)]

    def chain(i, xs):
        total = xs[0]
        for x in xs[1:]:
            total = total * 0.5 + x
        return i + 1, [total, *(x * 0.5 for x in xs[1:])]

    def f(n, xs):
        return lax.while_loop(lambda s: s[0] < n, lambda s: chain(*s), (0, xs))[1]

    def expected(n):
        xs = list(start)
        for i in range(n):
            xs = chain(i, xs)[1]
        return tuple(xs)

    close(xpr.jit(f)(2, start), expected(2))
    batched = xpr.vmap(f, (0, None))(np.array([1, 3]), start)
    close(batched, tuple(np.stack(two) for two in zip(expected(1), expected(3), strict=True)))


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_values_that_only_the_test_of_a_loop_reads(dtype: str) -> None:
    # So many numbers are not kept in registers: the loop is a plain one.
    start = np.linspace(0.1, 0.2, 700).astype(dtype)

    def body(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, _, _ = state
        x = x * (1 + jnp.vdot(x, x))
        return x, jnp.abs(x).max() > 40, jnp.abs(x).sum().astype("uint32")

    def goes_on(state: tuple[Any, ...]) -> Any:
        return ~state[1] & (state[2] < 9000)

    first = (jnp.asarray(start), jnp.zeros((), bool), jnp.zeros((), "uint32"))
    x, done, total = xpr.jit(lambda s: lax.while_loop(goes_on, body, s))(first)
    expected = start
    while np.abs(expected).max() <= 40 and np.abs(expected).sum() < 9000:
        expected = expected * (1 + np.vdot(expected, expected))
    np.testing.assert_allclose(x, expected, rtol=1e-4)
    assert bool(done) == (np.abs(expected).max() > 40)
    np.testing.assert_allclose(total, np.abs(expected).sum(), rtol=1e-4)


@pytest.mark.parametrize("vain", ["unused", "folded"])
@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_values_that_a_step_reads_in_vain(vain: str, dtype: str) -> None:
    def body(state: tuple[Any, ...]) -> tuple[Any, ...]:
        seen, x, k = state
        # So long that the loop keeps its plain form.
        x = jnp.sort(jnp.tile(x[::-1] * 0.25, 100))[::100]
        new = (x > 0.5).any().astype(dtype)
        if vain == "unused":
            _ = seen + 1.0
        else:
            new = jnp.where(k % 1 == 0, new, seen)
        return new, x, k

    def all_of_it(x: Any, k: Any) -> Any:
        # A first step outside: IREE then finds nothing in the loop to move out of it.
        start = (jnp.ones((), dtype), x, k)
        first = body(start)
        return first, first[0] > 0, lax.while_loop(lambda s: s[0] > 0, body, start)[1]

    found = xpr.jit(all_of_it)(jnp.arange(4.0), 3)
    np.testing.assert_array_equal(found[2], np.arange(4) / 16)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("how", ["add", "max", "min", "set"])
def test_updates_of_unsigned_integers_in_loops(dtype: str, how: str) -> None:
    with override("enable_x64", True):
        top = int(np.iinfo(dtype).max)
        x = np.array([1, top - 2, top // 2, 5], dtype)
        places = np.array([0, 1, 1, 3, 9], np.int32)
        updates = np.array([top, 3, top - 1, top // 2 + 1, 1], dtype)

        def step(_: int, v: Any) -> Any:
            return getattr(v.at[places], how)(updates + v[0])

        found = xpr.jit(lambda v: lax.fori_loop(0, 3, step, v))(x)
        expected = x.copy()
        for _ in range(3):
            old = expected[0]
            for place, u in zip(places[:4], updates[:4], strict=True):
                new, held = int(u) + int(old) & top, int(expected[place])
                expected[place] = {
                    "add": held + new & top,
                    "max": max(held, new),
                    "min": min(held, new),
                    "set": new,
                }[how]
        np.testing.assert_array_equal(found, expected)


def test_a_small_loop_over_booleans_in_a_branch() -> None:
    def loop(u: Any, k: Any, s: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            a, w = carry
            h = (a.astype(jnp.int32).sum() + 1) % k
            return (jnp.broadcast_to(h > 0, (3,)), jnp.broadcast_to(h > 1, (3, 4))), w

        return lax.scan(step, (u, s), None, length=3)[0]

    f = xpr.jit(lambda u, k, s: lax.cond(u.any(), lambda u, k, s: (u, s), loop, u, k, s))
    u, s = np.zeros(3, bool), np.eye(3, 4) > 0
    a, w = f(u, np.int32(3), s)
    # The remainders are those of 1, 4 and 4.
    np.testing.assert_array_equal(a, ~u)
    np.testing.assert_array_equal(w, np.zeros((3, 4), bool))
    a, w = f(~u, np.int32(3), s)
    np.testing.assert_array_equal(a, ~u)
    np.testing.assert_array_equal(w, s)


def test_a_loop_in_a_map_of_maps_ends_for_each_ray_alone() -> None:
    """The condition's booleans, and the bytes that tell whether any is left, are carried both."""
    n, small = 48, np.float32(1e-3)

    def distance(p: Any, where: Any) -> Any:
        return where.minimum(
            where.sqrt(((p - np.float32([0, 0, 3])) ** 2).sum(-1)) - 1, p[..., 1] + 1
        )

    def march(ray: Any) -> Any:
        def more(state: Any) -> Any:
            t, i = state
            return (distance(t * ray, jnp) > small) & (i < 30) & (t < 20)

        return lax.while_loop(
            more, lambda s: (s[0] + distance(s[0] * ray, jnp), s[1] + 1), (0.0, 0)
        )

    rays = RNG.uniform(-1, 1, (n, n, 3)).astype("f4")
    t, steps = xpr.jit(xpr.vmap(xpr.vmap(march)))(rays)
    expected, counts = np.zeros((n, n), "f4"), np.zeros((n, n), "i4")
    for _ in range(30):
        d = distance(expected[..., None] * rays, np)
        on = (d > small) & (expected < 20)
        expected, counts = np.where(on, expected + d, expected), counts + on
    same = counts == np.asarray(steps)
    assert same.mean() > 0.99  # rounding may take a ray a step further
    np.testing.assert_allclose(np.asarray(t)[same], expected[same], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("as_bytes", [lambda p: p.astype("i1"), lambda p: (~p).astype("u1") ^ 1])
def test_booleans_and_their_bytes(as_bytes: Any) -> None:
    a = RNG.standard_normal((48, 48, 3)).astype("f4")

    def f(a: Any, where: Any) -> Any:
        p = where.minimum(a.sum(2), a[:, :, 1]) > 1
        return p, as_bytes(p)

    for found, expected in zip(xpr.jit(lambda a: f(a, jnp))(a), f(a, np), strict=True):
        np.testing.assert_array_equal(found, expected)


_STEPS: list[Any] = [
    lambda c, _: (jnp.sin(c), None),
    lambda c, x: (jnp.sin(c) * x, c),
    lambda c, x: (c, (c * x, jnp.cos(c))),
]


@pytest.mark.parametrize("order", [(0, 0), (0, 1), (1, 1), (2, 1), (1, 2), (0, 0, 0)])
def test_derivatives_of_loops_of_one_step(order: tuple[int, ...]) -> None:
    """Their dispatches had wrong results when one followed the other."""
    x = np.float32(0.7)

    def loops(c: Any, apply: Any) -> Any:
        for i in order:
            c, ys = apply(_STEPS[i], c)
            c = c + sum(jnp.sum(y) for y in xpr.tree.leaves(ys))
        return c

    def with_scan(c: Any) -> Any:
        return loops(c, lambda step, c: lax.scan(step, c, jnp.full(1, 1.5), length=1))

    def written_out(c: Any) -> Any:
        return loops(c, lambda step, c: step(c, jnp.float32(1.5)))

    def answers(f: Any) -> Any:
        second = xpr.grad(xpr.grad(f))
        mixed = xpr.grad(lambda c: xpr.jvp(f, (c,), (jnp.ones_like(c),))[1])
        return f(x), xpr.grad(f)(x), second(x), mixed(x), xpr.jvp(xpr.grad(f), (x,), (x,))[1]

    found, expected = xpr.jit(lambda: answers(with_scan))(), answers(written_out)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
