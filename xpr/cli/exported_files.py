"""Files of programs that are not compiled: StableHLO, exported functions of JAX's and of xpr's."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xpr.cli.errors import CommandError, UsageError
from xpr.cli.modules import DYNAMIC, type_text
from xpr.cli.programs import HostArray, Program
from xpr.export.exported import Exported
from xpr.runtimes import registry
from xpr.runtimes.base import ArrayType, Shape

_OWN = b'"xpr-exported"'
_BYTECODE = b"ML\xefR"
_SUFFIXES = (".mlir", ".mlirbc", ".stablehlo", ".jax")


def is_exported(path: Path) -> bool:
    """Whether a file holds a program that is not compiled: by its ending, else by its bytes.

    >>> is_exported(Path("model.mlir")), is_exported(Path("model.py"))
    (True, False)
    """
    if path.suffix in _SUFFIXES:
        return True
    if path.suffix in (".xpr", ".vmfb", ".py") or not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(1 << 12)
    return start.startswith(_BYTECODE) or _OWN in start or _is_container(start, path)


def _is_container(start: bytes, path: Path) -> bool:
    """Whether the bytes are those of JAX's `Exported.serialize()`: they hold such a module."""
    return not start.startswith(b"PK") and _BYTECODE in path.read_bytes()


def load_exported(path: Path) -> Exported:
    """The program that a file holds."""
    data = path.read_bytes()
    if _OWN in data[: 1 << 12]:
        from xpr.export.deserialization import deserialize  # noqa: PLC0415  only for these

        return deserialize(data)
    from xpr.export.reading import from_stablehlo  # noqa: PLC0415  it loads all rules

    return from_stablehlo(path)


def _type(aval: Any) -> ArrayType:
    shape = tuple(d if isinstance(d, int) else DYNAMIC for d in aval.shape)
    return shape, aval.dtype


class ExportedProgram(Program):
    """A program that is compiled when it is first called."""

    def __init__(self, path: Path, runtime: str | None) -> None:
        exported = load_exported(path)
        if exported.nr_devices > 1:
            raise CommandError(
                f"{path} is a program of {exported.nr_devices} devices: call it from Python"
            )
        name = registry.default_backend() if runtime is None else runtime
        try:
            self._device = registry.devices(name)[0]
        except (RuntimeError, ValueError) as error:
            raise UsageError(str(error)) from error
        self.runtime = name
        self.exported = exported
        self.inputs = tuple(map(_type, exported.in_avals))
        self.input_names = tuple(exported.input_names())
        self.output_names = tuple(f"result {i}" for i in range(len(exported.out_avals)))

    def example_shapes(self, size: int) -> list[Shape]:
        return [tuple(size if n == DYNAMIC else n for n in shape) for shape, _ in self.inputs]

    def __call__(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        from xpr.contexts import default_device  # noqa: PLC0415  loaded with the program

        with default_device(self._device):
            return [np.asarray(x) for x in self.exported.call_flat(*arrays)]


def exported_lines(path: Path) -> Iterator[str]:
    """What `xpr inspect` says of a file."""
    exported = load_exported(path)
    yield f"{'program':<10} {exported.fun_name}, {_origin(path)}"
    if exported.nr_devices > 1:
        yield f"{'devices':<10} {exported.nr_devices}"
    for name, aval in zip(exported.input_names(), exported.in_avals, strict=True):
        yield f"{'  input':<10} {name}: {_text(aval)}"
    for i, aval in enumerate(exported.out_avals):
        yield f"{'  result':<10} [{i}]: {_text(aval)}"
    for name, count in _operations(exported):
        yield f"{'operation':<10} {name} {count}"


def _text(aval: Any) -> str:
    shape = ",".join(map(str, aval.shape))
    return f"{type_text(((), aval.dtype)).partition('[')[0]}[{shape}]"


def _origin(path: Path) -> str:
    data = path.read_bytes()
    if _OWN in data[: 1 << 12]:
        return "exported by xpr"
    place = data.find(_BYTECODE)
    if place < 0:
        return "StableHLO text"
    producer = data[place + 5 : data.find(b"\0", place + 5)].decode("ascii", "replace")
    return f"{producer if place == 0 else f'exported by JAX, {producer}'}"


def _operations(exported: Exported) -> list[tuple[str, int]]:
    """The primitives of the program, the most frequent first; none where sizes are open."""
    from xpr.core.jaxpr import all_eqns  # noqa: PLC0415  loaded with the program

    if any(not isinstance(d, int) for a in exported.in_avals for d in a.shape):
        return []
    closed = exported.program.at(())
    counts = collections.Counter(eqn.primitive.name for eqn in all_eqns(closed.jaxpr))
    return counts.most_common()
