"""Writes what JAX's `jax.export.deserialize` reads: a flatbuffer with a module and its types.

The fields are those of JAX's serialization.fbs, version 11. As JAX does, types and shardings are
written twice, for readers from before version 10.
"""

from __future__ import annotations

import base64
from typing import Any

from xpr.export.stablehlo.container import DTYPES, KEYS, Aval, Container, Spec
from xpr.export.stablehlo.flatbuffer_writer import Number, Numbers, Record, flatbuffer
from xpr.export.trees import tree_data

_SERIALIZATION = 3
"""The version that JAX writes in newer ones, too, for readers that know no others."""

CALLING_CONVENTION = 10
_DEVICE_MEMORY = 1
_NODES = {"leaf": 0, "none": 1, "tuple": 2, "list": 3, "dict": 4, "custom": 5}
_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
_KEY_NUMBERS = {name: number for number, name in KEYS.items()}


def _tree(node: dict[str, Any]) -> Record:
    kind = node["type"]
    fields: dict[int, Any] = {0: Number("b", _NODES[kind])}
    if node.get("children"):
        fields[1] = [_tree(child) for child in node["children"]]
    if kind == "dict":
        names = node["keys"]
        for name in names:
            if not isinstance(name, str):
                raise ValueError(
                    "JAX's exported functions have dictionaries with strings as keys alone, got "
                    f"the key {name!r}"
                )
        fields[2] = list(names)
    if kind == "custom":
        fields[3], fields[4] = node["name"], base64.b64decode(node["aux"])
    return Record(fields)


def _aval(aval: Aval) -> Record:
    number = None if aval.dtype is None else _NUMBERS.get(aval.dtype)
    if aval.key is not None:
        number = _KEY_NUMBERS[aval.key]
    if number is None:
        raise ValueError(f"JAX's exported functions have no arrays of dtype {aval.dtype}")
    return Record(
        {
            0: Number("b", 0),
            1: list(aval.sizes),
            2: Number("b", number),
            3: Number("b", _DEVICE_MEMORY),
        }
    )


def _mesh(spec: Spec) -> Record:
    types = spec.types or (1,) * len(spec.names)
    return Record({0: Numbers("I", spec.sizes), 1: list(spec.names), 2: Numbers("b", types)})


def _named_sharding(spec: Spec, mesh: int) -> Record:
    partitions = [Record({0: list(axes)}) for axes in spec.axes]
    return Record(
        {
            0: _mesh(spec),
            1: Record({0: partitions, 1: [], 2: []}),
            3: Number("I", mesh),
        }
    )


def _check(name: str) -> Record:
    target = name.removeprefix("custom_call:")
    if target == name:
        return Record({0: Number("b", 0)})
    return Record({0: Number("b", 1), 1: target})


def _record(found: Container) -> Record:
    avals: list[Aval] = []
    for aval in (*found.in_avals, *found.out_avals):
        if aval not in avals:
            avals.append(aval)
    specs: list[Spec] = []
    for spec in (*found.in_specs, *found.out_specs):
        if spec is not None and spec not in specs:
            specs.append(spec)
    meshes: list[Any] = []
    for spec in specs:
        if spec.mesh not in meshes:
            meshes.append(spec.mesh)
    shardings = [_named_sharding(s, meshes.index(s.mesh)) for s in specs]

    def numbers(of: list[Spec | None]) -> Numbers:
        return Numbers("I", [0 if s is None else 1 + specs.index(s) for s in of])

    def records(of: list[Spec | None]) -> list[Record]:
        return [Record({2: None if s is None else shardings[specs.index(s)]}) for s in of]

    return Record(
        {
            0: Number("H", _SERIALIZATION),
            1: found.name,
            2: _tree(tree_data(found.in_tree)),
            3: [_aval(a) for a in found.in_avals],
            4: _tree(tree_data(found.out_tree)),
            5: [_aval(a) for a in found.out_avals],
            7: records(found.in_specs),
            8: records(found.out_specs),
            9: list(found.platforms),
            10: [],
            11: [],
            12: [_check(name) for name in found.disabled],
            13: found.module,
            14: Number("H", CALLING_CONVENTION),
            15: Numbers("H", found.kept),
            16: Number("?", found.has_symbols),
            17: None if found.vjp is None else _record(found.vjp),
            18: Number("I", found.devices),
            19: [_aval(a) for a in avals],
            20: [_mesh(next(s for s in specs if s.mesh == m)) for m in meshes],
            21: shardings,
            22: Numbers("I", [avals.index(a) for a in found.in_avals]),
            23: Numbers("I", [avals.index(a) for a in found.out_avals]),
            24: numbers(found.in_specs),
            25: numbers(found.out_specs),
        }
    )


def write_container(found: Container) -> bytes:
    """The bytes of an exported function, with its derivatives.

    Raises ValueError for types and trees that JAX's exported functions cannot have.
    """
    return flatbuffer(_record(found))
