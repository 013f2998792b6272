"""Models in C built by the system's compiler, and called from here."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xpr
from xpr import export
from xpr.cli.programs import ModuleProgram
from xpr.export.targets import baseline

GCC = shutil.which("gcc")
WARNINGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")

Host = np.ndarray[Any, Any]


def run_tool(*command: str | Path, cwd: Path | None = None) -> str:
    """The output of a tool that must succeed."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr  # to which QEMU prints for a board


def aligned(data: bytes | int) -> Host:
    """Bytes at a multiple of 64."""
    size = data if isinstance(data, int) else len(data)
    room = np.zeros(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    found = room[start : start + size]
    if not isinstance(data, int):
        found[:] = np.frombuffer(data, np.uint8)
    return found


class Model:
    """A model's functions, linked into a library."""

    def __init__(self, folder: Path, name: str = "model") -> None:
        objects = sorted(folder.glob("*.o"))
        assert GCC is not None
        library = folder / f"{name}.so"
        run_tool(
            *(GCC, *WARNINGS, "-O1", "-fPIC", "-shared", folder / f"{name}.c", *objects),
            *("-Wl,--no-undefined", "-o", library),
        )
        self.library = ctypes.CDLL(str(library))
        data = json.loads((folder / f"{name}.json").read_text())
        self.functions = {f["name"]: f for f in data["functions"]}
        self.facts = data

    def call(self, name: str, arrays: Sequence[Host]) -> list[bytes]:
        """The bytes of the results."""
        facts = self.functions[name]
        inputs = [aligned(np.ascontiguousarray(a).tobytes()) for a in arrays]
        outputs = [aligned(f["bytes"]) for f in facts["outputs"]]
        for array in outputs:
            array[:] = 0xA5
        workspace = aligned(facts["workspace_bytes"] + 64)
        workspace[:] = 0x5A
        passed = [*_passed(facts["inputs"], inputs), *_passed(facts["outputs"], outputs)]
        passed += [ctypes.c_void_p(workspace.ctypes.data)]
        passed += [ctypes.c_size_t(facts["workspace_bytes"])]
        assert getattr(self.library, facts["function"])(*passed) == 0
        assert (workspace[-64:] == 0x5A).all(), "it writes behind the workspace"
        return [a.tobytes() for a in outputs]


def _passed(facts: Sequence[Mapping[str, Any]], arrays: Sequence[Host]) -> list[Any]:
    """Pointers; those of one container lie in a structure, one behind the other."""
    groups: dict[str, list[int]] = {}
    for fact, array in zip(facts, arrays, strict=True):
        head, arrow, _ = fact["c"].partition("->")
        groups.setdefault(head + arrow, []).append(array.ctypes.data)
    made: list[Any] = []
    for head, places in groups.items():
        if head.endswith("->"):
            made.append((ctypes.c_void_p * len(places))(*places))
        else:
            made.append(ctypes.c_void_p(places[0]))
    return made


def module_results(function: Callable[..., Any], args: Sequence[Any], folder: Path) -> list[bytes]:
    """What the `.vmfb` for the same processor gives, by the native executor or IREE's runtime."""
    path = folder / "module.vmfb"
    xpr.jit(function).lower(*args).compile().save(path, target=baseline())
    leaves = [np.asarray(x) for x in xpr.tree.leaves(tuple(args))]
    return [np.asarray(r).tobytes() for r in ModuleProgram(path, "cpu")(leaves)]


def save_model(
    folder: Path, functions: Mapping[str, tuple[Callable[..., Any], Sequence[Any]]], **options: Any
) -> None:
    """Writes functions, each with the arguments of its example, as one model."""
    exported = {n: export.export(xpr.jit(f))(*args) for n, (f, args) in functions.items()}
    examples = {n: xpr.tree.leaves(tuple(args)) for n, (_, args) in functions.items()}
    export.save_c(folder / "model.c", exported, examples=examples, **options)
