"""What it takes to make a program ready: where the processor's time goes, and what came of it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xpr.core.errors import shown
from xpr.core.units import count_text, shown_bytes
from xpr.core.wrapping import wraps
from xpr.transforms.jit import jit

# What users know a stage of IREE's compiler by, where its own name tells little.
_MEANINGS = {
    "trace": "the function as equations, transformed",
    "prepare": "results that are operands, equations without use",
    "lower": "equations to StableHLO",
    "parse": "StableHLO's text",
    "dispatch-creation": "which operations are fused",
    "stream": "where arrays lie, and when",
    "executable-targets": "code of the dispatches, down to LLVM's",
    "hal": "LLVM",
    "host": "calls of the device",
    "dispatches": "dispatches by their digests",
    "link": "the linker, a process",
    "vm": "the program of the host",
    "load": "the module, by the runtime",
}


@dataclass(frozen=True)
class Explanation:
    """Seconds of processor time by stage, and what came of it.

    The stages from ``parse`` to ``write`` are the phases of IREE's compiler, under its own names,
    and ``link`` is the linker that it starts.

    >>> import xpr
    >>> explanation = xpr.debug.Explanation("f", {"trace": 0.5, "link": 0.25}, 2, 1, 1000)
    >>> explanation.stages["link"]
    0.25
    >>> print(explanation)
    f: 2 equations, 1 dispatch, 1 kB
      trace                         500.0 ms  the function as equations, transformed
      link                          250.0 ms  the linker, a process
      total                         750.0 ms of processor time
    cached: no, a first call compiles it
    """

    name: str
    stages: Mapping[str, float]
    equations: int
    dispatches: int | None
    """How many dispatches the program has; None if it was not compiled by IREE."""
    module_bytes: int
    target: str = ""
    """What it was compiled for."""
    flags: tuple[str, ...] = ()
    """The flags of IREE's compiler that it was compiled with."""
    was_traced: bool = False
    """Whether the function had been traced for such arguments before."""
    cached: str | None = None
    """The file of the disk cache that holds the program already, which a first call would read."""
    advice: tuple[str, ...] = ()
    """What could be faster, in sentences."""

    @property
    def total(self) -> float:
        """The sum of all stages, in seconds."""
        return sum(self.stages.values())

    def __str__(self) -> str:
        size = shown_bytes(self.module_bytes)
        parts = [count_text(self.equations, "equation")]
        parts += [] if self.dispatches is None else [count_text(self.dispatches, "dispatch")]
        lines = [f"{self.name}: {', '.join([*parts, size])}"]
        for stage, seconds in self.stages.items():
            known = _MEANINGS.get(stage, "")
            if stage == "trace" and self.was_traced:
                known = "kept from an earlier call"
            lines.append(f"  {stage:26}{1e3 * seconds:9.1f} ms  {known}".rstrip())
        lines.append(f"  {'total':26}{1e3 * self.total:9.1f} ms of processor time")
        kept = f"in {self.cached}" if self.cached else "no, a first call compiles it"
        lines.append(f"cached: {kept}")
        if self.flags:
            lines.append(f"flags, for {self.target}:")
            wrapper = textwrap.TextWrapper(96, break_on_hyphens=False, break_long_words=False)
            lines += [f"  {line}" for line in wrapper.wrap(" ".join(self.flags))]
        if self.advice:
            lines += ["what could be faster:", *(f"  - {one}" for one in self.advice)]
        return "\n".join(lines)


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Compiles `function` for these arguments, and says what was done and how long it took.

    That is: what was traced, lowered and compiled, the processor's time for each stage, the flags
    of the compiler, whether the program is in the disk cache, and what could make it faster. The
    arguments are arrays or types (`ShapeDtypeStruct`). The function is traced, lowered, compiled
    and loaded, past all caches of compiled programs, but not run. It is compiled where the setting
    ``compiler`` says, in a helper process on Linux, so that a crash of the compiler ends only that.
    What a process has done for the first time, as loading the compiler, is in the figures: ask
    twice to leave it out.

    Raises TypeError if `function` cannot be called, NotImplementedError for programs of several
    devices, and what tracing and compiling raise.

    >>> import xpr, xpr.numpy as jnp
    >>> found = xpr.debug.explain(jnp.sin, jnp.ones(3))
    >>> list(found.stages)[:3], found.equations, found.dispatches
    (['trace', 'prepare', 'lower'], 1, 1)
    """
    # The compile path is lazy.
    from xpr.debug.advice import Facts, advice  # noqa: PLC0415
    from xpr.dispatch.compiled import CompiledProgram  # noqa: PLC0415
    from xpr.lowering.iree import stopwatch  # noqa: PLC0415

    if not callable(function):
        raise TypeError(f"explain takes a function, got {shown(function)}")
    if not hasattr(function, "trace"):
        # Under a new identity: what was traced before took no time.
        function = jit(_again(function))
    jitted: Any = function
    count = getattr(jitted, "_cache_size", None)
    known = count() if count is not None else None
    with stopwatch.watching() as watch:
        traced = jitted.trace(*args, **kwargs)
        watch.passed("trace")
        device = traced.single_device()
        program = CompiledProgram(traced.jaxpr, traced.fun_name, device, traced.donate_argnums)
    target = device.runtime.target
    facts = Facts(
        closed=traced.jaxpr,
        donated=traced.donate_argnums,
        module=program.lowered,
        target=target,
        attempts=watch.attempts,
        separate=watch.separate,
    )
    return Explanation(
        name=traced.fun_name,
        stages=watch.stages,
        equations=len(traced.jaxpr.eqns),
        dispatches=watch.dispatches,
        module_bytes=len(program.vmfb or b""),
        target=target,
        flags=watch.flags,
        was_traced=count is not None and count() == known,
        cached=watch.entry,
        advice=tuple(advice(facts)),
    )


def _again(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function as another object."""

    @wraps(function)
    def again(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return again
