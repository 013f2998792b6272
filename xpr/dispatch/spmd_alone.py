"""Programs of several devices without collectives: the native part calls them by itself.

What is needed for that is found once, after the first call of its kind. Programs in which devices
meet, that several threads run, or that run elsewhere than in the native part are left to `spmd.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import JaxprEqn, Var
from xpr.dispatch.sharded_array import ShardedArrayImpl
from xpr.dispatch.spmd import SpmdProgram, is_there
from xpr.dispatch.spmd_run import LoadedStage
from xpr.interpreters.reference import called_program
from xpr.runtimes.native_executable import OWN, GroupPart, NativeExecutable, native_group
from xpr.sharding import Sharding


@dataclass(frozen=True)
class AloneProgram:
    """A program whose devices run alone, as the native part has it, and its results' types."""

    native: Any
    out_avals: Sequence[ShapedArray]


def alone_program(program: SpmdProgram, leaves: Sequence[Any]) -> AloneProgram | None:
    """How the native part answers calls with arguments like `leaves`; None where it cannot.

    The program has been called before.
    """
    runner = program.load()
    makers = program.result_makers
    if runner.places is not None or len(runner.devices) != len(program.devices):
        return None
    if not makers or any(kind is not ShardedArrayImpl for kind, _, _ in makers):
        return None
    donated = [i for i in program.donate if type(leaves[i]) is ShardedArrayImpl]
    if not all(map(_is_taken, leaves, program.in_shardings)):
        return None
    columns: dict[Var, int] = {v: i for i, v in enumerate(runner.invars)}
    count = len(runner.invars)
    parts: list[GroupPart] = []
    front = list(enumerate(program.front))
    for loaded in runner.stages:
        stage = loaded.stage
        if not _is_alone(loaded):
            return None
        if not loaded.parts:
            continue
        compiled = _compiled(loaded)
        if compiled is None:
            return None
        constants = compiled._const_buffers
        front += [(count + i, (b,) * len(runner.devices)) for i, b in enumerate(constants)]
        operands = [(columns[v], OWN) for v in stage.inputs]
        operands += [(columns[v], d) for v in stage.summed for d in range(len(runner.devices))]
        inputs = [(column, OWN) for column in range(count, count + len(constants))]
        inputs += [operands[i] for i in compiled.kept]
        count += len(constants)
        outputs = range(count, count + len(stage.outputs))
        count += len(stage.outputs)
        columns.update(zip(stage.outputs, outputs, strict=True))
        parts.append(GroupPart(compiled.executable, inputs, outputs, loaded.source))
    first = len(program.front)
    results = [columns[v] for v in runner.outvars if isinstance(v, Var)]
    arrays = [first + i for i, x in enumerate(leaves) if type(x) is ShardedArrayImpl]
    made = {column for p in parts for column in p.outputs}
    if len(results) < len(runner.outvars) or not made.union(arrays).issuperset(results):
        return None
    native = native_group(
        runner.devices,
        count,
        parts,
        front,
        [(first + i, type(x) is not ShardedArrayImpl) for i, x in enumerate(leaves)],
        list(zip(results, (sharding for _, _, sharding in makers), strict=True)),
        donated,
    )
    return None if native is None else AloneProgram(native, [aval for _, aval, _ in makers])


def lone_equation(
    program: SpmdProgram, leaves: Sequence[Any]
) -> tuple[JaxprEqn, Sequence[int]] | None:
    """The one operation that each device does with its parts of the arguments, and nothing else.

    With it comes, for each device, the one that computes its part of the result. None for other
    programs, and for those that are not interpreted.
    """
    runner = program.load()
    makers = program.result_makers
    if not program.interpreted or runner.places is not None or len(makers) != 1:
        return None
    if makers[0][0] is not ShardedArrayImpl or len(runner.stages) != 1:
        return None
    (loaded,) = runner.stages
    eqns = loaded.stage.closed.jaxpr.eqns
    if not _is_alone(loaded) or loaded.stage.summed or len(eqns) != 1:
        return None
    eqn = eqns[0]
    own = eqn.primitive
    if own.multiple_results or own.interprets or eqn.effects or called_program(eqn) is not None:
        return None
    if list(eqn.invars) != list(runner.invars[len(program.front) :]):
        return None
    if list(eqn.outvars) != list(runner.outvars):
        return None
    for leaf, sharding in zip(leaves, program.in_shardings, strict=True):
        same = isinstance(leaf, np.generic) and sharding.is_fully_replicated
        if not same and not _is_taken(leaf, sharding):
            return None
    return eqn, loaded.source


def _is_taken(leaf: Any, sharding: Sharding) -> bool:
    """Whether the program takes an argument as it is."""
    if type(leaf) in (float, int):
        return sharding.is_fully_replicated
    if type(leaf) is not ShardedArrayImpl:
        return False
    return leaf._sharding is sharding or is_there(leaf, sharding)


def _is_alone(loaded: LoadedStage) -> bool:
    """Whether one thread runs a stage for all devices, which meet neither in it nor behind it.

    Sums over all devices may be a part of a program that one of them runs.
    """
    stage = loaded.stage
    return not (stage.meets or stage.collectives or loaded.in_threads)


def _compiled(loaded: LoadedStage) -> Any:
    """The program of a stage; None for one whose calls are more than those of an executable."""
    if len(loaded.programs) != 1:
        return None
    (program,) = loaded.programs.values()
    if type(program.executable) is not NativeExecutable:
        return None
    if program._routes != [("out", i) for i in range(len(loaded.stage.outputs))]:
        return None
    if program.donate and not (program.in_place and set(program.donate) <= set(program.kept)):
        return None
    return program
