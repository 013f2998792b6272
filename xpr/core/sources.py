"""Whether the files are still the same by which programs were made."""

from __future__ import annotations

import functools
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import hashlib
    from collections.abc import Iterator

_IMPORTED = time.time_ns()
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What is imported by the lowering, which says what becomes of a jaxpr.
_FOLDERS = (
    *("core", "interpreters", "primitives", "sharding", "tree_util"),
    *("lowering", "runtimes"),
)


def contents() -> bytes:
    """A digest of the files' contents, which is the same on every machine that has them.

    It takes some 20 ms; files of the same `stamp` have the same contents.
    """
    import hashlib  # noqa: PLC0415  this file is imported before all others

    digest = hashlib.sha256()
    for folder in _FOLDERS:
        for path, name in _files(os.path.join(_PACKAGE, folder), folder):
            with open(path, "rb") as file:
                content = file.read()
            digest.update(f"{name} {len(content)}\n".encode())
            digest.update(content)
    return digest.digest()


def _files(folder: str, name: str) -> Iterator[tuple[str, str]]:
    """The files of a folder, each with its name within the package, in a fixed order."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        below = f"{name}/{entry.name}"
        if entry.name.endswith(".py"):
            yield entry.path, below
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _files(entry.path, below)


@functools.cache
def stamp() -> str | None:
    """A text that is another one when a file has changed by which programs are lowered.

    It has the files' sizes and times. None where that says nothing: if there are no such files, or
    one has been written since this process began, which may have read another form of it.
    """
    import hashlib  # noqa: PLC0415  this file is imported before all others

    digest = hashlib.sha256()
    for folder in _FOLDERS:
        newest = _add(os.path.join(_PACKAGE, folder), folder, digest)
        if newest is None or newest >= _IMPORTED:
            return None
    return digest.hexdigest()


def _add(folder: str, name: str, digest: hashlib._Hash) -> int | None:
    """Adds the files of a folder to the digest; when the newest was written, None for no folder."""
    newest = 0
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return None
    for entry in entries:
        below = f"{name}/{entry.name}"
        if entry.name.endswith(".py"):
            status = entry.stat()
            digest.update(f"{below} {status.st_size} {status.st_mtime_ns}\n".encode())
            newest = max(newest, status.st_mtime_ns)
        elif entry.is_dir() and entry.name != "__pycache__":
            inner = _add(entry.path, below, digest)
            if inner is None:
                return None
            newest = max(newest, inner)
    return newest
