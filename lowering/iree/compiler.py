"""StableHLO text to an IREE module, through the disk cache or the compiler."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from xpr.core.progress import phase
from xpr.lowering.cache import default_cache
from xpr.lowering.iree import (
    attempts,
    driver,
    fallbacks,
    installed,
    merging,
    numbers,
    self_test,
    shortcuts,
    stopwatch,
)
from xpr.lowering.iree.attempts import Compiled, Outcome
from xpr.lowering.iree.failures import (
    Failure,
    KnownFailureError,
    compile_error,
    program_name,
)
from xpr.lowering.iree.invocation import Diagnostic
from xpr.lowering.iree.jobs import DebugText, Job, MakeTemplate, merged_key, new_job
from xpr.lowering.iree.places import Line, first_location
from xpr.lowering.iree.requests import Bundle, Request, Requests, when_threads_end
from xpr.lowering.iree.stopwatch import Stopwatch
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints
from xpr.runtimes import fork, shutdown

_QUIET_SECONDS = 2.0
"""A compile that takes longer is told of on a terminal."""


class Compile:
    """The compile of a program: under way, or done."""

    def __init__(
        self,
        job: Job,
        request: Request | None,
        started_here: bool,
        module: bytes,
        kept_as: bytes | None = None,
    ) -> None:
        self._job = job
        self._request = request
        self._started_here = started_here
        self._module = module
        self.kept_as = kept_as
        """The key under which the cache has the module as the program it is, once there is one."""

    def is_done(self) -> bool:
        """Whether `result` would not wait."""
        return self._request is None or self._request.future.done()

    @shutdown.enters_iree
    def result(self) -> bytes:
        """Waits for the module; raises as `compile_stablehlo` does."""
        if shutdown.is_near:
            shutdown.stop_other_threads()
        if self._request is not None:
            job: Job = self._request.job[1]  # somebody else's, if they were the first to ask
            with phase(self._what, patience=_QUIET_SECONDS, fraction=lambda: job.advance.fraction):
                outcome: Outcome = _requests.wait(self._request)
            if isinstance(outcome, Failure):
                raise compile_error(outcome, self._job.target)
            if not outcome.separate:
                key = self._job.cache_key()
                self.kept_as = merged_key(key) if outcome.merged else key
            elif self._started_here:
                name = program_name(self._job.text)
                fallbacks.warn(name, outcome.location, fallbacks.SEPARATE)
            self._request, self._module = None, outcome.module
        return self._module

    def _what(self) -> str:
        """What is compiled, for whoever wonders why it takes so long."""
        debug_text = self._job.debug_text
        found = first_location(debug_text()) if debug_text is not None else None
        where = f" ({found[0]}:{found[1]})" if found else ""
        return f"compiling {program_name(self._job.text)}{where}"

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
    template: MakeTemplate | None = None,
    mergeable: bool = False,
    wanted: bool = False,
) -> Compile:
    """Starts what `compile_stablehlo` does, and does not wait for it.

    With ``mergeable`` the module may hold other programs besides, which is of use where it is only
    to run here. A compile that is ``wanted`` goes on though nobody waits for it. ``template``
    leaves the numbers out of the program, whose module can then serve others.
    """
    if shutdown.is_near:
        shutdown.stop_other_threads()
    job = self_test.checked(new_job(text, target, hints, debug_text, separate, template))
    watch = stopwatch.current()
    if watch is not None:
        return Compile(job, None, True, _watched(job, watch))
    key = job.cache_key()
    cache = default_cache()
    module = cache.get(key) if cache is not None else None
    if cache is not None and module is not None:
        return Compile(job, None, True, module, None if cache.noted(key) else key)
    places = cache.noted(key).get("equations") if cache is not None else None
    if places is not None:
        raise KnownFailureError(text, frozenset(places))
    kind = None
    mergeable = mergeable and not (separate or hints.has_control_flow)
    if mergeable and shortcuts.MERGING in job.shortcuts and merging.is_mergeable(text):
        kind = job.kind()
        module = cache.get(merged_key(key)) if cache is not None else None
        if module is not None:
            return Compile(job, None, True, module, merged_key(key))
    module = _from_template(job)
    if module is not None:
        _keep(key, job, Compiled(module))
        return Compile(job, None, True, module, key)
    request, started_here = _requests.ask(merged_key(key) if kind else key, (key, job), kind)
    request.wanted = request.wanted or wanted
    return Compile(job, request, started_here, b"")


def _from_template(job: Job) -> bytes | None:
    """The module of a program, if the cache has that of one with other numbers."""
    cache, template = default_cache(), job.template
    if cache is None or template is None:
        return None
    found = cache.dispatches.get(job.template_key(template))
    if found is None:
        return None
    return shortcuts.attempt(shortcuts.TEMPLATES, numbers.filled, found, template)


def _watched(job: Job, watch: Stopwatch) -> bytes:
    """Compiles past the cache, and has the stages timed."""
    cache, key = default_cache(), job.cache_key()
    if cache is not None:
        kept = next((k for k in (key, merged_key(key)) if cache.get(k) is not None), None)
        watch.entry = None if kept is None else os.fspath(cache.path(kept))
    outcome = attempts.compile_job(replace(job, watch=watch))
    if isinstance(outcome, Failure):
        raise compile_error(outcome, job.target)
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


def note_fallback(text: str, target: Target, hints: ProgramHints, equations: Sequence[int]) -> None:
    """Notes in the cache which equations the host has to compute, for a program that failed."""
    cache = default_cache()
    if cache is not None:
        job = self_test.checked(new_job(text, target, hints))
        cache.note(job.cache_key(), {"fallback": fallbacks.HOST, "equations": list(equations)})


def lines_of_dispatches(module: LoweredText, target: Target) -> dict[str, set[Line]]:
    """The dispatches that a program is cut into, each with the user's lines that it computes.

    The program is compiled up to there, in this process. The lines are those of its debug text.
    Raises ``CompileError`` if no set of flags compiles the program.
    """
    text = module.debug_text()
    job = new_job(text, target, module.hints)
    said: list[Diagnostic] = []
    for flags in job.flag_sets:
        found, said = driver.lines_of_dispatches(text, flags, job.changes())
        if found is not None:
            return found
    raise compile_error(Failure(text, said), target)


def _compile_bundle(bundle: Bundle) -> list[Outcome | BaseException]:
    """Compiles programs that were asked for, and keeps what came of it."""
    jobs: list[tuple[bytes, Job]] = [request.job for request in bundle.requests]
    jobs = [(key, replace(job, interruption=bundle.interruption)) for key, job in jobs]
    if bundle.beside:
        jobs = [(key, replace(job, parallel=False)) for key, job in jobs]
    modules = attempts.compile_merged([job for _, job in jobs]) if len(jobs) > 1 else None
    found: list[Outcome | BaseException] = []
    for i, (key, job) in enumerate(jobs):
        try:
            if modules is None:
                # Another one may have been compiled since it was asked for.
                module = _from_template(job)
                outcome = attempts.compile_job(job) if module is None else Compiled(module)
            else:
                outcome, key = Compiled(modules[i], merged=True), merged_key(key)
            if isinstance(outcome, Compiled) and not job.interruption.requested:
                _keep(key, job, outcome)
        except BaseException as error:  # it is raised again where the result is awaited
            found.append(error)
        else:
            found.append(outcome)
    return found


def _keep(key: bytes, job: Job, outcome: Compiled) -> None:
    cache = default_cache()
    if cache is not None:
        cache.put(key, outcome.module)
        cache.note_compiler(installed.version())
        if outcome.unfilled is not None and job.template is not None:
            cache.dispatches.put(job.template_key(job.template), outcome.unfilled)
        if outcome.separate:
            cache.note(key, {"fallback": fallbacks.SEPARATE})


_requests = Requests(_compile_bundle, merging.MOST)
together = _requests.together
"""In such a block compiles are started together, at its end."""

# Nobody needs them any more, and the end of the process is not to wait for them.
when_threads_end(_requests.end_unawaited)
fork.in_child(_requests.reset)
