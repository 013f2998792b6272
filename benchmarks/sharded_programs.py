"""Programs on the devices of a mesh, the same source for xpr and for JAX, and their shardings.

Each function of `PROGRAMS` gets one library and 8 of its devices and gives a function and its
arguments, which are put on the devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

Built = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Devices:
    """A library and the mesh that a program runs on."""

    root: Any
    np: Any
    lax: Any
    mesh: Any

    def put(self, array: Any, *spec: Any) -> Any:
        """An array on the mesh, its axes sharded over these mesh axes."""
        sharding = self.root.sharding
        where = sharding.NamedSharding(self.mesh, sharding.PartitionSpec(*spec))
        return self.root.device_put(array, where)

    def put_all(self, arrays: dict[str, Any], specs: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
        return {name: self.put(x, *specs.get(name, ())) for name, x in arrays.items()}


def on_mesh(root: Any, np: Any, lax: Any, shape: dict[str, int]) -> Devices:
    """A mesh of the first devices, its axes left to the compiler."""
    count = int(numpy.prod(list(shape.values())))
    devices = numpy.array(root.devices()[:count]).reshape(tuple(shape.values()))
    return Devices(root, np, lax, root.sharding.Mesh(devices, tuple(shape)))


def _random(*shape: int) -> numpy.ndarray:
    rng = numpy.random.default_rng(numpy.prod(shape))
    return rng.standard_normal(shape, dtype=numpy.float32) * numpy.float32(0.1)


def _learn(d: Devices, loss: Callable[..., Any]) -> Callable[..., Any]:
    """A step of gradient descent."""

    def step(params: Any, *batch: Any) -> Any:
        value, gradient = d.root.value_and_grad(loss)(params, *batch)
        update = d.root.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, gradient)
        return update, value

    return step


# ---- a network of three layers


def mlp_loss(d: Devices) -> Callable[..., Any]:
    """Cross entropy of three dense layers."""

    def loss(params: Any, x: Any, labels: Any) -> Any:
        h = d.np.maximum(x @ params["w1"] + params["b1"], 0)
        h = d.np.maximum(h @ params["w2"] + params["b2"], 0)
        scores = h @ params["w3"] + params["b3"]
        chosen = d.root.nn.log_softmax(scores) * d.root.nn.one_hot(labels, scores.shape[-1])
        return -d.np.mean(d.np.sum(chosen, axis=-1))

    return loss


def mlp_arrays(batch: int, wide: int = 256) -> tuple[dict[str, Any], Any, Any]:
    """Parameters, images and labels."""
    params = {
        "w1": _random(128, wide),
        "b1": _random(wide),
        "w2": _random(wide, wide),
        "b2": _random(wide),
        "w3": _random(wide, 16),
        "b3": _random(16),
    }
    labels = numpy.arange(batch, dtype=numpy.int32) % 16
    return params, _random(batch, 128), labels


def _mlp(specs: dict[str, tuple[Any, ...]], batch_axes: Any) -> Callable[[Devices], Built]:
    def build(d: Devices) -> Built:
        params, x, labels = mlp_arrays(64)
        arguments = (d.put_all(params, specs), d.put(x, batch_axes), d.put(labels, batch_axes))
        return _learn(d, mlp_loss(d)), arguments

    return build


_TENSOR: dict[str, tuple[Any, ...]] = {"w1": (None, "m"), "b1": ("m",), "w2": ("m", None)}
_FULLY: dict[str, tuple[Any, ...]] = {
    "w1": ("d",),
    "b1": ("d",),
    "w2": ("d",),
    "b2": ("d",),
    "w3": ("d",),
    "b3": ("d",),
}
_BOTH: dict[str, tuple[Any, ...]] = {
    "w1": ("d", "m"),
    "b1": ("m",),
    "w2": ("m", "d"),
    "b2": ("d",),
    "w3": ("d", None),
}

# ---- a transformer block


def _block(specs: dict[str, tuple[Any, ...]], batch: Any) -> Any:
    def build(d: Devices) -> Built:
        wide, heads, length = 64, 4, 16
        params = {
            "q": _random(wide, heads, wide // heads),
            "k": _random(wide, heads, wide // heads),
            "v": _random(wide, heads, wide // heads),
            "o": _random(heads, wide // heads, wide),
            "up": _random(wide, 4 * wide),
            "down": _random(4 * wide, wide),
            "scale": numpy.ones(wide, numpy.float32),
        }
        np = d.np

        def norm(x: Any, scale: Any) -> Any:
            x = x - np.mean(x, axis=-1, keepdims=True)
            return x * d.lax.rsqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale

        def loss(p: Any, x: Any) -> Any:
            y = norm(x, p["scale"])
            q, k, v = (np.einsum("btd,dhk->bthk", y, p[n]) for n in "qkv")
            scores = np.einsum("bthk,bshk->bhts", q, k) / 4
            mixed = np.einsum("bhts,bshk->bthk", d.root.nn.softmax(scores, axis=-1), v)
            x = x + np.einsum("bthk,hkd->btd", mixed, p["o"])
            y = norm(x, p["scale"])
            x = x + d.root.nn.gelu(y @ p["up"]) @ p["down"]
            return np.mean(x * x)

        return d.root.grad(loss), (
            d.put_all(params, specs),
            d.put(_random(16, length, wide), batch),
        )

    return build


_HEADS: dict[str, tuple[Any, ...]] = {
    "q": (None, "m"),
    "k": (None, "m"),
    "v": (None, "m"),
    "o": ("m",),
    "up": (None, "m"),
    "down": ("m",),
}

# ---- single operations


def _matmul(a: tuple[Any, ...], b: tuple[Any, ...]) -> Callable[[Devices], Built]:
    def build(d: Devices) -> Built:
        return lambda x, y: x @ y, (d.put(_random(64, 128), *a), d.put(_random(128, 32), *b))

    return build


def _reductions(d: Devices) -> Built:
    def run(x: Any) -> Any:
        y = x - d.np.mean(x, axis=0)
        y = y / (d.np.std(y, axis=1, keepdims=True) + 1)
        return d.np.sum(y), d.np.max(y, axis=0), d.np.argmax(d.np.sum(y * y, axis=1))

    return run, (d.put(_random(64, 32), "d", "m"),)


def _softmax(d: Devices) -> Built:
    return lambda x: d.root.nn.softmax(x, axis=-1), (d.put(_random(64, 256), None, "d"),)


def _embedding(d: Devices) -> Built:
    def loss(table: Any, tokens: Any, target: Any) -> Any:
        return d.np.mean((table[tokens] - target) ** 2)

    tokens = (numpy.arange(32 * 8, dtype=numpy.int32) * 7 % 512).reshape(32, 8)
    table, target = _random(512, 64), _random(32, 8, 64)
    return d.root.value_and_grad(loss), (
        d.put(table, "m"),
        d.put(tokens, "d"),
        d.put(target, "d"),
    )


def _network(d: Devices) -> Built:
    layout = ("NHWC", "HWIO", "NHWC")

    def loss(params: Any, x: Any) -> Any:
        for name in ("first", "second"):
            x = d.lax.conv_general_dilated(
                x, params[name], (1, 1), "SAME", dimension_numbers=layout
            )
            x = d.np.maximum(x, 0)
        x = d.lax.reduce_window(x, -numpy.inf, d.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return d.np.mean((x.reshape(x.shape[0], -1) @ params["dense"]) ** 2)

    params = {
        "first": _random(3, 3, 3, 8),
        "second": _random(3, 3, 8, 16),
        "dense": _random(4 * 4 * 16, 10),
    }
    return d.root.grad(loss), (d.put_all(params, {}), d.put(_random(16, 8, 8, 3), "d"))


def _running_sum(d: Devices) -> Built:
    return lambda x: d.np.cumsum(x, axis=0), (d.put(_random(256, 64), "d"),)


def _stencil(d: Devices) -> Built:
    def run(x: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            inner = 0.5 * x[1:-1] + 0.25 * (x[:-2] + x[2:])
            return d.np.concatenate([x[:1], inner, x[-1:]])

        return d.lax.fori_loop(0, 10, step, x)

    return run, (d.put(_random(1024, 16), "d"),)


def _periodic(d: Devices) -> Built:
    def run(x: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            return 0.5 * x + 0.25 * (d.np.roll(x, 1, axis=0) + d.np.roll(x, -1, axis=0))

        return d.lax.fori_loop(0, 10, step, x)

    return run, (d.put(_random(1024, 16), "d"),)


def _padded(d: Devices) -> Built:
    def run(x: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            y = d.np.pad(x, ((1, 1), (0, 0)))
            return 0.5 * x + 0.25 * (y[2:] + y[:-2])

        return d.lax.fori_loop(0, 10, step, x)

    return run, (d.put(_random(1024, 16), "d"),)


def _convolved(d: Devices) -> Built:
    def run(x: Any, kernel: Any) -> Any:
        return d.lax.conv_general_dilated(x, kernel, (1, 1), "SAME")

    return run, (d.put(_random(2, 3, 64, 64), None, None, "d", "m"), d.put(_random(4, 3, 3, 3)))


def _long(d: Devices) -> Built:
    def run(x: Any, ws: Any) -> Any:
        return d.lax.scan(lambda h, w: (d.np.tanh(h @ w), d.np.sum(h)), x, ws)

    return run, (d.put(_random(32, 64), "d"), d.put(_random(4, 64, 64), None, None, "m"))


@dataclass(frozen=True)
class Program:
    """A program, and the mesh that it is for."""

    name: str
    mesh: dict[str, int]
    build: Callable[[Devices], Built]


_LINE, _PLANE = {"d": 8}, {"d": 4, "m": 2}

PROGRAMS: Sequence[Program] = (
    Program("MLP step, data", _LINE, _mlp({}, "d")),
    Program("MLP step, tensor", {"m": 8}, _mlp(_TENSOR, None)),
    Program("MLP step, fully sharded", _LINE, _mlp(_FULLY, "d")),
    Program("MLP step, 2D", _PLANE, _mlp(_BOTH, "d")),
    Program("transformer gradient, data", _LINE, _block({}, "d")),
    Program("transformer gradient, tensor", {"m": 4}, _block(_HEADS, None)),
    Program("transformer gradient, both", {"d": 2, "m": 4}, _block(_HEADS, "d")),
    Program("product, rows", _LINE, _matmul(("d",), ())),
    Program("product, contracted", _LINE, _matmul((None, "d"), ("d",))),
    Program("product, contracted on one side", _LINE, _matmul((None, "d"), ())),
    Program("product, rows by rows", _LINE, _matmul(("d",), ("d",))),
    Program("product, 2D", _PLANE, _matmul(("d", "m"), ("m",))),
    Program("product, 2D by 2D", _PLANE, _matmul(("d", "m"), ("d", "m"))),
    Program("reductions", _PLANE, _reductions),
    Program("softmax over a sharded axis", _LINE, _softmax),
    Program("embedding and its gradient, sharded table", _PLANE, _embedding),
    Program("convolutional network, gradient", _LINE, _network),
    Program("cumsum along a sharded axis", _LINE, _running_sum),
    Program("stencil along a sharded axis, 10 steps", _LINE, _stencil),
    Program("stencil on a ring, 10 steps", _LINE, _periodic),
    Program("stencil with padding, 10 steps", _LINE, _padded),
    Program("convolution over sharded images", _PLANE, _convolved),
    Program("scan over layers", _PLANE, _long),
)
