"""IREE's portable interpreter: bytecode for any processor."""

from __future__ import annotations

from xpr.lowering.flags import COMMON_FLAGS
from xpr.lowering.targets.base import Target

vmvx = Target(
    name="vmvx",
    base_flags=(
        *COMMON_FLAGS,
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=vmvx",
    ),
    host_calls=True,
    donation=False,
)
