"""What a compiled module (`.vmfb`) tells about itself, without running it.

IREE writes a module as a ZIP archive of the program in bytecode (`module.fb`) and one executable
for each device; it reads modules without the archive's directory too. Functions and their types
are asked of IREE's runtime, which checks the file. Devices and dispatches stand in the bytecode's
constants: the loader names them to the device, and prints the device's description when there is
none.
"""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from xpr.cli.errors import CommandError
from xpr.core.dtypes import SHORT_NAMES
from xpr.runtimes import hal
from xpr.runtimes.base import ArrayType
from xpr.runtimes.bundle import ArgumentType

DYNAMIC = -1
"""Stands for a size that is left open."""

_DECLARATION = "iree.abi.declaration"
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
# What xpr calls any Vulkan device of certain capabilities.
_GENERIC = b"xpr"
_DISPATCH = re.compile(rb"[\w$]+_dispatch_\d+\w*")

_TYPES: dict[str, Any] = {
    "i1": np.bool_,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
}

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


@dataclass(frozen=True)
class Function:
    """An exported function; the types are None where the module does not state them."""

    name: str
    inputs: tuple[ArrayType, ...] | None
    outputs: tuple[ArrayType, ...] | None


@dataclass(frozen=True)
class Module:
    """A compiled module's description."""

    name: str
    size: int
    parts: tuple[tuple[str, int], ...]
    """The files inside, with their sizes."""
    functions: tuple[Function, ...]
    devices: tuple[str, ...]
    formats: tuple[str, ...]
    details: tuple[tuple[str, str], ...]
    dispatches: tuple[str, ...]

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


# What IREE's verifier raises for the many ways in which a module can be damaged.
_REFUSED = (ValueError, IndexError, RuntimeError, NotImplementedError)


def describe(data: bytes, label: str) -> Module:
    """The description of a module's bytes; CommandError naming `label` if they are none."""
    shared = hal.start()
    try:
        module = shared.rt.VmModule.copy_buffer(shared.instance, data)
        functions = tuple(
            _function(name, module.lookup_function(name).reflection)
            for name in module.function_names
            if not name.startswith("__")
        )
    except _REFUSED as error:
        reason = str(error).partition(".c:")[2].partition(" ")[2] or str(error)
        raise CommandError(f"{label} is not a module that IREE can load: {reason}") from error
    parts, code = _parts(data)
    executables = dict.fromkeys(_EXECUTABLE.findall(code))
    details = {
        (kind, text.decode("utf-8", "replace"))
        for kind, pattern in _DETAILS.items()
        for text in pattern.findall(code)
        if text != _GENERIC
    }
    return Module(
        name=module.name,
        size=len(data),
        parts=parts,
        functions=functions,
        devices=tuple(name.decode() for name in dict.fromkeys(_DEVICE.findall(code))),
        formats=tuple(form.decode() for _, form in executables),
        details=tuple(sorted(details)),
        dispatches=_dispatches(code),
    )


def _function(name: str, reflection: dict[str, str]) -> Function:
    declaration = reflection.get(_DECLARATION)
    if declaration is None:
        return Function(name, None, None)
    sides: dict[str, list[ArrayType]] = {"input": [], "output": []}
    for match in _ARGUMENT.finditer(declaration):
        kind = _TYPES.get(match["encoding"] or match["type"])
        if kind is None:
            return Function(name, None, None)
        sizes = [DYNAMIC if d == "?" else int(d) for d in match["shape"].split("x") if d]
        sides[match["side"]].append((tuple(sizes), np.dtype(kind)))
    return Function(name, tuple(sides["input"]), tuple(sides["output"]))


def _parts(data: bytes) -> tuple[tuple[tuple[str, int], ...], bytes]:
    """The files in a module, and the one with the bytecode."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            sizes = tuple((info.filename, info.file_size) for info in archive.infolist())
            return sizes, archive.read("module.fb")
    except (zipfile.BadZipFile, KeyError, EOFError, *_REFUSED):
        return (("module.fb", len(data)),), data


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
    """The type of a bundle's input or result, with the names of open sizes."""
    name = "float0" if kind.given_no_values else SHORT_NAMES.get(kind.dtype, kind.dtype.name)
    return f"{name}[{','.join(kind.texts)}]"


def type_text(kind: ArrayType) -> str:
    """A type as the command line writes it.

    >>> type_text(((8, DYNAMIC), np.dtype("float32")))
    'f32[8,?]'
    """
    shape, dtype = kind
    name = SHORT_NAMES.get(dtype, dtype.name)
    return f"{name}[{','.join('?' if d == DYNAMIC else str(d) for d in shape)}]"
