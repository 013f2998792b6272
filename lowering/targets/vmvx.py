"""IREE's portable interpreter: bytecode for any processor."""

from __future__ import annotations

from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import COMMON_FLAGS

vmvx = Target(
    name="vmvx",
    base_flags=(
        *COMMON_FLAGS,
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=vmvx",
    ),
    host_calls=True,
    host_memory=True,
    donation=False,
    # It neither loads nor stores complex numbers, converts no float16, and takes bfloat16 for 0.
    missing_types=frozenset({"complex64", "complex128", "float16", "bfloat16"}),
    exact_numbers=True,
)
