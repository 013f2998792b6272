"""No device: the program as StableHLO, for whatever reads that."""

from __future__ import annotations

import dataclasses

from xpr.lowering.targets.base import Target

# XLA computes (x + a) - a as x.
stablehlo = Target(name="stablehlo", base_flags=(), plain=True, exact_sums=False, lapack_calls=True)
"""For processors: factorizations are LAPACK's, by the names that JAX has for its routines."""

stablehlo_anywhere = dataclasses.replace(stablehlo, lapack_calls=False)
"""For other devices, too: factorizations are loops, where there are some."""
