"""Writes the reference when the site is built: a page for each family of public names.

The names are those that the public modules list; what is said of them is their docstrings, which
are Markdown with examples for doctest. The pages lie in `reference/`, those that show the sources
in `sources/`; both are made anew at each build and belong to no commit.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from docstrings import Entry, render
from public_names import MODULES, find_entries
from source_pages import SourcePages
from sphinx.application import Sphinx

TITLES = {"xpr": "Transformations, arrays and devices"}


def write_if_changed(path: Path, text: str) -> None:
    """Writes where something changed: Sphinx reads again what is newer than its last build."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _family(entry: Entry, module: str) -> str:
    """The page of an entry: the file that defines it, or the module's own page."""
    if entry.module.startswith("xpr.") and entry.module != module:
        return entry.module.rsplit(".", 1)[-1].strip("_")
    return "others"


def _module_pages(module: str, entries: list[Entry], sources: SourcePages) -> dict[str, str]:
    """The text of each page of a module, by its name."""
    families: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        families[_family(entry, module)].append(entry)
    # A small module has one page.
    if len(entries) <= 45:
        families = defaultdict(list, {"": entries})
    pages = {}
    for family, members in families.items():
        if family:
            title = f"{module}: {family.replace('_', ' ')}"
            body = "\n\n".join(render(entry, sources.address(entry)) for entry in members)
            pages[f"{module}/{family}"] = f"# {title}\n\n{body}\n"
    lines = [f"# {module}", ""]
    summary = entries[0].module_summary if entries else ""
    lines += [summary, "", "| name | |", "| --- | --- |"]
    lines += [f"| {{py:obj}}`{entry.name} <{entry.path}>` | {entry.summary} |" for entry in entries]
    if "" in families:
        lines += ["", *(render(entry, sources.address(entry)) + "\n" for entry in entries)]
    else:
        lines += ["", "```{toctree}", ":hidden:", ""]
        lines += [*sorted(pages), "```"]
    pages[module] = "\n".join(lines) + "\n"
    return pages


def write_reference(app: Sphinx) -> None:
    """Writes all pages; those of names that are gone are removed."""
    source = Path(app.srcdir)
    folder = source / "reference"
    sources = SourcePages(source)
    found = find_entries()
    written = set()
    for module in MODULES:
        for name, text in _module_pages(module, found[module], sources).items():
            write_if_changed(folder / f"{name}.md", text)
            written.add(folder / f"{name}.md")
    index = (source / "_ext" / "reference_index.md").read_text(encoding="utf-8")
    write_if_changed(folder / "index.md", index.replace("MODULES", "\n".join(MODULES)))
    written.add(folder / "index.md")
    for path, text in sources.pages().items():
        write_if_changed(path, text)
        written.add(path)
    for old in [*folder.rglob("*.md"), *(source / "sources").rglob("*.md")]:
        if old not in written:
            old.unlink()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
