"""Where the helper process of a user is found, and that nobody else's is taken for it."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import socket
import stat
import struct
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from xpr.lowering.iree import compiler_library, installed, plugins, shortcuts

# A path of a socket has room for 107 bytes on Linux.
_LONGEST_PATH = 107
_LOCK_SECONDS = 10.0
_CREDENTIALS = struct.Struct("3i")


class UnavailableError(Exception):
    """There is no helper process to be had here, and why."""


@functools.cache
def digest() -> str:
    """Tells apart helpers of different versions: of these files, of Python and of the compiler."""
    found = hashlib.sha256()
    for part in (
        sys.version,
        sys.executable,
        installed.version(),
        str(compiler_library.library_path()),
    ):
        found.update(part.encode() + b"\0")
    for folder in (Path(__file__).parent.parent, Path(__file__).parent):
        for file in sorted(folder.glob("*.py")):
            found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:24]


def directory() -> Path:
    """The directory of the socket, which only the user can enter; it is made if need be.

    It is `XPR_RUNTIME_DIR`, or lies in `XDG_RUNTIME_DIR` or in the directory for temporary files.
    """
    own, common = os.environ.get("XPR_RUNTIME_DIR"), os.environ.get("XDG_RUNTIME_DIR")
    if own:
        path = Path(own)
    elif common and os.access(common, os.W_OK):
        path = Path(common, "xpr")
    else:
        path = Path(tempfile.gettempdir(), f"xpr-{os.geteuid()}")
    try:
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        status = path.lstat()
    except OSError as error:
        raise UnavailableError(f"{path}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise UnavailableError(f"{path} is not a directory")
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UnavailableError(f"{path} can be entered by others than its user")
    return path


def kind(flags: Sequence[str], allowed: Collection[str] = shortcuts.ALL) -> str:
    """Which helper compiles programs with such flags, by the shortcuts that are allowed."""
    target = "cpu" if plugins.are_for_cpu(flags) else "all"
    without = shortcuts.OF_PROCESSES.difference(allowed)
    return "-without-".join((target, *sorted(without)))


def socket_path(flags: Sequence[str], allowed: Collection[str] = shortcuts.ALL) -> Path:
    """The socket of the helper of this version that compiles such programs."""
    path = directory() / f"{digest()}-{kind(flags, allowed)}.sock"
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise UnavailableError(f"{path} is too long for the path of a socket")
    return path


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Inside the block no other process starts or ends a helper in the directory `path`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise UnavailableError(f"{path} stays locked by another process") from None
                time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


def is_own_user(connection: socket.socket) -> bool:
    """Whether the process at the other end is the same user's."""
    size = _CREDENTIALS.size
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return _CREDENTIALS.unpack(data)[1] == os.geteuid()
