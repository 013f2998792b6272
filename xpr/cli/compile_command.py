"""`xpr compile`: a function, or a program of a file, to a module or a bundle."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from xpr.cli.errors import UsageError
from xpr.cli.exported_files import is_exported, load_exported
from xpr.cli.inspect_command import size_text
from xpr.cli.specs import load_function, parse_types
from xpr.core.progress import phase
from xpr.export.exported import Exported, export
from xpr.export.programs import OpenProgram
from xpr.export.targets import ExportTarget, export_target
from xpr.transforms.jit import jit


def run(options: argparse.Namespace) -> int:
    """Traces, lowers, compiles and writes; prints what was written."""
    source = Path(options.function)
    stored = is_exported(source)
    if _is_program(options.output):
        return _compile_program(options, source, stored)
    output = _output(options, source, stored, len(options.target or [""]))
    # A bundle's loader compares it with the machine; nothing does so for a module.
    targets = _targets(options.target or ["cpu" if output.suffix == ".xpr" else "baseline"])
    if output.suffix not in (".vmfb", ".xpr"):
        raise UsageError(
            f"the output must end in .vmfb, .xpr, .c, .wasm or a slash, got {options.output!r}"
        )
    names = ", ".join(target.name for target in targets)
    if output.suffix == ".vmfb" and len(targets) > 1:
        raise UsageError(f"a .vmfb is for one target, got {names}; write a bundle (.xpr)")
    if not output.parent.is_dir():
        raise UsageError(f"there is no folder {output.parent}")
    exported = _stored(source, options) if stored else _traced(options)
    if output.suffix == ".vmfb":
        _write_module(exported, targets[0], output)
    else:
        with phase(f"compiling {exported.fun_name} for {names}"):
            exported.save(output, targets=[target.name for target in targets])
    size = size_text(output.stat().st_size)
    print(f"{output}: {exported.fun_name} for {names}, {size}")
    return 0


def _is_program(output: str | None) -> bool:
    """Whether a program without a runtime is asked for: by an ending, or as a folder."""
    return output is not None and (output.endswith("/") or Path(output).suffix in _PROGRAMS)


_PROGRAMS = (".c", ".wasm")


def _compile_program(options: argparse.Namespace, source: Path, stored: bool) -> int:
    """Writes a program without a runtime, into a folder that is made if need be."""
    targets = options.target or ["baseline"]
    if len(targets) > 1:
        raise UsageError(f"a program without a runtime is for one target, got {', '.join(targets)}")
    output = Path(options.output)
    if output.suffix not in _PROGRAMS:
        output = output / f"{output.name}.c"
    if not output.parent.parent.is_dir():
        raise UsageError(f"there is no folder {output.parent.parent}")
    exported = _stored(source, options) if stored else _traced(options)
    chosen = {} if output.suffix == ".wasm" else {"target": targets[0]}
    is_new = not output.parent.exists()
    output.parent.mkdir(exist_ok=True)
    with phase(f"compiling {exported.fun_name}"):
        try:
            exported.save(output, **chosen)
        except (ValueError, FileExistsError) as error:
            if is_new:
                output.parent.rmdir()
            raise UsageError(str(error)) from error
    print(f"{output}: {exported.fun_name} for {'wasm32' if not chosen else targets[0]}")
    return 0


def _output(options: argparse.Namespace, source: Path, stored: bool, targets: int) -> Path:
    """The file to write; that of a file's program is named after it."""
    if options.output is not None:
        return Path(options.output)
    if not stored:
        options.parser.error("the following arguments are required: -o/--output")
    return source.with_suffix(".vmfb" if targets == 1 else ".xpr")


def _traced(options: argparse.Namespace) -> Exported:
    positional, named = parse_types(options.args, options.constraint)
    function = load_function(options.function)
    with phase(f"tracing {options.function}"):
        return export(function)(*positional, **named)


def _stored(source: Path, options: argparse.Namespace) -> Exported:
    """The program of a file, for the types that are given, which sizes it leaves open may need."""
    with phase(f"reading {source}"):
        exported = load_exported(source)
    if not options.args:
        if isinstance(exported.program, OpenProgram):
            types = ", ".join(map(str, exported.in_avals))
            raise UsageError(f"{source} leaves sizes open ({types}): give the types by --args")
        return exported
    positional, named = parse_types(options.args, options.constraint)

    def call(*args: Any, **kwargs: Any) -> Any:
        return exported.call(*args, **kwargs)

    call.__name__ = exported.fun_name
    return export(jit(call))(*positional, **named)


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
