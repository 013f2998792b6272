"""Block-scaled products against ml_dtypes' narrow floats and loops over blocks in NumPy."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
from tests.numpy.cases import jnp

nn: Any = xpr.nn

RNG = np.random.default_rng(9)
ROWS = (((2,), (2,)), ((0,), (0,)))
# Rows of very different sizes, one block of zeros and one of the smallest numbers.
A = (RNG.normal(size=(2, 5, 64)) * np.exp(4 * RNG.normal(size=(2, 5, 1)))).astype("f4")
A[0, 0, :32] = 0
A[1, 3] *= 1e-30
C = RNG.normal(size=(2, 3, 64)).astype("f4")


def _stored(x: np.ndarray[Any, Any], mode: str, total: float = 1.0) -> np.ndarray[Any, Any]:
    """`x` after quantization, block by block."""
    size = 32 if mode == "mxfp8" else 16
    out = np.zeros(x.shape)
    for place in np.ndindex(*x.shape[:-1]):
        for start in range(0, x.shape[-1], size):
            at = (*place, slice(start, start + size))
            block = x[at] / np.float32(total)
            top = np.abs(block).max()
            if top == 0:
                continue
            if mode == "mxfp8":
                scale = 2.0 ** max(np.ceil(np.log2(top / 448)), -127)
                small = (block / scale).astype(ml_dtypes.float8_e4m3fn)
            else:
                wanted = np.minimum(top / np.float32(6), np.float32(448))
                scale = float(wanted.astype(ml_dtypes.float8_e4m3fn))
                if scale == 0:
                    continue
                small = np.clip(block / np.float32(scale), -6, 6).astype(ml_dtypes.float4_e2m1fn)
            out[at] = small.astype("f8") * scale * total
    return out


@pytest.mark.parametrize("jitted", [False, True])
def test_scaled_matmul(jitted: bool) -> None:
    def run(a: Any, b: Any, s: Any, t: Any) -> Any:
        return nn.scaled_matmul(a, b, s, t), nn.scaled_matmul(a, b, s, t, jnp.bfloat16)

    for data, scale in (
        (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu),
        (ml_dtypes.float8_e5m2, np.float32),
        (np.int32, np.float16),
    ):
        a, b = (RNG.normal(size=(2, n, 12)) * 3 for n in (4, 5))
        s, t = (2.0 ** RNG.integers(-3, 3, (2, n, 3)) for n in (4, 5))
        args = [a.astype(data), b.astype(data), s.astype(scale), t.astype(scale)]
        wide = [x.astype("f8") for x in args]
        expected = np.einsum(
            "bmk,bnk->bmn", wide[0] * np.repeat(wide[2], 4, 2), wide[1] * np.repeat(wide[3], 4, 2)
        )
        found, narrow = (xpr.jit(run) if jitted else run)(*args)
        assert (found.dtype, narrow.dtype) == (np.float32, jnp.bfloat16)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(narrow.astype("f4"), expected, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
@pytest.mark.parametrize("jitted", [False, True])
def test_values(mode: str, jitted: bool) -> None:
    config = nn.get_scaled_dot_general_config(mode)
    run = partial(nn.scaled_dot_general, dimension_numbers=ROWS, configs=[config] * 3)
    found = (xpr.jit(run) if jitted else run)(A, C)
    expected = np.einsum("bmk,bnk->bmn", _stored(A, mode), _stored(C, mode))
    scale = np.abs(expected).max(axis=2, keepdims=True)
    np.testing.assert_allclose(
        found / np.maximum(scale, 1e-30), expected / np.maximum(scale, 1e-30), atol=1e-5
    )
    # The identity shows each quantized element by itself.
    eye = np.broadcast_to(np.eye(64, dtype="f4"), (2, 64, 64))
    exact = (xpr.jit(run) if jitted else run)(A, eye)
    ones = _stored(eye, mode)[0, 0, 0]
    np.testing.assert_allclose(exact, _stored(A, mode) * ones, rtol=1e-6)


def test_global_scale() -> None:
    totals = [0.25, 4.0]
    configs = [nn.get_scaled_dot_general_config("nvfp4", jnp.array([t])) for t in (*totals, 1.0)]
    found = nn.scaled_dot_general(A, C, ROWS, configs=configs)
    expected = np.einsum(
        "bmk,bnk->bmn", *(_stored(x, "nvfp4", t) for x, t in zip((A, C), totals, strict=True))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
def test_derivatives(mode: str) -> None:
    config = nn.get_scaled_dot_general_config(mode)
    x = RNG.normal(size=(2, 32, 64)).astype("f4")
    y = RNG.normal(size=(2, 96, 64)).astype("f4")
    ct = RNG.normal(size=(2, 32, 96)).astype("f4")

    def loss(a: Any, b: Any) -> Any:
        return (nn.scaled_dot_general(a, b, ROWS, configs=[config] * 3) * ct).sum()

    def kept(v: Any) -> Any:
        return _stored(v, mode) if mode == "mxfp8" else v.astype("f8")

    turned = ct.transpose(0, 2, 1)
    to_x = np.einsum("bmn,bkn->bmk", kept(ct), kept(np.ascontiguousarray(y.transpose(0, 2, 1))))
    to_y = np.einsum(
        "bnm,bkm->bnk",
        kept(np.ascontiguousarray(turned)),
        kept(np.ascontiguousarray(x.transpose(0, 2, 1))),
    )
    for transform in (lambda f: f, xpr.jit):
        found = transform(xpr.grad(loss, (0, 1)))(x, y)
        np.testing.assert_allclose(found[0], to_x, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found[1], to_y, rtol=1e-4, atol=1e-4)


def test_no_derivative_where_elements_are_clipped() -> None:
    config = nn.get_scaled_dot_general_config("nvfp4")
    x = np.array([[1e4, 1.0] * 8], "f4")  # 6 times 448 is the greatest number of the format

    def loss(a: Any) -> Any:
        return nn.scaled_dot_general(
            a, np.ones((1, 16), "f4"), (((1,), (1,)), ((), ())), configs=[config] * 3
        ).sum()

    np.testing.assert_array_equal(xpr.grad(loss)(x), [[0.0, 1.0] * 8])


def test_axes_and_dtypes() -> None:
    x, y = RNG.normal(size=(8, 3, 4, 2)).astype("f4"), RNG.normal(size=(2, 4, 5, 8)).astype("f4")
    numbers = (((0, 2), (3, 1)), ((3,), (0,)))
    configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    found = nn.scaled_dot_general(x, y, numbers, jnp.bfloat16, configs=configs)
    assert (found.shape, found.dtype) == ((2, 3, 5), jnp.bfloat16)
    exact = np.einsum("abcd,dcea->dbe", x, y)
    # Blocks run along the contracted axes in the order in which they are named.
    rows = _stored(x.transpose(3, 1, 0, 2).reshape(2, 3, 32), "mxfp8")
    columns = _stored(y.transpose(0, 2, 3, 1).reshape(2, 5, 32), "mxfp8")
    expected = np.einsum("bmk,bnk->bmn", rows, columns)
    np.testing.assert_allclose(found.astype("f4"), expected, rtol=4e-3, atol=1e-5)
    plain = nn.scaled_dot_general(x, y, numbers)
    np.testing.assert_allclose(plain, exact, rtol=1e-4, atol=1e-5)
    same = nn.scaled_dot_general(x.astype("f2"), y.astype("f2"), numbers, None, configs)
    assert same.dtype == np.float16


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.get_scaled_dot_general_config("int8"), ValueError, "'mxfp8', got 'int8'"),
        (lambda: nn.scaled_matmul(A[0], C, A, C), ValueError, "3-dimensional arrays, got shapes"),
        (lambda: nn.scaled_matmul(A, C[:, :, :3], A, C), ValueError, "inputs to have matching"),
        (lambda: nn.scaled_matmul(A, C, A, C[:1]), ValueError, "scales to have matching"),
        (lambda: nn.scaled_matmul(A, C, A[:, :2], C), ValueError, "scales to match the batch"),
        (
            lambda: nn.scaled_matmul(A, C, A[..., :5], C[..., :5]),
            ValueError,
            "multiple of that of the scales, got 64 and 5",
        ),
        (
            lambda: nn.scaled_dot_general(
                A[..., :20],
                C[..., :20],
                ROWS,
                configs=[nn.get_scaled_dot_general_config("mxfp8")] * 3,
            ),
            ValueError,
            "multiple of the block size 32 of 'mxfp8', got 20",
        ),
    ],
)
def test_errors(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_deprecated_argument() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nn.scaled_dot_general(A, C, ROWS, implementation="cudnn")
    assert [w.category for w in caught] == [DeprecationWarning]
    assert caught[0].filename == __file__
