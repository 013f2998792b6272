import jax
import jax.numpy as jnp
import optimistix as optx


def residuals(x, scale):
    return jnp.array([scale * (x[1] - x[0] ** 2), 1 - x[0]])


start = jnp.array([-1.2, 1.0])
fit = optx.least_squares(
    residuals, optx.LevenbergMarquardt(rtol=1e-6, atol=1e-6), start, args=10.0, max_steps=256
)
least = optx.minimise(
    lambda x, s: jnp.sum(residuals(x, s) ** 2),
    optx.BFGS(rtol=1e-5, atol=1e-5),
    start,
    args=1.0,
    max_steps=512,
)
root = optx.root_find(
    lambda y, a: y - jnp.tanh(y + a), optx.Newton(rtol=1e-6, atol=1e-6), jnp.array(0.5), args=1.0
)
slope = jax.jit(
    jax.grad(
        lambda a: (
            optx.fixed_point(
                lambda y, a: jnp.cos(a * y),
                optx.FixedPointIteration(rtol=1e-6, atol=1e-6),
                jnp.array(0.5),
                args=a,
            ).value
        )
    )
)(0.9)
results = [fit.value, least.value, root.value, slope]
