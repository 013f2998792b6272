"""A small network to try the command line with: two layers, whose weights are drawn from a seed."""

from typing import Any

import numpy as np

import xpr.numpy as xnp
from xpr import nn

_RNG = np.random.default_rng(0)
HIDDEN = _RNG.standard_normal((64, 32), np.float32) / 8
OUTPUT = _RNG.standard_normal((32, 10), np.float32) / 4


def predict(x: Any) -> dict[str, Any]:
    """Classes int32[n] and their probabilities f32[n, 10], for rows f32[n, 64]."""
    scores = nn.softmax(nn.relu(x @ HIDDEN) @ OUTPUT)
    return {"classes": xnp.argmax(scores, axis=-1).astype("int32"), "probabilities": scores}
