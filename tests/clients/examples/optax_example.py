import jax
import jax.numpy as jnp
import optax

x = jax.random.normal(jax.random.key(0), (32, 3))
y = jnp.tanh(x @ jnp.array([1.0, -1.0, 0.5]))


def loss(params):
    return jnp.mean((jnp.tanh(x @ params["w"] + params["b"]) - y) ** 2)


def train(optimizer, steps):
    params = {"w": jnp.zeros(3), "b": jnp.zeros(())}

    @jax.jit
    def run(params):
        def step(carry, _):
            params, state = carry
            value, grads = jax.value_and_grad(loss)(params)
            updates, state = optimizer.update(
                grads, state, params, value=value, grad=grads, value_fn=loss
            )
            return (optax.apply_updates(params, updates), state), value

        return jax.lax.scan(step, (params, optimizer.init(params)), None, length=steps)

    (params, _), values = run(params)
    return [params["w"], params["b"], values]


schedule = optax.warmup_cosine_decay_schedule(0.0, 0.1, 5, 30)
clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-3))
plain = [
    optax.sgd(0.3, momentum=0.9),
    optax.adam(0.1),
    clipped,
    optax.lion(0.01),
    optax.rmsprop(0.05),
]
results = [
    *(r for o in plain for r in train(optax.with_extra_args_support(o), 30)),
    *train(optax.lbfgs(), 8),
    optax.softmax_cross_entropy_with_integer_labels(x, jnp.arange(32) % 3),
    optax.ctc_loss(x[None], jnp.zeros((1, 32)), jnp.array([[1, 2, 1]]), jnp.zeros((1, 3))),
]
