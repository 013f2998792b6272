"""A colour for each dispatch, light enough for black text, and far from its neighbours'."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable

_TURN = 0.618034  # of the circle of hues, the golden ratio: no two of the first dozens are close


def colors_of(names: Iterable[str]) -> dict[str, str]:
    """The colours of names, in their order, as `#rrggbb`."""
    found = {}
    for i, name in enumerate(names):
        rgb = colorsys.hsv_to_rgb(0.55 + i * _TURN, 0.35, 0.98)
        found[name] = "#" + "".join(f"{round(255 * v):02x}" for v in rgb)
    return found
