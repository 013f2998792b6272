"""Recorded calls: written by `xpr.record`, run again by `xpr.replay`."""

from __future__ import annotations

from xpr.recording.calls import Recording as Recording
from xpr.recording.files import RecordingError as RecordingError
from xpr.recording.recorder import record as record
from xpr.recording.replaying import Replay as Replay
from xpr.recording.replaying import replay as replay
from xpr.recording.sentinel import sentinel as sentinel

__all__ = ["Recording", "RecordingError", "Replay", "record", "replay", "sentinel"]
