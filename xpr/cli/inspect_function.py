"""`xpr inspect` of a function: its types and shardings, and what devices send each other."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from xpr import tree_util
from xpr.cli.errors import UsageError
from xpr.cli.specs import load_function, mesh_text, parse_mesh, parse_types
from xpr.core.aval import ShapedArray
from xpr.core.progress import phase
from xpr.core.symbolic import SymbolicDim
from xpr.sharding import NamedSharding, Sharding, set_mesh


def function_lines(options: argparse.Namespace) -> Iterator[str]:
    """The description, line by line. Nothing is compiled or run."""
    mesh = None if options.mesh is None else parse_mesh(options.mesh, options.explicit)
    if options.explicit and mesh is None:
        raise UsageError("--explicit is about the axes of a mesh: give one by --mesh")
    positional, named = parse_types(options.args, (), mesh)
    for struct in (*positional, *named.values()):
        if any(isinstance(size, SymbolicDim) for size in struct.shape):
            raise UsageError(f"sizes must be numbers to be looked into, got {struct.shape}")
    function = load_function(options.program)
    with contextlib.nullcontext() if mesh is None else set_mesh(mesh):
        with phase(f"lowering {options.program}"):
            lowered = function.trace(*positional, **named).lower()
        yield _line("function", lowered.fun_name)
        if mesh is not None:
            yield _line("mesh", f"{mesh_text(mesh)}, {mesh.size} devices")
        yield from _values("input", lowered.in_avals, lowered.input_shardings)
        yield from _values("result", lowered.out_info, lowered.output_shardings)
        flops = lowered.cost_analysis()["flops"]
        yield _line("computes", f"{flops:,.0f} floating-point operations on each device")
        yield f"\n{lowered.communication()}"


def _line(kind: str, text: str) -> str:
    return f"{kind:<10} {text}".rstrip()


def _values(kind: str, types: Any, places: Sequence[Any]) -> Iterator[str]:
    paths, _ = tree_util.tree_flatten_with_path(types)
    shardings = tree_util.tree_leaves(places, is_leaf=lambda s: isinstance(s, Sharding))
    for (path, type_), sharding in zip(paths, shardings, strict=True):
        if kind == "input":
            name = ("args" if path[0].idx == 0 else "kwargs") + tree_util.keystr(path[1:])
        else:
            name = "result" + tree_util.keystr(path)
        yield _line(f"  {kind}", f"{name}: {_type_text(type_, sharding)}")


def _type_text(type_: Any, sharding: Sharding) -> str:
    """A type with the mesh axes that each size is sharded over."""
    place = sharding if isinstance(sharding, NamedSharding) else None
    return ShapedArray(tuple(type_.shape), type_.dtype, sharding=place).str_short()
