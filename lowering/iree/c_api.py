"""The few functions of IREE's compiler library that we use, called through its C interface.

The library is loaded on the first compile. Going to it directly spares the import of the MLIR
Python bindings (30 ms), and it is the only way to its diagnostics.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xpr.lowering.iree import (
    device_functions,
    fusion_check,
    installed,
    objects,
    plugins,
    prebuilt,
    sessions,
    short_passes,
    tiles,
    translation,
)
from xpr.lowering.iree.dispatches import (
    FROM,
    SOURCES,
    TO,
    RefusedError,
    StoppedError,
    Store,
    compile_dispatches,
)
from xpr.lowering.iree.mlir import Declarations, Functions, Mlir
from xpr.lowering.iree.places import Line, lines_in
from xpr.lowering.iree.post_passes import END, PHASES, START, Change
from xpr.lowering.iree.short_passes import Step, Steps
from xpr.lowering.iree.stopwatch import Stopwatch

_log = logging.getLogger("xpr.compile")

_DISPATCHES = frozenset({"flow.executable", "hal.executable.source"})
"""What IREE forms of a program, and what a program brings along as it is."""

_LIBRARY_NAMES = {"darwin": "libIREECompiler.dylib", "win32": "IREECompiler.dll"}
_API_MAJOR_VERSION = 1
_KNOWN_REVISIONS = "3.13."
_STANDARD_PIPELINE = 0
_SEVERITIES = {0: "note", 1: "warning", 2: "error", 3: "remark"}

_POINTER = ctypes.c_void_p
_OUT_POINTER = ctypes.POINTER(ctypes.c_void_p)
_ON_DIAGNOSTIC = ctypes.CFUNCTYPE(None, ctypes.c_int, _POINTER, ctypes.c_size_t, _POINTER)

# After iree/compiler/embedding_api.h
_FUNCTIONS: Declarations = {
    "GetAPIVersion": (ctypes.c_int, []),
    "GetRevision": (ctypes.c_char_p, []),
    "GlobalInitialize": (None, []),
    "SetupGlobalCL": (
        None,
        [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_char_p, ctypes.c_bool],
    ),
    "ErrorGetMessage": (ctypes.c_char_p, [_POINTER]),
    "ErrorDestroy": (None, [_POINTER]),
    "SessionCreate": (_POINTER, []),
    "SessionDestroy": (None, [_POINTER]),
    "SessionSetFlags": (_POINTER, [_POINTER, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]),
    "SessionBorrowContext": (_POINTER, [_POINTER]),
    "SourceWrapBuffer": (
        _POINTER,
        [_POINTER, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_bool, _OUT_POINTER],
    ),
    "SourceDestroy": (None, [_POINTER]),
    "InvocationCreate": (_POINTER, [_POINTER]),
    "InvocationDestroy": (None, [_POINTER]),
    "InvocationEnableCallbackDiagnostics": (
        None,
        [_POINTER, ctypes.c_int, _ON_DIAGNOSTIC, _POINTER],
    ),
    "InvocationSetVerifyIR": (None, [_POINTER, ctypes.c_bool]),
    "InvocationParseSource": (ctypes.c_bool, [_POINTER, _POINTER]),
    "InvocationPipeline": (ctypes.c_bool, [_POINTER, ctypes.c_int]),
    "InvocationSetCompileFromPhase": (None, [_POINTER, ctypes.c_char_p]),
    "InvocationSetCompileToPhase": (None, [_POINTER, ctypes.c_char_p]),
    "InvocationExportStealModule": (_POINTER, [_POINTER]),
    "InvocationImportStealModule": (ctypes.c_bool, [_POINTER, _POINTER]),
    "InvocationRunPassPipeline": (ctypes.c_bool, [_POINTER, ctypes.c_char_p]),
    "InvocationOutputIR": (_POINTER, [_POINTER, _POINTER]),
    "InvocationOutputVMBytecode": (_POINTER, [_POINTER, _POINTER]),
    "OutputOpenMembuffer": (_POINTER, [_OUT_POINTER]),
    "OutputMapMemory": (
        _POINTER,
        [_POINTER, _OUT_POINTER, ctypes.POINTER(ctypes.c_uint64)],
    ),
    "OutputDestroy": (None, [_POINTER]),
}


class Diagnostic(NamedTuple):
    """One message of the compiler: its severity (``error``, ``warning``...) and its text."""

    severity: str
    message: str


class CompilerNotFoundError(ImportError):
    """The compiler is not installed, or it is one that this version cannot drive."""


class _Library(Functions):
    """The loaded library."""

    prefix = "ireeCompiler"

    def __init__(self, path: Path, alone_for: Sequence[str] | None) -> None:
        dll = ctypes.CDLL(str(path))
        self.bind(dll, _FUNCTIONS)
        version = self.GetAPIVersion()
        if version >> 16 != _API_MAJOR_VERSION:
            raise CompilerNotFoundError(
                f"iree-base-compiler with interface version {_API_MAJOR_VERSION} is required, got "
                f"version {version >> 16} in {path}"
            )
        self.mlir = Mlir(dll)
        self.GlobalInitialize()
        self.process = os.getpid()
        self.revision = (self.GetRevision() or b"").decode()
        # Other versions may not know the options, and an unknown one ends the process.
        if alone_for is not None and self.revision.startswith(_KNOWN_REVISIONS):
            self._set_options([*device_functions.options(), *plugins.options(alone_for)])

    def _set_options(self, options: Sequence[str]) -> None:
        """Sets options of the process, once and before its first session."""
        given = [b"xpr", *(option.encode() for option in options)]
        self.SetupGlobalCL(len(given), (ctypes.c_char_p * len(given))(*given), b"", False)

    def check(self, error: int | None) -> None:
        """Raises ``RuntimeError`` with the library's message if there is an error."""
        if error:
            message = self.ErrorGetMessage(error).decode("utf-8", "replace")
            self.ErrorDestroy(error)
            raise RuntimeError(message)


_load_lock = threading.Lock()
_loaded: list[_Library] = []

_prepare_lock = threading.Lock()
_prepared: set[frozenset[str]] = set()
"""The targets, by the flags that describe them, for which a compile has ended."""


def _after_fork() -> None:
    """Makes the locks new: threads that held them in the parent do not exist here."""
    global _load_lock, _prepare_lock
    _load_lock, _prepare_lock = threading.Lock(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def adopt_threads() -> None:
    """Has compiles use threads in a forked process whose parent had none to leave behind."""
    for library in _loaded:
        library.process = os.getpid()


def is_loaded() -> bool:
    """Whether this process has loaded the compiler."""
    return bool(_loaded)


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
    tell: Callable[[str], None] | None = None,
) -> tuple[bytes | None, list[Diagnostic]]:
    """Compile MLIR text: the module's bytes (``None`` on failure) and what the compiler said.

    ``name`` is the file name that diagnostics give for positions in ``text``. ``verify`` has the
    compiler check its intermediate forms between passes; ``parallel`` lets it use several cores.
    ``changes`` are made on the way, in their order; ``watch`` is told of each phase, and ``tell``
    of those at whose end the compile stops anyway.
    ``dispatches`` keeps compiled dispatches for other programs (`dispatches.py`). Safe to call from
    several threads.

    Raises ``RuntimeError`` if a flag is unknown.
    """
    library = load()
    once = functools.partial(
        _compile_once, library, text, flags, name, verify, parallel, changes, watch, tell=tell
    )
    described = frozenset(flag for flag in flags if "-target-" in flag)
    if described not in _prepared:
        # The first compile for a target registers LLVM's code generators. A second one that runs
        # at the same time may find them half registered, which ends the process.
        with _prepare_lock:
            if described not in _prepared:
                result = _compile(once, dispatches)
                _prepared.add(described)
                return result
    return _compile(once, dispatches)


_Compiled = tuple[bytes | None, list[Diagnostic]]


def _compile(once: Callable[[Store | None, bool], _Compiled], store: Store | None) -> _Compiled:
    try:
        return once(store, True)
    except StoppedError as error:
        _log.info("compiled in the compiler's own way: %s", error)
    return once(None, False)


def _compile_once(
    library: _Library,
    text: str,
    flags: Sequence[str],
    name: str,
    verify: bool,
    parallel: bool,
    changes: Sequence[Change],
    watch: Stopwatch | None,
    store: Store | None,
    shortens: bool,
    tell: Callable[[str], None] | None,
) -> _Compiled:
    diagnostics: list[Diagnostic] = []
    objects_alone = objects.is_possible(flags)
    given = (*flags, *objects.FLAGS) if objects_alone else flags
    steps: Steps = {}
    if shortens and not verify:
        steps = short_passes.steps_for(text, flags, library.revision)
    text = prebuilt.with_objects(text)
    with (
        sessions.session(library, given, text, parallel=parallel) as session,
        _parsed(library, session, text, name, verify, diagnostics) as invocation,
    ):
        if invocation is None:
            return None, diagnostics
        if watch is not None:
            watch.passed("parse")
        if tell is not None:
            tell("parse")
        identity = "\0".join((library.revision, *flags))
        compiling = _Compile(
            library, session, invocation, watch, objects_alone, tell, steps, verify=verify
        )
        if objects_alone and shortens:
            compiling.translation = translation.passes(flags)
        checks = fusion_check.is_needed(flags) and not verify
        if not _run(compiling, changes, watch, store, identity, checks=checks):
            if steps:
                raise StoppedError("it fails with shorter lists of passes")
            return None, diagnostics
        module = _written(library, library.InvocationOutputVMBytecode, invocation)
        if watch is not None:
            watch.passed("write")
        session.keep = True
        return module, diagnostics


def text_at(
    phase: str, text: str, flags: Sequence[str], changes: Sequence[Change] = ()
) -> tuple[str | None, list[Diagnostic]]:
    """A program as it is behind one of the `PHASES` of its compile, for those who look inside.

    None for one that does not come so far, and what the compiler said.
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
) -> Iterator[_Compile | None]:
    """A compile that has come to the end of a phase, or None for one that does not get there."""
    library = load()
    before = PHASES.index(phase)
    text = prebuilt.with_objects(text)
    with (
        sessions.session(library, flags, text, parallel=True) as session,
        _parsed(library, session, text, _OWN_NAME, True, diagnostics) as invocation,
    ):
        if invocation is None:
            yield None
            return
        compiling = _Compile(library, session, invocation, None, objects_alone=False)
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


@contextlib.contextmanager
def _parsed(
    library: _Library,
    session: sessions.Session,
    text: str,
    name: str,
    verify: bool,
    diagnostics: list[Diagnostic],
) -> Iterator[int | None]:
    """A compile that has parsed the program, or None; adds what it says to `diagnostics`."""

    @_ON_DIAGNOSTIC
    def on_diagnostic(severity: int, message: int, size: int, _: object) -> None:
        said = ctypes.string_at(message, size).decode("utf-8", "replace").rstrip()
        diagnostics.append(Diagnostic(_SEVERITIES.get(severity, "error"), said))

    source, invocation = ctypes.c_void_p(), None
    try:
        invocation = library.InvocationCreate(session.handle)
        library.InvocationEnableCallbackDiagnostics(invocation, 0, on_diagnostic, None)
        library.InvocationSetVerifyIR(invocation, verify)
        # The size that a null-terminated buffer is wrapped with counts the terminator.
        data = text.encode()
        library.check(
            library.SourceWrapBuffer(
                session.handle, name.encode(), data, len(data) + 1, True, ctypes.byref(source)
            )
        )
        yield invocation if library.InvocationParseSource(invocation, source) else None
    finally:
        if invocation is not None:
            library.InvocationDestroy(invocation)
        if source:
            library.SourceDestroy(source)


def _run(
    compiling: _Compile,
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
            raise StoppedError("a change is to be made between the phases of dispatches")
        wanted = (wanted | {FROM, TO, "vm"}) - set(between)
    if compiling.objects_alone and store is None:
        wanted |= {tiles.PHASE, objects.FROM, objects.TO}
    reached = START
    machine: str | None = None
    try:
        for phase in (START, *sorted(wanted, key=PHASES.index)):
            if phase == TO and store is not None:
                done = compile_dispatches(compiling, store, identity)
                machine = done.machine
                if watch is not None:
                    watch.passed("dispatches")
                    watch.kept, watch.dispatches = done.kept, done.number
            elif phase == objects.TO and reached == objects.FROM:
                compiling.to_hal()
            elif machine is not None and (reached, phase) == (TO, "vm"):
                compiling.passes(machine, "vm")
            elif phase not in (START, reached):
                compiling.phases(reached, phase, checked=checks and phase == fusion_check.PHASE)
            if phase == tiles.PHASE and compiling.objects_alone:
                compiling.edit(tiles.smaller_tiles)
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


class _Compile:
    """A compile that has come to some phase."""

    def __init__(
        self,
        library: _Library,
        session: sessions.Session,
        invocation: int,
        watch: Stopwatch | None,
        objects_alone: bool,
        tell: Callable[[str], None] | None = None,
        steps: Steps | None = None,
        *,
        verify: bool = True,
    ) -> None:
        self.mlir = library.mlir
        self.objects_alone = objects_alone
        self.steps = steps or {}
        """What is run in place of phases of the compiler's own."""
        self.translation: str | None = None
        """The passes that translate dispatches, where they stand for the compiler's own."""
        self._library = library
        self._session = session
        self._verify = verify
        self._invocation = invocation
        self._watch = watch
        self._tell = tell

    def _passed(self, stage: str) -> None:
        if self._tell is not None:
            self._tell(stage)
        if self._watch is not None:
            self._watch.passed(stage)

    def passes(self, pipeline: str, stage: str) -> None:
        if self._verify:
            done = self._library.InvocationRunPassPipeline(self._invocation, pipeline.encode())
        else:
            module = self.take()
            manager = self._session.manager(pipeline)
            done = isinstance(manager, int) and self.mlir.PassManagerRunOnOp(manager, module)
            self.give(module)
        if not done:
            raise StoppedError(f"the compiler does not run {pipeline}")
        self._passed(stage)

    def phases(self, after: str, to: str, *, checked: bool = False) -> None:
        if to in self.steps:
            self._step(self.steps[to], to, checked=checked)
            return
        if checked:
            self._library.InvocationSetVerifyIR(self._invocation, True)
        if self.is_refused(after, to):
            raise RefusedError(to)
        if checked:
            self._library.InvocationSetVerifyIR(self._invocation, False)

    def _step(self, step: Step, to: str, *, checked: bool) -> None:
        module = self.take()
        try:
            for passes in step.passes:
                self._run(passes, module)
                if checked and not self.mlir.OperationVerify(module):
                    raise RefusedError(to)
            has_globals = self._has_globals(module)
            for passes in step.with_globals if has_globals else step.without:
                self._run(passes, module)
        except Exception:
            self.mlir.OperationDestroy(module)
            raise
        self.give(module)
        if has_globals and not step.goes_on:
            self.steps = {}
        self._passed(to)

    def _run(self, passes: str, module: int) -> None:
        manager = self._session.manager(passes)
        if isinstance(manager, str):
            raise StoppedError(manager)
        if not self.mlir.PassManagerRunOnOp(manager, module):
            raise RefusedError(passes)

    def _has_globals(self, module: int) -> bool:
        """Whether there are globals beside the one that is the device."""
        names = [self.mlir.name(inner) for inner in self.mlir.operations(module)]
        return names.count("util.global") > 1 or "util.initializer" in names

    def is_refused(self, after: str, to: str) -> bool:
        library, invocation = self._library, self._invocation
        if after != START:
            library.InvocationSetCompileFromPhase(invocation, after.encode())
        library.InvocationSetCompileToPhase(invocation, to.encode())
        done = library.InvocationPipeline(invocation, _STANDARD_PIPELINE)
        self._passed(to)
        return not done

    def translate(self) -> None:
        self.phases(SOURCES, tiles.PHASE)
        if self.objects_alone:
            self.edit(tiles.smaller_tiles)
        if self.translation is None:
            self.phases(translation.FROM, translation.TO)
        else:
            self.passes(self.translation, translation.TO)

    def to_hal(self) -> None:
        if self.objects_alone:
            objects.to_hal(self)
        else:
            self.phases(objects.FROM, objects.TO)

    def change(self, change: Change) -> bool:
        """Changes the program where the compile has come to; whether it is still one."""
        library, invocation = self._library, self._invocation
        module = library.InvocationExportStealModule(invocation)
        change.apply(library.mlir, module)
        if not library.InvocationImportStealModule(invocation, module):
            return False
        return change.tidy is None or library.InvocationRunPassPipeline(
            invocation, change.tidy.encode()
        )

    def edit(self, change: Callable[[Mlir, int], None]) -> None:
        """Changes attributes in the module."""
        module = self.take()
        change(self.mlir, module)
        self.give(module)

    def text(self) -> str:
        return _written(self._library, self._library.InvocationOutputIR, self._invocation).decode()

    def take(self) -> int:
        return self._library.InvocationExportStealModule(self._invocation)

    def give(self, module: int) -> None:
        if not self._library.InvocationImportStealModule(self._invocation, module):
            raise StoppedError("the compiler does not take the module")

    def count(self, name: str) -> int:
        """How many operations of that name are directly in the module."""
        module = self.take()
        names = [self.mlir.name(inner) for inner in self.mlir.operations(module)]
        self.give(module)
        return names.count(name)


def _written(library: _Library, write: Callable[[int, Any], int | None], invocation: int) -> bytes:
    """What a function of the library writes of a compile."""
    output = ctypes.c_void_p()
    library.check(library.OutputOpenMembuffer(ctypes.byref(output)))
    try:
        library.check(write(invocation, output))
        start, size = ctypes.c_void_p(), ctypes.c_uint64()
        library.check(library.OutputMapMemory(output, ctypes.byref(start), ctypes.byref(size)))
        return ctypes.string_at(start.value or 0, size.value)
    finally:
        library.OutputDestroy(output)


def load(path: Path | None = None, *, alone_for: Sequence[str] | None = None) -> _Library:
    """Loads the compiler if it is not loaded: the installed one, or that in a file.

    A process that compiles one program after the other, and does nothing else, is `alone_for`
    programs with flags of the same kind as these (`plugins.are_for_cpu`).
    """
    with _load_lock:
        if not _loaded:
            _loaded.append(_Library(library_path() if path is None else path, alone_for))
        return _loaded[0]


def library_path() -> Path:
    """The file of the compiler.

    Raises `CompilerNotFoundError` if it is not installed.
    """
    name = _LIBRARY_NAMES.get(sys.platform, "libIREECompiler.so")
    folder = installed.package()
    if folder is not None:
        path = Path(folder, "_mlir_libs", name)
        if path.is_file():
            return path
    raise CompilerNotFoundError(
        "compiling a program requires iree-base-compiler (a program in the compile cache does "
        "not); install it with: pip install iree-base-compiler"
    )
