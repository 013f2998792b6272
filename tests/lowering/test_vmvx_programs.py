"""Programs on IREE's interpreter: loops, branches, random numbers, training, bundles."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as xnp
from tests.harness import run_reference
from tests.lowering import programs
from xpr import lax, nn
from xpr.core.config import override
from xpr.export import export
from xpr.export.writing import bundle_bytes
from xpr.runtimes.bundle import Bundle


def _compensated(x: Any) -> Any:
    """Kahan's sum, whose correction is 0 for whoever takes floats for exact numbers."""

    def step(carry: Any, v: Any) -> Any:
        total, lost = carry
        y = v - lost
        new = total + y
        return (new, (new - total) - y), lost

    return lax.scan(step, (np.float32(0), np.float32(0)), xnp.tile(x / 7, 16))


def _two_sum(x: Any) -> Any:
    """The rounding error of each sum (Knuth), in whole arrays."""
    a, b = x / 3, x * 1e-5
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _normed(x: Any) -> Any:
    """What networks are made of."""
    rows = x.reshape(2, 4)
    return [
        nn.softmax(rows),
        nn.standardize(rows),
        nn.gelu(rows),
        nn.log_softmax(rows),
        xnp.where(rows > 2, rows, -xnp.inf).max(axis=1),
        xnp.linalg.solve(xnp.eye(4) * 2 + rows.T @ rows, rows.T),
        xnp.var(rows, axis=0),
        xnp.cumsum(rows, axis=1),
        xnp.argsort(-rows, axis=1),
    ]


def test_loops_branches_and_random_numbers() -> None:
    shared = (programs.updated, programs.scanned, programs.doubled, programs.chosen)
    own = (_compensated, _two_sum, _normed)
    programs.check((*shared, programs.randoms, *own), "vmvx")


def _two_layers(w: Any, x: Any, y: Any) -> Any:
    h = nn.relu(x @ w["first"] + w["bias"])
    scores = nn.log_softmax(h @ w["second"])
    return -xnp.mean(xnp.sum(y * scores, axis=1))


def _trained(platform: str, dtype: type[np.floating[Any]]) -> list[np.ndarray[Any, Any]]:
    """The weights and losses of a network after steps of Adam, on a device of `platform`."""
    rng = np.random.default_rng(3)
    shapes = {"first": (6, 16), "bias": (16,), "second": (16, 3)}
    w = {name: rng.normal(0, 0.4, shape).astype(dtype) for name, shape in shapes.items()}
    x = rng.normal(size=(20, 6)).astype(dtype)
    y = np.eye(3, dtype=dtype)[rng.integers(0, 3, 20)]

    @xpr.jit
    def step(n: Any, w: Any, m: Any, v: Any, x: Any, y: Any) -> Any:
        loss, g = xpr.value_and_grad(_two_layers)(w, x, y)
        m = xpr.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = xpr.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, g)
        a, b = 1 - 0.9**n, 1 - 0.99**n
        w = xpr.tree.map(lambda w, m, v: w - 0.02 * (m / a) / (xnp.sqrt(v / b) + 1e-6), w, m, v)
        return loss, w, m, v

    device = xpr.devices(platform)[0]
    zeros = {name: np.zeros(shape, dtype) for name, shape in shapes.items()}
    w, m, v, x, y = xpr.device_put((w, zeros, zeros, x, y), device)
    losses = []
    for n in range(1, 11):
        loss, w, m, v = step(xpr.device_put(dtype(n), device), w, m, v, x, y)
        losses.append(np.asarray(loss))
    assert losses[-1] < 0.8 * losses[0]
    return [np.array(losses), *(np.asarray(a) for a in xpr.tree.leaves(w))]


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 1e-3), (np.float64, 1e-9)])
def test_training_is_as_on_the_cpu(dtype: type[np.floating[Any]], rtol: float) -> None:
    with override("enable_x64", True):
        found, expected = _trained("vmvx", dtype), _trained("cpu", dtype)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol / 100)


def _without_host(a: Any, v: Any) -> Any:
    symmetric = a + a.T
    return [
        *(xnp.sort(v), xnp.argsort(-v), *lax.top_k(v, 3), xnp.median(v)),
        *(xnp.linalg.cholesky(a @ a.T + xnp.eye(5)), xnp.linalg.solve(a, v[:5])),
        *(xnp.linalg.eigvalsh(symmetric), xnp.linalg.svd(a, compute_uv=False)),
    ]


def test_a_module_that_cannot_call_the_host() -> None:
    """Its sorts and factorisations are programs too."""
    rng = np.random.default_rng(5)
    a = rng.normal(size=(5, 5)).astype(np.float32)
    v = np.array([*range(-20, 20), np.nan, np.inf, -0.0], np.float32)[rng.permutation(43)]
    exported = export(xpr.jit(_without_host), platforms=["vmvx"])(a, v)
    model = Bundle(bundle_bytes(exported, targets=["vmvx"]), platform="vmvx")
    expected = run_reference([(_without_host, (a, v))])[0]
    for x, y in zip(model.call(a, v), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


def test_the_examples_of_the_readme(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    examples = tmp_path / "examples.md"
    examples.write_text(re.sub(r"^```.*$", "", text, flags=re.MULTILINE), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "doctest", str(examples)],
        cwd=tmp_path,
        env={**os.environ, "XPR_PLATFORMS": "vmvx"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
