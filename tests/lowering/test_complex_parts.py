"""Complex arithmetic is lowered by parts, since IREE may mix up what it takes apart itself.

Of a dispatch that returns one value twice, the second is taken for the result with the number that
the value has in its operation. It happens where a real or imaginary part is taken of complex
numbers made elsewhere in the dispatch, with a reshape in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr.numpy as xnp
from tests.conftest import skip_unless_usable
from tests.harness import run_compiled
from tests.lowering.vulkan_util import run_on
from xpr.runtimes import registry

_C, _F = "tensor<1x1xcomplex<f32>>", "tensor<1x1xf32>"


def _dot(x: str, y: str) -> str:
    return f"stablehlo.dot_general {x}, {y}, contracting_dims = [1] x [0] : ({_C}, {_C}) -> {_C}"


_BODY = f"""
    %1 = stablehlo.constant dense<(1.0, 0.0)> : {_C}
    %e = {_dot("%a0", "%a1")}
    %q = stablehlo.subtract %1, %e : {_C}
    %re = stablehlo.real %q : ({_C}) -> {_F}
    %im = stablehlo.imag %q : ({_C}) -> {_F}
    %minus = stablehlo.negate %im : {_F}
    %conj = stablehlo.complex %re, %minus : {_C}
    %p = {_dot("%q", "%a1")}
    %g = {_dot("%conj", "%q")}
    %pb = stablehlo.optimization_barrier %p : {_C}
    %gb = stablehlo.optimization_barrier %g : {_C}
    %r = stablehlo.add %pb, %gb : {_C}
    %r
"""


def _numbers(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)).astype(np.complex64)


def test_parts_of_complex_numbers_that_a_dispatch_made_are_mixed_up() -> None:
    x, y = _numbers(1, 1), _numbers(1, 1, seed=1)
    q = 1 - x * y
    found = run_on(registry.devices("cpu")[0], _BODY, [x, y], x)
    assert not np.allclose(found, q * y + np.conj(q) * q, atol=1e-5), "this is mended"


def _products(x: Any, y: Any) -> list[Any]:
    q = 1 - x @ y
    return [q @ y, q.conj().T @ q]


def _reshaped(x: Any, y: Any, module: Any = xnp) -> list[Any]:
    column = (len(x), 1)
    p = (x.reshape(column) * y.reshape(column)).reshape(-1)
    q = (p.reshape(column) * (1 - x).reshape(column)).reshape(-1)
    r = module.conj(q) - p
    wide = module.concatenate([q, r])[1:-1]
    s = module.broadcast_to(r[::-1], (2, len(x))).T * p.reshape(column)
    return [module.conj(q) * q, r * y, (p.reshape(column) * r.reshape(column)).T, wide * wide, s]


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
def test_products_of_complex_numbers_and_their_reshapes(runtime: str) -> None:
    skip_unless_usable(runtime)
    one = [_numbers(1, 1), _numbers(1, 1, seed=1)]
    few = [_numbers(3), _numbers(3, seed=1)]
    found = run_compiled([(_products, one), (_reshaped, few)], runtime)
    wanted = [_products(*one), _reshaped(few[0], few[1], np)]
    for results, expected in zip(found, wanted, strict=True):
        for a, b in zip(results, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
