"""Programs whose timepoints are all kept.

IREE gives what is computed on a device a timepoint, at which it is there, and leaves out those that
another one covers. Which do so, it finds by going around the program's loops until nothing changes,
and 32 times at most: a loop of many arrays and branches can need more, and then the compile fails
("failed to solve for timepoint coverage"). In a loop whose step calls the host several times this
pass adds what the one that makes the program canonical removes, so that the two never come to an
end ("maximum iteration count exceeded in fixed point pipeline"): xpr's own lists of passes run them
three times, IREE's own, which checked compiles and other targets take, until nothing changes.
Such a program is compiled without that simplification: its host joins more timepoints, and that is
all.
"""

from __future__ import annotations

from collections.abc import Iterable

from xpr.lowering.iree.mlir import Mlir
from xpr.lowering.iree.versions.base import IreeVersion

PHASE, REACHES = "flow", "stream"
"""The phases between which `pipeline` does what the compiler would."""

_SAID = (
    "failed to solve for timepoint coverage",
    "maximum iteration count exceeded in fixed point pipeline",
)


def pipeline(version: IreeVersion) -> str:
    """The passes of the phase, without the one that leaves timepoints out."""
    return version.timepoints


def nothing(mlir: Mlir, module: int) -> None:
    """Leaves a module as it is: the change is the pipeline."""
    del mlir, module


def is_needed(said: Iterable[str]) -> bool:
    """Whether this is what a compile failed for, of which the compiler said something."""
    return any(words in message for message in said for words in _SAID)
