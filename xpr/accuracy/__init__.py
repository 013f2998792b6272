"""How far to trust numbers: bounds of errors, and the lines that lose digits."""

from __future__ import annotations

from xpr.accuracy.bars import ErrorBar as ErrorBar
from xpr.accuracy.bars import Uncertain as Uncertain
from xpr.accuracy.bars import error_bars as error_bars
from xpr.accuracy.bars import uncertain as uncertain
from xpr.accuracy.explaining import ErrorExplanation as ErrorExplanation
from xpr.accuracy.explaining import LostDigits as LostDigits
from xpr.accuracy.explaining import explain_error as explain_error

__all__ = [
    "ErrorBar",
    "ErrorExplanation",
    "LostDigits",
    "Uncertain",
    "error_bars",
    "explain_error",
    "uncertain",
]
