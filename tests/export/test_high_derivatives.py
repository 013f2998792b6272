"""Derivatives of exported programs with high primitives inside, whose rules are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.compat import modules
from xpr.compat.modules.experimental import hijax
from xpr.export import deserialize, export, symbolic_shape


class Square(hijax.VJPHiPrimitive):
    """Its backward rule is 500 times too large, to be told from that of `expand`."""

    def __init__(self, aval: Any) -> None:
        self.in_avals = (aval,)
        self.out_aval = aval
        self.params = {}
        super().__init__()

    def expand(self, *args: Any) -> Any:
        (x,) = args
        return x * x

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        return self(*args), args[0]

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        return (1000 * res * outgrad,)


def square(x: Any) -> Any:
    return Square(modules.typeof(x))(x)


def _tripled() -> Any:
    """Times three, with derivatives of seven."""
    f = xpr.custom_vjp(lambda x: x * 3)
    f.defvjp(lambda x: (f(x), None), lambda _, g: (7 * g,))
    return f


def _shifted() -> Any:
    """Times three, with tangents times eleven."""
    f = xpr.custom_jvp(lambda x: x * 3)
    f.defjvp(lambda primals, tangents: (f(*primals), 11 * tangents[0]))
    return f


CASES = [
    (square, 4.0, 2000.0),
    (lambda x: _tripled()(x) + 0 * square(x), 6.0, 7.0),
    (lambda x: _shifted()(x) + 0 * square(x), 6.0, 11.0),
]


@pytest.mark.parametrize(("fun", "value", "slope"), CASES, ids=["square", "vjp", "jvp"])
def test_rules_are_kept(fun: Any, value: float, slope: float) -> None:
    exported = export(xpr.jit(fun))(np.float32(2))
    stored = deserialize(exported.serialize(vjp_order=1))
    for program in (exported, stored):
        assert float(program.call(np.float32(2))) == value
        assert float(xpr.grad(program.call)(np.float32(2))) == slope
        assert float(xpr.jit(xpr.grad(program.call))(np.float32(2))) == slope


def test_with_symbolic_sizes() -> None:
    x = np.arange(5, dtype=np.float32)
    (n,) = symbolic_shape("n")
    exported = export(xpr.jit(square))(xpr.ShapeDtypeStruct((n,), np.float32))
    stored = deserialize(exported.serialize(vjp_order=1))
    for program in (exported, stored):
        np.testing.assert_array_equal(program.call(x), x * x)
        slopes = xpr.grad(lambda x, call=program.call: jnp.sum(call(x)))(x)
        np.testing.assert_array_equal(slopes, 1000 * x)


def test_stored_forms_are_programs_on_arrays() -> None:
    exported = export(xpr.jit(square))(np.float32(2))
    assert "stablehlo.multiply" in exported.mlir_module()
    assert "stablehlo.multiply" in exported.vjp().mlir_module()
