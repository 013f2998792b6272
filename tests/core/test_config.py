"""Settings: names, environment variables, overrides per thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

import xpr
import xpr.numpy as jnp
from xpr.core.config import override


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="Unrecognized config option: 'enable_x65'"):
        xpr.config.update("enable_x65", True)
    with pytest.raises(AttributeError, match="Unrecognized config option: "):
        _ = xpr.config.enable_x65
    with pytest.raises(AttributeError, match=r"use xpr\.config\.update"):
        xpr.config.enable_x64 = True


def test_bad_values_are_refused() -> None:
    with pytest.raises(ValueError, match="expected a truth value"):
        xpr.config.update("enable_x64", "maybe")
    with pytest.raises(ValueError, match="expected one of standard, strict"):
        xpr.config.update("numpy_dtype_promotion", "lax")


def test_jax_spelling_is_understood() -> None:
    assert xpr.config.jax_enable_x64 is False
    xpr.config.update("jax_enable_x64", True)
    try:
        assert jnp.ones(2).dtype == "float64"
    finally:
        xpr.config.update("jax_enable_x64", False)
    assert jnp.ones(2).dtype == "float32"


def test_override_is_the_threads_own() -> None:
    seen = []
    with override("enable_x64", True):
        assert jnp.ones(2).dtype == "float64"
        thread = threading.Thread(target=lambda: seen.append(jnp.ones(2).dtype))
        thread.start()
        thread.join()
    assert seen == ["float32"]
    assert jnp.ones(2).dtype == "float32"


def test_x64_retraces() -> None:
    f = xpr.jit(lambda x: x + 1.5)
    assert f(1).dtype == "float32"
    with override("enable_x64", True):
        assert f(1).dtype == "float64"
    assert f(1).dtype == "float32"


def test_environment_variable() -> None:
    code = "import xpr, xpr.numpy as jnp; print(jnp.ones(2).dtype)"
    env = os.environ | {"XPR_ENABLE_X64": "1"}
    out = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "float64"


def test_bad_environment_variable_is_named() -> None:
    env = os.environ | {"XPR_ENABLE_X64": "perhaps"}
    out = subprocess.run(
        [sys.executable, "-c", "import xpr"], env=env, capture_output=True, text=True, check=False
    )
    assert out.returncode != 0
    assert "enable_x64" in out.stderr


def test_describe_lists_every_setting() -> None:
    text = xpr.config.describe()
    assert "enable_x64=" in text
    assert "num_cpu_devices=" in text
