"""What a command line says of functions and of their arguments' types."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xpr
from xpr.cli.errors import CommandError, UsageError
from xpr.core.config import state
from xpr.core.dtypes import SHORT_NAMES, float0
from xpr.core.symbolic import SymbolicDim
from xpr.export.symbolic import SymbolicScope, symbolic_shape
from xpr.runtimes import registry
from xpr.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from xpr.sharding.device_meshes import make_mesh
from xpr.transforms.jit import JittedFunction

_TYPE = re.compile(r"(?:(?P<keyword>[A-Za-z_]\w*)=)?(?P<dtype>\w+)\[(?P<shape>[^\]]*)\]")
_DTYPES = {
    name: dtype
    for dtype, short in SHORT_NAMES.items()
    for name in (short, dtype.name)
    if dtype != float0
}


def parse_type(
    text: str, scope: SymbolicScope | None = None, mesh: Mesh | None = None
) -> tuple[str | None, xpr.ShapeDtypeStruct]:
    """The keyword, if one is given, and the type of an argument.

    Dtypes are short (`f32`, `i8`, `u16`, `bf16`, `bool`) or have NumPy's names; sizes that are
    names are symbolic, and belong to `scope`. A size may be followed by the axes of `mesh` that it
    is sharded over: `f32[8@x,64]`, `f32[8@(x,y),64]`. Raises UsageError.

    >>> parse_type("f32[8,64]")
    (None, ShapeDtypeStruct(shape=(8, 64), dtype=float32))
    >>> parse_type("scale=bfloat16[]")
    ('scale', ShapeDtypeStruct(shape=(), dtype=bfloat16))
    >>> parse_type("f32[b,64]")[1].shape
    (b, 64)
    """
    match = _TYPE.fullmatch(text.replace(" ", ""))
    if match is None:
        raise UsageError(f"a type is written like f32[8,64], i32[] or x=bf16[3], got {text!r}")
    dtype = _DTYPES.get(match["dtype"])
    if dtype is None:
        raise UsageError(f"unknown dtype {match['dtype']!r} in {text!r}")
    if dtype.name in ("float64", "int64", "uint64", "complex128") and not state.enable_x64:
        raise UsageError(f"{text!r} has a 64-bit type: set XPR_ENABLE_X64=1 to keep these")
    sizes, axes = _split_sizes(match["shape"])
    try:
        shape = symbolic_shape(",".join(sizes), scope=scope or SymbolicScope())
    except ValueError as error:
        raise UsageError(f"the sizes of {text!r} cannot be read: {error}") from error
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise UsageError(f"sizes cannot be negative, got {text!r}")
    sharding = _sharding(text, shape, axes, mesh) if any(axes) else None
    return match["keyword"], xpr.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def _split_sizes(text: str) -> tuple[list[str], list[tuple[str, ...]]]:
    """The sizes of a shape, and the mesh axes that each is sharded over."""
    sizes: list[str] = []
    axes: list[tuple[str, ...]] = []
    for entry in re.split(r",(?![^()]*\))", text):  # commas outside of parentheses
        size, _, names = entry.partition("@")
        sizes.append(size)
        axes.append(tuple(n for n in names.strip("()").split(",") if n))
    return sizes, axes


def _sharding(
    text: str, shape: Sequence[Any], axes: Sequence[tuple[str, ...]], mesh: Mesh | None
) -> NamedSharding:
    if mesh is None:
        names = ", ".join(n for entry in axes for n in entry)
        raise UsageError(
            f"{text!r} is sharded over {names}, and there is no mesh: `xpr inspect` takes one, as "
            "in --mesh x=4,y=2"
        )
    for place, (size, entry) in enumerate(zip(shape, axes, strict=True)):
        for name in entry:
            if name not in mesh.shape:
                raise UsageError(
                    f"{text!r} names the axis {name}, and the mesh has {mesh_text(mesh)}"
                )
        count = math.prod(mesh.shape[n] for n in entry)
        if not isinstance(size, int) or size % count:
            raise UsageError(
                f"axis {place} of {text!r}, of size {size}, cannot be cut evenly over "
                f"{', '.join(entry)}, of size {count}"
            )
    try:
        return NamedSharding(mesh, PartitionSpec(*(entry or None for entry in axes)))
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}") from error


def mesh_text(mesh: Mesh) -> str:
    """The axes of a mesh with their sizes, as `parse_mesh` reads them."""
    return axes_text(mesh.shape)


def axes_text(sizes: Mapping[str, int]) -> str:
    """Axes with their sizes, as `parse_axes` reads them."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def parse_axes(text: str) -> dict[str, int]:
    """The axes of a mesh that `x=4,y=2` means, with their sizes.

    >>> parse_axes("x=4, y=2")
    {'x': 4, 'y': 2}
    """
    sizes: dict[str, int] = {}
    for entry in text.replace(" ", "").split(","):
        name, _, size = entry.partition("=")
        if not name.isidentifier() or not size.isdecimal() or not int(size) or name in sizes:
            raise UsageError(f"a mesh is written like x=4,y=2, got {text!r}")
        sizes[name] = int(size)
    return sizes


def parse_mesh(text: str, explicit: bool = False) -> Mesh:
    """The mesh that `x=4,y=2` means, of CPU devices, of which there will be enough.

    Call it before anything uses a device. Raises UsageError.

    >>> parse_mesh("x=1").axis_names
    ('x',)
    """
    return cpu_mesh(parse_axes(text), explicit)


def cpu_mesh(sizes: Mapping[str, int], explicit: bool = False) -> Mesh:
    """A mesh of the first CPU devices, of which there will be enough.

    The first call sets their number: call it for the largest mesh first, and before anything uses
    a device. Raises UsageError.
    """
    count = math.prod(sizes.values())
    if registry.num_cpu_devices() < count:
        try:
            xpr.config.update("num_cpu_devices", count)
        except RuntimeError as error:
            raise UsageError(
                f"a mesh of {axes_text(sizes)} requires {count} devices, and this process has "
                f"{registry.num_cpu_devices()}"
            ) from error
    types = (AxisType.Explicit if explicit else AxisType.Auto,) * len(sizes)
    return make_mesh(
        tuple(sizes.values()), tuple(sizes), types, devices=registry.devices("cpu")[:count]
    )


def parse_types(
    texts: Sequence[str], constraints: Sequence[str] = (), mesh: Mesh | None = None
) -> tuple[list[Any], dict[str, Any]]:
    """The types of positional arguments, and those of arguments by name."""
    try:
        scope = SymbolicScope(constraints)
    except ValueError as error:
        raise UsageError(str(error)) from error
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in texts:
        keyword, struct = parse_type(text, scope, mesh)
        if keyword is None:
            if named:
                raise UsageError(f"{text!r} has no name and follows arguments that have one")
            positional.append(struct)
        elif keyword in named:
            raise UsageError(f"the argument {keyword} is given twice")
        else:
            named[keyword] = struct
    unknown = sorted(set(scope.names) - _open_names([*positional, *named.values()]))
    if unknown:
        raise UsageError(
            f"a constraint names {', '.join(unknown)}, which is no size of an argument"
        )
    return positional, named


def _open_names(structs: Sequence[xpr.ShapeDtypeStruct]) -> set[str]:
    """The names of the symbolic dimensions in these types."""
    sizes = [size for struct in structs for size in struct.shape]
    return {
        n for d in sizes if isinstance(d, SymbolicDim) for monomial in d.terms for n in monomial
    }


def load_function(text: str) -> Any:
    """The jitted function that `path/to/file.py:name` or `package.module:name` names.

    The file's folder comes first on the path for imports, as it does for a script.
    """
    place, colon, name = text.rpartition(":")
    if not (colon and place and name):
        raise UsageError(f"a function is named like model.py:predict, got {text!r}")
    module = _load_file(Path(place)) if place.endswith(".py") else _import(place)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise CommandError(f"{place} has no {name!r}")
    if not callable(found):
        raise CommandError(f"{text} is no function but of type {type(found).__name__}")
    return found if isinstance(found, JittedFunction) else xpr.jit(found)


def _load_file(path: Path) -> Any:
    if not path.is_file():
        raise CommandError(f"{path}: there is no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def _import(name: str) -> Any:
    sys.path.insert(0, str(Path.cwd()))
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        raise CommandError(f"there is no module {name!r}; name a file with its ending .py")
    return importlib.import_module(name)
