"""JAX's name for xpr: programs that say `import jax` run on xpr, unchanged.

- `import xpr.compat.jax`, before anything imports `jax`, makes `jax` and its submodules name xpr
- `python -m xpr.compat script.py`, `-m module`, `-c code` run programs that stay untouched
- `%load_ext xpr.compat` does so in a notebook, `-p xpr.compat.pytest` under pytest

What there is not raises ImportError or AttributeError: see docs/jax_compat.md.
"""

from __future__ import annotations

import importlib
from typing import Any


def load_ipython_extension(ipython: Any) -> None:
    """Called by `%load_ext xpr.compat`."""
    del ipython  # nothing of the shell changes
    importlib.import_module("xpr.compat.jax")
