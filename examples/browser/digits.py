"""Writes a page that recognises digits drawn with the mouse, and goes on training in the browser.

The network, its first parameters and a step of its training are one module in WebAssembly. The
folder holds all that the page needs; any server of files shows it:

    python examples/browser/digits.py page
    python -m http.server --directory page
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import xpr
import xpr.numpy as xnp
from xpr import export, nn, random, tree

HIDDEN, CLASSES, PIXELS, BATCH, CHUNK, RATE = 64, 10, 64, 64, 99, 0.2


def init(seed: Any) -> Any:
    """The first parameters, from a seed of two numbers."""
    first, second = random.split(seed)
    return {
        "w1": random.normal(first, (PIXELS, HIDDEN)) / 8,
        "b1": xnp.zeros(HIDDEN),
        "w2": random.normal(second, (HIDDEN, CLASSES)) / 8,
        "b2": xnp.zeros(CLASSES),
    }


def logits(params: Any, images: Any) -> Any:
    """Scores f32[n, 10] of images f32[n, 64] between 0 and 1."""
    hidden = nn.relu(images @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def predict(params: Any, images: Any) -> Any:
    """The probabilities of the classes."""
    return nn.softmax(logits(params, images))


def step(params: Any, images: Any, labels: Any) -> Any:
    """A step of gradient descent on one batch, and the loss before it."""

    def loss(params: Any) -> Any:
        surprise = nn.log_softmax(logits(params, images)) * nn.one_hot(labels, CLASSES)
        return -xnp.mean(xnp.sum(surprise, axis=1))

    value, grads = xpr.value_and_grad(loss)(params)
    return {"params": tree.map(lambda p, g: p - RATE * g, params, grads), "loss": value}


def main(folder: Path) -> None:
    """Writes the page."""
    folder.mkdir(parents=True, exist_ok=True)
    seed = np.array([0, 7], np.uint32)
    params = xpr.jit(init)(seed)
    one, chunk, batch = (np.zeros((n, PIXELS), np.float32) for n in (1, CHUNK, BATCH))
    labels = np.zeros(BATCH, np.int32)
    functions = {
        "init": export.export(xpr.jit(init))(seed),
        "predict": export.export(xpr.jit(predict))(params, one),
        "predict_chunk": export.export(xpr.jit(predict))(params, chunk),
        "step": export.export(xpr.jit(step))(params, batch, labels),
    }
    export.save_wasm(folder / "digits.wasm", functions)
    images, targets = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    (folder / "images.bin").write_bytes(images[order].astype(np.uint8).tobytes())
    (folder / "labels.bin").write_bytes(targets[order].astype(np.uint8).tobytes())
    for name in ("index.html", "page.mjs"):
        shutil.copy(Path(__file__).parent / name, folder)
    print(f"{folder}: {sum(f.stat().st_size for f in folder.iterdir()) // 1000} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "digits-page"))
