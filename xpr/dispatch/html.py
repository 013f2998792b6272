"""Arrays as HTML, for notebooks: tables of the last two axes, folded along the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

_EDGE = 4
"""Of a long axis as many are shown at either end."""
_FOLDED = 3
"""Of further axes as many are shown at either end: each is a table."""

_GAP = "…"

_STYLE = (
    "<style>.xpr-array table{margin:.2em 0;border-collapse:collapse}"
    ".xpr-array td{padding:.1em .6em;text-align:right}</style>"
)


def array_html(about: str, value: np.ndarray[Any, Any] | None) -> str:
    """A line about an array, and its values; None where this process has none."""
    head = f"<div><small>{escape(about)}</small></div>"
    if value is None or value.size == 0:
        return head
    return f'<div class="xpr-array">{_STYLE}{head}{"".join(_values(value, ()))}</div>'


def _values(value: np.ndarray[Any, Any], place: tuple[int, ...]) -> Iterator[str]:
    if value.ndim <= 2:
        yield _table(value.reshape((1,) * (2 - value.ndim) + value.shape))
        return
    for i in _ends(len(value), _FOLDED):
        if i is None:
            yield f"<div>{_GAP}</div>"
            continue
        here = (*place, i)
        yield f"<details{'' if any(here) else ' open'}><summary>"
        yield f"[{', '.join(map(str, here))}]</summary>"
        yield from _values(value[i], here)
        yield "</details>"


def _table(value: np.ndarray[Any, Any]) -> str:
    rows, columns = (_ends(n, _EDGE) for n in value.shape)
    lines = [
        "".join(
            f"<td>{_GAP if i is None or j is None else escape(_number(value[i, j]))}</td>"
            for j in columns
        )
        for i in rows
    ]
    return f"<table><tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody></table>"


def _ends(size: int, edge: int) -> Sequence[int | None]:
    """The indices that are shown, None for those that are left out."""
    if size <= 2 * edge + 1:
        return range(size)
    return [*range(edge), None, *range(size - edge, size)]


def _number(value: Any) -> str:
    """As NumPy prints it, with the precision that it is set to."""
    return np.array2string(np.asarray(value))
