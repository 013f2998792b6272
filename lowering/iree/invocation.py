"""A compile under way."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from xpr.lowering.iree import objects, shortcuts, tiles, translation
from xpr.lowering.iree.compiler_library import ON_DIAGNOSTIC, Library, written
from xpr.lowering.iree.dispatches import SOURCES
from xpr.lowering.iree.post_passes import START, Change
from xpr.lowering.iree.sessions import Session
from xpr.lowering.iree.shortcuts import DeclinedError, RefusedError
from xpr.lowering.iree.stopwatch import Stopwatch
from xpr.lowering.iree.versions.base import Step, Steps

_STANDARD_PIPELINE = 0
_SEVERITIES = {0: "note", 1: "warning", 2: "error", 3: "remark"}


class PassesError(Exception):
    """The compiler does not run a list of passes, or does not take the module back."""


class Diagnostic(NamedTuple):
    """One message of the compiler: its severity (``error``, ``warning``...) and its text."""

    severity: str
    message: str


@contextlib.contextmanager
def parsed(
    library: Library,
    session: Session,
    text: str,
    name: str,
    verify: bool,
    diagnostics: list[Diagnostic],
) -> Iterator[int | None]:
    """A compile that has parsed the program, or None; adds what it says to `diagnostics`."""

    @ON_DIAGNOSTIC
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


class Invocation:
    """A compile that has come to some phase."""

    def __init__(
        self,
        library: Library,
        session: Session,
        invocation: int,
        watch: Stopwatch | None,
        taken: Collection[str] = (),
        tell: Callable[[str], None] | None = None,
        steps: Steps | None = None,
        *,
        verify: bool = True,
    ) -> None:
        self.mlir = library.mlir
        self.version = library.version
        self.objects_alone = shortcuts.OBJECTS in taken
        self.chooses_tiles = shortcuts.TILES in taken
        self.spares_device_functions = shortcuts.DEVICE_FUNCTIONS in taken
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
            raise PassesError(f"the compiler does not run {pipeline}")
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
        if to == tiles.PHASE and self.chooses_tiles:
            with shortcuts.declines(shortcuts.TILES), self.module() as module:
                tiles.smaller_tiles(self.mlir, module, self.version.texts)

    def _step(self, step: Step, to: str, *, checked: bool) -> None:
        with self.module() as module:
            for passes in step.passes:
                self._run(passes, module)
                if checked and not self.mlir.OperationVerify(module):
                    raise RefusedError(to)
            has_globals = self._has_globals(module)
            for passes in step.with_globals if has_globals else step.without:
                self._run(passes, module)
        if has_globals and not step.goes_on:
            self.steps = {}
        self._passed(to)

    def _run(self, passes: str, module: int) -> None:
        manager = self._session.manager(passes)
        if isinstance(manager, str):
            raise DeclinedError({shortcuts.SHORT_PASSES}, manager)
        if not self.mlir.PassManagerRunOnOp(manager, module):
            raise RefusedError(passes)

    def has_globals(self) -> bool:
        """As `_has_globals`, of the module as it is."""
        with self.module() as module:
            return self._has_globals(module)

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
        if self.translation is None:
            self.phases(translation.FROM, translation.TO)
        else:
            with shortcuts.declines(shortcuts.TRANSLATION):
                self.passes(self.translation, translation.TO)

    def to_hal(self) -> None:
        if self.objects_alone:
            with shortcuts.declines(shortcuts.OBJECTS):
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
            invocation, change.tidy(self.version).encode()
        )

    @contextlib.contextmanager
    def module(self) -> Iterator[int]:
        """The module, taken out for as long as the block lasts; gone if that raises."""
        module = self.take()
        try:
            yield module
        except BaseException:
            self.mlir.OperationDestroy(module)
            raise
        self.give(module)

    def text(self) -> str:
        return written(self._library, self._library.InvocationOutputIR, self._invocation).decode()

    def take(self) -> int:
        return self._library.InvocationExportStealModule(self._invocation)

    def give(self, module: int) -> None:
        if not self._library.InvocationImportStealModule(self._invocation, module):
            raise PassesError("the compiler does not take the module")

    def count(self, name: str) -> int:
        """How many operations of that name are directly in the module."""
        with self.module() as module:
            return [self.mlir.name(inner) for inner in self.mlir.operations(module)].count(name)
