"""One list of what is changed in programs while IREE compiles them, and in its modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xpr.lowering.iree import (
    balance_loops,
    block_starts,
    keep_timepoints,
    patch_vm_bytecode,
    remove_deallocations,
    separate_operations,
    shader_barriers,
    widen_block_arguments,
)
from xpr.lowering.iree.mlir import Mlir
from xpr.lowering.iree.versions.base import IreeVersion

START = separate_operations.PHASE
"""The first phase, before which nothing is done; what is changed behind it is what was written."""

END = "end"
"""The last phase of the compile; what is changed behind it is the program as it is written out."""

PHASES = (
    *(START, "input", "abi", "preprocessing", "global-optimization", "dispatch-creation", "flow"),
    *("stream", "executable-sources", "executable-configurations", "executable-targets", "hal"),
    *("vm", END),
)
"""The phases of the compile, in their order."""


@dataclass(frozen=True)
class Change:
    """A change of a program half way through its compile.

    The revision is a part of the key of the disk cache: it tells apart what an older change made.
    """

    name: str
    revision: int
    phase: str
    """The phase of IREE's compiler (of ``--compile-to``) behind which the change is made."""

    apply: Callable[[Mlir, int], None]
    """Changes a module in place."""

    tidy: Callable[[IreeVersion], str] | None = None
    """A pipeline of passes that take out what the change has made useless."""

    reaches: str | None = None
    """The phase that the pipeline comes to, if it is one in place of the compiler's own."""

    @property
    def key(self) -> str:
        return f"{self.name} {self.revision}"


@dataclass(frozen=True)
class Patch:
    """A change of a compiled module; the revision is that of `Change`."""

    name: str
    revision: int
    apply: Callable[[bytes], bytes]

    @property
    def key(self) -> str:
        return f"{self.name} {self.revision}"


SEPARATE_OPERATIONS = Change(
    "operations are separate", 2, START, separate_operations.separate_operations
)
BALANCE_LOOPS = Change("loops are balanced", 2, balance_loops.PHASE, balance_loops.balance_loops)
KEEP_TIMEPOINTS = Change(
    "timepoints are kept",
    1,
    keep_timepoints.PHASE,
    keep_timepoints.nothing,
    keep_timepoints.pipeline,
    keep_timepoints.REACHES,
)
REMOVE_DEALLOCATIONS = Change(
    "frees nothing",
    1,
    remove_deallocations.PHASE,
    remove_deallocations.free_nothing,
    remove_deallocations.tidy,
)
WIDEN_BLOCK_ARGUMENTS = Change(
    "block arguments are widened", 1, END, widen_block_arguments.widen_arguments
)
BLOCK_STARTS = Change("blocks begin with nothing", 1, END, block_starts.begin_with_nothing)
COPIED_REFERENCES = Patch("branches copy", 3, patch_vm_bytecode.with_copies)
SHADER_BARRIERS = Patch("barriers", 1, shader_barriers.with_barriers)

POST_PASSES = (
    SEPARATE_OPERATIONS,
    BALANCE_LOOPS,
    KEEP_TIMEPOINTS,
    REMOVE_DEALLOCATIONS,
    WIDEN_BLOCK_ARGUMENTS,
    BLOCK_STARTS,
    COPIED_REFERENCES,
    SHADER_BARRIERS,
)
"""All of them, in the order they are made in."""

_CHANGES = tuple(p for p in POST_PASSES if isinstance(p, Change))
_BY_KEY = {change.key: change for change in _CHANGES}


def change_of(key: str) -> Change:
    """The change with that key."""
    return _BY_KEY[key]


def changes_for(
    *, has_branches: bool, frees: bool, separate: bool = False, timepoints: bool = False
) -> tuple[Change, ...]:
    """The changes that a program needs, in the order they are made in.

    `has_branches` says that it has loops or branches, `frees` that it may free arrays on its way,
    `separate` that its operations are not to be fused, `timepoints` that all of these are kept.
    """
    wanted = {
        SEPARATE_OPERATIONS: separate,
        BALANCE_LOOPS: has_branches,
        KEEP_TIMEPOINTS: timepoints,
        REMOVE_DEALLOCATIONS: not frees,
        WIDEN_BLOCK_ARGUMENTS: True,
        BLOCK_STARTS: True,
    }
    return tuple(change for change in _CHANGES if wanted[change])


def patches_for(*, has_branches: bool, has_shaders: bool) -> tuple[Patch, ...]:
    """The changes that a compiled module needs; `has_shaders` says that it is for Vulkan."""
    wanted = {COPIED_REFERENCES: has_branches, SHADER_BARRIERS: has_shaders}
    return tuple(patch for patch in POST_PASSES if isinstance(patch, Patch) and wanted[patch])
