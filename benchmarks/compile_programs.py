"""The programs whose compile time is measured: thirty, from two equations to a training epoch.

`program` gives the jitted function and its arguments for a library; nothing is run.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from benchmarks.cases import ActionCase, ProgramCase
from benchmarks.implementations import Implementation
from benchmarks.overheads import straight_line
from benchmarks.sessions import CASES

Made = tuple[Any, tuple[Any, ...]]
Make = Callable[[Implementation, bool], Made]

# Rows of other groups: what they call is a jitted function on its arguments.
_FROM_CASES = (
    *("matmul 256", "MLP forward 256x784", "softmax 4096x1024", "layernorm 4096x1024", "sum 16M"),
    *("elementwise chain 4M", "conv 3x3 8x32x64x64", "scatter-add 1M", "sort 4096", "cumsum 1M"),
    *("Black-Scholes 1M", "n-body 1024", "top_k 256x10000, k=8", "stencil 1024², 10 steps"),
    *("transformer block, gradient", "batch of 512, by vmap", "scan, 1000 steps of sin, 16 floats"),
    *(
        "Lorenz RK4, 10000 steps stacked",
        "gradient of 500 leapfrog steps",
        "LSTM, 64 steps, 32x128",
    ),
    *("random.normal, 1M", "epoch of a convolutional network"),
)


def _normal(*shape: int, seed: int = 0) -> numpy.ndarray:
    return numpy.random.default_rng(seed).standard_normal(shape, dtype=numpy.float32)


def _small(im: Implementation, program: Callable[[Any], Any]) -> Made:
    return im.jit(program), (im.put(numpy.ones(4, numpy.float32)),)


def _two(im: Implementation, quick: bool) -> Made:
    return _small(im, straight_line(2, 0.25))


def _sine(im: Implementation, quick: bool) -> Made:
    return _small(im, lambda x: im.np.sin(x) * 2.5 + 1.5)


def _unrolled(im: Implementation, quick: bool) -> Made:
    return _small(im, straight_line(50 if quick else 5000, 0.25))


def _sines(im: Implementation, quick: bool) -> Made:
    def program(x: Any) -> Any:
        for _ in range(5 if quick else 200):
            x = im.np.sin(x)
        return x

    return _small(im, program)


def _layers(widths: tuple[int, ...]) -> list[Any]:
    return [
        (_normal(m, n) / numpy.float32(m**0.5), numpy.zeros(n, numpy.float32))
        for m, n in itertools.pairwise(widths)
    ]


def _mlp_step(im: Implementation, quick: bool) -> Made:
    np, root = im.np, im.root

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        for w, b in parameters[:-1]:
            x = np.tanh(x @ w + b)
        w, b = parameters[-1]
        return np.mean((x @ w + b - y) ** 2)

    def step(parameters: Any, x: Any, y: Any) -> Any:
        value, gradient = root.value_and_grad(loss)(parameters, x, y)
        return value, root.tree_util.tree_map(lambda p, g: p - 0.01 * g, parameters, gradient)

    widths = (16, 16, 4) if quick else (784, 512, 512, 10)
    arguments = (_layers(widths), _normal(256, widths[0]), _normal(256, widths[-1]))
    return im.jit(step), root.tree_util.tree_map(im.put, arguments)


def _deep(im: Implementation, quick: bool) -> Made:
    np = im.np

    def loss(parameters: Any, x: Any) -> Any:
        for w, b in parameters:
            x = np.tanh(x @ w + b)
        return np.sum(x)

    arguments = (_layers((32,) * (4 if quick else 97)), _normal(8, 32))
    return im.jit(im.root.grad(loss)), im.root.tree_util.tree_map(im.put, arguments)


def _decoder(im: Implementation, quick: bool) -> Made:
    """A step of a decoder with a cache of keys and values: two blocks, then the next token."""
    np, lax, nn = im.np, im.lax, im.root.nn
    length, width, heads, words = 64, 128, 4, 256

    def normalised(x: Any) -> Any:
        return x * lax.rsqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)

    def step(blocks: Any, embedding: Any, caches: Any, token: Any, at: Any) -> Any:
        x, new = embedding[token], []
        for p, (keys, values) in zip(blocks, caches, strict=True):
            h = normalised(x)
            q, k, v = (np.reshape(h @ p[name], (heads, -1)) for name in ("q", "k", "v"))
            keys = lax.dynamic_update_index_in_dim(keys, k, at, 0)
            values = lax.dynamic_update_index_in_dim(values, v, at, 0)
            scores = np.einsum("hd,lhd->hl", q, keys) / (width // heads) ** 0.5
            scores = np.where(np.arange(length) <= at, scores, -1e9)
            mixed = np.einsum("hl,lhd->hd", nn.softmax(scores), values)
            x = x + np.reshape(mixed, (width,)) @ p["o"]
            x = x + nn.gelu(normalised(x) @ p["in"]) @ p["out"]
            new.append((keys, values))
        return np.argmax(normalised(x) @ embedding.T), new

    sizes = {name: (width, width) for name in ("q", "k", "v", "o")}
    sizes |= {"in": (width, 4 * width), "out": (4 * width, width)}
    blocks = [{name: _normal(*shape) for name, shape in sizes.items()} for _ in range(2)]
    caches = [(_normal(length, heads, width // heads),) * 2 for _ in range(2)]
    token = numpy.int32(3)
    arguments = (blocks, _normal(words, width), caches, token, token)
    return im.jit(step), im.root.tree_util.tree_map(im.put, arguments)


def _hyp1f1(im: Implementation, quick: bool) -> Made:
    special = importlib.import_module(f"{im.library}.scipy.special")
    x = im.put(numpy.linspace(0.1, 2.0, 16, dtype=numpy.float32))
    return im.jit(special.hyp1f1), (x, x, x)


def _factorised(im: Implementation, quick: bool, name: str) -> Made:
    a = _normal(8, 8)
    return im.jit(getattr(im.np.linalg, name)), (im.put(a + a.T),)


def _digits(im: Implementation, quick: bool) -> Made:
    """`examples/quickstart.py`."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    source = Path(sys.path[0], "quickstart.py").read_text(encoding="utf-8")
    # The program alone: the file itself imports xpr and scikit-learn.
    start, end = source.index("def classify("), source.index("def numpy_top_k(")
    space: dict[str, Any] = {"NEIGHBOURS": 3, "CLASSES": 10}
    exec("from __future__ import annotations\n" + source[start:end], space)
    labels = numpy.arange(1198, dtype=numpy.int32) % 10
    arrays = [im.put(x) for x in (_normal(1198, 64), labels, _normal(599, 64))]
    function = functools.partial(space["classify"], im.np, im.lax.top_k)
    return im.jit(function), tuple(arrays)


PORTABLE = ("eigh 8x8, portable", "svd 8x8, portable")
"""What xpr compiles as for a device without the host's libraries; JAX calls LAPACK."""

_OWN: dict[str, Make] = {
    "2 equations": _two,
    "a sine": _sine,
    "5000 unrolled operations": _unrolled,
    "200 chained sines": _sines,
    "MLP training step": _mlp_step,
    "gradient of a 96-layer MLP": _deep,
    "a decoder's step": _decoder,
    "hyp1f1": _hyp1f1,
    PORTABLE[0]: functools.partial(_factorised, name="eigh"),
    PORTABLE[1]: functools.partial(_factorised, name="svd"),
    "nearest neighbours of digits": _digits,
}

NAMES = tuple(f"compile: {name}" for name in (*_OWN, *_FROM_CASES))


def program(name: str, implementation: Implementation, quick: bool) -> Made:
    """The jitted function and the arguments of the program called `name`."""
    short = name.removeprefix("compile: ")
    if short in _OWN:
        return _OWN[short](implementation, quick)
    case = CASES[short]
    assert isinstance(case, ProgramCase | ActionCase)
    call: Any = case.prepare(implementation, quick)
    return call.func, call.args
