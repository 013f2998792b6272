"""No device: the program as StableHLO, for whatever reads that."""

from __future__ import annotations

from xpr.lowering.targets.base import Target

# XLA computes (x + a) - a as x.
stablehlo = Target(name="stablehlo", base_flags=(), plain=True, exact_sums=False)
