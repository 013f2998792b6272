"""Loops in memory under `vmap` and `grad`, in bundles, and what is said of those that are not."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override
from xpr.export import export
from xpr.export.writing import bundle_bytes
from xpr.runtimes.bundle import Bundle

_N = 24


def _sweep(u: Any) -> Any:
    """One Gauss-Seidel sweep by rows; rows above are those of this sweep."""

    def row(i: Any, u: Any) -> Any:
        new = 0.25 * (u[i - 1, 1:-1] + u[i + 1, 1:-1] + u[i, :-2] + u[i, 2:])
        return u.at[i, 1:-1].set(new)

    return lax.fori_loop(1, u.shape[0] - 1, row, u)


def _sweep_plain(u: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    u = u.copy()
    for i in range(1, len(u) - 1):
        new = 0.25 * (u[i - 1, 1:-1] + u[i + 1, 1:-1] + u[i, :-2] + u[i, 2:])
        u[i, 1:-1] = new
    return u


def _is_one_dispatch(f: Any, *args: Any) -> bool:
    text = xpr.jit(f).lower(*args).as_text()
    return "flow.dispatch @" in text and "stablehlo.while" not in text


def test_batches_and_gradients_are_one_dispatch_too() -> None:
    rng = np.random.default_rng(0)
    # Too large for registers.
    u, direction = rng.standard_normal((2, _N, 4 * _N))
    batch = rng.standard_normal((3, _N, 2 * _N))

    def loss(u: Any) -> Any:
        return jnp.sum(_sweep(u) ** 2)

    with override("enable_x64", True):
        assert _is_one_dispatch(xpr.vmap(_sweep), batch)
        assert _is_one_dispatch(xpr.grad(loss), u)
        swept, gradient = xpr.jit(lambda b, u: (xpr.vmap(_sweep)(b), xpr.grad(loss)(u)))(batch, u)
    for x, y in zip(np.asarray(swept), batch, strict=True):
        np.testing.assert_allclose(x, _sweep_plain(y), rtol=1e-12)
    step = 1e-5
    ends = [np.sum(_sweep_plain(u + s * direction) ** 2) for s in (step, -step)]
    slope = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(np.sum(np.asarray(gradient) * direction), slope, rtol=1e-7)


def test_bundles_carry_the_dispatch() -> None:
    u = np.random.default_rng(1).standard_normal((_N, 4 * _N))
    with override("enable_x64", True):
        program = export(xpr.jit(_sweep))(u)
    data = bundle_bytes(program, targets=["cpu", "x86_64", "aarch64-linux", "riscv64-linux"])
    np.testing.assert_allclose(np.asarray(Bundle(data).call(u)), _sweep_plain(u), rtol=1e-12)


def test_the_reason_is_logged_with_the_line(caplog: pytest.LogCaptureFixture) -> None:
    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, x: jnp.sort(x, axis=0), x)

    x = np.ones((300, 4), "f4")
    with override("explain", "loops"), caplog.at_level(logging.WARNING, "xpr.loops"):
        xpr.jit(f).lower(x).as_text()
    (message,) = [r.getMessage() for r in caplog.records if r.name == "xpr.loops"]
    assert "scan at " in message
    assert "is not one dispatch: sort of many elements at " in message
    assert "test_loop_transforms.py" in message
