"""The main module of processes that a program under `python -m xpr.compat` starts.

Python runs it in place of the program's main module, and takes over the names that it defines.
"""

from __future__ import annotations

from xpr.compat.running import run_in_child

if __name__ == "__mp_main__":
    globals().update(
        {k: v for k, v in run_in_child().items() if not (k.startswith("__") and k.endswith("__"))}
    )
