"""JAX's settings that xpr has no setting for: accepted under JAX's name.

Those that choose devices or guard transfers do that here, too. The others are about XLA and its
caches: they keep their value, and the first change of each is warned of.
"""

from __future__ import annotations

import functools
import os
import re
import warnings
from typing import Any

from xpr.compat import flags
from xpr.core import config as settings
from xpr.core.config import config, extras, foreign
from xpr.runtimes import registry

_GUARDS = ("host_to_device", "device_to_device", "device_to_host")

# With the values that they have in JAX 0.10.2.
DEFAULTS: dict[str, Any] = {
    "jax_array_garbage_collection_guard": None,
    "jax_captured_constants_report_frames": 0,
    "jax_captured_constants_warn_bytes": 2000000000,
    "jax_compilation_cache_check_contents": False,
    "jax_compilation_cache_dir": None,
    "jax_compilation_cache_expect_pgle": False,
    "jax_compilation_cache_include_metadata_in_key": False,
    "jax_compilation_cache_max_size": -1,
    "jax_compiler_detailed_logging_min_ops": 10,
    "jax_compiler_enable_remat_pass": True,
    "jax_cpu_collectives_implementation": "gloo",
    "jax_cpu_enable_async_dispatch": True,
    "jax_cuda_visible_devices": "all",
    "jax_debug_key_reuse": False,
    "jax_debug_log_modules": "",
    "jax_disable_most_optimizations": False,
    "jax_distributed_debug": False,
    "jax_enable_compilation_cache": True,
    "jax_enable_pgle": False,
    "jax_enable_preemption_service": True,
    "jax_enable_recoverability": False,
    "jax_exec_time_optimization_effort": 0.0,
    "jax_hlo_source_file_canonicalization_regex": None,
    "jax_include_debug_info_in_dumps": True,
    "jax_include_full_tracebacks_in_locations": True,
    "jax_legacy_prng_key": "allow",
    "jax_log_checkpoint_residuals": False,
    "jax_logging_level": "NOTSET",
    "jax_memory_fitting_effort": 0.0,
    "jax_memory_fitting_level": "O2",
    "jax_mutable_array_checks": True,
    "jax_optimization_level": "UNKNOWN",
    "jax_persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir",
    "jax_persistent_cache_min_compile_time_secs": 1.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
    "jax_pgle_aggregation_percentile": 90,
    "jax_pgle_profiling_runs": 3,
    "jax_platform_name": None,
    "jax_platforms": None,
    "jax_pprint_use_color": True,
    "jax_raise_persistent_cache_errors": False,
    "jax_rocm_visible_devices": "all",
    "jax_share_binary_between_hosts": False,
    "jax_softmax_custom_jvp": True,
    "jax_source_url_schema": None,
    "jax_traceback_in_locations_limit": 100,
    "jax_tracer_error_num_traceback_frames": 5,
    "jax_transfer_guard": None,
    "jax_use_magma": "auto",
    "jax_use_shardy_partitioner": True,
}

_warned: set[str] = set()


def install() -> None:
    """Makes `jax.config` know the names."""
    foreign.update(DEFAULTS)
    extras.update(
        x64_enabled=lambda: config.read("enable_x64"),
        values=lambda: flags.values(tuple(DEFAULTS)),
        config_with_absl=lambda: functools.partial(flags.config_with_absl, tuple(DEFAULTS)),
        parse_flags_with_absl=lambda: functools.partial(
            flags.parse_flags_with_absl, tuple(DEFAULTS)
        ),
        complete_absl_config=lambda: functools.partial(flags.complete_absl_config, tuple(DEFAULTS)),
    )
    settings.on_foreign(_changed)
    registry.on_no_number(_devices_of_flags)
    _read_environment()


def _read_environment() -> None:
    """Takes over `JAX_ENABLE_X64` and the like, where no variable of xpr's says otherwise."""
    for name, default in (*DEFAULTS.items(), *((n, config.read(n)) for n in flags.COMMON)):
        text = os.environ.get(name.upper())
        own = f"XPR_{name.removeprefix('jax_').upper()}"
        if text is None or own in os.environ:
            continue
        value = _parsed(name.upper(), text, default)
        if name not in ("jax_platforms", "jax_platform_name"):
            config.update(name, value)
        elif value and "XPR_PLATFORMS" not in os.environ:
            foreign[name] = value
            registry.set_platforms(_names(value), name.upper())


_TRUE = ("y", "yes", "t", "true", "on", "1")
_FALSE = ("n", "no", "f", "false", "off", "0", "")


def _parsed(variable: str, text: str, default: Any) -> Any:
    """The value of an environment variable, in the type of the setting's default."""
    if isinstance(default, bool):
        word = text.strip().lower()
        if word not in (*_TRUE, *_FALSE):
            raise ValueError(f"invalid truth value {word!r} for environment {variable!r}")
        return word in _TRUE
    if isinstance(default, int | float):
        try:
            return type(default)(text)
        except ValueError:
            raise ValueError(f"invalid number {text!r} for environment {variable!r}") from None
    return text or None


def _names(value: Any) -> list[str]:
    return [name.strip() for name in str(value).split(",") if name.strip()]


def _devices_of_flags() -> int | None:
    """The number of CPU devices that `XLA_FLAGS` asks for; its other flags are about XLA."""
    found = re.findall(
        r"--xla_force_host_platform_device_count[=\s]+(\d+)", os.environ.get("XLA_FLAGS", "")
    )
    return int(found[-1]) if found else None


def _changed(name: str, value: Any) -> None:
    if name in ("jax_platforms", "jax_platform_name"):
        names = _names(value) if value else []
        registry.set_platforms(names or None, name)
        # The first that works is where programs run; those that were compiled are for others.
        chosen = names[0] if len(names) == 1 else registry.default_backend() if names else None
        config.update("default_device", chosen)
    elif name == "jax_transfer_guard":
        for way in _GUARDS:
            config.update(f"transfer_guard_{way}", value or "allow")
    elif value != DEFAULTS[name] and name not in _warned:
        _warned.add(name)
        warnings.warn(
            f"{name} is a setting of JAX's that has no effect in xpr", UserWarning, stacklevel=3
        )
