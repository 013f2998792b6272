"""Pages that show the source files, with a place to jump to in front of each public definition."""

from __future__ import annotations

import inspect
from collections import defaultdict
from pathlib import Path

from docstrings import Entry


class SourcePages:
    """Gathers which lines of which files are linked to."""

    def __init__(self, docs: Path) -> None:
        self.docs = docs
        self.root = docs.parent
        self.lines: dict[Path, dict[int, str]] = defaultdict(dict)

    def address(self, entry: Entry) -> str | None:
        """A link to the definition, or None for what Python does not know the source of."""
        try:
            file = inspect.getsourcefile(entry.unwrapped)
            _, line = inspect.getsourcelines(entry.unwrapped)
        except (TypeError, OSError):
            return None
        path = Path(str(file))
        if not path.is_relative_to(self.root):
            return None
        # With the line, for labels do not tell `Optimizer` from `optimizer`.
        label = self.lines[path].setdefault(
            max(line, 1), f"source-{path.stem}-{entry.path}-{line}".lower()
        )
        return f"#{label}"

    def pages(self) -> dict[Path, str]:
        """The text of each page, by its path."""
        return {self._page(path): self._text(path) for path in self.lines}

    def _page(self, path: Path) -> Path:
        return self.docs / "sources" / path.relative_to(self.root).with_suffix(".md")

    def _text(self, path: Path) -> str:
        name = path.relative_to(self.root).as_posix()
        up = "../" * (len(Path(name).parts) + 1)
        total = len(path.read_text(encoding="utf-8").splitlines())
        marks = {1: None, **self.lines[path]} if 1 not in self.lines[path] else self.lines[path]
        starts = sorted(marks)
        parts = ["---\norphan: true\nnosearch: true\n---", f"# `{name}`"]
        for start, following in zip(starts, [*starts[1:], total + 1], strict=True):
            label = marks[start]
            if label is not None:
                parts.append(f"({label})=")
            parts.append(
                f"```{{literalinclude}} {up}{name}\n:language: python\n"
                f":lines: {start}-{following - 1}\n:lineno-match:\n```"
            )
        return "\n\n".join(parts) + "\n"
