"""A reader of MLIR bytecode that holds VHLO: a portable artifact as a module.

The format is MLIR's "Bytecode Format", versions 0 to 6. It is read in plain Python, and each number
is checked, so that damaged bytes end in a StableHLOError.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from xpr.export.stablehlo import sdy_text
from xpr.export.stablehlo.dialects import ENCODINGS, property_names
from xpr.export.stablehlo.encodings import Reader
from xpr.export.stablehlo.errors import StableHLOError
from xpr.export.stablehlo.form import Block, Module, Operation, Other, Value
from xpr.export.stablehlo.varints import Cursor
from xpr.export.stablehlo.vhlo_operations import ATTRIBUTES, VERSION, WITHOUT_ATTRIBUTES

MAGIC = b"ML\xefR"
_STRINGS, _DIALECTS, _ATTR_TYPES, _OFFSETS, _IR = range(5)
_VERSIONS, _PROPERTIES = 7, 8
_NEWEST = 6
_DEPTH = 200
"""Attributes and regions of sound programs are not nested more deeply."""

_STRUCTS = ("dimension_numbers", "dot_dimension_numbers", "scatter_dimension_numbers", "algorithm")
"""Attributes whose fields VHLO has as attributes of the operation."""

_LAZY, _USE_LISTS, _ELIDED, _NATIVE = 2, 3, 4, 5


class _Dialect:
    def __init__(self, name: str) -> None:
        self.name = name
        self.version: bytes = b""


class _Bytecode:
    """The sections of a module."""

    def __init__(self, data: bytes) -> None:
        cursor = Cursor(data)
        if cursor.take(4) != MAGIC:
            raise StableHLOError("this is not MLIR bytecode: it does not begin with ML\\xefR")
        self.version = cursor.varint()
        if self.version > _NEWEST:
            raise StableHLOError(
                f"the bytecode has version {self.version} of MLIR's format, known are 0 to "
                f"{_NEWEST}: export it for an older version of StableHLO"
            )
        self.producer = cursor.string().decode("utf-8", "replace")
        self._check_producer()
        sections = _sections(cursor, data)
        for needed in (_STRINGS, _DIALECTS, _ATTR_TYPES, _OFFSETS, _IR):
            if needed not in sections:
                raise StableHLOError(f"the bytecode is damaged: section {needed} is missing")
        self.strings = _read_strings(sections[_STRINGS])
        self.dialects: list[_Dialect] = []
        self.names: list[tuple[_Dialect, str]] = []
        self._read_dialects(sections[_DIALECTS])
        self._entries: tuple[list[Any], list[Any]] = ([], [])
        self._read_offsets(sections[_OFFSETS], sections[_ATTR_TYPES])
        self._known: tuple[dict[int, Any], dict[int, Any]] = ({}, {})
        self._depth = 0
        self.properties = _read_properties(sections.get(_PROPERTIES))
        self.ir = sections[_IR]

    def _check_producer(self) -> None:
        found = re.match(r"StableHLO_v(\d+)\.(\d+)", self.producer)
        if found and (int(found[1]), int(found[2])) > VERSION:
            known = ".".join(map(str, VERSION))
            raise StableHLOError(
                f"the artifact was written for {self.producer}, known are versions up to {known}: "
                "export it for an older version"
            )

    def _read_dialects(self, cursor: Cursor) -> None:
        for _ in range(cursor.count()):
            if self.version >= 1:
                name, versioned = cursor.flagged()
                dialect = _Dialect(self.string(name))
                if versioned:
                    kind, content = _section(cursor)
                    if kind != _VERSIONS:
                        raise StableHLOError("the bytecode is damaged: a dialect's version")
                    dialect.version = content.take(content.left)
            else:
                dialect = _Dialect(self.string(cursor.varint()))
            self.dialects.append(dialect)
        if self.version >= _ELIDED:
            cursor.varint()  # the number of all names
        while cursor.left:
            dialect = self._dialect(cursor.varint())
            for _ in range(cursor.count()):
                number = cursor.varint()
                number = number >> 1 if self.version >= _NATIVE else number
                self.names.append((dialect, self.string(number)))

    def _dialect(self, number: int) -> _Dialect:
        if number >= len(self.dialects):
            raise StableHLOError(f"the bytecode is damaged: dialect {number}")
        return self.dialects[number]

    def _read_offsets(self, offsets: Cursor, content: Cursor) -> None:
        counts = (offsets.count(), offsets.count())
        at = content.at
        for count, entries in zip(counts, self._entries, strict=True):
            while len(entries) < count:
                dialect = self._dialect(offsets.varint())
                group = offsets.count()
                if not group or len(entries) + group > count:
                    raise StableHLOError("the bytecode is damaged: a group of attributes")
                for _ in range(group):
                    size, encoded = offsets.flagged()
                    if size > content.end - at:
                        raise StableHLOError("the bytecode is damaged: an attribute's place")
                    entries.append((dialect, encoded, Cursor(content.data, at, at + size)))
                    at += size

    def string(self, number: int) -> str:
        if number >= len(self.strings):
            raise StableHLOError(f"the bytecode is damaged: string {number}")
        return self.strings[number]

    def attribute(self, number: int) -> Any:
        return self._entry(0, number, "attribute")

    def type(self, number: int) -> Any:
        return self._entry(1, number, "type")

    def _entry(self, kind: int, number: int, what: str) -> Any:
        known = self._known[kind]
        if number in known:
            return known[number]
        entries = self._entries[kind]
        if number >= len(entries):
            raise StableHLOError(f"the bytecode is damaged: {what} {number} of {len(entries)}")
        dialect, encoded, cursor = entries[number]
        self._depth += 1
        if self._depth > _DEPTH:
            raise StableHLOError(f"the bytecode is damaged: {what}s are nested too deeply")
        start = cursor.at
        try:
            known[number] = found = self._decode(kind, dialect.name, encoded, cursor)
        finally:
            cursor.at = start
            self._depth -= 1
        return found

    def _decode(self, kind: int, dialect: str, encoded: bool, cursor: Cursor) -> Any:
        if not encoded:
            text = cursor.string().decode("utf-8", "replace")
            return sdy_text.attribute(text) if kind == 0 else Other(text)
        tables = ENCODINGS.get(dialect)
        what = ("attribute", "type")[kind]
        if tables is None:
            raise StableHLOError(f"{what}s of dialect {dialect} have no known encoding")
        code = cursor.varint()
        rule = tables[kind].get(code)
        if rule is None:
            raise StableHLOError(f"{what} {code} of dialect {dialect} is unknown")
        return rule(Reader(cursor, self))


def _sections(cursor: Cursor, data: bytes) -> dict[int, Cursor]:
    found: dict[int, Cursor] = {}
    while cursor.left:
        kind, content = _section(cursor)
        if kind in found:
            raise StableHLOError(f"the bytecode is damaged: section {kind} is there twice")
        found[kind] = content
    return found


def _section(cursor: Cursor) -> tuple[int, Cursor]:
    """The kind of the next section, and its content."""
    head = cursor.byte()
    length = cursor.varint()
    if head & 0x80:
        alignment = cursor.varint()
        if alignment == 0 or alignment & (alignment - 1) or alignment > 1 << 20:
            raise StableHLOError("the bytecode is damaged: an alignment")
        cursor.take(-cursor.at % alignment)
    start = cursor.at
    cursor.take(length)
    return head & 0x7F, Cursor(cursor.data, start, start + length)


def _read_strings(cursor: Cursor) -> list[str]:
    sizes = [cursor.varint() for _ in range(cursor.count())]
    if sum(sizes) > cursor.left or 0 in sizes:
        raise StableHLOError("the bytecode is damaged: its strings")
    out = []
    for size in reversed(sizes):
        out.append(cursor.take(size)[:-1].decode("utf-8", "surrogateescape"))
    return out


def _read_properties(cursor: Cursor | None) -> list[Cursor]:
    if cursor is None:
        return []
    out = []
    for _ in range(cursor.count()):
        size = cursor.varint()
        start = cursor.at
        cursor.take(size)
        out.append(Cursor(cursor.data, start, start + size))
    return out


class _Scope:
    """The values that operations of an isolated region may name."""

    def __init__(self) -> None:
        self.values: list[Value] = []


class _Body:
    """The operations of the IR section."""

    def __init__(self, code: _Bytecode) -> None:
        self._code = code
        self._depth = 0

    def top(self) -> Block:
        return self._block(self._code.ir, _Scope(), [0])

    def _region(self, cursor: Cursor, scope: _Scope) -> Block | None:
        blocks = cursor.count()
        if not blocks:
            return None
        if blocks > 1:
            raise StableHLOError(f"the bytecode has a region of {blocks} blocks, not of one")
        values = cursor.varint()
        if values > cursor.left:
            raise StableHLOError("the bytecode is damaged: a region's number of values")
        start = len(scope.values)
        scope.values += [Value(None) for _ in range(values)]
        self._depth += 1
        if self._depth > _DEPTH:
            raise StableHLOError("the bytecode is damaged: regions are nested too deeply")
        block = self._block(cursor, scope, [start])
        self._depth -= 1
        del scope.values[start:]
        return block

    def _block(self, cursor: Cursor, scope: _Scope, following: list[int]) -> Block:
        code, block = self._code, Block()
        count, has_arguments = cursor.flagged()
        if count > cursor.left:
            raise StableHLOError("the bytecode is damaged: a block's number of operations")
        if has_arguments:
            for _ in range(cursor.count()):
                if code.version >= _ELIDED:
                    type_, located = cursor.flagged()
                else:
                    type_, located = cursor.varint(), True
                if located:
                    cursor.varint()
                block.arguments.append(_defined(scope, following, code.type(type_)))
            if code.version >= _USE_LISTS and cursor.byte():
                _skip_use_lists(cursor, len(block.arguments))
        block.operations = [self._operation(cursor, scope, following) for _ in range(count)]
        return block

    def _operation(self, cursor: Cursor, scope: _Scope, following: list[int]) -> Operation:
        code = self._code
        number = cursor.varint()
        if number >= len(code.names):
            raise StableHLOError(f"the bytecode is damaged: operation name {number}")
        dialect, name = code.names[number]
        mask = cursor.byte()
        place = functools.partial(code.attribute, cursor.varint())
        attributes: dict[str, Any] = {}
        if mask & 0x01:
            found = code.attribute(cursor.varint())
            if not isinstance(found, dict):
                raise StableHLOError("the bytecode is damaged: an operation's attributes")
            attributes.update(found)
        if mask & 0x40:
            attributes.update(self._properties(dialect.name, name, cursor.varint()))
        types = [code.type(cursor.varint()) for _ in range(cursor.count())] if mask & 0x02 else []
        results = [_defined(scope, following, t) for t in types]
        operands = []
        if mask & 0x04:
            for _ in range(cursor.count()):
                index = cursor.varint()
                if index >= len(scope.values):
                    raise StableHLOError(f"the bytecode is damaged: value {index}")
                operands.append(scope.values[index])
        if mask & 0x08:
            raise StableHLOError(f"{dialect.name}.{name} has successors")
        if mask & 0x20:
            _skip_use_lists(cursor, len(results))
        for key in _STRUCTS:
            struct = attributes.get(key)
            if isinstance(struct, dict):
                attributes |= struct
        op = Operation(_plain(dialect.name, name), operands, results, attributes, [], place)
        for value in results:
            value.owner = op
        if mask & 0x10:
            count, isolated = cursor.flagged()
            if isolated and code.version >= _LAZY:
                kind, inner = _section(cursor)
                if kind != _IR:
                    raise StableHLOError("the bytecode is damaged: a region's section")
            else:
                inner = cursor
            if count > inner.left:
                raise StableHLOError("the bytecode is damaged: a number of regions")
            for _ in range(count):
                region = self._region(inner, _Scope() if isolated else scope)
                op.regions.append(Block() if region is None else region)
        return op

    def _properties(self, dialect: str, name: str, number: int) -> dict[str, Any]:
        code = self._code
        if number >= len(code.properties):
            raise StableHLOError(f"the bytecode is damaged: properties {number}")
        place = code.properties[number]
        for names in _property_names(dialect, name) or ():
            cursor = Cursor(place.data, place.at, place.end)
            found = _read_properties_of(Reader(cursor, code), names)
            if found is not None and not cursor.left:
                return found
        if _property_names(dialect, name) is not None:
            raise StableHLOError(f"the attributes of {dialect}.{name} are of an unknown version")
        if not place.left:
            return {}
        found = Reader(Cursor(place.data, place.at, place.end), code).attribute()
        return found if isinstance(found, dict) else {"properties": found}


def _read_properties_of(reader: Reader, names: tuple[str, ...]) -> dict[str, Any] | None:
    """The attributes by name; None where fewer are there."""
    out = {}
    for key in names:
        if key == "*":
            reader.cursor.take(reader.cursor.left)
            return out
        if not reader.cursor.left:
            return None
        if key.endswith("?"):
            value = reader.optional_attribute()
            if value is not None:
                out[key[:-1]] = value
        else:
            out[key] = reader.attribute()
    return out


def _property_names(dialect: str, name: str) -> list[tuple[str, ...]] | None:
    """The attributes that an operation's properties hold in turn; None where they are a dict."""
    if dialect == "vhlo":
        if name in ATTRIBUTES:
            return [tuple(sorted(ATTRIBUTES[name].split()))]
        if name in WITHOUT_ATTRIBUTES:
            return [()]
        raise StableHLOError(f"the operation vhlo.{name} is unknown to this version of xpr")
    return property_names(f"{dialect}.{name}")


def _defined(scope: _Scope, following: list[int], type_: Any) -> Value:
    """The next value of a region, now that its type is known."""
    if following[0] >= len(scope.values):
        raise StableHLOError("the bytecode is damaged: more values than were declared")
    value = scope.values[following[0]]
    following[0] += 1
    value.type = type_
    return value


def _skip_use_lists(cursor: Cursor, count: int) -> None:
    for _ in range(cursor.count() if count > 1 else 1):
        if count > 1:
            cursor.varint()
        indices, _ = cursor.flagged()
        if indices > cursor.left:
            raise StableHLOError("the bytecode is damaged: an order of uses")
        for _ in range(indices):
            cursor.varint()


_FUNCTIONS = {"func": "func.func", "call": "func.call"}


def _plain(dialect: str, name: str) -> str:
    """The name of an operation without VHLO's version.

    >>> _plain("vhlo", "add_v1"), _plain("vhlo", "func_v1"), _plain("sdy", "mesh")
    ('stablehlo.add', 'func.func', 'sdy.mesh')
    """
    if dialect != "vhlo":
        return "stablehlo.return" if name == "return" else f"{dialect}.{name}"
    bare = re.sub(r"_v\d+$", "", name)
    return _FUNCTIONS.get(bare, f"stablehlo.{bare}")


def has_vhlo(data: bytes) -> bool:
    """Whether bytecode holds VHLO, as portable artifacts do, by the names of its dialects."""
    return any(d.name == "vhlo" for d in _Bytecode(data).dialects)


def read_bytecode(data: bytes) -> Module:
    """The module of a portable artifact; StableHLOError for bytes that are none."""
    code = _Bytecode(data)
    top = _Body(code).top()
    if len(top.operations) != 1 or top.operations[0].name != "builtin.module":
        raise StableHLOError("the bytecode holds no single module")
    module = top.operations[0]
    return module_of(module, code.producer)


def module_of(op: Operation, version: str | None = None) -> Module:
    """A module from its operation."""
    out = Module({}, op.attributes, {}, version)
    for inner in op.regions[0].operations if op.regions else ():
        name = inner.attributes.get("sym_name")
        if inner.name == "func.func":
            if not isinstance(name, str) or name in out.functions:
                raise inner.error(f"a function named {name!r}, which is none or there twice")
            if len(inner.regions) != 1:
                raise inner.error(f"the function {name} has no body")
            out.functions[name] = inner
        elif inner.name == "sdy.mesh":
            out.meshes[str(name)] = sdy_text.mesh_axes(inner.attributes.get("mesh"))
        else:
            raise inner.error("the module holds an operation other than functions and meshes")
    return out
