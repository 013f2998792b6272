"""`python -m xpr.lowering passes`: the expansions and guards, and a program before or after one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from xpr.cli.errors import CommandError, UsageError, one_line
from xpr.cli.exported_files import is_exported, load_exported
from xpr.cli.specs import load_function, parse_types
from xpr.core.jaxpr import ClosedJaxpr
from xpr.export.exported import export
from xpr.export.programs import FixedProgram
from xpr.interpreters.physical import physical_program
from xpr.lowering import pipeline, targets

_EXAMPLE = """examples:
  python -m xpr.lowering passes
  python -m xpr.lowering passes model.mlir --after sort
  python -m xpr.lowering passes model.py:predict --args 'f32[8,64]' --before gathers"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m xpr.lowering",
        description="List the passes of the compile path, or print a program at one of them.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=["passes"])
    parser.add_argument(
        "program", nargs="?", help="a file of StableHLO, of JAX or of xpr, or file.py:function"
    )
    parser.add_argument("--args", nargs="+", default=[], help="the types of its arguments")
    parser.add_argument("--target", default="cpu", help="(default: cpu)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--before", metavar="NAME", help="print the program before this stage")
    where.add_argument("--after", metavar="NAME", help="print the program after this stage")
    return parser


def _program(options: argparse.Namespace) -> tuple[ClosedJaxpr, str]:
    source = Path(options.program)
    if is_exported(source):
        exported = load_exported(source)
    else:
        positional, named = parse_types(options.args, [])
        exported = export(load_function(options.program))(*positional, **named)
    if not isinstance(exported.program, FixedProgram):
        raise UsageError(f"{options.program} has sizes that are open: give a program of fixed ones")
    return physical_program(exported.program.at(())), exported.fun_name


def _table(target: str) -> str:
    rows = [("stage", "kind", "needs", "gives")]
    rows += [tuple(s) for s in pipeline.stages(targets.get_target(target))]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return "\n".join(
        "  ".join([*(text.ljust(w) for text, w in zip(row, widths, strict=False)), row[3]])
        for row in rows
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; 0 where it did what was asked, 2 for a wrong command line."""
    parser = _parser()
    options = parser.parse_args(arguments)
    stage = options.before or options.after
    try:
        if options.program is None and stage is None:
            print(_table(options.target))
            return 0
        if options.program is None or stage is None:
            parser.error("a program and --before or --after belong together")
        closed, name = _program(options)
        target = targets.get_target(options.target)
        print(pipeline.program_text(closed, target, name, stage, after=options.after is not None))
    except (UsageError, CommandError, ValueError) as error:
        print(f"python -m xpr.lowering: {one_line(error)}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
