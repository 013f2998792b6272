"""A small pretty printer after Wadler's "A prettier printer" (2003)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """Characters, which a terminal may show in the style "keyword" or "type"."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Break:
    """A line break, or `flat` when its group fits on the line."""

    flat: str = " "


@dataclass(frozen=True)
class Concat:
    parts: tuple[Doc, ...]


@dataclass(frozen=True)
class Nest:
    indent: int
    doc: Doc


@dataclass(frozen=True)
class Group:
    """Printed on one line when it fits, else with every break of its own taken."""

    doc: Doc


@dataclass(frozen=True)
class Note:
    """A remark, which is printed behind the line that it stands in, and has no width."""

    text: str


Doc = Text | Break | Concat | Nest | Group | Note


def concat(*parts: Doc | str) -> Doc:
    return Concat(tuple(Text(p) if isinstance(p, str) else p for p in parts))


def join(separator: Doc, parts: Iterable[Doc]) -> Doc:
    out: list[Doc] = []
    for part in parts:
        if out:
            out.append(separator)
        out.append(part)
    return Concat(tuple(out))


# The codes of ANSI that begin and end each style, those that JAX prints.
_STYLES = {"": ("", ""), "keyword": ("\x1b[34;1m", "\x1b[39;22m"), "type": ("\x1b[35m", "\x1b[39m")}


_ESCAPE = re.compile(r"\x1b\[[\d;]*m")


def _fits(doc: Doc, room: int) -> bool:
    todo = [doc]
    while todo:
        item = todo.pop()
        match item:
            case Text(text, _):
                if "\n" in text:
                    return False
                room -= len(text)
            case Break(flat):
                room -= len(flat)
            case Concat(parts):
                todo.extend(reversed(parts))
            case Nest(_, inner) | Group(inner):
                todo.append(inner)
            case Note():
                pass
        if room < 0:
            return False
    return True


def render(doc: Doc, width: int = 80, use_color: bool = False) -> str:
    """The text of `doc` in lines of at most `width` columns where breaks allow it."""
    out: list[str] = []
    notes: dict[int, list[str]] = {}
    current = ""

    def write(text: str, style: str = "") -> None:
        nonlocal current
        if use_color and style != current:
            out.append(_STYLES[current][1] + _STYLES[style][0])
            current = style
        out.append(text)

    line = column = 0
    todo: list[tuple[int, bool, Doc]] = [(0, False, doc)]
    while todo:
        indent, flat, item = todo.pop()
        match item:
            case Text(text, style):
                write(text, style)
                line += text.count("\n")
                column = len(text) - text.rfind("\n") - 1 if "\n" in text else column + len(text)
            case Break(flat_text):
                if flat:
                    write(flat_text)
                else:
                    out.append("\n" + " " * indent)  # a style may go on behind it
                    line += 1
                column = column + len(flat_text) if flat else indent
            case Concat(parts):
                todo.extend((indent, flat, p) for p in reversed(parts))
            case Nest(more, inner):
                todo.append((indent + more, flat, inner))
            case Group(inner):
                todo.append((indent, flat or _fits(inner, width - column), inner))
            case Note(text):
                notes.setdefault(line, []).append(text)
    write("")
    return _annotated("".join(out), notes, use_color) if notes else "".join(out)


def _annotated(text: str, notes: dict[int, list[str]], use_color: bool) -> str:
    """The text with the notes of its lines in a column behind the longest of these."""
    dim, bright = ("\x1b[2m", "\x1b[22m") if use_color else ("", "")
    lines = text.split("\n")
    lengths = {n: len(_ESCAPE.sub("", lines[n])) for n in notes}
    column = max(lengths.values())
    out = []
    for n, line in enumerate(lines):
        first, *more = notes.get(n, [""])
        gap = " " * (column - lengths.get(n, column))
        out.append(f"{line}{dim}{gap} # {first}{bright}" if first else line)
        out += [f"{dim}{' ' * column} # {note}{bright}" for note in more]
    return "\n".join(out)
