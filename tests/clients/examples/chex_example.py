"""chex: assertions, dataclasses, variants of a function, fake transformations."""

import chex
import jax
import jax.numpy as jnp
import numpy as np


@chex.dataclass(frozen=True)
class State:
    position: chex.Array
    speed: chex.Array


def make():
    state = State(position=jnp.arange(3.0), speed=jnp.ones(3))
    moved = jax.jit(lambda s: s.replace(position=s.position + s.speed))(state)
    chex.assert_tree_all_finite(moved)
    chex.assert_shape(moved.position, (3,))
    chex.assert_type(moved.position, float)
    chex.assert_equal_shape([state.position, state.speed])
    chex.assert_trees_all_close(moved, State(position=jnp.arange(1.0, 4.0), speed=jnp.ones(3)))
    chex.assert_numerical_grads(lambda x: jnp.sum(jnp.sin(x)), (np.ones(2, np.float32),), order=1)
    failed = 0
    for check in (
        lambda: chex.assert_shape(moved.position, (4,)),
        lambda: chex.assert_rank(moved.position, 2),
        lambda: chex.assert_trees_all_equal(state, moved),
        lambda: chex.assert_tree_all_finite(jnp.array([jnp.nan])),
    ):
        try:
            check()
        except AssertionError:
            failed += 1
    with chex.fake_jit():
        plain = jax.jit(lambda x: x + 1)(jnp.ones(2))
    try:
        with chex.restrict_backends(allowed=["tpu"]):
            jax.jit(lambda x: jnp.cos(x) * 3.25 + 17.0)(jnp.ones(7)).block_until_ready()
        stopped = 0
    except Exception:
        stopped = 1
    counted = jax.jit(chex.assert_max_traces(lambda x: x * 2, n=1))
    return [moved.position, failed, plain, stopped, counted(jnp.ones(2))]


results = make()
