"""Functions with loops of their own in the body of a `shard_map`, where values vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax, random
from xpr.scipy import special
from xpr.sharding import Mesh
from xpr.sharding import PartitionSpec as P

MESH = Mesh(np.array(xpr.devices("cpu")[:2]), ("x",))
A = np.linspace(0.5, 3, 8, dtype=np.float32)
CASES: dict[str, Callable[[Any, Any], Any]] = {
    "beta": lambda k, a: random.beta(k, a, 2.0),
    "gamma": random.gamma,
    "dirichlet": lambda k, a: random.dirichlet(k, jnp.stack([a, 2 * a], -1)),
    "t": random.t,
    "poisson": random.poisson,
    "large poisson": lambda k, a: random.poisson(k, 20 * a),
    "binomial": lambda k, a: random.binomial(k, 10, a / 4),
    "large binomial": lambda k, a: random.binomial(k, 100, a / 4),
    "multinomial": lambda k, a: random.multinomial(k, 10.0, jnp.stack([a / 4, 1 - a / 4], -1)),
    "bessel_jn": lambda k, a: special.bessel_jn(a, v=2).T,
    "gammainc": lambda k, a: special.gammainc(a, a),
    "betainc": lambda k, a: special.betainc(a, a, a / 4),
    "median": lambda k, a: jnp.median(a.reshape(-1, 2), 1),
    "searchsorted": lambda k, a: jnp.searchsorted(a, a),
}


@pytest.mark.parametrize("varying", [False, True], ids=["one key", "a key for each"])
def test_what_their_loops_carry_varies(varying: bool) -> None:
    def inside(k: Any, a: Any) -> dict[str, Any]:
        k = lax.pcast(k, "x", to="varying") if varying else k
        return {name: f(k, a) for name, f in CASES.items()}

    mapped = xpr.shard_map(inside, mesh=MESH, in_specs=(P(), P("x")), out_specs=P("x"))
    for aval in xpr.make_jaxpr(mapped)(random.key(3), A).out_avals:
        assert aval.shape[0] in (8, 4)


def test_each_device_computes_what_it_would_alone() -> None:
    key = random.key(3)
    mapped = xpr.shard_map(random.gamma, mesh=MESH, in_specs=(P(), P("x")), out_specs=P("x"))
    found = xpr.jit(mapped)(key, A)
    for part in (slice(0, 4), slice(4, 8)):
        np.testing.assert_allclose(found[part], random.gamma(key, A[part]), rtol=1e-5)
