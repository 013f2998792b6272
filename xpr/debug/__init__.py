"""Looking into programs while they run: JAX's module of that name."""

from __future__ import annotations

from xpr.accuracy.explaining import ErrorExplanation as ErrorExplanation
from xpr.accuracy.explaining import explain_error as explain_error
from xpr.debug.breakpoints import breakpoint as breakpoint
from xpr.debug.callbacks import debug_callback as callback
from xpr.debug.callbacks import debug_log as log
from xpr.debug.callbacks import debug_print as print
from xpr.debug.explaining import Explanation as Explanation
from xpr.debug.explaining import explain as explain
from xpr.debug.graphs.drawing import Drawing as Drawing
from xpr.debug.graphs.drawing import draw as draw
from xpr.debug.shardings import draw_array_sharding as draw_array_sharding
from xpr.debug.shardings import draw_sharding as draw_sharding
from xpr.debug.shardings import inspect_array_sharding as inspect_array_sharding
from xpr.debug.shardings import visualize_array_sharding as visualize_array_sharding
from xpr.debug.shardings import visualize_sharding as visualize_sharding

__all__ = [
    "Drawing",
    "ErrorExplanation",
    "Explanation",
    "breakpoint",
    "callback",
    "draw",
    "draw_array_sharding",
    "draw_sharding",
    "explain",
    "explain_error",
    "inspect_array_sharding",
    "log",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]
