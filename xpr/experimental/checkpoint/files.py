"""Files of a checkpoint, checked before they are read.

Whoever made a checkpoint may have made it so that reading it reads something else: through a link,
from a pipe that never ends, or from a file far larger than its array. So each folder on the way to
a file must be a folder, each file a regular one, and its size the size that its array implies.
"""

from __future__ import annotations

import itertools
import math
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from xpr.experimental.checkpoint.errors import DamagedCheckpointError, shown
from xpr.experimental.checkpoint.leaves import ArrayLeaf

Box = tuple[tuple[int, int], ...]
"""A part of an array: for each axis the first element and the one past the last."""

TREE_BYTES = 1 << 30
"""The largest file of a structure that is read: it holds millions of leaves."""

_METADATA = "zarr.json"
_METADATA_BYTES = 1 << 20
_CHECKSUM_BYTES = 4


def read_regular(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    Raises DamagedCheckpointError for a link, a pipe, a device and a larger file, and the OSError
    of a file that cannot be opened.
    """
    problem = _problem(path, stat.S_ISREG, "a regular file")
    if problem:
        raise DamagedCheckpointError(f"{path} is damaged: it {problem}")
    # The file may have been replaced since: neither a link nor a pipe is opened, and neither waits.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            raise DamagedCheckpointError(
                f"{path} is damaged: it has {found.st_size} bytes, more than the {limit} that are "
                "read, or is not a regular file"
            )
        content = file.read(limit + 1)
    if len(content) > limit:
        raise DamagedCheckpointError(f"{path} is damaged: it grows while it is read")
    return content


def check_folder(path: Path) -> None:
    """Raises DamagedCheckpointError unless the path is a folder, and not a link to one."""
    problem = _problem(path, stat.S_ISDIR, "a folder")
    if problem:
        raise DamagedCheckpointError(f"{path} is damaged: it {problem}")


def check_files(arrays: Path, leaf: ArrayLeaf, boxes: Sequence[Box]) -> None:
    """Raises DamagedCheckpointError unless the files that hold these parts of a leaf are whole.

    `arrays` is the folder of all arrays. Only the files' kinds and sizes are looked at, so that no
    memory is asked for an array that is not there.
    """
    assert leaf.store is not None
    folder = arrays / leaf.store
    known: set[Path] = set()
    _require(leaf, known, arrays)
    _require(leaf, known, folder)
    _require_file(leaf, folder / _METADATA, range(_METADATA_BYTES + 1))
    size = math.prod(leaf.chunks) * leaf.dtype.itemsize + _CHECKSUM_BYTES
    for box in boxes:
        for key in _chunk_keys(box, leaf.chunks):
            parent = folder
            for part in key[:-1]:
                parent /= part
                _require(leaf, known, parent)
            _require_file(leaf, parent / key[-1], range(size, size + 1))


def _chunk_keys(box: Box, chunks: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
    """The place of each file that holds a part of `box`, as Zarr's default encoding has it."""
    axes = [range(lo // n, -(-hi // n)) for (lo, hi), n in zip(box, chunks, strict=True)]
    for index in _product(axes):
        yield ("c", *map(str, index))


def _product(axes: Sequence[range]) -> Iterator[tuple[int, ...]]:
    # That of itertools keeps all numbers of each axis in memory, however many there are.
    if len(axes) <= 1:
        yield from itertools.product(*axes) if not axes else ((i,) for i in axes[0])
        return
    for i in axes[0]:
        for rest in _product(axes[1:]):
            yield (i, *rest)


def _require(leaf: ArrayLeaf, known: set[Path], path: Path) -> None:
    if path in known:
        return
    problem = _problem(path, stat.S_ISDIR, "a folder")
    if problem:
        raise _damaged(leaf, path, problem)
    known.add(path)


def _require_file(leaf: ArrayLeaf, path: Path, sizes: range) -> None:
    problem = _problem(path, stat.S_ISREG, "a regular file")
    if not problem:
        size = os.lstat(path).st_size
        if size not in sizes:
            expected = f"{sizes[0]}" if len(sizes) == 1 else f"at most {sizes[-1]}"
            problem = f"has {size} bytes, expected {expected}"
    if problem:
        raise _damaged(leaf, path, problem)


def _damaged(leaf: ArrayLeaf, path: Path, problem: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"{shown(leaf.path)} of the checkpoint cannot be read: {path} {problem}", leaf.path
    )


def _problem(path: Path, is_right: Callable[[int], bool], what: str) -> str:
    """Why a path is not of the right kind; empty if it is. Links are never followed."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "is missing"
    if stat.S_ISLNK(mode):
        return f"is a link, expected {what}"
    return "" if is_right(mode) else f"is not {what}"
