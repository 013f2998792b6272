"""Where the helper process of a user is found, and that nobody else's is taken for it."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import resource
import socket
import stat
import struct
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from xpr.lowering import prebuilt
from xpr.lowering.iree import compiler_library, installed, plugins, shortcuts

# A path of a socket has room for 107 bytes on Linux.
_LONGEST_PATH = 107
_LOCK_SECONDS = 10.0
_STACK = 8 << 20
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
    compiler = Path(__file__).parent.parent
    files = [compiler.parent / "prebuilt.py", *prebuilt.objects()]
    for folder in (compiler, compiler / "versions", Path(__file__).parent):
        files += sorted((*folder.glob("*.py"), *folder.glob("*.def")))
    for file in files:
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


# A helper inherits these from the process that starts it, and cannot raise them again.
_LIMITS = (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE)


def conditions() -> str:
    """Tells apart helpers by the niceness and the hard limits of the processes that start them.

    A process without either does not compile in a helper that has been started with them. The
    empty text where there are none.
    """
    hard = [resource.getrlimit(one)[1] for one in _LIMITS]
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    if not niceness and all(limit == resource.RLIM_INFINITY for limit in hard):
        return ""
    return "-" + hashlib.sha256(f"{niceness} {hard}".encode()).hexdigest()[:8]


def raise_limits() -> None:
    """Raises the limits of this process that the one which started it may have lowered."""
    for one in (*_LIMITS, resource.RLIMIT_NOFILE, resource.RLIMIT_STACK):
        hard = resource.getrlimit(one)[1]
        if one == resource.RLIMIT_STACK:
            # New threads get as much as this; the compiler's ask for what they need.
            hard = _STACK if hard == resource.RLIM_INFINITY else min(hard, _STACK)
        with contextlib.suppress(OSError, ValueError):  # a container may allow less
            resource.setrlimit(one, (hard, resource.getrlimit(one)[1]))


def socket_path(flags: Sequence[str], allowed: Collection[str] = shortcuts.ALL) -> Path:
    """The socket of the helper of this version that compiles such programs.

    It is that of processes with this one's niceness and hard limits.
    """
    path = directory() / f"{digest()}-{kind(flags, allowed)}{conditions()}.sock"
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
