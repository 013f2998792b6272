"""`explain_error` names the line that loses the digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp


def _variance(x: Any) -> Any:
    squares = (x * x).mean()
    mean = x.mean()
    return squares - mean * mean


def _small_log(x: Any) -> Any:
    y = x * 2.0
    return jnp.log(1.0 + y)


def _small_exp(x: Any) -> Any:
    e = jnp.exp(x)
    return e - 1.0


def test_cancellation() -> None:
    x = np.array([1000, 1001, 1002.5], np.float32)
    found = xpr.debug.explain_error(_variance)(x)
    exact = x.astype(np.float64).var()
    assert np.isclose(found.error, abs(float(_variance(jnp.asarray(x))) - exact), rtol=0.5)
    assert abs(sum(line.share for line in found.lines) - 1) < 1e-6
    by_line = {line.line - _variance.__code__.co_firstlineno: line for line in found.lines}
    assert "cancellation" in by_line[3].cause
    assert "return squares - mean * mean" in str(found)


def test_rewrites_are_named() -> None:
    found = xpr.debug.explain_error(_small_log)(np.float32(1e-6))
    assert found.lines[0].text == "return jnp.log(1.0 + y)"
    assert found.lines[0].share > 0.9
    assert found.lines[0].advice == "log1p(x) in place of log(1 + x)"
    assert found.lines[0].without < found.lines[0].error / 100
    found = xpr.debug.explain_error(_small_exp)(np.float32(1e-6))
    assert "expm1(x) in place of exp(x) - 1" in str(found)


def test_absorption_and_long_sums() -> None:
    found = xpr.debug.explain_error(lambda x: x + 1e9)(np.array([1.0, 3.0], np.float32))
    assert "absorption: 100%" in found.lines[0].cause
    found = xpr.debug.explain_error(lambda x: x.sum())(np.full(5000, 0.1, np.float32))
    assert "compensated sum" in str(found)


def test_an_ill_conditioned_solve() -> None:
    a = np.array([[1, 1], [1, 1.0001]], np.float32)
    found = xpr.debug.explain_error(jnp.linalg.solve)(a, np.array([1, 2], np.float32))
    assert any("condition number" in line.cause for line in found.lines)


def test_float64_has_nothing_wider() -> None:
    with xpr.enable_x64(), pytest.raises(NotImplementedError, match="no wider type"):
        xpr.debug.explain_error(jnp.sin)(np.float64(1))
