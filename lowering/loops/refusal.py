"""Why a loop is not taken."""

from __future__ import annotations

import logging

from xpr.core.config import state
from xpr.core.source_info import SourceInfo
from xpr.lowering.emitter import Emitter

_LOGGER = logging.getLogger("xpr.loops")


class NotInMemory(Exception):
    """The loop has an operation, a type or a size for which this form does not do."""

    def __init__(self, reason: str, source: SourceInfo | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.source = source

    def __str__(self) -> str:
        if self.source is None or self.source.code is None:
            return self.reason
        line, _ = self.source.position()
        return f"{self.reason} at {self.source.filename}:{line}"


def explain(ctx: Emitter, what: str, refused: NotInMemory) -> None:
    """Tells why a loop is a series of dispatches, where the setting `explain` asks for it."""
    if state.explain != "loops":
        return
    line, _ = ctx.source.position()
    _LOGGER.warning("%s at %s:%d is not one dispatch: %s", what, ctx.source.filename, line, refused)
