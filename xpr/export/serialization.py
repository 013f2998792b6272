"""Exported functions as bytes: `Exported.serialize` and `deserialize`.

The bytes are a safetensors file: the arrays, and in its metadata a document in JSON, which holds
the program as data, and the SHA-256 of the file. Where the digest itself stands, the file is
hashed as if there were zeros.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from xpr.export import trees
from xpr.export.exported import (
    DisabledSafetyCheck,
    Exported,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from xpr.export.layout import layout_from_data
from xpr.export.program_data import Arrays, dtype_of
from xpr.export.programs import stored_program
from xpr.export.tensors import write_tensors
from xpr.runtimes.bundle import CorruptBundleError, read_tensors

_FORMAT = "xpr-exported"
_DIGEST = "sha256"
_BLANK = "0" * 64
_NOT_ONE = "this is no exported function, or a damaged one"
# What reading a document raises where something in it is not what it should be.
_UNSOUND = (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)


class CorruptExportError(ValueError):
    """Bytes that are no exported function, or not those that were written."""


def serialized(exported: Exported, vjp_order: int) -> bytearray:
    """What `Exported.serialize` returns."""
    if vjp_order < 0:
        raise ValueError(f"vjp_order must not be negative, got {vjp_order}")
    arrays: Arrays = {}
    entries: list[Any] = []
    current = exported
    for order in range(vjp_order + 1):
        current = current.vjp() if order else current
        data, found = current.program.data()
        arrays |= {f"{order}.{name}": a for name, a in found.items()}
        entries.append(
            {
                "name": current.fun_name,
                "in_tree": trees.tree_data(current.in_tree),
                "out_tree": trees.tree_data(current.out_tree),
                "types": {n: [a.dtype.name, list(a.shape)] for n, a in found.items()},
                "program": data,
                "layout": None if current.layout is None else current.layout.data(),
            }
        )
    document = {
        "format": _FORMAT,
        "version": exported.calling_convention_version,
        "platforms": exported.platforms,
        "disabled_checks": [str(c) for c in exported.disabled_safety_checks],
        "programs": entries,
    }
    text = json.dumps(document, separators=(",", ":"))
    data = bytearray(write_tensors(arrays, {_DIGEST: _BLANK, _FORMAT: text}))
    place = data.index(_BLANK.encode())  # the first of the metadata, which come before all else
    data[place : place + len(_BLANK)] = hashlib.sha256(data).hexdigest().encode()
    return data


def deserialize(blob: bytes | bytearray) -> Exported:
    """The exported function that `Exported.serialize` wrote.

    Raises CorruptExportError, a ValueError, for bytes that are none or have been changed, and
    ValueError for a function that needs another version of xpr, or node types that are not
    registered here.

    >>> import xpr, numpy as np
    >>> exported = xpr.export.export(xpr.jit(xpr.numpy.sin))(np.zeros(2, np.float32))
    >>> deserialize(exported.serialize()).call(np.array([0.0, 0.5], np.float32))
    Array([0.        , 0.47942555], dtype=float32)
    """
    data = bytes(blob)
    try:
        tensors, metadata = read_tensors(data)
    except CorruptBundleError as error:
        raise CorruptExportError(f"{_NOT_ONE}: {error}") from error
    if not isinstance(metadata, dict) or not metadata.keys() >= {_FORMAT, _DIGEST}:
        raise CorruptExportError(f"{_NOT_ONE}: its metadata have no {_FORMAT!r} with a digest")
    text, digest = metadata[_FORMAT], metadata[_DIGEST]
    if _digest_of(data, digest) != digest:
        raise CorruptExportError(
            "the exported function has been altered: its SHA-256 is not the one that it was "
            "written with"
        )
    try:
        return _read_document(json.loads(text), tensors)
    except _UNSOUND as error:
        raise CorruptExportError(f"the exported function is unsound: {error!r}") from error


def _digest_of(data: bytes, digest: Any) -> str:
    """The SHA-256 of the file, with zeros where `digest` stands."""
    written = str(digest).encode()
    if len(written) != len(_BLANK):
        return ""
    return hashlib.sha256(data.replace(written, _BLANK.encode(), 1)).hexdigest()


def _read_document(document: Any, tensors: Arrays) -> Exported:
    version = document["version"]
    least, most = (
        minimum_supported_calling_convention_version,
        maximum_supported_calling_convention_version,
    )
    if not least <= version <= most:
        raise ValueError(
            f"the function was exported with version {version} of the calling convention; "
            f"supported are {least} to {most}"
        )
    later: Exported | None = None
    for order, entry in reversed(list(enumerate(document["programs"]))):
        arrays = {}
        for name, (dtype, shape) in entry["types"].items():
            found = tensors[f"{order}.{name}"]
            arrays[name] = found.view(dtype_of(dtype)).reshape(tuple(shape))
        following = later
        later = Exported(
            str(entry["name"]),
            trees.tree_from_data(entry["in_tree"]),
            trees.tree_from_data(entry["out_tree"]),
            stored_program(entry["program"], arrays),
            tuple(document["platforms"]),
            tuple(DisabledSafetyCheck(c) for c in document["disabled_checks"]),
            None if following is None else (lambda _, following=following: following),
            layout_from_data(entry.get("layout")),
        )
    if later is None:
        raise CorruptExportError(f"{_NOT_ONE}: it has no program")
    return later
