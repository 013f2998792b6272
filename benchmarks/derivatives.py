"""What derivatives cost: tracing a gradient, gradients beside their forward passes, `vmap`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from benchmarks.cases import ActionCase, Call, Case
from benchmarks.implementations import Implementation
from benchmarks.overheads import straight_line

_MODES = ("xpr jit", "jax jit")
_SMALL = 4

# Each function has a constant that no earlier one had, so that nothing is found in any cache.
_offsets = itertools.count(1)


def _trace_gradient(
    implementation: Implementation, quick: bool, equations: int, quick_equations: int
) -> Call:
    root = implementation.root
    x = implementation.put(numpy.ones(_SMALL, dtype=numpy.float32))
    count = quick_equations if quick else equations

    def call() -> Any:
        program = straight_line(count, float(next(_offsets)))
        return root.make_jaxpr(root.grad(lambda x: implementation.np.sum(program(x))))(x)

    return call


def _mlp_loss(np: Any, parameters: Sequence[Any], x: Any, y: Any) -> Any:
    for w, b in parameters[:-1]:
        x = np.tanh(x @ w + b)
    w, b = parameters[-1]
    return np.mean((x @ w + b - y) ** 2)


def _mlp(quick: bool) -> tuple[list[Any], Any, Any]:
    rng = numpy.random.default_rng(0)
    widths = (64, 64, 10) if quick else (784, 512, 512, 10)
    batch = 16 if quick else 256

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=numpy.float32)

    parameters = [
        (normal(m, n) / numpy.float32(m**0.5), numpy.zeros(n, numpy.float32))
        for m, n in itertools.pairwise(widths)
    ]
    return parameters, normal(batch, widths[0]), normal(batch, widths[-1])


def _attention_block(np: Any, p: dict[str, Any], x: Any) -> Any:
    """A pre-norm transformer block: attention of 8 heads, then a two-layer network."""
    batch, length, width = x.shape
    heads = 8

    def normalised(x: Any) -> Any:
        centred = x - np.mean(x, axis=-1, keepdims=True)
        return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-5)

    h = normalised(x)
    q, k, v = (
        (h @ p[name]).reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)
        for name in ("q", "k", "v")
    )
    scores = q @ k.transpose(0, 1, 3, 2) / (width // heads) ** 0.5
    scores = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights = scores / np.sum(scores, axis=-1, keepdims=True)
    x = x + (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, width) @ p["o"]
    return x + np.maximum(normalised(x) @ p["in"], 0.0) @ p["out"]


def _block_loss(np: Any, p: dict[str, Any], x: Any) -> Any:
    return np.mean(_attention_block(np, p, x) ** 2)


def _block(quick: bool) -> tuple[dict[str, Any], Any]:
    rng = numpy.random.default_rng(0)
    batch, length, width = (1, 16, 32) if quick else (4, 128, 256)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=numpy.float32) / numpy.float32(shape[0] ** 0.5)

    sizes = {name: (width, width) for name in ("q", "k", "v", "o")}
    sizes |= {"in": (width, 4 * width), "out": (4 * width, width)}
    x = rng.standard_normal((batch, length, width), dtype=numpy.float32)
    return {name: normal(*shape) for name, shape in sizes.items()}, x


def _model(
    implementation: Implementation,
    quick: bool,
    loss: Callable[..., Any],
    inputs: Callable[[bool], Any],
    gradient: bool,
) -> Call:
    root = implementation.root
    function = functools.partial(loss, implementation.np)
    if gradient:
        function = root.grad(function)
    arguments = root.tree_util.tree_map(implementation.put, inputs(quick))
    return functools.partial(implementation.jit(function), *arguments)


def _example(np: Any, w: Any, x: Any) -> Any:
    """One example: a layer, its norm, and the layer's transpose."""
    y = np.tanh(w @ x)
    return (y / np.sqrt(np.sum(y * y))) @ w


def _examples(np: Any, w: Any, xs: Any) -> Any:
    ys = np.tanh(xs @ w.T)
    return (ys / np.sqrt(np.sum(ys * ys, axis=1, keepdims=True))) @ w


def _batched(implementation: Implementation, quick: bool, by_vmap: bool) -> Call:
    rng = numpy.random.default_rng(0)
    size, width = (8, 16) if quick else (512, 256)
    w = implementation.put(rng.standard_normal((width, width), dtype=numpy.float32))
    xs = implementation.put(rng.standard_normal((size, width), dtype=numpy.float32))
    if by_vmap:
        one = implementation.jit(functools.partial(_example, implementation.np))
        function = implementation.root.vmap(one, in_axes=(None, 0))
    else:
        function = functools.partial(_examples, implementation.np)
    return functools.partial(implementation.jit(function), w, xs)


def _case(name: str, action: Any) -> Case:
    return ActionCase(name=name, group="derivatives", action=action, modes=_MODES)


DERIVATIVES: tuple[Case, ...] = (
    _case(
        "trace the gradient of 1000 equations",
        functools.partial(_trace_gradient, equations=1_000, quick_equations=100),
    ),
    _case(
        "trace the gradient of 10000 equations",
        functools.partial(_trace_gradient, equations=10_000, quick_equations=200),
    ),
    *(
        _case(
            f"{name}, {way}",
            functools.partial(_model, loss=loss, inputs=inputs, gradient=way == "gradient"),
        )
        for name, loss, inputs in (
            ("MLP 256x784", _mlp_loss, _mlp),
            ("transformer block", _block_loss, _block),
        )
        for way in ("forward", "gradient")
    ),
    _case("batch of 512, by hand", functools.partial(_batched, by_vmap=False)),
    _case("batch of 512, by vmap", functools.partial(_batched, by_vmap=True)),
)
