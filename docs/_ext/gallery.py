"""Writes the gallery when the site is built: a page for each program of `benchmarks/programs`.

A page shows the program's source, taken from its file, what it computes and where that is defined
(`gallery_texts.py`), and a picture (`gallery_pictures.py`). Programs are run by a process of its
own, and only where one of these files has changed (`gallery_run.py`).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gallery_pictures import SCENES
from gallery_texts import EXAMPLES, GROUPS, slug
from reference import write_if_changed
from sphinx.application import Sphinx

from benchmarks.programs.all_programs import PROGRAMS
from benchmarks.programs.program import Program

EXT = Path(__file__).parent
ROOT = EXT.parents[1]

INTRODUCTION = """# Gallery

Programs with loops: fields on grids, linear algebra, sequences, motion, small networks. Each is
written once, for any module like `numpy` and `lax`, compared with the same in NumPy, and measured
beside JAX ([benchmarks](../benchmarks.md)). The code on each page is that of the repository.
"""


class Module:
    """A file of programs, taken apart into what it defines."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text(encoding="utf-8")
        self.nodes: dict[str, ast.stmt] = {}
        for node in ast.parse(self.text).body:
            for name in _defined(node):
                self.nodes[name] = node

    def closure(self, names: set[str], known: set[str]) -> set[str]:
        """The definitions that these need, but those that are known already."""
        waiting, found = set(names) & set(self.nodes), set[str]()
        while waiting:
            name = waiting.pop()
            found.add(name)
            used = {n.id for n in ast.walk(self.nodes[name]) if isinstance(n, ast.Name)}
            waiting |= (used & set(self.nodes)) - found - known
        return found - known

    def source(self, names: set[str]) -> str:
        """The text of definitions, in the order of the file."""
        nodes = {id(self.nodes[n]): self.nodes[n] for n in names}
        ordered = sorted(nodes.values(), key=lambda node: node.lineno)
        return "\n\n\n".join(ast.get_source_segment(self.text, node) or "" for node in ordered)

    def argument(self, program: str, index: int) -> ast.expr | None:
        """An argument of the call that makes a program, where it is one with that name."""
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.Call) and len(node.args) > index:
                first = node.args[0]
                if isinstance(first, ast.Constant) and first.value == program:
                    return node.args[index]
        return None


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (part.id for part in parts if isinstance(part, ast.Name))


def _root(function: Callable[..., Any]) -> Callable[..., Any]:
    return _root(function.func) if isinstance(function, functools.partial) else function


def _top(function: Callable[..., Any]) -> str:
    """The definition of a file that a function is, or was made by."""
    return _root(function).__qualname__.split(".")[0]


@functools.cache
def _module(name: str) -> Module:
    return Module(ROOT / (name.replace(".", "/") + ".py"))


def page(program: Program, result: dict[str, Any]) -> str:
    """The page of a program; `result` is what `gallery_run.py` found."""
    example = EXAMPLES[program.name]
    traced = _root(program.traced)
    module = _module(traced.__module__)
    code = module.closure({_top(traced)}, set())
    parts = [f"# {example.title}", example.about]
    if program.name in SCENES:
        parts.append(
            f"```{{image}} pictures/{slug(program.name)}.png\n:alt: {example.title}\n"
            ":class: gallery-picture\n```"
        )
    parts += [
        "## The program",
        "`np` and `lax` are `xpr.numpy` and `xpr.lax`; with JAX's modules it is a program of JAX.",
        _python(module.source(code)),
        _call(program, traced, result),
        "## The same in NumPy",
        *_plain(program, module, code),
        f"The two differ by {result['difference']:.1g} at most, in float64.",
        "## Operands",
        *_operands(program, module, code),
        "## Definition",
        example.definition,
        "## Measured",
        f"```sh\n.venv/bin/python -m benchmarks.programs --only '{program.name}'\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _call(program: Program, traced: Callable[..., Any], result: dict[str, Any]) -> str:
    made = _top(traced)
    about = ", ".join(f"`{t}`" for t in result["operands"])
    gives = ", ".join(f"`{t}`" for t in result["results"])
    several = "operands" if len(result["operands"]) > 1 else "operand"
    return (
        f"`xpr.jit({made}(xpr.numpy, xpr.lax))` compiles it. Here the {several} "
        f"{'are' if several == 'operands' else 'is'} {about}, and it gives {gives}."
        if not made.startswith("_convolutions")
        else f"Here the operands are {about}, and it gives {gives}."
    )


def _plain(program: Program, module: Module, known: set[str]) -> Iterator[str]:
    plain = _root(program.plain)
    names = module.closure({_top(plain)}, known)
    if names:
        yield f"::::{{dropdown}} Show it\n{_python(module.source(names))}\n::::"
    else:
        yield f"NumPy has it: `{plain.__module__}.{plain.__name__}`."


def _operands(program: Program, module: Module, known: set[str]) -> Iterator[str]:
    yield "The benchmark's operands, of size n; `random` gives standard normal numbers."
    made = module.argument(program.name, 2)
    inputs = _root(program.inputs)
    if isinstance(made, ast.Lambda):
        yield _python(ast.get_source_segment(module.text, made) or "")
    else:
        yield _python(module.source(module.closure({_top(inputs)}, known)))


def _python(code: str) -> str:
    return f"```python\n{code}\n```"


def index() -> str:
    """The page with all programs as cards."""
    parts = [INTRODUCTION]
    for group in GROUPS:
        parts.append(f"## {group}\n\n::::{{grid}} 1 2 3 3\n:gutter: 3\n")
        parts += [_card(name) for name, example in EXAMPLES.items() if example.group == group]
        parts.append("::::\n")
    pages = "\n".join(slug(name) for name in EXAMPLES)
    parts.append(f"```{{toctree}}\n:hidden:\n\n{pages}\n```\n")
    return "\n".join(parts)


def _card(name: str) -> str:
    example = EXAMPLES[name]
    picture = f":img-top: pictures/{slug(name)}.png\n" if name in SCENES else ""
    # Of those without a picture the first sentence says what they are.
    text = "" if picture else example.about.split(". ")[0].rstrip(".") + "."
    return (
        f":::{{grid-item-card}} {example.title}\n:link: {slug(name)}\n:link-type: doc\n"
        f"{picture}{text}\n:::\n"
    )


def _digest() -> str:
    found = hashlib.sha256()
    folder = ROOT / "benchmarks" / "programs"
    for path in (*sorted(folder.glob("*.py")), *sorted(EXT.glob("gallery_*.py"))):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    found.update((ROOT / "xpr" / "version.py").read_bytes())
    return found.hexdigest()


def results(folder: Path) -> dict[str, Any]:
    """What the programs gave, with their pictures in `folder`; they run if need be."""
    mark, file = folder / "digest.txt", folder / "results.json"
    if not mark.exists() or mark.read_text(encoding="utf-8") != _digest():
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, EXT / "gallery_run.py", folder]
        subprocess.run(command, check=True, env=environment)
        mark.write_text(_digest(), encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))


def write_gallery(app: Sphinx) -> None:
    """Writes all pages; those of programs that are gone are removed."""
    folder = Path(app.srcdir) / "gallery"
    found = results(folder / "pictures")
    pages = {slug(p.name): page(p, found[p.name]) for p in PROGRAMS} | {"index": index()}
    for name, text in pages.items():
        write_if_changed(folder / f"{name}.md", text)
    for old in folder.glob("*.md"):
        if old.stem not in pages:
            old.unlink()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_gallery)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
