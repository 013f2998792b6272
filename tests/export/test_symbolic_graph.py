"""The graph for all sizes: what belongs together in those for several, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.export import SymbolicScope, export, modules, symbolic_shape
from xpr.export.generalize import Fitter, SizeDependenceError, count_of_points
from xpr.export.symbolic_graph import general_graph
from xpr.export.writing import bundle_bytes
from xpr.lowering.ir.builder import Builder
from xpr.lowering.ir.graph import Block, Function, Module, Op, Value, walk
from xpr.lowering.ir.printer import print_module
from xpr.lowering.ir.verifier import verify
from xpr.lowering.module import module_text
from xpr.lowering.targets import get_target
from xpr.runtimes.bundle import Bundle

F32 = np.dtype(np.float32)
POINTS = [{"b": n} for n in range(3, 3 + count_of_points(["b"]))]


def exported(f: Callable[..., Any], *shapes: str, constraints: Sequence[str] = ()) -> Any:
    scope = SymbolicScope(constraints)
    structs = [xpr.ShapeDtypeStruct(symbolic_shape(s, scope=scope), F32) for s in shapes]
    return export(xpr.jit(f))(*structs)


def graph_of(f: Callable[..., Any], *shapes: str, target: str = "cpu") -> Module:
    """The graph for all sizes, which is sound."""
    found = modules.module_of(exported(f, *shapes).program, get_target(target), "f", None)[0]
    verify(found.graph)
    assert found.text == module_text(found.graph, "f")
    return found.graph


def ops_of(graph: Module) -> list[Op]:
    return [op for f in graph.functions for op in walk(f.body)]


def test_constants_that_are_one_at_some_of_the_sizes() -> None:
    """All sizes that the constraints allow are tried, 5 with them."""

    def f(x: Any, y: Any) -> Any:
        return x.astype(bool), y.astype(bool)

    model = Bundle(bundle_bytes(exported(f, "b", "5", constraints=["b >= 2", "b <= 6"])))
    y = np.array([0, 1, 0, 2, 0], F32)
    for size in range(2, 7):
        x = np.arange(size, dtype=F32) % 2
        found = model.call(x, y)
        np.testing.assert_array_equal(found[0], x != 0)
        np.testing.assert_array_equal(found[1], y != 0)


def _module(size: int, *, swapped: bool, name: str = "add", axes: Sequence[int] = (0,)) -> Module:
    """A function of two arrays that adds 1 to the second, and puts it before the first."""
    x, y = Value((size,), F32), Value((2 * size,), F32)
    block = Block([x, y])
    b = Builder(block)

    def one(v: Value) -> Value:
        out = Value(v.shape, F32)
        about = {"value": "dense<1.e+00>", "number": 1.0}
        b.append("stablehlo.constant", (), (out,), about)
        total = Value(v.shape, F32)
        b.append(f"stablehlo.{name}", (v, out), (total,))
        return total

    pair = [one(y), one(x)][::-1] if swapped else [one(x), one(y)]
    joined = Value((3 * size,), F32)
    b.append("stablehlo.concatenate", pair[::-1], (joined,), {"dim": axes[0]})
    b.append("func.return", (joined,))
    return Module(functions=[Function("main", "public", block, [joined.type])])


def test_the_order_of_operations_does_not_count() -> None:
    plain = [_module(p["b"], swapped=False) for p in POINTS]
    mixed = [_module(p["b"], swapped=i % 2 == 1) for i, p in enumerate(POINTS)]
    texts = []
    for graphs in (plain, mixed):
        found = general_graph(graphs, Fitter(["b"], POINTS))
        verify(found)
        texts.append(print_module(found, "m"))
    assert texts[0] == texts[1]
    assert "tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>" in texts[0]


def test_operations_that_differ_are_refused() -> None:
    graphs = [_module(p["b"], swapped=False) for p in POINTS]
    graphs[2] = _module(POINTS[2]["b"], swapped=False, name="subtract")
    with pytest.raises(SizeDependenceError, match=r"different ways .* stablehlo\.add shows"):
        general_graph(graphs, Fitter(["b"], POINTS))
    graphs[2] = _module(POINTS[2]["b"] + 1, swapped=False)
    with pytest.raises(SizeDependenceError, match="takes forms that differ"):
        general_graph(graphs, Fitter(["b"], POINTS))


def test_a_refusal_names_the_users_line() -> None:
    e = exported(lambda x: x[:, jnp.array([1, 2]), jnp.array([1, 3])], "b, 4, 4")
    with pytest.raises(SizeDependenceError, match=r"stablehlo\.gather \(at .*graph\.py:\d+\)"):
        bundle_bytes(e)


def test_one_function_called_with_two_sizes_becomes_two() -> None:
    def scaled(v: Any) -> Any:
        return jnp.tanh(v * v.shape[0]) / v.sum()

    def f(x: Any) -> Any:
        inner = xpr.jit(scaled)
        return inner(x[:, 0]), inner(x[0]), inner(x[:, 1])

    names = [
        op.attributes["callee"] for op in ops_of(graph_of(f, "b, 16")) if op.name == "func.call"
    ]
    assert len(names) in (0, 3)
    model = Bundle(bundle_bytes(exported(f, "b, 16")))
    for size in (1, 3, 16):
        x = np.random.default_rng(size).uniform(1, 2, (size, 16)).astype(F32)
        for found, v in zip(model.call(x), (x[:, 0], x[0], x[:, 1]), strict=True):
            expected = np.tanh(v * len(v)) / v.sum()
            np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "vulkan", "vmvx"])
def test_graphs_of_loops_and_branches_are_sound(target: str) -> None:
    def f(x: Any) -> Any:
        def step(total: Any, row: Any) -> Any:
            total = xpr.lax.cond(row[0] > 0, lambda t: t + row, lambda t: t - row, total)
            return total, total.sum() * x.shape[0]

        return xpr.lax.scan(step, jnp.zeros(x.shape[1]), x)

    graph = graph_of(f, "b, c", target=target)
    loops = [op for op in ops_of(graph) if op.name == "stablehlo.while"]
    assert loops
    assert all(any("?" in v.type for v in op.results) for op in loops)


def test_sizes_are_computed_once_and_first() -> None:
    graph = graph_of(lambda x: (x * x.shape[0], x.reshape(-1) + x.shape[0] * 2), "b, 3")
    ops = graph.functions[-1].body.ops
    assert sum(op.name == "tensor.dim" for op in ops) == 1
    assert ops[0].name == "arith.constant"
