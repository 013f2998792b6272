"""Settings for the length of a `with` block, in the current thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from xpr.core.config import override
from xpr.core.trace import context


def enable_x64(new_val: bool = True) -> AbstractContextManager[None]:
    """64-bit types are kept inside the block.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.enable_x64():
    ...     jnp.ones(1).dtype
    dtype('float64')
    """
    return override("enable_x64", new_val)


def default_device(new_val: Any) -> AbstractContextManager[None]:
    """Uncommitted work runs on this device (or on the first one of the platform named)."""
    return override("default_device", new_val)


def disable_jit(disable: bool = True) -> AbstractContextManager[None]:
    """Jitted functions run operation by operation, so that prints and debuggers see values."""
    return override("disable_jit", disable)


def debug_nans(new_val: bool = True) -> AbstractContextManager[None]:
    """A NaN in a result raises FloatingPointError."""
    return override("debug_nans", new_val)


def debug_infs(new_val: bool = True) -> AbstractContextManager[None]:
    """An infinity in a result raises FloatingPointError."""
    return override("debug_infs", new_val)


def log_compiles(new_val: bool = True) -> AbstractContextManager[None]:
    """Each compilation is logged as a warning of the logger `xpr.compile`."""
    return override("log_compiles", new_val)


def enable_checks(new_val: bool = True) -> AbstractContextManager[None]:
    """Every jaxpr is checked after it was made."""
    return override("enable_checks", new_val)


def numpy_dtype_promotion(new_val: str) -> AbstractContextManager[None]:
    """Implicit dtype promotion in `xpr.numpy`: "standard" or "strict"."""
    return override("numpy_dtype_promotion", new_val)


def numpy_rank_promotion(new_val: str) -> AbstractContextManager[None]:
    """Implicit rank promotion in `xpr.numpy`: "allow", "warn" or "raise"."""
    return override("numpy_rank_promotion", new_val)


def default_matmul_precision(new_val: str | None) -> AbstractContextManager[None]:
    """The precision of matrix products that name none."""
    return override("default_matmul_precision", new_val)


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Operations traced inside the block carry `name` in their source information."""
    if not isinstance(name, str):
        raise TypeError(f"named_scope name argument must be a string, got {name!r}")
    old = context.name_stack
    context.name_stack = f"{old}/{name}" if old else name
    try:
        yield
    finally:
        context.name_stack = old
