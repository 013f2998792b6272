"""What a pullback depends on, and where it puts cotangents."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.transforms.pullbacks import NotNeeded

X, W = np.array([1.0, 2.0], np.float32), np.array([3.0, 5.0], np.float32)


def product(x: xpr.Array, p: dict[str, xpr.Array]) -> xpr.Array:
    return x * p["w"]


def test_arguments_that_are_residuals() -> None:
    x, w = jnp.asarray(X), jnp.asarray(W)
    _, pull = xpr.vjp(product, x, {"w": w})
    assert pull.args_res[0] is x
    assert pull.args_res[1]["w"] is w
    assert pull.opaque_residuals == []
    _, pull = xpr.vjp(lambda x, n: jnp.sin(x) + n, x, w)
    assert pull.args_res == [NotNeeded(), NotNeeded()]
    (cosine,) = pull.opaque_residuals
    np.testing.assert_allclose(cosine, np.cos(X), rtol=1e-6)


def test_residuals_may_be_taken_out_and_put_back() -> None:
    _, pull = xpr.vjp(product, jnp.asarray(X), {"w": jnp.asarray(W)})
    pull.args_res[1] = {"w": jnp.asarray(2 * W)}
    ones = jnp.ones(2)
    assert pull(ones)[0].tolist() == (2 * W).tolist()
    assert xpr.jit(lambda f, ct: f(ct))(pull, ones)[0].tolist() == (2 * W).tolist()
    copy = xpr.tree.map(lambda x: x, pull)
    assert copy.args_res[1]["w"].tolist() == (2 * W).tolist()
    pull.args_res[1] = {}
    with pytest.raises(ValueError, match="args_res must have the 2 leaves of the arguments"):
        pull(ones)


def test_cotangents_into_references() -> None:
    def run(x: xpr.Array, w: xpr.Array) -> xpr.Array:
        total = xpr.new_ref(jnp.ones(2))
        _, pull = xpr.vjp(product, x, {"w": w})
        for _ in range(2):
            got = pull.with_refs(total, {"w": xpr.ad.DontWant()})(jnp.ones(2))
            assert got == (xpr.ad.GradRef(), {"w": xpr.ad.DidntWant()})
        return total[...]

    for f in (run, xpr.jit(run)):
        assert f(jnp.asarray(X), jnp.asarray(W)).tolist() == (1 + 2 * W).tolist()
    _, pull = xpr.vjp(product, jnp.asarray(X), {"w": jnp.asarray(W)})
    wish = xpr.ad.GradValue()
    assert pull.with_refs(wish, {"w": wish})(jnp.ones(2))[1]["w"].tolist() == X.tolist()
    with pytest.raises(ValueError, match="in the structure of the arguments of product"):
        pull.with_refs(wish, wish)
