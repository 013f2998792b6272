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


def rosenbrock(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def searched():
    """L-BFGS whose line search runs outside of any compiled step."""
    point = jnp.array([-1.0, 1.5, 0.5, 2.0])
    optimizer = optax.lbfgs()
    value, slope = jax.value_and_grad(rosenbrock)(point)
    updates, _ = optimizer.update(
        slope, optimizer.init(point), point, value=value, grad=slope, value_fn=rosenbrock
    )
    return optax.apply_updates(point, updates)


def accumulated():
    """Low-rank projections of gradients, of which four are one step."""
    optimizer = optax.MultiSteps(optax.contrib.galore(1e-2, rank=8), 4)
    params = {"w": jax.random.normal(jax.random.key(1), (16, 12)), "b": jnp.zeros(12)}
    batch = jax.random.normal(jax.random.key(2), (8, 16))

    def loss(params, batch):
        found = jnp.tanh(batch @ params["w"] + params["b"])
        return jnp.mean((found - jnp.sin(batch[:, :12])) ** 2)

    @jax.jit
    def step(params, state, batch):
        value, grads = jax.value_and_grad(loss)(params, batch)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    state, values = optimizer.init(params), []
    for i in range(9):
        params, state, value = step(params, state, batch * (1 + 0.1 * i))
        values.append(value)
    return values


costs = jax.random.uniform(jax.random.key(3), (3, 4, 6))
assigned = jax.vmap(optax.assignment.base_hungarian_algorithm)
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
    searched(),
    *accumulated(),
    assigned(jnp.ones((2, 1, 1))),
    assigned(costs),
]
