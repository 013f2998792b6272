"""The disk cache of compiled modules.

A module is native code that runs unsandboxed, so an entry is used only when it is a regular file
that belongs to the current user, nobody else may write it, and its digest is right. Several
processes may share a directory: an entry is written to a temporary file and then renamed.

Beside the modules lie *programs*: small files, by a key of the program before it is lowered, that
say under which key its module is kept; and *sources*, by which programs of this machine are found
to be those of others.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import stat
import struct
import sys
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

# pathlib takes 6 ms to import, which a new process whose programs are all here does without.
if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_MAX_BYTES = 2 << 30

# magic, format version, key, digest of the payload, size of the payload
_HEADER = struct.Struct("<8sI32s32sQ")
_MAGIC = b"xprcache"
_FORMAT_VERSION = 1
_SUFFIX = ".vmfb"
_PROGRAM_SUFFIX = ".program"
_SOURCES_SUFFIX = ".sources"
_DISPATCHES = "dispatches"
_COMPILER = "compiler"
_TEMPORARY_PREFIX = "xpr-"
_TEMPORARY_SUFFIX = ".tmp"
# Only files with these names are ever removed: a user may choose a directory that holds others.
_SHARD_NAME = r"[0-9a-f]{2}"
_NOTE_SUFFIX = ".json"
_NOTE_NAME = r"[0-9a-f]{64}\.json"
_ENTRY_NAME = r"[0-9a-f]{64}\.vmfb"
_PROGRAM_NAME = r"[0-9a-f]{64}\.program"
_SOURCES_NAME = r"[0-9a-f]{64}\.sources"
_TEMPORARY_NAME = r"xpr-\w+\.tmp"

# A hit renews an entry's time stamp, but not more often than this, to spare the disk.
_TOUCH_SECONDS = 3600.0
# A temporary file older than this was left by a process that died.
_STALE_TEMPORARY_SECONDS = 3600.0
# The directory is measured at least this often, and each time a process has filled
# 1/_PRUNE_FRACTION of the limit.
_PRUNE_SECONDS = 86400.0
_PRUNE_FRACTION = 16
# Pruning goes down to this part of the limit, so that it does not run at every write.
_PRUNE_TO = 0.8


class CacheEntry(NamedTuple):
    """One file of the cache: its key, its bytes on disk, and when it was last used."""

    key: bytes
    size: int
    used: float


class CompileCache:
    """A directory of compiled modules, found by a 32-byte key.

    ``shared`` are directories below this one, which are only read; whoever owns them is trusted.
    ``warns`` says whether a directory that cannot be written gives a warning.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        max_bytes: int = DEFAULT_MAX_BYTES,
        shared: Sequence[str | os.PathLike[str]] = (),
        *,
        warns: bool = True,
    ) -> None:
        self._directory = os.fspath(directory)
        self.max_bytes = max_bytes
        self._shared = tuple(os.fspath(folder) for folder in shared)
        self._warns = warns
        self._written = 0
        self._writable = True
        self._dispatches: CompileCache | None = None

    @property
    def directory(self) -> Path:
        """Where the entries lie."""
        from pathlib import Path  # noqa: PLC0415 - at the top of the file is said why

        return Path(self._directory)

    @property
    def dispatches(self) -> CompileCache:
        """The cache, within this one's directory, of what programs share.

        That is single compiled dispatches, and modules whose numbers are left out.
        """
        if self._dispatches is None:
            self._dispatches = CompileCache(
                os.path.join(self._directory, _DISPATCHES), self.max_bytes // 2, warns=False
            )
        return self._dispatches

    def path(self, key: bytes) -> Path:
        """The file that holds the entry for ``key``."""
        return self.directory / _file_name(key, _SUFFIX)

    def get(self, key: bytes) -> bytes | None:
        """The module stored under ``key``, or ``None`` if there is no sound one.

        An entry that is damaged or not ours is removed where possible.
        """
        return self._read(key, _SUFFIX)

    def _read(self, key: bytes, suffix: str) -> bytes | None:
        path = self._path(key, suffix)
        content = _read_own_file(path)
        payload = None if content is None else _unpack(content, key)
        if payload is not None:
            self._touch(path)
            return payload
        if content is not None:
            _remove(path)
        for directory in self._shared:
            found = _read_shared_file(directory, _file_name(key, suffix))
            payload = None if found is None else _unpack(found, key)
            if payload is not None:
                return payload
        return None

    def _path(self, key: bytes, suffix: str) -> str:
        return os.path.join(self._directory, _file_name(key, suffix))

    @staticmethod
    def packed(key: bytes, payload: bytes) -> bytes:
        """What the file of an entry holds."""
        return _pack(key, payload)

    @staticmethod
    def unpacked(key: bytes, content: bytes) -> bytes | None:
        """The payload in what the file of an entry holds; None if it is damaged."""
        return _unpack(content, key)

    def put(self, key: bytes, payload: bytes) -> None:
        """Store ``payload`` under ``key``; a directory that cannot be written gives one warning."""
        self._write(key, _SUFFIX, payload, warns=self._warns)

    def program(self, key: bytes) -> bytes | None:
        """What is known of the program of that key, or ``None``, as `get` of modules."""
        return self._read(key, _PROGRAM_SUFFIX)

    def put_program(self, key: bytes, facts: bytes) -> None:
        """Keep what is known of a program, as `put` does with modules, but never with a warning.

        The module, whose writing tells of a directory that cannot be written, is there or not.
        """
        self._write(key, _PROGRAM_SUFFIX, facts, warns=False)

    def programs(self) -> list[bytes]:
        """The keys of the programs of which something is known, in no order."""
        return [_key_of(path) for path, _ in self._stored(_PROGRAM_NAME)]

    def sources(self, key: bytes) -> bytes | None:
        """The digest of xpr's files, by a key of their sizes and times."""
        return self._read(key, _SOURCES_SUFFIX)

    def put_sources(self, key: bytes, digest: bytes) -> None:
        """Keep the digest of xpr's files, as `put_program` does with what is known of programs."""
        self._write(key, _SOURCES_SUFFIX, digest, warns=False)

    def _write(self, key: bytes, suffix: str, payload: bytes, *, warns: bool) -> None:
        if not self._writable:
            return
        content = _pack(key, payload)
        if len(content) > self.max_bytes:
            return
        try:
            self._write_file(self._path(key, suffix), content)
            self._written += len(content)
            self._prune_if_due()
        except OSError as error:
            if not warns:
                return
            self._writable = False
            warnings.warn(
                f"compiled programs are not cached: cannot write to {self._directory}: "
                f"{error.strerror or error}. Set XPR_CACHE_DIR to another directory, or "
                "XPR_CACHE=0 to go without a cache.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _write_file(self, path: str, content: bytes) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.dirname(path), 0o700)
        _write_atomically(path, content)

    def note(self, key: bytes, facts: dict[str, Any]) -> None:
        """Keep facts about a program beside its entry; they count as no entry themselves."""
        if not self._writable:
            return
        # The entry, whose writing tells of a directory that cannot be written, is there or not.
        with contextlib.suppress(OSError):
            import json  # noqa: PLC0415 - a program that is found needs none

            self._write_file(self._path(key, _NOTE_SUFFIX), json.dumps(facts).encode())

    def noted(self, key: bytes) -> dict[str, Any]:
        """What was noted about a program."""
        content = _read_own_file(self._path(key, _NOTE_SUFFIX))
        for directory in self._shared:
            if content is None:
                content = _read_shared_file(directory, _file_name(key, _NOTE_SUFFIX))
        return _facts(content)

    def notes(self) -> list[dict[str, Any]]:
        """What was noted about programs, in no order."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            files = [f.path for f in _files(self._directory) if re.fullmatch(_NOTE_NAME, f.name)]
            return [_facts(_read_own_file(file)) for file in files]
        return []

    def note_compiler(self, version: str) -> None:
        """Keep which compiler has made modules here: the last one that did."""
        if self._writable and version != self.compiler():
            # The entry, whose writing tells of a directory that cannot be written, is there or not.
            with contextlib.suppress(OSError):
                _write_atomically(os.path.join(self._directory, _COMPILER), version.encode())

    def compiler(self) -> str | None:
        """The version of the compiler whose modules are here, for where none is installed."""
        content = _read_own_file(os.path.join(self._directory, _COMPILER))
        for directory in self._shared:
            if content is None:
                content = _read_shared_file(directory, _COMPILER)
        return None if content is None else content.decode(errors="replace")

    def discard(self, key: bytes) -> None:
        """Remove the entry for ``key``, if there is one, and what was noted about it."""
        _remove(self._path(key, _SUFFIX))
        _remove(self._path(key, _NOTE_SUFFIX))

    def entries(self) -> list[CacheEntry]:
        """What is stored, in no order, sound or not; nothing if there is no directory."""
        return [
            CacheEntry(_key_of(path), status.st_size, status.st_mtime)
            for path, status in self._stored(_ENTRY_NAME)
        ]

    def _stored(self, *names: str) -> list[tuple[str, os.stat_result]]:
        """The files with such names."""
        found: list[tuple[str, os.stat_result]] = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for file in _files(self._directory):
                # Another process may prune at the same time: a file that vanishes is no error.
                with contextlib.suppress(FileNotFoundError):
                    if any(re.fullmatch(name, file.name) for name in names):
                        found.append((file.path, file.stat(follow_symlinks=False)))
        return found

    def fault(self, key: bytes) -> str | None:
        """Why the entry for ``key`` is not used, or ``None`` if it is sound."""
        content = _read_own_file(self._path(key, _SUFFIX))
        if content is None:
            return "cannot be read, or others may change it"
        return "damaged" if _unpack(content, key) is None else None

    def clear(self) -> int:
        """Remove all entries, and what dead writers left; the number of entries removed."""
        entries = self.entries()
        for entry in entries:
            self.discard(entry.key)
        self._remove_stale()
        for path, _ in self._stored(_NOTE_NAME, _PROGRAM_NAME, _SOURCES_NAME):
            _remove(path)
        _remove(os.path.join(self._directory, _COMPILER))
        if self.dispatches.directory.is_dir():
            self.dispatches.clear()
        return sum(not os.path.exists(self._path(entry.key, _SUFFIX)) for entry in entries)

    def prune(self) -> None:
        """Remove the entries used longest ago until the directory is within its limit."""
        self._remove_stale()
        stored = self._stored(_ENTRY_NAME, _PROGRAM_NAME, _SOURCES_NAME)
        total = sum(status.st_size for _, status in stored)
        if total > self.max_bytes:
            goal = int(self.max_bytes * _PRUNE_TO)
            for path, status in sorted(stored, key=lambda found: found[1].st_mtime):
                if total <= goal:
                    break
                _remove(path)
                _remove(os.path.splitext(path)[0] + _NOTE_SUFFIX)
                total -= status.st_size
        self._written = 0

    def _remove_stale(self) -> None:
        """Remove the temporary files of writers that died."""
        now = time.time()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for file in _files(self._directory):
                with contextlib.suppress(FileNotFoundError):
                    if re.fullmatch(_TEMPORARY_NAME, file.name):
                        age = now - file.stat(follow_symlinks=False).st_mtime
                        if age > _STALE_TEMPORARY_SECONDS:
                            _remove(file.path)

    def _prune_if_due(self) -> None:
        stamp = self.directory / "pruned"
        try:
            age = time.time() - stamp.stat().st_mtime
        except FileNotFoundError:
            age = _PRUNE_SECONDS
        if age >= _PRUNE_SECONDS or self._written * _PRUNE_FRACTION > self.max_bytes:
            stamp.touch(mode=0o600)
            os.utime(stamp)
            self.prune()

    def _touch(self, path: str) -> None:
        # The time stamp only orders entries for pruning; on a read-only directory there is
        # nothing to prune.
        with contextlib.suppress(OSError):
            if time.time() - os.stat(path).st_mtime > _TOUCH_SECONDS:
                os.utime(path)


def default_cache() -> CompileCache | None:
    """The cache that the environment asks for, or ``None`` when it is switched off.

    ``XPR_CACHE=0`` switches it off, ``XPR_CACHE_DIR`` gives the directory and
    ``XPR_CACHE_MAX_BYTES`` its largest size (2 GiB by default). ``XPR_CACHE_PATH`` lists more
    directories, separated as in ``PATH``, which are read and never written.
    """
    wanted = os.environ.get("XPR_CACHE", "1").strip().lower()
    if wanted not in ("", "0", "1", "false", "true", "no", "yes", "off", "on"):
        raise ValueError(f"XPR_CACHE must be 0 or 1, got {wanted!r}")
    if wanted in ("0", "false", "no", "off"):
        return None
    return _cache_for(
        os.environ.get("XPR_CACHE_DIR") or None,
        os.environ.get("XPR_CACHE_MAX_BYTES") or None,
        os.environ.get("XPR_CACHE_PATH") or "",
    )


@functools.cache
def _cache_for(directory: str | None, max_bytes: str | None, shared: str) -> CompileCache:
    if directory is None:
        directory = _users_cache()
    limit = DEFAULT_MAX_BYTES
    if max_bytes is not None:
        if not max_bytes.strip().isdecimal():
            raise ValueError(f"XPR_CACHE_MAX_BYTES requires a number of bytes, got {max_bytes!r}")
        limit = int(max_bytes)
    below = [os.path.expanduser(part) for part in shared.split(os.pathsep) if part]
    return CompileCache(os.path.expanduser(directory), limit, below)


def _users_cache() -> str:
    """Where the user's programs keep what they can make again, and a folder of xpr's there.

    On Linux that is said by the XDG Base Directory Specification; platformdirs, which knows it of
    other systems, too, takes 8 ms to import.
    """
    home = os.environ.get("HOME", "")
    if sys.platform == "linux" and os.path.isabs(home):
        stated = os.environ.get("XDG_CACHE_HOME", "")
        return os.path.join(stated if os.path.isabs(stated) else f"{home}/.cache", "xpr")
    import platformdirs  # noqa: PLC0415 - see above

    return platformdirs.user_cache_dir("xpr", appauthor=False)


def _file_name(key: bytes, suffix: str) -> str:
    """The file of an entry, from the cache's directory."""
    name = key.hex()
    return os.path.join(name[:2], name + suffix)


def _key_of(path: str) -> bytes:
    return bytes.fromhex(os.path.splitext(os.path.basename(path))[0])


def _pack(key: bytes, payload: bytes) -> bytes:
    digest = hashlib.sha256(payload).digest()
    return _HEADER.pack(_MAGIC, _FORMAT_VERSION, key, digest, len(payload)) + payload


def _unpack(content: bytes, key: bytes) -> bytes | None:
    if len(content) < _HEADER.size:
        return None
    magic, version, stored_key, digest, size = _HEADER.unpack_from(content)
    if (magic, version, stored_key) != (_MAGIC, _FORMAT_VERSION, key):
        return None
    payload = content[_HEADER.size :]
    if len(payload) != size or hashlib.sha256(payload).digest() != digest:
        return None
    return payload


def _facts(content: bytes | None) -> dict[str, Any]:
    """A note's facts; none if it is damaged or not ours."""
    if content is None:
        return {}
    import json  # noqa: PLC0415 - a program that is found needs none

    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _read_own_file(path: str) -> bytes | None:
    """The content of ``path`` if it is a regular file that only the current user can change."""
    return _read_file(path, os.geteuid() if os.name == "posix" else 0)


def _read_shared_file(directory: str, name: str) -> bytes | None:
    """The content of a file in a shared directory, if only the directory's owner can change it."""
    path = os.path.join(directory, name)
    try:
        owner = os.stat(directory).st_uid
        if not all(_only_of(owner, os.stat(f)) for f in (directory, os.path.dirname(path))):
            return None
    except OSError:
        return None
    return _read_file(path, owner)


def _read_file(path: str, owner: int) -> bytes | None:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError:
        # Absent, unreadable or a symbolic link: in each case there is no entry to use.
        return None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or not _only_of(owner, status):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _only_of(owner: int, status: os.stat_result) -> bool:
    if os.name != "posix":
        return True
    return status.st_uid == owner and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _write_atomically(path: str, content: bytes) -> None:
    import tempfile  # noqa: PLC0415 - what is only read needs none, and it takes 5 ms

    descriptor, temporary = tempfile.mkstemp(
        _TEMPORARY_SUFFIX, _TEMPORARY_PREFIX, os.path.dirname(path)
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


def _remove(path: str) -> None:
    # Someone else may have removed it, or the directory may be read-only: the entry is then
    # refused again at the next look.
    with contextlib.suppress(OSError):
        os.unlink(path)


def _files(directory: str) -> list[os.DirEntry[str]]:
    found: list[os.DirEntry[str]] = []
    with os.scandir(directory) as shards:
        for shard in shards:
            if re.fullmatch(_SHARD_NAME, shard.name) and shard.is_dir(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError), os.scandir(shard.path) as files:
                    found.extend(file for file in files if file.is_file(follow_symlinks=False))
    return found
