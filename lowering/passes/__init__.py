"""Passes over the graph of a program: each guards against one class of hazards of IREE.

Each other file of this folder that declares a `GUARD` is a pass (`guard.py`). The declarations say
in which order they run, for which targets and for which releases of IREE. A test of each runs a
program with the pass switched off.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from xpr.lowering.ir.graph import Module
from xpr.lowering.passes.guard import Guard, Release, ordered
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_OTHERS = frozenset({"guard", "hazards_elsewhere", "hazards_page"})
"""The files that are no guards."""


def _guards() -> dict[str, Guard]:
    names = sorted({file.name for file in pkgutil.iter_modules(__path__)} - _OTHERS)
    found = [(name, importlib.import_module(f"{__name__}.{name}").GUARD) for name in names]
    return dict(ordered(found))


GUARDS: Mapping[str, Guard] = _guards()
"""All guards, in the order in which they run."""

PASSES: dict[str, Guard] = dict(GUARDS)
"""Those that are switched on. A test may take one out, and put it back."""


def are_altered() -> bool:
    """Whether passes were switched off or exchanged in this process, as tests do."""
    return PASSES != GUARDS


def run_passes(
    module: Module, target: Target, hints: ProgramHints, release: Release | None = None
) -> None:
    """Runs the passes that a complete module needs for a target and a release of IREE.

    An unknown release (None) gets all of them.
    """
    for name in GUARDS:
        # What was taken out and put back stands last in the table, and must not run last: a pass
        # relies on what those before it did.
        guard = PASSES.get(name)
        if guard is not None and guard.is_for(release) and guard.targets(target, hints):
            guard.run(module, target, hints)
