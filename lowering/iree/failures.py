"""Programs that do not compile: what the compiler says, and the errors that tell of it."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass

from xpr.core.errors import CompileError
from xpr.lowering.iree.invocation import Diagnostic
from xpr.lowering.targets.base import Target

# The name that diagnostics give for places in the text itself, which mean nothing to the user.
TEXT_NAME = "stablehlo"

_NAME = re.compile(r"module @(\w+)")


@dataclass(frozen=True)
class Failure:
    """A program that did not compile, and what the compiler said."""

    text: str
    diagnostics: list[Diagnostic]
    too_long: bool = False
    """Whether the compiler was given up because of the time it took."""


class TooLongError(CompileError):
    """A program of which no form was compiled in the time that the settings allow."""


class KnownFailureError(CompileError):
    """A program that failed before, with the places of the equations that the host can compute."""

    def __init__(self, text: str, equations: frozenset[int]) -> None:
        super().__init__(
            f"{program_name(text)} cannot be compiled, as was found before (`xpr cache clear` "
            "forgets that)",
            stablehlo_path=None,
            diagnostics="",
            source_location=None,
        )
        self.equations = equations


def program_name(text: str) -> str:
    """The name of the module that a program is."""
    found = _NAME.search(text)
    return found[1] if found else "a program"


# A diagnostic starts with "file:line:column: "; its notes follow on lines of their own.
_LOCATION = re.compile(r"^(?P<file>\S.*?):(?P<line>\d+):(?P<column>\d+): ", re.M)


def source_location(diagnostics: list[Diagnostic]) -> tuple[str, int, int] | None:
    """The user's line that diagnostics are about, errors before warnings."""
    by_severity = sorted(diagnostics, key=lambda diagnostic: diagnostic.severity != "error")
    for diagnostic in by_severity:
        for match in _LOCATION.finditer(diagnostic.message):
            if match["file"] != TEXT_NAME:
                return match["file"], int(match["line"]), int(match["column"])
    return None


def compile_error(failure: Failure, target: Target) -> CompileError:
    """The error for a program that failed; its text is kept in a file."""
    said = "\n".join(f"{d.severity}: {d.message}" for d in failure.diagnostics)
    location = source_location(failure.diagnostics)
    where = f" (at {location[0]}:{location[1]}:{location[2]})" if location else ""
    path, saved = _save(failure.text)
    error = TooLongError if failure.too_long else CompileError
    return error(
        f"the program{where} cannot be compiled for target {target.name!r}. {saved} "
        f"The compiler says:\n{said or 'nothing'}",
        stablehlo_path=path,
        diagnostics=said,
        source_location=location,
    )


def _save(text: str) -> tuple[str | None, str]:
    """Keep a program that failed: the file, and the sentence that names it."""
    try:
        descriptor, path = tempfile.mkstemp(prefix="xpr-failed-", suffix=".mlir")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        return None, f"Its StableHLO could not be saved ({error})."
    return path, f"Its StableHLO is in {path}."
