"""The graph of operations: its verifier, its text, and that MLIR reads there what was meant."""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import trace_cases
from tests.lowering import programs
from tests.op_gaps import gap_of
from tests.op_runs import cases_of
from tests.op_table import all_rows
from xpr import lax
from xpr.core.config import override
from xpr.core.jaxpr import ClosedJaxpr
from xpr.interpreters.physical import physical_program
from xpr.lowering import passes, rules
from xpr.lowering.ir.attributes import GatherNumbers, Padding, ScatterNumbers, attribute_text
from xpr.lowering.ir.builder import Builder
from xpr.lowering.ir.graph import Block, Function, Module, Op, Value, encloses, walk
from xpr.lowering.ir.printer import print_module
from xpr.lowering.ir.verifier import verify
from xpr.lowering.module import ModuleBuilder
from xpr.lowering.passes import run_passes
from xpr.lowering.passes.guard import Guard
from xpr.lowering.targets import get_target
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints
from xpr.lowering.targets.supported import check_types

F32 = np.dtype(np.float32)


def graph_of(closed: ClosedJaxpr, target: str) -> Module:
    """The graph of a program; its text is `print_module(graph, "p")`."""
    rules.load_all()
    builder = ModuleBuilder(get_target(target))
    builder.add_main(physical_program(closed), ())
    run_passes(builder.module, builder.target, builder.hints)
    return builder.module


def _small() -> tuple[Module, Block]:
    """A function of one array that adds it to itself."""
    x = Value((3,), F32)
    block = Block([x])
    b = Builder(block)
    total = Value((3,), F32)
    b.append("stablehlo.add", (x, x), (total,))
    b.append("func.return", (total,))
    module = Module(functions=[Function("main", "public", block, [total.type])])
    return module, block


def test_text_of_a_small_module() -> None:
    module, _ = _small()
    verify(module)
    assert print_module(module, "m").splitlines() == [
        "module @m {",
        "  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32>) {",
        "    %0 = stablehlo.add %arg0, %arg0 : tensor<3xf32>",
        "    return %0 : tensor<3xf32>",
        "  }",
        "}",
    ]


def test_attributes() -> None:
    assert attribute_text(()) == "array<i64>"
    assert attribute_text(True) == "true"
    assert attribute_text(Padding(((0, 1),))) == "dense<[[0, 1]]> : tensor<1x2xi64>"
    assert "start_index_map = [0], index_vector_dim = 1>" in str(GatherNumbers((), (0,), (0,), 1))
    assert str(ScatterNumbers((), (0,), (0,), 1)).startswith("#stablehlo.scatter<update_window")


def _unknown(block: Block) -> None:
    block.ops[0].name = "stablehlo.sum"


def _without_terminator(block: Block) -> None:
    block.ops.pop()


def _used_before(block: Block) -> None:
    block.ops.reverse()


def _from_elsewhere(block: Block) -> None:
    block.ops[0].operands = (Value((3,), F32), *block.arguments)


def _untold(block: Block) -> None:
    block.arguments[0].uses.pop()


def _of_another_type(block: Block) -> None:
    block.ops[0].result.shape = (4,)


def _incomplete(block: Block) -> None:
    block.ops[0].name = "stablehlo.broadcast_in_dim"


def _with_region(block: Block) -> None:
    block.ops[0].regions = (Block(),)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_unknown, "stablehlo.sum .*table of traits"),
        (_without_terminator, "none at its end"),
        (_used_before, "not defined before"),
        (_from_elsewhere, "not defined before"),
        (_untold, "is used by"),
        (_of_another_type, "returns .*4xf32"),
        (_incomplete, "lacks the attributes .*dims"),
        (_with_region, "has 1 regions, not 0"),
    ],
)
def test_the_verifier_refuses(spoil: Callable[[Block], None], message: str) -> None:
    module, block = _small()
    spoil(block)
    with pytest.raises(AssertionError, match=message):
        verify(module)


def test_programs_are_verified_with_checks_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Module] = []
    monkeypatch.setattr("xpr.lowering.module.verify", seen.append)
    with override("enable_checks", True):
        xpr.jit(jnp.sin).lower(np.float32(1)).as_text("iree")
    assert len(seen) == 1


def test_walk_and_encloses() -> None:
    module = graph_of(xpr.make_jaxpr(programs.doubled)(programs.X), "vmvx")
    (body,) = (f.body for f in module.functions if f.name == "main")
    loop = next(op for op in body.ops if op.name == "stablehlo.while")
    inner = loop.regions[1].ops[0]
    names = [op.name for op in walk(body)]
    assert names.index(inner.name) < names.index("stablehlo.while")
    assert encloses(body, inner)
    assert encloses(loop.regions[1], inner)
    assert not encloses(loop.regions[0], inner)


# ---- what MLIR reads


def _same(op: Op, found: Any) -> None:
    """Compares an operation with one that MLIR has read, and what is in them."""
    assert found.operation.name == op.name
    if op.name != "flow.dispatch":  # the text has the numbers of workgroups too
        assert [str(o.type) for o in found.operation.operands] == [v.type for v in op.operands]
    assert [str(r.type) for r in found.operation.results] == [v.type for v in op.results]
    uses = [len(list(r.uses)) for r in found.operation.results]
    assert uses == [len(v.uses) for v in op.results]
    for region, block in zip(op.regions, (r.blocks[0] for r in found.regions), strict=False):
        assert len(block.arguments) == len(region.arguments)
        for inner, other in zip(region.ops, block.operations, strict=True):
            _same(inner, other)


@functools.cache
def mlir() -> tuple[Any, Any]:
    """IREE's Python bindings of MLIR, which are large, and a context of theirs."""
    ir: Any = importlib.import_module("iree.compiler.ir")
    # There are no classes for the operations of StableHLO: the bindings look for a module of them
    # at each operation again, as long as there is none.
    name = "iree.compiler.dialects.stablehlo"
    sys.modules.setdefault(name, types.ModuleType(name))
    return ir, ir.Context()


def check_round_trip(module: Module) -> None:
    """Checks that MLIR reads the graph's operations in the text that it is printed as."""
    text = print_module(module, "p")
    ir, context = mlir()
    with context:
        parsed = ir.Module.parse(text)  # which its operations do not keep
        read = {str(f.name).strip('"'): f for f in parsed.body.operations}
        for function in module.functions:
            body = read[function.name].regions[0].blocks[0]
            # The printer writes the numbers of workgroups of a dispatch as constants.
            operations = [o for o in body.operations if o.operation.name != "arith.constant"]
            for op, found in zip(function.body.ops, operations, strict=True):
                _same(op, found)


def _nested(x: Any) -> Any:
    """A loop in a loop, a branch and a called function, over registers where there are such."""

    @xpr.jit
    def called(x: Any) -> Any:
        return lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)

    def step(i: Any, x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda j, y: y * 0.5 + x[j], called(x))

    return lax.fori_loop(0, 4, step, x), jnp.sort(x), lax.reduce_precision(x, 5, 10)


PROGRAMS = {
    **{f.__name__: f for f in (programs.updated, programs.scanned, programs.doubled)},
    **{f.__name__: f for f in (programs.chosen, programs.randoms, _nested)},
}


@pytest.mark.parametrize("target", ["cpu", "vulkan", "vmvx"])
def test_programs_are_read_as_they_were_meant(target: str) -> None:
    for f in PROGRAMS.values():
        module = graph_of(xpr.make_jaxpr(f)(programs.X), target)
        verify(module)
        check_round_trip(module)


_DTYPES = ("float32", "complex64", "uint8")
# Longer programs are of the same operations, and MLIR's Python bindings are slow.
_LONG = 400


def _rows(target: str) -> Iterator[tuple[str, ClosedJaxpr]]:
    for rows in all_rows().values():
        for row in rows:
            dtype = next((d for d in _DTYPES if d in row.dtypes), row.dtypes[0])
            if gap_of(row, dtype, target) is not None:
                continue
            with override("enable_x64", True):
                closed = trace_cases(cases_of([(row, dtype)]))[0]
            try:
                check_types(closed.jaxpr, get_target(target))
            except TypeError:
                continue
            yield row.id, closed


@pytest.mark.parametrize("target", ["cpu", "vulkan", "vmvx"])
def test_rows_are_sound(target: str) -> None:
    read = 0
    for row_id, closed in _rows(target):
        module = graph_of(closed, target)
        length = sum(1 for f in module.functions for _ in walk(f.body))
        try:
            verify(module)
            if length < _LONG:
                check_round_trip(module)
                read += 1
        except AssertionError as error:
            raise AssertionError(f"{row_id}: {error}") from error
    assert read > 200


def _noted(ran: list[str], name: str) -> Guard:
    """A guard that does nothing but note that it ran."""

    def run(module: Module, target: Target, hints: ProgramHints) -> None:
        del module, target, hints
        ran.append(name)

    return replace(passes.GUARDS[name], run=run, targets=lambda target, hints: True)


def test_a_pass_that_was_taken_out_runs_in_its_place_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[str] = []
    for name in passes.PASSES:
        monkeypatch.setitem(passes.PASSES, name, _noted(ran, name))
    module, target = Module(), get_target("cpu")
    passes.run_passes(module, target, ProgramHints())
    first, ran[:] = tuple(ran), []
    with monkeypatch.context() as without:
        without.delitem(passes.PASSES, "loop_values")
        passes.run_passes(module, target, ProgramHints())
        assert tuple(ran) == tuple(n for n in first if n != "loop_values")
        ran.clear()
    passes.run_passes(module, target, ProgramHints())
    assert tuple(ran) == first
