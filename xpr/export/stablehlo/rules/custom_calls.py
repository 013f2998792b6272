"""Custom calls: those that JAX writes, and others as foreign functions."""

from __future__ import annotations

from typing import Any

from xpr.export.stablehlo.importer import Rule, Site
from xpr.export.stablehlo.rules.random import threefry

CALLS: dict[str, Rule] = {
    "cu_threefry2x32_ffi": threefry,
}


def custom_call(site: Site) -> Any:
    name = str(site.need("call_target_name"))
    rule = CALLS.get(name)
    if rule is None:
        raise site.error(f"the custom call {name} is unknown")
    return rule(site)
