"""An epoch of `examples/train_digits.py`, on random images: the same program for both libraries."""

from __future__ import annotations

import functools
from typing import Any

import numpy

from benchmarks.cases import ActionCase, Call, Case
from benchmarks.implementations import Implementation

_SIZE, _CLASSES = 8, 10
_DECAYS = (0.9, 0.999)


def _parameters(rng: Any) -> dict[str, dict[str, Any]]:
    shapes = {
        "conv1": (3, 3, 1, 24),
        "conv2": (3, 3, 24, 48),
        "dense1": ((_SIZE // 2) ** 2 * 48, 64),
        "dense2": (64, _CLASSES),
    }
    return {
        name: {
            "kernel": rng.standard_normal(shape, dtype=numpy.float32)
            * numpy.float32((2 / numpy.prod(shape[:-1])) ** 0.5),
            "bias": numpy.zeros(shape[-1], numpy.float32),
        }
        for name, shape in shapes.items()
    }


def _loss(im: Implementation, params: Any, images: Any, labels: Any) -> Any:
    np, lax, nn = im.np, im.lax, im.root.nn

    def convolve(layer: Any, x: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        found = lax.conv_general_dilated(
            x, layer["kernel"], (1, 1), "SAME", dimension_numbers=layout
        )
        return found + layer["bias"]

    x = nn.relu(convolve(params["conv1"], images[..., None]))
    x = nn.relu(convolve(params["conv2"], x))
    x = lax.reduce_window(x, -numpy.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(x.shape[0], -1)
    x = nn.relu(x @ params["dense1"]["kernel"] + params["dense1"]["bias"])
    scores = x @ params["dense2"]["kernel"] + params["dense2"]["bias"]
    chosen = nn.log_softmax(scores) * nn.one_hot(labels, _CLASSES)
    return -np.mean(np.sum(chosen, axis=-1))


def _epoch(im: Implementation, quick: bool) -> Call:
    np, root = im.np, im.root
    tree_map = root.tree_util.tree_map
    batch, count = (8, 2) if quick else (64, 18)
    rng = numpy.random.default_rng(0)
    images = im.put(rng.random((batch * count, _SIZE, _SIZE), dtype=numpy.float32))
    labels = im.put(rng.integers(0, _CLASSES, batch * count).astype(numpy.int32))
    params = tree_map(im.put, _parameters(rng))
    zeros = tree_map(np.zeros_like, params)

    def shift(x: Any, at: Any) -> Any:
        padded = np.pad(x, ((1, 1), (1, 1)))
        return im.lax.dynamic_slice(padded, (at[0], at[1]), (_SIZE, _SIZE))

    def step(state: Any, chosen: Any) -> Any:
        params, mean, square, steps = state
        index, offset = chosen
        moved = root.vmap(shift)(images[index], offset)
        loss, gradient = root.value_and_grad(functools.partial(_loss, im))(
            params, moved, labels[index]
        )
        steps = steps + 1
        a, b = _DECAYS
        mean = tree_map(lambda m, g: a * m + (1 - a) * g, mean, gradient)
        square = tree_map(lambda s, g: b * s + (1 - b) * g * g, square, gradient)
        up, down = 1 / (1 - a**steps), 1 / (1 - b**steps)
        params = tree_map(
            lambda p, m, s: p - 3e-3 * m * up / (np.sqrt(s * down) + 1e-8), params, mean, square
        )
        return (params, mean, square, steps), loss

    def epoch(params: Any, mean: Any, square: Any, key: Any) -> Any:
        order_key, shift_key = root.random.split(key)
        order = root.random.permutation(order_key, batch * count).reshape(count, batch)
        offsets = root.random.randint(shift_key, (count, batch, 2), 0, 3)
        state = (params, mean, square, numpy.int32(0))
        (params, mean, square, _), losses = im.lax.scan(step, state, (order, offsets))
        return params, mean, square, np.mean(losses)

    return functools.partial(im.jit(epoch), params, zeros, zeros, root.random.key(0))


TRAINING: tuple[Case, ...] = (
    ActionCase(
        name="epoch of a convolutional network",
        group="loops",
        action=_epoch,
        modes=("xpr jit", "jax jit"),
    ),
)
