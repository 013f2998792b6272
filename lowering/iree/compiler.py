"""StableHLO text to an IREE module, through the disk cache or the compiler."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from xpr.core.config import state
from xpr.core.errors import CompileError
from xpr.core.progress import phase
from xpr.lowering.cache import default_cache
from xpr.lowering.iree import c_api, dispatches, fallbacks, merging, stopwatch
from xpr.lowering.iree.c_api import Diagnostic
from xpr.lowering.iree.interruption import Interruption
from xpr.lowering.iree.patch_vm_bytecode import with_copies
from xpr.lowering.iree.post_passes import SEPARATE_OPERATIONS, Change, changes_for
from xpr.lowering.iree.requests import Bundle, Request, Requests, when_threads_end
from xpr.lowering.iree.shader_barriers import UnorderedShaderError, with_barriers
from xpr.lowering.iree.stopwatch import Stopwatch
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import FlagSet, ProgramHints
from xpr.runtimes import shutdown

# The name that diagnostics give for places in the text itself, which mean nothing to the user.
_TEXT_NAME = "stablehlo"

# IREE ends the process when it cannot write its intermediate files, so we look first.
_TEMPORARY_BYTES = 4 << 20

# Branches and loops become branches in the code of a module, which is changed then
# (`iree/patch_vm_bytecode.py`).
# The number is the revision of that change: it tells the modules in the cache apart.
_BRANCHES_REVISION = "branches copy 3"
# The same for the barriers in shaders (`iree/shader_barriers.py`).
_BARRIERS_REVISION = "barriers 1"

_QUIET_SECONDS = 2.0
"""A compile that takes longer is told of on a terminal."""

_UNORDERED = (
    "a dispatch would read from shared memory what other invocations have yet to write, and no "
    "barrier can be put between"
)

_NAME = re.compile(r"module @(\w+)")

DebugText = Callable[[], str]
"""Makes the text of a program with the user's places in it."""


@dataclass(frozen=True)
class _Failure:
    text: str
    diagnostics: list[Diagnostic]
    too_long: bool = False
    """Whether the compiler was given up because of the time it took."""


@dataclass(frozen=True)
class _Compiled:
    module: bytes
    separate: bool = False
    """Whether it took barriers behind all operations to compile it."""
    location: tuple[str, int, int] | None = None
    """The user's line at which the compile failed without them, if it is known."""
    merged: bool = False
    """Whether other programs are in the module, too."""


_Outcome = _Compiled | _Failure


@dataclass(frozen=True)
class _Job:
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
    timeout: float | None = None
    """The seconds that an attempt may take in a helper process."""
    separate: bool = False
    """Whether operations are not to be fused, and nothing else is to be tried."""
    watch: Stopwatch | None = None
    """What is told of the phases of a compile in this process."""
    interruption: Interruption = field(default_factory=Interruption)


class Compile:
    """The compile of a program: under way, or done."""

    def __init__(
        self, job: _Job, request: Request | None, started_here: bool, module: bytes
    ) -> None:
        self._job = job
        self._request = request
        self._started_here = started_here
        self._module = module

    def is_done(self) -> bool:
        """Whether `result` would not wait."""
        return self._request is None or self._request.future.done()

    @shutdown.enters_iree
    def result(self) -> bytes:
        """Waits for the module; raises as `compile_stablehlo` does."""
        if shutdown.is_near:
            shutdown.stop_other_threads()
        if self._request is not None:
            with phase(self._what, patience=_QUIET_SECONDS):
                outcome: _Outcome = _requests.wait(self._request)
            if isinstance(outcome, _Failure):
                raise _compile_error(outcome, self._job.target)
            if outcome.separate and self._started_here:
                name = _program_name(self._job.text)
                fallbacks.warn(name, outcome.location, fallbacks.SEPARATE)
            self._request, self._module = None, outcome.module
        return self._module

    def _what(self) -> str:
        """What is compiled, for whoever wonders why it takes so long."""
        debug_text = self._job.debug_text
        found = _first_location(debug_text()) if debug_text is not None else None
        where = f" ({found[0]}:{found[1]})" if found else ""
        return f"compiling {_program_name(self._job.text)}{where}"

    def on_end(self, function: Callable[[], None]) -> None:
        """Has a function called when the compile is done: in some thread, or at once."""
        if self._request is None:
            function()
        else:
            self._request.future.add_done_callback(lambda _: function())


def compile_stablehlo(
    text: str,
    target: Target,
    *,
    hints: ProgramHints,
    debug_text: DebugText | None = None,
    separate: bool = False,
) -> bytes:
    """Compile a StableHLO module to the bytes of an IREE module (``.vmfb``) for ``target``.

    ``text`` must be deterministic: it is the cache key, with the flags, the target, the machine
    and the compiler's version. ``debug_text`` gives the same program with ``loc(...)``; it is only
    compiled after a failure, so that the error can name the user's line.

    A program that no set of flags compiles is compiled with a barrier behind each operation, which
    gives a warning that names the user's line. With ``separate`` nothing else is tried.

    Ctrl-C takes effect at once: it ends the compile in a helper process; one in this process goes
    on in the background and its result is dropped.

    Raises ``CompileError`` if no set of flags compiles the program, ``OSError`` if the directory
    for temporary files cannot be written, and ``ImportError`` if a compile is needed and the
    compiler is not installed.
    """
    start = functools.partial(start_compile, text, target, hints=hints, debug_text=debug_text)
    return start(separate=separate).result()


@shutdown.enters_iree
def start_compile(
    text: str,
    target: Target,
    *,
    hints: ProgramHints,
    debug_text: DebugText | None = None,
    separate: bool = False,
    mergeable: bool = False,
    wanted: bool = False,
) -> Compile:
    """Starts what `compile_stablehlo` does, and does not wait for it.

    With ``mergeable`` the module may hold other programs besides, which is of use where it is only
    to run here. A compile that is ``wanted`` goes on though nobody waits for it.
    """
    if shutdown.is_near:
        shutdown.stop_other_threads()
    job = _job(text, target, hints, debug_text, separate)
    watch = stopwatch.current()
    if watch is not None:
        return Compile(job, None, True, _watched(job, watch))
    key = _cache_key(job)
    cache = default_cache()
    module = cache.get(key) if cache is not None else None
    if module is not None:
        return Compile(job, None, True, module)
    places = cache.noted(key).get("equations") if cache is not None else None
    if places is not None:
        raise KnownFailureError(text, frozenset(places))
    kind = None
    if mergeable and merging.is_mergeable(text) and not (separate or hints.has_control_flow):
        kind = _kind(job)
        merged_key = _merged_key(key)
        module = cache.get(merged_key) if cache is not None else None
        if module is not None:
            return Compile(job, None, True, module)
    request, started_here = _requests.ask(_merged_key(key) if kind else key, (key, job), kind)
    request.wanted = request.wanted or wanted
    return Compile(job, request, started_here, b"")


def _merged_key(key: bytes) -> bytes:
    return hashlib.sha256(key + merging.REVISION.encode()).digest()


def _kind(job: _Job) -> tuple[Any, ...]:
    """What programs have in common that can be compiled together."""
    changes = tuple(change.key for change in _changes(job))
    flags = tuple(job.flag_sets[0])
    return job.target.name, job.target.machine_key(), flags, changes, job.verify, job.where


def _watched(job: _Job, watch: Stopwatch) -> bytes:
    """Compiles in this thread, past the cache, and has the stages timed."""
    outcome = _compile(replace(job, where="inline", watch=watch))
    if isinstance(outcome, _Failure):
        raise _compile_error(outcome, job.target)
    return outcome.module


class LoweredText(Protocol):
    """A lowered program."""

    @property
    def hints(self) -> ProgramHints:
        """What the choice of flags goes by."""
        ...

    @property
    def debug_text(self) -> DebugText:
        """Writes its text, with places."""
        ...


class TooLongError(CompileError):
    """A program of which no form was compiled in the time that the settings allow."""


class KnownFailureError(CompileError):
    """A program that failed before, with the places of the equations that the host can compute."""

    def __init__(self, text: str, equations: frozenset[int]) -> None:
        super().__init__(
            f"{_program_name(text)} cannot be compiled, as was found before (`xpr cache clear` "
            "forgets that)",
            stablehlo_path=None,
            diagnostics="",
            source_location=None,
        )
        self.equations = equations


def note_fallback(text: str, target: Target, hints: ProgramHints, equations: Sequence[int]) -> None:
    """Notes in the cache which equations the host has to compute, for a program that failed."""
    cache = default_cache()
    if cache is not None:
        job = _job(text, target, hints)
        cache.note(_cache_key(job), {"fallback": fallbacks.HOST, "equations": list(equations)})


def _job(
    text: str,
    target: Target,
    hints: ProgramHints,
    debug_text: DebugText | None = None,
    separate: bool = False,
) -> _Job:
    flag_sets = target.flag_sets(hints)
    return _Job(
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
    )


def places_of_dispatches(module: LoweredText, target: Target) -> dict[str, set[str]]:
    """The dispatches that a program is cut into, each with the places of what it computes.

    The program is compiled up to there, in this process. The places are those of its debug text, as
    MLIR writes them. Raises ``CompileError`` if no set of flags compiles the program.
    """
    text = module.debug_text()
    job = _job(text, target, module.hints)
    said: list[Diagnostic] = []
    for flags in job.flag_sets:
        found, said = c_api.places_of_dispatches(text, flags, _changes(job))
        if found is not None:
            return found
    raise _compile_error(_Failure(text, said), target)


def _program_name(text: str) -> str:
    found = _NAME.search(text)
    return found[1] if found else "a program"


def _cache_key(job: _Job) -> bytes:
    digest = hashlib.sha256()
    target = job.target
    parts = [c_api.version(), target.name, target.machine_key(), str(job.verify)]
    parts += ["\n".join(flags) for flags in job.flag_sets]
    if job.hints.has_control_flow:
        parts.append(_BRANCHES_REVISION)
    if target.shaders:
        parts.append(_BARRIERS_REVISION)
    parts += [change.key for change in _changes(job)]
    if _keeps_dispatches(job):
        parts.append(f"dispatches {dispatches.REVISION}")
    if not job.separate:
        # What is kept under the key may be the form that is taken when all others fail.
        parts.append(SEPARATE_OPERATIONS.key)
    for part in (*parts, job.text):
        data = part.encode()
        # The length before each part keeps different splits of the same bytes apart.
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


def _compile_bundle(bundle: Bundle) -> list[_Outcome | BaseException]:
    """Compiles programs that were asked for, and keeps what came of it."""
    jobs: list[tuple[bytes, _Job]] = [request.job for request in bundle.requests]
    jobs = [(key, replace(job, interruption=bundle.interruption)) for key, job in jobs]
    if bundle.beside:
        jobs = [(key, replace(job, parallel=False)) for key, job in jobs]
    modules = _compile_merged([job for _, job in jobs]) if len(jobs) > 1 else None
    found: list[_Outcome | BaseException] = []
    for i, (key, job) in enumerate(jobs):
        try:
            if modules is None:
                outcome = _compile(job)
            else:
                outcome, key = _Compiled(modules[i], merged=True), _merged_key(key)
            if isinstance(outcome, _Compiled) and not job.interruption.requested:
                _keep(key, outcome)
        except BaseException as error:  # it is raised again where the result is awaited
            found.append(error)
        else:
            found.append(outcome)
    return found


def _keep(key: bytes, outcome: _Compiled) -> None:
    cache = default_cache()
    if cache is not None:
        cache.put(key, outcome.module)
        if outcome.separate:
            cache.note(key, {"fallback": fallbacks.SEPARATE})


def _compile_merged(jobs: Sequence[_Job]) -> list[bytes] | None:
    """Compiles small programs as one module; None if that fails, so that each is to go alone."""
    _check_temporary_directory()
    texts = [job.text for job in jobs]
    job = replace(jobs[0], text=merging.merged(texts), debug_text=None)
    outcome = _attempt(job, job.text, job.flag_sets[0], job.verify)
    if isinstance(outcome, _Failure):
        return None
    try:
        return [merging.program(outcome.module, i) for i in range(len(jobs))]
    except merging.NotMergedError:
        return None


_requests = Requests(_compile_bundle, merging.MOST)
together = _requests.together
"""In such a block compiles are started together, at its end."""

# Nobody needs them any more, and the end of the process is not to wait for them.
when_threads_end(_requests.end_unawaited)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_requests.reset)


def _compile(job: _Job) -> _Outcome:
    _check_temporary_directory()
    outcome: _Outcome = _Failure(job.text, [])
    for flags in job.flag_sets:
        outcome = _attempt(job, job.text, flags, job.verify)
        if isinstance(outcome, _Compiled):
            return outcome
        if outcome.too_long:
            break  # other flags would hardly make it quick
    plainest = job.flag_sets[-1]
    if job.debug_text is not None and not outcome.too_long:
        # The plainest flags leave the program closest to what was written. Should the compile
        # succeed this time, then an outside cause (Ctrl-C killed the linker, which is a process of
        # its own) has gone: the module differs from the wanted one in nothing that matters.
        located = _attempt(job, job.debug_text(), plainest, verify=True)
        if isinstance(located, _Compiled):
            return located
        outcome = located
    if not job.separate:
        alone = _attempt(replace(job, separate=True), job.text, plainest, job.verify)
        if isinstance(alone, _Compiled):
            failed = outcome.text
            if outcome.too_long and job.debug_text is not None:
                failed = job.debug_text()
            location = _source_location(outcome.diagnostics) or _first_location(failed)
            return replace(alone, separate=True, location=location)
        if alone.too_long:
            return replace(outcome, too_long=True)
    return outcome


def _attempt(job: _Job, text: str, flags: FlagSet, verify: bool) -> _Outcome:
    job.interruption.check()
    try:
        module, diagnostics = _run(job, text, flags, verify)
    except TimeoutError as error:
        return _Failure(text, [Diagnostic("error", f"{error}")], too_long=True)
    return _Failure(text, diagnostics) if module is None else _finished(module, job)


def _run(
    job: _Job, text: str, flags: FlagSet, verify: bool
) -> tuple[bytes | None, list[Diagnostic]]:
    cache = default_cache()
    # What is compiled to find out why it fails is compiled in the compiler's own way.
    keeps = _keeps_dispatches(job) and text is job.text
    options: dict[str, Any] = {
        "name": _TEXT_NAME,
        "verify": verify,
        "parallel": job.parallel,
        "changes": _changes(job),
        "dispatches": cache.dispatches if keeps and cache is not None else None,
    }
    if job.watch is not None:
        options |= {"watch": job.watch, "dispatches": dispatches.Nowhere() if keeps else None}
    if job.where == "process" or (job.where == "auto" and sys.platform == "linux"):
        from xpr.lowering.iree.process import client  # noqa: PLC0415 - not on all systems

        try:
            limits: dict[str, Any] = {"timeout": job.timeout, "interruption": job.interruption}
            try:
                return client.compile_module(text, flags, **options, **limits)
            except client.CompilerDiedError:
                if options["dispatches"] is None:
                    raise
            options["dispatches"] = None
            return client.compile_module(text, flags, **options, **limits)
        except client.CompilerDiedError as error:
            return None, [Diagnostic("error", f"{error}")]
        except client.UnavailableError as error:
            if job.where == "process":
                _warn_unavailable(f"{error}")
    return c_api.compile_module(text, flags, **options)


def _keeps_dispatches(job: _Job) -> bool:
    return job.target.keeps_dispatches and not job.separate and not job.hints.has_control_flow


@functools.cache
def _warn_unavailable(reason: str) -> None:
    warnings.warn(
        f"programs are compiled in this process, though XPR_COMPILER=process: {reason}",
        RuntimeWarning,
        stacklevel=2,
    )


def _changes(job: _Job) -> tuple[Change, ...]:
    return changes_for(
        has_branches=job.hints.has_control_flow, frees=_frees(job), separate=job.separate
    )


def _frees(job: _Job) -> bool:
    """Whether the program may free arrays while it runs."""
    return job.target.host_memory or not (job.separate or job.hints.has_barriers)


def _finished(module: bytes, job: _Job) -> _Outcome:
    """The module with what IREE left out of its code."""
    if job.hints.has_control_flow:
        module = with_copies(module)
    try:
        return _Compiled(with_barriers(module) if job.target.shaders else module)
    except UnorderedShaderError:
        return _Failure(job.text, [Diagnostic("error", _UNORDERED)])


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


# A diagnostic starts with "file:line:column: "; its notes follow on lines of their own.
_LOCATION = re.compile(r"^(?P<file>\S.*?):(?P<line>\d+):(?P<column>\d+): ", re.M)


def _source_location(diagnostics: list[Diagnostic]) -> tuple[str, int, int] | None:
    by_severity = sorted(diagnostics, key=lambda diagnostic: diagnostic.severity != "error")
    for diagnostic in by_severity:
        for match in _LOCATION.finditer(diagnostic.message):
            if match["file"] != _TEXT_NAME:
                return match["file"], int(match["line"]), int(match["column"])
    return None


# Where an operation comes from, in a program with places.
_PLACE = re.compile(r' loc\("((?:[^"\\]|\\.)*)":(\d+):(\d+)\)')


def _first_location(text: str) -> tuple[str, int, int] | None:
    """The user's line of a program's first operation."""
    found = _PLACE.search(text)
    return (found[1], int(found[2]), int(found[3])) if found else None


def _compile_error(failure: _Failure, target: Target) -> CompileError:
    said = "\n".join(f"{d.severity}: {d.message}" for d in failure.diagnostics)
    location = _source_location(failure.diagnostics)
    where = f" (at {location[0]}:{location[1]}:{location[2]})" if location else ""
    path, saved = _save(failure.text)
    error = TooLongError if failure.too_long else CompileError
    return error(
        f"the program{where} cannot be compiled for target {target.name!r}. {saved} "
        f"The compiler says:\n{said or 'nothing'}",
        stablehlo_path=path,
        diagnostics=said,
        source_location=location,
    )


def _save(text: str) -> tuple[str | None, str]:
    """Keep a program that failed: the file, and the sentence that names it."""
    try:
        descriptor, path = tempfile.mkstemp(prefix="xpr-failed-", suffix=".mlir")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        return None, f"Its StableHLO could not be saved ({error})."
    return path, f"Its StableHLO is in {path}."
