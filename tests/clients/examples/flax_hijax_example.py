"""flax.nnx with `hijax` variables, which compiled functions take and change themselves."""

import jax
import jax.numpy as jnp
from flax import nnx

x = jnp.arange(8.0).reshape(4, 2) / 8

with nnx.var_defaults(hijax=True):
    network = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    last = nnx.Linear(3, 1, rngs=nnx.Rngs(1))
    noise = nnx.Rngs(2)

count = nnx.Variable(jnp.zeros(()), hijax=True)


@jax.jit
def step(layers):
    graph, params = nnx.split(layers)

    def loss_of(params):
        first, second = nnx.merge(graph, params)
        return jnp.mean((second(jnp.tanh(first(x))) - 1) ** 2)

    arrays = nnx.with_vars(params, hijax=False)
    loss, grads = jax.value_and_grad(loss_of)(arrays)
    nnx.update(layers, jax.tree.map(lambda p, g: p - 0.1 * g, arrays, grads))
    # A variable that the function closes over.
    count[...] = count[...] + 1
    return loss


def trained():
    layers = nnx.List([network, last])
    losses = [step(layers) for _ in range(5)]
    return [losses, count[...], network.kernel[...], last.bias[...]]


@jax.jit
def drawn(rngs):
    return rngs.normal((3,))


@jax.jit
def scanned(total, xs):
    def body(carry, x):
        total[...] = total[...] + x
        return carry, total[...]

    return jax.lax.scan(body, 0.0, xs)[1]


@jax.jit
def chosen(v, more):
    def add():
        v[...] = v[...] + 1

    def double():
        v[...] = v[...] * 2

    jax.lax.cond(more, add, double)


@jax.jit
def grown(v):
    v.set_value({"sum": jnp.sum(x), "rows": x})


def variables():
    total = nnx.Variable(jnp.zeros(()), hijax=True)
    sums = scanned(total, jnp.arange(4.0))
    for more in (True, True, False):
        chosen(total, more)
    structured = nnx.Variable(None, hijax=True)
    grown(structured)
    weight = nnx.Param(jnp.arange(3.0), hijax=True)
    slope = jax.grad(lambda y: jnp.sum(jnp.sin(weight[...] * y)))(jnp.ones(3))
    mapped = jax.vmap(lambda y: weight[...] * y)(jnp.arange(2.0))
    ahead = step_of(weight)
    return [sums, total[...], structured.get_value(), slope, mapped, ahead, weight[...]]


def step_of(weight):
    def double(v):
        v[...] = v[...] * 2
        return v[...].sum()

    return jax.jit(double).lower(weight).compile()(weight)


results = [trained(), drawn(noise), drawn(noise), variables()]
