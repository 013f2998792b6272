"""A writer of portable artifacts: a module as VHLO in MLIR bytecode.

VHLO has no default attributes: those that a program leaves out are written with their values, as
StableHLO's StablehloLegalizeToVhlo.cpp has them. Locations are not written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xpr.export.stablehlo.bytecode import MAGIC
from xpr.export.stablehlo.emitter import section, varint
from xpr.export.stablehlo.errors import StableHLOError
from xpr.export.stablehlo.form import Block, Elements, Integer, Module, Operation, Other, Value
from xpr.export.stablehlo.pool import Pool
from xpr.export.stablehlo.vhlo_operations import ATTRIBUTES, WITHOUT_ATTRIBUTES

VERSION = (1, 15, 0)
"""The version of StableHLO that artifacts are written for, which JAX 0.10.2 writes, too."""

_BYTECODE = 6
_LATER = frozenset(("custom_call_v2", "collective_broadcast_v2", "collective_reduce_v1"))
"""Operations of newer versions."""

_NO_MATTER = frozenset(
    "dimension_numbers dot_dimension_numbers scatter_dimension_numbers algorithm channel_handle "
    "no_inline sdy.sharding_rule".split()
)
"""Attributes whose parts VHLO has as attributes of their own, and hints that it lacks."""

_NONE = Other("none")
_ONES: Callable[[int], Elements] = lambda n: Elements((1,) * n, np.dtype(np.int64))  # noqa: E731
_ALGORITHM = (
    "lhs_precision_type rhs_precision_type accumulation_type lhs_component_count "
    "rhs_component_count num_primitive_operations allow_imprecise_accumulation"
)
_DEFAULTS: dict[str, Any] = {
    "sym_visibility": "",
    "arg_attrs": (),
    "res_attrs": (),
    "channel_id": 0,
    "use_global_device_ids": False,
    "lower": False,
    "compare_type": "NOTYPE",
    "version": Integer(0, np.dtype(np.int32)),
    "composite_attributes": {},
    "precision_config": ("DEFAULT", "DEFAULT"),
    "has_side_effect": False,
    "backend_config": "",
    "api_version": "ORIGINAL",
    "called_computations": (),
    "operand_layouts": (),
    "result_layouts": (),
    "output_operand_aliases": (),
    "result_accuracy": {"atol": 0.0, "rtol": 0.0, "ulps": 0, "mode": "DEFAULT"},
    "known_expanding_dimensions": Elements((), np.dtype(np.int64)),
    "known_nonexpanding_dimensions": Elements((), np.dtype(np.int64)),
    "indices_are_sorted": False,
    "unique_indices": False,
    "dimension": -1,
    "is_stable": False,
    **dict.fromkeys(_ALGORITHM.split(), _NONE),
}
"""The attributes that an operation may leave out. Those of windows depend on their dimensions."""

_FLAGS = frozenset(
    "lower has_side_effect indices_are_sorted unique_indices is_stable use_global_device_ids "
    "left_side unit_diagonal allow_imprecise_accumulation".split()
)


def operation_name(name: str) -> str:
    """The name of an operation in VHLO of the version that is written.

    >>> operation_name("stablehlo.exponential"), operation_name("func.func")
    ('exponential_v2', 'func_v1')
    """
    dialect, _, bare = name.partition(".")
    for version in (2, 1):
        found = f"{bare}_v{version}"
        if found not in _LATER and (found in ATTRIBUTES or found in WITHOUT_ATTRIBUTES):
            if dialect in ("stablehlo", "func"):
                return found
            break
    raise StableHLOError(
        f"the operation {name} has no counterpart in a portable artifact of StableHLO "
        f"{'.'.join(map(str, VERSION))}"
    )


def attributes_of(op: Operation, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes that VHLO's operation has, and those that are the program's own."""
    given = dict(op.attributes)
    channel = given.get("channel_handle")
    if isinstance(channel, Mapping):
        given["channel_id"] = channel["handle"]
    own: dict[str, Any] = {}
    for key in sorted(ATTRIBUTES.get(name, "").split()):
        if key in given:
            own[key] = bool(given[key]) if _is_flag(key, given[key]) else given[key]
        elif key in _DEFAULTS:
            own[key] = _DEFAULTS[key]
        else:
            own[key] = _window_default(op, key)
    rest = {k: v for k, v in given.items() if k not in own and k not in _NO_MATTER}
    return own, rest


def _is_flag(key: str, value: Any) -> bool:
    return key in _FLAGS and isinstance(value, int)


def _window_default(op: Operation, key: str) -> Any:
    """What a window has where nothing is said: steps of one, and no padding."""
    sizes = op.attributes.get("window_dimensions", op.attributes.get("input_spatial_dimensions"))
    if sizes is not None:
        rank = len(sizes)
        if key in ("window_strides", "base_dilations", "window_dilations"):
            return _ONES(rank)
        if key in ("lhs_dilation", "rhs_dilation"):
            return _ONES(rank)
        if key == "padding":
            return np.zeros((rank, 2), np.int64)
        if key == "window_reversal":
            return np.zeros(rank, np.bool_)
    raise op.error(f"the attribute {key} is missing")


class _Writer:
    """The operations of a module, and what they name."""

    def __init__(self) -> None:
        self.pool = Pool()
        self.names: dict[tuple[str, str], int] = {}
        self.properties: dict[bytes, int] = {}
        self._place = varint(self.pool.unknown_location())

    def name(self, dialect: str, name: str) -> bytes:
        self.pool.dialect(dialect)
        return varint(self.names.setdefault((dialect, name), len(self.names)))

    def property(self, content: bytes) -> bytes:
        return varint(self.properties.setdefault(content, len(self.properties)))

    def region(self, block: Block, numbers: dict[Value, int]) -> bytes:
        """A region of one block; values outside have numbers, and those inside get some."""
        defined = [*block.arguments, *(r for op in block.operations for r in op.results)]
        for value in defined:
            numbers[value] = len(numbers)
        head = varint(1) + varint(len(defined))
        count = len(block.operations) << 1
        if block.arguments:
            types = (varint(self.pool.type(v.type) << 1) for v in block.arguments)
            head += varint(count | 1) + varint(len(block.arguments)) + b"".join(types) + b"\0"
        else:
            head += varint(count)
        body = b"".join([self.operation(op, numbers) for op in block.operations])
        for value in defined:
            del numbers[value]
        return head + body

    def operation(self, op: Operation, numbers: dict[Value, int]) -> bytes:
        """An operation with its regions."""
        try:
            return self._operation(op, numbers)
        except StableHLOError as error:
            if op.name in str(error):
                raise
            raise op.error(str(error)) from error

    def _operation(self, op: Operation, numbers: dict[Value, int]) -> bytes:
        name = operation_name(op.name)
        own, rest = attributes_of(op, name)
        mask, out = 0, []
        if rest:
            mask |= 0x01
            stored = {k: self.pool.attribute(k, v) for k, v in rest.items()}
            out.append(varint(self.pool.dictionary(stored)))
        if own:
            mask |= 0x40
            content = b"".join(varint(self.pool.attribute(k, v)) for k, v in own.items())
            out.append(self.property(content))
        if op.results:
            mask |= 0x02
            out.append(_numbers([self.pool.type(v.type) for v in op.results]))
        if op.operands:
            mask |= 0x04
            out.append(_numbers([numbers[v] for v in op.operands]))
        if op.regions:
            mask |= 0x10
            out.append(varint(len(op.regions) << 1))
            out += [self.region(block, numbers) for block in op.regions]
        return b"".join([self.name("vhlo", name), bytes([mask]), self._place, *out])

    def module(self, module: Module) -> bytes:
        """The IR section's content: one operation, the module."""
        if module.meshes:
            raise StableHLOError("a module with meshes of Shardy's has no portable artifact here")
        attributes = dict(module.attributes)
        symbol = attributes.pop("sym_name", None)
        body = Block([], list(module.functions.values()))
        mask, out = 0x50, []
        if attributes:
            mask |= 0x01
            stored = {k: self.pool.builtin(v) for k, v in attributes.items()}
            out.append(varint(self.pool.dictionary(stored)))
        named = b"\1" if symbol is None else varint(self.pool.builtin(symbol) << 1 | 1)
        out.append(self.property(named + varint(0)))
        out += [varint(1 << 1 | 1), section(4, self.region(body, {}))]
        head = self.name("builtin", "module")
        return b"".join([varint(1 << 1), head, bytes([mask]), self._place, *out])


def _numbers(values: list[int]) -> bytes:
    return varint(len(values)) + b"".join(map(varint, values))


def write_bytecode(module: Module) -> bytes:
    """The portable artifact of a module of StableHLO.

    Raises StableHLOError, naming the operation, for what VHLO has no form for.
    """
    writer = _Writer()
    ir = section(4, writer.module(module))
    dialects = writer.pool.dialects_section(writer.names)
    entries = writer.pool.entries_sections()
    properties = varint(len(writer.properties))
    properties += b"".join(varint(len(p)) + p for p in writer.properties)
    producer = f"StableHLO_v{'.'.join(map(str, VERSION))}".encode() + b"\0"
    return b"".join(
        [
            MAGIC,
            varint(_BYTECODE),
            producer,
            writer.pool.strings_section(),
            dialects,
            entries,
            ir,
            section(8, properties),
        ]
    )
