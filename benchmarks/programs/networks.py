"""Networks: an LSTM, an attention decoder with a cache, convolutions in both layouts."""

from __future__ import annotations

import functools
from typing import Any

import numpy

from benchmarks.programs.program import Inputs, Program, random


def _sigmoid(np: Any, x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def _cell(np: Any, w: Any, b: Any, h: Any, c: Any, x: Any) -> Any:
    gates = np.concatenate([x, h], -1) @ w + b
    i, f, g, o = np.split(gates, 4, axis=-1)
    c = _sigmoid(np, f + 1.0) * c + _sigmoid(np, i) * np.tanh(g)
    return _sigmoid(np, o) * np.tanh(c), c


def _lstm(np: Any, lax: Any) -> Any:
    def run(w: Any, b: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            h, c = _cell(np, w, b, state[0], state[1], x)
            return (h, c), h

        zero = np.zeros((xs.shape[1], w.shape[1] // 4), xs.dtype)
        return lax.scan(step, (zero, zero), xs)[1]

    return run


def _lstm_plain(w: Any, b: Any, xs: Any) -> Any:
    h = c = numpy.zeros((xs.shape[1], w.shape[1] // 4))
    out = []
    for x in xs:
        h, c = _cell(numpy, w, b, h, c, x)
        out.append(h)
    return numpy.stack(out)


def _sequence(n: int) -> Inputs:
    return 0.1 * random(n + n, 4 * n), random(4 * n, seed=1), random(50, 4, n, seed=2)


_HEADS, _WIDTH, _TOKENS = 4, 32, 64


def _decoder(np: Any, lax: Any) -> Any:
    """Greedy decoding by one layer of attention, keys and values in a cache."""

    def run(embed: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
        width = embed.shape[1]
        head = width // _HEADS

        def step(state: Any, at: Any) -> Any:
            token, keys, values = state
            x = embed[token]
            q, k, v = ((x @ w).reshape(_HEADS, 1, head) for w in (wq, wk, wv))
            keys = lax.dynamic_update_slice(keys, k, (0, at, 0))
            values = lax.dynamic_update_slice(values, v, (0, at, 0))
            scores = np.einsum("hqd,hkd->hk", q, keys) / head**0.5
            scores = np.where(np.arange(_TOKENS) <= at, scores, -np.inf)
            weights = np.exp(scores - np.max(scores, -1, keepdims=True))
            weights = weights / np.sum(weights, -1, keepdims=True)
            mixed = np.einsum("hk,hkd->hd", weights, values).reshape(width)
            logits = (x + mixed @ wo) @ embed.T
            token = np.argmax(logits)
            return (token, keys, values), (token, logits)

        cache = np.zeros((_HEADS, _TOKENS, head), embed.dtype)
        start = np.argmax(embed[0, :1]), cache, cache
        return lax.scan(step, start, np.arange(_TOKENS))[1]

    return run


def _decoder_plain(embed: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
    token, keys, values, tokens, out = 0, [], [], [], []
    width = embed.shape[1]
    for _ in range(_TOKENS):
        x = embed[token]
        q = (x @ wq).reshape(_HEADS, -1)
        keys.append((x @ wk).reshape(_HEADS, -1))
        values.append((x @ wv).reshape(_HEADS, -1))
        mixed = []
        for h in range(_HEADS):
            k, v = numpy.stack(keys)[:, h], numpy.stack(values)[:, h]
            weights = numpy.exp(k @ q[h] / (width // _HEADS) ** 0.5)
            mixed.append(weights @ v / weights.sum())
        out.append((x + numpy.concatenate(mixed) @ wo) @ embed.T)
        token = int(out[-1].argmax())
        tokens.append(token)
    return numpy.array(tokens), numpy.stack(out)


def _weights(n: int) -> Inputs:
    return random(n, _WIDTH), *(random(_WIDTH, _WIDTH, seed=k) / 6.0 for k in range(1, 5))


def _convolutions(layout: str) -> Any:
    channels = layout.index("C")
    windows = tuple(2 if a in "HW" else 1 for a in layout)

    def network(np: Any, lax: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            x = lax.conv_general_dilated(
                x, w, (1, 1), "SAME", dimension_numbers=(layout, "HWIO", layout)
            )
            x = np.maximum(x, 0.0)
            return lax.reduce_window(x, -np.inf, lax.max, windows, windows, "VALID")

        def run(x: Any, w1: Any, w2: Any, w3: Any) -> Any:
            x = layer(layer(x, w1), w2)
            axes = tuple(a for a in (1, 2, 3) if a != channels)
            return np.mean(x, axis=axes) @ w3

        return run

    return network


def _convolutions_plain(layout: str, x: Any, w1: Any, w2: Any, w3: Any) -> Any:
    if layout == "NCHW":
        x = x.transpose(0, 2, 3, 1)
    for w in (w1, w2):
        n, h, width, _ = x.shape
        padded = numpy.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        out = sum(padded[:, i : i + h, j : j + width] @ w[i, j] for i in range(3) for j in range(3))
        out = numpy.maximum(out, 0.0).reshape(n, h // 2, 2, width // 2, 2, -1)
        x = out.max((2, 4))
    return x.mean((1, 2)) @ w3


def _images(layout: str, n: int) -> Inputs:
    x = random(4, n, n, 3) if layout == "NHWC" else random(4, 3, n, n)
    return (
        x,
        random(3, 3, 3, 16, seed=1),
        0.1 * random(3, 3, 16, 32, seed=2),
        random(32, 10, seed=3),
    )


def _network(layout: str) -> Program:
    return Program(
        f"convolutions {layout}",
        (16, 32, 128),
        functools.partial(_images, layout),
        _convolutions(layout),
        functools.partial(_convolutions_plain, layout),
        "LeCun et al. 1998",
    )


PROGRAMS = (
    Program(
        "lstm", (16, 64, 256), _sequence, _lstm, _lstm_plain, "Hochreiter and Schmidhuber 1997"
    ),
    Program(
        "attention decoder",
        (50, 200, 2000),
        _weights,
        _decoder,
        _decoder_plain,
        "Vaswani et al. 2017",
    ),
    _network("NHWC"),
    _network("NCHW"),
)
