"""The road from a jaxpr to what IREE gets: expansions, then guards; listed, and a program at each.

An expansion is the form that an operation of plain StableHLO (`plain/`) takes on a target, a guard
a pass over the graph (`passes/`). Programs that came in as StableHLO are jaxprs, and take the same
road as traced ones.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import NamedTuple

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering import plain, rules
from xpr.lowering.iree import versions
from xpr.lowering.module import ModuleBuilder, module_text
from xpr.lowering.passes import GUARDS, small_integers
from xpr.lowering.registry import LoweringRule, plain_rules
from xpr.lowering.registry import rules as common_rules
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.stablehlo import stablehlo

EXPANSIONS = "expansions"
"""All expansions together, as the name of a stage."""


class Stage(NamedTuple):
    """An expansion or a guard: what must be there before it, and what is there afterwards."""

    name: str
    kind: str
    needs: str
    gives: str


def _file(rule: LoweringRule) -> str:
    found = inspect.unwrap(rule)
    return str(getattr(found, "__module__", "")).removeprefix("xpr.lowering.")


def _form(name: str, target: Target) -> LoweringRule | None:
    """The rule that lowers an operation for a target."""
    return target.overrides.get(name) or common_rules.get(name)


def stages(target: Target) -> Iterator[Stage]:
    """The expansions for a target, by name, and all guards, in the order in which they run."""
    rules.load_all()
    plain.load_all()
    for name in sorted(plain_rules):
        form = _form(name, target)
        if form is not None:
            yield Stage(name, "expansion", f"{_file(plain_rules[name])}", _file(form))
    for name, guard in GUARDS.items():
        needed = ", ".join(sorted(guard.needs)) or "-"
        yield Stage(name, "guard", needed, guard.gives)


def program_text(closed: ClosedJaxpr, target: Target, name: str, stage: str, *, after: bool) -> str:
    """A program as text before or after a stage: an expansion, all of them, or a guard.

    Before an expansion it is plain StableHLO, after it that with this one operation in the form
    for the target; after all expansions it is what guards get. Raises ValueError for an unknown
    stage.
    """
    rules.load_all()
    plain.load_all()
    if stage in GUARDS:
        return _guarded(closed, target, name, stage, after)
    if stage != EXPANSIONS and (stage not in plain_rules or _form(stage, target) is None):
        raise ValueError(
            f"there is no stage {stage!r}: `python -m xpr.lowering passes` lists expansions and "
            f"guards, and {EXPANSIONS!r} are all expansions"
        )
    if not after:
        own = stablehlo
    elif stage == EXPANSIONS:
        own = target
    else:
        own = dataclasses.replace(target, plain=True, overrides={stage: _form(stage, target)})
    builder = ModuleBuilder(own)
    builder.add_main(closed, (), embed_consts=own.plain)
    if own.plain:
        small_integers.run_plain(builder.module)
    return module_text(builder.module, name)


def _guarded(closed: ClosedJaxpr, target: Target, name: str, stage: str, after: bool) -> str:
    compiler = versions.of_installed()
    release = compiler.number if compiler.is_known else None
    builder = ModuleBuilder(target)
    builder.add_main(closed, ())
    for one, guard in GUARDS.items():
        if one == stage and not after:
            break
        if guard.is_for(release) and guard.targets(target, builder.hints):
            guard.run(builder.module, target, builder.hints)
        if one == stage:
            break
    return module_text(builder.module, name)
