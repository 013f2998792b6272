"""Programs lowered for a device and compiled: at once, or in the background."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

from xpr.core.errors import CompileError
from xpr.core.events import before_compile, log_step, span
from xpr.core.jaxpr import ClosedJaxpr
from xpr.dispatch import known_programs
from xpr.dispatch.dumps import dump_jaxpr, dump_module
from xpr.interpreters.physical import physical_program
from xpr.lowering import host_fallback, plain
from xpr.lowering import rules as lowering_rules
from xpr.lowering.iree.compiler import lines_of_dispatches, start_compile
from xpr.lowering.iree.failures import KnownFailureError
from xpr.lowering.iree.places import Line
from xpr.lowering.module import LoweredModule, lower_jaxpr_to_module
from xpr.lowering.targets import get_target
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.supported import check_types
from xpr.lowering.traced_rules import with_traced_rules
from xpr.runtimes.base import Device


def target_of(device: Device) -> Target:
    """The lowering target of a device."""
    target = get_target(device.runtime.target)
    return target if target.for_device is None else target.for_device(device)


def lower(
    closed: ClosedJaxpr,
    target: Target,
    name: str,
    donate: Sequence[int] = (),
    *,
    embed_consts: bool = False,
    device: Device | None = None,
) -> LoweredModule:
    """Lowers a program for `target`; `embed_consts` writes closed-over arrays into it.

    A program on extended dtypes is lowered as that on the numbers they stand for. Raises TypeError,
    naming `device`, if the program has values of types that the target lacks.
    """
    closed = physical_program(closed)
    shown = "" if device is None else f"{device!r} ({device.device_kind})"
    check_types(closed.jaxpr, target, shown)
    lowering_rules.load_all()
    if target.plain:
        plain.load_all()
    closed = with_traced_rules(closed, target)
    dump_jaxpr(closed, name)
    with span("lower", name, target=target.name):
        return lower_jaxpr_to_module(
            closed, target, name=name, donate=donate, embed_consts=embed_consts
        )


def compile_module(module: LoweredModule, target: Target) -> bytes:
    """The `.vmfb` of a lowered module, from the disk cache or the compiler."""
    return _Compile(module, target).result()


class _Compile:
    """The compile of a lowered module, from its start to its end."""

    def __init__(self, module: LoweredModule, target: Target, **how: bool) -> None:
        for announce in before_compile:
            announce(target.name)
        self.module = module
        self.target = target
        self._begin = time.perf_counter()
        log_step("Compiling jit(%s) for %s", module.name, target.name)
        dump_module(module.text, module.name)
        self.compile = start_compile(
            module.text,
            target,
            hints=module.hints,
            debug_text=module.debug_text,
            template=module.template,
            **how,
        )

    def result(self) -> bytes:
        with span("compile", self.module.name, target=self.target.name):
            vmfb = self.compile.result()
        duration = time.perf_counter() - self._begin
        name, target = self.module.name, self.target.name
        log_step("Finished compilation of jit(%s) for %s in %.3f s", name, target, duration)
        return vmfb


class PendingModule:
    """A module that is being compiled in the background.

    What no form of the program compiles is left to the host.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        module: LoweredModule,
        target: Target,
        donate: Sequence[int],
        *,
        wanted: bool,
        key: bytes | None = None,
    ) -> None:
        """A compile that is `wanted` goes on though nobody waits for it.

        Under `key`, if there is one, it is noted where the cache has the module.
        """
        self._closed = closed
        self._key = key
        self._module = module
        self._target = target
        self._donate = donate
        self._compile: _Compile | None = None
        # What failed before is told to whoever waits.
        with contextlib.suppress(KnownFailureError):
            self._compile = self._start(wanted)

    def _start(self, wanted: bool) -> _Compile:
        return _Compile(self._module, self._target, mergeable=True, wanted=wanted)

    @property
    def donations(self) -> tuple[tuple[int, int], ...]:
        """Pairs of an argument and the result that is written into its memory."""
        return self._module.donations

    def is_done(self) -> bool:
        """Whether `result` would not wait for the compiler."""
        return self._compile is not None and self._compile.compile.is_done()

    def on_end(self, function: Callable[[], None]) -> None:
        """Has a function called when the compile is done, at once if it is."""
        if self._compile is None:
            function()
        else:
            self._compile.compile.on_end(function)

    def result(self) -> tuple[LoweredModule, bytes]:
        """The module that was compiled, which may be another one, and its `.vmfb`.

        Raises `CompileError` if there is none. After an error or an interrupt the next call
        compiles anew.
        """
        compile, self._compile = self._compile, None
        try:
            compile = compile or self._start(False)
            vmfb = compile.result()
        except CompileError as error:
            found = host_fallback.compile_around(
                self._closed, self._module, self._target, self._donate, error
            )
            if found is None:
                raise
            return found
        kept_as = compile.compile.kept_as
        if self._key is not None and kept_as is not None:
            known_programs.keep(self._key, self._module, self._target.donation, kept_as)
        return self._module, vmfb


def lines_of(
    closed: ClosedJaxpr,
    module: LoweredModule | None,
    device: Device,
    name: str,
    donate: Sequence[int],
) -> dict[str, set[Line]]:
    """The dispatches of a program, each with the user's lines; a known one has no `module` yet."""
    target = target_of(device)
    if module is None:
        module = lower(closed, target, name, donate, device=device)
    return lines_of_dispatches(module, target)
