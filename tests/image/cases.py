"""Images and calls whose results with JAX 0.10.2 are in `golden.npz`."""

from __future__ import annotations

from typing import Any

import numpy as np

RNG = np.random.default_rng(3)
IMAGE = RNG.normal(size=(5, 7)).astype("f4")
BATCH = RNG.normal(size=(2, 4, 6, 3)).astype("f4")
METHODS = ("nearest", "linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch", "area")
SHAPES = ((5, 7), (10, 14), (3, 4), (8, 3), (1, 20))
MOVES = (((1.0, 1.0), (0.0, 0.0)), ((0.6, 1.7), (1.25, -2.0)), ((-1.0, 1.0), (5.0, 20.0)))


def resized(image: Any, jnp: Any) -> dict[str, Any]:
    """The results of `resize` by name; `image` is the module."""
    found = {}
    for method in METHODS:
        for antialias in (True, False):
            for shape in SHAPES:
                name = f"resize {method} {antialias} {shape}"
                found[name] = image.resize(jnp.asarray(IMAGE), shape, method, antialias)
        name = f"resize batch {method}"
        found[name] = image.resize(jnp.asarray(BATCH), (2, 7, 3, 3), method)
        found[f"resize int {method}"] = image.resize(jnp.arange(12).reshape(3, 4), (5, 2), method)
    return found


def moved(image: Any, jnp: Any) -> dict[str, Any]:
    """The results of `scale_and_translate` by name."""
    found = {}
    for method in METHODS[1:]:
        for antialias in (True, False):
            for scale, translation in MOVES:
                name = f"move {method} {antialias} {scale} {translation}"
                found[name] = image.scale_and_translate(
                    jnp.asarray(IMAGE),
                    (6, 9),
                    (0, -1),
                    jnp.array(scale),
                    jnp.array(translation),
                    method,
                    antialias,
                )
    return found
