"""StableHLO text as a module: MLIR's bindings parse it and write bytecode, which is read here."""

from __future__ import annotations

import hashlib
import io
import re
from typing import Any

from xpr.export.stablehlo.bytecode import read_bytecode
from xpr.export.stablehlo.errors import StableHLOError
from xpr.export.stablehlo.form import Module
from xpr.export.stablehlo.sdy_generic import generic

_CONTEXTS: list[Any] = []


def _ir() -> Any:
    try:
        from iree.compiler import ir  # noqa: PLC0415  large, and only text needs it
    except ImportError as error:
        raise StableHLOError(
            "StableHLO text is parsed by MLIR's bindings, which are not installed: install "
            "iree-base-compiler, or pass a portable artifact"
        ) from error
    return ir


def read_text(text: str, name: str = "<text>") -> Module:
    """The module that MLIR text describes; StableHLOError, with line and column, if none.

    The bytecode that MLIR makes of it is kept in the cache of compiled programs, so that another
    process reads the same text without MLIR.
    """
    from xpr.lowering.cache import default_cache  # noqa: PLC0415  only text needs it

    cache = default_cache()
    key = hashlib.sha256(b"StableHLO text 1\0" + text.encode("utf-8", "surrogateescape")).digest()
    found = None if cache is None else cache.dispatches.get(key)
    if found is None:
        found = _bytecode(text, name)
        if cache is not None:
            cache.dispatches.put(key, found)
    return read_bytecode(found)


def _bytecode(text: str, name: str) -> bytes:
    """MLIR's bytecode of a text."""
    ir = _ir()
    if not _CONTEXTS:
        context = ir.Context()
        context.allow_unregistered_dialects = True
        _CONTEXTS.append(context)
    try:
        parsed = ir.Module.parse(generic(text), _CONTEXTS[0])
        if not parsed.operation.verify():
            raise StableHLOError(f"{name} is not a sound module")
    except ir.MLIRError as error:
        raise StableHLOError(f"{name} is not StableHLO: {_one_message(error)}") from error
    written = io.BytesIO()
    parsed.operation.write_bytecode(written)
    return written.getvalue()


def _one_message(error: Exception) -> str:
    """The first message of MLIR's, with its place."""
    lines = [line.strip() for line in str(error).splitlines() if "error:" in line]
    found = lines[0] if lines else str(error)
    return re.sub(r'^error: "?-"?:', "line ", found).replace("error: ", "")
