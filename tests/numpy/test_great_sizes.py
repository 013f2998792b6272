"""Places along axes of more elements than int32 counts: right, or refused. Nothing is allocated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

GREAT = xpr.ShapeDtypeStruct((2**31 + 8,), "int8")
JUST = xpr.ShapeDtypeStruct((2**31,), "int8")

PLACES: dict[str, Callable[[Any], Any]] = {
    "argmax": jnp.argmax,
    "argmin": jnp.argmin,
    "nanargmax": jnp.nanargmax,
    "argsort": jnp.argsort,
    "lax.argmax": lambda x: lax.argmax(x, 0, jnp.int32),
    "top_k": lambda x: lax.top_k(x, 2),
    "argmax of rows": lambda x: jnp.argmax(x.reshape(1, -1), axis=1),
}
ONLY_INT32 = ("lax.argmax", "top_k")


@pytest.mark.parametrize("name", PLACES)
def test_int32_does_not_count_them(name: str) -> None:
    with pytest.raises(OverflowError, match="beyond the range of int32; enable_x64"):
        xpr.eval_shape(PLACES[name], GREAT)
    assert xpr.tree_util.tree_leaves(xpr.eval_shape(PLACES[name], JUST))


@pytest.mark.parametrize("name", [n for n in PLACES if n not in ONLY_INT32])
def test_int64_does(name: str) -> None:
    with xpr.enable_x64(True):
        assert xpr.eval_shape(PLACES[name], GREAT).dtype == jnp.int64


def test_other_indices_are_refused_or_wide() -> None:
    """Never wrapped around."""
    index = xpr.ShapeDtypeStruct((3,), "int32")
    reads: tuple[Callable[..., Any], ...] = (
        lambda x, i: x[i],
        lambda x, i: x.at[i].set(1),
        lambda x, i: lax.dynamic_slice(x, (i[0],), (4,)),
        lambda x, i: jnp.nonzero(x, size=3),
        lambda x, i: jnp.searchsorted(x, i),
        lambda x, i: jnp.arange(x.size),
    )
    for read in reads:
        with pytest.raises(OverflowError, match="int32"):
            xpr.eval_shape(read, GREAT, index)
        with xpr.enable_x64(True):
            assert xpr.tree_util.tree_leaves(xpr.eval_shape(read, GREAT, index))
