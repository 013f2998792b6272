"""What the array API standard lets a program ask of a namespace of arrays.

The standard is that of the Consortium for Python Data API Standards, version 2025.12: "Inspection
API".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.config import state
from xpr.runtimes import registry
from xpr.runtimes.base import Device

__all__ = ["ARRAY_API_VERSIONS", "NamespaceInfo", "array_namespace_info"]

# The newest one is what xpr.numpy is written for; the one before is a part of it.
ARRAY_API_VERSIONS = ("2024.12", "2025.12")

_MAX_DIMENSIONS = 64  # NumPy's own limit, which views on the host have
_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = (*_KINDS["signed integer"], *_KINDS["unsigned integer"])
_KINDS["numeric"] = (
    *_KINDS["integral"],
    *_KINDS["real floating"],
    *_KINDS["complex floating"],
)
_ALL = (*_KINDS["bool"], *_KINDS["numeric"])


def _check_device(device: Any) -> None:
    if device is not None and not isinstance(device, Device):
        raise ValueError(f"device must be one of devices() or None, got {device!r}")


class NamespaceInfo:
    """What `xpr.numpy` can do and has: see the methods."""

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """What depends on the library: indexing by bool, sizes that depend on values, axes.

        The first two are False, for in programs that are compiled they cannot be had; outside of
        these they can.

        >>> import xpr.numpy as jnp
        >>> jnp.__array_namespace_info__().capabilities()["max dimensions"]
        64
        """
        return {
            "boolean indexing": False,
            "data-dependent shapes": False,
            "max dimensions": _MAX_DIMENSIONS,
        }

    def default_device(self) -> None:
        """None: arrays that nobody places are on no device for good."""
        return None

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of arrays made of Python's numbers, and of indices, with or without 64 bits.

        >>> import xpr.numpy as jnp
        >>> jnp.__array_namespace_info__().default_dtypes()["integral"]
        dtype('int32')
        """
        _check_device(device)
        integral = dtypes.default_dtype("i")
        return {
            "real floating": dtypes.default_dtype("f"),
            "complex floating": dtypes.default_dtype("c"),
            "integral": integral,
            "indexing": integral,
        }

    def devices(self) -> list[Device | None]:
        """The devices that arrays can be on; None stands for whatever is the default."""
        return [None, *registry.devices()]

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes that arrays can have, by name; of `kind`, or of several kinds.

        Kinds are those of `isdtype`. 64-bit types are there if `enable_x64` is set. Raises
        ValueError for another kind.

        >>> import xpr.numpy as jnp
        >>> jnp.__array_namespace_info__().dtypes(kind="real floating")
        {'float32': dtype('float32')}
        """
        _check_device(device)
        names = _ALL if kind is None else _names_of(kind)
        found = {name: np.dtype(name) for name in names}
        if state.enable_x64:
            return found
        return {name: d for name, d in found.items() if dtypes.canonicalize(d) == d}


def _names_of(kind: str | tuple[str, ...]) -> list[str]:
    names: dict[str, None] = {}
    for one in kind if isinstance(kind, tuple) else (kind,):
        if one not in _KINDS:
            raise ValueError(f"kind must be one of {list(_KINDS)} or a tuple of these, got {one!r}")
        names |= dict.fromkeys(_KINDS[one])
    return list(names)


def array_namespace_info() -> NamespaceInfo:
    """What can be asked of `xpr.numpy`; there it is called `__array_namespace_info__`.

    >>> import xpr.numpy as jnp
    >>> sorted(jnp.__array_namespace_info__().dtypes(kind="bool"))
    ['bool']
    """
    return NamespaceInfo()
