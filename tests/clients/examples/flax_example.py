"""flax.linen: a convolutional network with batch norm and dropout, a recurrent one, attention."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization, struct
from flax.training import train_state

images = jax.random.normal(jax.random.key(1), (16, 8, 8, 1))
labels = jnp.arange(16) % 3


class Network(nn.Module):
    classes: int

    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(4, (3, 3), use_bias=False)(x)
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        x = nn.max_pool(nn.relu(x), (2, 2), strides=(2, 2))
        x = nn.Dense(16)(x.reshape(x.shape[0], -1))
        x = nn.Dropout(0.25, deterministic=not train)(nn.gelu(x))
        return nn.Dense(self.classes)(nn.LayerNorm()(x))


class State(train_state.TrainState):
    batch_stats: dict = struct.field(default_factory=dict)


def trained():
    network = Network(3)
    variables = network.init(jax.random.key(0), images, train=False)
    state = State.create(
        apply_fn=network.apply,
        params=variables["params"],
        tx=optax.adamw(1e-2),
        batch_stats=variables["batch_stats"],
    )

    @jax.jit
    def step(state, key):
        def loss_of(params):
            logits, new = state.apply_fn(
                {"params": params, "batch_stats": state.batch_stats},
                images,
                train=True,
                mutable=["batch_stats"],
                rngs={"dropout": key},
            )
            loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
            return loss, new

        (loss, new), grads = jax.value_and_grad(loss_of, has_aux=True)(state.params)
        return state.apply_gradients(grads=grads, batch_stats=new["batch_stats"]), loss

    losses = []
    for key in jax.random.split(jax.random.key(2), 12):
        state, loss = step(state, key)
        losses.append(loss)
    restored = serialization.from_bytes(state.params, serialization.to_bytes(state.params))
    logits = network.apply(
        {"params": restored, "batch_stats": state.batch_stats}, images, train=False
    )
    return [losses, logits]


def layers():
    """A recurrent network, attention, layers that are scanned, vectorised and recomputed."""
    words = jax.random.normal(jax.random.key(3), (2, 5, 8))
    recurrent = nn.RNN(nn.LSTMCell(6))
    attention = nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=8)

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            return x + nn.remat(nn.Dense)(8)(jnp.tanh(x)), None

    deep = nn.scan(Block, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)()
    many = nn.vmap(
        nn.Dense, in_axes=0, out_axes=0, variable_axes={"params": 0}, split_rngs={"params": True}
    )(3)
    embed = nn.Embed(11, 4)
    found = []
    for module, args in (
        (recurrent, (words,)),
        (attention, (words, words)),
        (deep, (words, None)),
        (many, (words,)),
        (embed, (jnp.arange(6),)),
    ):
        variables = module.init(jax.random.key(4), *args)

        def value(variables, module=module, args=args):
            return jax.tree.leaves(module.apply(variables, *args))[0]

        found.append(jax.jit(value)(variables))
        found.append(jax.jit(jax.grad(lambda v, value=value: jnp.sum(value(v) ** 2)))(variables))
    return found


results = [trained(), layers()]
