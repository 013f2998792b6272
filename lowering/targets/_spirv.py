"""What holds of every target whose programs IREE writes as SPIR-V: Vulkan and Metal."""

from __future__ import annotations

from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import COMMON_FLAGS
from xpr.lowering.targets.forms import SHADERS

SPIRV = Target(
    name="spirv",
    base_flags=COMMON_FLAGS,
    forms=SHADERS,
    host_calls=True,
    donation=False,
    exact_sums=False,
    whole_complex=False,
    grouped_convolutions=False,
    repeats_conversions=True,
    integer_arithmetic=False,
    vectors_anywhere=False,
    broadcasts_reductions=False,
    joins_symbolic_arrays=False,
)
"""To be made a device's target by `dataclasses.replace`; none itself. Sums are not exact, since the
compilers behind it (Mesa's, Metal's) rearrange floats unless they are told not to."""
