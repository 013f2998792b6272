"""A model's files, beside each other in a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.export.no_runtime.models import model_of
from xpr.lowering import prebuilt
from xpr.lowering.no_runtime import c_files, c_source
from xpr.lowering.no_runtime.c_files import MARK, Example
from xpr.lowering.no_runtime.elf import QUERY, ElfObject
from xpr.lowering.no_runtime.interface import Model
from xpr.lowering.no_runtime.targets import object_target
from xpr.lowering.no_runtime.wasm import build, javascript

if TYPE_CHECKING:
    from xpr.export.exported import Exported


def save(
    path: str | os.PathLike[str],
    functions: Exported | Mapping[str, Exported],
    *,
    target: str | None = None,
    examples: Mapping[str, Sequence[Any]] | None = None,
) -> None:
    """As `xpr.export.save_c` says."""
    file = Path(path)
    if file.suffix == ".wasm":
        _save_wasm(file, functions, target)
        return
    if file.suffix != ".c":
        raise ValueError(f"a model in C is saved under a name that ends in .c, got {str(file)!r}")
    functions = _by_name(functions)
    _check_folder(file)
    compiled_for, machine = object_target(target or "baseline")
    model = model_of(file.stem, functions, compiled_for, machine)
    objects = _objects(model)
    recorded = {
        entry.name: _example(exported, (examples or {}).get(name))
        for entry, (name, exported) in zip(model.entries, functions.items(), strict=True)
    }
    facts = {name: _facts(data) for name, data in objects.items()}
    texts = {
        file.name: c_source.source(model),
        f"{model.name}.h": c_source.header(model),
        "main.c": c_files.example(model, recorded),
        "CMakeLists.txt": c_files.cmake(model, list(objects)),
        f"{model.name}.json": c_files.description(model, facts),
    }
    _write(file.parent, {n: t.encode() for n, t in texts.items()}, objects)


def _save_wasm(
    file: Path,
    functions: Exported | Mapping[str, Exported],
    target: str | None,
) -> None:
    """Writes a module in WebAssembly, and what JavaScript and TypeScript need beside it."""
    if target not in (None, "wasm32"):
        raise ValueError(f"{file.name} is for wasm32, got the target {target!r}")
    functions = _by_name(functions)
    _check_folder(file)
    compiled_for, machine = object_target("wasm32")
    model = model_of(file.stem, functions, compiled_for, machine)
    module = build.built(model)
    texts = {
        f"{model.name}.mjs": javascript.source(model, file.name, module).encode(),
        f"{model.name}.d.ts": javascript.types(model).encode(),
    }
    _write(file.parent, texts, {file.name: module.module})


def _by_name(functions: Exported | Mapping[str, Exported]) -> Mapping[str, Exported]:
    if not isinstance(functions, Mapping):
        return {functions.fun_name: functions}
    if not functions:
        raise ValueError("a model needs at least one function")
    return functions


def _check_folder(file: Path) -> None:
    if not file.parent.is_dir():
        raise FileNotFoundError(f"the folder does not exist: {file.parent}")


def _objects(model: Model) -> dict[str, bytes]:
    """The objects by the names of their files."""
    found: dict[str, bytes] = {}
    for entry in model.entries:
        for number, data in entry.objects.items():
            made = ElfObject(data)
            name = model.name if len(model.entries) == 1 else f"{model.name}.{entry.name}"
            name += "" if len(entry.objects) == 1 else f".{number}"
            found[f"{name}.o"] = made.renamed(QUERY, c_source.kernels_symbol(model, entry, number))
            for function in made.undefined():
                more = prebuilt.defining(function)
                if more is not None:
                    found[f"{model.name}.products.o"] = more
    return found


def _facts(data: bytes) -> dict[str, Any]:
    made = ElfObject(data)
    return {"bytes": len(data), "code_bytes": made.code_size(), "needs": made.undefined()}


def _example(exported: Exported, given: Sequence[Any] | None) -> Example:
    """Arguments and results of one call, computed here."""
    avals = exported.in_avals
    values = [
        a if given is None or not hasattr(given[i], "__array__") else given[i]
        for i, a in enumerate(avals)
    ]
    rng = np.random.default_rng(0)
    inputs = [_drawn(v, rng) if v is a else v for v, a in zip(values, avals, strict=True)]
    args, kwargs = tree_util.tree_unflatten(exported.in_tree, inputs)
    outputs = tree_util.tree_leaves(exported.call(*args, **kwargs))
    return _bytes_of(inputs), _bytes_of(outputs)


def _bytes_of(arrays: Sequence[Any]) -> list[bytes]:
    return [
        np.ascontiguousarray(np.asarray(x)).tobytes() for x in arrays if x.dtype != dtypes.float0
    ]


def _drawn(aval: Any, rng: np.random.Generator) -> Any:
    """An argument for the example."""
    kind = dtypes.kind(aval.dtype)
    if kind == "b":
        return rng.integers(0, 2, aval.shape).astype(bool)
    if kind in "iu":
        return rng.integers(0, 2, aval.shape).astype(aval.dtype)
    drawn = rng.normal(size=aval.shape)
    if kind == "c":
        drawn = drawn + 1j * rng.normal(size=aval.shape)
    return np.asarray(drawn).astype(aval.dtype)


def _write(folder: Path, texts: Mapping[str, bytes], objects: Mapping[str, bytes]) -> None:
    """Writes files, over those of an earlier model only."""
    for name in texts:
        place = folder / name
        if place.exists() and MARK.encode() not in place.read_bytes():
            raise FileExistsError(
                f"{place} is not a file that xpr has written: save the model in another folder"
            )
    for name, data in {**texts, **objects}.items():
        (folder / name).write_bytes(data)
