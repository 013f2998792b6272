"""Dtypes: the scalar types of xpr.numpy, their limits, and the rules of promotion."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array, surface
from xpr.core.config import state
from xpr.core.source_info import user_stacklevel
from xpr.core.trace import get_aval, is_valid_value

_PYTHON_TYPES: dict[type, str] = {bool: "b", int: "i", float: "f", complex: "c"}


class ScalarType(type):
    """The type of `xpr.numpy.float32` and its kin: a dtype that makes arrays when it is called.

    >>> import xpr.numpy as jnp
    >>> jnp.float32(1)
    Array(1., dtype=float32)
    >>> jnp.float32 == np.float32
    True
    """

    dtype: np.dtype[Any]

    def __call__(cls, x: Any) -> Any:
        return surface().asarray(x, dtype=cls.dtype)

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: object) -> bool:
        return cls is other or cls.dtype.type is other or _same_dtype(cls.dtype, other)

    def __ne__(cls, other: object) -> bool:
        return not cls == other

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)

    def __repr__(cls) -> str:
        return f"<class 'xpr.numpy.{cls.__name__}'>"


def _same_dtype(dtype: np.dtype[Any], other: object) -> bool:
    if isinstance(other, (np.dtype, ScalarType)):
        return dtype == getattr(other, "dtype", other)
    return False


def _scalar_type(name: str, numpy_type: Any) -> Any:
    text = f"""The dtype {name}; called with a value it makes an array of that dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.{name}.dtype.name
    {np.dtype(numpy_type).name!r}
    """
    members = {"dtype": np.dtype(numpy_type), "__module__": "xpr.numpy", "__doc__": text}
    return ScalarType(name, (), members)


# Some of these names hide Python's own inside this file, as they do in NumPy.
bool_ = bool = _scalar_type("bool", np.bool_)
int1 = _scalar_type("int1", ml_dtypes.int1)
int2 = _scalar_type("int2", ml_dtypes.int2)
int4 = _scalar_type("int4", ml_dtypes.int4)
int8 = _scalar_type("int8", np.int8)
int16 = _scalar_type("int16", np.int16)
int32 = _scalar_type("int32", np.int32)
int64 = _scalar_type("int64", np.int64)
uint1 = _scalar_type("uint1", ml_dtypes.uint1)
uint2 = _scalar_type("uint2", ml_dtypes.uint2)
uint4 = _scalar_type("uint4", ml_dtypes.uint4)
uint8 = _scalar_type("uint8", np.uint8)
uint16 = _scalar_type("uint16", np.uint16)
uint32 = _scalar_type("uint32", np.uint32)
uint64 = _scalar_type("uint64", np.uint64)
float4_e2m1fn = _scalar_type("float4_e2m1fn", ml_dtypes.float4_e2m1fn)
float6_e2m3fn = _scalar_type("float6_e2m3fn", ml_dtypes.float6_e2m3fn)
float6_e3m2fn = _scalar_type("float6_e3m2fn", ml_dtypes.float6_e3m2fn)
float8_e3m4 = _scalar_type("float8_e3m4", ml_dtypes.float8_e3m4)
float8_e4m3 = _scalar_type("float8_e4m3", ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz = _scalar_type("float8_e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn = _scalar_type("float8_e4m3fn", ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz = _scalar_type("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz)
float8_e5m2 = _scalar_type("float8_e5m2", ml_dtypes.float8_e5m2)
float8_e5m2fnuz = _scalar_type("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu = _scalar_type("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu)
bfloat16 = _scalar_type("bfloat16", ml_dtypes.bfloat16)
float16 = _scalar_type("float16", np.float16)
float32 = single = _scalar_type("float32", np.float32)
float64 = double = _scalar_type("float64", np.float64)
complex64 = csingle = _scalar_type("complex64", np.complex64)
complex128 = cdouble = _scalar_type("complex128", np.complex128)

int_, uint, float_, complex_ = int64, uint64, float64, complex128

generic = np.generic
number = np.number
integer = np.integer
signedinteger = np.signedinteger
unsignedinteger = np.unsignedinteger
inexact = np.inexact
floating = np.floating
complexfloating = np.complexfloating
flexible = np.flexible
character = np.character
object_ = np.object_
dtype = np.dtype
ComplexWarning = np.exceptions.ComplexWarning


def finfo(dtype: Any) -> Any:
    """Limits of a floating type (of the parts of a complex one): `eps`, `max`, `tiny`, `bits`...

    >>> finfo("bfloat16").bits
    16
    """
    return dtypes.finfo(as_numpy_dtype(dtype))


def iinfo(dtype: Any) -> Any:
    """Limits of an integer type: `min`, `max`, `bits`.

    >>> int(iinfo("int8").max)
    127
    """
    return dtypes.iinfo(as_numpy_dtype(dtype))


def as_numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype that `dtype` names; Python's number types stand for their default dtypes."""
    if isinstance(dtype, type) and dtype in _PYTHON_TYPES:
        return dtypes.default_dtype(_PYTHON_TYPES[dtype])
    if isinstance(dtype, (ScalarType, Array)):
        return dtype.dtype
    if isinstance(dtype, dtypes.ExtendedDType):
        return dtype  # pyright: ignore[reportReturnType]  avals carry it in a dtype's place
    return np.dtype(dtype)


def issubdtype(arg1: Any, arg2: Any) -> Any:
    """Whether dtype `arg1` belongs to `arg2`, a dtype or a class such as `inexact`.

    bfloat16 and the 8-bit floats count as floating types.

    >>> issubdtype("bfloat16", floating)
    True
    """
    second = arg2.dtype.type if isinstance(arg2, ScalarType) else arg2
    if dtypes.is_extended(arg1):
        return dtypes.issubdtype(arg1, second)
    if isinstance(second, type) and second in _PYTHON_TYPES:
        # As in NumPy, a Python type stands for its 64-bit dtype here.
        second = np.dtype(second)
    if isinstance(arg1, type) and issubclass(arg1, np.generic) and not isinstance(arg1, ScalarType):
        if arg1.__name__ in _ABSTRACT:
            return np.issubdtype(arg1, second)
    return dtypes.issubdtype(as_numpy_dtype(arg1), second)


_ABSTRACT = frozenset(
    "generic number inexact floating complexfloating integer signedinteger unsignedinteger "
    "flexible character".split()
)
_KINDS_OF: dict[str, str] = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether `dtype` is of `kind`: a name of the array API, a dtype, or a tuple of these.

    The names are bool, signed integer, unsigned integer, integral, real floating, complex floating
    and numeric. Raises ValueError for another name.

    >>> isdtype("float32", ("integral", "real floating"))
    True
    """
    found = as_numpy_dtype(dtype)
    for option in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(option, str) and option in _KINDS_OF:
            if dtypes.kind(found) in _KINDS_OF[option]:
                return True
            continue
        try:
            wanted = as_numpy_dtype(option)
        except TypeError:
            raise ValueError(
                f"Unrecognized kind={option!r} expected one of {list(_KINDS_OF)}, "
                "or a compatible input for jnp.dtype()"
            ) from None
        if found == wanted:
            return True
    return False


def can_cast(from_: Any, to: Any, casting: str = "safe") -> Any:
    """Whether a cast between dtypes is allowed by NumPy's rule `casting`.

    >>> import xpr.numpy as jnp
    >>> jnp.can_cast("int8", "int32"), jnp.can_cast("float32", "int32")
    (True, False)
    """
    source = from_.dtype if isinstance(from_, Array) else from_
    if isinstance(source, ScalarType):
        source = source.dtype
    return np.can_cast(source, as_numpy_dtype(to), casting=casting)  # type: ignore[arg-type]


def promote_types(a: Any, b: Any) -> np.dtype[Any]:
    """The dtype that operands of dtypes `a` and `b` are brought to.

    Raises TypePromotionError where there is none (for example of two 8-bit floats).

    >>> promote_types("int32", "float16")
    dtype('float16')
    """
    return _lattice(_pair(a), _pair(b))


def result_type(*args: Any) -> np.dtype[Any]:
    """The dtype that operands are brought to: arrays, numbers, dtypes or scalar types.

    Python numbers, and arrays made of them, give way to other operands of the same kind.

    >>> result_type(np.int8(1), 2)
    dtype('int8')
    """
    if not args:
        raise ValueError("at least one array or dtype is required")
    return _lattice(*(_pair_of_operand(x) for x in args))


def _lattice(*pairs: tuple[np.dtype[Any], Any]) -> np.dtype[Any]:
    return dtypes.canonicalize(dtypes.promote_avals(*pairs)[0])


def _pair(x: Any) -> tuple[np.dtype[Any], Any]:
    if isinstance(x, type) and x in _PYTHON_TYPES:
        kind = _PYTHON_TYPES[x]
        return dtypes.default_dtype(kind), kind != "b"
    return dtypes.canonicalize(as_numpy_dtype(x)), False


def _pair_of_operand(x: Any) -> tuple[np.dtype[Any], Any]:
    if is_valid_value(x):
        aval = get_aval(x)
        return aval.dtype, aval.weak_type
    if not isinstance(x, (type, str, np.dtype)) and hasattr(x, "dtype"):
        return dtypes.canonicalize(x.dtype), getattr(x, "weak_type", False)
    return _pair(x)


def requested_dtype(dtype: Any, name: str) -> np.dtype[Any]:
    """The canonical dtype for a `dtype=` argument of the function `name`.

    Warns when a 64-bit type was asked for by name and 64 bits are off. Raises TypeError for
    dtypes that xpr has no arrays of and NumPy arrays, ValueError for other arrays.
    """
    key = (dtype, type(dtype), state.enable_x64)
    try:
        known = _requested.get(key)
    except TypeError:
        if not hasattr(dtype, "dtype"):
            raise
        if isinstance(dtype, np.ndarray):
            raise TypeError(
                f"Cannot construct a dtype from an array: {name} requires a dtype; instead of "
                "dtype=arr use dtype=arr.dtype."
            ) from None
        raise ValueError(
            "Passing an array as a dtype argument is no longer supported; instead of dtype=arr "
            f"use dtype=arr.dtype. {name} got an array of type {type(dtype).__name__}."
        ) from None
    if known is not None:
        return known
    found = _checked_dtype(dtype, name)
    if found == as_numpy_dtype(dtype):  # what causes a warning causes it each time
        _requested[key] = found
    return found


_requested: dict[Any, np.dtype[Any]] = {}


def _checked_dtype(dtype: Any, name: str) -> np.dtype[Any]:
    if isinstance(dtype, type) and dtype in _PYTHON_TYPES:
        return dtypes.default_dtype(_PYTHON_TYPES[dtype])
    wanted = as_numpy_dtype(dtype)
    if not dtypes.is_supported(wanted) or wanted == dtypes.float0:
        if dtypes.is_supported(wanted.newbyteorder("=")):
            return dtypes.canonicalize(wanted)  # raises and names the byte order
        raise TypeError(f"xpr only supports number and bool dtypes, got dtype {wanted} in {name}")
    found = dtypes.canonicalize(wanted)
    if found != wanted:
        warnings.warn(
            f"Explicitly requested dtype {wanted.name} requested in {name} is not available, and "
            f"will be truncated to dtype {found.name}. To enable more dtypes, set "
            "xpr.config.update('enable_x64', True) or the environment variable XPR_ENABLE_X64.",
            UserWarning,
            stacklevel=user_stacklevel(),
        )
    return found


def x64_enabled() -> Any:
    """Whether 64-bit types are kept."""
    return state.enable_x64
