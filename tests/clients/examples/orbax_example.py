"""orbax: trees saved and restored, checkpoints of the steps of a training run."""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp

folder = Path(tempfile.mkdtemp())
params = {"w": jax.random.normal(jax.random.key(0), (4, 3)), "b": jnp.zeros(3, jnp.bfloat16)}
tree = {"params": params, "step": 7, "scale": 0.5, "key": jax.random.PRNGKey(3)}


def standard():
    """A tree without and with what it is like."""
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder / "standard", tree)
        checkpointer.wait_until_finished()
        like = jax.tree.map(ocp.utils.to_shape_dtype_struct, tree)
        restored = checkpointer.restore(folder / "standard", like)
        plain = checkpointer.restore(folder / "standard")
    kinds = [isinstance(x, jax.Array) for x in jax.tree.leaves(restored)]
    same = jax.tree.map(lambda a, b: jnp.asarray(a).dtype == jnp.asarray(b).dtype, restored, tree)
    return [jax.tree.map(jnp.asarray, restored), kinds, same, jax.tree.map(jnp.asarray, plain)]


def run():
    """A training run that goes on from its last checkpoint."""
    optimizer = optax.adam(0.1)

    @jax.jit
    def step(params, state):
        grads = jax.grad(lambda p: jnp.sum((p["w"] @ p["w"].T - 1.0) ** 2))(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    options = ocp.CheckpointManagerOptions(max_to_keep=2, save_interval_steps=2)
    weights = {"w": params["w"]}
    state = optimizer.init(weights)
    with ocp.CheckpointManager(folder / "run", options=options) as manager:
        for i in range(7):
            weights, state = step(weights, state)
            manager.save(i, args=ocp.args.StandardSave({"params": weights, "state": state}))
        manager.wait_until_finished()
        steps = manager.all_steps()
        like = jax.tree.map(jnp.zeros_like, {"params": weights, "state": state})
        found = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore(like))
    again, _ = step(found["params"], found["state"])
    return [list(steps), found, again]


def sharded():
    """An array that is restored over a mesh."""
    mesh = jax.make_mesh((1,), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    x = jax.device_put(jnp.arange(8.0), sharding)
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(folder / "sharded", {"x": x})
        arguments = ocp.checkpoint_utils.construct_restore_args({"x": x})
        restored = checkpointer.restore(folder / "sharded", restore_args=arguments)
    return [restored["x"], restored["x"].sharding == sharding]


results = [standard(), run(), sharded()]
