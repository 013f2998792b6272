"""What arrays answer that no function of `xpr.numpy` does: `in`, `iter`, their namespace."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from xpr.core.trace import get_aval, is_eager
from xpr.dispatch.array import ArrayImpl
from xpr.numpy._host_index import host_rows
from xpr.numpy._typing import Array
from xpr.numpy.logic import equal
from xpr.numpy.namespace_info import ARRAY_API_VERSIONS
from xpr.numpy.reductions import any
from xpr.primitives.joining import unstack
from xpr.primitives.slicing import dynamic_slice


def contains(x: Any, value: Any) -> bool:
    """`value in x`, for a scalar value."""
    shape = get_aval(value).shape
    if shape:
        raise ValueError(f"Array.__contains__: query value must be a scalar, got query.{shape=}")
    return bool(any(equal(x, value)))


def flat(x: Any) -> Array:
    """`x.flat`, which would have to be a writable iterator."""
    raise NotImplementedError(
        "arrays do not implement the arr.flat property: consider arr.flatten() instead."
    )


_CHUNK = 100
"""How many rows of an array on another device are taken from it at a time."""


def iterate(x: Any) -> Iterator[Array]:
    """The slices of `x` along its first axis; nothing is computed before the first is asked for."""
    rows = host_rows(x)
    return _unstacked(x) if rows is None else rows


def _unstacked(x: Any) -> Iterator[Array]:
    """The rows of a tracer in one operation, those of a long array on a device in several."""
    shape = get_aval(x).shape
    if not (isinstance(x, ArrayImpl) and is_eager() and shape[0] > _CHUNK):
        yield from unstack(x)
        return
    corner = [0] * (len(shape) - 1)
    for start in range(0, shape[0], _CHUNK):
        # The start is an operand, so that one program serves for all chunks.
        size = min(_CHUNK, shape[0] - start)
        yield from unstack(dynamic_slice(x, [start, *corner], (size, *shape[1:])))


def namespace(api_version: str | None) -> Any:
    """The module of array functions, as the array API asks for it."""
    if api_version is not None and api_version not in ARRAY_API_VERSIONS:
        raise ValueError(
            f"{api_version=} is not available; available versions are: {list(ARRAY_API_VERSIONS)}"
        )
    return sys.modules["xpr.numpy"]
