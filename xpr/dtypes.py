"""Dtypes and their promotion, under JAX's names (`jax.dtypes`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.dtypes import bfloat16 as bfloat16
from xpr.core.dtypes import canonicalize, promote_avals
from xpr.core.dtypes import extended as extended
from xpr.core.dtypes import finfo as finfo
from xpr.core.dtypes import float0 as float0
from xpr.core.dtypes import iinfo as iinfo
from xpr.core.dtypes import issubdtype as issubdtype
from xpr.core.dtypes import prng_key as prng_key
from xpr.core.errors import TypePromotionError as TypePromotionError
from xpr.core.trace import get_aval, is_valid_value


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """`dtype` with 64-bit types replaced by 32-bit ones unless enable_x64 is set.

    Dtypes of keys and the like stay as they are: `allow_extended_dtype`, without which JAX refuses
    them, has no effect.

    >>> canonicalize_dtype("float64")
    dtype('float32')
    """
    del allow_extended_dtype
    return canonicalize(dtype)


def dtype(x: Any) -> Any:
    """The dtype that a value has as an array, and that a dtype or type stands for.

    >>> from xpr.dtypes import dtype
    >>> dtype(1.5), dtype("int8")
    (dtype('float32'), dtype('int8'))
    """
    if isinstance(x, type | str | np.dtype):
        return np.dtype(canonicalize(np.dtype(x)))
    return get_aval(x).dtype


def result_type(*args: Any) -> Any:
    """The dtype that arrays, scalars and dtypes promote to by JAX's lattice.

    Raises TypePromotionError when there is none.

    >>> result_type(1.0, "int8")
    dtype('float32')
    """
    if not args:
        raise ValueError("result_type requires at least one array or dtype")
    pairs = []
    for a in args:
        if is_valid_value(a):
            aval = get_aval(a)
            pairs.append((aval.dtype, aval.weak_type))
        else:
            pairs.append((canonicalize(a), a in (int, float, complex)))
    return promote_avals(*pairs)[0]


def scalar_type_of(x: Any) -> type:
    """The Python scalar type of the kind of `x`: bool, int, float or complex.

    >>> import xpr.numpy as jnp
    >>> from xpr.dtypes import scalar_type_of
    >>> scalar_type_of(jnp.ones(2, "bfloat16"))
    <class 'float'>
    """
    dtype = get_aval(x).dtype
    for category, scalar in ((bool, bool), (int, int), (float, float), (complex, complex)):
        if issubdtype(dtype, category):
            return scalar
    raise TypeError(f"scalar_type_of: {x!r} of dtype {dtype} has no Python scalar type")


def itemsize_bits(dtype: Any) -> int:
    """The number of bits of one element: 8 for bool, 4 for int4.

    >>> from xpr.dtypes import itemsize_bits
    >>> itemsize_bits("int4"), itemsize_bits("bool"), itemsize_bits("float32")
    (4, 8, 32)
    """
    if dtype is None:
        raise ValueError("dtype cannot be None.")
    d = canonicalize(dtype)
    return int(iinfo(d).bits) if issubdtype(d, int) else 8 * d.itemsize
