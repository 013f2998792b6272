"""The forms in which a program is compiled, one after the other until one of them compiles."""

from __future__ import annotations

import functools
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from xpr.lowering.cache import default_cache
from xpr.lowering.iree import (
    dispatches,
    driver,
    keep_timepoints,
    limits,
    merging,
    numbers,
    shortcuts,
    versions,
)
from xpr.lowering.iree.failures import TEXT_NAME, Failure, program_name, source_location
from xpr.lowering.iree.invocation import Diagnostic
from xpr.lowering.iree.jobs import Job
from xpr.lowering.iree.places import first_location
from xpr.lowering.iree.shader_barriers import UnorderedShaderError
from xpr.lowering.iree.vm_code import UnknownVersionError
from xpr.lowering.targets.flags import FlagSet
from xpr.lowering.templates import Template

_log = logging.getLogger("xpr.compile")

# IREE ends the process when it cannot write its intermediate files, so we look first.
_TEMPORARY_BYTES = 4 << 20

_UNORDERED = (
    "a dispatch would read from shared memory what other invocations have yet to write, and no "
    "barrier can be put between"
)
_UNSAFE = (
    "the program has loops or branches on the host, in which IREE may lose an array. xpr prevents "
    "that in modules of known versions, got {}. Install iree-base-compiler and iree-base-runtime {}"
)


@dataclass(frozen=True)
class Compiled:
    """A compiled program."""

    module: bytes
    separate: bool = False
    """Whether it took barriers behind all operations to compile it."""
    location: tuple[str, int, int] | None = None
    """The user's line at which the compile failed without them, if it is known."""
    merged: bool = False
    """Whether other programs are in the module, too."""
    unfilled: bytes | None = None
    """The module without its numbers, if it can be that of other programs."""


Outcome = Compiled | Failure


def compile_job(job: Job) -> Outcome:
    """The module of a program, in the first form that compiles; else why the last one failed."""
    _check_temporary_directory()
    outcome: Outcome = Failure(job.text, [])
    flag_sets = job.flag_sets
    if job.template is not None:
        found = _without_numbers(job, job.template)
        if isinstance(found, Compiled):
            return found
        if found is not None and found.too_long:
            outcome, flag_sets = found, []
    for flags in flag_sets:
        outcome = _attempt(job, job.text, flags, job.verify)
        if isinstance(outcome, Compiled):
            return outcome
        if outcome.too_long:
            break  # other flags would hardly make it quick
    plainest = job.flag_sets[-1]
    if job.debug_text is not None and not outcome.too_long:
        # The plainest flags leave the program closest to what was written. Should the compile
        # succeed this time, then an outside cause (Ctrl-C killed the linker, which is a process of
        # its own) has gone: the module differs from the wanted one in nothing that matters.
        located = _attempt(job, job.debug_text(), plainest, verify=True)
        if isinstance(located, Compiled):
            return located
        outcome = located
    if not job.separate:
        alone = _attempt(replace(job, separate=True), job.text, plainest, job.verify)
        if isinstance(alone, Compiled):
            failed = outcome.text
            if outcome.too_long and job.debug_text is not None:
                failed = job.debug_text()
            location = source_location(outcome.diagnostics) or first_location(failed)
            return replace(alone, separate=True, location=location)
        if alone.too_long:
            return replace(outcome, too_long=True)
    return outcome


def _without_numbers(job: Job, template: Template) -> Outcome | None:
    """Compiles the template of a program; None if its module has no place for a number."""
    found = _attempt(replace(job, text=template.text), template.text, job.flag_sets[0], job.verify)
    if isinstance(found, Failure):
        return replace(found, text=job.text)
    module = shortcuts.attempt(shortcuts.TEMPLATES, numbers.filled, found.module, template)
    if module is None:
        _log.info("%s is compiled with its numbers", program_name(job.text))
        return None
    return replace(found, module=module, unfilled=found.module)


def compile_merged(jobs: Sequence[Job]) -> list[bytes] | None:
    """Compiles small programs as one module; None if that fails, so that each is to go alone."""
    _check_temporary_directory()
    text = shortcuts.attempt(shortcuts.MERGING, merging.merged, [job.text for job in jobs])
    if text is None:
        return None
    job = replace(jobs[0], text=text, debug_text=None)
    outcome = _attempt(job, job.text, job.flag_sets[0], job.verify)
    if isinstance(outcome, Failure):
        return None
    return shortcuts.attempt(shortcuts.MERGING, merging.programs, outcome.module, len(jobs))


def _attempt(job: Job, text: str, flags: FlagSet, verify: bool) -> Outcome:
    job.interruption.check()
    if job.watch is not None:
        job.watch.flags, job.watch.separate = flags, job.separate
        job.watch.attempts += 1
    try:
        module, diagnostics = run_compiler(job, text, flags, verify)
    except TimeoutError as error:
        return Failure(text, [Diagnostic("error", f"{error}")], too_long=True)
    if module is not None:
        return _finished(module, job)
    if not job.timepoints and keep_timepoints.is_needed(d.message for d in diagnostics):
        return _attempt(replace(job, timepoints=True), text, flags, verify)
    return Failure(text, diagnostics)


def run_compiler(
    job: Job, text: str, flags: FlagSet, verify: bool
) -> tuple[bytes | None, list[Diagnostic]]:
    """Runs the compiler, in the process that the settings say: a module, or what it says."""
    cache = default_cache()
    # What is compiled to find out why it fails is compiled in the compiler's own way.
    keeps = job.keeps_dispatches and text is job.text
    options: dict[str, Any] = {
        "name": TEXT_NAME,
        "verify": verify,
        "parallel": job.parallel,
        "changes": job.changes(),
        "dispatches": cache.dispatches if keeps and cache is not None else None,
        "tell": job.advance.passed,
        "allowed": job.shortcuts,
    }
    job.advance.begin()
    if job.watch is not None:
        options |= {"watch": job.watch, "dispatches": dispatches.Nowhere() if keeps else None}
    if job.where == "process" or (job.where == "auto" and sys.platform == "linux"):
        from xpr.lowering.iree.process import client  # noqa: PLC0415 - not on all systems

        try:
            given: dict[str, Any] = {
                "timeout": limits.seconds(job.timeout, text, separate=job.separate),
                "begins_within": limits.seconds_to_begin(job.timeout),
                "interruption": job.interruption,
            }
            try:
                return client.compile_module(text, flags, **options, **given)
            except client.CompilerDiedError:
                plain = job.shortcuts & shortcuts.OF_PROCESSES
                if job.shortcuts == plain:
                    raise
            # It may not die of the compiler's own way.
            options |= {"allowed": plain}
            return client.compile_module(text, flags, **options, **given)
        except client.CompilerDiedError as error:
            return None, [Diagnostic("error", f"{error}")]
        except client.UnavailableError as error:
            if job.where == "process":
                warn_unavailable(f"{error}")
    return driver.compile_module(text, flags, **options)


@functools.cache
def warn_unavailable(reason: str) -> None:
    warnings.warn(
        f"programs are compiled in this process, though XPR_COMPILER=process: {reason}",
        RuntimeWarning,
        stacklevel=2,
    )


def _finished(module: bytes, job: Job) -> Outcome:
    """The module with what IREE left out of its code."""
    try:
        for patch in job.patches():
            module = patch.apply(module)
    except UnorderedShaderError:
        return Failure(job.text, [Diagnostic("error", _UNORDERED)])
    except UnknownVersionError as error:
        return Failure(job.text, [Diagnostic("error", _UNSAFE.format(error, versions.supported()))])
    return Compiled(module)


def _check_temporary_directory() -> None:
    directory = next(
        (os.environ[name] for name in ("TMPDIR", "TMP", "TEMP", "TEMPDIR") if os.environ.get(name)),
        None,
    )
    # The places that LLVM looks at, in its order; Windows and macOS have a default of their own.
    if directory is None and sys.platform not in ("win32", "darwin"):
        directory = "/tmp"
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.truncate(_TEMPORARY_BYTES)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, _TEMPORARY_BYTES)
    except OSError as error:
        raise OSError(
            error.errno,
            f"compiling requires {_TEMPORARY_BYTES >> 20} MB in the directory for temporary files, "
            f"but writing there failed ({error.strerror}); set TMPDIR to another directory",
            directory,
        ) from error
