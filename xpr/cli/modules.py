"""What a compiled module (`.vmfb`) tells about itself, without running it.

IREE writes a module as a ZIP archive of the program in bytecode (`module.fb`) and one executable
for each device; a bare `module.fb` is a module too. What is wanted stands there as text: the
declaration of each function, and, for the case that a device is not found, what it should have
been. The text is searched, and IREE is not asked: it can be crashed by a damaged file, while the
archive has checksums that are looked at first.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from dataclasses import dataclass

from xpr.cli.errors import CommandError
from xpr.core.dtypes import SHORT_NAMES
from xpr.lowering.ir.types import element_dtype
from xpr.runtimes.base import ArrayType
from xpr.runtimes.bundle import ArgumentType

DYNAMIC = -1
"""Stands for a symbolic dimension."""

# A size, the offset of the root, and the identifier of the format come first.
_IDENTIFIER = slice(8, 12)
# A string of the format ends with a zero.
_FUNCTION = re.compile(rb"func @(?P<name>[\w$.]+)(?P<types>\([^\x00]*)")
_ARGUMENT = re.compile(
    r"%(?P<side>input|output)\d+: tensor<(?P<shape>(?:[\d?]+x)*)(?P<type>complex<\w+>|\w+)>"
    r"(?: \{iree\.abi\.encoding = tensor<(?:[\d?]+x)*(?P<encoding>\w+)>\})?"
)
_DEVICE = re.compile(rb'#hal\.device\.target<"(\w+)"')
_EXECUTABLE = re.compile(rb'#hal\.executable\.target<"([\w-]+)", "([\w-]+)"')
_DETAILS = {
    "gpu": re.compile(rb'\barch = "([^"]+)"'),
    "cpu": re.compile(rb'\bcpu = "([^"]+)"'),
    "triple": re.compile(rb'\btarget_triple = "([^"]+)"'),
}
_FEATURES = re.compile(rb'\bcpu_features = "([^"]*)"')
# What xpr calls any Vulkan device of certain capabilities.
_GENERIC = b"xpr"
# What zipfile raises for damaged archives.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError),
    *(OSError, EOFError, RuntimeError, ValueError, KeyError, OverflowError),
)
_DISPATCH = re.compile(rb"[\w$]+_dispatch_\d+\w*")

_RUNTIMES = {
    "embedded-elf": "cpu",
    "system": "cpu",
    "vmvx": "vmvx",
    "vulkan": "vulkan",
    "cuda": "cuda",
    "rocm": "rocm",
    "metal": "metal",
}
"""The runtime by the beginning of an executable's format."""


_ELF = "embedded-elf-"
_ARCHITECTURES = {"arm_64": "aarch64", "riscv_64": "riscv64"}
"""Names of architectures, by those in a format, where they differ."""


@dataclass(frozen=True)
class Function:
    """An exported function; the types are None where the module does not state them."""

    name: str
    inputs: tuple[ArrayType, ...] | None
    outputs: tuple[ArrayType, ...] | None


@dataclass(frozen=True)
class Module:
    """A compiled module's description."""

    size: int
    parts: tuple[tuple[str, int], ...]
    """The files inside, with their sizes."""
    functions: tuple[Function, ...]
    devices: tuple[str, ...]
    formats: tuple[str, ...]
    details: tuple[tuple[str, str], ...]
    dispatches: tuple[str, ...]
    features: tuple[str, ...] = ()
    """The instruction sets, by LLVM's names, that its native code may use."""

    @property
    def runtimes(self) -> tuple[str, ...]:
        """The names of the runtimes that can run it."""
        found = (
            name
            for form in self.formats
            for start, name in _RUNTIMES.items()
            if form.startswith(start)
        )
        return tuple(dict.fromkeys(found))

    @property
    def architectures(self) -> tuple[str, ...]:
        """The processors whose native code it holds; none in modules that hold no such code."""
        found = [form.removeprefix(_ELF) for form in self.formats if form.startswith(_ELF)]
        return tuple(_ARCHITECTURES.get(name, name) for name in found)


def describe(data: bytes, label: str) -> Module:
    """The description of a module's bytes; CommandError naming `label` if it is none or damaged."""
    parts, code = _parts(data, label)
    if code[_IDENTIFIER] != b"IREE":
        raise CommandError(f"{label} is not a compiled module")
    functions = [_function(match) for match in _FUNCTION.finditer(code)]
    executables = dict.fromkeys(_EXECUTABLE.findall(code))
    details = {
        (kind, text.decode("utf-8", "replace"))
        for kind, pattern in _DETAILS.items()
        for text in pattern.findall(code)
        if text != _GENERIC
    }
    return Module(
        size=len(data),
        parts=parts,
        functions=tuple(functions),
        devices=tuple(name.decode() for name in dict.fromkeys(_DEVICE.findall(code))),
        formats=tuple(form.decode() for _, form in executables),
        details=tuple(sorted(details)),
        dispatches=_dispatches(code),
        features=tuple(sorted(_features(code))),
    )


def _features(code: bytes) -> set[str]:
    texts = (text.decode("utf-8", "replace") for text in _FEATURES.findall(code))
    return {name[1:] for text in texts for name in text.split(",") if name.startswith("+")}


def _function(declaration: re.Match[bytes]) -> Function:
    name = declaration["name"].decode("utf-8", "replace")
    sides: dict[str, list[ArrayType]] = {"input": [], "output": []}
    for match in _ARGUMENT.finditer(declaration["types"].decode("utf-8", "replace")):
        kind = element_dtype(match["encoding"] or match["type"])
        if kind is None:
            return Function(name, None, None)
        sizes = [DYNAMIC if d == "?" else int(d) for d in match["shape"].split("x") if d]
        sides[match["side"]].append((tuple(sizes), kind))
    return Function(name, tuple(sides["input"]), tuple(sides["output"]))


def _parts(data: bytes, label: str) -> tuple[tuple[tuple[str, int], ...], bytes]:
    """The files in a module, and the one with the bytecode."""
    if not data.startswith(b"PK"):
        return (("module.fb", len(data)),), data
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            broken = archive.testzip()
            if broken is not None:
                raise CommandError(f"{label} is damaged: the checksum of {broken} is wrong")
            sizes = tuple((info.filename, info.file_size) for info in archive.infolist())
            if "module.fb" not in archive.namelist():
                raise CommandError(f"{label} is not a compiled module: it has no module.fb")
            return sizes, archive.read("module.fb")
    except _DAMAGED as error:
        raise CommandError(f"{label} is not a compiled module, or damaged: {error}") from error


def _dispatches(code: bytes) -> tuple[str, ...]:
    """The names of the dispatches: constants of the bytecode, each with its length before it."""
    names: dict[str, None] = {}
    for match in _DISPATCH.finditer(code):
        length = int.from_bytes(code[match.start() - 4 : match.start()], "little")
        if 0 < length <= len(match[0]):
            names[match[0][:length].decode()] = None
    return tuple(sorted(names, key=_number))


def _number(name: str) -> tuple[str, int, str]:
    before, _, after = name.partition("_dispatch_")
    digits = re.match(r"\d*", after)
    return before, int(digits[0]) if digits and digits[0] else 0, after


def open_type_text(kind: ArgumentType) -> str:
    """The type of a bundle's input or result, with the names of symbolic dimensions."""
    name = "float0" if kind.given_no_values else SHORT_NAMES.get(kind.dtype, kind.dtype.name)
    return f"{name}[{','.join(kind.texts)}]"


def type_text(kind: ArrayType) -> str:
    """A type as the command line writes it.

    >>> import numpy as np
    >>> type_text(((8, DYNAMIC), np.dtype("float32")))
    'f32[8,?]'
    """
    shape, dtype = kind
    name = SHORT_NAMES.get(dtype, dtype.name)
    return f"{name}[{','.join('?' if d == DYNAMIC else str(d) for d in shape)}]"
