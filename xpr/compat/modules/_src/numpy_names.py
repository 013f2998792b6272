"""What the files of `jax._src.numpy` have beside public names."""

from __future__ import annotations

from typing import Any

from xpr import numpy as jnp


def promote_dtypes(*args: Any) -> list[Any]:
    """The arrays in the dtype that all are promoted to."""
    dtype = jnp.result_type(*args)
    return [jnp.asarray(x, dtype) for x in args]


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    """As `promote_dtypes`, in a floating or complex dtype."""
    dtype = jnp.result_type(*args)
    if not jnp.issubdtype(dtype, jnp.inexact):
        dtype = jnp.result_type(float)
    return [jnp.asarray(x, dtype) for x in args]


def check_arraylike(fun_name: str, *args: Any) -> None:
    """Raises TypeError for an argument that is no array and no number."""
    from xpr.core.trace import is_valid_value  # noqa: PLC0415  only where it is called

    for i, x in enumerate(args):
        if not is_valid_value(x):
            raise TypeError(
                f"{fun_name} requires ndarray or scalar arguments, got {type(x)} at position {i}."
            )
