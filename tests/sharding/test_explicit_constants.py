"""Functions that make constants on their way, on arrays whose types say how they are sharded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax, nn
from xpr.errors import ShardingTypeError
from xpr.scipy import special
from xpr.sharding import PartitionSpec as P

RNG = np.random.default_rng(0)
X = (RNG.random((4, 4)) - 0.4).astype(np.float32)
S = np.array([[np.nan, np.inf], [-np.inf, 1.0]], np.float32).repeat(2, 0).repeat(2, 1)

CASES: dict[str, Callable[[Any], Any]] = {
    "where": lambda x: jnp.where(x > 0, x, 0),
    "where with a row": lambda x: jnp.where(x > 0, x, jnp.arange(4.0)),
    "where with zeros": lambda x: jnp.where(x > 0, jnp.zeros((4, 4)), x),
    "where of constants": lambda x: jnp.where(x > 0, 1, 2),
    "select": lambda x: jnp.select([x > 0.3, x > 0], [x, 2 * x], 7.0),
    "piecewise": lambda x: jnp.piecewise(x, [x < 0], [lambda v: -v, 1.0]),
    "triu": jnp.triu,
    "tril": lambda x: jnp.tril(x, 1),
    "clip": lambda x: jnp.clip(x, 0.1, 0.2),
    "nan_to_num": jnp.nan_to_num,
    "heaviside": lambda x: jnp.heaviside(x, 0.5),
    "sinc": jnp.sinc,
    "sign": jnp.sign,
    "maximum": lambda x: jnp.maximum(x, 0),
    "copysign": lambda x: jnp.copysign(2.0, x),
    "isclose": lambda x: jnp.isclose(x, 0.1),
    "zeros_like": jnp.zeros_like,
    "full_like": lambda x: jnp.full_like(x, 3),
    "var": lambda x: jnp.var(x, 1),
    "nansum": lambda x: jnp.nansum(x, 1),
    "nanmean": lambda x: jnp.nanmean(x, 0),
    "mean with where": lambda x: jnp.mean(x, 0, where=x > 0),
    "sum with where": lambda x: jnp.sum(x, where=x > 0, initial=2.0),
    "softmax": lambda x: nn.softmax(x, -1),
    "softmax with where": lambda x: nn.softmax(x, -1, where=x > 0),
    "relu": nn.relu,
    "leaky_relu": nn.leaky_relu,
    "gelu": nn.gelu,
    "elu": nn.elu,
    "selu": nn.selu,
    "hard_tanh": nn.hard_tanh,
    "logsumexp": lambda x: nn.logsumexp(x, 1),
    "xlogy": lambda x: special.xlogy(jnp.abs(x), 2.0),
    "entr": special.entr,
    "logit": lambda x: special.logit(jnp.abs(x)),
    "erfc": special.erfc,
    "power": lambda x: jnp.abs(x) ** 0.5,
    "integer_pow": lambda x: x**3,
    "mod": lambda x: x % 0.3,
    "at": lambda x: x.at[0].set(0.0),
    "pad": lambda x: jnp.pad(x, 2),
}


@pytest.fixture(autouse=True)
def mesh() -> Iterator[Any]:
    made = xpr.make_mesh((2, 2), ("x", "y"))
    with xpr.set_mesh(made):
        yield made


@pytest.mark.parametrize("values", [X, S], ids=["finite", "special"])
@pytest.mark.parametrize("spec", [P("x", "y"), P("y", None), P(None, "x")], ids=str)
def test_outside_programs(values: np.ndarray, spec: P) -> None:
    with xpr.set_mesh(None):
        wanted = {k: np.asarray(f(jnp.asarray(values))) for k, f in CASES.items()}
    x = xpr.device_put(values, spec)
    for name, f in CASES.items():
        found = f(x)
        np.testing.assert_allclose(found, wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)
        if found.shape == x.shape and name not in ("zeros_like", "full_like"):
            assert xpr.typeof(found).sharding.spec == spec, name


def test_under_derivatives_and_batches() -> None:
    x = xpr.device_put(X, P("x", "y"))
    gradient = xpr.grad(lambda x: jnp.sum(jnp.where(x > 0, x * x, 0)))(x)
    np.testing.assert_allclose(gradient, np.where(X > 0, 2 * X, 0), rtol=1e-6)
    assert gradient.sharding.spec == P("x", "y")
    for name in ("triu", "tril", "clip", "where with a row", "softmax with where", "pad", "var"):
        f = CASES[name]
        with xpr.set_mesh(None):
            wanted = xpr.grad(lambda x: jnp.sum(f(x) ** 2))(jnp.asarray(X))  # noqa: B023
        found = xpr.grad(lambda x: jnp.sum(f(x) ** 2))(x)  # noqa: B023
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=name)
        assert found.sharding.spec == P("x", "y"), name
    t = xpr.device_put(np.stack([X, 2 * X]), P("x", "y", None))
    for way in (lambda f: f, xpr.jit):
        found = way(xpr.vmap(lambda x: jnp.where(x > 0, x, 0)))(t)
        np.testing.assert_array_equal(found, np.where(t > 0, t, 0))
        assert xpr.typeof(found).sharding.spec == P("x", "y", None)


def test_what_users_shard_differently_is_still_an_error() -> None:
    x, y = xpr.device_put(X, P("x", None)), xpr.device_put(X, P("y", None))
    with pytest.raises(ShardingTypeError, match="select cases must have the same shardings"):
        lax.select(x > 0, x, y)
