"""IREE's portable interpreter: bytecode for any processor."""

from __future__ import annotations

from xpr.lowering.flags import INPUT_FLAGS, OUTPUT_FLAGS, FlagSet, ProgramHints
from xpr.lowering.targets.base import Target


def _flags(hints: ProgramHints) -> list[FlagSet]:
    return [()]


vmvx = Target(
    name="vmvx",
    base_flags=(
        *INPUT_FLAGS,
        *OUTPUT_FLAGS,
        "--iree-opt-const-eval=false",
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=vmvx",
    ),
    choose_flags=_flags,
    host_calls=True,
    donation=False,
)
