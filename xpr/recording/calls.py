"""A recorded call: program, arguments, results, and where and how it ran."""

from __future__ import annotations

import hashlib
import os
import platform
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xpr.core.config import trace_settings
from xpr.core.extended_array import base_of
from xpr.core.jaxpr import ClosedJaxpr
from xpr.export.program_data import dtype_of, dtype_text
from xpr.interpreters.walk import arrays_for
from xpr.interpreters.walk_text import array_text
from xpr.recording.files import MOST_BYTES, Array, RecordingError, pack, unpack, write
from xpr.recording.programs import program_from_lines, program_with_lines
from xpr.version import __version__

_programs: weakref.WeakKeyDictionary[ClosedJaxpr, Any] = weakref.WeakKeyDictionary()


class Recording:
    """One call of a jitted function, as `xpr.record` wrote it.

    >>> import tempfile, pathlib, xpr, xpr.numpy as jnp
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.xprrec"
    >>> with xpr.record(path):
    ...     y = xpr.jit(lambda x: jnp.log(x))(jnp.float32(-1))
    >>> recording = xpr.recording.Recording.load(path)
    >>> recording.name, recording.outcome
    ('<lambda>', 'ok')
    """

    def __init__(
        self,
        document: dict[str, Any],
        closed: ClosedJaxpr | None,
        args: list[Array | None],
        results: list[Array | None],
    ) -> None:
        self.document = document
        self.closed = closed
        """The program; None where `document["refused"]` says why it cannot be written."""
        self.args = args
        """The arguments; None for one of which only the digest was kept."""
        self.results = results

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(self.document["name"])

    @property
    def outcome(self) -> str:
        """`ok`, or the error that the call raised."""
        return str(self.document["outcome"])

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, most_bytes: int = MOST_BYTES) -> Recording:
        """Reads a file. Raises RecordingError, a ValueError, for one that is damaged, of another
        version, or that declares more than `most_bytes`, and OSError for one that is not there.
        """
        document, arrays = unpack(Path(path).read_bytes(), most_bytes)
        try:
            held = {
                n.removeprefix("program."): a for n, a in arrays.items() if n.startswith("program.")
            }
            programs = document["program"]
            closed = None if programs is None else program_from_lines(programs, held)
            args = [_read(entry, arrays) for entry in document["arguments"]]
            results = [_read(entry, arrays) for entry in document["results"]]
            _check(closed, document["arguments"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RecordingError(f"the recorded call is unsound: {error}") from error
        return cls(document, closed, args, results)

    def with_args(self, args: Sequence[Any]) -> list[Array]:
        """All arguments: those of the file, and the others from `args`, in their order.

        Raises ValueError where one is missing, or is not the one that the digest names.
        """
        given = iter(args)
        found: list[Array] = []
        for i, (entry, held) in enumerate(zip(self.document["arguments"], self.args, strict=True)):
            if held is not None:
                found.append(held)
                continue
            value = next(given, None)
            if value is None:
                raise ValueError(
                    f"argument {i} of {self.name}, {entry['text']}, was larger than the limit of "
                    "the recording, which holds its digest alone: pass it as args=[...]"
                )
            array = np.asarray(value)
            if _digest(array) != entry["sha256"]:
                raise ValueError(
                    f"argument {i} of {self.name} must be the array of the recorded call, "
                    f"{entry['text']}, got {array_text(array)} with another digest"
                )
            found.append(array)
        return found

    def __str__(self) -> str:
        d = self.document
        lines = [f"{self.name}: {self.outcome}", f"xpr {d['xpr']} on {d['device']}, {d['time']}"]
        lines += [f"argument {i}: {e['text']}" for i, e in enumerate(d["arguments"])]
        lines += [f"result {i}: {e['text']}" for i, e in enumerate(d["results"])]
        if d["refused"]:
            lines.append(f"cannot be replayed: {d['refused']}")
        return "\n".join(lines)


def recorded_bytes(
    name: str,
    closed: ClosedJaxpr,
    args: Sequence[Any],
    results: Sequence[Any],
    outcome: str,
    limit: int,
) -> bytes:
    """The file of a call; of arrays above `limit` bytes only types, statistics and digests."""
    known = _programs.get(closed)
    if known is None:
        try:
            known = (*program_with_lines(closed), "")
        except (NotImplementedError, ValueError) as error:
            known = (None, {}, str(error))
        _programs[closed] = known
    programs, held, refused = known
    arrays = {f"program.{n}": a for n, a in held.items()}
    typed = arrays_for(closed, [base_of(a) for a in args])
    document = {
        "name": name,
        "outcome": outcome,
        "xpr": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": _device(args, results),
        "process": os.getpid(),
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
        "settings": {n: repr(v) for n, v in trace_settings().items()},
        "text": str(closed) if programs is None else "",
        "refused": refused,
        "program": programs,
        "arguments": [_entry(f"argument{i}", a, arrays, limit) for i, a in enumerate(typed)],
        "results": [_entry(f"result{i}", a, arrays, limit) for i, a in enumerate(results)],
    }
    return pack(document, arrays)


def save_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes the file of a call."""
    write(path, data)


def _device(args: Sequence[Any], results: Sequence[Any]) -> str:
    for x in (*results, *args):
        devices = getattr(x, "devices", None)
        if callable(devices):
            found: Any = devices()
            return ", ".join(sorted(map(str, found)))
    return "unknown"


def _digest(array: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _entry(name: str, value: Any, arrays: dict[str, Array], limit: int) -> dict[str, Any]:
    array = np.asarray(base_of(value))
    entry: dict[str, Any] = {"text": array_text(array), "dtype": dtype_text(array.dtype)}
    entry["shape"] = list(array.shape)
    if array.nbytes > limit:
        entry["sha256"] = _digest(array)
        return entry
    arrays[name] = array
    return {**entry, "array": name}


def _read(entry: dict[str, Any], arrays: dict[str, Array]) -> Array | None:
    dtype_of(entry["dtype"])
    return arrays[entry["array"]] if "array" in entry else None


def _check(closed: ClosedJaxpr | None, entries: Sequence[dict[str, Any]]) -> None:
    if closed is None:
        return
    found = [(tuple(e["shape"]), dtype_of(e["dtype"])) for e in entries]
    wanted = [(a.shape, a.dtype) for a in closed.in_avals]
    if found != wanted:
        raise ValueError(f"its arguments are {found}, and its program takes {wanted}")
