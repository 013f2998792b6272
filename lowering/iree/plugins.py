"""The compiler's plugins that programs for this machine's processor have no use for.

Each brings its dialects along, SPIR-V's some hundreds of operations, and each pass that simplifies
collects the rewrite patterns of all operations anew. Which ones there are is settled for a process
before its first compile.
"""

from __future__ import annotations

from collections.abc import Sequence

from xpr.lowering.iree.versions.base import IreeVersion

_CPU = {"--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"}


def are_for_cpu(flags: Sequence[str]) -> bool:
    """Whether programs with these flags are compiled for processors alone."""
    return _CPU.issubset(flags)


def options(flags: Sequence[str], version: IreeVersion) -> list[str]:
    """What a process is given that only compiles programs of the same kind."""
    return (
        [f"--iree-plugin=-{name}" for name in version.unused_plugins] if are_for_cpu(flags) else []
    )
