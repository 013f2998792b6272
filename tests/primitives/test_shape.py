"""Shape operations: what the wrappers check, how equations print, what IREE needs guarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import run_compiled, run_reference
from xpr.primitives import shape as s
from xpr.primitives.slicing import slice as lax_slice

X = np.arange(12, dtype=np.float32).reshape(3, 4)
V = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize(
    ("function", "operand", "equation"),
    [
        (lambda v: s.broadcast_in_dim(v, (3, 4), (1,)), V,
         "broadcast_in_dim[broadcast_dimensions=(1,)] a"),
        (lambda v: s.broadcast(v, (3,)), V, "broadcast_in_dim[broadcast_dimensions=(1,)] a"),
        (lambda v: s.broadcast_in_dim(2.0, (3,), ()), V, "broadcast_in_dim 2.0:f32[]"),
        (lambda x: s.reshape(x, (12,)), X,
         "reshape[dimensions=None new_sizes=(12,) sharding=None] a"),
        (lambda x: s.reshape(x, (12,), (1, 0)), X,
         "reshape[dimensions=(1, 0) new_sizes=(12,) sharding=None] a"),
        (lambda x: s.transpose(x, (1, 0)), X, "transpose[permutation=(1, 0)] a"),
        (lambda x: s.squeeze(x, (-1, 0)), X[:1, :1], "squeeze[dimensions=(0, 1)] a"),
        (lambda x: s.expand_dims(x, (0,)), X, "broadcast_in_dim[broadcast_dimensions=(1, 2)] a"),
        (lambda x: s.rev(x, (0,)), X, "rev[dimensions=(0,)] a"),
        (lambda x: s.pad(x, np.float32(1), ((1, 2, 0), (-1, 0, 2))), X,
         "pad[padding_config=((1, 2, 0), (-1, 0, 2))] a 1.0:f32[]"),
        (lambda x: s.collapse(x, 0, 2), X,
         "reshape[dimensions=None new_sizes=(12,) sharding=None] a"),
    ],
)  # fmt: skip
def test_equations_print_as_jaxs(
    function: Callable[..., Any], operand: np.ndarray[Any, Any], equation: str
) -> None:
    text = " ".join(str(xpr.make_jaxpr(function)(operand)).split())
    assert f"= {equation} in" in text


@pytest.mark.parametrize(
    "function",
    [
        lambda x: s.broadcast_in_dim(x, (3, 4), (0, 1)),
        lambda x: s.broadcast(x, ()),
        lambda x: s.reshape(x, (3, 4)),
        lambda x: s.reshape(x, (3, 4), (0, 1)),
        lambda x: s.transpose(x, (0, 1)),
        lambda x: s.squeeze(x, ()),
        lambda x: s.expand_dims(x, ()),
        lambda x: s.broadcast_to_rank(x, 2),
    ],
)
def test_nothing_to_do_gives_the_operand(function: Callable[..., Any]) -> None:
    x = jnp.array(X)
    assert function(x) is x
    assert not xpr.make_jaxpr(function)(X).eqns


@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (lambda: s.broadcast_in_dim(V, (3, 5), (1,)), TypeError,
         r"must either be 1, .* operand of shape \(4,\), target broadcast shape \(3, 5\)"),
        (lambda: s.broadcast_in_dim(V, (3, 4), (2,)), TypeError, "must be a subset of output dim"),
        (lambda: s.broadcast_in_dim(V, (3, 4), (0, 1)), TypeError, "length equal to operand ndim"),
        (lambda: s.broadcast_in_dim(V, (4,), (-1,)), TypeError, "every element be nonnegative"),
        (lambda: s.broadcast_in_dim(V, (-4,), (0,)), TypeError, "shape must have every element"),
        (lambda: s.broadcast_in_dim(X, (3, 3), (0, 0)), TypeError, "must not repeat an axis"),
        (lambda: s.reshape(X, (13,)), TypeError, r"new_sizes \(13,\) .* for shape \(3, 4\)"),
        (lambda: s.reshape(X, (-1,)), TypeError, "must all be positive"),
        (lambda: s.reshape(X, (12,), (0, 0)), TypeError, "must be a permutation"),
        (lambda: s.reshape(X, (1.5, 8)), TypeError, "concrete values of integer type"),
        (lambda: s.transpose(X, (1,)), TypeError, r"permutation \(1,\) for operand shape \(3, 4\)"),
        (lambda: s.transpose(X, (-1, 0)), TypeError, "isn't a permutation"),
        (lambda: s.squeeze(X, (0,)), ValueError, "size not equal to one"),
        (lambda: s.squeeze(X, (2,)), ValueError, "axis 2 is out of bounds for array of dim"),
        (lambda: s.squeeze(X[:1], (0, 0)), ValueError, "dimensions are not unique"),
        (lambda: s.expand_dims(X, (0, 0)), ValueError, "repeated axis in lax.expand_dims"),
        (lambda: s.expand_dims(X, (5,)), ValueError, "axis 5 is out of bounds"),
        (lambda: s.rev(X, (0, 0)), TypeError, "rev dimensions must be unique"),
        (lambda: s.rev(X, (2,)), TypeError, r"got dimensions \(2,\) for operand ndim 2"),
        (lambda: s.rev(X, (-1,)), TypeError, "every element be nonnegative"),
        (lambda: s.pad(X, 1, ((0, 0, 0),) * 2), TypeError, "same dtype: got float32 and int32"),
        (lambda: s.pad(X, 1.0, ((0, 0, 0),)), ValueError, "length of padding_config"),
        (lambda: s.pad(X, 1.0, ((0, 0, -1), (0, 0, 0))), ValueError, "interior padding"),
        (lambda: s.pad(X, 1.0, ((-2, -2, 0), (0, 0, 0))), ValueError, r"result shape \(-1, 4\)"),
        (lambda: s.pad(X, X, ((0, 0, 0),) * 2), ValueError, "padding_value must be a scalar"),
        (lambda: s.pad(X, 1.0, ((0, 0), (0, 0))), ValueError, r"\(low, high, interior\)"),
        (lambda: s.collapse(X, 2, 1), ValueError, "start_dimension <= stop_dimension"),
        (lambda: s.broadcast_shapes((2, 3), (2,)), ValueError, "Incompatible shapes for broadcast"),
        (lambda: s.broadcast_to_rank(X, 1), ValueError, "at most 1 axes, got 2"),
        (lambda: s.broadcast_like(X, V), ValueError, r"cannot broadcast shape \(3, 4\)"),
    ],
)  # fmt: skip
def test_bad_arguments(function: Callable[..., Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        function()


def test_a_traced_shape_is_refused() -> None:
    with pytest.raises(TypeError, match="must hold concrete integers, got JitTracer"):
        xpr.jit(lambda n: s.broadcast(1.0, (n,)))(3)


def test_weak_types() -> None:
    def weak(function: Callable[..., Any], *args: Any) -> bool:
        return xpr.make_jaxpr(function)(*args).jaxpr.outvars[0].aval.weak_type

    one = (1,)
    assert weak(lambda x: s.broadcast(x, one), 1.0)
    assert weak(lambda x: s.rev(s.transpose(s.reshape(x, one), (0,)), (0,)), 1.0)
    assert weak(lambda x: s.pad(s.broadcast(x, one), x, [(0, 0, 0)]), 1.0)
    assert not weak(lambda x: s.pad(s.broadcast(x, one), np.float32(1), [(0, 0, 0)]), 1.0)


def test_small_views_do_not_keep_large_arrays() -> None:
    large = jnp.zeros(1_000_000)
    part = np.asarray(lax_slice(large, (5,), (9,)))
    assert not np.may_share_memory(part, np.asarray(large))


_STRIDED = {
    "reversed": lambda x: s.rev(lax_slice(x, (0, 0), (6, 5), (1, 2)), (1,)),
    "one row": lambda x: s.rev(lax_slice(x, (2, 1), (3, 5), (1, 3)), (1,)),
    "transposed": lambda x: s.rev(s.transpose(lax_slice(x, (0, 0), (6, 5), (1, 2)), (1, 0)), (0,)),
    "gathered": lambda x: jnp.take(lax_slice(x, (0, 0), (6, 5), (1, 2)), np.array([1, 0]), 1),
    "indexed": lambda x: x[::-2, 4:0:-3],
}


@pytest.mark.parametrize("dtype", ["float32", "uint16"])
def test_reading_single_elements_of_strided_slices(dtype: str, runtime: str) -> None:
    # Fused with a strided slice, a reversal or a gather does not compile in IREE 3.13.
    x = np.arange(30).reshape(6, 5).astype(dtype)
    cases = [(f, [x]) for f in _STRIDED.values()]
    for name, found, wanted in zip(
        _STRIDED, run_compiled(cases, runtime), run_reference(cases), strict=True
    ):
        np.testing.assert_array_equal(found[0], wanted[0], err_msg=name)
    np.testing.assert_array_equal(run_reference(cases)[-1][0], x[::-2, 4:0:-3])


def test_complex128_constants(runtime: str) -> None:
    # IREE fills no buffer with 128-bit elements, and divides by zero on a table of them.
    with xpr.enable_x64(True):
        x = np.array([1 + 2j, 3 - 4j])
        table = np.array([1j, 2.5, -3.0])
        cases: list[Any] = [
            (lambda a: s.pad(a, np.complex128(7j), ((1, 1, 1),)), [x]),
            (lambda a: s.broadcast(a[0], (2, 2)), [x]),
            (lambda a: jnp.full((3,), 2 - 1j) + a[0], [x]),
            (lambda a: jnp.concatenate([a, jnp.zeros(2, a.dtype)]), [x]),
            (lambda a: jnp.asarray(table) * a[1], [x]),
        ]
        wanted = [
            np.array([7j, 1 + 2j, 7j, 3 - 4j, 7j]),
            np.full((2, 2), 1 + 2j),
            np.full(3, 3 + 1j),
            np.array([1 + 2j, 3 - 4j, 0, 0]),
            table * (3 - 4j),
        ]
        for found, want in zip(run_compiled(cases, runtime), wanted, strict=True):
            np.testing.assert_array_equal(found[0], want)
