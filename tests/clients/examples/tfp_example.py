"""TensorFlow Probability on JAX: distributions, bijectors, Hamiltonian Monte Carlo, optimizers."""

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp

tfd, tfb = tfp.distributions, tfp.bijectors
key = jax.random.PRNGKey(0)


def distributions():
    x = jnp.array([0.2, 0.5, 0.9])
    joint = tfd.JointDistributionSequential(
        [tfd.Normal(0.0, 1.0), lambda loc: tfd.Independent(tfd.Normal(loc * jnp.ones(3), 2.0), 1)]
    )
    values = joint.sample(seed=key)
    process = tfd.GaussianProcess(
        tfp.math.psd_kernels.ExponentiatedQuadratic(1.0, 0.5), x[:, None], jitter=1e-3
    )
    return [
        tfd.Beta(2.0, 3.0).log_prob(x),
        tfd.Gamma(2.0, 1.5).cdf(x),
        tfd.VonMises(0.1, 2.0).log_prob(x),
        tfd.Dirichlet(jnp.array([1.0, 2.0, 3.0])).log_prob(x / x.sum()),
        tfd.WishartTriL(4.0, jnp.eye(2)).log_prob(jnp.array([[2.0, 0.3], [0.3, 1.0]])),
        tfd.kl_divergence(tfd.Normal(0.0, 1.0), tfd.Normal(1.0, 2.0)),
        values,
        joint.log_prob(values),
        process.log_prob(jnp.sin(x)),
        jax.grad(lambda a: tfd.StudentT(a, 0.0, 1.0).log_prob(2.0))(3.0),
    ]


def bijectors():
    chain = tfb.Chain([tfb.Softplus(), tfb.Shift(0.5), tfb.Scale(2.0)])
    spline = tfb.RationalQuadraticSpline(
        bin_widths=jnp.array([0.5, 1.0, 0.5]),
        bin_heights=jnp.array([0.8, 0.7, 0.5]),
        knot_slopes=jnp.array([1.5, 0.7]),
        range_min=-1.0,
    )
    x = jnp.array([-0.7, 0.1, 0.6])
    return [
        chain.forward(x),
        chain.inverse_log_det_jacobian(chain.forward(x)),
        spline.forward(x),
        tfb.FillScaleTriL().forward(x),
        tfb.CorrelationCholesky().forward_log_det_jacobian(x),
    ]


def density(x):
    return tfd.MultivariateNormalTriL(
        jnp.array([1.0, -1.0]), jnp.array([[1.0, 0.0], [0.6, 0.8]])
    ).log_prob(x)


@jax.jit
def chain(key):
    kernel = tfp.mcmc.HamiltonianMonteCarlo(density, step_size=0.3, num_leapfrog_steps=5)
    return tfp.mcmc.sample_chain(
        2000,
        current_state=jnp.zeros(2),
        kernel=kernel,
        num_burnin_steps=200,
        trace_fn=lambda _, state: state.is_accepted,
        seed=key,
    )


def minimized():
    found = jax.jit(
        lambda x: tfp.optimizer.bfgs_minimize(
            jax.value_and_grad(lambda x: jnp.sum((1 - x) ** 2) + 5 * (x[1] - x[0] ** 2) ** 2),
            x,
            tolerance=1e-4,
        )
    )(jnp.array([-0.5, 1.5]))
    return [found.converged, found.position]


states, accepted = chain(key)
results = [distributions(), bijectors(), minimized()]
coarse = [states.mean(0), jnp.cov(states.T), accepted.mean()]
