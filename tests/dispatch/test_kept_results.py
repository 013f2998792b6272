"""What is kept of a call's results does not keep the memory of the others."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.runtimes import extension
from xpr.runtimes.cpu import find_suballocated
from xpr.runtimes.host import HostBuffer

COUNT = 100_000
BYTES = 4 * COUNT


def used() -> int:
    gc.collect()
    found = xpr.devices("cpu")[0].memory_stats()
    assert found is not None
    return found["bytes_in_use"]


@xpr.jit
def step(p: Any, x: Any) -> Any:
    loss = jnp.mean((p - x) ** 2)
    return p - 0.5 * (p - x), {"loss": loss, "first": p[:7], "none": p[:0]}


@xpr.jit
def run(p: Any) -> Any:
    """A loop: the scalar lies in one allocation with what the loop carries."""
    return xpr.lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * 2, c[1] + 1), (p, 0.0))[1]


def test_results_of_loops_and_branches_are_freed() -> None:
    lax = xpr.lax

    @xpr.jit
    def program(x: Any) -> Any:
        """Loops that carry one reference several times, that swap, and loops inside of loops."""
        swapped = lax.fori_loop(0, 5, lambda _, c: (c[1], c[0] + 1, c[1] * 2), (x, x + 1, x))
        inner = lax.fori_loop(
            0, 3, lambda i, c: lax.while_loop(lambda s: s.sum() < i, lambda s: s + 1, c), x
        )
        stacked = lax.scan(lambda c, i: (c + i, c[:9]), x, jnp.arange(4))
        chosen = lax.cond(x[0] > 0, lambda x: (x, x), lambda x: (x - 1, x * 2), x)
        return swapped, inner, stacked, chosen

    x = jnp.zeros(COUNT) + 0
    first = program(x)
    for found, expected in zip(first[0], (3, 3, 6), strict=True):
        np.testing.assert_array_equal(found, np.full(COUNT, expected))
    np.testing.assert_array_equal(first[2][0], np.full(COUNT, 6))
    del first
    before = used()
    for _ in range(5):
        program(x)
        run(x)
    assert used() - before < BYTES


def test_losses_that_are_kept() -> None:
    p, x = jnp.zeros(COUNT) + 0, jnp.ones(COUNT) + 0
    (p, kept), ended = step(p, x), [run(p)]
    kept = [kept]
    before = used()
    for _ in range(20):
        p, rest = step(p, x)
        kept.append(rest)
        ended.append(run(p))
    assert used() - before < 2 * BYTES
    wanted = 0.25 ** np.arange(21)
    np.testing.assert_allclose([float(r["loss"]) for r in kept], wanted, rtol=1e-5)
    first = 1 - 0.5 ** np.arange(21)
    np.testing.assert_allclose(np.stack([r["first"] for r in kept])[:, 6], first, rtol=1e-6)
    assert {r["none"].shape for r in kept} == {(0,)}
    assert [float(e) for e in ended] == [3.0] * 21
    # They are operands like others, donated ones too.
    assert float(xpr.jit(lambda a, b: a + b)(kept[0]["loss"], kept[1]["loss"])) == 1.25
    scaled = xpr.jit(lambda a: a * 2, donate_argnums=0)(kept[0]["first"])
    np.testing.assert_array_equal(scaled, np.zeros(7))


def test_large_results_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying them would cost what the call costs. IREE makes one allocation for all of them."""
    monkeypatch.setattr(extension.native(), "executor", None)
    device = xpr.devices("cpu")[0]

    def results(program: Any) -> list[HostBuffer]:
        found = xpr.jit(program)(jnp.ones(COUNT) + 0)
        buffers = [array._buffers[0] for array in found]
        assert all(isinstance(b, HostBuffer) for b in buffers)
        return buffers

    whole = results(lambda x: (x + 1, x * 2, x[:50_000] - 1, x.sum()))
    places = [b.allocation() for b in whole]
    assert places[0] is not None
    assert places[0][1] >= 2.5 * BYTES
    assert places == [places[0]] * 3 + [None]
    assert find_suballocated(whole, ()) == ()
    assert whole[0].device is device
    alone = results(lambda x: (x + 1,))
    assert alone[0].allocation() is None
    # Of many results of one size none is copied but a part of them.
    pieces = results(lambda x: tuple(x[i * 5000 : (i + 1) * 5000] + i for i in range(16)))
    assert sum(b.allocation() is None for b in pieces) == 2
