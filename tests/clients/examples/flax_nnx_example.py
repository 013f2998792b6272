"""flax.nnx: networks that are trained as objects, and taken apart into graphs and states."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

images = jax.random.normal(jax.random.key(1), (16, 8, 8, 1))
labels = jnp.arange(16) % 3


class Network(nnx.Module):
    def __init__(self, classes, *, rngs):
        self.convolution = nnx.Conv(1, 4, (3, 3), use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.first = nnx.Linear(64, 16, rngs=rngs)
        self.dropout = nnx.Dropout(0.25, rngs=rngs)
        self.last = nnx.Linear(16, classes, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.norm(self.convolution(x)))
        x = nnx.max_pool(x, (2, 2), strides=(2, 2))
        x = nnx.gelu(self.first(x.reshape(x.shape[0], -1)))
        return self.last(self.dropout(x))


def loss_of(model, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()


@nnx.jit
def step(model, optimizer, metrics, x, y):
    loss, grads = nnx.value_and_grad(loss_of)(model, x, y)
    optimizer.update(model, grads)
    metrics.update(loss=loss)
    return loss


def trained():
    model = Network(3, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adamw(1e-2), wrt=nnx.Param)
    metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"))
    model.train()
    losses = [step(model, optimizer, metrics, images, labels) for _ in range(12)]
    model.eval()
    graph, params, others = nnx.split(model, nnx.Param, ...)
    again = nnx.merge(graph, params, others)
    return [losses, metrics.compute(), again(images), nnx.state(model, nnx.BatchStat)]


class Counted(nnx.Module):
    def __init__(self, rngs):
        self.weight = nnx.Param(jax.random.normal(rngs.params(), (4, 4)))
        self.calls = nnx.Variable(jnp.array(0))

    def __call__(self, x):
        self.calls[...] += 1
        return jnp.tanh(x @ self.weight)


def transformed():
    """Modules under vmap, scan, remat and cond, with state that changes inside of them."""
    x = jax.random.normal(jax.random.key(3), (3, 4))

    @nnx.split_rngs(splits=3)
    @nnx.vmap
    def create(rngs):
        return Counted(rngs)

    many = create(nnx.Rngs(5))

    @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
    def deep(layer, x):
        return layer(x)

    scanned = nnx.jit(deep)(many, x)
    mapped = nnx.vmap(lambda layer, x: layer(x))(many, x)
    one = Counted(nnx.Rngs(6))
    recomputed = nnx.grad(lambda m: jnp.sum(nnx.remat(lambda m: m(x))(m)))(one)
    branch = nnx.cond(
        jnp.array(True), lambda m, x: m(x), lambda m, x: m(x) * 2.0, Counted(nnx.Rngs(7)), x
    )
    cell = nnx.RNN(nnx.GRUCell(4, 5, rngs=nnx.Rngs(8)))
    attention = nnx.MultiHeadAttention(2, 4, rngs=nnx.Rngs(9), decode=False)
    return [
        scanned,
        mapped,
        many.calls[...],
        recomputed,
        branch,
        cell(x[None]),
        attention(x[None]),
    ]


results = jax.tree.map(jnp.asarray, [trained(), transformed()])
