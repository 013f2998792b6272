"""`jax.extend.source_info_util`: the user's lines."""

from __future__ import annotations

from xpr.core.source_info import SourceInfo as SourceInfo
from xpr.core.source_info import current as current
from xpr.core.source_info import register_exclusion as register_exclusion


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """The file and line."""
    del num_frames  # xpr keeps one frame
    return str(source_info)


__all__ = ["SourceInfo", "current", "register_exclusion", "summarize"]
