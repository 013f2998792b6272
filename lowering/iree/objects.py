"""The machine code of dispatches, without IREE's library of C functions and without its linker.

Into each library for the loader of its own IREE puts a C library, as code for LLVM: 80 kB of
assembly beside a kernel of three instructions, which took half of the compile of a small program.
Hardly any dispatch calls it. So LLVM is asked for the object alone, as where the system's linker
is to be used, and `link_elf.py` makes the library of it and of the objects that come with xpr
(`prebuilt.py`). The object of a dispatch that calls the C library cannot be linked; such a program
is brought to its end in IREE's own way. Where a dispatch calls one of the functions that IREE adds
beside that library, LLVM is asked again, to optimize these too (`device_functions.py`).
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Sequence
from typing import Protocol

from xpr.lowering import prebuilt
from xpr.lowering.iree import device_functions, shortcuts
from xpr.lowering.iree.link_elf import UnlinkableError, UnwantedCallError, link
from xpr.lowering.iree.mlir import Mlir
from xpr.lowering.iree.versions.base import IreeVersion

FROM, TO = "executable-targets", "hal"
"""The phases between which `to_hal` does what the compiler would."""

# In place of a linker, IREE runs this as a line of the shell, which gives it the object back.
# Behind it come: -o LIBRARY -nostdlib -static -shared --strip-debug OBJECT, and other objects.
_COPY = 'xpr_copy() { if [ "$#" -ge 7 ]; then exec cp "$7" "$2"; fi; exit 1; }; xpr_copy'

FLAGS = (f"--iree-llvmcpu-system-linker-path={_COPY}",)
"""What a session needs for `to_hal`, and does not change what it does otherwise."""

FOR_OBJECTS = frozenset(
    {shortcuts.OBJECTS, shortcuts.TILES, shortcuts.TRANSLATION, shortcuts.DEVICE_FUNCTIONS}
)
"""The shortcuts that are for programs for which `is_possible` is true."""

_BACKEND = "--iree-hal-local-target-device-backends=llvm-cpu"
_VARIANT, _BINARY = "hal.executable.variant", "hal.executable.binary"


class Compile(Protocol):
    """A compile under way."""

    mlir: Mlir
    version: IreeVersion
    spares_device_functions: bool

    def phases(self, after: str, to: str) -> None:
        """Runs the compiler's own passes of some phases."""
        ...

    def take(self) -> int:
        """Takes the module out."""
        ...

    def give(self, module: int) -> None:
        """Puts a module in."""
        ...

    def is_refused(self, after: str, to: str) -> bool:
        """Runs the compiler's own passes of some phases; whether it refuses the program."""
        ...


def is_possible(flags: Sequence[str]) -> bool:
    """Whether programs with these flags, compiled here, may be brought to `TO` in this way."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and _BACKEND in flags


def to_hal(compiling: Compile) -> None:
    """Brings a program from `FROM` to `TO`."""
    mlir = compiling.mlir
    module = compiling.take()
    spare = mlir.OperationClone(module)
    asked = _ask_for_objects(mlir, module, compiling.version.texts.object_format)
    if not asked:
        mlir.OperationDestroy(spare)
        compiling.give(module)
        compiling.phases(FROM, TO)
        return
    if compiling.spares_device_functions and device_functions.are_spared():
        again, names = mlir.OperationClone(module), compiling.version.device_functions
        try:
            with device_functions.spared(names):
                linked = _linked(compiling, module, names)
        except UnwantedCallError:
            linked = _linked(compiling, again, ())
        else:
            mlir.OperationDestroy(again)
    else:
        linked = _linked(compiling, module, ())
    if linked is not None:
        mlir.OperationDestroy(spare)
        compiling.give(linked)
        return
    compiling.give(spare)
    compiling.phases(FROM, TO)


def _executables(mlir: Mlir, module: int, inner: str) -> list[int]:
    return [
        found
        for operation in mlir.operations(module)
        if mlir.name(operation) == "hal.executable"
        for found in mlir.operations(operation)
        if mlir.name(found) == inner
    ]


def _ask_for_objects(mlir: Mlir, module: int, kind: str) -> bool:
    """Has the code be left as objects; whether all of it is for this kind of processor."""
    variants = _executables(mlir, module, _VARIANT)
    targets = [mlir.attribute_text(variant, "target") for variant in variants]
    if not targets or not all(kind in target for target in targets):
        return False
    for variant, target in zip(variants, targets, strict=True):
        text = target.replace(kind, f"{kind}link_embedded = false, ", 1)
        mlir.set_attribute(variant, "target", text)
    return True


def _linked(compiling: Compile, module: int, unwanted: Collection[str]) -> int | None:
    """The program with libraries, or None for one that this linker or IREE does not take.

    Raises `UnwantedCallError` if code calls a function that is `unwanted`.
    """
    compiling.give(module)
    if compiling.is_refused(FROM, TO):
        return None
    mlir, module = compiling.mlir, compiling.take()
    try:
        _link(mlir, module, unwanted)
    except UnlinkableError as error:
        mlir.OperationDestroy(module)
        if isinstance(error, UnwantedCallError):
            raise
        return None
    return module


def _link(mlir: Mlir, module: int, unwanted: Collection[str]) -> None:
    binaries = _executables(mlir, module, _BINARY)
    libraries = [link(mlir.data(b, "data"), prebuilt.defining, unwanted) for b in binaries]
    for binary, library in zip(binaries, libraries, strict=True):
        text = f'dense<"0x{library.hex().upper()}"> : vector<{len(library)}xi8>'
        mlir.set_attribute(binary, "data", text)
