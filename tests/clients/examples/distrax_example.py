"""distrax: distributions, bijectors, their use in a normalising flow, a hidden Markov model."""

import distrax
import jax
import jax.numpy as jnp
import optax
from tensorflow_probability.substrates import jax as tfp

key = jax.random.key(0)
mixture = distrax.MixtureSameFamily(
    distrax.Categorical(logits=jnp.array([0.3, -0.2])),
    distrax.Normal(jnp.array([-1.0, 1.0]), jnp.array([0.5, 0.7])),
)
flow = distrax.Transformed(
    distrax.MultivariateNormalDiag(jnp.zeros(3), jnp.ones(3)),
    distrax.Chain(
        [distrax.Block(distrax.Tanh(), 1), distrax.DiagLinear(jnp.array([0.5, 1.0, 2.0]))]
    ),
)


def distributions():
    """Samples, densities, entropies, divergences."""
    normal = distrax.Normal(0.0, jnp.array([1.0, 2.0]))
    categorical = distrax.Categorical(probs=jnp.array([0.2, 0.5, 0.3]))
    samples, log_probs = flow.sample_and_log_prob(seed=key, sample_shape=(4,))
    return [
        normal.sample(seed=key, sample_shape=(3,)),
        normal.log_prob(jnp.array([0.5, -0.5])),
        normal.entropy(),
        normal.kl_divergence(distrax.Normal(1.0, 1.0)),
        categorical.sample(seed=key, sample_shape=(6,)),
        categorical.log_prob(jnp.arange(3)),
        mixture.log_prob(jnp.linspace(-2.0, 2.0, 5)),
        distrax.Gamma(2.0, 1.5).log_prob(jnp.array([0.5, 2.0])),
        distrax.Bernoulli(logits=0.3).entropy(),
        distrax.Beta(2.0, 3.0).mean(),
        samples,
        log_probs,
        jax.jit(jax.vmap(flow.log_prob))(0.5 * jnp.tanh(samples)),
    ]


def coupling(x):
    """A flow of couplings, trained for some steps."""
    mask = jnp.array([True, False])

    def density(params):
        def conditioner(x):
            return params["w"] @ x + params["b"]

        layer = distrax.MaskedCoupling(
            mask,
            conditioner,
            lambda p: distrax.ScalarAffine(shift=p[..., :2], log_scale=jnp.tanh(p[..., 2:])),
        )
        layer = jax.tree_util.Partial(layer.inverse_and_log_det)

        def log_prob(x):
            z, log_det = layer(x)
            return distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2)).log_prob(z) + log_det

        return jax.vmap(log_prob)

    def bound(masked):
        return -jnp.mean(density(masked)(x))

    params = {"w": 0.1 * jax.random.normal(key, (4, 2)), "b": jnp.zeros(4)}
    optimizer = optax.sgd(0.1)
    state, losses = optimizer.init(params), []
    step = jax.jit(jax.value_and_grad(bound))
    for _ in range(5):
        loss, grads = step(params)
        updates, state = optimizer.update(grads, state)
        params = optax.apply_updates(params, updates)
        losses.append(loss)
    return losses


def markov():
    """The most likely states and the posterior of a hidden Markov model."""
    model = distrax.HMM(
        distrax.Categorical(probs=jnp.array([0.6, 0.4])),
        distrax.Categorical(probs=jnp.array([[0.9, 0.1], [0.2, 0.8]])),
        distrax.Normal(jnp.array([0.0, 2.0]), jnp.array([1.0, 1.0])),
    )
    seen = jnp.array([0.1, 0.3, 1.9, 2.2, 1.8, -0.1])
    alphas, betas, marginals, log_prob = model.forward_backward(seen)
    return [alphas, betas, marginals, log_prob, model.viterbi(seen)]


def substrate():
    """Distributions of TensorFlow Probability, and conversions between both libraries."""
    tfd = tfp.distributions
    converted = distrax.as_distribution(tfd.Laplace(0.0, 1.0))
    return [
        tfd.StudentT(3.0, 0.0, 1.0).log_prob(jnp.array([0.5, 3.0])),
        converted.log_prob(jnp.array([0.5, -1.0])),
        tfd.MultivariateNormalTriL(jnp.zeros(2), jnp.array([[1.0, 0.0], [0.5, 2.0]])).log_prob(
            jnp.ones(2)
        ),
    ]


x = jax.random.normal(jax.random.key(1), (16, 2)) * jnp.array([1.0, 0.3])
results = [distributions(), coupling(x), markov(), substrate()]
