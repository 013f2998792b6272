"""The facts about one minor release of IREE that xpr relies on.

IREE promises none of them: names of passes and flags, the text of its intermediate forms, the byte
code of its modules. They stand here and nowhere else, so that a new release is a new file beside
this one, and `python -m xpr.lowering.iree.port` says which facts still hold.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol


@dataclass(frozen=True)
class Step:
    """The passes that replace those of one of IREE's phases."""

    passes: tuple[str, ...]
    """Lists of passes, one after the other."""

    with_globals: tuple[str, ...] = ()
    """The lists that follow if the program has globals then."""

    without: tuple[str, ...] = ()
    """The lists that follow if it has none."""

    goes_on: bool = True
    """Whether the next steps are for a program with globals, too."""


Steps = dict[str, Step]
"""By the phases that they come to. A phase that they lack is IREE's own."""


class MakeSteps(Protocol):
    """Lists of passes up to the phase stream for one program."""

    def __call__(self, *, branches: bool, integers: bool, hoists: bool) -> Steps: ...


class MakeTranslation(Protocol):
    """The passes that translate dispatches to LLVM's dialect."""

    def __call__(self, *, reassociates: bool) -> str: ...


class Pipelines(NamedTuple):
    """The passes around compiled dispatches: from flow, to hal, and from there to vm."""

    stream: str
    host: str
    machine: str | None
    """None for IREE's own passes."""


class DispatchLists(NamedTuple):
    """The passes of programs whose dispatches are compiled one by one."""

    whole: Pipelines
    """For programs with globals or initializers."""
    short: Pipelines
    """For the others."""


@dataclass(frozen=True)
class Texts:
    """How IREE prints and parses intermediate forms."""

    executable: re.Pattern[str]
    """An executable in a printed module: all of it, and its name as group 1."""

    shell: str
    """How the executable of a library begins, with `{name}` for its symbol."""

    binary: str
    """The operation of a library, with `{variant}`, `{format}`, `{digits}` and `{size}`."""

    object_format: str
    """The format of a target for x86-64, as its attribute begins."""

    row_tiles: re.Pattern[str]
    """The tiles of a reduction of eight rows at a time."""

    rows: re.Pattern[str]
    """Of these the number of rows, behind group 1."""

    depth: re.Pattern[str]
    """The tiles of a product with 16 of the contracted index at a time, behind group 1."""


class Opcode(NamedTuple):
    """An instruction of IREE's virtual machine."""

    code: int
    name: str
    """Its name in the native part; empty for one that the native part does not run."""
    form: str
    """Its operands, as the table's first lines describe them."""


@dataclass(frozen=True)
class Bytecode:
    """The instruction set of IREE's virtual machine, in the version that modules name."""

    version: int
    table: Path
    """The file of instructions, which the native part includes, too."""

    @functools.cached_property
    def instructions(self) -> dict[int, Opcode]:
        """The instructions by their codes."""
        found: dict[int, Opcode] = {}
        for name, code, form in _ROW.findall(self.table.read_text(encoding="utf-8")):
            number = int(code, 16)
            if number in found:
                raise ValueError(f"{self.table.name} has instruction {code} twice")
            found[number] = Opcode(number, name, form)
        return found


_ROW = re.compile(r'^XPR_(?:OPCODE|OTHER)\((\w*), (0x[0-9A-F]{2}), "(\w*)"\)$', re.M)


@dataclass(frozen=True)
class IreeVersion:
    """One minor release of IREE."""

    minor: str
    """As in "3.13"."""

    tested: frozenset[str]
    """The releases on which the tests passed, as in "3.13.0"; none if it is unknown."""

    bytecode: Bytecode
    """The instruction set that this release compiles to."""

    timepoints: str
    """The passes of `keep_timepoints.py`."""

    no_deallocations: str
    """The passes of `remove_deallocations.py`."""

    texts: Texts
    steps: MakeSteps
    dispatches: DispatchLists
    translation: MakeTranslation

    unused_plugins: tuple[str, ...]
    """The compiler's plugins that programs for processors do not need."""

    device_functions: frozenset[str]
    """The functions that IREE adds to each library of dispatches."""

    without: Mapping[str, str] = field(default_factory=dict)
    """The shortcuts that do not apply to this release, and why."""

    @property
    def number(self) -> tuple[int, int]:
        """The minor release, to compare with others."""
        major, minor = self.minor.split(".")
        return int(major), int(minor)

    @property
    def is_known(self) -> bool:
        """Whether the tests have passed on a release of this minor release."""
        return bool(self.tested)

    def is_tested(self, release: str) -> bool:
        """Whether the tests have passed on this very release."""
        return release in self.tested

    def shortcuts(self, allowed: Collection[str]) -> frozenset[str]:
        """Those of the allowed shortcuts that apply to this release."""
        return frozenset(allowed).difference(self.without)
