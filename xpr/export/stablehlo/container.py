"""The bytes of JAX's `Exported.serialize()`: a flatbuffer with a module and its types.

The fields are those of JAX's serialization.fbs, versions 2 to 11.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from xpr.core.dtypes import float0
from xpr.export import trees
from xpr.export.stablehlo.errors import StableHLOError
from xpr.export.stablehlo.flatbuffer import Table, root

_NEWEST = 11
_CONVENTIONS = (9, 10)
DTYPES: dict[int, np.dtype[Any]] = {
    i: np.dtype(name)
    for i, name in enumerate(
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
        "complex128".split()
    )
}
DTYPES |= {
    number: np.dtype(getattr(ml_dtypes, name))
    for number, name in {
        14: "bfloat16",
        15: "int4",
        16: "uint4",
        17: "float8_e4m3b11fnuz",
        18: "float8_e4m3fn",
        19: "float8_e4m3fnuz",
        20: "float8_e5m2",
        21: "float8_e5m2fnuz",
        23: "float8_e4m3",
        24: "float8_e3m4",
        25: "float8_e8m0fnu",
        26: "float4_e2m1fn",
    }.items()
}
DTYPES[22] = float0
"""The dtypes by their numbers in JAX's bytes."""
KEYS = {27: "threefry2x32", 28: "rbg", 29: "unsafe_rbg"}
"""The implementations of random keys, by the numbers of their dtypes."""


@dataclass(frozen=True)
class Aval:
    """A flat input or result: sizes as texts, and the dtype, or the kind of key."""

    sizes: tuple[str, ...]
    dtype: np.dtype[Any] | None
    key: str | None = None


@dataclass(frozen=True)
class Spec:
    """A sharding: a mesh, and for each dimension the axes that it is cut over."""

    sizes: tuple[int, ...]
    names: tuple[str, ...]
    axes: tuple[tuple[str, ...], ...]
    types: tuple[int, ...] = ()

    @property
    def mesh(self) -> tuple[Any, ...]:
        """The mesh alone."""
        return self.sizes, self.names, self.types


@dataclass
class Container:
    """An exported function of JAX's."""

    name: str
    in_tree: Any
    out_tree: Any
    in_avals: list[Aval]
    out_avals: list[Aval]
    in_specs: list[Spec | None]
    out_specs: list[Spec | None]
    platforms: tuple[str, ...]
    devices: int
    module: bytes
    kept: tuple[int, ...]
    disabled: list[str] = field(default_factory=list)
    vjp: Container | None = None
    has_symbols: bool = False


def _tree(table: Table | None) -> dict[str, Any]:
    """A tree as `xpr.export.trees` writes them."""
    if table is None:
        raise StableHLOError("the exported function is damaged: a tree is missing")
    kind = table.number(0, "<b")
    children = [_tree(t) for t in table.tables(1) or []]
    if kind == 0:
        return {"type": "leaf"}
    names = {1: "none", 2: "tuple", 3: "list", 4: "dict", 5: "custom"}
    if kind not in names:
        raise StableHLOError(f"the exported function is damaged: a tree node of kind {kind}")
    node: dict[str, Any] = {"type": names[kind], "children": children}
    if kind == 4:
        node["keys"] = table.strings(2)
    if kind == 5:
        node["name"] = table.string(3)
        node["aux"] = base64.b64encode(table.bytes(4) or b"").decode()
    return node


def _structure(table: Table | None) -> Any:
    try:
        return trees.tree_from_data(_tree(table))
    except StableHLOError:
        raise
    except ValueError as error:
        raise StableHLOError(str(error)) from error


def _aval(table: Table) -> Aval:
    number = table.number(2, "<b")
    if number not in DTYPES and number not in KEYS:
        raise StableHLOError(f"the exported function has a dtype of unknown number {number}")
    return Aval(tuple(table.strings(1)), DTYPES.get(number), KEYS.get(number))


def _avals(table: Table, own: int, numbers: int) -> list[Aval]:
    """Types, as they are or by their numbers among the different ones."""
    places = table.numbers(numbers, "<I")
    if places is None:
        return [_aval(t) for t in table.tables(own) or []]
    unique = [_aval(t) for t in table.tables(19) or []]
    return [_picked(unique, i) for i in places]


def _picked(values: list[Any], number: int) -> Any:
    if not 0 <= number < len(values):
        raise StableHLOError(f"the exported function is damaged: entry {number} of {len(values)}")
    return values[number]


def _mesh(table: Table) -> tuple[tuple[int, ...], tuple[str, ...]]:
    sizes, names = tuple(table.numbers(0, "<I") or ()), tuple(table.strings(1))
    if len(sizes) != len(names) or 0 in sizes:
        raise StableHLOError("the exported function is damaged: a mesh")
    return sizes, names


def _named_sharding(table: Table, meshes: list[Any]) -> Spec:
    if meshes:
        sizes, names = _picked(meshes, table.number(3, "<I"))
    else:
        mesh = table.table(0)
        sizes, names = ((), ()) if mesh is None else _mesh(mesh)
    spec = table.table(1)
    axes: list[tuple[str, ...]] = []
    for part in (spec.tables(0) if spec is not None else None) or []:
        axes.append(tuple(part.strings(0)))
    if any(a not in names for entry in axes for a in entry):
        raise StableHLOError("the exported function is damaged: a sharding names unknown axes")
    return Spec(sizes, names, tuple(axes))


def _specs(table: Table, own: int, numbers: int, count: int) -> list[Spec | None]:
    meshes = [_mesh(t) for t in table.tables(20) or []]
    places = table.numbers(numbers, "<I")
    out: list[Spec | None] = []
    if places is not None:
        unique = [_named_sharding(t, meshes) for t in table.tables(21) or []]
        out = [None if i == 0 else _picked(unique, i - 1) for i in places]
    else:
        for entry in table.tables(own) or []:
            named = entry.table(2)
            out.append(None if named is None else _named_sharding(named, meshes))
    if len(out) not in (0, count):
        raise StableHLOError(
            f"the exported function is damaged: {len(out)} shardings of {count} arrays"
        )
    return out or [None] * count


def read_container(data: bytes) -> Container:
    """The exported function in these bytes; StableHLOError for damaged and for newer ones."""
    return _read(root(data), 0)


def _read(table: Table, depth: int) -> Container:
    version = table.number(0, "<H")
    if not 2 <= version <= _NEWEST:
        raise StableHLOError(
            f"the exported function has version {version} of JAX's serialization, known are 2 to "
            f"{_NEWEST}"
        )
    convention = table.number(14, "<H")
    if convention not in _CONVENTIONS:
        raise StableHLOError(
            f"the exported function has version {convention} of JAX's calling convention, known "
            f"are {_CONVENTIONS[0]} and {_CONVENTIONS[1]}"
        )
    ordered = [t.string(0) or "" for t in table.tables(10) or []]
    if ordered:
        raise StableHLOError(
            f"the exported function has the ordered effects {', '.join(ordered)}: they are "
            "callbacks into the Python process that exported it, and cannot be loaded"
        )
    ins, outs = _avals(table, 3, 22), _avals(table, 5, 23)
    module = table.bytes(13)
    if not module:
        raise StableHLOError("the exported function is damaged: it has no module")
    in_tree, out_tree = _structure(table.table(2)), _structure(table.table(4))
    if (in_tree.num_leaves, out_tree.num_leaves) != (len(ins), len(outs)):
        raise StableHLOError("the exported function is damaged: its trees do not fit its types")
    if in_tree.num_leaves and len(in_tree.children()) != 2:
        raise StableHLOError("the exported function is damaged: its tree of arguments")
    kept = tuple(table.numbers(15, "<H") or ())
    if sorted(set(kept)) != list(kept) or any(i >= len(ins) for i in kept):
        raise StableHLOError("the exported function is damaged: the arguments that are kept")
    vjp = table.table(17)
    return Container(
        table.string(1) or "main",
        in_tree,
        out_tree,
        ins,
        outs,
        _specs(table, 7, 24, len(ins)),
        _specs(table, 8, 25, len(outs)),
        tuple(table.strings(9)),
        table.number(18, "<I") or table.number(6, "<h") or 1,
        module,
        kept,
        [t.string(1) or "" for t in table.tables(12) or []],
        None if vjp is None or depth > 3 else _read(vjp, depth + 1),
    )
