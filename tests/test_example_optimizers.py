"""Optimizers agree with their published rules, written as loops over numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.example_libraries import optimizers

RNG = np.random.default_rng(0)
START = {"b": RNG.normal(size=3), "s": 2.0, "w": RNG.normal(size=(2, 3))}
GRADS = [
    {"b": RNG.normal(size=3), "s": RNG.normal(), "w": RNG.normal(size=(2, 3))} for _ in range(6)
]


def sgd(x, grads):
    for g in grads:
        x -= 0.1 * g
    return x


def momentum(x, grads):
    v = 0.0
    for g in grads:
        v = 0.9 * v + g
        x -= 0.1 * v
    return x


def nesterov(x, grads):
    v = 0.0
    for g in grads:
        v = 0.9 * v + g
        x -= 0.1 * (g + 0.9 * v)
    return x


def adagrad(x, grads):
    total = m = 0.0
    for g in grads:
        total += g**2
        m = 0.9 * m + 0.1 * g / math.sqrt(total)
        x -= 0.1 * m
    return x


def rmsprop(x, grads):
    mean = 0.0
    for g in grads:
        mean = 0.9 * mean + 0.1 * g**2
        x -= 0.1 * g / math.sqrt(mean + 1e-8)
    return x


def rmsprop_momentum(x, grads):
    mean = m = 0.0
    for g in grads:
        mean = 0.9 * mean + 0.1 * g**2
        m = 0.9 * m + 0.1 * g / math.sqrt(mean + 1e-8)
        x -= m
    return x


def adam(x, grads):
    m = v = 0.0
    for t, g in enumerate(grads, 1):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g**2
        x -= 0.1 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return x


def adamax(x, grads):
    m = u = 0.0
    for t, g in enumerate(grads, 1):
        m = 0.9 * m + 0.1 * g
        u = max(0.999 * u, abs(g))
        x -= 0.1 / (1 - 0.9**t) * m / (u + 1e-8)
    return x


ARGUMENTS = {"momentum": (0.1, 0.9), "nesterov": (0.1, 0.9)}
RULES = (sgd, momentum, nesterov, adagrad, rmsprop, rmsprop_momentum, adam, adamax)


def run(name, start, grads):
    init, update, get_params = getattr(optimizers, name)(*ARGUMENTS.get(name, (0.1,)))
    with xpr.enable_x64(True):
        state = init(xpr.tree.map(jnp.asarray, start))
        for i, g in enumerate(grads):
            state = update(i, g, state)
        return get_params(state)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_each_number_follows_the_rule(rule):
    found = run(rule.__name__, START, GRADS)
    for name in START:
        for index in np.ndindex(np.shape(START[name])):
            gradients = [np.asarray(g[name])[index] for g in GRADS]
            wanted = rule(float(np.asarray(START[name])[index]), gradients)
            np.testing.assert_allclose(found[name][index], wanted, rtol=1e-9)


def test_sm3_keeps_bounds_for_rows_and_columns():
    """Algorithm SM3-II of the paper, entry by entry."""
    x, m = START["w"].copy(), np.zeros((2, 3))
    rows, columns = np.zeros(2), np.zeros(3)
    for grads in GRADS:
        g, new_rows, new_columns = grads["w"], np.zeros(2), np.zeros(3)
        for i in range(2):
            for j in range(3):
                nu = min(rows[i], columns[j]) + g[i, j] ** 2
                m[i, j] = 0.9 * m[i, j] + 0.1 * g[i, j] / math.sqrt(nu)
                x[i, j] -= 0.1 * m[i, j]
                new_rows[i], new_columns[j] = max(new_rows[i], nu), max(new_columns[j], nu)
        rows, columns = new_rows, new_columns
    found = run("sm3", START, GRADS)
    np.testing.assert_allclose(found["w"], x, rtol=1e-9)
    # Of vectors and numbers every entry has its own bound, which is Adagrad.
    gradients = [g["s"] for g in GRADS]
    np.testing.assert_allclose(found["s"], adagrad(START["s"], gradients), rtol=1e-9)
    gradients = [g["b"][1] for g in GRADS]
    np.testing.assert_allclose(found["b"][1], adagrad(START["b"][1], gradients), rtol=1e-9)


def test_schedules():
    steps = (0, 3, 4, 7, 15)

    def values(schedule):
        return [float(schedule(i)) for i in steps]

    assert values(optimizers.constant(0.3)) == [0.3] * 5
    np.testing.assert_allclose(
        values(optimizers.exponential_decay(2.0, 10, 0.5)), [2 * 0.5 ** (i / 10) for i in steps]
    )
    np.testing.assert_allclose(
        values(optimizers.inverse_time_decay(1.0, 10, 0.5)), [1 / (1 + i / 20) for i in steps]
    )
    np.testing.assert_allclose(
        values(optimizers.inverse_time_decay(1.0, 10, 0.5, staircase=True)),
        [1, 1, 1, 1, 1 / 1.5],
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        values(optimizers.polynomial_decay(1.0, 10, 0.1, 2.0)),
        [0.1 + 0.9 * (1 - min(i, 10) / 10) ** 2 for i in steps],
        rtol=1e-6,
    )
    steps = (0, 3, 4, 7, 8)
    np.testing.assert_allclose(
        values(optimizers.piecewise_constant([3, 7], [1.0, 0.5, 0.25])), [1, 1, 0.5, 0.5, 0.25]
    )
    schedule = optimizers.exponential_decay(1.0, 2, 0.5)
    init, update, get_params = optimizers.sgd(schedule)
    state = init(0.0)
    for i in range(3):
        state = update(i, 1.0, state)
    np.testing.assert_allclose(get_params(state), -sum(0.5 ** (i / 2) for i in range(3)), rtol=1e-6)
    assert optimizers.make_schedule(schedule) is schedule


def test_norms_and_clipping():
    tree = {"a": jnp.array([3.0]), "b": (jnp.array([[0.0, 4.0]]),)}
    np.testing.assert_allclose(optimizers.l2_norm(tree), 5.0)
    clipped = optimizers.clip_grads(tree, 2.5)
    np.testing.assert_allclose(clipped["b"][0], [[0, 2]])
    assert optimizers.clip_grads(tree, 6.0)["a"].tolist() == [3.0]


def test_states_are_trees_and_can_be_unpacked():
    init, update, get_params = optimizers.adam(0.1)
    state = init(START)
    assert get_params(state)["s"] == 2.0
    assert len(xpr.tree.leaves(state)) == 9
    marked = optimizers.unpack_optimizer_state(state)
    assert isinstance(marked["b"], optimizers.JoinPoint)
    again = optimizers.pack_optimizer_state(marked)
    assert xpr.tree.structure(again) == xpr.tree.structure(state)
    assert isinstance(again, optimizers.OptimizerState)
    same = update(0, GRADS[0], again)
    np.testing.assert_array_equal(
        get_params(same)["w"], get_params(update(0, GRADS[0], state))["w"]
    )


def test_errors_say_what_is_wrong():
    init, update, _ = optimizers.sgd(0.1)
    with pytest.raises(TypeError, match=r"gradient tree that did not match .*and grad tree"):
        update(0, {"b": 1.0}, init(START))

    @optimizers.optimizer
    def forgets():
        return lambda x: (x, x), lambda i, g, s: s[0], lambda s: s[0]

    init, update, _ = forgets()
    with pytest.raises(TypeError, match="did not match its input structure"):
        update(0, 1.0, init(1.0))
    with pytest.raises(ValueError, match=r"one shorter than values length, got 2 and 2"):
        optimizers.piecewise_constant([3, 7], [1.0, 0.5])
    with pytest.raises(TypeError, match=r"a number or a function of the step.*\(2,\)"):
        optimizers.sgd(jnp.ones(2))
    with pytest.raises(TypeError, match="tree of JoinPoints, found 1"):
        optimizers.pack_optimizer_state([1])
