"""einops: rearranging, reducing, repeating, packing, products, under jit and grad."""

import jax
import jax.numpy as jnp
from einops import einsum, pack, rearrange, reduce, repeat, unpack

x = jax.random.normal(jax.random.key(0), (2, 4, 6, 3))


@jax.jit
def patches(x):
    return rearrange(x, "b (h p) (w q) c -> b (h w) (p q c)", p=2, q=3)


packed, shapes = pack([x[0], x[1, 0]], "* c")
results = [
    patches(x),
    jax.grad(lambda x: jnp.sum(reduce(x, "b h w c -> b c", "max") ** 2))(x),
    jax.jit(lambda x: reduce(x, "b (h 2) w c -> h c", "mean"))(x),
    repeat(x[0, 0], "w c -> w (2 c)"),
    packed,
    *unpack(packed * 2, shapes, "* c"),
    jax.vmap(lambda a: einsum(a, a, "h w c, h w d -> c d"))(x),
]
