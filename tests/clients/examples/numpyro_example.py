"""numpyro: NUTS, variational inference, log densities of a model."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import log_density

X = jnp.linspace(-1.0, 1.0, 20)
Y = 2.0 * X - 0.5 + 0.1 * jnp.sin(7 * X)


def model(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    offset = numpyro.sample("offset", dist.Normal(0.0, 2.0))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("points", x.shape[0]):
        numpyro.sample("y", dist.Normal(slope * x + offset, scale), obs=y)


def make():
    values = {"slope": jnp.array(1.5), "offset": jnp.array(-0.2), "scale": jnp.array(0.3)}

    def density(v):
        return log_density(model, (X, Y), {}, v)[0]

    value, gradient = jax.value_and_grad(density)(values)
    guide = AutoNormal(model)
    svi = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
    found = svi.run(jax.random.PRNGKey(1), 200, X, Y, progress_bar=False)
    draws = dist.Dirichlet(jnp.ones(3)).sample(jax.random.PRNGKey(2), (4,))
    mixture = dist.MixtureSameFamily(
        dist.Categorical(jnp.array([0.3, 0.7])), dist.Normal(jnp.array([-1.0, 1.0]), 0.5)
    )
    return [
        value,
        *jax.tree.leaves(gradient),
        found.losses[::40],
        draws,
        mixture.log_prob(jnp.linspace(-2.0, 2.0, 5)),
        dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2) + 0.5).log_prob(jnp.ones(2)),
    ]


def chains():
    mcmc = MCMC(NUTS(model), num_warmup=200, num_samples=300, progress_bar=False)
    mcmc.run(jax.random.PRNGKey(0), X, Y)
    samples = mcmc.get_samples()
    return [samples["slope"].mean(), samples["offset"].mean(), samples["scale"].mean()]


results = make()
coarse = chains()
