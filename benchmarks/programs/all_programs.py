"""The programs by name."""

from __future__ import annotations

from benchmarks.programs import (
    dynamics,
    factorisations,
    grids,
    iterations,
    networks,
    sequences,
    stencils,
)
from benchmarks.programs.program import Program

PROGRAMS: tuple[Program, ...] = (
    *stencils.PROGRAMS,
    *factorisations.PROGRAMS,
    *sequences.PROGRAMS,
    *grids.PROGRAMS,
    *iterations.PROGRAMS,
    *dynamics.PROGRAMS,
    *networks.PROGRAMS,
)


def by_name(name: str) -> Program:
    """The program called ``name``."""
    return next(p for p in PROGRAMS if p.name == name)
