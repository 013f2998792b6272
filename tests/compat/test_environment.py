"""JAX's environment variables, where JAX's name is xpr's."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def _run(code: str, **variables: str) -> tuple[int, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XPR_PLATFORMS"))}
    done = subprocess.run(
        [sys.executable, "-m", "xpr.compat", "-c", code],
        capture_output=True,
        text=True,
        env={**kept, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **variables},
        timeout=120,
    )
    return done.returncode, (done.stdout if not done.returncode else done.stderr).strip()


SHOW = (
    "import jax, jax.numpy as jnp; c = jax.config; "
    "print(jnp.ones(2).dtype, c.jax_debug_nans, c.jax_numpy_rank_promotion, "
    "c.jax_compilation_cache_dir, c.jax_persistent_cache_min_compile_time_secs, "
    "jax.default_backend(), jax.device_count())"
)


def test_settings_of_the_environment() -> None:
    assert _run(SHOW) == (0, "float32 False allow None 1.0 cpu 1")
    found = _run(
        SHOW,
        JAX_ENABLE_X64="yes",
        JAX_DEBUG_NANS="1",
        JAX_NUMPY_RANK_PROMOTION="raise",
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="2.5",
        JAX_PLATFORMS="reference,cpu",
        JAX_NUM_CPU_DEVICES="2",
    )
    assert found == (0, "float64 True raise None 2.5 reference 2")


def test_a_variable_of_xprs_own_comes_first() -> None:
    found = _run(SHOW, JAX_ENABLE_X64="1", XPR_ENABLE_X64="0", XPR_PLATFORMS="cpu",
                 JAX_PLATFORMS="reference")  # fmt: skip
    assert found == (0, "float32 False allow None 1.0 cpu 1")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("JAX_ENABLE_X64", "perhaps", "invalid truth value 'perhaps' for environment 'JAX_ENABLE"),
        ("JAX_NUM_CPU_DEVICES", "many", "invalid number 'many' for environment 'JAX_NUM_CPU"),
        ("JAX_PLATFORMS", "bogus", "Unknown backend bogus in JAX_PLATFORMS"),
        ("JAX_PLATFORM_NAME", "bogus", "Unknown backend bogus in JAX_PLATFORM_NAME"),
        ("JAX_NUMPY_RANK_PROMOTION", "no", "expected one of allow, warn, raise"),
    ],
)
def test_values_that_are_wrong(variable: str, value: str, message: str) -> None:
    code, text = _run(SHOW, **{variable: value})
    assert code != 0
    assert message in text


def test_platforms_that_the_program_sets() -> None:
    code = (
        "import jax\n"
        "jax.config.update('jax_platforms', 'reference')\n"
        "where = lambda: (jax.default_backend(), jax.devices()[0].platform, "
        "list(jax.numpy.ones(2).devices())[0].platform, list(f(1.0).devices())[0].platform)\n"
        "f = jax.jit(lambda x: x + 1)\n"
        "print(*where())\n"
        "jax.config.update('jax_platforms', None)\n"
        "print(*where())\n"
        "jax.config.update('jax_platforms', 'bogus,cpu')\n"
    )
    status, text = _run(code)
    assert status != 0
    assert "Unknown backend bogus in jax_platforms" in text
    status, text = _run(code.rsplit("jax.config", 1)[0])
    assert (status, text.split()) == (0, ["reference"] * 4 + ["cpu"] * 4)


def test_the_name_of_all_gpus() -> None:
    """It is the GPU that works, the chosen one first; a stand-in for one here."""
    code = (
        "import jax\n"
        "from xpr.runtimes import registry\n"
        "try:\n"
        "    registry._failed.update(dict.fromkeys(registry._GPUS, RuntimeError('away')))\n"
        "    jax.devices('gpu')\n"
        "except RuntimeError as error:\n"
        "    print(str(error)[:50].strip())\n"
        "registry._failed.pop('rocm')\n"
        "registry._started['rocm'] = registry.get_runtime('reference')\n"
        "registry.set_platforms(['cuda', 'rocm'], 'here')\n"
        "print(jax.devices('gpu')[0].platform, jax.default_backend())\n"
        "registry.set_platforms(['gpu'], 'here')\n"
        "print(jax.devices('gpu')[0].platform, jax.default_backend())\n"
    )
    lines = [
        "Unknown backend gpu: no GPU works on this machine",
        "reference rocm",
        "reference rocm",
    ]
    assert _run(code) == (0, "\n".join(lines))
