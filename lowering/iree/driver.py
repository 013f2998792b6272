"""Drives IREE's compiler: from a program's text to a module, by its phases and ways around them."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import threading
from collections.abc import Callable, Collection, Iterator, Sequence

from xpr.lowering import prebuilt
from xpr.lowering.iree import (
    fusion_check,
    objects,
    sessions,
    short_passes,
    shortcuts,
    tiles,
    translation,
)
from xpr.lowering.iree.compiler_library import Library, load, written
from xpr.lowering.iree.dispatches import (
    FROM,
    TO,
    Store,
    compile_dispatches,
)
from xpr.lowering.iree.invocation import Diagnostic, Invocation, parsed
from xpr.lowering.iree.places import Line, lines_in
from xpr.lowering.iree.post_passes import END, PHASES, START, Change
from xpr.lowering.iree.shortcuts import DeclinedError, RefusedError
from xpr.lowering.iree.stopwatch import Stopwatch
from xpr.lowering.iree.versions.base import Steps
from xpr.runtimes import fork

_DISPATCHES = frozenset({"flow.executable", "hal.executable.source"})
"""What IREE forms of a program, and what a program brings along as it is."""

_OTHER_PASSES = frozenset({shortcuts.SHORT_PASSES, shortcuts.TRANSLATION, shortcuts.DISPATCHES})
"""The shortcuts that run other passes than the compiler would."""

_prepare_lock = threading.Lock()
_prepared: set[frozenset[str]] = set()
"""The targets, by the flags that describe them, for which a compile has ended."""


@fork.in_child
def _renew_lock() -> None:
    """Makes the lock new: a thread that held it in the parent does not exist here."""
    global _prepare_lock
    _prepare_lock = threading.Lock()


def compile_module(
    text: str,
    flags: Sequence[str],
    *,
    name: str,
    verify: bool,
    parallel: bool = True,
    changes: Sequence[Change] = (),
    watch: Stopwatch | None = None,
    dispatches: Store | None = None,
    allowed: Collection[str] = shortcuts.ALL,
    tell: Callable[[str], None] | None = None,
    on_decline: Callable[[DeclinedError], None] = shortcuts.record,
) -> tuple[bytes | None, list[Diagnostic]]:
    """Compile MLIR text: the module's bytes (``None`` on failure) and what the compiler said.

    ``name`` is the file name that diagnostics give for positions in ``text``. ``verify`` has the
    compiler check its intermediate forms between passes; ``parallel`` lets it use several cores.
    ``changes`` are made on the way, in their order; ``watch`` is told of each phase, and ``tell``
    of those at whose end the compile stops anyway.
    ``dispatches`` keeps compiled dispatches for other programs (`dispatches.py`). ``allowed`` are
    the shortcuts that may be taken; ``on_decline`` is called for each that had to be left.
    Safe to call from several threads.

    Raises ``RuntimeError`` if a flag is unknown.
    """
    library = load()
    allowed = library.version.shortcuts(allowed)
    once = functools.partial(
        _compile_once,
        *(library, text, flags, name, verify, parallel, changes, watch, dispatches),
        tell=tell,
    )
    described = frozenset(flag for flag in flags if "-target-" in flag)
    if described not in _prepared:
        # The first compile for a target registers LLVM's code generators. A second one that runs
        # at the same time may find them half registered, which ends the process.
        with _prepare_lock:
            if described not in _prepared:
                result = _without_declined(once, allowed, on_decline)
                _prepared.add(described)
                return result
    return _without_declined(once, allowed, on_decline)


_Compiled = tuple[bytes | None, list[Diagnostic]]


def _without_declined(
    once: Callable[[frozenset[str]], _Compiled],
    allowed: Collection[str],
    on_decline: Callable[[DeclinedError], None],
) -> _Compiled:
    """Compile with the allowed shortcuts, and again without those that decline or raise."""
    left = frozenset(allowed)
    while left:
        try:
            return once(left)
        except DeclinedError as error:
            declined = error
        except (MemoryError, RefusedError):
            raise
        except Exception as error:
            # Not known which shortcut it is, if it is one: the compiler's own way will tell.
            declined = DeclinedError(left, f"{type(error).__name__}: {error}")
        on_decline(declined)
        left -= declined.declined & left or left
    return once(left)


def _compile_once(
    library: Library,
    text: str,
    flags: Sequence[str],
    name: str,
    verify: bool,
    parallel: bool,
    changes: Sequence[Change],
    watch: Stopwatch | None,
    store: Store | None,
    allowed: frozenset[str],
    *,
    tell: Callable[[str], None] | None,
) -> _Compiled:
    """Compile with the shortcuts that are allowed and suit the program.

    Raises `DeclinedError` for a shortcut with which it cannot go on.
    """
    diagnostics: list[Diagnostic] = []
    taken = allowed if objects.is_possible(flags) else allowed - objects.FOR_OBJECTS
    if shortcuts.DISPATCHES not in allowed:
        store = None
    given = (*flags, *objects.FLAGS) if shortcuts.OBJECTS in taken else flags
    steps: Steps = {}
    if shortcuts.SHORT_PASSES in allowed and not verify:
        with shortcuts.declines(shortcuts.SHORT_PASSES):
            steps = short_passes.steps_for(text, flags, library.version)
    # Our own lists say whether constants are hoisted: then programs of either kind share a session.
    # No dispatch depends on it.
    alike = short_passes.hoisting_or_not(flags)
    if steps:
        given = short_passes.hoisting_or_not(given)
    text = prebuilt.with_objects(text)
    with (
        sessions.session(
            library, given, text, parallel=parallel, shared=shortcuts.SESSIONS in allowed
        ) as session,
        parsed(library, session, text, name, verify, diagnostics) as invocation,
    ):
        if invocation is None:
            return None, diagnostics
        if watch is not None:
            watch.passed("parse")
        if tell is not None:
            tell("parse")
        identity = "\0".join((library.revision, *alike, *{shortcuts.TILES} - taken))
        compiling = Invocation(
            library, session, invocation, watch, taken, tell, steps, verify=verify
        )
        if shortcuts.TRANSLATION in taken:
            compiling.translation = translation.passes(flags, library.version)
        checks = fusion_check.is_needed(flags) and not verify
        if not _run(compiling, changes, watch, store, identity, checks=checks):
            used = _OTHER_PASSES & taken
            if steps or (used and store is not None):
                raise DeclinedError(used, "the program does not compile with them")
            return None, diagnostics
        module = written(library, library.InvocationOutputVMBytecode, invocation)
        if watch is not None:
            watch.passed("write")
        session.keep = True
        return module, diagnostics


def text_at(
    phase: str, text: str, flags: Sequence[str], changes: Sequence[Change] = ()
) -> tuple[str | None, list[Diagnostic]]:
    """A program as it is behind one of the `PHASES` of its compile, for those who look inside.

    The passes are the compiler's own, and tiles are as it chooses them. None for a program that
    does not come so far, and what the compiler said.
    """
    diagnostics: list[Diagnostic] = []
    with _at(phase, text, flags, changes, diagnostics) as compiling:
        return None if compiling is None else compiling.text(), diagnostics


def lines_of_dispatches(
    text: str, flags: Sequence[str], changes: Sequence[Change] = ()
) -> tuple[dict[str, set[Line]] | None, list[Diagnostic]]:
    """For each dispatch that a program is cut into, the lines of what it computes.

    None for a program that is not compiled with these flags, and what the compiler said.
    """
    diagnostics: list[Diagnostic] = []
    with _at("flow", text, flags, changes, diagnostics) as compiling:
        if compiling is None:
            return None, diagnostics
        mlir, module = compiling.mlir, compiling.take()
        try:
            found: dict[str, set[Line]] = {}
            calls: dict[str, set[Line]] = {}
            for operation in mlir.operations(module):
                is_dispatch = mlir.name(operation) in _DISPATCHES
                inside: set[Line] = set()
                for inner in mlir.walk(operation):
                    lines = _users(mlir.location_text(inner))
                    inside |= lines
                    if not is_dispatch and mlir.name(inner) == "flow.dispatch":
                        called = _CALLED.search(mlir.attribute_text(inner, "entry_points"))
                        if called is not None:
                            calls.setdefault(called[1], set()).update(lines)
                if is_dispatch:
                    found[json.loads(mlir.attribute_text(operation, "sym_name"))] = inside
            # A kernel that is compiled already has no lines but those of the calls.
            found = {name: lines or calls.get(name, set()) for name, lines in found.items()}
        finally:
            mlir.OperationDestroy(module)
        return found, diagnostics


_CALLED = re.compile(r"@(\w+)")
_OWN_NAME = "stablehlo"
"""What stands for the file in the places of operations that have no line of a user's program."""


def _users(location: str) -> set[Line]:
    return {line for line in lines_in(location) if line[0] != _OWN_NAME}


@contextlib.contextmanager
def _at(
    phase: str,
    text: str,
    flags: Sequence[str],
    changes: Sequence[Change],
    diagnostics: list[Diagnostic],
) -> Iterator[Invocation | None]:
    """A compile that has come to the end of a phase, or None for one that does not get there."""
    library = load()
    before = PHASES.index(phase)
    text = prebuilt.with_objects(text)
    with (
        sessions.session(library, flags, text, parallel=True) as session,
        parsed(library, session, text, _OWN_NAME, True, diagnostics) as invocation,
    ):
        if invocation is None:
            yield None
            return
        compiling = Invocation(library, session, invocation, None)
        reached = START
        try:
            for change in (c for c in changes if PHASES.index(c.phase) <= before):
                if change.phase != reached:
                    compiling.phases(reached, change.phase)
                    reached = change.phase
                if not compiling.change(change):
                    raise RefusedError(change.key)
                reached = change.reaches or reached
            if reached != phase:
                compiling.phases(reached, phase)
        except RefusedError:
            yield None
            return
        yield compiling


def _run(
    compiling: Invocation,
    changes: Sequence[Change],
    watch: Stopwatch | None,
    store: Store | None,
    identity: str,
    *,
    checks: bool,
) -> bool:
    """Runs the compile, with stops for the changes and the watch; whether it came to its end."""
    wanted = {END, *(change.phase for change in changes)} - {START}
    if checks:
        wanted |= {fusion_check.BEFORE, fusion_check.PHASE}
    if compiling.steps:
        wanted |= set(short_passes.PHASES)
    if watch is not None:
        wanted = set(PHASES) - {START}
    if store is not None:
        between = PHASES[PHASES.index(FROM) + 1 : PHASES.index(TO)]
        if any(change.phase in between for change in changes):
            reason = "a change is to be made between the phases of dispatches"
            raise DeclinedError({shortcuts.DISPATCHES}, reason)
        wanted = (wanted | {FROM, TO, "vm"}) - set(between)
    if store is None:
        wanted |= {tiles.PHASE} if compiling.chooses_tiles else set()
        wanted |= {objects.FROM, objects.TO} if compiling.objects_alone else set()
    reached = START
    machine: str | None = None
    try:
        for phase in (START, *sorted(wanted, key=PHASES.index)):
            if phase == TO and store is not None:
                with shortcuts.declines(shortcuts.DISPATCHES):
                    done = compile_dispatches(compiling, store, identity)
                machine = done.machine
                if watch is not None:
                    watch.passed("dispatches")
                    watch.kept, watch.dispatches = done.kept, done.number
            elif phase == objects.TO and reached == objects.FROM:
                compiling.to_hal()
            elif machine is not None and (reached, phase) == (TO, "vm"):
                with shortcuts.declines(shortcuts.DISPATCHES):
                    compiling.passes(machine, "vm")
            elif phase not in (START, reached):
                compiling.phases(reached, phase, checked=checks and phase == fusion_check.PHASE)
            reached = phase
            for change in changes:
                if change.phase != phase:
                    continue
                if not compiling.change(change):
                    return False
                reached = change.reaches or reached
            if phase == "executable-sources" and watch is not None:
                watch.dispatches = compiling.count("hal.executable")
    except RefusedError:
        return False
    return True
