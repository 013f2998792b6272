"""Pictures of shardings: boxes of text, coloured where a terminal can, and plots.

The layout of the text is that of JAX: an array has 10 lines (times `scale`) and is as wide as its
shape says, for characters are 2.5 times as high as wide. Names are never cut off, as JAX does with
them in narrow columns.
"""

from __future__ import annotations

import colorsys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xpr.sharding import Sharding

_LINES = 10
_CHARACTER = 2.5  # how much higher than wide

ColorMap = Callable[[int], Sequence[float]]
"""The colour of the part of that number: red, green and blue from 0 to 1 (and more, ignored)."""


class Part(NamedTuple):
    """A part of an array of rank 1 or 2, and the devices that hold it."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    name: str


class Grid(NamedTuple):
    """The parts of an array in rows and columns."""

    height: int
    width: int
    parts: list[list[Part]]


def grid_of(function: str, shape: Sequence[int], sharding: Sharding) -> Grid:
    """The parts of an array of that shape; arrays of rank 1 are one row.

    Raises ValueError for other ranks than 1 and 2, and for shapes that do not divide evenly.
    """
    if len(shape) not in (1, 2):
        raise ValueError(
            f"`{function}` only works for shapes with 1 and 2 dimensions, got {tuple(shape)}"
        )
    held: dict[tuple[tuple[int, int], ...], list[Any]] = {}
    for device, index in sharding.devices_indices_map(tuple(shape)).items():
        box = tuple(s.indices(n)[:2] for s, n in zip(index, shape, strict=True))
        held.setdefault(box, []).append(device)
    full = (1, *shape) if len(shape) == 1 else tuple(shape)
    rows: dict[tuple[int, int], list[Part]] = {}
    for box in sorted(held):
        down, across = ((0, 1), *box) if len(shape) == 1 else box
        numbers = ",".join(str(n) for n in sorted(d.id for d in held[box]))
        name = f"{held[box][0].platform.upper()} {numbers}"
        rows.setdefault(down, []).append(Part(down, across, name))
    return Grid(full[0], full[1], list(rows.values()))


# ---- text


class Cells(NamedTuple):
    """The sizes of the cells of a picture, without what stands between them."""

    widths: list[int]
    above: int
    below: int


def cells_of(
    grid: Grid, rank: int, scale: float, min_width: int, max_width: int, lines: bool
) -> Cells:
    """How large each cell is; `lines` says whether lines are drawn between them.

    A picture that would be wider than `max_width` gets narrower columns, in which names are
    broken.
    """
    height = int(_LINES * scale)
    first = grid.width if rank == 1 else grid.height
    across = 1 if rank == 1 else grid.width
    width = int(height * across / max(first, 1))
    border = 2 if lines else 0
    columns = len(grid.parts[0])
    cell = min(max(int(width * _CHARACTER / columns), min_width), max_width) - border
    widths = [max(cell, *(len(row[j].name) for row in grid.parts)) for j in range(columns)]
    room = max_width - (columns + 1 if lines else 0)
    if sum(widths) > room:
        widths = [max(room // columns + (j < room % columns), 1) for j in range(columns)]
    lines_of_part = 1 if rank == 1 else int(height / len(grid.parts))
    above, extra = divmod(lines_of_part - border, 2)
    return Cells(widths, max(above, 0), max(above + extra, 0))


def cell_lines(name: str, width: int, cells: Cells) -> list[str]:
    """The lines of one cell: its name in the middle."""
    text = textwrap.wrap(name, width) if len(name) > width else [name]
    middle = [" " * ((width - len(t)) // 2) + t for t in text]
    return [line.ljust(width) for line in (*[""] * cells.above, *middle, *[""] * cells.below)]


def with_lines(grid: Grid, cells: Cells) -> str:
    """The picture as text, with lines between the cells."""

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * w for w in cells.widths) + right

    blocks = []
    for row in grid.parts:
        lines = zip(*_columns(row, cells), strict=True)
        blocks.append(["│" + "│".join(parts) + "│" for parts in lines])
    out = [rule("┌", "┬", "┐")]
    for i, block in enumerate(blocks):
        out += [rule("├", "┼", "┤")] if i else []
        out += block
    return "\n".join([*out, rule("└", "┴", "┘")])


def _columns(row: list[Part], cells: Cells) -> list[list[str]]:
    """The lines of each cell of a row, as many for each of them."""
    columns = [cell_lines(p.name, w, cells) for p, w in zip(row, cells.widths, strict=True)]
    most = max(map(len, columns))
    return [c + [" " * len(c[0])] * (most - len(c)) for c in columns]


def colors_of(grid: Grid, color_map: ColorMap | None) -> list[list[tuple[float, float, float]]]:
    """The colour of each part; without a map, hues that are far from one another."""
    columns = len(grid.parts[0])
    count = columns * len(grid.parts)
    found = []
    for i in range(len(grid.parts)):
        row = []
        for j in range(columns):
            number = i * columns + j
            if color_map is None:
                row.append(colorsys.hsv_to_rgb(number / count, 0.45, 0.9))
            else:
                r, g, b = list(color_map(number))[:3]
                row.append((float(r), float(g), float(b)))
        found.append(row)
    return found


def is_dark(color: tuple[float, float, float]) -> bool:
    """Whether white text is easier to read on that colour than black text."""
    r, g, b = color
    return 0.299 * r + 0.587 * g + 0.114 * b < 0.5


def in_color(
    grid: Grid, cells: Cells, colors: list[list[tuple[float, float, float]]]
) -> list[tuple[str, str]]:
    """The picture as pieces of text, each with a style that `rich` understands.

    Each part has a background of its own; there are no lines between them.
    """
    out: list[tuple[str, str]] = []
    for row, shades in zip(grid.parts, colors, strict=True):
        columns = _columns(row, cells)
        styles = [
            f"{'#ffffff' if is_dark(c) else '#000000'} on "
            f"rgb({','.join(str(int(255 * v)) for v in c)})"
            for c in shades
        ]
        for parts in zip(*columns, strict=True):
            out += [*zip(parts, styles, strict=True), ("\n", "")]
    return out


# ---- plots


def plot(grid: Grid, rank: int, ax: Any, color_map: ColorMap | None) -> Any:
    """Draws the parts on `ax`, or on new axes of matplotlib, to the scale of the array."""
    try:
        from matplotlib import pyplot  # noqa: PLC0415  matplotlib is optional
        from matplotlib.patches import Rectangle  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "draw_sharding requires matplotlib: pip install 'xpr[viz]' or matplotlib"
        ) from error
    if ax is None:
        _, ax = pyplot.subplots()
    for row, shades in zip(grid.parts, colors_of(grid, color_map), strict=True):
        for part, color in zip(row, shades, strict=True):
            (top, bottom), (left, right) = part.rows, part.columns
            size = (right - left, bottom - top)
            ax.add_patch(Rectangle((left, top), *size, facecolor=color, edgecolor="black"))
            ax.text(
                left + size[0] / 2,
                top + size[1] / 2,
                part.name,
                ha="center",
                va="center",
                color="white" if is_dark(color) else "black",
            )
    ax.set_xlim(0, grid.width)
    ax.set_ylim(grid.height, 0)  # rows are counted from above
    ax.set_xlabel("axis 0" if rank == 1 else "axis 1")
    if rank == 1:
        ax.set_yticks([])
    else:
        ax.set_ylabel("axis 0")
    return ax
