"""What each operation of StableHLO and CHLO becomes: one function for each, by name."""

from __future__ import annotations

from xpr.export.stablehlo.importer import Rule
from xpr.export.stablehlo.rules import (
    arrays,
    calls,
    chlo,
    collectives,
    control,
    dynamic,
    elementwise,
    indexing,
    products,
    quantized,
    random,
    reductions,
    sorting,
)
from xpr.export.stablehlo.rules.quantized import with_quantized


def all_rules() -> dict[str, Rule]:
    """The rules by the names of operations."""
    found: dict[str, Rule] = {}
    for part in (
        elementwise,
        arrays,
        products,
        reductions,
        sorting,
        indexing,
        control,
        calls,
        dynamic,
        random,
        chlo,
        collectives,
    ):
        found |= part.RULES
    found = {name: with_quantized(name, rule) for name, rule in found.items()}
    return found | quantized.RULES
