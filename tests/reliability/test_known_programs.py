"""Programs on which IREE's compiler ended the process, or failed: they compile as they are.

Each script runs in a process of its own where warnings are errors: one is given where a program
compiles only with its operations one by one.
"""

from __future__ import annotations

import pytest

from .scripts import run

_IMPORTS = """
import numpy as np
import xpr
import xpr.numpy as jnp
from xpr import lax

def same(found, expected, rtol=1e-5):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=rtol, atol=1e-6)
"""

_ORDER = """
x = np.arange(12, dtype=np.float32).reshape(3, 4)
halves = [x / 2**i for i in range(5)]

def scanned(f, start):
    return lax.scan(lambda c, _: (c * 0.5, f(c)), start, None, 5)[1]

for f, g in (
    (jnp.median, np.median),
    (lambda v: jnp.median(v, axis=0), lambda v: np.median(v, axis=0)),
    (lambda v: jnp.median(v, axis=1), lambda v: np.median(v, axis=1)),
    (lambda v: jnp.quantile(v, 0.3), lambda v: np.quantile(v, 0.3)),
    (lambda v: jnp.quantile(v, jnp.array([0.1, 0.9])), lambda v: np.quantile(v, [0.1, 0.9])),
    (lambda v: jnp.percentile(v, 30.0), lambda v: np.percentile(v, 30.0)),
    (jnp.nanmedian, np.nanmedian),
):
    same(xpr.jit(lambda v: scanned(f, v))(x), [g(h) for h in halves])
same(scanned(jnp.median, x), [np.median(h) for h in halves])
same(scanned(lambda v: jnp.percentile(v, 30.0), x.ravel()), [np.percentile(h, 30) for h in halves])
stack = np.stack([x, x + 12])
same(lax.map(jnp.median, stack), [5.5, 17.5])
same(xpr.jit(xpr.vmap(jnp.median))(stack), [5.5, 17.5])
same(xpr.jit(lambda v: lax.cond(v.sum() > 0, jnp.median, jnp.max, v))(x), 5.5)
y = x
for _ in range(3):
    y = y / (1 + np.median(y))
same(lax.fori_loop(0, 3, lambda i, v: v / (1 + jnp.median(v)), x), y)
y = x
while y.sum() > 1:
    y = y / (1.5 + np.median(y))
same(lax.while_loop(lambda v: v.sum() > 1, lambda v: v / (1.5 + jnp.median(v)), x), y)
slope = np.zeros((3, 4))
slope[1, 1:3] = 0.5 * sum(0.5**i for i in range(5))
same(xpr.grad(lambda v: scanned(jnp.median, v).sum())(x), slope)
"""

_CARRIED = """
def carried(n, m, dtype):
    return (tuple(jnp.zeros((), dtype) for _ in range(n)), tuple(jnp.zeros(1) for _ in range(m)))

loops = {
    "while": lambda t, rest: lax.while_loop(
        lambda s: s[0] < 10, lambda s: (s[1], s[1], s[2]), (t, t + 20, rest)
    ),
    "count": lambda t, rest: lax.while_loop(
        lambda s: s[0] < 10, lambda s: (s[0] + 1, s[1]), (t, rest)
    ),
    "fori": lambda t, rest: lax.fori_loop(0, 10, lambda i, s: (s[0] + 1, s[1]), (t, rest)),
    "scan": lambda t, rest: lax.scan(
        lambda s, _: ((s[0] + 1, s[1]), s[0]), (t, rest), None, 10
    )[0],
    "all": lambda t, rest: lax.while_loop(
        lambda s: s[0] < 10,
        lambda s: (s[0] + 1, xpr.tree_util.tree_map(lambda v: v + 1, s[1])),
        (t, rest),
    ),
}
for name, loop in loops.items():
    for n, m, dtype in ((40, 3, "int32"), (3, 40, "float32")):
        first, *_, rest = xpr.jit(loop)(jnp.float32(0), carried(n, m, dtype))
        same(first, 20 if name == "while" else 10)
        for v in xpr.tree_util.tree_leaves(rest):
            same(v, np.full(v.shape, 10 if name == "all" else 0))
"""

_HANDED_ON = """
@xpr.jit
def run(limit, act, flag, number, s):
    def more(s):
        return (s["t0"] < limit) & act & (s["i"] < 4096)

    def step(s):
        return {**s, "g1": s["g2"], "t0": s["t1"], "flag": flag, "c0": number}

    return lax.while_loop(more, step, s)

i, x, b = jnp.int32(0), jnp.float32(0), jnp.bool_(True)
s = dict(i=i, g1=b, g2=~b, y=jnp.zeros(2), t0=x, t1=x + 20, flag=b, k=i, m=i, a=x, b=x, c0=i,
         c1=i + 1, c2=i, c3=i, c4=i, sv=jnp.zeros(1), ys=jnp.zeros((1, 2)), idx=i)
found = run(x + 10, b, ~b, i + 7, s)
expected = {**s, "t0": 20.0, "g1": False, "flag": False, "c0": 7}
for name, value in expected.items():
    same(found[name], np.asarray(value))
"""

# Each state of a particle has rules of its own, and each rule a branch.
_BRANCHES = """
n, rules = 16, 24
rng = np.random.default_rng(3)
weights = rng.uniform(-1, 1, (rules, n)).astype(np.float32)

def step(s, when, roll, rules=rules):
    for k in range(rules):
        place, speed, heat, hits = s
        push = weights[k]

        def bounce(place=place, speed=speed, heat=heat, hits=hits, push=push):
            return place, -speed * 0.9, heat + (speed * speed).sum() * 0.1, hits + 1

        def drift(place=place, speed=speed, heat=heat, hits=hits, push=push):
            return place + speed * 0.1, speed + push * 0.1, heat * 0.9, hits

        def turn(place=place, speed=speed, heat=heat, hits=hits, push=push):
            return roll(place), speed, heat, hits

        if k % 3 == 2:
            s = when(heat > 1.0, turn, drift)
        else:
            s = when((place * push).sum() > 0, bounce, drift)
    return s

start = (
    rng.uniform(-1, 1, n).astype(np.float32),
    rng.uniform(-1, 1, n).astype(np.float32),
    np.float32(0),
    np.int32(0),
)
def in_numpy(s, rules):
    return step(s, lambda test, f, g: f() if test else g(), lambda v: np.roll(v, 1), rules)

def in_xpr(s, rules):
    return step(s, lax.cond, lambda v: jnp.roll(v, 1), rules)

def looped(s):
    return lax.fori_loop(0, 3, lambda _, s: in_xpr(s, rules // 2), s)

for a, b in zip(xpr.jit(lambda s: in_xpr(s, rules))(start), in_numpy(start, rules)):
    same(a, b, rtol=1e-4)
expected = start
for _ in range(3):
    expected = in_numpy(expected, rules // 2)
for a, b in zip(xpr.jit(looped)(start), expected):
    same(a, b, rtol=1e-4)
"""

# A loop of branches, of which one value takes another's old one, and a branch of its results.
_SEARCH = """
f32 = np.float32

def search(np, when, loop, x, d):
    def f(t):
        y = x + t * d
        return (f32(100) * (y[1:] - y[:-1] ** 2) ** 2).sum() + ((f32(1) - y[:-1]) ** 2).sum()

    def expand(s):
        t = s["high"] * f32(2)
        value = f(t)
        grown = {**s, "low": s["high"], "high": t, "least": np.minimum(value, s["least"])}
        return {**grown, "zooms": value > s["least"]}

    def zoom(s):
        t = (s["low"] + s["high"]) * f32(0.5)
        value = f(t)
        return when(
            value < s["least"],
            lambda: {**s, "high": t, "best": t, "least": value},
            lambda: {**s, "low": t},
        )

    def step(s):
        new = when(s["zooms"], lambda: zoom(s), lambda: expand(s))
        done = (new["high"] - new["low"]) < f32(1e-3)
        return {**new, "old": s["best"], "done": done, "round": s["round"] + np.int32(1)}

    zero = np.zeros((), f32)
    start = {
        **{"low": zero, "high": zero + f32(1e-3), "best": zero, "old": zero, "least": f(zero)},
        **{"zooms": np.asarray(False), "done": np.asarray(False), "round": np.int32(0)},
    }
    s = loop(lambda s: (s["round"] < 30) & ~s["done"], step, start)
    found = when(s["least"] < f(zero), lambda: (s["best"], s["old"]), lambda: (zero, zero))
    return found, s["round"]

def in_numpy(test, step, s):
    while test(s):
        s = step(s)
    return s

x = np.array([-1.2, 1.0, 0.3], f32)
d = np.array([1.0, -0.5, 0.25], f32)
for sign in (1, -1):
    found = xpr.jit(lambda x, d: search(jnp, lax.cond, lax.while_loop, x, d))(x, d * f32(sign))
    wanted = search(np, lambda test, f, g: f() if test else g(), in_numpy, x, d * f32(sign))
    for a, b in zip(xpr.tree_util.tree_leaves(found), xpr.tree_util.tree_leaves(wanted)):
        same(a, b)
"""

# A least-squares solver whose steps are solved for by a loop.
_GAUSS_NEWTON = """
def conjugate_gradients(np, loop, a, b):
    def step(s):
        i, x, r, p = s
        q = a @ p
        alpha = (r @ r) / (p @ q)
        new = r - alpha * q
        return i + 1, x + alpha * p, new, new + (new @ new) / (r @ r) * p

    start = (np.int32(0), np.zeros_like(b), b, b)
    return loop(lambda s: (s[0] < 2) & (s[2] @ s[2] > 1e-12), step, start)[1]

def residual(x):
    return jnp.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])

def solve(np, loop, residual, jacobian, x):
    def step(s):
        i, x, _, _ = s
        r, j = residual(x), jacobian(x)
        change = conjugate_gradients(np, loop, j.T @ j, -(j.T @ r))
        return i + 1, x + change, np.sqrt(change @ change), x

    start = (np.int32(0), x, np.float32(1), x)
    return loop(lambda s: (s[0] < 8) & (s[2] > 1e-5), step, start)

def in_numpy(test, step, s):
    while test(s):
        s = step(s)
    return s

x = np.array([-1.2, 1.0], np.float32)
count, found, *_ = xpr.jit(
    lambda x: solve(jnp, lax.while_loop, residual, xpr.jacfwd(residual), x)
)(x)
wanted = solve(
    np,
    in_numpy,
    lambda x: np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]),
    lambda x: np.array([[-20 * x[0], 10], [-1, 0]]),
    x.astype(np.float64),
)
same(found, wanted[1], rtol=1e-3)
same(found, [1, 1], rtol=1e-3)
assert abs(int(count) - wanted[0]) <= 1
"""

_SCRIPTS = {
    "order statistics in loops": _ORDER,
    "many carried values": _CARRIED,
    "values handed on": _HANDED_ON,
    "many branches": _BRANCHES,
    "a line search that zooms": _SEARCH,
    "a least-squares solver": _GAUSS_NEWTON,
}


@pytest.mark.parametrize("name", _SCRIPTS)
def test_programs_that_ended_the_compiler(name: str) -> None:
    assert run(_IMPORTS + _SCRIPTS[name]) == ""
