"""Passes over the graph of a program: each guards against one class of hazards of IREE.

A pass is a module with a function `run(module, target)` that changes the graph. docs/hazards.md has
a row for each, and a test of it runs a program with the pass switched off.
"""

from __future__ import annotations

from collections.abc import Callable

from xpr.lowering.ir.graph import Module
from xpr.lowering.passes import producers
from xpr.lowering.targets.base import Target

Pass = Callable[[Module, Target], None]

PASSES: dict[str, Pass] = {"producers": producers.run}
"""In the order in which they run."""


def run_passes(module: Module, target: Target) -> None:
    """Runs all passes over a module that is complete."""
    for run in PASSES.values():
        run(module, target)
