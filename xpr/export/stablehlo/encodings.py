"""Attributes and types of MLIR bytecode: the builtin dialect's and VHLO's own encodings.

The codes are those of MLIR's BuiltinDialectBytecode.td and of StableHLO's VhloBytecode.cpp.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from xpr.export.stablehlo.errors import StableHLOError
from xpr.export.stablehlo.form import (
    Elements,
    Float,
    Function,
    Integer,
    Other,
    Quantized,
    Tensor,
    Token,
    Tuple,
    dtype_named,
    tensor,
)
from xpr.export.stablehlo.varints import Cursor

_INT64 = np.dtype(np.int64)
DYNAMIC = -(1 << 63)
"""A size that a type leaves open."""


class Tables(Protocol):
    """What attributes refer to."""

    def attribute(self, number: int) -> Any: ...

    def type(self, number: int) -> Any: ...

    def string(self, number: int) -> str: ...


class Reader:
    """The values of one attribute or type, in turn."""

    def __init__(self, cursor: Cursor, tables: Tables) -> None:
        self.cursor = cursor
        self._tables = tables

    def attribute(self) -> Any:
        return self._tables.attribute(self.cursor.varint())

    def optional_attribute(self) -> Any:
        number, present = self.cursor.flagged()
        return self._tables.attribute(number) if present else None

    def type(self) -> Any:
        return self._tables.type(self.cursor.varint())

    def string(self) -> str:
        return self._tables.string(self.cursor.varint())

    def attributes(self) -> tuple[Any, ...]:
        return tuple(self.attribute() for _ in range(self.cursor.count()))

    def types(self) -> tuple[Any, ...]:
        return tuple(self.type() for _ in range(self.cursor.count()))

    def signed_list(self) -> Elements:
        return Elements((self.cursor.signed() for _ in range(self.cursor.count())), _INT64)

    def shape(self) -> tuple[int | None, ...]:
        return tuple(None if n == DYNAMIC else n for n in self.signed_list())

    def integer(self, width: int) -> int:
        """An integer of a known width, with its sign."""
        if width <= 8:
            value = self.cursor.byte()
            return value - 256 if value >= 128 else value
        return self.cursor.signed()

    def float(self, dtype: np.dtype[Any]) -> float:
        """A float of a known dtype: its bits as an integer."""
        bits = self.integer(8 * dtype.itemsize) & ((1 << (8 * dtype.itemsize)) - 1)
        raw = np.array(bits, f"u{dtype.itemsize}").reshape(1).view(dtype)[0]
        return float(raw)

    def double(self) -> float:
        bits = self.integer(64) & 0xFFFF_FFFF_FFFF_FFFF
        return struct.unpack("<d", bits.to_bytes(8, "little"))[0]

    def blob(self) -> bytes:
        return self.cursor.take(self.cursor.varint())


def _element(found: Any) -> Any:
    """An element type: a dtype or a quantized type."""
    if isinstance(found, np.dtype | Quantized):
        return found
    raise StableHLOError(f"the bytecode has {found!r} as an element type")


def _dtype(found: Any) -> np.dtype[Any]:
    if not isinstance(found, np.dtype):
        raise StableHLOError(f"the bytecode has {found!r} where an element type is expected")
    return found


def dense(type_: Any, data: bytes) -> Any:
    """The elements of a constant, from their bytes: all of them, or one for all."""
    if not isinstance(type_, Tensor):
        raise StableHLOError(f"the bytecode has a constant of type {type_!r}")
    shape, dtype = type_.static, type_.dtype
    count = math.prod(shape)
    if dtype == np.bool_:
        found = _booleans(data, count)
    else:
        if len(data) % dtype.itemsize:
            raise StableHLOError("the bytecode has a constant of the wrong number of bytes")
        found = np.frombuffer(data, dtype)
    if found.size == count:
        return found.reshape(shape)
    if found.size == 1:
        return np.broadcast_to(found.reshape(()), shape)
    raise StableHLOError(f"the bytecode has a constant of shape {shape} with {found.size} elements")


def _booleans(data: bytes, count: int) -> Any:
    """Booleans, eight to a byte or one; a single byte 0xff or 0 may be all of them."""
    if len(data) == 1 and data[0] in (0, 255):
        return np.full(1, bool(data[0]))
    raw = np.frombuffer(data, np.uint8)
    if len(data) == -(-count // 8) and len(data) != count:
        return np.unpackbits(raw, bitorder="little")[:count].astype(np.bool_)
    if count == 1 and len(data) == 1:
        return np.full(1, bool(data[0] & 1))
    return raw != 0


# ---- the builtin dialect


def _integer_type(r: Reader) -> Any:
    code = r.cursor.varint()
    width, sign = code >> 2, code & 3
    return dtype_named(("ui" if sign == 2 else "i") + str(width))


def width_of(dtype: np.dtype[Any]) -> int:
    """The number of bits of an integer type."""
    if dtype.kind == "b":
        return 1
    narrow = dtype in (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4))
    return 4 if narrow else 8 * dtype.itemsize


def _integer_attribute(r: Reader) -> Integer:
    """An integer with its type: MLIR writes its bits as if it had no sign."""
    dtype = _dtype(r.type())
    width = width_of(dtype)
    bits = r.integer(width) & ((1 << width) - 1)
    is_unsigned = dtype.kind in "ub" or dtype.name.startswith("uint")
    return Integer(bits if is_unsigned or not bits >> (width - 1) else bits - (1 << width), dtype)


def _float_attribute(r: Reader) -> Float:
    dtype = _dtype(r.type())
    return Float(r.float(dtype), dtype)


def _dense_array(r: Reader) -> Elements:
    dtype, size = _dtype(r.type()), r.cursor.varint()
    data = r.blob()
    if len(data) != size * dtype.itemsize:
        raise StableHLOError("the bytecode has an array of the wrong number of bytes")
    return Elements(np.frombuffer(data, dtype).tolist(), dtype)


def _dictionary(r: Reader) -> dict[str, Any]:
    out = {}
    for _ in range(r.cursor.count()):
        name = r.attribute()
        out[str(name)] = r.attribute()
    return out


def _no_rank(r: Reader) -> Other:
    r.type()
    return Other("tensor<*>")


def _complex(r: Reader) -> Any:
    part = _dtype(r.type())
    return dtype_named({4: "complex<f32>", 8: "complex<f64>"}.get(part.itemsize, str(part)))


def _ranked(r: Reader, encoded: bool) -> Tensor:
    if encoded:
        r.attribute()
    shape = r.shape()
    return tensor(shape, _element(r.type()))


def _symbol(r: Reader) -> str:
    root = str(r.attribute())
    return "::".join([root, *map(str, r.attributes())])


def _file_line(r: Reader) -> str:
    name = r.attribute()
    line, column = r.cursor.varint(), r.cursor.varint()
    return f"{name}:{line}:{column}"


def _call_site(r: Reader) -> Any:
    callee = r.attribute()
    r.attribute()
    return callee


def _fused(r: Reader) -> Any:
    found = [place for place in r.attributes() if place]
    return found[0] if found else None


def _named(r: Reader) -> str:
    name, child = r.attribute(), r.attribute()
    return f"{child} ({name})" if child else str(name)


def _file_range(r: Reader) -> str:
    name = r.attribute()
    numbers = [r.cursor.varint() for _ in range(r.cursor.count())]
    return ":".join([str(name), *map(str, numbers[:2])])


Rule = Callable[[Reader], Any]

BUILTIN_ATTRIBUTES: dict[int, Rule] = {
    0: Reader.attributes,
    1: _dictionary,
    2: Reader.string,
    3: lambda r: (r.string(), r.type())[0],
    4: lambda r: str(r.attribute()),
    5: _symbol,
    6: Reader.type,
    7: lambda r: True,
    8: _integer_attribute,
    9: _float_attribute,
    10: _call_site,
    11: _file_line,
    12: _fused,
    13: lambda r: (_fused(r), r.attribute())[0],
    14: _named,
    15: lambda r: None,
    17: _dense_array,
    18: lambda r: dense(r.type(), r.blob()),
    22: _file_range,
}

BUILTIN_TYPES: dict[int, Rule] = {
    0: _integer_type,
    1: lambda r: dtype_named("index"),
    2: lambda r: Function(r.types(), r.types()),
    3: lambda r: dtype_named("bf16"),
    4: lambda r: dtype_named("f16"),
    5: lambda r: dtype_named("f32"),
    6: lambda r: dtype_named("f64"),
    9: _complex,
    12: lambda r: Other("none"),
    13: lambda r: _ranked(r, False),
    14: lambda r: _ranked(r, True),
    15: lambda r: Tuple(r.types()),
    18: _no_rank,
    21: lambda r: Other("tf32"),
    22: lambda r: dtype_named("f8E5M2"),
    23: lambda r: dtype_named("f8E4M3"),
    24: lambda r: dtype_named("f8E4M3FN"),
    25: lambda r: dtype_named("f8E5M2FNUZ"),
    26: lambda r: dtype_named("f8E4M3FNUZ"),
    27: lambda r: dtype_named("f8E4M3B11FNUZ"),
    28: lambda r: dtype_named("f8E3M4"),
    29: lambda r: dtype_named("f4E2M1FN"),
    30: lambda r: dtype_named("f6E2M3FN"),
    31: lambda r: dtype_named("f6E3M2FN"),
    32: lambda r: dtype_named("f8E8M0FNU"),
}

# ---- VHLO


def enumerator(*names: str) -> Rule:
    def read(r: Reader) -> str:
        code = r.cursor.varint()
        if code >= len(names):
            raise StableHLOError(f"the bytecode has the enumerator {code} of {', '.join(names)}")
        return names[code]

    return read


def _boolean(r: Reader) -> bool:
    value = r.cursor.varint()
    if value > 1:
        raise StableHLOError(f"the bytecode has the boolean {value}")
    return bool(value)


def accuracy(r: Reader) -> Any:
    atol, rtol, ulps = r.double(), r.double(), r.cursor.signed()
    return {"atol": atol, "rtol": rtol, "ulps": ulps, "mode": r.attribute()}


def alias(r: Reader) -> dict[str, Any]:
    return {
        "output_tuple_indices": r.signed_list(),
        "operand_index": r.cursor.signed(),
        "operand_tuple_indices": r.signed_list(),
    }


ENUMERATORS: dict[int, tuple[str, ...]] = {
    code: tuple(names.split())
    for code, names in {
        3: "EQ NE GE GT LE LT",
        4: "NOTYPE FLOAT TOTALORDER SIGNED UNSIGNED",
        5: "UNSPECIFIED ORIGINAL STATUS_RETURNING UNIFIED TYPED_FFI",
        7: "FFT IFFT RFFT IRFFT",
        11: "DEFAULT HIGH HIGHEST",
        12: "DEFAULT THREE_FRY PHILOX",
        13: "INVALID UNIFORM NORMAL",
        16: "TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT",
        19: "DEFAULT HIGHEST TOLERANCE",
    }.items()
}
"""The enumerators of VHLO's attributes, by the codes of the attributes."""

VHLO_ATTRIBUTES: dict[int, Rule] = {
    1: Reader.attributes,
    2: _boolean,
    6: _dictionary,
    8: _float_attribute,
    9: _integer_attribute,
    10: alias,
    14: Reader.string,
    15: lambda r: dense(r.type(), r.blob()),
    17: Reader.type,
    18: lambda r: {"bounds": r.signed_list()},
    20: accuracy,
    21: lambda r: {"pre_size": r.cursor.signed(), "size": r.cursor.signed()},
    22: lambda r: {"name": r.attribute(), "sub_axis": r.attribute() if r.cursor.varint() else None},
    23: lambda r: {"mesh": r.attribute(), "axes": r.attribute()},
    24: lambda r: {"name": r.attribute(), "size": r.cursor.signed()},
    25: lambda r: {"axes": r.attribute(), "device_ids": r.optional_attribute()},
}
VHLO_ATTRIBUTES |= {code: enumerator(*names) for code, names in ENUMERATORS.items()}


def quantized(r: Reader) -> Quantized:
    flags = r.cursor.varint()
    storage, expressed = _dtype(r.type()), _dtype(r.type())
    scale, zero = r.double(), r.cursor.signed()
    low, high = r.cursor.signed(), r.cursor.signed()
    return Quantized(_stored(storage, flags), expressed, (scale,), (zero,), low, high)


def quantized_axis(r: Reader) -> Quantized:
    flags = r.cursor.varint()
    storage, expressed, axis = _dtype(r.type()), _dtype(r.type()), r.cursor.varint()
    low, high = r.cursor.signed(), r.cursor.signed()
    scales = tuple(r.double() for _ in range(r.cursor.count()))
    return Quantized(_stored(storage, flags), expressed, scales, r.signed_list(), low, high, axis)


def _stored(dtype: np.dtype[Any], flags: int) -> np.dtype[Any]:
    """The storage type: flag 1 says that it is signed."""
    name = dtype.name.removeprefix("uint").removeprefix("int")
    return dtype_named(f"{'i' if flags & 1 else 'ui'}{name}")


SCALARS = {
    0: "i1",
    2: "bf16",
    3: "f16",
    4: "f32",
    5: "f64",
    6: "f8E4M3FN",
    7: "f8E5M2",
    9: "index",
    10: "i4",
    11: "i8",
    12: "i16",
    13: "i32",
    14: "i64",
    15: "ui4",
    16: "ui8",
    17: "ui16",
    18: "ui32",
    19: "ui64",
    27: "f8E4M3FNUZ",
    28: "f8E5M2FNUZ",
    29: "f8E4M3B11FNUZ",
    31: "i2",
    32: "ui2",
    35: "f8E4M3",
    36: "f8E3M4",
    37: "f4E2M1FN",
    38: "f6E2M3FN",
    39: "f6E3M2FN",
    40: "f8E8M0FNU",
}
"""The scalar types of VHLO by code."""


def _scalar(name: str) -> Rule:
    return lambda r: dtype_named(name)


VHLO_TYPES: dict[int, Rule] = {code: _scalar(name) for code, name in SCALARS.items()}
VHLO_TYPES |= {
    1: _complex,
    8: lambda r: Function(r.types(), r.types()),
    20: lambda r: _ranked(r, False),
    21: lambda r: _ranked(r, True),
    22: lambda r: Token(),
    23: lambda r: Tuple(r.types()),
    24: quantized,
    25: _no_rank,
    26: lambda r: Other("witness"),
    30: quantized_axis,
    33: lambda r: Other("none"),
    34: lambda r: Other("tf32"),
    41: lambda r: tensor(r.shape(), _element(r.type())),
    42: lambda r: Tuple(r.types()),
}
