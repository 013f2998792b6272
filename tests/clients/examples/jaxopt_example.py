import jax
import jax.numpy as jnp
import jaxopt

x = jax.random.normal(jax.random.PRNGKey(0), (30, 4))
y = x @ jnp.array([1.0, -2.0, 0.0, 0.5])


def loss(w, l2):
    return jnp.mean((x @ w - y) ** 2) + l2 * jnp.sum(w**2)


w = jaxopt.LBFGS(loss, maxiter=50).run(jnp.zeros(4), 0.1).params
lasso = (
    jaxopt.ProximalGradient(
        lambda w: 0.5 * jnp.mean((x @ w - y) ** 2), jaxopt.prox.prox_lasso, maxiter=200
    )
    .run(jnp.zeros(4), 0.1)
    .params
)
slope = jax.grad(
    lambda l2: jnp.sum(jaxopt.GradientDescent(loss, maxiter=200).run(jnp.zeros(4), l2).params)
)(0.1)
root = jaxopt.Bisection(lambda t: t**3 - t - 2, lower=1.0, upper=2.0, tol=1e-6).run().params
results = [w, lasso, slope, root]
