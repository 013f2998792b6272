"""How the structures of XLA's foreign function interface, version 0.3, lie in memory.

The fields and their order are those of `xla/ffi/api/c_api.h`. A structure says its own size, which
counts up to a field that the header names; what follows that field is not counted.
"""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, ClassVar

MAJOR, MINOR = 0, 3
OLDEST_MINOR = 1
"""Handlers of this minor version and later ones can be called."""

METADATA = 1
"""The extension of a frame that asks for a handler's metadata."""

BUFFER = 1
"""What kind of argument or result a buffer is; there is no other kind."""

ARRAY, DICTIONARY, SCALAR, STRING = range(1, 5)
"""Kinds of attributes."""

STAGES = ("instantiate", "prepare", "initialize", "execute")
INSTANTIATE, PREPARE, INITIALIZE, EXECUTE = range(4)


class _Sized(ctypes.Structure):
    """A structure that begins with its size."""

    LAST: ClassVar[str]
    """The last field that the size counts."""

    struct_size: int

    @classmethod
    def counted_size(cls) -> int:
        """The size that the structure says it has."""
        field = getattr(cls, cls.LAST)
        return field.offset + field.size

    @classmethod
    def new(cls, **fields: Any) -> Any:
        """One with its size filled in."""
        return cls(struct_size=cls.counted_size(), **fields)


_HEAD = [("struct_size", c_size_t), ("extension_start", c_void_p)]


class Extension(_Sized):
    LAST = "next"
    _fields_ = [("struct_size", c_size_t), ("type", c_int), ("next", c_void_p)]


class Version(_Sized):
    LAST = "minor"
    _fields_ = [*_HEAD, ("major", c_int), ("minor", c_int)]


class Metadata(_Sized):
    LAST = "traits"
    _fields_ = [
        ("struct_size", c_size_t),
        ("version", Version),
        ("traits", ctypes.c_uint32),
        ("state_type", c_int64),
    ]


class MetadataExtension(ctypes.Structure):
    _fields_ = [("base", Extension), ("metadata", POINTER(Metadata))]


class Bytes(ctypes.Structure):
    """A text, which need not end with a zero."""

    _fields_ = [("data", c_void_p), ("length", c_size_t)]


class Scalar(ctypes.Structure):
    _fields_ = [("type", c_int), ("value", c_void_p)]


class ArrayAttribute(ctypes.Structure):
    _fields_ = [("type", c_int), ("count", c_size_t), ("data", c_void_p)]


class Buffer(_Sized):
    LAST = "dims"
    _fields_ = [
        *_HEAD,
        ("type", c_int),
        ("data", c_void_p),
        ("rank", c_int64),
        ("dims", POINTER(c_int64)),
    ]


class Buffers(_Sized):
    """Arguments, or results."""

    LAST = "buffers"
    _fields_ = [
        *_HEAD,
        ("count", c_int64),
        ("kinds", POINTER(c_int)),
        ("buffers", POINTER(POINTER(Buffer))),
    ]


class Attributes(_Sized):
    LAST = "values"
    _fields_ = [
        *_HEAD,
        ("count", c_int64),
        ("kinds", POINTER(c_int)),
        ("names", POINTER(POINTER(Bytes))),
        ("values", POINTER(c_void_p)),
    ]


class Frame(_Sized):
    """What a handler is called with."""

    LAST = "attributes"
    _fields_ = [
        *_HEAD,
        ("api", c_void_p),
        ("context", c_void_p),
        ("stage", c_int),
        ("arguments", Buffers),
        ("results", Buffers),
        ("attributes", Attributes),
        ("future", c_void_p),
    ]


HANDLER = CFUNCTYPE(c_void_p, POINTER(Frame))
"""A handler; it returns an error, or NULL."""

TASK = CFUNCTYPE(None, c_void_p)
DELETER = CFUNCTYPE(None, c_void_p)

# ---- what the functions of the interface take


class ErrorCreate(_Sized):
    LAST = "code"
    _fields_ = [*_HEAD, ("message", c_char_p), ("code", c_int)]


class ErrorGetMessage(_Sized):
    LAST = "message"
    _fields_ = [*_HEAD, ("error", c_void_p), ("message", c_void_p)]


class ErrorDestroy(_Sized):
    LAST = "error"
    _fields_ = [*_HEAD, ("error", c_void_p)]


class HandlerRegister(_Sized):
    LAST = "traits"
    _fields_ = [
        *_HEAD,
        ("name", Bytes),
        ("platform", Bytes),
        ("handlers", c_void_p * len(STAGES)),
        ("traits", ctypes.c_uint32),
    ]


class TypeInfo(_Sized):
    LAST = "deleter"
    _fields_ = [*_HEAD, ("deleter", c_void_p)]


class TypeRegister(_Sized):
    LAST = "type"
    _fields_ = [
        *_HEAD,
        ("name", Bytes),
        ("type", POINTER(c_int64)),
        ("info", POINTER(TypeInfo)),
    ]


class ContextGet(_Sized):
    LAST = "data"
    _fields_ = [*_HEAD, ("context", c_void_p), ("type", POINTER(c_int64)), ("data", c_void_p)]


class StateOf(_Sized):
    LAST = "state"
    _fields_ = [
        *_HEAD,
        ("context", c_void_p),
        ("stage", c_int),
        ("type", POINTER(c_int64)),
        ("state", c_void_p),
    ]


class StreamGet(_Sized):
    LAST = "stream"
    _fields_ = [*_HEAD, ("context", c_void_p), ("stream", c_void_p)]


class MemoryAllocate(_Sized):
    LAST = "data"
    _fields_ = [
        *_HEAD,
        ("context", c_void_p),
        ("size", c_size_t),
        ("alignment", c_size_t),
        ("data", c_void_p),
    ]


class MemoryFree(_Sized):
    LAST = "data"
    _fields_ = [*_HEAD, ("context", c_void_p), ("size", c_size_t), ("data", c_void_p)]


class Schedule(_Sized):
    LAST = "data"
    _fields_ = [*_HEAD, ("context", c_void_p), ("task", c_void_p), ("data", c_void_p)]


class NumThreads(_Sized):
    LAST = "count"
    _fields_ = [*_HEAD, ("context", c_void_p), ("count", POINTER(c_int64))]


class FutureCreate(_Sized):
    LAST = "extension_start"
    _fields_ = [*_HEAD, ("future", c_void_p)]


class FutureDone(_Sized):
    LAST = "future"
    _fields_ = [*_HEAD, ("future", c_void_p)]


class FutureFailed(_Sized):
    LAST = "error"
    _fields_ = [*_HEAD, ("future", c_void_p), ("error", c_void_p)]


class RunId(_Sized):
    LAST = "run"
    _fields_ = [*_HEAD, ("context", c_void_p), ("run", c_int64)]


class DeviceOrdinal(_Sized):
    LAST = "ordinal"
    _fields_ = [*_HEAD, ("context", c_void_p), ("ordinal", c_int32)]


FUNCTIONS: tuple[tuple[str, type[_Sized]], ...] = (
    ("Error_Create", ErrorCreate),
    ("Error_GetMessage", ErrorGetMessage),
    ("Error_Destroy", ErrorDestroy),
    ("Handler_Register", HandlerRegister),
    ("Stream_Get", StreamGet),
    ("Type_Register", TypeRegister),
    ("ExecutionContext_Get", ContextGet),
    ("State_Set", StateOf),
    ("State_Get", StateOf),
    ("DeviceMemory_Allocate", MemoryAllocate),
    ("DeviceMemory_Free", MemoryFree),
    ("ThreadPool_Schedule", Schedule),
    ("ThreadPool_NumThreads", NumThreads),
    ("Future_Create", FutureCreate),
    ("Future_SetAvailable", FutureDone),
    ("Future_SetError", FutureFailed),
    ("RunId_Get", RunId),
    ("DeviceOrdinal_Get", DeviceOrdinal),
)
"""The functions of the interface, in the order of their table, with what each of them takes."""


class Api(_Sized):
    """The table of these functions."""

    LAST = FUNCTIONS[-1][0]
    _fields_ = [
        *_HEAD,
        ("version", Version),
        ("internal", c_void_p),
        *((name, c_void_p) for name, _ in FUNCTIONS),
    ]
