"""A decoder of the Llama, Qwen and Gemma families, its cache, sampling and loops.

Weights are a dictionary with the names of GGUF files: arrays of any dtype, or quantized ones.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr import lax, nn

Params = dict[str, Any]
Cache = list[tuple[Any, Any]]


@dataclass(frozen=True)
class Config:
    """Sizes, and what differs between the families."""

    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    hidden: int
    theta: float = 10000.0
    epsilon: float = 1e-5
    window: int | None = None
    """How far back positions are seen in all layers but each `pattern`-th one."""
    pattern: int = 1
    halves: bool = False
    """Whether rotations pair the halves of a head (Qwen, Gemma), or neighbours (Llama)."""
    gelu: bool = False
    scaled_embedding: bool = False
    experts: int = 0
    """How many experts a token uses, where there are experts."""


# ---- layers


def rms_norm(x: Any, weight: Any, epsilon: float) -> Any:
    scale = lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + epsilon)
    return x * scale * weight


def linear(x: Any, w: Any, bias: Any = None) -> Any:
    """`x` by the rows of `w`, or by those of `w["base"]` and adapters of low rank."""
    if isinstance(w, dict):
        y = linear(x, w["base"]) + (x @ w["a"].T) @ w["b"].T
    else:
        y = jnp.einsum("...k,nk->...n", x, w, preferred_element_type=jnp.float32)
    return y if bias is None else y + bias


def rotated(x: Any, angles: Any, halves: bool) -> Any:
    """Pairs of the last axis, of (B, S, heads, head), turned by angles of (B, S, head / 2)."""
    cos, sin = jnp.cos(angles)[:, :, None], jnp.sin(angles)[:, :, None]
    if halves:
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    a, b = pairs[..., 0], pairs[..., 1]
    return jnp.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape)


def attention(
    c: Config, p: Params, x: Any, cache: tuple[Any, Any], start: Any, angles: Any, near: Any
) -> tuple[Any, tuple[Any, Any]]:
    b, s, _ = x.shape
    group = c.heads // c.kv_heads
    q, k, v = (
        linear(x, p[f"attn_{n}.weight"], p.get(f"attn_{n}.bias")).reshape(b, s, -1, c.head)
        for n in "qkv"
    )
    if "attn_q_norm.weight" in p:
        q = rms_norm(q, p["attn_q_norm.weight"], c.epsilon)
        k = rms_norm(k, p["attn_k_norm.weight"], c.epsilon)
    q, k = (rotated(y, angles, c.halves) for y in (q, k))
    keys, values = cache
    k, v = (y.swapaxes(1, 2).astype(keys.dtype) for y in (k, v))
    if s == keys.shape[2]:  # whole sequences
        keys, values = k, v
    else:
        for i in range(b):
            place = (i, 0, start[i], 0)
            keys = lax.dynamic_update_slice(keys, k[i : i + 1], place)
            values = lax.dynamic_update_slice(values, v[i : i + 1], place)
    q = q.reshape(b, s, c.kv_heads, group, c.head).transpose(0, 2, 3, 1, 4)
    q = q.reshape(b, c.kv_heads, group * s, c.head) * c.head**-0.5
    scores = jnp.einsum("bkqh,bkth->bkqt", q, keys, preferred_element_type=jnp.float32)
    scores = scores.reshape(b, c.kv_heads, group, s, -1)
    scores = nn.softmax(jnp.where(near[:, None, None], scores, -1e30), axis=-1)
    scores = scores.reshape(b, c.kv_heads, group * s, -1)
    y = jnp.einsum("bkqt,bkth->bkqh", scores, values, preferred_element_type=jnp.float32)
    y = y.reshape(b, c.kv_heads, group, s, c.head).transpose(0, 3, 1, 2, 4).reshape(b, s, -1)
    return linear(y, p["attn_output.weight"]), (keys, values)


def feed_forward(c: Config, p: Params, x: Any) -> Any:
    act = functools.partial(nn.gelu, approximate=True) if c.gelu else nn.silu

    def expert(gate: Any, up: Any, down: Any) -> Any:
        return linear(act(linear(x, gate)) * linear(x, up), down)

    if "ffn_gate_inp.weight" not in p:
        return expert(*(p[f"ffn_{n}.weight"] for n in ("gate", "up", "down")))
    # Each expert sees each token, and counts where the token is its own.
    chances = nn.softmax(linear(x, p["ffn_gate_inp.weight"]), axis=-1)
    best, chosen = lax.top_k(chances, c.experts)
    shares = jnp.sum(nn.one_hot(chosen, chances.shape[-1]) * best[..., None], axis=-2)
    shares = shares / jnp.sum(shares, axis=-1, keepdims=True)
    stacks = [p[f"ffn_{n}_exps.weight"] for n in ("gate", "up", "down")]
    return sum(
        shares[..., i, None] * expert(*(w[i] for w in stacks)) for i in range(shares.shape[-1])
    )


def forward(c: Config, params: Params, tokens: Any, cache: Cache, start: Any) -> tuple[Any, Cache]:
    """The last layer's output (B, S, width) for tokens (B, S) that begin at `start` (B,).

    The cache then has their keys and values, too: arrays of (B, kv_heads, T, head).
    """
    x = jnp.take(params["token_embd.weight"], tokens, axis=0, mode="clip").astype(jnp.float32)
    if c.scaled_embedding:
        x = x * np.float32(c.width**0.5)
    positions = start[:, None] + jnp.arange(tokens.shape[1])
    frequencies = np.float32(c.theta) ** (-np.arange(0, c.head, 2, dtype=np.float32) / c.head)
    angles = positions[..., None].astype(jnp.float32) * frequencies
    ages = positions[..., None] - jnp.arange(cache[0][0].shape[2])
    done: Cache = []
    for i, here in enumerate(cache):
        p = params[f"blk.{i}"]
        near = ages >= 0
        if c.window is not None and (i + 1) % c.pattern:
            near = near & (ages < c.window)
        y = rms_norm(x, p["attn_norm.weight"], c.epsilon)
        y, kept = attention(c, p, y, here, start, angles, near)
        if "post_attention_norm.weight" in p:
            y = rms_norm(y, p["post_attention_norm.weight"], c.epsilon)
        x = x + y
        y = feed_forward(c, p, rms_norm(x, p["ffn_norm.weight"], c.epsilon))
        if "post_ffw_norm.weight" in p:
            y = rms_norm(y, p["post_ffw_norm.weight"], c.epsilon)
        x = x + y
        done.append(kept)
    return rms_norm(x, params["output_norm.weight"], c.epsilon), done


def logits_of(params: Params, x: Any) -> Any:
    """The logits of outputs; without a matrix of their own, by the embedding's."""
    return linear(x, params.get("output.weight", params["token_embd.weight"]))


def new_cache(c: Config, sequences: int, length: int, dtype: Any = np.float32) -> Cache:
    """A cache for so many sequences of at most `length` tokens."""
    shape = (sequences, c.kv_heads, length, c.head)
    return [(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype)) for _ in range(c.layers)]


# ---- sampling


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; a temperature of 0 takes the likeliest one."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


def sampled(how: Sampling, logits: Any, key: Any) -> Any:
    """A token for each row of logits."""
    if how.temperature == 0:
        return jnp.argmax(logits, axis=-1)
    logits = logits / how.temperature
    if how.top_k:
        least = lax.top_k(logits, min(how.top_k, logits.shape[-1]))[0][..., -1:]
        logits = jnp.where(logits < least, -jnp.inf, logits)
    if how.top_p < 1:
        chances = nn.softmax(jnp.sort(logits, axis=-1, descending=True), axis=-1)
        inside = jnp.cumsum(chances, axis=-1) - chances < how.top_p
        least = jnp.min(jnp.where(inside, chances, 2), axis=-1, keepdims=True)
        logits = jnp.where(nn.softmax(logits, axis=-1) < least * (1 - 1e-6), -jnp.inf, logits)
    if how.min_p:
        best = jnp.max(logits, axis=-1, keepdims=True)
        logits = jnp.where(logits < best + np.log(how.min_p), -jnp.inf, logits)
    return xpr.random.categorical(key, logits, axis=-1)


# ---- programs


@functools.partial(xpr.jit, static_argnums=0, donate_argnums=3)
def prefill(c: Config, params: Params, tokens: Any, cache: Cache, start: Any, last: Any) -> Any:
    """A chunk of prompts: the logits behind token `last` of each, and the cache."""
    x, cache = forward(c, params, tokens, cache, start)
    return logits_of(params, jnp.take_along_axis(x, last[:, None, None], axis=1)[:, 0]), cache


@functools.partial(xpr.jit, static_argnums=(0, 1), donate_argnums=4)
def decode(
    c: Config, how: Sampling, params: Params, token: Any, cache: Cache, at: Any, key: Any
) -> Any:
    """One step: the tokens (B,) that follow `token` at positions `at`, the cache and a new key."""
    x, cache = forward(c, params, token[:, None], cache, at)
    key, own = xpr.random.split(key)
    return sampled(how, logits_of(params, x[:, 0]), own), cache, at + 1, key


@functools.partial(xpr.jit, static_argnums=(0, 1, 7), donate_argnums=4)
def decode_many(
    c: Config,
    how: Sampling,
    params: Params,
    token: Any,
    cache: Cache,
    at: Any,
    key: Any,
    count: int,
) -> Any:
    """`count` steps as one program: tokens (B, count), and the cache."""

    def step(i: Any, state: Any) -> Any:
        token, cache, at, key, found = state
        x, cache = forward(c, params, token[:, None], cache, at)
        key, own = xpr.random.split(key)
        token = sampled(how, logits_of(params, x[:, 0]), own).astype(token.dtype)
        return token, cache, at + 1, key, lax.dynamic_update_slice(found, token[:, None], (0, i))

    found = jnp.zeros((token.shape[0], count), token.dtype)
    state = lax.fori_loop(0, count, step, (token, cache, at, key, found))
    return state[4], state[1]


def generate(
    c: Config,
    params: Params,
    prompt: Sequence[int],
    *,
    limit: int = 128,
    context: int = 512,
    chunk: int = 64,
    how: Sampling = Sampling(),
    seed: int = 0,
    end: int | None = None,
) -> Iterator[int]:
    """Tokens that follow the prompt, one by one, until `end` or `limit` of them.

    Raises ValueError for an empty prompt and one that, with what follows, exceeds the context.
    """
    if not prompt:
        raise ValueError("generate requires a prompt of at least one token")
    if len(prompt) + limit > context:
        raise ValueError(f"{len(prompt)} tokens and {limit} more exceed the context of {context}")
    if limit == 0:
        return
    # Room for the last chunk's padding, which is overwritten or never looked at.
    cache, logits = new_cache(c, 1, -(-context // chunk) * chunk), None
    for start in range(0, len(prompt), chunk):
        part = np.asarray([prompt[start : start + chunk]], np.int32)
        last, padding = np.array([part.shape[1] - 1], np.int32), chunk - part.shape[1]
        part = np.pad(part, ((0, 0), (0, padding)))
        logits, cache = prefill(c, params, part, cache, np.array([start], np.int32), last)
    key, own = xpr.random.split(xpr.random.key(seed))
    token, at = sampled(how, logits, own), jnp.array([len(prompt)], jnp.int32)
    for i in range(limit):
        following = None
        if i + 1 < limit:  # while it is computed, the caller has this one
            following = decode(c, how, params, token.astype(jnp.int32), cache, at, key)
        found = int(token[0])
        if found == end:
            return
        yield found
        if following is not None:
            token, cache, at, key = following
