"""Compiles one program in a process of its own: ``python -m benchmarks.compile_child LIBRARY``.

Further arguments are the program's name, and ``quick``. Prints one JSON object: processor seconds
by stage, and for xpr the number of dispatches. Another program was compiled before, so that
nothing is done for the first time.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from typing import Any

import numpy

from benchmarks import implementations
from benchmarks.compile_programs import PORTABLE, program


def _jax(function: Any, arguments: Any) -> dict[str, Any]:
    stages: dict[str, float] = {}
    last = time.process_time()
    found = function
    for stage, arguments_of_stage in (("trace", arguments), ("lower", ()), ("compile", ())):
        found = getattr(found, stage)(*arguments_of_stage)
        now = time.process_time()
        stages[stage], last = now - last, now
    return {"stages": stages}


def _xpr(function: Any, arguments: Any) -> dict[str, Any]:
    import xpr  # noqa: PLC0415

    found = xpr.debug.explain(function, *arguments)
    return {"stages": dict(found.stages), "dispatches": found.dispatches}


def _portable(function: Any, arguments: Any) -> dict[str, Any]:
    from xpr.dispatch import compiling  # noqa: PLC0415
    from xpr.lowering.iree import stopwatch  # noqa: PLC0415

    target = dataclasses.replace(compiling.get_target("cpu"), host_calls=False)
    with stopwatch.watching() as watch:
        closed = function.trace(*arguments).jaxpr
        watch.passed("trace")
        module = compiling.lower(closed, target, "main")
        watch.passed("lower")
        compiling.compile_module(module, target)
    return {"stages": watch.stages, "dispatches": watch.dispatches}


def main() -> int:
    """Answer for one program."""
    library, name, *options = sys.argv[1:]
    implementation = implementations.load(f"{library} jit")
    way = _jax if library == "jax" else _xpr
    if library == "xpr":
        import xpr  # noqa: PLC0415
        from xpr.dispatch import compiling  # noqa: PLC0415
        from xpr.lowering.iree import compiler_library  # noqa: PLC0415
        from xpr.lowering.targets.flags import ProgramHints  # noqa: PLC0415

        # As the process that compiles for users, and in this one, whose time is measured.
        xpr.config.update("compiler", "inline")
        compiler_library.load(alone_for=compiling.get_target("cpu").flag_sets(ProgramHints())[0])
    x = implementation.put(numpy.ones(3, numpy.float32))
    first = implementation.jit(lambda x: implementation.np.sum(implementation.np.cos(x)))
    way(first, (x,))
    if library == "xpr" and name.removeprefix("compile: ") in PORTABLE:
        way = _portable
    print(json.dumps(way(*program(name, implementation, "quick" in options))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
