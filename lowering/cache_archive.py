"""Compile caches as one file, to be carried to other machines and into containers."""

from __future__ import annotations

import io
import os
import re
import tarfile
import tempfile
from pathlib import Path

from xpr.lowering.cache import CompileCache

_NAME = re.compile(r"[0-9a-f]{2}/([0-9a-f]{64})\.(vmfb|program)")
_LARGEST = 1 << 32


# Which compiler made the modules: a file of some hundred bytes.
_COMPILER = "compiler"
_LONGEST_VERSION = 1 << 14


class BadArchiveError(ValueError):
    """A file that holds no compile cache."""


def export_cache(cache: CompileCache, file: Path) -> int:
    """Writes the sound entries of a cache to a file, whole or not at all; their number.

    With them goes what is known of programs, by which these are found without being lowered, and
    which compiler made them, by which they are found where it is not installed.
    """
    descriptor, temporary = tempfile.mkstemp(".tmp", file.name, file.parent)
    try:
        count = 0
        with os.fdopen(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for entry in sorted(cache.entries()):
                payload = cache.get(entry.key)
                if payload is not None:
                    _add(archive, cache, entry.key, "vmfb", payload)
                    count += 1
            version = cache.compiler()
            if version is not None:
                _add_file(archive, _COMPILER, version.encode())
            for key in sorted(cache.programs()):
                facts = cache.program(key)
                if facts is not None:
                    _add(archive, cache, key, "program", facts)
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise
    return count


def _add(
    archive: tarfile.TarFile, cache: CompileCache, key: bytes, kind: str, payload: bytes
) -> None:
    path = cache.path(key).relative_to(cache.directory).with_suffix(f".{kind}")
    _add_file(archive, path.as_posix(), cache.packed(key, payload))


def _add_file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    found = tarfile.TarInfo(name)
    found.size, found.mode = len(content), 0o600
    archive.addfile(found, io.BytesIO(content))


def import_cache(cache: CompileCache, file: Path) -> tuple[int, int]:
    """Adds what is in a file to a cache: how many entries there are, and how much was damaged.

    The entries are native code that programs will run: import only what you trust. Nothing but
    entries and what is known of programs is taken, and no name in the file decides where anything
    is written.

    Raises `BadArchiveError` for a file of another kind.
    """
    good = bad = 0
    try:
        with tarfile.open(file, mode="r:gz") as archive:
            for member in archive:
                if member.name == _COMPILER and member.isreg() and member.size <= _LONGEST_VERSION:
                    _import_compiler(cache, archive, member)
                    continue
                found = _NAME.fullmatch(member.name)
                opened = archive.extractfile(member) if found and member.isreg() else None
                if found is None or opened is None or member.size > _LARGEST:
                    bad += 1
                    continue
                key = bytes.fromhex(found[1])
                payload = cache.unpacked(key, opened.read())
                if payload is None:
                    bad += 1
                    continue
                if found[2] == "program":
                    cache.put_program(key, payload)
                else:
                    cache.put(key, payload)
                    good += 1
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BadArchiveError(f"{file} is no exported cache: {error}") from error
    return good, bad


def _import_compiler(
    cache: CompileCache, archive: tarfile.TarFile, member: tarfile.TarInfo
) -> None:
    """A cache that has modules of another compiler keeps its own."""
    opened = archive.extractfile(member)
    if opened is not None and cache.compiler() is None:
        cache.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        cache.note_compiler(opened.read().decode(errors="replace"))
