"""The forms that operations take on one kind of device.

A GPU's target leaves plain operations to IREE: its compiler tiles products for the matrix units and
makes convolutions implicit products. What processors need instead is stated here, once, and the
rules ask `ctx.target.forms`. Guards against faults of the compiler are no forms: they are fields of
`Target`, each with the pass that reads it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ReductionSizes:
    """How long reductions are cut up."""

    at_once: int
    """Arrays of up to this many elements are reduced by one operation."""

    vector: int
    """A row is reduced in whole vectors of this many elements, the rest apart; 1 for no rest."""

    long_row: int
    """Rows longer than this are reduced in blocks of about half of it."""

    block: int
    """How many rows become one, where leading axes are reduced."""

    split: int
    """From how many rows on leading axes are reduced in such blocks."""

    busy_rows: float = math.inf
    """From so many rows on all units of the device have work, and no row is cut."""

    busy_columns: float = math.inf
    """From so many results on all units have work where leading axes are reduced."""


@dataclass(frozen=True)
class Forms:
    """The forms that operations take; rules read the fields."""

    reductions: ReductionSizes

    narrow_products: frozenset[str] = frozenset()
    """The dtypes of floats whose products are summed in float32 without being converted first."""

    small_integers_in_units: bool = False
    """Whether products of integers of 8 bits are made of those of float16."""

    vector_products_as_sums: bool = True
    """Whether the product of a matrix and a vector is a sum of products, where this reads rows."""

    widened_from_uses: float = 16
    """From so many uses of each element on, an operand of a product that was converted from floats
    of 16 bits lies in memory in the wider type. Where it does not, IREE's product is one of the
    narrow type."""

    ordered_convolutions: bool = True
    """Whether convolutions get their axes in one order first, and are cut up into those of two
    spatial axes; else they are one operation where IREE compiles it."""


PROCESSOR = Forms(
    # Measured with AVX-512. With a rest, IREE reduces all of a row element by element.
    ReductionSizes(at_once=1 << 12, vector=16, long_row=1 << 13, block=16, split=256)
)
"""Processors: what runs on a few cores with vectors and caches."""

# IREE gives a row to one subgroup, and columns to one thread each: a few rows or columns leave most
# of a GPU idle, and are cut up.
_GPU_REDUCTIONS = ReductionSizes(
    at_once=1 << 12,
    vector=1,
    long_row=1 << 13,
    block=32,
    split=256,
    busy_rows=1 << 13,
    busy_columns=1 << 17,
)

SHADERS = Forms(_GPU_REDUCTIONS)
"""GPUs through SPIR-V, where products of converted operands are wrong besides, as
`repeats_conversions` of a target says."""

WITHOUT_UNITS = Forms(_GPU_REDUCTIONS, widened_from_uses=1)
"""GPUs whose matrix units IREE does not use right."""


def matrix_units(*dtypes: str) -> Forms:
    """GPUs that multiply matrices of these dtypes of floats, and sum in float32."""
    return Forms(
        _GPU_REDUCTIONS,
        narrow_products=frozenset(dtypes),
        small_integers_in_units="float16" in dtypes,
        vector_products_as_sums=False,
        widened_from_uses=math.inf,
        ordered_convolutions=False,
    )
