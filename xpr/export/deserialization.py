"""`deserialize`: exported functions from the bytes that `serialization.py` describes."""

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
from xpr.export.program_data import UNSOUND, Arrays, dtype_of
from xpr.export.programs import stored_program
from xpr.export.serialization import BLANK, DIGEST, FORMAT
from xpr.runtimes.bundle import CorruptBundleError
from xpr.runtimes.bundle.tensors import read_tensors

_NOT_ONE = "this is no exported function, or a damaged one"


class CorruptExportError(ValueError):
    """Bytes that are no exported function, or not those that were written.

    >>> from xpr import export
    >>> try:
    ...     export.deserialize(b"no program")
    ... except export.CorruptExportError as error:
    ...     print(type(error).__name__)
    CorruptExportError
    """


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
    if not isinstance(metadata, dict) or not metadata.keys() >= {FORMAT, DIGEST}:
        raise CorruptExportError(f"{_NOT_ONE}: its metadata have no {FORMAT!r} with a digest")
    text, digest = metadata[FORMAT], metadata[DIGEST]
    if _digest_of(data, digest) != digest:
        raise CorruptExportError(
            "the exported function has been altered: its SHA-256 is not the one that it was "
            "written with"
        )
    try:
        return _read_document(json.loads(text), tensors)
    except UNSOUND as error:
        raise CorruptExportError(f"the exported function is unsound: {error!r}") from error


def _digest_of(data: bytes, digest: Any) -> str:
    """The SHA-256 of the file, with zeros where `digest` stands."""
    written = str(digest).encode()
    if len(written) != len(BLANK):
        return ""
    return hashlib.sha256(data.replace(written, BLANK.encode(), 1)).hexdigest()


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
        in_tree = trees.tree_from_data(entry["in_tree"])
        out_tree = trees.tree_from_data(entry["out_tree"])
        program = stored_program(entry["program"], arrays)
        leaves, values = (
            (in_tree.num_leaves, out_tree.num_leaves),
            (len(program.in_avals), len(program.out_avals)),
        )
        if leaves != values:
            raise CorruptExportError(
                f"the exported function is unsound: its trees have {leaves} leaves, its program "
                f"has {values} inputs and results"
            )
        later = Exported(
            str(entry["name"]),
            in_tree,
            out_tree,
            program,
            tuple(document["platforms"]),
            tuple(DisabledSafetyCheck(c) for c in document["disabled_checks"]),
            None if following is None else (lambda _, following=following: following),
            layout_from_data(entry.get("layout")),
        )
    if later is None:
        raise CorruptExportError(f"{_NOT_ONE}: it has no program")
    return later
