"""Draws the life of a call for the page about the layout: `docs/_static/life_of_a_call.svg`.

Steps stand in a column, in the order in which a first call goes through them; arrows beside the
column are the ways of later calls and later processes, which leave steps out.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

OUT = Path(__file__).parents[1] / "_static" / "life_of_a_call.svg"
WIDTH, STEP, TOP = 730, 78, 64
BOX_LEFT, BOX_WIDTH, BOX_HEIGHT = 210, 300, 50
MIDDLE = BOX_LEFT + BOX_WIDTH / 2

STEPS = (
    ("key", "types, structure, static values, device", "xpr/dispatch"),
    ("trace", "the function runs on tracers: a jaxpr", "xpr/core"),
    ("transform", "derivatives, batches, shards: another jaxpr", "xpr/transforms"),
    ("lower", "one rule per primitive: a graph", "lowering/rules"),
    ("guard", "passes against what IREE does wrong", "lowering/passes"),
    ("print", "the same program, the same text", "lowering/ir"),
    ("digest", "of text, flags, target and version", "lowering/cache.py"),
    ("compile", "in a helper process, dispatch by dispatch", "lowering/iree"),
    ("load", "machine code and its schedule", "runtimes"),
    ("run", "buffers by reference; results are wrapped", "runtimes"),
)
# From step, to step, how far out the arrow runs, what it says.
SHORT_WAYS = (
    ("key", "run", 190, ("the second call", "with such types")),
    ("digest", "load", 60, ("compiled by", "an earlier process")),
)


def _top(name: str) -> float:
    return TOP + STEP * [step[0] for step in STEPS].index(name)


def _text(x: float, y: float, words: str, kind: str, anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _box(name: str, what: str, folder: str) -> list[str]:
    top = _top(name)
    return [
        f'<rect x="{BOX_LEFT}" y="{top:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8"/>',
        _text(MIDDLE, top + 21, name, "name"),
        _text(MIDDLE, top + 39, what, "what"),
        _text(BOX_LEFT - 14, top + 30, folder, "folder", "end"),
    ]


def _short_way(start: str, end: str, out: float, words: tuple[str, ...]) -> list[str]:
    right = BOX_LEFT + BOX_WIDTH
    y0, y1 = (_top(name) + BOX_HEIGHT / 2 for name in (start, end))
    path = f"M {right} {y0:g} h {out - 12:g} q 12 0 12 12 V {y1 - 12:g} q 0 12 -12 12 H {right + 3}"
    middle = (y0 + y1) / 2 - 8 * (len(words) - 1)
    x = right + 68
    lines = [_text(x, middle + 17 * i, line, "note", "start") for i, line in enumerate(words)]
    return [f'<path d="{path}" class="way"/>', *lines]


def drawing() -> str:
    """The picture as SVG."""
    height = TOP + STEP * len(STEPS) + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>The life of a call</title>",
        "<style>",
        "text { font-family: sans-serif; fill: #22303c; }",
        ".name { font-size: 16px; font-weight: bold; } .what { font-size: 12.5px; }",
        ".folder { font-size: 13px; font-family: monospace; fill: #5a6b7a; }",
        ".note { font-size: 13px; font-style: italic; }",
        "rect { fill: #eaf2f8; stroke: #3b7ea1; } .page { fill: #ffffff; stroke: none; }",
        ".way { fill: none; stroke: #3b7ea1; stroke-width: 1.6; marker-end: url(#head); }",
        "</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"',
        'markerHeight="7" orient="auto"><path d="M 0 0 L 8 4 L 0 8 z" fill="#3b7ea1"/>',
        "</marker></defs>",
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        _text(MIDDLE, 28, "f = xpr.jit(function);  f(x, y)", "folder"),
        f'<path d="M {MIDDLE:g} 36 V {TOP - 2}" class="way"/>',
    ]
    for step in STEPS:
        lines += _box(*step)
        start = _top(step[0]) + BOX_HEIGHT
        lines.append(f'<path d="M {MIDDLE:g} {start:g} v {STEP - BOX_HEIGHT - 2}" class="way"/>')
    for way in SHORT_WAYS:
        lines += _short_way(*way)
    lines.append(_text(MIDDLE, TOP + STEP * len(STEPS) + 18, "Array", "name"))
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    OUT.write_text(drawing(), encoding="utf-8")
