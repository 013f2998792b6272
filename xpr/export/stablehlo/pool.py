"""Strings, attributes and types of a bytecode module, each stored once and named by a number."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xpr.export.stablehlo.emitter import integer, section, signed, signed_list, varint
from xpr.export.stablehlo.encodings import DYNAMIC, ENUMERATORS, SCALARS, width_of
from xpr.export.stablehlo.errors import StableHLOError
from xpr.export.stablehlo.form import (
    DTYPES,
    Elements,
    Float,
    Function,
    Integer,
    Other,
    Quantized,
    Tensor,
    Token,
    Tuple,
)

_NAMES = {dtype: name for name, dtype in DTYPES.items() if name != "index"}
_CODES = {name: code for code, name in SCALARS.items()}
_INT64 = np.dtype(np.int64)
_INTEGER, _STRING, _ALIAS, _ACCURACY = 9, 14, 10, 20
_LAYOUTS = frozenset(("operand_layouts", "result_layouts"))

_ENUMERATED: dict[str, int] = {
    "comparison_direction": 3,
    "compare_type": 4,
    "api_version": 5,
    "fft_type": 7,
    "precision_config": 11,
    "rng_algorithm": 12,
    "rng_distribution": 13,
    "transpose_a": 16,
    "mode": 19,
}
"""The codes of the attributes that are enumerators, by their names in operations."""


class Pool:
    """What the operations of a module name by number."""

    def __init__(self) -> None:
        self._strings: dict[str, int] = {}
        self._dialects: dict[str, int] = {}
        self._entries: tuple[dict[Any, int], dict[Any, int]] = ({}, {})

    def string(self, text: str) -> int:
        """The number of a string."""
        return self._strings.setdefault(text, len(self._strings))

    def dialect(self, name: str) -> int:
        """The number of a dialect."""
        self.string(name)
        return self._dialects.setdefault(name, len(self._dialects))

    def _entry(self, kind: int, dialect: str, content: bytes) -> int:
        entries = self._entries[kind]
        self.dialect(dialect)
        return entries.setdefault((dialect, content), len(entries))

    def _attribute(self, code: int, content: bytes, dialect: str = "vhlo") -> int:
        return self._entry(0, dialect, varint(code) + content)

    def _type(self, code: int, content: bytes = b"", dialect: str = "vhlo") -> int:
        return self._entry(1, dialect, varint(code) + content)

    # ---- types

    def type(self, found: Any) -> int:
        """The number of a type of VHLO."""
        if isinstance(found, np.dtype):
            return self._scalar(found)
        if isinstance(found, Tensor):
            return self._tensor(found.shape, self.type(found.element))
        if isinstance(found, Function):
            return self._type(8, self._types(found.inputs) + self._types(found.results))
        if isinstance(found, Token):
            return self._type(22)
        if isinstance(found, Tuple):
            return self._type(23, self._types(found.elements))
        if isinstance(found, Quantized):
            return self._quantized(found)
        if found == Other("none"):
            return self._type(33)
        raise StableHLOError(f"the type {found} has no counterpart in a portable artifact")

    def _types(self, types: Sequence[Any]) -> bytes:
        numbers = [self.type(t) for t in types]
        return varint(len(numbers)) + b"".join(map(varint, numbers))

    def _tensor(self, shape: Sequence[int | None], element: int) -> int:
        sizes = signed_list(DYNAMIC if n is None else n for n in shape)
        return self._type(20, sizes + varint(element))

    def _scalar(self, dtype: np.dtype[Any]) -> int:
        name = _NAMES.get(dtype)
        if name is None:
            raise StableHLOError(f"the dtype {dtype} has no counterpart in a portable artifact")
        if name.startswith("complex"):
            return self._type(1, varint(self._type(_CODES[name[8:-1]])))
        return self._type(_CODES[name])

    def _quantized(self, found: Quantized) -> int:
        name = _NAMES[found.storage]
        flags = varint(int(not name.startswith("ui")))
        head = flags + varint(self.type(found.storage)) + varint(self.type(found.expressed))
        limits = signed(found.low) + signed(found.high)
        if found.axis is None:
            return self._type(
                24, head + _double(found.scales[0]) + signed(found.zero_points[0]) + limits
            )
        scales = varint(len(found.scales)) + b"".join(map(_double, found.scales))
        return self._type(
            30, head + varint(found.axis) + limits + scales + signed_list(found.zero_points)
        )

    # ---- attributes of VHLO

    def attribute(self, name: str, value: Any) -> int:
        """The number of an attribute; its name says how the value is encoded."""
        if name == "precision_config":
            return self._array([self._enumerator(name, v) for v in value])
        if name in _ENUMERATED:
            return self._enumerator(name, value)
        if name == "result_accuracy":
            numbers = _double(value["atol"]) + _double(value["rtol"]) + signed(value["ulps"])
            return self._attribute(
                _ACCURACY, numbers + varint(self.attribute("mode", value["mode"]))
            )
        if name == "output_operand_aliases":
            return self._array([self._attribute(_ALIAS, _alias(v)) for v in value])
        if name in _LAYOUTS:
            return self._array([self._index_list(v) for v in value])
        return self._value(value)

    def _enumerator(self, name: str, value: Any) -> int:
        code = _ENUMERATED[name]
        number = int(value) if isinstance(value, int) else ENUMERATORS[code].index(value)
        return self._attribute(code, varint(number))

    def _array(self, numbers: Sequence[int]) -> int:
        return self._attribute(1, varint(len(numbers)) + b"".join(map(varint, numbers)))

    def _value(self, value: Any) -> int:
        if isinstance(value, bool):
            return self._attribute(2, varint(int(value)))
        if isinstance(value, int):
            dtype = value.dtype if isinstance(value, Integer) else _INT64
            if dtype == np.bool_:
                return self._attribute(2, varint(int(value)))
            type_ = varint(self.type(dtype))
            return self._attribute(_INTEGER, type_ + integer(value, width_of(dtype)))
        if isinstance(value, float):
            dtype = value.dtype if isinstance(value, Float) else np.dtype(np.float64)
            return self._attribute(8, varint(self.type(dtype)) + _float(value, dtype))
        if isinstance(value, str):
            return self._attribute(_STRING, varint(self.string(value)))
        if isinstance(value, Elements):
            return self._elements(np.array(value, value.dtype))
        if isinstance(value, tuple | list):
            return self._array([self._value(v) for v in value])
        if isinstance(value, np.ndarray):
            return self._elements(value)
        if isinstance(value, Mapping):
            pairs = [(self._value(str(k)), self._value(v)) for k, v in sorted(value.items())]
            content = b"".join(varint(n) for pair in pairs for n in pair)
            return self._attribute(6, varint(len(pairs)) + content)
        return self._attribute(17, varint(self.type(value)))

    def _elements(self, values: np.ndarray[Any, Any]) -> int:
        type_ = varint(self.type(Tensor(values.shape, values.dtype)))
        return self._attribute(15, type_ + _blob(values))

    def _index_list(self, values: Any) -> int:
        places = np.asarray(values, np.int64)
        type_ = varint(self._tensor(places.shape, self._type(_CODES["index"])))
        return self._attribute(15, type_ + _blob(places))

    # ---- the builtin dialect: the module's own attributes, and locations

    def unknown_location(self) -> int:
        """The location that says nothing."""
        return self._attribute(15, b"", "builtin")

    def builtin(self, value: Any) -> int:
        """The number of a builtin attribute: a string, an integer, or a dictionary of these."""
        if isinstance(value, str):
            return self._attribute(2, varint(self.string(value)), "builtin")
        if isinstance(value, int):
            is_bool = isinstance(value, bool)
            dtype = value.dtype if isinstance(value, Integer) else _INT64
            width = 1 if is_bool else width_of(dtype)
            sign = 2 if not is_bool and dtype.name.startswith("uint") else 0
            type_ = self._type(0, varint(width << 2 | sign), "builtin")
            return self._attribute(8, varint(type_) + integer(value, width), "builtin")
        if isinstance(value, Mapping):
            return self.dictionary({k: self.builtin(v) for k, v in value.items()})
        raise StableHLOError(f"the attribute {value!r} of the module cannot be written")

    def dictionary(self, numbers: Mapping[str, int]) -> int:
        """A builtin dictionary of attributes by their numbers."""
        pairs = [(self.builtin(name), number) for name, number in sorted(numbers.items())]
        content = b"".join(varint(n) for pair in pairs for n in pair)
        return self._attribute(1, varint(len(pairs)) + content, "builtin")

    # ---- sections

    def strings_section(self) -> bytes:
        """The section of strings."""
        texts = [text.encode("utf-8", "surrogateescape") + b"\0" for text in self._strings]
        sizes = b"".join(varint(len(text)) for text in reversed(texts))
        return section(0, varint(len(texts)) + sizes + b"".join(texts))

    def dialects_section(self, operations: Mapping[tuple[str, str], int]) -> bytes:
        """The section of dialects, and of the names of operations by number."""
        out = [varint(len(self._dialects))]
        out += [varint(self.string(name) << 1) for name in self._dialects]
        out.append(varint(len(operations)))
        for dialect, names in itertools.groupby(operations, key=lambda pair: pair[0]):
            numbers = [varint(self.string(name) << 1 | 1) for _, name in names]
            out += [varint(self.dialect(dialect)), varint(len(numbers)), *numbers]
        return section(1, b"".join(out))

    def entries_sections(self) -> bytes:
        """The sections of attributes and types, and of their places."""
        content, places = [], [varint(len(entries)) for entries in self._entries]
        for entries in self._entries:
            group: list[bytes] = []
            dialects = [dialect for dialect, _ in entries]
            for i, (dialect, data) in enumerate(entries):
                content.append(data)
                group.append(varint(len(data) << 1 | 1))
                if i + 1 == len(dialects) or dialects[i + 1] != dialect:
                    places += [varint(self.dialect(dialect)), varint(len(group)), *group]
                    group = []
        return section(2, b"".join(content)) + section(3, b"".join(places))


def _double(value: float) -> bytes:
    return integer(int.from_bytes(struct.pack("<d", value), "little"), 64)


def _float(value: float, dtype: np.dtype[Any]) -> bytes:
    bits = np.array(value, dtype).reshape(1).view(f"u{dtype.itemsize}")[0]
    return integer(int(bits), 8 * dtype.itemsize)


def _alias(value: Mapping[str, Any]) -> bytes:
    outputs, operands = value["output_tuple_indices"], value["operand_tuple_indices"]
    return signed_list(outputs) + signed(value["operand_index"]) + signed_list(operands)


def _blob(values: np.ndarray[Any, Any]) -> bytes:
    """The bytes of a constant: one element where all are the same one."""
    same = values.size > 1 and not any(values.strides)
    if values.dtype == np.bool_:
        if same:
            data = b"\xff" if values.flat[0] else b"\0"
        else:
            data = np.packbits(values.reshape(-1), bitorder="little").tobytes()
    else:
        data = np.ascontiguousarray(values.reshape(-1)[:1] if same else values).tobytes()
    return varint(len(data)) + data
