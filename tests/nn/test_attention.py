"""Attention against a loop over batches, heads and queries in NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import special

import xpr
from tests.numpy.cases import jnp
from xpr.test_util import check_grads

nn: Any = xpr.nn

B, T, S, N, K, H = 2, 5, 6, 4, 2, 3
RNG = np.random.default_rng(7)
Q = RNG.normal(size=(B, T, N, H)).astype("f4")
KEY = RNG.normal(size=(B, S, K, H)).astype("f4")
V = RNG.normal(size=(B, S, K, H)).astype("f4")
BIAS = RNG.normal(size=(1, N, T, S)).astype("f4")
MASK = RNG.random((B, N, T, S)) > 0.3
LENGTHS = {
    "query_seq_lengths": np.array([3, 5], "i4"),
    "key_value_seq_lengths": np.array([6, 2], "i4"),
}


def reference(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = 0.0,
    mask: Any = True,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: Any = None,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Each query by itself; masked keys are left out of the sums. Also the sums' logarithms."""
    (batch, queries, heads, size), keys = query.shape, key.shape[1]
    full = (batch, heads, queries, keys)
    bias, mask = np.broadcast_to(bias, full), np.broadcast_to(mask, full)
    out, sums = np.zeros(query.shape), np.zeros(query.shape[:3])
    for b in range(batch):
        for n in range(heads):
            head = n // (heads // key.shape[2])
            for t in range(queries):
                if query_seq_lengths is not None and t >= query_seq_lengths[b]:
                    sums[b, t, n] = np.nan
                    continue
                chosen = []
                for s in range(keys):
                    ok = mask[b, n, t, s]
                    ok = ok and (not is_causal or s <= t)
                    if key_value_seq_lengths is not None:
                        ok = ok and s < key_value_seq_lengths[b]
                    if local_window_size is not None:
                        left, right = local_window_size
                        ok = ok and t - left <= s <= t + right
                    if ok:
                        chosen.append(s)
                rows = key[b, chosen, head].astype("f8")
                logits = rows @ query[b, t, n].astype("f8")
                logits = logits * (1 / np.sqrt(size) if scale is None else scale)
                logits = logits + bias[b, n, t, chosen]
                if chosen:
                    out[b, t, n] = special.softmax(logits) @ value[b, chosen, head].astype("f8")
                    sums[b, t, n] = special.logsumexp(logits)
                else:
                    out[b, t, n] = value[b, :, head].astype("f8").mean(0)
                    sums[b, t, n] = np.nan
    return out, sums


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bias": {"bias": BIAS},
    "bias of one head": {"bias": BIAS[0, 0]},
    "bias of keys": {"bias": BIAS[:, :1, :1]},
    "mask": {"mask": MASK},
    "mask of one head": {"mask": MASK[:1, :1]},
    "no keys": {"mask": np.zeros((T, S), bool)},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3},
    "lengths": LENGTHS,
    "query lengths": {"query_seq_lengths": LENGTHS["query_seq_lengths"]},
    "window": {"local_window_size": (1, 1)},
    "left window": {"local_window_size": (2, 0)},
    "all": {
        "bias": BIAS,
        "mask": MASK,
        "scale": 1.0,
        "is_causal": True,
        "local_window_size": (3, 1),
        **LENGTHS,
    },
}


def test_values() -> None:
    def all_of_them(q: Any, k: Any, v: Any) -> Any:
        return {
            name: nn.dot_product_attention(q, k, v, return_residual=True, **options)
            for name, options in OPTIONS.items()
        }

    for found in (all_of_them(Q, KEY, V), xpr.jit(all_of_them)(Q, KEY, V)):
        for name, options in OPTIONS.items():
            expected, sums = reference(Q, KEY, V, **options)
            out, residual = found[name]
            assert out.dtype == residual.dtype == np.float32
            np.testing.assert_allclose(out, expected, rtol=1e-5, atol=2e-6, err_msg=name)
            assert residual.shape == (B, T, N)
            known = ~np.isnan(sums)
            np.testing.assert_allclose(residual[known], sums[known], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_groups_of_heads(heads: int) -> None:
    key = RNG.normal(size=(B, S, heads, H)).astype("f4")
    value = RNG.normal(size=(B, S, heads, H)).astype("f4")
    found = nn.dot_product_attention(Q, key, value, is_causal=True)
    expected, _ = reference(Q, key, value, is_causal=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)
    repeated = [np.repeat(x, N // heads, axis=2) for x in (key, value)]
    np.testing.assert_allclose(
        found, nn.dot_product_attention(Q, *repeated, is_causal=True), rtol=1e-5, atol=1e-6
    )


def test_without_batches_and_other_forms() -> None:
    expected, sums = reference(Q[:1], KEY[:1], V[:1], local_window_size=(2, 2))
    found, residual = nn.dot_product_attention(
        Q[0], KEY[0], V[0], local_window_size=2, implementation="xla", return_residual=True
    )
    np.testing.assert_allclose(found, expected[0], rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(residual, sums[0], rtol=1e-5, atol=1e-6)
    mapped = xpr.vmap(lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True))
    expected, _ = reference(Q, KEY, V, is_causal=True)
    np.testing.assert_allclose(mapped(Q, KEY, V), expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("jitted", [False, True])
def test_narrow_floats(dtype: Any, jitted: bool) -> None:
    args = [x.astype(dtype) for x in (Q, KEY, V)]
    run = partial(nn.dot_product_attention, is_causal=True)
    found = (xpr.jit(run) if jitted else run)(*args)
    assert found.dtype == dtype
    expected, _ = reference(*args, is_causal=True)
    # The probabilities and the result are rounded to the dtype, the logits are not.
    unit = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(found.astype("f4"), expected, rtol=2 * unit, atol=2 * unit)


def test_float64_keeps_its_digits() -> None:
    with xpr.enable_x64(True):
        args = [x.astype("f8") for x in (Q, KEY, V)]
        found = nn.dot_product_attention(*args, bias=BIAS.astype("f8"), is_causal=True)
        expected, _ = reference(*args, bias=BIAS, is_causal=True)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_derivatives() -> None:
    with xpr.enable_x64(True):
        args = [x[:, :, :2].astype("f8") for x in (Q, KEY[:, :, :1], V[:, :, :1])]
        bias = BIAS[:, :2].astype("f8")
        run = partial(
            nn.dot_product_attention, is_causal=True, query_seq_lengths=np.array([3, 5], "i4")
        )
        check_grads(run, (*args, bias), order=1)
        # A masked pair has no part in the result, nor in the derivative.
        last = xpr.grad(lambda v: run(args[0], args[1], v).sum())(args[2])[:, -1]
        np.testing.assert_array_equal(last, np.zeros_like(last))
        through = xpr.grad(
            lambda q: nn.dot_product_attention(q, *args[1:], return_residual=True)[1].sum()
        )
        np.testing.assert_array_equal(through(args[0]), np.zeros_like(args[0]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f: f(Q, KEY, V, implementation="cudnn"), NotImplementedError, "no cuDNN"),
        (lambda f: f(Q, KEY, V, implementation="fast"), ValueError, "'cudnn', got 'fast'"),
        (lambda f: f(Q[:, :, :3], KEY, V), ValueError, "multiple of .* got 3 and 2"),
        (lambda f: f(Q, KEY, V[:, :3]), ValueError, r"value shape should be \[2, 6, 2, 3\]"),
        (lambda f: f(Q[..., :2], KEY, V), ValueError, r"query shape should be \[2, -1, -1, 3\]"),
        (lambda f: f(Q[None], KEY, V), ValueError, "query ndim should be 4, but got 5"),
        (
            lambda f: f(Q, KEY, V.astype("f2")),
            ValueError,
            "value dtype should be float32, but got float16",
        ),
        (lambda f: f(Q, KEY, V, mask=BIAS), ValueError, "mask dtype should be bool"),
        (
            lambda f: f(Q, KEY, V, bias=np.ones((3, 3, T, S))),
            ValueError,
            r"bias shape should broadcast to \(2, 4, 5, 6\), but got \(3, 3, 5, 6\)",
        ),
        (
            lambda f: f(Q, KEY, V, query_seq_lengths=np.ones(2, "i2")),
            ValueError,
            "query_seq_lengths dtype should be int32, but got int16",
        ),
        (
            lambda f: f(Q, KEY, V, key_value_seq_lengths=np.ones(1, "i4")),
            ValueError,
            r"key_value_seq_lengths shape should be \[2\], but got \(1,\)",
        ),
    ],
)
def test_errors(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call(nn.dot_product_attention)


def test_derivatives_of_a_bias_in_bfloat16() -> None:
    """Against the derivatives of the softmax, written out; they have not compiled."""
    rng = np.random.default_rng(5)
    batch, length, heads, size = 2, 8, 4, 16
    narrow = [rng.normal(size=(batch, length, heads, size)) for _ in range(4)]
    narrow = [x.astype(ml_dtypes.bfloat16) for x in narrow]
    bias = rng.normal(size=(batch, heads, length, length)).astype(ml_dtypes.bfloat16)

    def total(q: Any, k: Any, v: Any, bias: Any) -> Any:
        out = nn.dot_product_attention(q, k, v, bias=bias)
        return jnp.sum(out.astype(np.float32) * narrow[3].astype(np.float32))

    found = xpr.jit(xpr.grad(total, argnums=(0, 1, 2, 3)))(*narrow[:3], bias)
    q, k, v, weight = (x.astype(float) for x in narrow)
    logits = np.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(size) + bias.astype(float)
    p = special.softmax(logits, axis=-1)
    slope = np.einsum("btnh,bsnh->bnts", weight, v)
    slope = p * (slope - (p * slope).sum(-1, keepdims=True))
    expected = (
        np.einsum("bnts,bsnh->btnh", slope, k) / np.sqrt(size),
        np.einsum("bnts,btnh->bsnh", slope, q) / np.sqrt(size),
        np.einsum("bnts,btnh->bsnh", p, weight),
        slope,
    )
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == ml_dtypes.bfloat16
        # Eight terms, each rounded a few times to eight bits.
        np.testing.assert_allclose(
            a.astype(np.float32), b, rtol=2**-6, atol=2**-6 * float(abs(b).max())
        )


def test_many_keys() -> None:
    """A sum over keys that does not fit a vector register, of an odd length."""
    q, k, v = (RNG.normal(size=(1, n, 1, 8)).astype("f4") for n in (33, 131, 131))
    found = xpr.jit(nn.dot_product_attention)(q, k, v)
    np.testing.assert_allclose(found, reference(q, k, v)[0], rtol=2e-5, atol=2e-6)
    assert jnp.isfinite(found).all()
