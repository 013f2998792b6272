"""`xpr compile`: a function to a module or a bundle."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpr.cli.errors import UsageError
from xpr.cli.inspect_command import size_text
from xpr.cli.progress import phase
from xpr.cli.specs import load_function, parse_types


def run(options: argparse.Namespace) -> int:
    """Traces, lowers, compiles and writes; prints what was written."""
    output = Path(options.output)
    targets: list[str] = options.target or ["cpu"]
    positional, named = parse_types(options.args)
    if output.suffix == ".vmfb":
        if len(targets) > 1:
            raise UsageError(
                f"a .vmfb is for one target, got {', '.join(targets)}; write a bundle (.xpr)"
            )
    elif output.suffix != ".xpr":
        raise UsageError(f"the output must end in .vmfb or .xpr, got {options.output!r}")
    if not output.parent.is_dir():
        raise UsageError(f"there is no folder {output.parent}")
    function = load_function(options.function)
    name = getattr(function, "__name__", "main")
    with phase(f"tracing {name}"):
        traced = function.trace(*positional, **named)
    _write_module(traced, targets[0], output)
    print(f"{output}: {name} for {', '.join(targets)}, {size_text(output.stat().st_size)}")
    return 0


def _write_module(traced: Any, target_name: str, output: Path) -> None:
    # The compiler's layers are loaded by commands that compile, and by no other.
    from xpr.cli.targets import parse_target  # noqa: PLC0415
    from xpr.dispatch import compiled  # noqa: PLC0415

    target = replace(parse_target(target_name), host_calls=False)
    with phase(f"lowering {traced.fun_name}"):
        module = compiled.lower(traced.jaxpr, target, traced.fun_name, embed_consts=True)
    with phase(f"compiling {traced.fun_name} for {target_name}"):
        data = compiled.compile_module(module, target)
    output.write_bytes(data)
