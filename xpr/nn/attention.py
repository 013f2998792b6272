"""Scaled dot-product attention.

Letters for sizes: B batches, T queries, S keys and values, N query heads, K key heads, H features
of a head. Each key head serves a group of G = N / K query heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.nn.normalization import logsumexp, softmax
from xpr.numpy._typing import Array, ArrayLike, DType
from xpr.primitives.creation import broadcasted_iota
from xpr.primitives.custom import stop_gradient

# What stands for the logit of a masked pair. It is finite, so that a query that may look nowhere
# gets the mean of all values rather than NaN.
_MASKED = -0.7 * float(np.finfo(np.float32).max)


@overload
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: Literal["xla", "cudnn"] | None = None,
    return_residual: Literal[False] = False,
) -> Array: ...


@overload
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: Literal["xla", "cudnn"] | None = None,
    return_residual: Literal[True],
) -> tuple[Array, Array]: ...


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: Literal["xla", "cudnn"] | None = None,
    return_residual: bool = False,
) -> Array | tuple[Array, Array]:
    """softmax(scale query key^T + bias) value, for each head.

    Vaswani et al., "Attention Is All You Need", 2017; with fewer key heads than query heads,
    Shazeer 2019 (one) and Ainslie et al. 2023 (groups).

    `query` has shape (B, T, N, H), `key` and `value` (B, S, K, H), all of one dtype and with or
    without B; N is a multiple of K. `bias` is added to the logits and `mask`, of booleans, says
    which pairs count; both have a shape that broadcasts to (B, N, T, S). `scale` is 1 / sqrt(H) if
    it is left out. What else limits the pairs of query t and key s:

    - `is_causal`: s <= t;
    - `query_seq_lengths` and `key_value_seq_lengths`, int32 of shape (B,): t and s are below the
      lengths; the results of queries beyond are 0;
    - `local_window_size`, (left, right) or one number for both: t - left <= s <= t + right.

    A query that may look at no key gets the mean of all values. The result has the shape and dtype
    of `query`; logits and softmax are computed in float32, or in float64 for such operands. With
    `return_residual` the result is a pair, the second part the logsumexp of the logits of each
    query, (B, T, N), through which no derivative passes.

    `implementation` is None or "xla", which both mean this one; NotImplementedError for "cudnn".
    Raises ValueError for shapes and dtypes that do not fit.

    >>> import xpr, xpr.numpy as jnp
    >>> x = jnp.arange(3.0).reshape(3, 1, 1)
    >>> xpr.nn.dot_product_attention(jnp.zeros((3, 1, 1)), x, x, is_causal=True).ravel()
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    if implementation == "cudnn":
        raise NotImplementedError(
            "dot_product_attention: implementation 'cudnn' is not available, xpr has no cuDNN; use "
            "'xla' or None"
        )
    if implementation not in (None, "xla"):
        raise ValueError(
            "dot_product_attention requires implementation to be None, 'xla' or 'cudnn', got "
            f"{implementation!r}"
        )
    shape = jnp.asarray(query).shape
    q, k, v = _with_batch(query), _with_batch(key), _with_batch(value)
    _check("key", k, (-1, -1, -1, -1), k.dtype)
    batch, keys, key_heads, features = k.shape
    _check("value", v, k.shape, k.dtype)
    _check("query", q, (batch, -1, -1, features), k.dtype)
    queries, heads = q.shape[1:3]
    if key_heads == 0 or heads % key_heads:
        raise ValueError(
            "dot_product_attention requires the number of query heads to be a multiple of the "
            f"number of key heads, got {heads} and {key_heads}"
        )
    groups = heads // key_heads

    wide = np.float64 if k.dtype == np.float64 else np.float32
    logits = jnp.einsum(
        "btkgh,bskh->bkgts",
        q.reshape(batch, queries, key_heads, groups, features),
        k,
        preferred_element_type=wide,
    )
    logits = logits * jnp.asarray(1 / math.sqrt(features) if scale is None else scale, wide)
    if bias is not None:
        added = _grouped("bias", bias, key_heads, groups, (batch, heads, queries, keys))
        logits = (logits + added).astype(wide)

    allowed: list[Array] = []
    if mask is not None:
        chosen = _grouped("mask", mask, key_heads, groups, (batch, heads, queries, keys))
        if chosen.dtype != dtypes.BOOL:
            raise ValueError(f"mask dtype should be bool, but got {chosen.dtype}")
        allowed.append(chosen)
    t = broadcasted_iota(np.int32, (queries, 1), 0)
    s = broadcasted_iota(np.int32, (1, keys), 1)
    if is_causal:
        allowed.append(s <= t)
    if local_window_size is not None:
        left, right = (
            (local_window_size, local_window_size)
            if isinstance(local_window_size, int)
            else local_window_size
        )
        allowed.append((s >= t - left) & (s <= t + right))
    present = None
    if query_seq_lengths is not None:
        present = _wide(t) < _lengths("query_seq_lengths", query_seq_lengths, batch)
        allowed.append(present)
    if key_value_seq_lengths is not None:
        allowed.append(_wide(s) < _lengths("key_value_seq_lengths", key_value_seq_lengths, batch))
    for pairs in allowed[1:]:
        allowed[0] = _wide(allowed[0]) & _wide(pairs)
    if allowed:
        logits = jnp.where(_wide(allowed[0]), logits, _MASKED)

    out = jnp.einsum("bkgts,bskh->btkgh", softmax(logits).astype(k.dtype), v)
    out = out.reshape(batch, queries, heads, features)
    if present is not None:
        out = jnp.where(present[:, 0, 0, :, :, None], out, 0)
    out = out.reshape(shape)
    if not return_residual:
        return out
    residual = logsumexp(logits, -1).astype(k.dtype).transpose(0, 3, 1, 2)
    return out, stop_gradient(residual.reshape(shape[:-1]))


def _with_batch(x: Any) -> Array:
    """`x` with axes of size 1 before its own, four in all."""
    x = jnp.asarray(x)
    return x if x.ndim >= 4 else x.reshape((1,) * (4 - x.ndim) + x.shape)


def _check(name: str, x: Array, shape: Sequence[int], dtype: DType) -> None:
    """ValueError unless `x` has the dtype and the shape, in which -1 is any size."""
    if x.ndim != len(shape):
        raise ValueError(f"{name} ndim should be {len(shape)}, but got {x.ndim}")
    if x.dtype != dtype:
        raise ValueError(f"{name} dtype should be {dtype}, but got {x.dtype}")
    if any(want not in (-1, have) for want, have in zip(shape, x.shape, strict=True)):
        raise ValueError(f"{name} shape should be {list(shape)}, but got {x.shape}")


def _grouped(name: str, x: Any, key_heads: int, groups: int, full: Sequence[int]) -> Array:
    """A bias or mask for (B, N, T, S) as one for the logits, (B, K, G, T, S)."""
    x = _with_batch(x)
    if x.ndim != 4:
        raise ValueError(f"{name} ndim should be 4, but got {x.ndim}")
    if any(have not in (1, want) for want, have in zip(full, x.shape, strict=True)):
        raise ValueError(f"{name} shape should broadcast to {tuple(full)}, but got {x.shape}")
    b, n, t, s = x.shape
    return x.reshape((b, 1, 1, t, s) if n == 1 else (b, key_heads, groups, t, s))


def _wide(pairs: Array) -> Array:
    """With the axes of the logits, of which those of queries and keys are the last."""
    return pairs.reshape((1,) * (5 - pairs.ndim) + pairs.shape)


def _lengths(name: str, lengths: Any, batch: int) -> Array:
    """The lengths of each batch, to compare with places along the axes of the logits."""
    lengths = jnp.asarray(lengths)
    _check(name, lengths, (batch,), np.dtype(np.int32))
    return lengths.reshape(batch, 1, 1, 1, 1)
