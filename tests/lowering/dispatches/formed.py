"""What IREE makes of a program: its functions and the dispatches that were formed of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.lowering.dispatches.reads import ir
from xpr.core.jaxpr import ClosedJaxpr
from xpr.dispatch.compiling import lower, target_of
from xpr.lowering.iree import driver
from xpr.lowering.iree.invocation import Diagnostic
from xpr.lowering.iree.post_passes import changes_for
from xpr.lowering.module import LoweredModule
from xpr.lowering.targets.base import Target
from xpr.runtimes import registry

_PHASE = "flow"
"""Behind it dispatches are functions of their own, and nothing has been made of them yet."""


class NotFormedError(Exception):
    """IREE does not come so far; the message is what it says."""


def formed_text(module: LoweredModule, target: Target) -> str:
    """The program behind the phase in which dispatches are formed.

    As for a compile the flags are tried one after the other; raises `NotFormedError` if none will
    do.
    """
    changes = changes_for(has_branches=module.hints.has_control_flow, frees=True)
    said: list[Diagnostic] = []
    for flags in target.flag_sets(module.hints):
        text, said = driver.text_at(_PHASE, module.text, flags, changes)
        if text is not None:
            return text
    raise NotFormedError("\n".join(d.message for d in said))


@contextmanager
def formed(closed: ClosedJaxpr, runtime: str) -> Iterator[Any]:
    """The program that is compiled for a jaxpr, as an operation of MLIR."""
    device = registry.devices(runtime)[0]
    target = target_of(device)
    with formed_of(lower(closed, target, "program", device=device), target) as program:
        yield program


@contextmanager
def formed_of(module: LoweredModule, target: Target) -> Iterator[Any]:
    """The same for a program that has been lowered."""
    with ir.Context():
        yield ir.Module.parse(formed_text(module, target)).operation
