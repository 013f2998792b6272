"""Translates dispatches to LLVM's dialect, all of a program in one run of the passes.

IREE has each dispatch go through the passes by itself, and with each one the passes collect their
rewrite patterns anew: a third of the time. What they do to a dispatch is the same either way, for
these are the passes that IREE has registered under one name.
"""

from __future__ import annotations

from collections.abc import Sequence

from xpr.lowering.iree.versions.base import IreeVersion

FROM, TO = "executable-configurations", "executable-targets"
"""The phases between which the passes stand for the compiler's own."""

# Among what the level of optimization says only this one has to do with what xpr asks for.
_REASSOCIATES = "--iree-llvmcpu-reassociate-fp-reductions=true"


def passes(flags: Sequence[str], version: IreeVersion) -> str:
    """The passes, for programs with these flags and a processor for x86-64."""
    return version.translation(reassociates=_REASSOCIATES in flags)
