import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax

x = jr.normal(jr.key(1), (64, 2))
y = jnp.sin(x[:, :1]) * x[:, 1:]
model = eqx.nn.MLP(2, 1, 16, 2, key=jr.key(0))
optimizer = optax.adam(1e-2)


@eqx.filter_value_and_grad
def loss_of(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@eqx.filter_jit
def step(model, state, x, y):
    loss, grads = loss_of(model, x, y)
    updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), state, loss


state = optimizer.init(eqx.filter(model, eqx.is_array))
losses = []
for _ in range(40):
    model, state, loss = step(model, state, x, y)
    losses.append(loss)

image = jr.normal(jr.key(2), (3, 8, 8))
network = eqx.nn.Sequential(
    [
        eqx.nn.Conv2d(3, 4, 3, key=jr.key(3)),
        eqx.nn.LayerNorm((4, 6, 6)),
        eqx.nn.Lambda(jax.nn.gelu),
        eqx.nn.MaxPool2d(2, 2),
    ]
)
cell = eqx.nn.GRUCell(2, 5, key=jr.key(4))
attention = eqx.nn.MultiheadAttention(2, 4, key=jr.key(5))
carried, _ = jax.lax.scan(lambda h, v: (cell(v, h), None), jnp.zeros(5), x)
while_loop = eqx.internal.while_loop(
    lambda c: c[0] < 5,
    lambda c: (c[0] + 1, c[1] * 1.5),
    (0, jnp.array(1.0)),
    kind="checkpointed",
    max_steps=8,
)
results = [
    *losses,
    model.layers[0].weight,
    eqx.filter_jit(network)(image),
    carried,
    attention(x[:4, :4].repeat(2, 1), x[:4].repeat(2, 1), x[:4].repeat(2, 1)),
    while_loop[1],
]
