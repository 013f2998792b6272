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
    text = xpr.jit(f).lower(*args).as_text("iree")
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
        xpr.jit(f).lower(x).as_text("iree")
    (message,) = [r.getMessage() for r in caplog.records if r.name == "xpr.loops"]
    assert "scan at " in message
    assert "is not one dispatch: sort of many elements at " in message
    assert "test_loop_transforms.py" in message


def _pendulums(steps: int, *, checkpointed: bool) -> Any:
    """The last positions of coupled pendulums, by the symplectic Euler method."""

    def step(state: Any, force: Any) -> Any:
        x, v = state
        pull = jnp.roll(x, 1) + jnp.roll(x, -1) - 2 * x
        v = 0.99 * v + 0.05 * (pull - jnp.sin(x) + force)
        return (x + 0.05 * v, v), None

    body = xpr.checkpoint(step) if checkpointed else step

    def run(x: Any, forces: Any) -> Any:
        return lax.scan(body, (x, jnp.zeros_like(x)), forces[:steps])[0][0]

    return run


def _pendulums_plain(x: np.ndarray[Any, Any], forces: np.ndarray[Any, Any]) -> Any:
    v = np.zeros_like(x)
    for force in forces:
        pull = np.roll(x, 1) + np.roll(x, -1) - 2 * x
        v = 0.99 * v + 0.05 * (pull - np.sin(x) + force)
        x = x + 0.05 * v
    return x


@pytest.mark.parametrize("segments", [1, 4])
def test_gradients_through_checkpoints_are_one_dispatch(segments: int) -> None:
    """A checkpointed round, and checkpointed loops in a loop, as long simulations have them."""
    rng = np.random.default_rng(2)
    x, direction = rng.standard_normal((2, 300))
    forces = rng.standard_normal((24, 300))
    length = len(forces) // segments

    def last(x: Any) -> Any:
        if segments == 1:
            return _pendulums(length, checkpointed=True)(x, jnp.asarray(forces))
        inner = xpr.checkpoint(_pendulums(length, checkpointed=False))
        parts = jnp.asarray(forces).reshape(segments, length, -1)
        return lax.scan(lambda x, part: (inner(x, part), None), x, parts)[0]

    def last_plain(x: np.ndarray[Any, Any]) -> Any:
        for part in forces.reshape(segments, length, -1):
            x = _pendulums_plain(x, part)
        return x

    with override("enable_x64", True):
        slope = xpr.grad(lambda x: jnp.sum(last(x) ** 2))
        assert _is_one_dispatch(slope, x)
        found = np.sum(np.asarray(xpr.jit(slope)(x)) * direction)
    step = 1e-5
    ends = [np.sum(last_plain(x + s * direction) ** 2) for s in (step, -step)]
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


def test_functions_with_rules_of_their_own_are_part_of_the_dispatch() -> None:
    @xpr.custom_batching.custom_vmap
    def doubled(x: Any) -> Any:
        return 2 * x

    @doubled.def_vmap
    def _batched(size: int, is_batched: Any, x: Any) -> Any:
        return 2 * x, is_batched[0]

    def body(_: Any, x: Any) -> Any:
        y = xpr.custom_derivatives.linear_call(
            lambda _, x: 0.5 * x, lambda _, y: 0.5 * y, None, doubled(x)
        )
        return y + 1

    x = np.linspace(0, 1, 400, dtype="f4")
    assert _is_one_dispatch(lambda x: lax.fori_loop(0, 5, body, x), x)
    found = xpr.jit(lambda x: lax.fori_loop(0, 5, body, x))(x)
    np.testing.assert_allclose(np.asarray(found), x + 5, rtol=1e-6)
