"""The ratios of a table as a picture: ``python -m benchmarks.programs.plot TABLE.md PICTURE.svg``.

The table is what ``python -m benchmarks.programs`` prints, wherever it stands in the file.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

_ROW = re.compile(r"\| ([^|]+) \| (\d+) \| .* s \| .* s \| .* ms \| .* ms \| ([\d.]+) \|$")
_LEFT, _RIGHT, _HEIGHT, _WIDTH = 170, 40, 15, 720
_LOW, _HIGH = 0.02, 2.0
_MARKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def ratios_of(text: str) -> dict[str, float]:
    """The ratios by program in a file with such a table."""
    found = (_ROW.match(line) for line in text.splitlines())
    return {m[1]: float(m[3]) for m in found if m}


def _at(ratio: float) -> float:
    part = math.log(min(max(ratio, _LOW), _HIGH) / _LOW) / math.log(_HIGH / _LOW)
    return _LEFT + part * (_WIDTH - _LEFT - _RIGHT)


def ratios_svg(ratios: dict[str, float]) -> str:
    """Bars from 1 on a logarithmic scale, the shortest times first."""
    rows = sorted(ratios.items(), key=lambda r: r[1])
    bottom = 24 + _HEIGHT * len(rows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 24}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{bottom + 24}" fill="white"/>',
    ]
    for mark in _MARKS:
        x, colour = _at(mark), "#333" if mark == 1.0 else "#ccc"
        out.append(f'<path d="M{x:.1f} 18V{bottom}" stroke="{colour}"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{mark:g}</text>')
    for k, (name, ratio) in enumerate(rows):
        y = 24 + k * _HEIGHT
        ends = sorted((_at(ratio), _at(1.0)))
        colour = "#3a7d44" if ratio <= 1.0 else "#b3402a"
        out += [
            f'<text x="{_LEFT - 6}" y="{y + 9}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{ends[0]:.1f}" y="{y}" width="{ends[1] - ends[0]:.1f}" '
            f'height="{_HEIGHT - 4}" fill="{colour}"/>',
            f'<text x="{ends[1] + 4:.1f}" y="{y + 9}">{ratio:.2f}</text>',
        ]
    out.append(f'<text x="{_LEFT}" y="12">time of xpr / time of JAX</text></svg>')
    return "\n".join(out) + "\n"


def main(arguments: Sequence[str]) -> None:
    table, picture = map(Path, arguments)
    ratios = ratios_of(table.read_text(encoding="utf-8"))
    picture.write_text(ratios_svg(ratios), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
