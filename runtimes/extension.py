"""The native part of xpr: the extension module `_native`, where it was built and is wanted.

Everything works without it, through IREE's own runtime; calls then take longer. `XPR_NATIVE`
decides: `1` asks for it, `calls` has IREE run the programs that it calls, `check` has programs run
both ways and compares the results bit by bit, and `0` leaves it alone. By default it is used where
it is, as `RUNS_PROGRAMS` says. Nobody else imports `_native`.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import PathFinder
from typing import Any

INTERFACE = 14
"""The number that the extension must have; one that was built from other sources is not used."""

RUNS_PROGRAMS = True
"""Whether the native part runs programs, and not only calls them, where `XPR_NATIVE` is not set."""

SHORT_COST = 2e4
"""Operations plus bytes of a program, a few hundred nanoseconds of work, up to which other threads
of Python may wait: to let them run meanwhile costs 50 ns."""

_CHOICES = ("", "0", "1", "calls", "check")


class Found:
    """The extension, or why there is none."""

    def __init__(self, module: Any, reason: str, choice: str = "") -> None:
        self.module = module
        self.reason = reason
        """Empty when there is one."""
        runs = choice in ("1", "check") or (choice == "" and RUNS_PROGRAMS)
        self.executor: Any = module if runs else None
        """The extension where it runs programs."""
        self.checks = choice == "check"
        """Whether programs are to run both ways."""

    def describe(self) -> str:
        """One line for reports."""
        if self.module is None:
            return f"not used: {self.reason}"
        how = ", checked against IREE" if self.checks else ""
        if self.executor is None:
            how = ", programs are run by IREE"
        return f"{self.module.build_info()}{how}"


def find(choice: str) -> Found:
    """What `XPR_NATIVE=choice` gives.

    Raises ValueError for a choice that does not exist, and ImportError when the extension is asked
    for and cannot be had.
    """
    if choice not in _CHOICES:
        raise ValueError(f"XPR_NATIVE must be 0, 1, calls or check, got {choice!r}")
    if choice == "0":
        return Found(None, "XPR_NATIVE=0")
    module, reason = None, ""
    try:
        module = _extension()
    except ImportError as error:
        reason = f"it was not built here ({error})"
    else:
        if module.interface != INTERFACE:
            reason = "it was built from other sources; install xpr again, or build it anew"
            module = None
    if module is None and choice:
        raise ImportError(f"XPR_NATIVE={choice} asks for the native part of xpr, but {reason}")
    return Found(module, reason, choice)


_EXTENSION = "xpr.runtimes._native"


def _extension() -> Any:
    """The extension, which needs nothing of xpr; ImportError where there is none.

    The loader of bundles uses it, too, in processes that do not import xpr: for these the file is
    looked for where xpr is installed.
    """
    if "xpr" in sys.modules or _EXTENSION in sys.modules:
        return importlib.import_module(_EXTENSION)
    from importlib.util import find_spec, module_from_spec  # noqa: PLC0415  bundles need them

    package = find_spec("xpr")
    if package is None or package.origin is None:
        raise ImportError("xpr is not installed")
    spec = PathFinder.find_spec(
        _EXTENSION, [os.path.join(os.path.dirname(package.origin), "runtimes")]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no module named {_EXTENSION}")
    # Under its name, so that xpr finds it when it is imported later: it can be loaded only once.
    module = sys.modules[_EXTENSION] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_EXTENSION]
        raise
    return module


_found: Found | None = None


def native() -> Found:
    """What there is in this process, looked for by the first call."""
    global _found
    if _found is None:
        _found = find(os.environ.get("XPR_NATIVE", ""))
    return _found
