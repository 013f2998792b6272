"""Arrays from bytes, files and other libraries, and the text of arrays."""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import numpy as np

from xpr.core import dtypes
from xpr.core.source_info import user_stacklevel
from xpr.numpy._static import concrete
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.numpy.creation import array, asarray, placed
from xpr.numpy.dtype_api import as_numpy_dtype

# ---- bytes and other libraries


def _stored(dtype: Any) -> np.dtype[Any]:
    """The dtype of stored values: `float` means 64 bits there, whatever arrays are made of it."""
    return np.dtype(dtype) if dtype in (bool, int, float, complex) else as_numpy_dtype(dtype)


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """The values that lie in `buffer` as items of `dtype`, from byte `offset` on.

    `count` items, or all. The bytes are copied. Raises ValueError for a buffer that is too small.

    >>> import xpr.numpy as jnp
    >>> jnp.frombuffer(b"abc", dtype=jnp.uint8)
    Array([97, 98, 99], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, dtype=_stored(dtype), count=count, offset=offset))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """The numbers in `string`, separated by `sep`.

    >>> import xpr.numpy as jnp
    >>> jnp.fromstring("1 2", dtype=int, sep=" ")
    Array([1, 2], dtype=int32)
    """
    return asarray(np.fromstring(string, dtype=_stored(dtype), count=count, sep=sep))


def _impure(name: str) -> NoReturn:
    raise NotImplementedError(
        f"jnp.{name}() is not implemented because it may be non-pure and thus unsafe for use with "
        "JIT and other JAX transformations: it changes what it reads from. Consider using "
        f"jnp.asarray(np.{name}(...)) instead, outside of transformed functions."
    )


def fromfile(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: use `jnp.asarray(np.fromfile(...))`.

    >>> import xpr.numpy as jnp
    >>> jnp.fromfile("numbers.bin")
    Traceback (most recent call last):
        ...
    NotImplementedError: jnp.fromfile() is not implemented because it may be non-pure and
    thus unsafe for use with JIT and other JAX transformations: it changes what it reads from.
    Consider using jnp.asarray(np.fromfile(...)) instead, outside of transformed functions.
    """
    _impure("fromfile")


def fromiter(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: use `jnp.asarray(np.fromiter(...))`.

    >>> import xpr.numpy as jnp
    >>> jnp.fromiter(range(3), int)
    Traceback (most recent call last):
        ...
    NotImplementedError: jnp.fromiter() is not implemented because it may be non-pure and
    thus unsafe for use with JIT and other JAX transformations: it changes what it reads from.
    Consider using jnp.asarray(np.fromiter(...)) instead, outside of transformed functions.
    """
    _impure("fromiter")


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """A copy of the array of another library, which hands it over by DLPack.

    It is always copied, since the other library could change it. Raises ValueError for
    `copy=False`, TypeError for what does not speak DLPack. An array of xpr needs no copy.

    >>> import numpy as np, xpr.numpy as jnp
    >>> jnp.from_dlpack(np.arange(2, dtype=np.int32))
    Array([0, 1], dtype=int32)
    """
    if isinstance(x, Array):
        return placed(array(x, copy=bool(copy)), device)
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise TypeError(
            "from_dlpack requires an array with __dlpack__ and __dlpack_device__ methods, got "
            f"{type(x)}"
        )
    if copy is False:
        raise ValueError(
            "from_dlpack with copy=False would share memory that its owner may write to, "
            "but arrays are immutable: leave out copy"
        )
    return placed(asarray(np.from_dlpack(x)), device)


# ---- files


def save(file: Any, arr: ArrayLike, allow_pickle: bool = True) -> None:
    """Writes the array to a .npy file, as `numpy.save`.

    >>> import io
    >>> import xpr.numpy as jnp
    >>> file = io.BytesIO()
    >>> jnp.save(file, jnp.arange(3))
    >>> file.getvalue()[1:6]
    b'NUMPY'
    """
    np.save(file, concrete(arr, "jnp.save writes values"), allow_pickle=allow_pickle)


def savez(file: Any, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
    """Writes arrays to an uncompressed .npz file, as `numpy.savez`.

    >>> import io
    >>> import xpr.numpy as jnp
    >>> file = io.BytesIO()
    >>> jnp.savez(file, a=jnp.arange(3), b=jnp.ones(2))
    >>> file.seek(0)
    0
    >>> jnp.load(file)["b"]
    array([1., 1.], dtype=float32)
    """
    what = "jnp.savez writes values"
    named = {k: concrete(v, what) for k, v in kwds.items()}
    np.savez(file, *(concrete(a, what) for a in args), allow_pickle=allow_pickle, **named)


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """What `numpy.load` reads from a .npy or .npz file; a single array as an array of xpr.

    NumPy keeps no dtype but its own: bfloat16 values come back as they were, smaller floats as
    the bytes they are.

    >>> import io
    >>> import xpr.numpy as jnp
    >>> file = io.BytesIO()
    >>> jnp.save(file, jnp.arange(3))
    >>> file.seek(0)
    0
    >>> jnp.load(file)
    Array([0, 1, 2], dtype=int32)
    """
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    if found.dtype == np.dtype("V2"):
        found = found.view(dtypes.bfloat16)
    return asarray(found)


# ---- text


def array_repr(
    arr: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text of `arr` as `numpy.array_repr` writes it.

    >>> import xpr.numpy as jnp
    >>> jnp.array_repr(jnp.arange(3))
    'array([0, 1, 2], dtype=int32)'
    """
    return np.array_repr(
        concrete(arr, "array_repr shows values"), max_line_width, precision, suppress_small
    )


def array_str(
    a: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The values of `a` as `numpy.array_str` writes them.

    >>> import xpr.numpy as jnp
    >>> jnp.array_str(jnp.arange(3))
    '[0 1 2]'
    """
    return np.array_str(
        concrete(a, "array_str shows values"), max_line_width, precision, suppress_small
    )


get_printoptions = np.get_printoptions
set_printoptions = np.set_printoptions
printoptions = np.printoptions


# ---- sizes


def _shape_of(a: Any) -> tuple[int, ...]:
    shape = getattr(a, "shape", None)
    if isinstance(shape, tuple):
        return shape
    if isinstance(a, (list, tuple)):
        return np.shape(np.asarray(a))
    return asarray(a).shape


def _shape_or_none(name: str, a: Any) -> tuple[int, ...]:
    if a is None:  # a scalar of NumPy's dtype object
        warnings.warn(
            f"{name} requires ndarray or scalar arguments, got {type(a)} at position 0. "
            "None counts as a scalar, which will be an error",
            DeprecationWarning,
            stacklevel=user_stacklevel(),
        )
        return ()
    return _shape_of(a)


def shape(a: Any) -> tuple[int, ...]:
    """The sizes of the axes of `a`; None counts as a scalar, with a DeprecationWarning.

    >>> import xpr.numpy as jnp
    >>> jnp.shape(jnp.ones((2, 3)))
    (2, 3)
    """
    return _shape_or_none("shape", a)


def ndim(a: Any) -> int:
    """The number of axes of `a`.

    >>> import xpr.numpy as jnp
    >>> jnp.ndim(jnp.ones((2, 3)))
    2
    """
    return len(_shape_or_none("ndim", a))


def size(a: Any, axis: Any = None) -> int:
    """The number of elements of `a`, or the product of its sizes along `axis`.

    >>> import xpr.numpy as jnp
    >>> jnp.size(jnp.ones((2, 3))), jnp.size(jnp.ones((2, 3)), axis=1)
    (6, 3)
    """
    sizes = _shape_or_none("size", a)
    axes = range(len(sizes)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    total = 1
    for i in axes:
        if not -len(sizes) <= i < len(sizes):
            raise ValueError(f"axis {i} is out of bounds for array of dimension {len(sizes)}")
        total *= sizes[i]
    return total
