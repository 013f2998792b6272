"""Models: exported functions, compiled to objects and schedules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.physical import physical_aval
from xpr.export.modules import compile_for
from xpr.export.no_runtime.names import identifier, items_of, paths_of
from xpr.export.program_data import dtype_text
from xpr.lowering.iree import installed
from xpr.lowering.no_runtime.elf import ElfObject
from xpr.lowering.no_runtime.evaluate import ArrayType, evaluate
from xpr.lowering.no_runtime.interface import Array, Entry, Group, Item, Machine, Model, arrays_of
from xpr.lowering.no_runtime.memory import planned
from xpr.lowering.no_runtime.module_file import read_module
from xpr.lowering.no_runtime.refusal import RefusedError
from xpr.lowering.no_runtime.simplify import joined
from xpr.lowering.no_runtime.wasm.linker import kernel_names
from xpr.lowering.targets.base import Target
from xpr.version import __version__

if TYPE_CHECKING:
    from xpr.export.exported import Exported

_WEIGHTS_ABOVE = 256
"""Bytes of an array above which several functions of a model share it.

It is not a part of their programs then, which may add in another order.
"""

_LARGEST_32_BIT = (1 << 31) - 1


def _types(avals: Sequence[Any]) -> list[tuple[str, int, tuple[int, ...]] | None]:
    found: list[tuple[str, int, tuple[int, ...]] | None] = []
    for aval in avals:
        if aval.dtype == dtypes.float0:
            found.append(None)
            continue
        real = physical_aval(aval)
        found.append((dtype_text(real.dtype), np.dtype(real.dtype).itemsize, tuple(real.shape)))
    return found


def _items(exported: Exported) -> tuple[tuple[Item, ...], Item]:
    """The arguments and the result of a function."""
    paths, names = paths_of(exported.in_tree), exported.argument_names
    firsts, rests = [], []
    for path in paths:
        key = path[1]
        text = getattr(key, "key", None)
        if path[0].idx == 0:
            text = names[key.idx] if key.idx < len(names) else f"x{key.idx}"
        firsts.append(str(text))
        rests.append(path[2:])
    inputs = items_of(rests, exported.input_names(), _types(exported.in_avals), firsts)
    out_paths = paths_of(exported.out_tree)
    places = ["result" + tree_util.keystr(path) for path in out_paths]
    firsts = ["result"] * len(out_paths)
    outputs = items_of(out_paths, places, _types(exported.out_avals), firsts)
    return inputs, outputs[0] if outputs else Group("result", ())


def _entry(
    name: str,
    exported: Exported,
    target: Target,
    machine: Machine,
    shares: bool,
) -> Entry:
    if exported.program.scope is not None:
        raise NotImplementedError(
            f"{name} has symbolic sizes ({', '.join(exported.program.scope.names)}), which a "
            "program without a runtime cannot have: export it for arrays of fixed sizes"
        )
    inputs, output = _items(exported)
    module = compile_for(exported, target, _WEIGHTS_ABOVE if shares else None)
    weights = [np.ascontiguousarray(w) for w in module.weights]
    taken = [ArrayType(w.dtype.itemsize, w.shape) for w in weights]
    taken += [ArrayType(a.item_size, a.shape) for a in arrays_of(inputs)]
    made = [ArrayType(a.item_size, a.shape) for a in arrays_of([output])]
    file = read_module(module.vmfb)
    names_of = kernel_names if machine.name == "wasm32" else _elf_kernels
    try:
        program = planned(joined(evaluate(file, taken, made, names_of)))
    except RefusedError as error:
        raise NotImplementedError(f"{name} cannot run without a runtime: {error}") from error
    _check_sizes(name, [*arrays_of(inputs), *arrays_of([output])], program.workspace, machine)
    return Entry(
        name,
        inputs,
        output,
        program,
        {n: file.constants[n] for n in program.executables},
        {n: file.constants[n] for n in sorted(program.constants())},
        tuple(w.tobytes() for w in weights),
    )


def _elf_kernels(data: bytes) -> list[str]:
    return ElfObject(data).kernels()


def _check_sizes(name: str, arrays: Sequence[Array], workspace: int, machine: Machine) -> None:
    if machine.pointer_bytes > 4:
        return
    sizes = [(a.path, a.size) for a in arrays] + [("its workspace", workspace)]
    for place, size in sizes:
        if size > _LARGEST_32_BIT:
            raise ValueError(
                f"{name}: {place} has {size} bytes, more than {machine.name} can address"
            )


def model_of(
    name: str,
    functions: Mapping[str, Exported],
    target: Target,
    machine: Machine,
) -> Model:
    """The functions compiled for a machine, as one model. `name` is its name in C.

    Raises ValueError for names that C does not have, NotImplementedError for programs that need
    a runtime.
    """
    identifier(name, "the model")
    entries: list[Entry] = []
    for entry_name, exported in functions.items():
        text = re.sub(r"[^A-Za-z0-9_]", "_", entry_name).strip("_") or "f"
        identifier(text, f"the function {entry_name!r}")
        if any(e.name == text for e in entries):
            raise ValueError(f"two functions of the model are called {text} in C; rename one")
        entries.append(_entry(text, exported, target, machine, len(functions) > 1))
    found = re.search(r"\d+\.\d+\.\d+\w*", installed.version())
    version = f"xpr {__version__}, IREE {found[0] if found else 'unknown'}"
    return Model(name, entries, machine, version)
