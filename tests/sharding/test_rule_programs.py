"""Programs of which each device computes something of its own, compiled for four devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.sharding.whole_and_parts import check, kinds
from xpr import lax
from xpr.sharding import AxisType, NamedSharding
from xpr.sharding import PartitionSpec as P
from xpr.sharding.rule import Spec
from xpr.tree_util import tree_leaves

_RNG = np.random.default_rng(0)
_AUTO = (AxisType.Auto, AxisType.Auto)


def normal(*shape: int) -> Any:
    return _RNG.normal(size=shape).astype(np.float32)


def _embedding(table: Any, tokens: Any) -> Any:
    return jnp.sum(jnp.sin(table[tokens]))


def _network(image: Any, kernel: Any) -> Any:
    hidden = lax.conv_general_dilated(image, kernel, (2, 2), "SAME")
    pooled = lax.reduce_window(hidden, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return jnp.sum(pooled**2)


def _folds(x: Any) -> Any:
    return jnp.cumsum(x, 0), lax.cummax(x, reverse=True), lax.cumlogsumexp(x)


def _choices(x: Any) -> Any:
    return jnp.argmax(x, 0), jnp.argmin(x, 1), lax.top_k(x.T, 3)


def _windows(x: Any, row: Any, i: Any) -> Any:
    zero = np.int32(0)
    return (
        lax.dynamic_slice(x, (i, zero), (3, 2)),
        lax.dynamic_update_slice(x, row, (i, zero)),
        x[3],
        x[::2],
        x[::-1],
        lax.pad(x, np.float32(0), ((1, -1, 0), (0, 0, 0))) - x,
    )


def _updates(x: Any, i: Any) -> Any:
    return x.at[i].set(1.0), x.at[i].multiply(2.0), x.at[i].max(0.1), jnp.take(x, i, 0, mode="fill")


def _random(key: Any, x: Any) -> Any:
    return jnp.where(xpr.random.bernoulli(key, 0.5, x.shape), x, 0), x * jnp.arange(4.0)


_TOKENS = _RNG.integers(0, 16, (8, 4)).astype(np.int32)
_PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any], list[P]]] = {
    "embedding": (xpr.grad(_embedding), [normal(16, 6), _TOKENS], [P("x"), P("y")]),
    "images": (
        xpr.grad(_network, argnums=(0, 1)),
        [normal(2, 3, 16, 16), normal(4, 3, 3, 3)],
        [P(None, None, "x", "y"), P()],
    ),
    "running folds": (_folds, [normal(16, 4)], [P(("x", "y"))]),
    "choices": (_choices, [normal(16, 4)], [P("x", "y")]),
    "windows": (_windows, [normal(16, 4), normal(1, 4), np.int32(9)], [P("x", "y"), P(), P()]),
    "updates": (_updates, [normal(16, 4), _TOKENS[:, 0] + 9], [P("x", "y"), P("y")]),
    "random bits": (_random, [np.array([1, 2], np.uint32), normal(8, 4)], [P(), P("x", "y")]),
}


@pytest.mark.parametrize("name", list(_PROGRAMS))
def test_compiled_for_four_devices(name: str) -> None:
    function, args, specs = _PROGRAMS[name]
    mesh = xpr.make_mesh((2, 2), ("x", "y"), axis_types=_AUTO, devices=xpr.devices("cpu")[:4])
    placed = [xpr.device_put(a, NamedSharding(mesh, s)) for a, s in zip(args, specs, strict=True)]
    found = tree_leaves(xpr.jit(function)(*placed))
    expected = tree_leaves(function(*map(jnp.asarray, args)))
    for a, b in zip(found, expected, strict=True):
        one, whole = np.asarray(a), np.asarray(b)
        assert one.dtype == whole.dtype
        scale = max(1.0, float(np.abs(whole).max()))
        np.testing.assert_allclose(one, whole, rtol=2e-5, atol=1e-5 * scale, err_msg=name)


@pytest.mark.parametrize(
    ("rows", "tokens", "moved"),
    [
        # The rows that are looked up are summed, or the table is gathered: what is less.
        (64, 4, ["all_gather", "all_reduce"]),
        (8, 64, ["all_gather"]),
    ],
)
def test_lookups_move_the_smaller_of_table_and_rows(
    rows: int, tokens: int, moved: list[str]
) -> None:
    table, places = normal(rows, 4), _RNG.integers(0, rows, tokens).astype(np.int32)
    specs: list[Spec | None] = [(("x",), ()), (("x",),)]
    found = check(lambda t, i: t[i], {"x": 2}, specs, table, places)
    assert kinds(found) == moved
