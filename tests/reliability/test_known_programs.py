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

_SCRIPTS = {
    "order statistics in loops": _ORDER,
    "many carried values": _CARRIED,
    "values handed on": _HANDED_ON,
    "many branches": _BRANCHES,
}


@pytest.mark.parametrize("name", _SCRIPTS)
def test_programs_that_ended_the_compiler(name: str) -> None:
    assert run(_IMPORTS + _SCRIPTS[name]) == ""
