"""The programs by name."""

from __future__ import annotations

from benchmarks.programs import factorisations, sequences, stencils
from benchmarks.programs.program import Program

PROGRAMS: tuple[Program, ...] = (
    *stencils.PROGRAMS,
    *factorisations.PROGRAMS,
    *sequences.PROGRAMS,
)


def by_name(name: str) -> Program:
    """The program called ``name``."""
    return next(p for p in PROGRAMS if p.name == name)
