"""Behaviours at the edges of the transformations, with JAX 0.10.2's results as golden values."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp


def test_the_type_of_a_value() -> None:
    like = xpr.ShapeDtypeStruct.like
    x = jnp.zeros((2, 3))
    assert like(x) == xpr.ShapeDtypeStruct((2, 3), np.float32)
    assert like(np.ones(3)) == xpr.ShapeDtypeStruct((3,), np.float32)
    assert like(1.0) == xpr.ShapeDtypeStruct((), np.float32, weak_type=True)
    struct = xpr.ShapeDtypeStruct((2,), np.int32)
    assert like(struct) == struct
    there = xpr.device_put(x, xpr.devices()[0])
    assert like(there).sharding == there.sharding
    assert xpr.eval_shape(lambda x: jnp.zeros_like(like(x)), x) == like(x)
    with pytest.raises(TypeError, match="not a valid"):
        like("a")


def test_generator_functions_are_no_functions() -> None:
    def numbers():
        yield 1

    for transform in (xpr.jit, xpr.grad, xpr.vmap, xpr.jacfwd, xpr.hessian):
        with pytest.raises(TypeError, match="Expected a function, got a generator function"):
            transform(numbers)
    with pytest.raises(TypeError, match="returned a value of type <class 'generator'>, which is"):
        xpr.jit(lambda: (i for i in range(3)))()
