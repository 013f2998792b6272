"""The type of all initializers and what they share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from xpr.core import dtypes
from xpr.core.placing import resharded
from xpr.numpy._typing import Array, DType, DTypeLike
from xpr.numpy.dtype_api import requested_dtype
from xpr.primitives._index_dims import canonicalize_shape


@runtime_checkable
class Initializer(Protocol):
    """A function that makes an array of weights: `init(key, shape, dtype)`.

    `key` is a random key, `shape` a tuple of integers; the dtype is the default float unless it is
    given, here or where the initializer was made. `out_sharding` says where the array lies.

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


def takes_place(name: str) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """For initializers `init(key, shape, dtype, out_sharding)`: obeys the last argument."""

    def placing(init: Callable[..., Array]) -> Callable[..., Array]:
        @functools.wraps(init)
        def call(key: Any, shape: Sequence[int], *rest: Any, **named: Any) -> Array:
            place = named.pop("out_sharding", None)
            if len(rest) == 2:
                rest, place = rest[:1], rest[1]
            return resharded(name, place, lambda: init(key, shape, *rest, **named))

        return call

    return placing


def weights_type(
    name: str, shape: Sequence[int], dtype: DTypeLike
) -> tuple[tuple[int, ...], DType]:
    """The shape and dtype that an initializer was asked for; None is the default float dtype.

    Raises TypeError for sizes that are no integers.
    """
    sizes = canonicalize_shape(name, shape)
    if any(n < 0 for n in sizes):
        raise TypeError(
            f"broadcast_in_dim shape must have every element be nonnegative, got {sizes}. ({name})"
        )
    return sizes, dtypes.default_dtype("f") if dtype is None else requested_dtype(dtype, name)
