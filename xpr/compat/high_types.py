"""Types of values that are no arrays, which `jax.experimental.hijax` registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.core.trace import get_aval

rules: dict[type, Callable[[Any], Any]] = {}


def typeof(x: Any) -> Any:
    """The aval of `x`: its shape, dtype and weak type; or the high type of a value of one."""
    rule = rules.get(type(x))
    return get_aval(x) if rule is None else rule(x)
