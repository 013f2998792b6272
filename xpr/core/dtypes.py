"""Dtypes: names, canonical forms with and without 64 bits, and JAX's type promotion lattice.

The lattice is the one published in JAX's document "JAX Type Promotion Semantics": Python scalars
(and arrays that came from them) are *weakly typed* and give way to any array of the same kind.
"""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from xpr.core.config import state
from xpr.core.errors import TypePromotionError
from xpr.core.extended import ExtendedDType as ExtendedDType
from xpr.core.extended import extended as extended
from xpr.core.extended import is_extended
from xpr.core.extended import prng_key as prng_key

bfloat16 = np.dtype(ml_dtypes.bfloat16)
float0 = np.dtype([("float0", np.void, 0)])

FLOAT8_TYPES: tuple[np.dtype[Any], ...] = tuple(
    np.dtype(getattr(ml_dtypes, name))
    for name in (
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    )
)
SMALL_FLOAT_TYPES: tuple[np.dtype[Any], ...] = FLOAT8_TYPES + tuple(
    np.dtype(getattr(ml_dtypes, n)) for n in ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")
)
SMALL_INT_TYPES: tuple[np.dtype[Any], ...] = tuple(
    np.dtype(getattr(ml_dtypes, n)) for n in ("int1", "uint1", "int2", "uint2", "int4", "uint4")
)

BOOL = np.dtype(np.bool_)
_SIGNED = tuple(np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64))
_UNSIGNED = tuple(np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))
_FLOAT = (bfloat16, *(np.dtype(t) for t in (np.float16, np.float32, np.float64)))
_COMPLEX = tuple(np.dtype(t) for t in (np.complex64, np.complex128))

# Kinds, as letters: b bool, i signed, u unsigned, f floating (small ones too), c complex, V float0,
# x extended.
_KIND: dict[np.dtype[Any], str] = {BOOL: "b", float0: "V"}
_KIND |= {d: "i" for d in _SIGNED}
_KIND |= {d: "u" for d in _UNSIGNED}
_KIND |= {d: ("u" if d.name.startswith("u") else "i") for d in SMALL_INT_TYPES}
_KIND |= {d: "f" for d in _FLOAT + SMALL_FLOAT_TYPES}
_KIND |= {d: "c" for d in _COMPLEX}

_TO_32: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}

SHORT_NAMES: dict[np.dtype[Any], str] = {BOOL: "bool", bfloat16: "bf16", float0: "float0"}
SHORT_NAMES |= {d: f"i{8 * d.itemsize}" for d in _SIGNED}
SHORT_NAMES |= {d: f"u{8 * d.itemsize}" for d in _UNSIGNED}
SHORT_NAMES |= {d: f"f{8 * d.itemsize}" for d in _FLOAT[1:]}
SHORT_NAMES |= {d: f"c{8 * d.itemsize}" for d in _COMPLEX}
SHORT_NAMES |= {
    d: d.name.replace("float", "f").replace("uint", "u").replace("int", "i")
    for d in SMALL_FLOAT_TYPES + SMALL_INT_TYPES
}


def kind(dtype: Any) -> str:
    """The kind of `dtype`: one of b, i, u, f, c, V for float0, x for extended dtypes.

    TypeError for any other.
    """
    try:
        return _KIND[dtype]
    except (KeyError, TypeError):
        pass
    if isinstance(dtype, ExtendedDType):
        return "x"
    d = np.dtype(dtype)
    if d in _KIND:
        return _KIND[d]
    raise TypeError(f"dtype {d} is not supported: use a bool, integer, floating or complex type")


def is_supported(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of `dtype` exist in xpr."""
    return dtype in _KIND or isinstance(dtype, ExtendedDType)


def is_float(dtype: Any) -> bool:
    return kind(dtype) == "f"


def is_complex(dtype: Any) -> bool:
    return kind(dtype) == "c"


def is_inexact(dtype: Any) -> bool:
    return kind(dtype) in "fc"


def is_integer(dtype: Any) -> bool:
    return kind(dtype) in "iu"


def narrow(dtype: Any) -> Any:
    """The dtype that takes the place of `dtype` where 64-bit types are off."""
    return _TO_32.get(dtype, dtype)


_PYTHON_SCALARS: dict[type, str] = {bool: "b", int: "i", float: "f", complex: "c"}


def default_dtype(kind_: str) -> np.dtype[Any]:
    """The dtype of a Python scalar of that kind: 32 bits, or 64 when enable_x64 is set."""
    if kind_ == "b":
        return BOOL
    name = {"i": "int64", "u": "uint64", "f": "float64", "c": "complex128"}[kind_]
    return canonicalize(np.dtype(name))


def index_dtype(size: int) -> np.dtype[Any]:
    """The dtype of places along an axis: int32, or the default one where that is too narrow."""
    return np.dtype(np.int32) if size < 1 << 31 else default_dtype("i")


_FLOAT0 = (
    "float0s do not support any operations by design: they are tangents of integers, which hold "
    "no values. np.zeros_like(x, dtype) makes zeros of another dtype"
)


def canonicalize(dtype: Any, allow_float0: bool = False) -> np.dtype[Any]:
    """`dtype` as an `np.dtype`, 64-bit types replaced by 32-bit ones unless enable_x64 is set.

    Python's bool, int, float and complex stand for the default dtype of their kind.
    An extended dtype stays as it is. Raises TypeError for a dtype that xpr has no arrays of
    (objects, strings, foreign byte order).
    """
    if isinstance(dtype, ExtendedDType):
        return dtype  # pyright: ignore[reportReturnType]  avals carry it in a dtype's place
    d = dtype if isinstance(dtype, np.dtype) else np.dtype(dtype)
    if not state.enable_x64:
        d = _TO_32.get(d, d)
    if d == float0 and not allow_float0:
        raise TypeError(_FLOAT0)
    if d not in _KIND:
        if d.newbyteorder("=") in _KIND:
            raise TypeError(
                f"dtype {d.str!r} has a foreign byte order; convert it with "
                f"x.astype({d.newbyteorder('=')!s})"
            )
        raise TypeError(
            f"Dtype {d} is not a valid JAX array type. Only arrays of numeric types are supported "
            "by JAX."
        )
    return d


def scalar_kind(value: Any) -> str | None:
    """The kind of a Python scalar, or None when `value` is none."""
    return _PYTHON_SCALARS.get(type(value))


def issubdtype(dtype: Any, category: Any) -> bool:
    """Like `np.issubdtype`, where bfloat16 and the 8-bit floats count as floating types.

    >>> import numpy as np
    >>> from xpr.dtypes import issubdtype
    >>> issubdtype("bfloat16", np.floating), issubdtype("int8", np.floating)
    (True, False)
    """
    if is_extended(dtype):
        own = dtype.type if isinstance(dtype, ExtendedDType) else dtype
        return isinstance(category, type) and issubclass(own, category)
    if is_extended(category):
        return False
    if isinstance(category, type) and issubclass(category, np.generic) and _is_abstract(category):
        try:
            k = kind(dtype)
        except TypeError:
            return bool(np.issubdtype(dtype, category))
        return k in {
            np.generic: "biufcV",
            np.number: "iufc",
            np.inexact: "fc",
            np.floating: "f",
            np.complexfloating: "c",
            np.integer: "iu",
            np.signedinteger: "i",
            np.unsignedinteger: "u",
        }.get(category, "")
    if category in _PYTHON_SCALARS:
        return kind(dtype) in {"b": "b", "i": "iu", "f": "f", "c": "c"}[_PYTHON_SCALARS[category]]
    return np.dtype(dtype) == np.dtype(category)


def _is_abstract(category: type) -> bool:
    return category in (
        np.generic,
        np.number,
        np.inexact,
        np.floating,
        np.complexfloating,
        np.integer,
        np.signedinteger,
        np.unsignedinteger,
        np.flexible,
        np.character,
    )


def finfo(dtype: Any) -> Any:
    """Machine limits of a floating or complex type, the small types included.

    >>> from xpr.dtypes import finfo
    >>> finfo("float16").bits
    16
    """
    d = np.dtype(dtype)
    return np.finfo(d) if d.kind in "fc" and d != bfloat16 else ml_dtypes.finfo(d)


def iinfo(dtype: Any) -> Any:
    """Machine limits of an integer type.

    >>> from xpr.dtypes import iinfo
    >>> int(iinfo("int4").max)
    7
    """
    d = np.dtype(dtype)
    return ml_dtypes.iinfo(d) if d in SMALL_INT_TYPES else np.iinfo(d)


# ---- the lattice: nodes are dtypes and the three weak kinds "i*", "f*", "c*"

_N = np.dtype
_EDGES: dict[Any, tuple[Any, ...]] = {
    BOOL: ("i*",),
    "i*": (_N("uint8"), _N("int8"), *SMALL_INT_TYPES),
    _N("uint8"): (_N("int16"), _N("uint16")),
    _N("uint16"): (_N("int32"), _N("uint32")),
    _N("uint32"): (_N("int64"), _N("uint64")),
    _N("uint64"): ("f*",),
    _N("int8"): (_N("int16"),),
    _N("int16"): (_N("int32"),),
    _N("int32"): (_N("int64"),),
    _N("int64"): ("f*",),
    "f*": (bfloat16, _N("float16"), *SMALL_FLOAT_TYPES, "c*"),
    bfloat16: (_N("float32"),),
    _N("float16"): (_N("float32"),),
    _N("float32"): (_N("float64"), _N("complex64")),
    _N("float64"): (_N("complex128"),),
    "c*": (_N("complex64"),),
    _N("complex64"): (_N("complex128"),),
    _N("complex128"): (),
}


def _upper_bounds(node: Any) -> frozenset[Any]:
    bounds, todo = {node}, [node]
    while todo:
        for above in _EDGES.get(todo.pop(), ()):
            if above not in bounds:
                bounds.add(above)
                todo.append(above)
    return frozenset(bounds)


_UPPER: dict[Any, frozenset[Any]] = {
    n: _upper_bounds(n) for n in [*_EDGES, *SMALL_FLOAT_TYPES, *SMALL_INT_TYPES]
}
_WEAK_DTYPE: dict[str, np.dtype[Any]] = {
    "i*": _N("int64"),
    "f*": _N("float64"),
    "c*": _N("complex128"),
}
_WEAK_KIND = {"i": "i*", "u": "i*", "f": "f*", "c": "c*"}


def _node(dtype: np.dtype[Any], weak: bool) -> Any:
    k = kind(dtype)
    return _WEAK_KIND.get(k, dtype) if weak else dtype


@functools.lru_cache(maxsize=4096)
def _join(nodes: frozenset[Any]) -> Any:
    common = frozenset.intersection(*(_UPPER[n] for n in nodes))
    least = [n for n in common if common <= _UPPER[n]]
    if not least:
        names = sorted(str(n) for n in nodes)
        raise TypePromotionError(
            f"Input dtypes {', '.join(names)} have no available implicit dtype promotion path. "
            "Convert explicitly with x.astype(...) to the dtype you want."
        )
    return least[0]


@functools.lru_cache(maxsize=4096)
def _promote_pairs(
    pairs: tuple[tuple[np.dtype[Any], bool], ...], strict: bool, x64: bool
) -> tuple[np.dtype[Any], bool]:
    dtypes = {d for d, _ in pairs}
    all_weak = all(w for _, w in pairs)
    if len(dtypes) == 1:
        return next(iter(dtypes)), all_weak
    if float0 in dtypes:
        raise TypeError(_FLOAT0)
    for d in dtypes:
        if isinstance(d, ExtendedDType):
            raise ValueError(f"dtype={d} is not a valid dtype for JAX type promotion.")
    if strict:
        strong = {d for d, w in pairs if not w}
        fits = len(strong) == 1 and all(
            _join(frozenset((next(iter(strong)), _node(d, w)))) in strong for d, w in pairs if w
        )
        if not fits and not all_weak:
            shown = ", ".join(f"{d}{' (weak)' if w else ''}" for d, w in pairs)
            raise TypePromotionError(
                f"Input dtypes ({shown}) have no available implicit dtype promotion path when "
                "numpy_dtype_promotion='strict'. Convert explicitly with x.astype(...)."
            )
    if all_weak:
        result = _join(frozenset(dtypes))
    else:
        result = _join(frozenset(_node(d, w) for d, w in pairs))
    if isinstance(result, str):
        result = _WEAK_DTYPE[result]
        all_weak = True
    return (result if x64 else _TO_32.get(result, result)), all_weak


def promote_avals(*pairs: tuple[np.dtype[Any], bool]) -> tuple[np.dtype[Any], bool]:
    """The lattice join of (dtype, weak_type) pairs: the common dtype and whether it is weak."""
    return _promote_pairs(pairs, state.numpy_dtype_promotion == "strict", state.enable_x64)


def joined(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """The lattice join of dtypes that a function chooses itself, whatever users may mix.

    >>> joined(np.dtype("float16"), np.dtype("float32"))
    dtype('float32')
    """
    return _promote_pairs(tuple((d, False) for d in dtypes), False, state.enable_x64)[0]


def promote_types(a: Any, b: Any) -> np.dtype[Any]:
    """The dtype that JAX's lattice gives for two dtypes (or Python scalar types).

    >>> promote_types("int32", "float16")
    dtype('float16')
    """
    return promote_avals(_as_pair(a), _as_pair(b))[0]


def _as_pair(dtype: Any) -> tuple[np.dtype[Any], bool]:
    k = _PYTHON_SCALARS.get(dtype) if isinstance(dtype, type) else None
    if k is not None:
        return default_dtype(k), k != "b"
    return canonicalize(dtype), False
