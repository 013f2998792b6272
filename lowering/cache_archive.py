"""Compile caches as one file, to be carried to other machines and into containers."""

from __future__ import annotations

import io
import os
import re
import tarfile
import tempfile
from pathlib import Path

from xpr.lowering.cache import CompileCache

_ENTRY = re.compile(r"[0-9a-f]{2}/([0-9a-f]{64})\.vmfb")
_LARGEST = 1 << 32


class BadArchiveError(ValueError):
    """A file that holds no compile cache."""


def export_cache(cache: CompileCache, file: Path) -> int:
    """Writes the sound entries of a cache to a file, whole or not at all; their number."""
    descriptor, temporary = tempfile.mkstemp(".tmp", file.name, file.parent)
    try:
        count = 0
        with os.fdopen(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for entry in sorted(cache.entries()):
                payload = cache.get(entry.key)
                if payload is not None:
                    name = cache.path(entry.key).relative_to(cache.directory).as_posix()
                    found = tarfile.TarInfo(name)
                    content = cache.packed(entry.key, payload)
                    found.size, found.mode = len(content), 0o600
                    archive.addfile(found, io.BytesIO(content))
                    count += 1
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise
    return count


def import_cache(cache: CompileCache, file: Path) -> tuple[int, int]:
    """Adds the entries in a file to a cache: how many there are, and how many were damaged.

    The entries are native code that programs will run: import only what you trust. Nothing but
    entries is taken, and no name in the file decides where anything is written.

    Raises `BadArchiveError` for a file of another kind.
    """
    good = bad = 0
    try:
        with tarfile.open(file, mode="r:gz") as archive:
            for member in archive:
                found = _ENTRY.fullmatch(member.name)
                opened = archive.extractfile(member) if found and member.isreg() else None
                if found is None or opened is None or member.size > _LARGEST:
                    bad += 1
                    continue
                key = bytes.fromhex(found[1])
                payload = cache.unpacked(key, opened.read())
                if payload is None:
                    bad += 1
                    continue
                cache.put(key, payload)
                good += 1
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BadArchiveError(f"{file} is no exported cache: {error}") from error
    return good, bad
