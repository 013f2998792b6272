"""Products of complex matrices in programs that are tiled: IREE cannot read them in tiles."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import MENDED, compile_with
from tests.lowering.test_ir import graph_of
from tests.reliability.scripts import run
from xpr.core.config import override
from xpr.lowering import passes
from xpr.lowering.ir.printer import print_module
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets

TILED = llvm_cpu_flag_sets(ProgramHints(matmul_size=(1024, 1024, 1024)))[0]
BARRIER = "stablehlo.optimization_barrier"

_RNG = np.random.default_rng(20261128)


def _array(*shape: int, dtype: str = "complex64") -> Any:
    x = _RNG.standard_normal(shape)
    return (x + 1j * _RNG.standard_normal(shape) if dtype.startswith("c") else x).astype(dtype)


A, B = _array(40, 40), _array(40, 40)
REAL = _array(40, 40, dtype="float32")


def _text(function: Callable[..., Any], *args: Any, without: bool = False) -> str:
    with pytest.MonkeyPatch.context() as patch:
        if without:
            patch.delitem(passes.PASSES, "complex_products")
        return print_module(graph_of(xpr.make_jaxpr(function)(*args), "cpu"), "m")


def test_without_the_pass_they_do_not_compile() -> None:
    text = _text(jnp.matmul, A, B, without=True)
    module, said = compile_with(text, TILED)
    assert module is None, MENDED
    assert any("requires valid padding vector elemental type" in d.message for d in said)
    assert compile_with(_text(jnp.matmul, A, B), TILED)[0] is not None


def test_without_the_pass_they_end_a_process_that_checks_nothing() -> None:
    script = (
        "import sys; from tests.lowering.iree_util import compile_with;"
        "compile_with(sys.argv[1], sys.argv[2:], verify=False)"
    )
    text = _text(lambda a, b, c: a @ b + c.real, REAL, REAL, A, without=True)
    path = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHONPATH": path}
    command = [sys.executable, "-c", script, text, *TILED]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode < 0, MENDED


def test_where_barriers_are_put() -> None:
    def count(function: Callable[..., Any], *args: Any) -> int:
        return _text(function, *args).count(BARRIER) - _text(function, *args, without=True).count(
            BARRIER
        )

    product = xpr.jit(jnp.matmul)
    assert count(jnp.matmul, A, B) == 4  # of real and imaginary parts
    assert count(lambda a, b: a @ b + 1j, REAL, REAL) == 1
    assert count(lambda a, c: jnp.tanh(a @ a) * c.imag, REAL, A) == 1
    assert count(lambda a, c: (product(a, a) + 1) * c, REAL, A) == 1
    assert count(lambda a, c: xpr.jit(lambda p: p * c)(a @ a), REAL, A) == 1
    # No complex number is computed with what comes of the product.
    assert count(lambda a, c: (a @ a + 1, c * 2), REAL, A) == 0
    assert count(lambda a, c: a @ c.real, REAL, A) == 0
    # The program is not tiled.
    assert count(jnp.matmul, A[:32, :32], B[:32, :32]) == 0


def _loss(a: Any, b: Any) -> Any:
    return (abs(a @ b) ** 2).sum()


PROGRAMS: list[Callable[[Any, Any, Any], Any]] = [
    lambda a, b, r: a @ b,
    lambda a, b, r: a @ r,
    lambda a, b, r: (a @ b).T + b.real,
    lambda a, b, r: (r @ r + 2) * a,
    lambda a, b, r: jnp.exp(1j * (r @ r) / 40) @ b,
    lambda a, b, r: (a @ b).imag @ r,
    lambda a, b, r: jnp.conj(a) @ jnp.conj(b).T - a,
    lambda a, b, r: jnp.einsum("ij,kj->ki", a, b) + jnp.diag(b[0]),
    lambda a, b, r: a[:33] @ b[:, :35],
]


def _numbers(dtype: str) -> tuple[Any, Any, Any]:
    wide = "float64" if dtype == "complex128" else "float32"
    return _array(40, 40, dtype=dtype), _array(40, 40, dtype=dtype), _array(40, 40, dtype=wide)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_products(dtype: str) -> None:
    def all_of(np: Any, args: Any) -> list[Any]:
        del np
        return [program(*args) for program in PROGRAMS]

    args = _numbers(dtype)
    with override("enable_x64", dtype == "complex128"):
        found = xpr.jit(lambda *xs: all_of(jnp, xs))(*args)
        exact = [jnp.asarray(x) for x in args]
        expected = all_of(jnp, exact)  # outside of jit NumPy computes
    for i, (x, y) in enumerate(zip(found, expected, strict=True)):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        tolerance = 1e-11 if dtype == "complex128" else 2e-4
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * 10, err_msg=f"{i}")


def test_gradients_and_batches() -> None:
    a, b = (np.stack([_array(40, 40) for _ in range(3)]) for _ in range(2))
    one = xpr.jit(xpr.grad(_loss))(a[0], b[0])
    expected = 2 * np.conj(a[0].astype("c16") @ b[0]) @ b[0].T
    np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-2)
    many = xpr.jit(xpr.vmap(jnp.matmul))(a, b)
    np.testing.assert_allclose(many, a @ b, rtol=1e-4, atol=1e-3)


_SCRIPT = """
import numpy as np, xpr, xpr.numpy as jnp
rng = np.random.default_rng(3)
x = (rng.standard_normal((512, 512)) + 1j * rng.standard_normal((512, 512))).astype("c8")
f = xpr.jit(lambda a, b: a @ b)
np.testing.assert_allclose(f(x, x), x.astype("c16") @ x, rtol=1e-3, atol=2e-3)
assert "dispatches" in str(xpr.debug.explain(f, x, x))
"""


@pytest.mark.parametrize("compiler", ["inline", "auto"])
def test_large_products_end_no_process(compiler: str) -> None:
    assert run(_SCRIPT, XPR_COMPILER=compiler, XPR_CACHE="0") == ""


@pytest.mark.parametrize(
    ("m", "k", "n"), [*itertools.permutations((33, 64, 500)), (1, 512, 512), (512, 512, 1)]
)
def test_shapes(m: int, k: int, n: int) -> None:
    a, b = _array(m, k), _array(k, n)
    expected = a.astype("c16") @ b
    np.testing.assert_allclose(xpr.jit(jnp.matmul)(a, b), expected, rtol=1e-3, atol=1e-3)
