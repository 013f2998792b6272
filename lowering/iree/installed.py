"""Which compiler is installed, found without loading it."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path


def package() -> Path | None:
    """The folder of the compiler's package, if it is installed."""
    specification = importlib.util.find_spec("iree.compiler")
    if specification is None or specification.origin is None:
        return None
    return Path(specification.origin).parent


@functools.cache
def version() -> str:
    """What identifies the installed compiler's revision, found without loading it.

    The version file of the package is read (0.1 ms); importing ``importlib.metadata`` to look the
    version up would take 17 ms.
    """
    folder = package()
    version_file = folder / "version.py" if folder is not None else None
    if version_file is not None and version_file.is_file():
        return version_file.read_text(encoding="utf-8")
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow, rare

    try:
        return version("iree-base-compiler")
    except PackageNotFoundError:
        return "none"
