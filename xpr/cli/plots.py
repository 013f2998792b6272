"""`xpr bench --plot`: how long each call took, as a picture in SVG."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from html import escape

from xpr.cli.times import time_text

_WIDTH, _HEIGHT = 720, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 20, 40, 40
_MOST_POINTS = 2000


def times_svg(title: str, times: Sequence[float]) -> str:
    """The times of calls, in seconds, in the order of the calls; the line is their median.

    Of many calls every n-th is drawn. The scale goes from 0 to the time that one call of a hundred
    exceeds; longer ones are drawn at the upper edge, hollow.
    """
    median = statistics.median(times)
    top = sorted(times)[int(0.99 * (len(times) - 1))] * 1.1
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def y(seconds: float) -> float:
        return _TOP + height * (1 - min(seconds / top, 1.0))

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-size="12" '
        'font-family="Helvetica,Arial,sans-serif">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="14">{escape(title)}</text>',
    ]
    for part in range(5):
        seconds = top * part / 4
        out.append(
            f'<line x1="{_LEFT}" y1="{y(seconds):.1f}" x2="{_LEFT + width}" '
            f'y2="{y(seconds):.1f}" stroke="#dddddd"/>'
            f'<text x="{_LEFT - 6}" y="{y(seconds) + 4:.1f}" text-anchor="end">'
            f"{time_text(seconds) if part else '0'}</text>"
        )
    step = -(-len(times) // _MOST_POINTS)
    for i in range(0, len(times), step):
        x = _LEFT + width * (i + 0.5) / len(times)
        fill = "none" if times[i] > top else "#3b76b4"
        out.append(
            f'<circle cx="{x:.1f}" cy="{y(times[i]):.1f}" r="2" fill="{fill}" stroke="#3b76b4"/>'
        )
    out += [
        f'<line class="median" x1="{_LEFT}" y1="{y(median):.1f}" x2="{_LEFT + width}" '
        f'y2="{y(median):.1f}" stroke="#c03a2b" stroke-width="1.5"/>',
        f'<text x="{_LEFT + width}" y="{y(median) - 5:.1f}" text-anchor="end" fill="#c03a2b">'
        f"median {time_text(median)}</text>",
        f'<text x="{_LEFT + width / 2:.0f}" y="{_HEIGHT - 12}" text-anchor="middle">'
        f"{len(times):,} calls, in their order</text>",
        "</svg>",
    ]
    return "\n".join(out) + "\n"
