"""blackjax: a step of NUTS, HMC and Langevin dynamics, and chains as one program each."""

import blackjax
import jax
import jax.numpy as jnp

X = jnp.linspace(-1.0, 1.0, 20)
Y = 2.0 * X - 0.5 + 0.1 * jnp.sin(7 * X)


def density(position):
    scale = jnp.exp(position["log_scale"])
    residual = (Y - position["slope"] * X - position["offset"]) / scale
    prior = sum(jnp.sum(v**2) for v in position.values()) / 8
    return -0.5 * jnp.sum(residual**2) - 20 * position["log_scale"] - prior


start = {"slope": jnp.array(1.0), "offset": jnp.array(0.0), "log_scale": jnp.array(-1.0)}


def steps(kernel, key, count):
    """The states of a chain, in a loop that is compiled as one program."""

    @jax.jit
    def run(key):
        def one(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info.acceptance_rate)

        return jax.lax.scan(one, kernel.init(start), jax.random.split(key, count))

    return run(key)[1]


def single():
    """One step of each kernel from the same state, which is deterministic."""
    mass = jnp.ones(3)
    kernels = [
        blackjax.nuts(density, 0.05, mass),
        blackjax.hmc(density, 0.05, mass, 8),
        blackjax.mala(density, 1e-3),
    ]
    found = []
    for kernel in kernels:
        state, info = jax.jit(kernel.step)(jax.random.key(1), kernel.init(start))
        found.append([state.position, state.logdensity, info.acceptance_rate])
    return found


def adapted(key):
    """The step size and mass matrix that warm-up finds for NUTS, by loops in loops."""
    found = blackjax.window_adaptation(blackjax.nuts, density).run(key, start, num_steps=60)
    return [found[0].parameters["step_size"], found[0].parameters["inverse_mass_matrix"]]


walked, rates = steps(blackjax.hmc(density, 0.03, jnp.ones(3), 5), jax.random.key(4), 400)
turned, _ = steps(blackjax.nuts(density, 0.05, jnp.ones(3)), jax.random.key(0), 20)
results = [single(), turned]
coarse = [jax.tree.map(jnp.mean, walked), jnp.mean(rates), adapted(jax.random.key(3))]
