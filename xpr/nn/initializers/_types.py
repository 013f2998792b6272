"""The type of all initializers and what they share."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from xpr.core import dtypes
from xpr.numpy._typing import Array, DType, DTypeLike
from xpr.numpy.dtype_api import requested_dtype


@runtime_checkable
class Initializer(Protocol):
    """A function that makes an array of weights: `init(key, shape, dtype)`.

    `key` is a random key, `shape` a tuple of integers; the dtype is the default float unless it is
    given, here or where the initializer was made. `out_sharding` must be None so far.

    >>> import xpr
    >>> isinstance(xpr.nn.initializers.zeros, xpr.nn.initializers.Initializer)
    True
    """

    def __call__(
        self,
        key: Any,
        shape: Sequence[int],
        dtype: DTypeLike = None,
        out_sharding: Any = None,
    ) -> Array: ...


def weights_type(
    name: str, shape: Sequence[int], dtype: DTypeLike, out_sharding: Any
) -> tuple[tuple[int, ...], DType]:
    """The shape and dtype that an initializer was asked for; None is the default float dtype.

    Raises TypeError for sizes that are no integers, NotImplementedError for a sharding.
    """
    if out_sharding is not None:
        raise NotImplementedError(f"The 'out_sharding' argument to {name} is not supported.")
    sizes = tuple(operator.index(n) for n in shape)
    return sizes, dtypes.default_dtype("f") if dtype is None else requested_dtype(dtype, name)
