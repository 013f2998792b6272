"""Docstrings as Markdown for MyST, in the directives of Sphinx's Python domain."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from foreign import DESCRIBED

_CODE = re.compile(r"(`+[^`]*`+)")
_SPECIAL = re.compile(r"([*<>$\\|\[\]{}])")


def escape(text: str) -> str:
    """Text in which only `code` means something to Markdown, as docstrings are written."""
    parts = _CODE.split(text)
    return "".join(p if i % 2 else _SPECIAL.sub(r"\\\1", p) for i, p in enumerate(parts))


def _paragraph(text: str) -> str:
    if text.startswith(">>>"):
        return f"```pycon\n{text}\n```"
    if text.startswith("    "):
        return f"```text\n{inspect.cleandoc(text)}\n```"
    return escape(text)


def to_markdown(docstring: str) -> str:
    """The docstring with its examples fenced and its other text escaped."""
    text = inspect.cleandoc(docstring)
    paragraphs = [block for block in re.split(r"\n\s*\n", text) if block.strip()]
    return "\n\n".join(_paragraph(block) for block in paragraphs)


@dataclass
class Entry:
    """A public name."""

    name: str
    offered_by: str
    value: Any
    module_summary: str

    @property
    def path(self) -> str:
        return f"{self.offered_by}.{self.name}"

    @cached_property
    def unwrapped(self) -> Any:
        """What the source of is looked for: the function under wrappers."""
        return inspect.unwrap(self.value) if callable(self.value) else self.value

    @property
    def module(self) -> str:
        """The module that defines the value."""
        return getattr(self.unwrapped, "__module__", None) or self.offered_by

    @property
    def documented(self) -> bool:
        """Whether there is a text for the value itself, and not only that of its type."""
        if self.path in DESCRIBED:
            return True
        docstring = getattr(self.value, "__doc__", None)
        return bool(docstring) and (
            isinstance(self.value, type) or docstring != type(self.value).__doc__
        )

    @property
    def docstring(self) -> str:
        if self.path in DESCRIBED:
            return inspect.cleandoc(DESCRIBED[self.path])
        return inspect.cleandoc(self.value.__doc__) if self.documented else ""

    @property
    def summary(self) -> str:
        """The first sentence, on a line, for a table."""
        if not self.documented:
            return f"{escape(repr(self.value))}" if _is_plain(self.value) else ""
        first = " ".join(self.docstring.split("\n\n")[0].split())
        return escape(re.split(r"(?<=[.:]) ", first)[0])


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str | complex | type(None))


def _default(value: Any) -> str:
    text = repr(value)
    return text if _is_plain(value) or re.fullmatch(r"[\w.()\[\], '-]+", text) else "..."


def signature(value: Any) -> str:
    """The parameters with their defaults, without types; "(...)" where Python cannot tell."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return "(...)"
    shown = [
        str(p.replace(annotation=p.empty, default=p.empty))
        + ("" if p.default is p.empty else f"={_default(p.default)}")
        for p in parameters
    ]
    kinds = [p.kind for p in parameters]
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        shown.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), "/")
        kinds.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), inspect.Parameter.VAR_KEYWORD)
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    return f"({', '.join(shown)})"


def _directive(kind: str, heading: str, body: str, fence: str) -> str:
    return f"{fence}{{py:{kind}}} {heading}\n{body}\n{fence}"


def _methods(entry: Entry) -> list[str]:
    """The documented methods and properties that a class defines itself."""
    shown = []
    for name, member in vars(entry.value).items():
        if name.startswith("_") or not getattr(member, "__doc__", None):
            continue
        if isinstance(member, property):
            shown.append(("property", f"{entry.path}.{name}", member.__doc__))
        elif callable(member) or isinstance(member, classmethod | staticmethod):
            function = getattr(entry.value, name)
            heading = f"{entry.path}.{name}{signature(function)}"
            shown.append(("method", heading, member.__doc__))
    return [_directive(k, h, to_markdown(d or ""), "`" * 4) for k, h, d in shown]


def render(entry: Entry, source: str | None) -> str:
    """The entry as a directive, with a link to its source where that can be told."""
    kind = "data"
    heading = entry.path
    if inspect.isclass(entry.value):
        is_error = issubclass(entry.value, BaseException)
        kind, heading = ("exception" if is_error else "class"), entry.path
        heading += "" if is_error else signature(entry.value)
    elif callable(entry.value):
        kind, heading = "function", entry.path + signature(entry.value)
    body = to_markdown(entry.docstring) if entry.documented else entry.summary
    if source is not None:
        body += f"\n\n[Source]({source})"
    if inspect.isclass(entry.value):
        body = "\n\n".join([body, *_methods(entry)])
    return _directive(kind, heading, body, "`" * 6)
