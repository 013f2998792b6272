"""Passes over the graph of a program: each guards against one class of hazards of IREE.

A pass is a module with a function `run(module, target, hints)` that changes the graph.
docs/hazards.md has a row for each, and a test of it runs a program with the pass switched off.
"""

from __future__ import annotations

from collections.abc import Callable

from xpr.lowering.ir.graph import Module
from xpr.lowering.passes import (
    aliasing_updates,
    argument_barriers,
    bfloat16_arithmetic,
    binding_limit,
    branches_without_results,
    commuted_operands,
    complex_parts,
    complex_products,
    constant_arithmetic,
    conversions,
    dispatch_operands,
    exact_numbers,
    fused_producers,
    gathers,
    grouped_convolutions,
    interior_padding,
    known_values,
    long_chains,
    long_loops,
    loop_values,
    misaligned_slices,
    narrow_sources,
    region_results,
    scatters,
    shared_elements,
    single_elements,
    small_integers,
    spirv_arithmetic,
    strided_slices,
    transposed_products,
    unit_strides,
    window_inits,
)
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

Pass = Callable[[Module, Target, ProgramHints], None]

PASSES: dict[str, Pass] = {
    "constant_arithmetic": constant_arithmetic.run,
    "commuted_operands": commuted_operands.run,
    "grouped_convolutions": grouped_convolutions.run,
    "unit_strides": unit_strides.run,
    "long_loops": long_loops.run,
    "branches_without_results": branches_without_results.run,
    "scatters": scatters.run,
    "gathers": gathers.run,
    "dispatch_operands": dispatch_operands.run,
    "small_integers": small_integers.run,
    "complex_parts": complex_parts.run,
    "misaligned_slices": misaligned_slices.run,
    "interior_padding": interior_padding.run,
    "strided_slices": strided_slices.run,
    "exact_numbers": exact_numbers.run,
    "bfloat16_arithmetic": bfloat16_arithmetic.run,
    "conversions": conversions.run,
    "narrow_sources": narrow_sources.run,
    "spirv_arithmetic": spirv_arithmetic.run,
    "known_values": known_values.run,
    "binding_limit": binding_limit.run,
    "argument_barriers": argument_barriers.run,
    "loop_values": loop_values.run,
    "transposed_products": transposed_products.run,
    "complex_products": complex_products.run,
    "fused_producers": fused_producers.run,
    "shared_elements": shared_elements.run,
    "single_elements": single_elements.run,
    "window_inits": window_inits.run,
    "aliasing_updates": aliasing_updates.run,
    "region_results": region_results.run,
    "long_chains": long_chains.run,
}
"""In the order in which they run. A test may take one out, and put it back."""

_ORDER = tuple(PASSES)


_ALL = dict(PASSES)


def are_altered() -> bool:
    """Whether passes were switched off or exchanged in this process, as tests do."""
    return PASSES != _ALL


def run_passes(module: Module, target: Target, hints: ProgramHints) -> None:
    """Runs all passes over a module that is complete."""
    for name in _ORDER:
        # What was taken out and put back stands last in the table, and must not run last: a pass
        # relies on what those before it did.
        if name in PASSES:
            PASSES[name](module, target, hints)
