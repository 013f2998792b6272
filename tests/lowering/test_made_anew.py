"""Arrays made of constants alone that one operation updates and another one uses.

IREE makes such an array anew for each user and merges those that are alike again, unless it is
computed when the module is loaded, which large programs are compiled without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override
from xpr.lowering import passes
from xpr.lowering.targets import flags

N = 40
BASES: dict[str, Callable[[], Any]] = {
    "splat": lambda: jnp.full(N, 7.0, jnp.float32),
    "count": lambda: jnp.arange(N, dtype=jnp.float32),
    "computed": lambda: jnp.arange(N, dtype=jnp.float32) * 2 + 1,
    "converted": lambda: lax.broadcast(jnp.float64(1 / 3), (N,)).astype(jnp.float32),
    "constant": lambda: jnp.asarray(np.arange(N, dtype=np.float32) + 3),
}
UPDATES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "set": lambda x, i, z: x.at[i[0]].set(z, mode="drop"),
    "slice": lambda x, i, z: lax.dynamic_update_slice(x, z[None], (i[1],)),
    "add": lambda x, i, z: x.at[i].add(z),
}
PLACES = np.tile(np.arange(-8, 8), 16)
Z = np.float32(5)


def results(base: Callable[[], Any], i: Any, z: Any) -> list[Any]:
    """The array itself, parts of it and updates of it, in both orders."""
    x = base()
    before = [x[i], jnp.sum(x)]
    updated = [update(x, i, z) for update in UPDATES.values()]
    return [*before, *updated, lax.dynamic_slice(x, (i[0],), (2,)), x * z, x]


@pytest.fixture(params=[0, 1500], ids=["when it runs", "when it is loaded"])
def computed(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """When what is made of constants is computed: with no operation a program counts as large."""
    monkeypatch.setattr(flags, "_LARGE", request.param)
    monkeypatch.setenv("XPR_CACHE", "0")
    return request.param


def wrong(bases: dict[str, Callable[[], Any]]) -> list[str]:
    def all_results(i: Any, z: Any) -> list[list[Any]]:
        return [results(base, i, z) for base in bases.values()]

    with override("enable_x64", True):
        found = xpr.jit(all_results)(PLACES, Z)
        with xpr.disable_jit():
            expected = all_results(PLACES, Z)
    return [
        f"{name} {k}"
        for name, ours, theirs in zip(bases, found, expected, strict=True)
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True))
        if not np.allclose(np.asarray(a), np.asarray(b))
    ]


@pytest.mark.usefixtures("computed")
def test_they_are_not_overwritten() -> None:
    assert wrong(BASES) == []


@pytest.mark.parametrize("computed", [0], indirect=True, ids=["when it runs"])
@pytest.mark.usefixtures("computed")
def test_without_the_pass_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(passes.PASSES, "aliasing_updates")
    assert wrong({"computed": BASES["computed"]}), "the fault is mended: the guard can go"
