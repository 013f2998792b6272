"""jaxtyping: shapes and dtypes checked when a function runs and when it is traced."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree, Shaped, jaxtyped


def is_of(kind, value):
    with jaxtyped("context"):
        return isinstance(value, kind)


checks = [
    (Float[Array, "a b"], jnp.ones((2, 3))),
    (Float[Array, "a a"], jnp.ones((2, 3))),
    (Int[Array, "3"], jnp.arange(3)),
    (Int[Array, "3"], jnp.arange(3.0)),
    (Float[Array, "*batch 3"], jnp.ones((5, 4, 3))),
    (Float[Array, "#n 3"], jnp.ones((1, 3))),
    (Shaped[Array, "..."], jnp.array(True)),
    (Key[Array, ""], jax.random.key(0)),
    (Key[Array, "2"], jax.random.split(jax.random.key(0))),
    (Key[Array, ""], jax.random.PRNGKey(0)),
    (PRNGKeyArray, jax.random.key(0)),
    (PRNGKeyArray, jax.random.PRNGKey(0)),
    (PyTree[Float[Array, ""]], {"a": jnp.array(1.0), "b": [jnp.array(2.0)]}),
    (PyTree[Float[Array, ""]], {"a": jnp.array(1)}),
]
found = [is_of(kind, value) for kind, value in checks]
traced = []


@jax.jit
def product(x, y):
    traced.append((is_of(Float[Array, "n m"], x), is_of(Float[Array, "m"], y)))
    return x @ y


results = [found, product(jnp.ones((2, 3)), jnp.arange(3.0)), traced]
