"""penzai: named arrays, a network that is trained, selectors that change it."""

import jax
import jax.numpy as jnp
import optax
from penzai import pz
from penzai.models import simple_mlp
from penzai.toolshed import basic_training

x = pz.nx.wrap(jax.random.normal(jax.random.key(1), (6, 4)), "batch", "features")
target = pz.nx.wrap(jnp.sin(jnp.arange(12.0)).reshape(6, 2), "batch", "features")


def names():
    """Axes by name: sums, products, functions that are mapped, indices."""
    y = pz.nx.wrap(jnp.arange(4.0), "features")
    product = pz.nx.nmap(jnp.dot)(x.untag("features"), y.untag("features"))
    soft = pz.nx.nmap(jax.nn.softmax)(x.untag("features")).tag("features")
    return [
        (x * y).untag("batch").sum().unwrap("features"),
        product.unwrap("batch"),
        x[{"batch": pz.slice[1:3]}].unwrap("batch", "features"),
        soft.unwrap("batch", "features"),
        x.untag("batch").max().unwrap("features"),
        pz.nx.random_split(jax.random.key(2), {"keys": 3}).unwrap("keys"),
    ]


def loss_of(model, rng, state, x, target):
    found = model(x)
    loss = ((found - target) ** 2).untag("batch", "features").mean().unwrap()
    return loss, state, {"loss": loss}


def trained():
    model = simple_mlp.MLP.from_config(
        name="mlp", init_base_rng=jax.random.key(0), feature_sizes=[4, 8, 2]
    )
    trainer = basic_training.StatefulTrainer.build(
        root_rng=jax.random.key(3),
        model=model,
        optimizer_def=optax.adam(1e-2),
        loss_fn=loss_of,
    )
    losses = [trainer.step(x=x, target=target)["loss"] for _ in range(10)]
    doubled = (
        pz.select(model)
        .at_instances_of(pz.nn.Elementwise)
        .insert_after(pz.nn.Elementwise(lambda v: 2.0 * v))
    )
    slopes = jax.jit(jax.grad(lambda x: model(x).untag("batch", "features").sum().unwrap()))(x)
    return [
        losses,
        model(x).unwrap("batch", "features"),
        doubled(x).unwrap("batch", "features"),
        slopes.unwrap("batch", "features"),
    ]


named = names()
results = [*named[:-1], jax.random.key_data(named[-1]), trained()]
