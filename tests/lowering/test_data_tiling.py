"""Products of matrices that are tiled and then transposed: IREE ends the process for some."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import run_reference
from tests.lowering.iree_util import MENDED, status_of_compile
from xpr import lax
from xpr.lowering import passes, rules
from xpr.lowering.ir.graph import walk
from xpr.lowering.ir.verifier import verify
from xpr.lowering.module import ModuleBuilder
from xpr.lowering.passes import transposed_products
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets

TILED = llvm_cpu_flag_sets(ProgramHints(matmul_size=(1024, 1024, 1024)))[0]
SQUARE = "tensor<40x40xf32>"

# glibc fills memory that is given back, so that what reads it later always fails.
FILLED = {"MALLOC_PERTURB_": "165"}


def _program(guard: str) -> str:
    """The product's lower triangle, transposed before."""
    return f"""
    func.func public @f(%a: {SQUARE}, %b: {SQUARE}) -> {SQUARE} {{
      %zero = stablehlo.constant dense<0.0> : {SQUARE}
      %i = stablehlo.iota dim = 0 : tensor<40x40xi32>
      %j = stablehlo.iota dim = 1 : tensor<40x40xi32>
      %low = stablehlo.compare GE, %i, %j : (tensor<40x40xi32>, tensor<40x40xi32>)
        -> tensor<40x40xi1>
      %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : ({SQUARE}, {SQUARE}) -> {SQUARE}
      {guard}
      %t = stablehlo.transpose %p, dims = [1, 0] : ({SQUARE}) -> {SQUARE}
      %r = stablehlo.select %low, %t, %zero : tensor<40x40xi1>, {SQUARE}
      return %r : {SQUARE}
    }}"""


def test_a_tiled_product_that_is_transposed_and_indexed_ends_the_process() -> None:
    plain = _program(f"%p = stablehlo.reshape %c : ({SQUARE}) -> {SQUARE}")
    # What is read after its end may by chance have been written again by another thread.
    assert any(status_of_compile(plain, TILED, **FILLED) < 0 for _ in range(5)), MENDED
    guarded = _program(f"%p = stablehlo.optimization_barrier %c : {SQUARE}")
    assert status_of_compile(guarded, TILED, **FILLED) == 0


def _both_calls(a: Any, b: Any) -> Any:
    """A function of the module gets a product in one call and another value in the other."""
    lower = xpr.jit(lambda x: jnp.tril(x.T))
    return lower(a), lower(a @ b)


def _transposed_by_function(a: Any, b: Any) -> Any:
    return jnp.tril(xpr.jit(lambda x, y: (x @ y).T)(a, b))


def _in_loop(a: Any, b: Any) -> Any:
    def step(x: Any, _: Any) -> Any:
        x = jnp.tril((x @ b).T) / 40
        return x, x.sum()

    return lax.scan(step, a, None, length=3)


def _gradients(a: Any, b: Any) -> Any:
    def loss(a: Any, b: Any) -> Any:
        return (jnp.tril((a @ b).T) ** 2 * jnp.arange(40.0)).sum()

    return xpr.grad(loss, (0, 1))(a, b)


PROGRAMS = {
    "transposed": lambda a, b: jnp.tril((a @ b).T),
    "indexed": lambda a, b: (jnp.tril(a @ b) + 1).T,
    "rearranged": lambda a, b: jnp.einsum("ij,jk->ki", a, b) + jnp.eye(40),
    "behind elementwise": lambda a, b: jnp.triu((jnp.exp(a @ b / 40) + b).T),
    "in a branch": lambda a, b: lax.cond(a[0, 0] > 0, lambda x: jnp.tril(x.T), lambda x: x, a @ b),
    "both calls": _both_calls,
    "transposed by a function": _transposed_by_function,
    "in a loop": _in_loop,
    "gradients": _gradients,
}


def _compute(folder: Path) -> None:
    """The child's part."""
    a, b = pickle.loads((folder / "arguments").read_bytes())
    found = {name: xpr.tree.leaves(xpr.jit(f)(a, b)) for name, f in PROGRAMS.items()}
    arrays = {name: [np.asarray(x) for x in leaves] for name, leaves in found.items()}
    (folder / "results").write_bytes(pickle.dumps(arrays))


def test_programs_with_such_products_are_right(tmp_path: Path) -> None:
    rng = np.random.default_rng(20261122)
    a, b = (rng.normal(size=(40, 40)).astype(np.float32) for _ in range(2))
    (tmp_path / "arguments").write_bytes(pickle.dumps((a, b)))
    script = "import sys, pathlib; from tests.lowering import test_data_tiling as t;"
    script += "t._compute(pathlib.Path(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "XPR_CACHE": "0"}
        | FILLED,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = pickle.loads((tmp_path / "results").read_bytes())
    expected = run_reference([(f, (a, b)) for f in PROGRAMS.values()])
    for name, leaves in zip(PROGRAMS, expected, strict=True):
        for x, y in zip(found[name], leaves, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4 * np.abs(y).max(), err_msg=name)


def test_only_tiled_programs_keep_transposed_products_apart() -> None:
    def barriers(size: int) -> int:
        x = np.zeros((size, size), np.float32)
        text = xpr.jit(lambda a, b: (a @ b).T + 1).lower(x, x).as_text("iree")
        return text.count("stablehlo.optimization_barrier")

    assert barriers(40) > barriers(32) == 0


def test_without_the_pass_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros((40, 40), np.float32)
    guarded = xpr.jit(PROGRAMS["transposed"]).lower(x, x).as_text("iree")
    assert status_of_compile(guarded, TILED, **FILLED) == 0
    monkeypatch.delitem(passes.PASSES, "transposed_products")
    plain = xpr.jit(lambda a, b: PROGRAMS["transposed"](a, b)).lower(x, x).as_text("iree")
    assert any(status_of_compile(plain, TILED, **FILLED) < 0 for _ in range(5)), MENDED


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("transposed", 1),
        ("behind elementwise", 1),
        ("both calls", 1),
        ("transposed by a function", 1),
    ],
)
def test_what_is_kept_apart(name: str, count: int) -> None:
    rules.load_all()
    builder = ModuleBuilder(get_target("cpu"))
    x = np.zeros((40, 40), np.float32)
    builder.add_main(xpr.make_jaxpr(PROGRAMS[name])(x, x), ())
    transposed_products.run(builder.module, builder.target, builder.hints)
    verify(builder.module)
    ops = [op for f in builder.module.functions for op in walk(f.body)]
    transposes = [op for op in ops if op.name == "stablehlo.transpose"]
    assert [op.operands[0].op is not None for op in transposes] == [True] * count
    assert sum(op.name == "stablehlo.optimization_barrier" for op in ops) == count


def test_the_gradient_of_a_product_needs_no_transpose() -> None:
    a, b = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
    gradients = xpr.grad(lambda a, b: jnp.sin(a @ b).sum(), (0, 1))
    assert "transpose" not in str(xpr.make_jaxpr(gradients)(a, b))
