"""Compiles that are asked for: what is to be compiled, how, and under which key it is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from xpr.core.config import state
from xpr.lowering import templates
from xpr.lowering.cache import default_cache
from xpr.lowering.iree import (
    dispatches,
    installed,
    limits,
    merging,
    objects,
    short_passes,
    shortcuts,
    tiles,
    versions,
)
from xpr.lowering.iree.advance import Advance
from xpr.lowering.iree.failures import program_name
from xpr.lowering.iree.interruption import Interruption
from xpr.lowering.iree.post_passes import (
    SEPARATE_OPERATIONS,
    Change,
    Patch,
    changes_for,
    patches_for,
)
from xpr.lowering.iree.stopwatch import Stopwatch
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import FlagSet, ProgramHints
from xpr.lowering.templates import Template

DebugText = Callable[[], str]
"""Makes the text of a program with the user's places in it."""

MakeTemplate = Callable[[], Template | None]
"""Leaves the numbers out of a program."""


@dataclass(frozen=True)
class Job:
    """What is to be compiled, and how."""

    text: str
    debug_text: DebugText | None
    target: Target
    flag_sets: list[FlagSet]
    hints: ProgramHints
    verify: bool
    """Whether the compiler checks its intermediate forms between passes. That takes an eighth to a
    fifth of the time of a compile. Of 1233 programs it turned one down that compiled without it, to
    wrong code."""
    parallel: bool
    where: str
    """Where the compiler runs, as the setting ``compiler`` says."""
    timeout: limits.Timeout = "auto"
    """The seconds that an attempt may take in a helper process, as the setting says."""
    separate: bool = False
    """Whether operations are not to be fused, and nothing else is to be tried."""
    timepoints: bool = False
    """Whether all timepoints are kept (`keep_timepoints.py`)."""
    make_template: MakeTemplate | None = None
    watch: Stopwatch | None = None
    """What is told of the phases of a compile, past the cache."""
    shortcuts: frozenset[str] = shortcuts.ALL
    """The shortcuts around IREE's own way that may be taken."""
    interruption: Interruption = field(default_factory=Interruption)
    advance: Advance = field(default_factory=lambda: Advance("a program"))

    def changes(self) -> tuple[Change, ...]:
        """What is changed in the program while IREE compiles it."""
        # Whether the program may free arrays while it runs.
        frees = self.target.host_memory or not (self.separate or self.hints.has_barriers)
        has_branches = self.hints.has_control_flow
        return changes_for(
            has_branches=has_branches,
            frees=frees,
            separate=self.separate,
            timepoints=self.timepoints,
        )

    def patches(self) -> tuple[Patch, ...]:
        """What is changed in the compiled module."""
        return patches_for(
            has_branches=self.hints.has_control_flow, has_shaders=self.target.shaders
        )

    @property
    def keeps_dispatches(self) -> bool:
        """Whether its dispatches are compiled one by one, and kept for other programs."""
        other_passes = self.separate or self.timepoints or self.hints.has_control_flow
        allowed = shortcuts.DISPATCHES in self.shortcuts
        return allowed and self.target.keeps_dispatches and not other_passes

    def cache_key(self) -> bytes:
        """The key of its module in the disk cache."""
        digest = hashlib.sha256()
        target = self.target
        parts = [
            installed.version_of_modules(),
            target.name,
            target.machine_key(),
            str(self.verify),
        ]
        parts += ["\n".join(flags) for flags in self.flag_sets]
        parts += [post_pass.key for post_pass in (*self.patches(), *self.changes())]
        if self.keeps_dispatches:
            parts += [f"dispatches {dispatches.REVISION}", templates.REVISION]
        if not self.verify and any(map(short_passes.are_for, self.flag_sets)):
            parts.append(f"short passes {short_passes.REVISION}")
        if any(map(objects.is_possible, self.flag_sets)):
            parts.append(f"tiles {tiles.REVISION}")
        without = sorted(shortcuts.ALL - self.shortcuts)
        if without:
            parts.append(f"without {without}")
        if not self.separate:
            # What is kept under the key may be the form that is taken when all others fail.
            parts.append(SEPARATE_OPERATIONS.key)
        for part in (*parts, self.text):
            data = part.encode()
            # The length before each part keeps different splits of the same bytes apart.
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        return digest.digest()

    @property
    def template(self) -> Template | None:
        """The program with its numbers left out, if it is to be compiled so.

        Without a cache no other program would have anything of it.
        """
        allowed = shortcuts.TEMPLATES in self.shortcuts and self.keeps_dispatches
        if self.make_template is None or not allowed or default_cache() is None:
            return None
        return shortcuts.attempt(shortcuts.TEMPLATES, self.make_template)

    def template_key(self, template: Template) -> bytes:
        """The key of the module of a template of the program."""
        key = replace(self, text=template.text).cache_key()
        return hashlib.sha256(key + b"template").digest()

    def kind(self) -> tuple[Any, ...]:
        """What programs have in common that can be compiled together."""
        changes = tuple(change.key for change in self.changes())
        flags = tuple(self.flag_sets[0])
        return self.target.name, self.target.machine_key(), flags, changes, self.verify, self.where


def new_job(
    text: str,
    target: Target,
    hints: ProgramHints,
    debug_text: DebugText | None = None,
    separate: bool = False,
    template: MakeTemplate | None = None,
) -> Job:
    """A compile by the settings of now."""
    flag_sets = target.flag_sets(hints)
    return Job(
        text,
        debug_text,
        target,
        flag_sets[-1:] if separate else flag_sets,
        hints,
        state.enable_checks,
        state.parallel_compiles,
        state.compiler,
        state.compiler_timeout,
        separate,
        shortcuts=versions.of_installed().shortcuts(state.shortcuts),
        # It is asked for by each form of the job.
        make_template=None if template is None else cache(template),
        advance=Advance(program_name(text)),
    )


def merged_key(key: bytes) -> bytes:
    """The key of a module that holds other programs besides."""
    return hashlib.sha256(key + merging.REVISION.encode()).digest()
