"""What a file on the command line holds, made ready to be called."""

from __future__ import annotations

from pathlib import Path

from xpr.cli.exported_files import ExportedProgram, is_exported
from xpr.cli.programs import BundleProgram, ModuleProgram, Program, is_bundle


def open_program(path: Path, runtime: str | None) -> Program:
    """Loads what stands at `path` for a runtime, or for one that it is made for."""
    if is_exported(path):
        return ExportedProgram(path, runtime)
    return BundleProgram(path, runtime) if is_bundle(path) else ModuleProgram(path, runtime)
