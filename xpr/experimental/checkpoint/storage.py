"""Arrays in files, through tensorstore: one folder for each array, in the format Zarr 3.

A checksum follows the values in each file, and a file that is missing is an error, not zeros.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from xpr.experimental.checkpoint.errors import CheckpointError, DamagedCheckpointError, shown
from xpr.experimental.checkpoint.files import Box
from xpr.experimental.checkpoint.leaves import ArrayLeaf

# What other readers of Zarr know, too. Arrays of other types are kept as bytes, one an element.
_NATIVE = {"bool", "bfloat16", "float16", "float32", "float64", "complex64", "complex128"}
_NATIVE |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}

IN_FLIGHT = 128 << 20
"""Bytes that are written or read at a time, beside the arrays themselves."""


def require_tensorstore() -> Any:
    """The module `tensorstore`; ImportError, with what to install, where there is none."""
    try:
        import tensorstore  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ImportError(
            "xpr.experimental.checkpoint writes and reads arrays with tensorstore, which is not "
            "installed: pip install 'xpr[checkpoint]'"
        ) from error
    return tensorstore


@functools.cache
def _context() -> Any:
    # Checksums take far less time than the disk, and a program computes meanwhile: with a thread
    # for each core, its own would have to wait for theirs.
    return require_tensorstore().Context(
        {
            "file_io_sync": True,
            "data_copy_concurrency": {"limit": 1},
            "file_io_concurrency": {"limit": 4},
        }
    )


def stored_type(dtype: np.dtype[Any]) -> str:
    """The type that files have for arrays of `dtype`."""
    return dtype.name if dtype.name in _NATIVE else "uint8"


def _metadata(leaf: ArrayLeaf) -> dict[str, Any]:
    kind = stored_type(leaf.dtype)
    fill: Any = 0
    if kind == "bool":
        fill = False
    elif kind.startswith("complex"):
        fill = [0.0, 0.0]
    elif "float" in kind:
        fill = 0.0
    codecs: list[dict[str, Any]] = [{"name": "bytes"}, {"name": "crc32c"}]
    if leaf.dtype.itemsize > 1:
        codecs[0]["configuration"] = {"endian": "little"}
    return {
        "shape": list(leaf.shape),
        "data_type": kind,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(leaf.chunks)}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": fill,
        "codecs": codecs,
    }


def _spec(folder: Path, leaf: ArrayLeaf) -> dict[str, Any]:
    assert leaf.store is not None
    return {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": os.path.join(folder, leaf.store, "")},
        "metadata": _metadata(leaf),
        "store_data_equal_to_fill_value": True,
        "fill_missing_data_reads": False,
    }


@contextmanager
def creating(folder: Path, leaves: Sequence[ArrayLeaf]) -> Iterator[None]:
    """Makes the folders of arrays, with the files that tell others what is in them.

    That goes on beside what is done in the context, at whose end the disk has them.
    """
    ts = require_tensorstore()
    window = _Window("create")
    try:
        for leaf in leaves:
            future = ts.open(_spec(folder, leaf), create=True, context=_context())
            window.add(leaf, future, IN_FLIGHT // 64)
        yield
    except BaseException:
        window.abandon()
        raise
    window.finish()


def write(folder: Path, parts: Sequence[tuple[ArrayLeaf, Box, np.ndarray[Any, Any]]]) -> None:
    """Writes parts of arrays into their folders, and waits until the disk has them.

    A part begins and ends with files. At most `IN_FLIGHT` bytes take memory twice meanwhile.
    """
    ts = require_tensorstore()
    window = _Window("write")
    try:
        for leaf, box, values in parts:
            # What the folder says is known: the process that makes it may not have done so yet.
            spec = {**_spec(folder, leaf), "open": True, "assume_metadata": True}
            with _named("write", leaf):
                store = ts.open(spec, context=_context()).result()
            for piece in _pieces(box, leaf.chunks):
                inside = tuple(
                    slice(lo - a, hi - a) for (lo, hi), (a, _) in zip(piece, box, strict=True)
                )
                source = values[inside] if inside else values
                window.make_room(source.nbytes)
                place = tuple(slice(lo, hi) for lo, hi in piece)
                target = store[place] if place else store
                future = target.write(
                    source.view(np.uint8) if stored_type(leaf.dtype) == "uint8" else source,
                    can_reference_source_data_indefinitely=True,
                )
                window.add(leaf, future, source.nbytes)
    except BaseException:
        window.abandon()
        raise
    window.finish()


def _pieces(box: Box, chunks: tuple[int, ...]) -> Iterator[Box]:
    """The part of each file that lies in `box`."""
    steps = [
        [(lo, min(lo + size, hi)) for lo in range(start, hi, size)]
        for (start, hi), size in zip(box, chunks, strict=True)
    ]
    return itertools.product(*steps)


def read(folder: Path, parts: Sequence[tuple[ArrayLeaf, Box, np.ndarray[Any, Any]]]) -> None:
    """Reads parts of arrays into the memory given for each; only files that hold some are read.

    Raises DamagedCheckpointError, naming the leaf, for files that are missing or damaged.
    """
    ts = require_tensorstore()
    # Files that several parts need are kept for a while, and nothing from one call to the next.
    context = ts.Context({"cache_pool": {"total_bytes_limit": IN_FLIGHT}})
    stores: dict[str | None, Any] = {}
    for leaf, _, _ in parts:
        if leaf.store not in stores:
            with _named("read", leaf):
                stores[leaf.store] = ts.open(_spec(folder, leaf), open=True, context=context)
    window = _Window("read")
    try:
        for leaf, box, values in parts:
            with _named("read", leaf):
                store = stores[leaf.store].result()
            window.make_room(values.nbytes)
            place = tuple(slice(lo, hi) for lo, hi in box)
            raw = values.view(np.uint8) if stored_type(leaf.dtype) == "uint8" else values
            future = ts.array(raw).write(store[place] if place else store)
            window.add(leaf, future, values.nbytes)
    except BaseException:
        window.abandon()
        raise
    window.finish()


class _Window:
    """What tensorstore does at the moment; it may do so much at a time."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._bytes = 0
        self._pending: deque[tuple[ArrayLeaf, Any, int]] = deque()

    def make_room(self, nbytes: int) -> None:
        """Waits until `nbytes` more may begin."""
        while self._pending and self._bytes + nbytes > IN_FLIGHT:
            self._wait()

    def add(self, leaf: ArrayLeaf, future: Any, nbytes: int) -> None:
        self.make_room(nbytes)
        self._pending.append((leaf, future, nbytes))
        self._bytes += nbytes

    def _wait(self) -> None:
        leaf, future, nbytes = self._pending.popleft()
        self._bytes -= nbytes
        with _named(self._what, leaf):
            future.result()

    def finish(self) -> None:
        """Waits for all. The first error is raised when the others have ended, too."""
        try:
            while self._pending:
                self._wait()
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Waits for all that has begun, whatever becomes of it: its memory may be freed then."""
        while self._pending:
            _, future, _ = self._pending.popleft()
            future.exception()


class _named:
    """Makes tensorstore's errors ours: they name the leaf, and tell damage from other faults."""

    def __init__(self, what: str, leaf: ArrayLeaf) -> None:
        self._what = what
        self._leaf = leaf

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, (ValueError, OSError, RuntimeError)):
            return
        text = re.sub(r" \[(tensorstore_spec|source locations)=.*", "", str(error))
        leaf = self._leaf
        found = re.search(r"os_error_code='(\d+)'", str(error))
        if found is not None:
            number = int(found[1])
            why = f"{os.strerror(number)}: cannot {self._what} {shown(leaf.path)}"
            raise OSError(number, why) from error
        if self._what == "read":
            raise DamagedCheckpointError(
                f"{shown(leaf.path)} of the checkpoint cannot be read: {text}", leaf.path
            ) from error
        raise CheckpointError(f"{shown(leaf.path)} cannot be written: {text}") from error
