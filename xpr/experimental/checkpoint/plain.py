"""Plain values as JSON: numbers, strings, bytes, and tuples of them where they are keys."""

from __future__ import annotations

import base64
import math
from typing import Any

_SELF = {"bool": bool, "int": int, "str": str}


def is_plain(value: Any) -> bool:
    """Whether a leaf is kept as the Python value that it is."""
    return type(value) in (bool, int, float, complex, str, bytes)


def encode(what: str, value: Any) -> dict[str, Any]:
    """The value as JSON, `{its type: its text}`. Raises TypeError, naming `what`, for any other."""
    kind = type(value).__name__
    if value is None:
        return {"None": None}
    if type(value) is tuple:
        return {"tuple": [encode(what, v) for v in value]}
    if not is_plain(value):
        raise TypeError(
            f"a checkpoint cannot keep {what} {value!r} of {type(value)}: it takes None, bool, "
            "int, float, complex, str, bytes and tuples of them"
        )
    if type(value) is float:
        return {kind: _float(value)}
    if type(value) is complex:
        return {kind: [_float(value.real), _float(value.imag)]}
    if type(value) is bytes:
        return {kind: base64.b64encode(value).decode()}
    return {kind: value}


def _float(value: float) -> float | str:
    # JSON has no words for these.
    return value if math.isfinite(value) else repr(value)


def _read_float(value: Any) -> float:
    if type(value) is float or value in ("inf", "-inf", "nan"):
        return float(value)
    raise ValueError(f"no float of a checkpoint: {value!r}")


def decode(found: dict[str, Any]) -> Any:
    """The value that `encode` has written; ValueError for what it has not."""
    ((kind, value),) = found.items()
    if kind == "None" and value is None:
        return None
    if kind == "tuple" and isinstance(value, list):
        return tuple(map(decode, value))
    if kind == "float":
        return _read_float(value)
    if kind == "complex":
        real, imag = value
        return complex(_read_float(real), _read_float(imag))
    if kind == "bytes":
        return base64.b64decode(value, validate=True)
    if kind in _SELF and type(value) is _SELF[kind]:
        return value
    raise ValueError(f"no plain value of a checkpoint: {found!r}")
