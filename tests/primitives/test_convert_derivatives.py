"""Derivatives of conversions between kinds of numbers, roundings and barriers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr import lax


def test_integers_have_no_tangent() -> None:
    def through_int(x: Any) -> Any:
        return x * lax.convert_element_type(lax.convert_element_type(x, jnp.int32), jnp.float32)

    assert float(xpr.grad(through_int)(3.7)) == 3.0


def test_cotangents_have_the_dtype_and_weakness_of_the_operand() -> None:
    x = jnp.array([1.0, 2.0])
    _, pullback = xpr.vjp(lambda x: lax.convert_element_type(x, jnp.bfloat16), x)
    (ct,) = pullback(jnp.array([1.0, 2.0], jnp.bfloat16))
    assert (ct.dtype, ct.weak_type) == (np.float32, False)
    assert xpr.grad(lambda x: lax.convert_element_type(x, jnp.float16).astype(float))(1.0).weak_type


def test_between_real_and_complex() -> None:
    x = jnp.array([1.0, 2.0])
    _, pullback = xpr.vjp(lambda x: lax.convert_element_type(x, jnp.complex64), x)
    np.testing.assert_array_equal(np.asarray(pullback(jnp.array([1 + 5j, 2 - 3j]))[0]), [1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        out, tangent = xpr.jvp(
            lambda z: lax.convert_element_type(z, jnp.float32), (1 + 2j,), (3 + 4j,)
        )
        gradient = xpr.grad(lambda z: lax.convert_element_type(z, jnp.float32))(1 + 2j)
    assert (float(out), float(tangent)) == (1.0, 3.0)
    assert complex(gradient) == 1.0


def test_bits_have_a_zero_tangent() -> None:
    assert float(xpr.grad(lambda x: lax.bitcast_convert_type(x, jnp.float32))(1.0)) == 0.0


def test_bitcast_of_a_batch_whose_axis_is_last() -> None:
    words = jnp.arange(6, dtype=jnp.uint16).reshape(2, 3)
    whole = xpr.vmap(lambda x: lax.bitcast_convert_type(x, jnp.uint32), in_axes=1)(words)
    np.testing.assert_array_equal(np.asarray(whole), [0x30000, 0x40001, 0x50002])


def test_rounding_counts_as_the_identity() -> None:
    # The tangent is rounded as the value is.
    out, tangent = xpr.jvp(lambda x: lax.reduce_precision(x, 5, 3), (1.2,), (1.2,))
    assert (float(out), float(tangent)) == (1.25, 1.25)
    assert float(xpr.grad(lambda x: lax.reduce_precision(x, 5, 3))(1.2)) == 1.0


def test_a_barrier_holds_no_tangents_that_are_zero() -> None:
    def only_first(x: Any, n: Any) -> Any:
        return lax.optimization_barrier((x, n, x * 2.0))[0]

    assert float(xpr.grad(only_first)(2.0, 3)) == 1.0
    program = xpr.make_jaxpr(lambda x, t: xpr.jvp(lambda y: only_first(y, 3), (x,), (t,)))(1.0, 1.0)
    barriers = [e for e in program.jaxpr.eqns if e.primitive.name == "optimization_barrier"]
    assert [len(e.invars) for e in barriers] == [3, 2]
