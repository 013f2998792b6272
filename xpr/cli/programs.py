"""A bundle or a module from a file, ready to be called with NumPy arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xpr.cli.errors import CommandError, UsageError
from xpr.cli.modules import DYNAMIC, Module, describe, type_text
from xpr.export.spirv import spirv_needs
from xpr.runtimes import registry
from xpr.runtimes.base import ArrayType, Device, ExecutableSignature, Shape
from xpr.runtimes.bundle import ArgumentType
from xpr.runtimes.bundle.archive import MANIFEST
from xpr.runtimes.bundle.command import read_npy
from xpr.runtimes.bundle.machine import gpu_abilities, host_architecture, why_gpu_unfit
from xpr.runtimes.hal_device import HalDevice
from xpr.runtimes.processor_features import missing_features

_ENTRY = "main"
_MODULE = b"module.fb"  # the first member of a module, or of most
_OPEN = 8

HostArray = np.ndarray[Any, Any]


class Program(ABC):
    """A loaded program with its inputs and results in a row."""

    runtime: str
    inputs: tuple[ArrayType, ...]
    """The types of the inputs, with `DYNAMIC` for symbolic dimensions."""
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]

    def example_shapes(self, size: int) -> list[Shape]:
        """The shapes of the inputs where each symbolic dimension is `size`."""
        return [shape for shape, _ in self.inputs]

    @abstractmethod
    def __call__(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        """Runs on one array for each input; the results are ready when it returns."""


class ModuleProgram(Program):
    """A `.vmfb` on the first device of a runtime."""

    def __init__(self, path: Path, runtime: str | None) -> None:
        data = path.read_bytes()
        module = describe(data, str(path))
        functions = [f for f in module.functions if f.inputs is not None]
        found = next(
            (f for f in functions if f.name == _ENTRY), functions[0] if functions else None
        )
        if found is None or found.inputs is None or found.outputs is None:
            raise CommandError(f"{path} has no function whose types it states")
        if runtime is None:
            if not module.runtimes:
                raise CommandError(f"{path} does not say what it runs on: name it by --runtime")
            runtime = module.runtimes[0]
        elif module.runtimes and runtime not in module.runtimes:
            raise UsageError(f"{path} is made for {', '.join(module.runtimes)}, not for {runtime}")
        here = host_architecture()
        if runtime == "cpu" and module.architectures and here not in module.architectures:
            made = ", ".join(module.architectures)
            raise CommandError(f"{path} is for the architecture {made}, and this machine is {here}")
        missing = missing_features(module.features) if runtime == "cpu" else []
        if missing:
            raise CommandError(
                f"{path} needs CPU features that are missing here: {', '.join(missing)}. Compile "
                "it for another target, such as x86_64-v2"
            )
        if any(DYNAMIC in shape for shape, _ in (*found.inputs, *found.outputs)):
            raise CommandError(f"{path} has symbolic dimensions: run it from a bundle")
        self.runtime = runtime
        self.inputs = found.inputs
        self.input_names = tuple(f"input {i}" for i in range(len(found.inputs)))
        self.output_names = tuple(f"result {i}" for i in range(len(found.outputs)))
        self._device = registry.devices(runtime)[0]
        check_gpu(self._device, module, data, path)
        signature = ExecutableSignature(found.name, found.inputs, found.outputs)
        self._executable = self._device.runtime.load(data, signature, self._device)

    def __call__(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        device = self._device
        buffers = [device.runtime.buffer_from_host(a, device, copy=False) for a in arrays]
        return [result.host_view() for result in self._executable(buffers)]


def check_gpu(device: Device, module: Module, data: bytes, path: Path) -> None:
    """Raises CommandError for a module that needs what the GPU lacks."""
    if not isinstance(device, HalDevice):
        return
    gpu = dict(module.details).get("gpu", "")
    runtime = device.runtime.name
    entry = {
        "runtime": runtime,
        "architecture": gpu,
        "compiled_for": gpu,
        "needs": spirv_needs(data),
    }
    known = gpu or runtime == "vulkan"
    reason = why_gpu_unfit(entry, gpu_abilities(runtime, device.told())) if known else None
    if reason is not None:
        raise CommandError(f"{path} cannot run here: {reason}")


class BundleProgram(Program):
    """A bundle's program, on the first device that it fits."""

    def __init__(self, path: Path, runtime: str | None) -> None:
        # It brings all of xpr, which a bare module does without.
        from xpr.export.loaded import load  # noqa: PLC0415

        self._bundle = load(path, platform=runtime)
        self.runtime = self._bundle.device.runtime.name
        self.inputs = tuple((_sizes(kind), kind.dtype) for kind in self._bundle.inputs)
        self.input_names = tuple(f"argument {kind.path}" for kind in self._bundle.inputs)
        self.output_names = tuple(kind.path for kind in self._bundle.outputs)

    def example_shapes(self, size: int) -> list[Shape]:
        return [kind.shape(_Same(size)) for kind in self._bundle.inputs]

    def __call__(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        return [np.asarray(result) for result in self._bundle.call_flat(arrays)]


class _Same(dict[str, int]):
    """The same size for every name."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __missing__(self, name: str) -> int:
        return self._size


def _sizes(kind: ArgumentType) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else DYNAMIC for size in kind.extents)


def is_bundle(path: Path) -> bool:
    """Whether a file is to be read as a bundle: by its first member, else by its ending."""
    with path.open("rb") as file:
        start = file.read(64)
    # A ZIP archive's first header has the first name at byte 30.
    if start.startswith(b"PK") and start[30:].startswith(MANIFEST.encode()):
        return True
    return path.suffix == ".xpr" and _MODULE not in start


def counted(count: int, name: str) -> str:
    """A number of things.

    >>> counted(1, "input"), counted(0, "result")
    ('1 input', '0 results')
    """
    return f"{count} {name}{'' if count == 1 else 's'}"


def read_inputs(program: Program, files: Sequence[str]) -> list[HostArray]:
    """The arrays of `.npy` files, one for each input and of its type."""
    if len(files) != len(program.inputs):
        types = ", ".join(map(type_text, program.inputs)) or "none"
        count = counted(len(program.inputs), "input")
        raise UsageError(f"the program takes {count} ({types}), got {len(files)}")
    return [
        _read(file, kind, name)
        for file, kind, name in zip(files, program.inputs, program.input_names, strict=True)
    ]


def _read(file: str, kind: ArrayType, name: str) -> HostArray:
    try:
        array = read_npy(file, kind[1])
    except TypeError as error:
        raise CommandError(str(error)) from error
    if not _fits(array, kind):
        found = type_text((array.shape, array.dtype))
        raise CommandError(f"{name} must be {type_text(kind)}, got {found} in {file}")
    return np.ascontiguousarray(array).reshape(array.shape)


def _fits(array: HostArray, kind: ArrayType) -> bool:
    shape, dtype = kind
    return (
        array.dtype == dtype
        and array.ndim == len(shape)
        and all(want in (DYNAMIC, size) for want, size in zip(shape, array.shape, strict=True))
    )


def random_inputs(program: Program, seed: int = 0) -> list[HostArray]:
    """Arrays of the inputs' types: normal numbers, or integers from 0 to 9; 8 for symbolic
    dimensions."""
    rng = np.random.default_rng(seed)
    arrays = []
    for shape, (_, dtype) in zip(program.example_shapes(_OPEN), program.inputs, strict=True):
        exact = dtype.kind in "biu"
        drawn = rng.integers(0, 10, shape) if exact else rng.standard_normal(shape)
        arrays.append(np.asarray(drawn).astype(dtype))
    return arrays
