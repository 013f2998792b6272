"""Trains a classifier in JAX and exports it: `spirals.jax` and `spirals.npz` of this folder.

Run in an environment of its own, that has JAX 0.10.2 and flatbuffers and need not have xpr:

    python -m venv jaxenv
    jaxenv/bin/pip install jax==0.10.2 flatbuffers
    jaxenv/bin/python examples/from_jax/train_in_jax.py

`spirals.jax` is what `jax.export.Exported.serialize()` returns for the trained network: a function
of points [b, 2] that gives the logarithms of the probabilities of three classes, with the weights
inside. Its batch is symbolic, and it holds no derivative. `spirals.npz` has points of another seed
than those of the training, their classes, and what JAX computes for them: `log_probabilities`, and
`slopes`, the gradient of the mean loss with respect to the points.
"""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
CLASSES = 3


def spirals(count: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Points [count, 2] on three arms of a spiral, and the number of each one's arm."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % CLASSES
    radius = rng.uniform(0.1, 1.0, count)
    angle = 4 * radius + 2 * np.pi * labels / CLASSES + 0.15 * rng.standard_normal(count)
    points = radius * np.stack([np.sin(angle), np.cos(angle)])
    return np.ascontiguousarray(points.T, np.float32), labels.astype(np.int32)


def main() -> None:
    """Trains, exports and records."""
    jax: Any = importlib.import_module("jax")
    export: Any = importlib.import_module("jax.export")
    jnp = jax.numpy

    def network(params: Any, x: Any) -> Any:
        for weights, bias in params[:-1]:
            x = jax.nn.gelu(x @ weights + bias)
        weights, bias = params[-1]
        return jax.nn.log_softmax(x @ weights + bias)

    def loss(params: Any, x: Any, labels: Any) -> Any:
        return -jnp.take_along_axis(network(params, x), labels[:, None], 1).mean()

    rng = np.random.default_rng(0)
    sizes = [2, 24, 24, CLASSES]
    params = [
        ((rng.standard_normal((m, n)) / np.sqrt(m)).astype(np.float32), np.zeros(n, np.float32))
        for m, n in itertools.pairwise(sizes)
    ]

    @jax.jit
    def step(state: Any, x: Any, labels: Any) -> Any:
        params, momentum = state
        grads = jax.grad(loss)(params, x, labels)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        return jax.tree.map(lambda p, m: p - 0.05 * m, params, momentum), momentum

    x, labels = spirals(600, seed=1)
    state = (params, jax.tree.map(np.zeros_like, params))
    for _ in range(2000):
        state = step(state, x, labels)
    params = jax.tree.map(np.asarray, state[0])

    x, labels = spirals(60, seed=2)
    (batch,) = export.symbolic_shape("b")
    struct = jax.ShapeDtypeStruct((batch, 2), np.float32)

    def classify(x: Any) -> Any:
        return network(params, x)

    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    blob = export.export(jax.jit(classify))(struct).serialize()
    (FOLDER / "spirals.jax").write_bytes(blob)
    np.savez_compressed(
        FOLDER / "spirals.npz",
        points=x,
        classes=labels,
        log_probabilities=np.asarray(classify(x)),
        slopes=np.asarray(jax.grad(loss, 1)(params, x, labels)),
    )


if __name__ == "__main__":
    main()
