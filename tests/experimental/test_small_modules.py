"""experimental.random, pjit and xla_metadata against what JAX 0.10.2 gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.experimental import random
from xpr.experimental.pjit import pjit
from xpr.experimental.xla_metadata import set_xla_metadata


def test_draws_are_those_of_jax() -> None:
    rng = random.stateful_rng(42)
    drawn = [rng.uniform(), rng.uniform(), *(f() for f in [xpr.jit(rng.uniform)] * 2)]
    np.testing.assert_allclose(drawn, [0.5302608, 0.72766423, 0.6672406, 0.3890121], rtol=1e-6)
    rows = [[2954079971, 3276725750], [2765691542, 824333390]]
    assert [xpr.random.key_data(rng.key()).tolist() for _ in rows] == rows
    children = random.stateful_rng(123).spawn(2)
    assert [r.integers(0, 10, 2).tolist() for r in children] == [[4, 5], [2, 1]]


def test_draws_of_a_batch() -> None:
    def f(rng: Any, x: Any) -> Any:
        return x + rng.uniform()

    split = random.stateful_rng(123).split(3)
    found = xpr.vmap(f)(split, jnp.zeros(3))
    np.testing.assert_allclose(found, [0.35525954, 0.21937883, 0.5336956], rtol=1e-6)
    with pytest.raises(ValueError, match="cannot operate on split stateful generator"):
        split.key()


def test_draws_are_those_of_their_keys() -> None:
    """Draw number `i` is that of the key with `i` folded in, also in loops and as an argument."""
    rng, key = random.stateful_rng(7), xpr.random.key(7)
    keys = [xpr.random.fold_in(key, i) for i in range(8)]
    np.testing.assert_array_equal(rng.random((2, 3)), xpr.random.uniform(keys[0], (2, 3)))
    normal = rng.normal(jnp.array([1.0, 2.0]), 3.0)
    expected = np.array([1, 2]) + 3 * np.asarray(xpr.random.normal(keys[1], (2,)))
    np.testing.assert_allclose(normal, expected, rtol=1e-6)
    assert rng.integers(5, size=4).tolist() == xpr.random.randint(keys[2], (4,), 0, 5).tolist()
    looped = xpr.jit(lambda r: xpr.lax.map(lambda _: r.uniform(), jnp.arange(3)))(rng)
    np.testing.assert_allclose(looped, [xpr.random.uniform(k) for k in keys[3:6]], rtol=1e-6)
    assert int(rng._counter[...]) == 6
    assert "_counter=Ref(6" in repr(rng)


def test_generators_need_a_seed_in_programs() -> None:
    assert random.stateful_rng().uniform().shape == ()
    with pytest.raises(TypeError, match="requires an explicit seed"):
        xpr.jit(lambda: random.stateful_rng().uniform())()
    made = xpr.jit(lambda seed: random.stateful_rng(seed).uniform())(42)
    np.testing.assert_allclose(made, 0.5302608, rtol=1e-6)
    with pytest.raises(ValueError, match="Expected base_key to be a typed PRNG key"):
        random.StatefulPRNG(jnp.zeros(2), xpr.new_ref(0))


def test_metadata_has_no_effect() -> None:
    with set_xla_metadata(a="b", n=1):
        assert float(xpr.jit(lambda x: x + 1)(2.0)) == 3
    assert float(set_xla_metadata(a="b")(lambda x: x + 1)(2.0)) == 3
    assert float(xpr.grad(lambda x: set_xla_metadata(x * x, a="b"))(2.0)) == 4
    one, two = set_xla_metadata((jnp.ones(2), 1), a="b")
    assert (one.tolist(), type(two) is type(one)) == ([1, 1], True)
    with pytest.raises(TypeError, match="unhashable type"):
        set_xla_metadata(1.0, a=[1])
    with pytest.raises(TypeError, match="xla_metadata_value as a JAX value"):
        set_xla_metadata("q", a=1)


def test_pjit_is_jit() -> None:
    assert pjit is xpr.jit
