"""JAX's settings as flags of absl: `jax.config.config_with_absl()` and `parse_flags_with_absl()`.

absl is the caller's: xpr does not need it, and it is loaded only here.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

from xpr.core.config import config

COMMON = (
    "jax_allow_f16_reductions",
    "jax_check_static_indices",
    "jax_check_tracer_leaks",
    "jax_debug_infs",
    "jax_debug_nans",
    "jax_default_device",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_disable_jit",
    "jax_enable_checks",
    "jax_enable_custom_prng",
    "jax_enable_x64",
    "jax_explain_cache_misses",
    "jax_log_compiles",
    "jax_no_execution",
    "jax_no_tracing",
    "jax_num_cpu_devices",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_threefry_partitionable",
    "jax_traceback_filtering",
    "jax_transfer_guard_device_to_device",
    "jax_transfer_guard_device_to_host",
    "jax_transfer_guard_host_to_device",
)
"""JAX's settings that are settings of xpr, too."""


def values(others: tuple[str, ...]) -> dict[str, Any]:
    """All settings by JAX's names, `others` among them, and their values."""
    return {name: config.read(name) for name in sorted((*COMMON, *others))}


def config_with_absl(others: tuple[str, ...]) -> None:
    """Makes a flag of absl of each setting; what the command line says counts after `app.run`."""
    from absl import app, flags  # noqa: PLC0415  # of the caller's environment

    _define(flags, others)
    app.call_after_init(lambda: complete_absl_config(others, flags))


def parse_flags_with_absl(others: tuple[str, ...]) -> None:
    """Reads the arguments of the command line that begin with `--jax`, once."""
    from absl import flags  # noqa: PLC0415  # of the caller's environment

    if "jax_enable_x64" in flags.FLAGS:
        return
    _define(flags, others)
    ours = itertools.takewhile(lambda a: a != "--", sys.argv)
    flags.FLAGS(["", *(a for a in ours if a.startswith("--jax"))], known_only=True)
    complete_absl_config(others, flags)


def complete_absl_config(others: tuple[str, ...], absl_flags: Any) -> None:
    """Takes over what the command line said."""
    for name in values(others):
        flag = absl_flags.FLAGS[name]
        if flag.present:
            config.update(name, flag.value)


def _define(absl_flags: Any, others: tuple[str, ...]) -> None:
    kinds: dict[type, Any] = {
        bool: absl_flags.DEFINE_bool,
        int: absl_flags.DEFINE_integer,
        float: absl_flags.DEFINE_float,
    }
    for name, value in values(others).items():
        define = kinds.get(type(value))
        if define is None:
            define, value = absl_flags.DEFINE_string, value if isinstance(value, str) else None
        define(name, value, f"JAX's setting {name}")
