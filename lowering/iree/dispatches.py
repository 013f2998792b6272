"""Compiled dispatches are kept, and put into the next program that has the same ones.

A program is stopped where its dispatches are written out and not yet compiled. Each is looked up by
a digest of what it computes, its name left out. Those that are not kept are compiled together, in a
module of their own, to one library; the rest of the program is then compiled with references to the
libraries, and never sees their code. A program that differs from an older one in one line so
compiles one dispatch and what runs on the host.

IREE makes one binding of all operands in the same memory, and writes their places in it into the
code. A change in one dispatch moves arrays of others, so that these would not be found again: here
each operand has a binding of its own, whose place the host knows. Programs with loops or branches
on the host are not for this: the passes as they are listed here refuse some, and crash on others.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from xpr.lowering import prebuilt
from xpr.lowering.iree import prebuilt_libraries, tiles
from xpr.lowering.iree.mlir import Mlir
from xpr.lowering.iree.versions.base import IreeVersion

REVISION = 4
"""Tells apart what an older form of this file kept, and modules that it made."""

FROM, TO = "flow", "hal"
"""The phases between which `compile_dispatches` does what the compiler would."""

SOURCES = "executable-sources"
"""The one of them behind which dispatches are taken out."""


_EXECUTABLE, _VARIANT = "hal.executable", "hal.executable.variant"
_EXPORT, _BINARY = "hal.executable.export", "hal.executable.binary"
_MOST_BINDINGS = 31
_BESIDE = frozenset({"builtin.module", "hal.executable_end", "hal.executable.variant_end"})
_FORMAT = re.compile(r'"llvm-cpu", "([\w-]+)"')
_ORDINAL = re.compile(r"\bordinal\(\d+\)")
_DEVICE = "!hal.device"


class Store(Protocol):
    """Where compiled dispatches are kept."""

    def get(self, key: bytes) -> bytes | None:
        """What is kept under a key of 32 bytes, if it is sound."""
        ...

    def put(self, key: bytes, payload: bytes) -> None:
        """Keeps something under a key."""
        ...


class Nowhere:
    """A store that keeps nothing."""

    def get(self, key: bytes) -> bytes | None:
        """Nothing."""
        del key

    def put(self, key: bytes, payload: bytes) -> None:
        """Does nothing."""


class Compile(Protocol):
    """A compile under way."""

    mlir: Mlir
    version: IreeVersion

    def passes(self, pipeline: str, stage: str) -> None:
        """Runs a pipeline of passes over the module; raises `PassesError` if that fails."""
        ...

    def phases(self, after: str, to: str) -> None:
        """Runs the compiler's own passes of some phases; raises `RefusedError` if that fails."""
        ...

    def translate(self) -> None:
        """Brings dispatches from `SOURCES` to LLVM's dialect, to `objects.FROM`."""
        ...

    def to_hal(self) -> None:
        """Brings compiled dispatches to libraries: from `objects.FROM` to `objects.TO`."""
        ...

    def text(self) -> str:
        """The module as text in which each operation can be read alone, without places."""
        ...

    def has_globals(self) -> bool:
        """Whether there are globals beside the one that is the device."""
        ...

    def module(self) -> AbstractContextManager[int]:
        """The module, taken out for as long as the block lasts; gone if that raises."""
        ...

    def take(self) -> int:
        """Takes the module out."""
        ...

    def give(self, module: int) -> None:
        """Puts a module in."""
        ...


class UnkeptError(Exception):
    """The dispatches of this program cannot be compiled one by one."""


@dataclass(frozen=True)
class _Dispatch:
    """A dispatch of the program: the symbols of its executable, its variant and its function."""

    operation: int
    text: str
    executable: str
    variant: str
    function: str
    target: str
    key: bytes


@dataclass(frozen=True)
class _Compiled:
    """A compiled dispatch: the function of a library, and the text that declares it."""

    function: str
    export: str
    library: bytes


class Done(NamedTuple):
    """How a program was brought to `TO`."""

    kept: int
    """How many of its dispatches were kept,"""
    number: int
    """of how many;"""
    machine: str | None
    """The passes that bring it to the phase vm; None for IREE's own."""


def compile_dispatches(compiling: Compile, store: Store, identity: str) -> Done:
    """Brings a program from `FROM` to `TO`.

    `identity` is what the code depends on beside the program: flags and versions.
    """
    # Globals with values get initializers on the way.
    lists = compiling.version.dispatches
    pipelines = lists.whole if compiling.has_globals() else lists.short
    compiling.passes(pipelines.stream, "stream")
    compiling.phases("stream", SOURCES)
    executable = compiling.version.texts.executable
    texts = {found[1]: found[0] for found in executable.finditer(compiling.text())}
    libraries: dict[bytes, bytes] = {}
    with compiling.module() as module:
        formats, done = _with_libraries(compiling, module, texts, store, identity, libraries)
    compiling.passes(pipelines.host, "host")
    with compiling.module() as module:
        _put_in(compiling, module, formats, libraries)
        _match_devices(compiling.mlir, module)
    return done._replace(machine=pipelines.machine)


def _with_libraries(
    compiling: Compile,
    module: int,
    texts: dict[str, str],
    store: Store,
    identity: str,
    libraries: dict[bytes, bytes],
) -> tuple[dict[str, tuple[bytes, str, str]], Done]:
    """Has a program call libraries, of which it adds the bytes to `libraries`; see `_refer`."""
    mlir = compiling.mlir
    dispatches = [
        _read(mlir, operation, texts, identity)
        for operation in mlir.operations(module)
        if mlir.name(operation) == _EXECUTABLE
    ]
    found: dict[bytes, _Compiled] = {}
    for dispatch in dispatches:
        kept = (
            found.get(dispatch.key)
            or _prebuilt(mlir, dispatch, libraries)
            or _kept(store, dispatch.key, libraries)
        )
        if kept is not None:
            found[dispatch.key] = kept
    missing = {d.key: d for d in dispatches if d.key not in found}
    if missing:
        made = _compile(compiling, module, list(missing.values()), libraries)
        for key, compiled in made.items():
            library = libraries[compiled.library]
            store.put(compiled.library, library)
            store.put(key, _packed(compiled))
        found |= made
    formats = _refer(compiling, module, dispatches, found)
    return formats, Done(len(dispatches) - len(missing), len(dispatches), None)


def _symbol(mlir: Mlir, operation: int) -> str:
    return json.loads(mlir.attribute_text(operation, "sym_name"))


def _only(mlir: Mlir, operation: int, name: str) -> int:
    """The one operation of that name inside of another one, beside its code and its end."""
    inner = [i for i in mlir.operations(operation) if mlir.name(i) not in _BESIDE]
    if [mlir.name(i) for i in inner] != [name]:
        raise UnkeptError(f"{_symbol(mlir, operation)} holds {[mlir.name(i) for i in inner]}")
    return inner[0]


def _read(mlir: Mlir, operation: int, texts: dict[str, str], identity: str) -> _Dispatch:
    variant = _only(mlir, operation, _VARIANT)
    export = _only(mlir, variant, _EXPORT)
    executable, function = _symbol(mlir, operation), _symbol(mlir, export)
    text = texts.get(executable)
    if text is None or _bindings(text) > _MOST_BINDINGS:
        raise UnkeptError(f"{executable} has another form")
    named = prebuilt.without_objects(text)
    named = named.replace(f"@{function}", "@function").replace(f"@{executable}", "@dispatch")
    digest = hashlib.sha256(
        f"dispatch {REVISION}.{tiles.REVISION}\0{identity}\0{named}".encode()
    ).digest()
    target = mlir.attribute_text(variant, "target")
    return _Dispatch(operation, text, executable, _symbol(mlir, variant), function, target, digest)


def _bindings(text: str) -> int:
    """How many bindings the function of an executable has."""
    line = next(line for line in text.splitlines() if _EXPORT in line)
    return line.count("#hal.pipeline.binding<")


# ---- what is kept


def _prebuilt(mlir: Mlir, dispatch: _Dispatch, libraries: dict[bytes, bytes]) -> _Compiled | None:
    """A dispatch that calls a kernel which comes with xpr."""
    found = prebuilt_libraries.of_dispatch(dispatch.text)
    if found is None:
        return None
    kernel, library = found
    name = hashlib.sha256(library).digest()
    libraries[name] = library
    export = _only(mlir, _only(mlir, dispatch.operation, _VARIANT), _EXPORT)
    declared = mlir.printed(export).replace(f"@{dispatch.function}", f"@{kernel}")
    return _Compiled(kernel, declared, name)


def _kept(store: Store, key: bytes, libraries: dict[bytes, bytes]) -> _Compiled | None:
    payload = store.get(key)
    if payload is None:
        return None
    function, export, name = json.loads(payload)
    library = bytes.fromhex(name)
    if library not in libraries:
        content = store.get(library)
        if content is None:
            return None
        libraries[library] = content
    return _Compiled(function, export, library)


def _packed(compiled: _Compiled) -> bytes:
    return json.dumps((compiled.function, compiled.export, compiled.library.hex())).encode()


# ---- what is compiled


def _compile(
    compiling: Compile, module: int, missing: Sequence[_Dispatch], libraries: dict[bytes, bytes]
) -> dict[bytes, _Compiled]:
    """Compiles dispatches in a module of their own."""
    mlir = compiling.mlir
    compiling.give(_apart(mlir, module, missing))
    compiling.translate()
    shell = compiling.take()
    exports: dict[str, str] = {}
    for operation in mlir.operations(shell):
        if mlir.name(operation) == _EXECUTABLE:
            export = _only(mlir, _only(mlir, operation, _VARIANT), _EXPORT)
            exports[_symbol(mlir, export)] = mlir.printed(export)
    compiling.give(shell)
    compiling.to_hal()
    shell = compiling.take()
    binaries = [mlir.data(op, "data") for op in mlir.walk(shell) if mlir.name(op) == _BINARY]
    mlir.OperationDestroy(shell)
    made: dict[bytes, _Compiled] = {}
    for dispatch in missing:
        name = dispatch.function
        # It is found by its name at run time, which stands in the library, behind anything.
        holding = [b for b in binaries if name.encode() + b"\0" in b]
        if len(holding) != 1 or name not in exports:
            raise UnkeptError(f"{name} was compiled to something else")
        library = hashlib.sha256(holding[0]).digest()
        libraries[library] = holding[0]
        made[dispatch.key] = _Compiled(name, exports[name], library)
    return made


def _apart(mlir: Mlir, module: int, missing: Sequence[_Dispatch]) -> int:
    """A module of some dispatches, which are public, so that they are not taken out.

    It has no function: on those passes cost as much as the machine code of a small dispatch.
    """
    devices = [
        op
        for op in mlir.operations(module)
        if mlir.name(op) == "util.global" and mlir.attribute_text(op, "type") == _DEVICE
    ]
    if len(devices) != 1:
        raise UnkeptError(f"one device is required, got {len(devices)}")
    lines = ["module {", mlir.printed(devices[0])]
    lines += [d.text.replace("hal.executable private", "hal.executable public", 1) for d in missing]
    lines += ["}"]
    shell = mlir.parsed(module, "\n".join(lines))
    mlir.copy_attributes(module, shell)
    return shell


# ---- what refers to it


def _refer(
    compiling: Compile, module: int, dispatches: Sequence[_Dispatch], found: dict[bytes, _Compiled]
) -> dict[str, tuple[bytes, str, str]]:
    """Has the program call functions of libraries instead of its own dispatches.

    Returns the library, the variant and its format for each executable that is in the module now.
    """
    mlir, shell = compiling.mlir, compiling.version.texts.shell
    names: dict[tuple[bytes, str, str], str] = {}
    declared: dict[str, dict[str, str]] = {}
    calls: dict[str, str] = {}
    for d in dispatches:
        compiled = found[d.key]
        group = (compiled.library, d.variant, d.target)
        name = names.setdefault(group, f"xpr_library_{len(names)}")
        declared.setdefault(name, {})[compiled.function] = compiled.export
        old = f"@{d.executable}::@{d.variant}::@{d.function}"
        calls[f"[{old}]"] = f"[@{name}::@{d.variant}::@{compiled.function}]"
    for op in mlir.operations(module):
        if mlir.name(op) != _EXECUTABLE:
            _call(mlir, op, calls)
    (block,) = mlir.blocks(module)
    formats: dict[str, tuple[bytes, str, str]] = {}
    for (library, variant, target), name in names.items():
        exports = [
            _ORDINAL.sub(f"ordinal({i})", text, count=1)
            for i, text in enumerate(declared[name].values())
        ]
        found_format = _FORMAT.search(target)
        if found_format is None:
            raise UnkeptError(f"{target} is of another kind")
        formats[name] = library, variant, found_format[1]
        target = target.removeprefix("#hal.executable.target")
        body = "\n".join([*exports, "builtin.module {}"])
        text = (
            f"{shell.format(name=name)}\n{_VARIANT} public @{variant} target({target}) {{\n"
            f"{body}\n}}\n}}"
        )
        mlir.BlockInsertOwnedOperationBefore(
            block, dispatches[0].operation, mlir.parsed(module, text)
        )
    for d in dispatches:
        mlir.OperationDestroy(d.operation)
    return formats


def _call(mlir: Mlir, operation: int, calls: dict[str, str]) -> None:
    for op in mlir.walk(operation):
        if mlir.name(op) == "stream.cmd.dispatch":
            places = mlir.attribute_text(op, "entry_points")
            if places not in calls:
                raise UnkeptError(f"{places} is no dispatch of this program")
            mlir.set_attribute(op, "entry_points", calls[places])


def _put_in(
    compiling: Compile,
    module: int,
    formats: dict[str, tuple[bytes, str, str]],
    libraries: dict[bytes, bytes],
) -> None:
    """Puts the libraries in place of what declares their functions."""
    mlir, texts = compiling.mlir, compiling.version.texts
    for operation in mlir.operations(module):
        if mlir.name(operation) != _EXECUTABLE:
            continue
        library, variant, kind = formats[_symbol(mlir, operation)]
        content = libraries[library]
        binary = texts.binary.format(
            variant=variant, format=kind, digits=content.hex().upper(), size=len(content)
        )
        text = f"{texts.shell.format(name=_symbol(mlir, operation))}\n{binary}\n}}"
        made = mlir.parsed(operation, text)
        mlir.BlockInsertOwnedOperationBefore(mlir.OperationGetBlock(operation), operation, made)
        mlir.OperationDestroy(operation)


def _match_devices(mlir: Mlir, module: int) -> None:
    """Has the program look for devices as IREE has it: for all whose name begins with the kind.

    Without the registry of targets the pass looks for a name that is the kind.
    """
    for operation in mlir.operations(module):
        if mlir.name(operation) == "util.initializer":
            for op in mlir.walk(operation):
                if mlir.name(op) != "hal.device.query":
                    continue
                if mlir.attribute_text(op, "category") == '"hal.device.id"':
                    kind = json.loads(mlir.attribute_text(op, "key"))
                    mlir.set_attribute(op, "key", json.dumps(f"{kind.rstrip('*')}*"))
