"""What need not be sent is not sent, and what need not be computed twice is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import NamedSharding, P, lax
from xpr.sharding import Mesh
from xpr.transforms.shard_map import shard_map

CPUS = np.array(xpr.devices("cpu")[:4])
RNG = np.random.default_rng(0)
X, W = (RNG.integers(-4, 5, (8, 8)).astype(np.float32) for _ in range(2))


def put(mesh: Mesh, array: np.ndarray, *spec: Any) -> xpr.Array:
    return xpr.device_put(array, NamedSharding(mesh, P(*spec)))


def test_devices_alone_on_an_axis_meet_nobody() -> None:
    mesh = Mesh(CPUS.reshape(4, 1), ("x", "y"))
    x, w = put(mesh, X, "x", "y"), put(mesh, W, "y")
    scattered = NamedSharding(mesh, P("x", "y"))
    jitted = xpr.jit(
        lambda x, w: (x @ w, jnp.max(x, axis=1), jnp.cumsum(x, axis=1), jnp.sort(x, axis=1)),
        out_shardings=(scattered, None, None, scattered),
    )
    expected = X @ W, X.max(1), X.cumsum(1), np.sort(X, 1)
    for one, other in zip(jitted(x, w), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)
    assert jitted.lower(x, w).communication().transfers == ()


def test_named_collectives_of_one_device() -> None:
    mesh = Mesh(CPUS.reshape(4, 1), ("x", "y"))

    def body(x):
        gathered = lax.all_gather(x, "y", axis=1, tiled=True)
        scattered = lax.psum_scatter(x, "y", scatter_dimension=1, tiled=True)
        return lax.psum(x, "y") + gathered + scattered + lax.ppermute(x, "y", [(0, 0)])

    mapped = xpr.jit(
        shard_map(body, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"), check_vma=False)
    )
    np.testing.assert_array_equal(np.asarray(mapped(X)), 4 * X)
    assert {t.kind for t in mapped.lower(X).communication().transfers} <= {"permute"}
    dropped = shard_map(
        lambda x: lax.ppermute(x, "y", []), mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y")
    )
    np.testing.assert_array_equal(np.asarray(xpr.jit(dropped)(X)), 0 * X)


@pytest.mark.parametrize("weights", [P("data", "model"), P(None, "model")], ids=str)
def test_a_dispute_about_one_axis_of_the_mesh_leaves_the_others(weights: P) -> None:
    """Weights cut along the batch's axis, too, are gathered along it, and products stay cut."""
    mesh = Mesh(CPUS.reshape(2, 2), ("data", "model"))
    rows = np.tile(X, (4, 1))
    h, w = put(mesh, rows, "data", "model"), put(mesh, W, *weights)
    jitted = xpr.jit(lambda h, w: h @ w.T)
    found = jitted(h, w)
    np.testing.assert_array_equal(np.asarray(found), rows @ W.T)
    assert found.sharding.spec == P("data")
    sent = [(t.kind, t.bytes) for t in jitted.lower(h, w).communication().transfers]
    # The other half of f32[8, 4] of the weights, and the sum of f32[16, 8]. To bring all weights
    # and rows together would be less, and everybody would compute the same.
    gathered = [("all_gather", 64.0)] if weights[0] else []
    assert sent == [*gathered, ("all_reduce", 512.0)]
