"""Options of JAX's compiler, which mean nothing to the one that compiles here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from xpr.core.errors import JaxRuntimeError
from xpr.core.source_info import user_stacklevel

# Options of XLA's build, whose names do not begin as those of its debug options do.
_WITHOUT_PREFIX = frozenset(
    {"exec_time_optimization_effort", "memory_fitting_effort", "num_partitions", "num_replicas"}
)

_told: set[str] = set()


def check_compiler_options(options: Any) -> None:
    """Accepts options of XLA, each with one warning that it has no effect.

    Raises TypeError for what is no mapping of names to booleans, numbers and strings, RuntimeError
    for names that are none of XLA's.
    """
    if options is None:
        return
    if not isinstance(options, Mapping):
        raise TypeError(f"compiler_options must be a mapping of names to values, got {options!r}")
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, (str, bool, int, float)):
            raise TypeError(
                "compiler_options must map names to strings, booleans, integers or floats, got "
                f"{name!r}: {value!r}"
            )
        if not name.startswith("xla_") and name not in _WITHOUT_PREFIX:
            raise JaxRuntimeError(f"No such compile option: {name!r}")
        if name not in _told:
            _told.add(name)
            warnings.warn(
                f"the compiler option {name} is for XLA and has no effect: programs are compiled "
                "by IREE",
                stacklevel=user_stacklevel(),
            )
