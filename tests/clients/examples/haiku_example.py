"""haiku: a network with batch norm, a recurrent one with a lifted loop, state, attention."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax

images = jax.random.normal(jax.random.key(1), (16, 8, 8, 1))
labels = jnp.arange(16) % 3


def network(x, train):
    x = hk.Conv2D(4, 3, with_bias=False)(x)
    x = hk.BatchNorm(True, True, 0.9)(x, train)
    x = hk.MaxPool(2, 2, "SAME")(jax.nn.relu(x))
    x = hk.Linear(16)(hk.Flatten()(x))
    x = jax.nn.gelu(x)
    if train:
        x = hk.dropout(hk.next_rng_key(), 0.25, x)
    return hk.Linear(3)(hk.LayerNorm(-1, True, True)(x))


def trained():
    model = hk.transform_with_state(network)
    params, state = model.init(jax.random.key(0), images, True)
    optimizer = optax.adamw(1e-2)

    @jax.jit
    def step(params, state, opt_state, key):
        def loss_of(params):
            logits, new = model.apply(params, state, key, images, True)
            loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
            return loss, new

        (loss, state_), grads = jax.value_and_grad(loss_of, has_aux=True)(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), state_, opt_state, loss

    opt_state, losses = optimizer.init(params), []
    for key in jax.random.split(jax.random.key(2), 12):
        params, state, opt_state, loss = step(params, state, opt_state, key)
        losses.append(loss)
    logits, _ = model.apply(params, state, None, images, False)
    return [losses, logits, state]


def sequences(words):
    core = hk.LSTM(6)
    outputs, state = hk.dynamic_unroll(core, words, core.initial_state(words.shape[1]))
    attention = hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling(1.0))
    attended = attention(outputs, outputs, outputs)
    summed = hk.Linear(4)
    summed(words[0])
    running = hk.scan(lambda c, x: (c + summed(x).sum(), c), jnp.zeros(()), words)
    deep = hk.experimental.layer_stack(3)(lambda x: jnp.tanh(hk.Linear(8)(x)))(words)
    many = hk.vmap(hk.Linear(3), split_rng=False)(words)
    embedded = hk.Embed(11, 4)(jnp.arange(6))
    return outputs, state.hidden, attended, running[1], deep, many, embedded


def other_layers():
    words = jax.random.normal(jax.random.key(3), (5, 2, 8))
    model = hk.without_apply_rng(hk.transform(sequences))
    params = model.init(jax.random.key(4), words)
    slopes = jax.grad(lambda p: sum(jnp.sum(r**2) for r in model.apply(p, words)))(params)
    return [jax.jit(model.apply)(params, words), hk.data_structures.tree_size(params), slopes]


results = [trained(), other_layers()]
