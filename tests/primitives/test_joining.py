"""Joining and splitting: errors, printed equations, weak types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.primitives import joining as j

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    ("function", "equation"),
    [
        (lambda x: j.concatenate([x, x], 1), "b:f32[3,8] = concatenate[dimension=1] a a"),
        (lambda x: j.stack([x, x], -1), "b:f32[3,4,2] = stack[axis=2] a a"),
        (lambda x: j.unstack(x), "b:f32[4] c:f32[4] d:f32[4] = unstack[axis=0] a"),
        (lambda x: j.split(x, (1, 3), 1), "b:f32[3,1] c:f32[3,3] = split[axis=1 sizes=(1, 3)] a"),
        (lambda x: j.tile(x, (2, 3)), "b:f32[6,12] = tile[reps=(2, 3)] a"),
    ],
)
def test_equations_print_as_jaxs(function: Callable[..., Any], equation: str) -> None:
    assert equation in " ".join(str(xpr.make_jaxpr(function)(X)).split())


def test_one_operand_is_the_result() -> None:
    x = jnp.array(X)
    assert j.concatenate([x], 0) is x


@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (lambda: j.concatenate([], 0), ValueError, "non-empty sequence"),
        (lambda: j.concatenate(jnp.array(X), 0), TypeError, "a sequence of arrays, got one array"),
        (lambda: j.concatenate([X, X[:2]], 1), TypeError, r"dimension 1 for shapes \(3, 4\), \(2"),
        (lambda: j.concatenate([X, X[0]], 1), TypeError, "different numbers of dimensions"),
        (lambda: j.concatenate([X, X], 2), TypeError, "dimension out of bounds: dimension 2"),
        (lambda: j.concatenate([X, X], -1), TypeError, "dimension out of bounds: dimension -1"),
        (lambda: j.concatenate([X, X.astype(int)], 0), TypeError, "got float32, int32"),
        (lambda: j.stack([]), ValueError, "non-empty sequence"),
        (lambda: j.stack([X, X[0]]), ValueError, "different numbers of dimensions"),
        (lambda: j.stack([X, X[:2]]), ValueError, r"one shape, got \(3, 4\), \(2, 4\)"),
        (lambda: j.stack([X, X], 3), ValueError, "axis 3 is out of bounds for array"),
        (lambda: j.unstack(X, 2), ValueError, "axis 2 is out of bounds"),
        (lambda: j.split(X, (1, 2), 1), ValueError, "Sum of sizes 3 must be equal to dimension 1"),
        (lambda: j.split(X, (-1, 5), 1), ValueError, "must be nonnegative"),
        (lambda: j.split(X, (4,), 2), ValueError, "axis 2 is out of bounds"),
        (lambda: j.tile(X, (2,)), TypeError, r"got len\(reps\)=1 and x.ndim=2"),
        (lambda: j.tile(X, (2, -1)), TypeError, "nonnegative"),
    ],
)  # fmt: skip
def test_bad_arguments(function: Callable[..., Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        function()


def test_results_are_weak_when_all_operands_are() -> None:
    def weak(function: Callable[..., Any]) -> bool:
        jaxpr = xpr.make_jaxpr(function)(1.0, np.float32(1))
        return jaxpr.jaxpr.outvars[0].aval.weak_type

    assert weak(lambda w, _: j.stack([w, w]))
    assert not weak(lambda w, x: j.stack([w, x]))
    assert weak(lambda w, _: j.concatenate([j.stack([w]), j.stack([w])], 0))
    assert not weak(lambda w, x: j.concatenate([j.stack([w]), j.stack([x])], 0))
    assert weak(lambda w, _: j.unstack(j.stack([w, w])))
    assert weak(lambda w, _: j.tile(j.stack([w, w]), (2,)))
