"""Which compiler is installed, found without loading it."""

from __future__ import annotations

import functools
import importlib.util
import os

from xpr.lowering.cache import default_cache

_NONE = "none"


def package() -> str | None:
    """The folder of the compiler's package, if it is installed."""
    specification = importlib.util.find_spec("iree.compiler")
    if specification is None or specification.origin is None:
        return None
    return os.path.dirname(specification.origin)


@functools.cache
def version() -> str:
    """What identifies the installed compiler's revision, found without loading it.

    The version file of the package is read (0.1 ms); importing ``importlib.metadata`` to look the
    version up would take 17 ms.
    """
    folder = package()
    if folder is not None:
        try:
            with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            pass
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow, rare

    try:
        return version("iree-base-compiler")
    except PackageNotFoundError:
        return _NONE


def version_of_modules() -> str:
    """The version of the compiler whose modules are looked for, a part of their keys.

    Without a compiler that is the one that filled the cache, so that a cache that was carried here
    is found.
    """
    found = version()
    if found == _NONE and (cache := default_cache()) is not None:
        return cache.compiler() or _NONE
    return found
