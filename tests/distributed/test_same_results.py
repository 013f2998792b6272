"""Training gives the same bits, however many processes run the devices of a mesh."""

from __future__ import annotations

PROGRAM = """
import hashlib

import numpy as np
import xpr.numpy as jnp
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

mesh = Mesh(np.array(xpr.devices()), ("data",))
cut, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
rng = np.random.default_rng(0)
sizes = [20, 64, 64, 5]
params = [
    {"w": rng.normal(0, 0.3, pair).astype(np.float32), "b": np.zeros(pair[1], np.float32)}
    for pair in zip(sizes, sizes[1:])
]
moments = xpr.tree_util.tree_map(np.zeros_like, params)
state = xpr.device_put((params, moments, moments), whole)
x = xpr.device_put(rng.normal(size=(32, 20)).astype(np.float32), cut)
y = xpr.device_put(rng.integers(0, 5, 32).astype(np.int32), cut)


def loss(params, key, x, y):
    for i, layer in enumerate(params[:-1]):
        x = xpr.nn.gelu(x @ layer["w"] + layer["b"])
        x = (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-5)
        x = x * xpr.random.bernoulli(xpr.random.fold_in(key, i), 0.9, x.shape)
    logits = xpr.nn.log_softmax(x @ params[-1]["w"] + params[-1]["b"])
    return -jnp.mean(jnp.take_along_axis(logits, y[:, None], 1))


@xpr.jit
def step(state, key, x, y):
    params, first, second = state
    value, slope = xpr.value_and_grad(loss)(params, key, x, y)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in xpr.tree_util.tree_leaves(slope)))
    slope = xpr.tree_util.tree_map(lambda g: g * jnp.minimum(1, 0.5 / norm), slope)
    first = xpr.tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
    second = xpr.tree_util.tree_map(lambda m, g: 0.99 * m + 0.01 * g * g, second, slope)
    params = xpr.tree_util.tree_map(
        lambda p, m, v: p - 0.01 * m / (jnp.sqrt(v) + 1e-8), params, first, second
    )
    return (params, first, second), value, norm


told = []
for i in range(5):
    state, value, norm = step(state, xpr.random.key(i), x, y)
    told += [float(value).hex(), float(norm).hex()]
leaves = xpr.tree_util.tree_leaves(state)
digest = hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in leaves)).hexdigest()
print(told, digest)
assert float.fromhex(told[-2]) < float.fromhex(told[0])
"""


def test_training_gives_the_same_bits_in_any_number_of_processes(run_processes):
    """With a device each; those of a process would add up what they have first."""
    for count in (2, 4):
        alone = run_processes(1, PROGRAM, devices=count).out
        assert run_processes(count, PROGRAM).out == alone * count
