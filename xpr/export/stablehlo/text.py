"""StableHLO text as a module: MLIR's bindings parse it and write bytecode, which is read here."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
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
    return read_bytecode(remembered("text 1", text, lambda: _bytecode(text, name)))


def remembered(kind: str, text: str, compute: Callable[[], bytes]) -> bytes:
    """What is computed from a text, from the cache of compiled programs where it is there."""
    from xpr.lowering.cache import default_cache  # noqa: PLC0415  only text needs it

    cache = default_cache()
    head = f"StableHLO {kind}\0".encode()
    key = hashlib.sha256(head + text.encode("utf-8", "surrogateescape")).digest()
    found = None if cache is None else cache.dispatches.get(key)
    if found is None:
        found = compute()
        if cache is not None:
            cache.dispatches.put(key, found)
    return found


def parse(text: str, name: str = "<text>") -> Any:
    """A text as a module of MLIR's bindings; StableHLOError if it is none."""
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
    return parsed


def _bytecode(text: str, name: str) -> bytes:
    """MLIR's bytecode of a text."""
    return bytecode_of(parse(text, name))


def bytecode_of(parsed: Any) -> bytes:
    """MLIR's bytecode of a module of its bindings."""
    written = io.BytesIO()
    parsed.operation.write_bytecode(written)
    return written.getvalue()


def _one_message(error: Exception) -> str:
    """The first message of MLIR's, with its place."""
    lines = [line.strip() for line in str(error).splitlines() if "error:" in line]
    found = lines[0] if lines else str(error)
    return re.sub(r'^error: "?-"?:', "line ", found).replace("error: ", "")
