"""Files of recorded calls: how their bytes are packed, and what is checked when they are read.

A file is a magic number, the size of its content, the SHA-256 of what follows, and the content,
compressed by zlib. The content is a safetensors file whose metadata hold a document in JSON.
Nothing in it is code: reading runs none.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from typing import Any

import numpy as np

from xpr.core.errors import XprError
from xpr.export.program_data import dtype_of, dtype_text
from xpr.export.tensors import write_tensors
from xpr.runtimes.bundle.errors import CorruptBundleError
from xpr.runtimes.bundle.tensors import read_tensors

Array = np.ndarray[Any, Any]

MAGIC = b"xprrec\x01\n"
_NAME = "xpr-recording"
_HEAD = len(MAGIC) + 8 + 32
_SAMPLE = 1 << 16
MOST_BYTES = 4 << 30
"""Content beyond this size is not unpacked, unless the caller allows more."""


class RecordingError(XprError, ValueError):
    """A file that is not a recorded call, that is damaged, or of another version.

    >>> import xpr
    >>> issubclass(xpr.recording.RecordingError, ValueError)
    True
    """


def pack(document: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    """The bytes of a file with a document and the arrays that it names."""
    types = {n: [dtype_text(a.dtype), list(a.shape)] for n, a in arrays.items()}
    text = json.dumps({**document, "types": types}, separators=(",", ":"))
    content = write_tensors(arrays, {_NAME: text})
    packed = zlib.compress(content, _level(content))
    return b"".join(
        (MAGIC, len(content).to_bytes(8, "little"), hashlib.sha256(packed).digest(), packed)
    )


def _level(content: bytes) -> int:
    """The level of compression: none for numbers of which a sample hardly becomes smaller."""
    middle = len(content) // 2
    sample = content[middle : middle + _SAMPLE]
    return 0 if len(zlib.compress(sample, 1)) > 0.7 * len(sample) else 1


def unpack(data: bytes, most_bytes: int = MOST_BYTES) -> tuple[dict[str, Any], dict[str, Array]]:
    """The document and the arrays of a file; RecordingError for anything else."""
    if data[:6] != MAGIC[:6]:
        raise RecordingError("this is not a recorded call: it does not begin with 'xprrec'")
    if data[: len(MAGIC)] != MAGIC:
        raise RecordingError(
            f"the recorded call is of format {data[6]}, and this xpr reads format {MAGIC[6]}: use "
            "the release of xpr that wrote it"
        )
    size = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    packed = data[_HEAD:]
    if hashlib.sha256(packed).digest() != data[len(MAGIC) + 8 : _HEAD]:
        raise RecordingError("the recorded call is damaged: its SHA-256 is not the one written")
    if size > most_bytes:
        raise RecordingError(
            f"the recorded call declares {size} bytes, and at most {most_bytes} are read: pass "
            "most_bytes to allow more"
        )
    content = _decompressed(packed, size)
    try:
        arrays, metadata = read_tensors(content)
        document = json.loads(metadata[_NAME])
        types = document["types"]
        return document, {n: _typed(a, *types[n]) for n, a in arrays.items()}
    except (CorruptBundleError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RecordingError(f"the recorded call is unsound: {error!r}") from error


def _decompressed(packed: bytes, size: int) -> bytes:
    unzip = zlib.decompressobj()
    try:
        content = unzip.decompress(packed, size + 1)
    except zlib.error as error:
        raise RecordingError(f"the recorded call cannot be decompressed: {error}") from error
    if len(content) != size:
        raise RecordingError(
            f"the recorded call declares {size} bytes and holds "
            f"{'more' if len(content) > size else len(content)}"
        )
    return content


def _typed(array: Array, name: str, shape: list[int]) -> Array:
    """An array as the document says it is; types without a name of their own come as bytes."""
    dtype = dtype_of(name)
    if array.dtype == dtype and array.shape == tuple(shape):
        return array
    return np.frombuffer(array.tobytes(), dtype).reshape(shape)


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file so that it is whole or not there."""
    part = f"{os.fspath(path)}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            file.write(data)
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.remove(part)
        raise
