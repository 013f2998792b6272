"""Puts the loader together as one file, to be copied beside a model.

    python -m xpr.runtimes.bundle.assemble            # writes one_file/bundle.py
    python -m xpr.runtimes.bundle.assemble --check    # tells whether it is current

The modules follow each other in the order of their imports. What they import of one another is
left out, everything else that they import stands once, at the top.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from xpr.runtimes.bundle import LOADER_FILE

_HERE = Path(__file__).resolve().parent
_RUNTIMES = _HERE.parent

PARTS = (
    "xpr.core.polynomials",
    "xpr.runtimes.shutdown",
    "xpr.runtimes.extension",
    *(
        f"xpr.runtimes.bundle.{name}"
        for name in (
            *("errors", "archive", "tensors", "arguments", "trees", "iree", "machine", "runner"),
            *("programs", "native_runner", "loader", "command"),
        )
    ),
)

_OTHER_PACKAGES = ("import ml_dtypes", "import numpy as np")

_HEADER = '''"""Runs exported bundles (`model.xpr`) with NumPy, ml_dtypes and IREE's runtime alone.

This one file is the whole loader: copy it beside a model and use it as a module or a program.
Where xpr is installed with its native part, that runs programs for the CPU, in place of IREE.

    python bundle.py model.xpr --input x.npy --output y.npy

Everything in a bundle is checked before a module is loaded, for a module for a CPU is native code
that can do whatever this process can: **run only bundles that you would run as a program.** Give
`hmac_key` or `public_key` to accept none but those that the owner of the key made.

Made by `python -m xpr.runtimes.bundle.assemble`: change the modules named below, not this file.
"""
'''

_FOOTER = """

if __name__ == "__main__":
    sys.exit(main())
"""


def source_of(module: str) -> str:
    """The text of a module of xpr's."""
    package, _, rest = module.removeprefix("xpr.").partition(".")
    folder = _RUNTIMES if package == "runtimes" else _RUNTIMES.parent / "xpr" / package
    if not folder.is_dir():  # an installed package, where runtimes is inside of xpr
        folder = _RUNTIMES.parent / package
    return (folder / rest.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")


def assemble() -> str:
    """The text of the one file. Raises ValueError where the modules do not fit into one."""
    plain: set[str] = set()
    named: dict[str, set[str]] = {}
    defined: dict[str, str] = {}
    bodies = []
    for module in PARTS:
        text = source_of(module)
        tree = ast.parse(text)
        lines = text.splitlines()
        for node in tree.body:
            if isinstance(node, ast.Import):
                plain.update(ast.unparse(alias) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                _note_import(module, node, named, defined)
            else:
                for name in _names(node):
                    if name in defined:
                        raise ValueError(f"{module} and {defined[name]} both define {name}")
                    defined[name] = module
        first = next(
            n for n in tree.body[1:] if not isinstance(n, ast.Import | ast.ImportFrom)
        )  # behind the docstring and the imports
        decorators = getattr(first, "decorator_list", [])
        start = min([first.lineno, *(d.lineno for d in decorators)])
        while lines[start - 2].startswith("#"):
            start -= 1
        heading = f"# ---- {module.replace('.', '/')}.py"
        bodies.append(f"\n\n{heading}\n\n\n" + "\n".join(lines[start - 1 :]).strip("\n") + "\n")
    imports = [f"import {name}" for name in sorted(plain)]
    froms = [f"from {m} import {', '.join(sorted(named[m]))}" for m in sorted(named)]
    standard = [i for i in imports if i not in _OTHER_PACKAGES] + froms
    head = "\n".join(
        [_HEADER, "from __future__ import annotations", "", *standard, "", *_OTHER_PACKAGES]
    )
    return head + "".join(bodies) + _FOOTER


def _note_import(
    module: str, node: ast.ImportFrom, named: dict[str, set[str]], defined: dict[str, str]
) -> None:
    """Keeps an import of other packages, and checks one of a part, which must come before."""
    source = str(node.module)
    if source == "__future__":
        return
    if not source.startswith("xpr"):
        named.setdefault(source, set()).update(ast.unparse(alias) for alias in node.names)
        return
    for alias in node.names:
        if alias.asname is not None or defined.get(alias.name) != source:
            raise ValueError(
                f"{module} imports {ast.unparse(alias)} of {source}: it must be defined in an "
                "earlier part, and keep its name"
            )


def _names(node: ast.stmt) -> list[str]:
    """The names that a statement at the top level of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    found = [n for target in targets if target is not None for n in ast.walk(target)]
    return [n.id for n in found if isinstance(n, ast.Name)]


def main(arguments: list[str]) -> int:
    """Writes the file, or with `--check` says whether it is current; the exit status."""
    text = assemble()
    if "--check" in arguments:
        current = LOADER_FILE.is_file() and LOADER_FILE.read_text(encoding="utf-8") == text
        print(f"{LOADER_FILE.name} is {'current' if current else 'not current'}")
        return 0 if current else 1
    LOADER_FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
