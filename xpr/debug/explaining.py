"""What it takes to make a program ready: where the processor's time goes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xpr.core.errors import shown
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
    """

    name: str
    stages: Mapping[str, float]
    equations: int
    dispatches: int | None
    """How many dispatches the program has; None if it was not compiled by IREE."""
    module_bytes: int

    @property
    def total(self) -> float:
        """The sum of all stages, in seconds."""
        return sum(self.stages.values())

    def __str__(self) -> str:
        counted = "" if self.dispatches is None else f", {self.dispatches} dispatches"
        lines = [
            f"{self.name}: {self.equations} equations{counted}, {self.module_bytes} bytes",
            *(
                f"  {stage:26}{1e3 * seconds:9.1f} ms  {_MEANINGS.get(stage, '')}".rstrip()
                for stage, seconds in self.stages.items()
            ),
            f"  {'total':26}{1e3 * self.total:9.1f} ms of processor time",
        ]
        return "\n".join(lines)


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Compiles `function` for these arguments, and says where the processor's time went.

    The arguments are arrays or types (`ShapeDtypeStruct`). The function is traced, lowered,
    compiled and loaded, past all caches of compiled programs, but not run. What the process has
    done for the first time, as loading the compiler, is in the figures: ask twice to leave it out.

    Raises TypeError if `function` cannot be called, NotImplementedError for programs of several
    devices, and what tracing and compiling raise.

    >>> import xpr, xpr.numpy as jnp
    >>> found = xpr.debug.explain(jnp.sin, jnp.ones(3))
    >>> list(found.stages)[:3], found.equations, found.dispatches
    (['trace', 'prepare', 'lower'], 1, 1)
    """
    from xpr.dispatch.compiled import CompiledProgram  # noqa: PLC0415 - the compile path is lazy
    from xpr.lowering.iree import stopwatch  # noqa: PLC0415 - likewise

    if not callable(function):
        raise TypeError(f"explain takes a function, got {shown(function)}")
    if not hasattr(function, "trace"):
        # Under a new identity: what was traced before took no time.
        function = jit(_again(function))
    with stopwatch.watching() as watch:
        traced: Any = function.trace(*args, **kwargs)  # pyright: ignore[reportFunctionMemberAccess]
        watch.passed("trace")
        device = traced.single_device()
        program = CompiledProgram(traced.jaxpr, traced.fun_name, device, traced.donate_argnums)
    return Explanation(
        name=traced.fun_name,
        stages=watch.stages,
        equations=len(traced.jaxpr.eqns),
        dispatches=watch.dispatches,
        module_bytes=len(program.vmfb or b""),
    )


def _again(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function as another object."""

    @functools.wraps(function)
    def again(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return again
