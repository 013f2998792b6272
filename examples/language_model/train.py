"""Trains a small model on the chapters of Python's own manual, and saves it as a GGUF file.

The text ships with Python (`pydoc_data.topics`); tokens are its characters. After about a minute on
two cores the model writes sentences in the manual's style; quantized to Q8_0 it is half a megabyte.

    python examples/language_model/train.py --output model.gguf
    python examples/language_model/generate.py model.gguf "The import statement"
"""

from __future__ import annotations

import argparse
import functools
import pydoc_data.topics
import time
from typing import Any

import gguf
import model
import numpy as np

import xpr
import xpr.numpy as jnp
from xpr.nn.quantize import quantize

WINDOW, BATCH = 64, 12


def text() -> str:
    return "\n".join(pydoc_data.topics.topics.values())


def configuration(vocabulary: int) -> model.Config:
    return model.Config(
        vocabulary=vocabulary, width=128, layers=3, heads=4, kv_heads=2, head=32, hidden=352,
        halves=True,
    )  # fmt: skip


def initial(c: model.Config, key: Any) -> dict[str, Any]:
    """Random weights by GGUF's names."""
    kv, q = c.kv_heads * c.head, c.heads * c.head
    shapes = {"token_embd": (c.vocabulary, c.width)}
    for i in range(c.layers):
        own = {"attn_q": (q, c.width), "attn_k": (kv, c.width), "attn_v": (kv, c.width)}
        own |= {"attn_output": (c.width, q), "ffn_down": (c.width, c.hidden)}
        own |= {"ffn_gate": (c.hidden, c.width), "ffn_up": (c.hidden, c.width)}
        shapes |= {f"blk.{i}.{n}": s for n, s in own.items()}
    keys = xpr.random.split(key, len(shapes))
    arrays = {
        f"{n}.weight": xpr.random.normal(k, s) * (0.02 if n == "token_embd" else s[1] ** -0.5)
        for k, (n, s) in zip(keys, shapes.items(), strict=True)
    }
    for i in range(c.layers):
        arrays |= {f"blk.{i}.{n}_norm.weight": jnp.ones(c.width) for n in ("attn", "ffn")}
    return arrays | {"output_norm.weight": jnp.ones(c.width)}


def as_params(arrays: dict[str, Any]) -> model.Params:
    params: model.Params = {}
    for name, x in arrays.items():
        parts = name.split(".", 2)
        if parts[0] == "blk":
            params.setdefault(f"blk.{parts[1]}", {})[parts[2]] = x
        else:
            params[name] = x
    return params


def loss(c: model.Config, arrays: dict[str, Any], tokens: Any) -> Any:
    """The mean cross-entropy of each token behind those before it."""
    params = as_params(arrays)
    n, length = tokens.shape[0], tokens.shape[1] - 1
    x, _ = model.forward(
        c, params, tokens[:, :-1], model.new_cache(c, n, length), jnp.zeros(n, jnp.int32)
    )
    logits = model.logits_of(params, x)
    chosen = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
    return jnp.mean(xpr.nn.logsumexp(logits, axis=-1) - chosen)


@functools.partial(xpr.jit, static_argnums=0, donate_argnums=(1, 2))
def step(c: model.Config, arrays: Any, moments: Any, tokens: Any, i: Any, steps: Any) -> Any:
    """A step of Adam with a learning rate that rises, then falls as a cosine."""
    value, slopes = xpr.value_and_grad(lambda a: loss(c, a, tokens))(arrays)
    size = jnp.sqrt(sum(jnp.sum(g * g) for g in xpr.tree.leaves(slopes)))
    slopes = xpr.tree.map(lambda g: g / jnp.maximum(size, 1), slopes)
    rate = 3e-3 * jnp.minimum((i + 1) / 40, 0.5 + 0.5 * jnp.cos(jnp.pi * i / steps))
    first = xpr.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], slopes)
    second = xpr.tree.map(lambda m, g: 0.98 * m + 0.02 * g * g, moments[1], slopes)
    a, b = 1 - 0.9 ** (i + 1), 1 - 0.98 ** (i + 1)
    arrays = xpr.tree.map(
        lambda p, m, v: p - rate * (m / a) / (jnp.sqrt(v / b) + 1e-8), arrays, first, second
    )
    return arrays, (first, second), value


def trained(seconds: float, most: int = 10_000) -> tuple[model.Config, dict[str, Any], list[str]]:
    """A model trained for about so long; its configuration, arrays and characters."""
    whole = text()
    characters = sorted(set(whole))
    number = {ch: i for i, ch in enumerate(characters)}
    tokens = np.array([number[ch] for ch in whole], np.int32)
    c = configuration(len(characters))
    arrays = initial(c, xpr.random.key(0))
    moments = (xpr.tree.map(jnp.zeros_like, arrays), xpr.tree.map(jnp.zeros_like, arrays))
    rng = np.random.default_rng(0)
    begin, steps = None, float(most)
    i, value = 0, 0.0
    while i < steps:
        starts = rng.integers(0, len(tokens) - WINDOW - 1, BATCH)
        batch = np.stack([tokens[s : s + WINDOW + 1] for s in starts])
        arrays, moments, value = step(c, arrays, moments, batch, np.float32(i), np.float32(steps))
        i += 1
        if i == 5:
            float(value)
            begin = time.perf_counter()
        if i == 15 and begin is not None:
            float(value)  # ten steps tell how many there is time for
            steps = min(float(most), max(20, seconds * 10 / (time.perf_counter() - begin)))
        if i % 100 == 0:
            print(f"step {i} of {steps:.0f}: loss {float(value):.3f}", flush=True)
    print(f"loss {float(value):.3f} after {i} steps")
    return c, arrays, characters


def save(
    path: str, c: model.Config, arrays: dict[str, Any], characters: list[str], layout: str
) -> None:
    """Writes a GGUF file of the Qwen2 family; matrices in the layout, if one is given."""
    metadata = {
        "general.architecture": "qwen2",
        "qwen2.block_count": c.layers,
        "qwen2.context_length": 512,
        "qwen2.embedding_length": c.width,
        "qwen2.feed_forward_length": c.hidden,
        "qwen2.attention.head_count": c.heads,
        "qwen2.attention.head_count_kv": c.kv_heads,
        "qwen2.attention.layer_norm_rms_epsilon": c.epsilon,
        "qwen2.rope.freq_base": c.theta,
        "tokenizer.ggml.model": "characters",
        "tokenizer.ggml.tokens": characters,
    }
    stored = {
        name: quantize(x, layout) if layout and x.ndim == 2 else np.asarray(x)
        for name, x in arrays.items()
    }
    gguf.write(path, metadata, stored)


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a small language model.")
    parser.add_argument("--output", default="model.gguf")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--steps", type=int, default=10_000, help="at most so many")
    parser.add_argument("--layout", default="q8_0", help="of matrices; empty for float32")
    chosen = parser.parse_args()
    c, arrays, characters = trained(chosen.seconds, chosen.steps)
    save(chosen.output, c, arrays, characters, chosen.layout)
    print(f"wrote {chosen.output}")


if __name__ == "__main__":
    main()
