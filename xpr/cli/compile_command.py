"""`xpr compile`: a function to a module or a bundle."""

from __future__ import annotations

import argparse
from pathlib import Path

from xpr.cli.errors import UsageError
from xpr.cli.inspect_command import size_text
from xpr.cli.specs import load_function, parse_types
from xpr.core.progress import phase
from xpr.export.exported import Exported, export
from xpr.export.targets import ExportTarget, export_target


def run(options: argparse.Namespace) -> int:
    """Traces, lowers, compiles and writes; prints what was written."""
    output = Path(options.output)
    targets = _targets(options.target or ["cpu"])
    if output.suffix not in (".vmfb", ".xpr"):
        raise UsageError(f"the output must end in .vmfb or .xpr, got {options.output!r}")
    names = ", ".join(target.name for target in targets)
    if output.suffix == ".vmfb" and len(targets) > 1:
        raise UsageError(f"a .vmfb is for one target, got {names}; write a bundle (.xpr)")
    if not output.parent.is_dir():
        raise UsageError(f"there is no folder {output.parent}")
    positional, named = parse_types(options.args, options.constraint)
    function = load_function(options.function)
    with phase(f"tracing {options.function}"):
        exported = export(function)(*positional, **named)
    if output.suffix == ".vmfb":
        _write_module(exported, targets[0], output)
    else:
        with phase(f"compiling {exported.fun_name} for {names}"):
            exported.save(output, targets=[target.name for target in targets])
    size = size_text(output.stat().st_size)
    print(f"{output}: {exported.fun_name} for {names}, {size}")
    return 0


def _targets(names: list[str]) -> list[ExportTarget]:
    try:
        return [export_target(name) for name in names]
    except ValueError as error:
        raise UsageError(str(error)) from error


def _write_module(exported: Exported, target: ExportTarget, output: Path) -> None:
    from xpr.export.modules import compile_for  # noqa: PLC0415  loads the compiler

    with phase(f"compiling {exported.fun_name} for {target.name}"):
        module = compile_for(exported, target.target, None)
    output.write_bytes(module.vmfb)
