"""Timings on a device, in turns with JAX and PyTorch where they are installed, in one process."""

from __future__ import annotations

import functools
import importlib
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import xpr
from benchmarks.gpu.rows import Outcome, Row, Setting

Make = Callable[[], Sequence[np.ndarray[Any, Any]]]


@dataclass(frozen=True)
class Case:
    """A program that is timed; `function` gets the library, `xpr` or `jax`, and arrays of it."""

    name: str
    function: Callable[..., Any]
    inputs: Callable[[bool], Sequence[np.ndarray[Any, Any]]]
    flops: Callable[..., float] | None = None
    """The operations of a call, from the operands."""

    moved: Callable[..., float] | None = None
    """The bytes that a call has to read and write."""

    torch: Callable[..., Any] | None = None
    """The same for PyTorch: gets the module and tensors."""


_NHWC = ("NHWC", "HWIO", "NHWC")


def _values(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Numbers between -1 and 1, soon made: the same few thousand again and again."""
    few = np.random.default_rng(5).uniform(-1, 1, 4099)
    return np.resize(few, shape).astype(xpr.numpy.dtype(dtype))


def _square(n: int, dtype: str) -> Callable[[bool], Sequence[Any]]:
    def make(quick: bool) -> Sequence[Any]:
        size = n // 16 if quick else n
        return [_values(size, size, dtype=dtype)] * 2

    return make


def _product(J: Any, a: Any, b: Any) -> Any:
    return a @ b


def _product_flops(a: Any, b: Any) -> float:
    return 2.0 * a.shape[0] * a.shape[1] * b.shape[1]


def _loose(J: Any, a: Any, b: Any) -> Any:
    return J.numpy.matmul(a, b, precision="tensorfloat32")


def _attention(J: Any, q: Any, k: Any, v: Any) -> Any:
    weights = J.nn.softmax(J.numpy.einsum("bqhd,bkhd->bhqk", q, k).astype("float32") / 8)
    return J.numpy.einsum("bhqk,bkhd->bqhd", weights.astype(q.dtype), v)


def _attention_inputs(quick: bool) -> Sequence[Any]:
    return [_values(1 if quick else 8, 64 if quick else 1024, 8, 64, dtype="bfloat16")] * 3


def _torch_attention(torch: Any, q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def _convolution(J: Any, x: Any, k: Any) -> Any:
    return J.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=_NHWC)


def _images(dtype: str, quick: bool) -> Sequence[Any]:
    batch, side, features = (2, 8, 16) if quick else (32, 56, 64)
    x = _values(batch, side, side, features, dtype=dtype)
    return [x, _values(3, 3, features, features, dtype=dtype)]


def _convolution_flops(x: Any, k: Any) -> float:
    return 2.0 * x.size * k.size / k.shape[2]


def _torch_convolution(torch: Any, x: Any, k: Any) -> Any:
    return torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), k.permute(3, 2, 0, 1), padding="same")


def _layer_norm(J: Any, x: Any, g: Any, b: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / J.numpy.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * g + b


def _rows(quick: bool) -> list[Any]:
    return [_values(64, 128) if quick else _values(16384, 1024)]


def _rows_and_weights(quick: bool) -> Sequence[Any]:
    (x,) = _rows(quick)
    return [x, _values(x.shape[1]), _values(x.shape[1])]


def _mlp_step(J: Any, x: Any, y: Any, *weights: Any) -> Any:
    def loss(weights: Any) -> Any:
        h = x
        for w in weights[:-1]:
            h = J.nn.relu(h @ w)
        return (((h @ weights[-1]) - y).astype("float32") ** 2).mean()

    return [w - 0.01 * g for w, g in zip(weights, J.grad(loss)(list(weights)), strict=True)]


def _mlp_inputs(quick: bool) -> Sequence[Any]:
    sizes = (16, 32, 32, 8) if quick else (1024, 4096, 4096, 1024)
    batch = 8 if quick else 1024
    pairs = itertools.pairwise(sizes)
    arrays = [_values(batch, sizes[0]), _values(batch, sizes[-1]), *(_values(*p) for p in pairs)]
    return [a.astype(xpr.numpy.bfloat16) for a in arrays]


def _transformer_step(J: Any, x: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
    heads = x.shape[-1] // 64

    def loss(weights: Any) -> Any:
        qkv, out, up, down = weights
        q, k, v = (a.reshape(*x.shape[:2], heads, 64) for a in J.numpy.split(x @ qkv, 3, -1))
        h = x + _attention(J, q, k, v).reshape(x.shape) @ out
        h = h + J.nn.relu(h @ up) @ down
        return (h.astype("float32") ** 2).mean()

    weights = [qkv, out, up, down]
    return [w - 0.01 * g for w, g in zip(weights, J.grad(loss)(weights), strict=True)]


def _transformer_inputs(quick: bool) -> Sequence[Any]:
    width, batch, length = (64, 2, 16) if quick else (1024, 8, 512)
    shapes = (
        *((batch, length, width), (width, 3 * width), (width, width)),
        *((width, 4 * width), (4 * width, width)),
    )
    return [_values(*s).astype(xpr.numpy.bfloat16) / 16 for s in shapes]


def _lstm(J: Any, xs: Any, w: Any, u: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = J.numpy.split(x @ w + h @ u, 4, -1)
        c = J.nn.sigmoid(f) * c + J.nn.sigmoid(i) * J.numpy.tanh(g)
        h = J.nn.sigmoid(o) * J.numpy.tanh(c)
        return (h, c), h

    zero = J.numpy.zeros((xs.shape[1], u.shape[0]), xs.dtype)
    return J.lax.scan(step, (zero, zero), xs)[1]


def _lstm_inputs(quick: bool) -> Sequence[Any]:
    steps, batch, width = (8, 4, 16) if quick else (256, 64, 512)
    return [_values(steps, batch, width), _values(width, 4 * width), _values(width, 4 * width)]


def _vectors(count: int, full: int, quick: bool) -> Sequence[Any]:
    return [_values(1000 if quick else full) for _ in range(count)]


def _scatter_inputs(quick: bool) -> Sequence[Any]:
    size, updates = (100, 50) if quick else (1_000_000, 10_000_000)
    places = np.resize(np.random.default_rng(6).integers(0, size, 99_991), updates)
    return [np.zeros(size, np.float32), places.astype(np.int32), _values(updates)]


def _all_bytes(*operands: Any) -> float:
    """Operands, and a result like the first one."""
    return float(sum(x.nbytes for x in operands) + operands[0].nbytes)


def _read_bytes(*operands: Any) -> float:
    return float(sum(x.nbytes for x in operands))


def _cases() -> Iterator[Case]:
    torch_product = lambda torch, a, b: a @ b  # noqa: E731
    for size in (1024, 2048, 4096, 8192):
        for dtype in ("bfloat16", "float16", "float32"):
            make = _square(size, dtype)
            yield Case(
                f"product {size} {dtype}", _product, make, _product_flops, torch=torch_product
            )
    make = _square(4096, "float32")
    yield Case("product 4096 tensorfloat32", _loose, make, _product_flops)
    yield Case("attention bfloat16", _attention, _attention_inputs, torch=_torch_attention)
    for dtype in ("bfloat16", "float32"):
        images = functools.partial(_images, dtype)
        yield Case(
            *(f"convolution {dtype}", _convolution, images, _convolution_flops),
            torch=_torch_convolution,
        )
    yield Case("call on four floats", lambda J, x: x * 2 + 1, lambda quick: [_values(4)])
    one = functools.partial(_vectors, 1, 100_000_000)
    two = functools.partial(_vectors, 2, 100_000_000)
    yield Case(
        *("saxpy 1e8", lambda J, x, y: 2 * x + y, two, None, _all_bytes),
        lambda torch, x, y: 2 * x + y,
    )
    yield Case(*("sum 1e8", lambda J, x: x.sum(), one, None, _read_bytes), lambda torch, x: x.sum())
    softmax = lambda J, x: J.nn.softmax(x)  # noqa: E731
    yield Case(
        *("softmax", softmax, _rows, None, _all_bytes), lambda torch, x: torch.softmax(x, -1)
    )
    yield Case(
        *("layer norm", _layer_norm, _rows_and_weights, None, _all_bytes),
        lambda torch, x, g, b: torch.nn.functional.layer_norm(x, (x.shape[-1],), g, b),
    )
    yield Case("mlp step bfloat16", _mlp_step, _mlp_inputs)
    yield Case("transformer step bfloat16", _transformer_step, _transformer_inputs)
    yield Case("lstm 256 steps", _lstm, _lstm_inputs)
    yield Case(
        *("cumsum 1e7", lambda J, x: J.numpy.cumsum(x), functools.partial(_vectors, 1, 10_000_000)),
        None,
        _all_bytes,
        lambda torch, x: x.cumsum(0),
    )
    yield Case("scatter add", lambda J, x, i, u: x.at[i].add(u), _scatter_inputs)
    yield Case(
        *("fft 4096 x 1024", lambda J, x: J.numpy.fft.fft(x)),
        lambda quick: [_values(*((8, 64) if quick else (4096, 1024))).astype(np.complex64)],
        None,
        _all_bytes,
        lambda torch, x: torch.fft.fft(x),
    )
    yield Case(
        *("sort 1e7", lambda J, x: J.numpy.sort(x), functools.partial(_vectors, 1, 10_000_000)),
        torch=lambda torch, x: x.sort()[0],
    )


def rows() -> Iterator[Row]:
    """One for each case."""
    for case in _cases():
        yield Row(f"timings/{case.name}", functools.partial(_run, case), limit=90)


class _Library:
    """A library's version of a case: a call, and waiting for it."""

    def __init__(self, call: Callable[[], Any], wait: Callable[[Any], Any]) -> None:
        self.call, self.wait = call, wait
        self.seconds: list[float] = []

    def round(self, calls: int) -> None:
        """Times some calls, of which the last one is waited for."""
        start = time.perf_counter()
        found = None
        for _ in range(calls):
            found = self.call()
        self.wait(found)
        self.seconds.append((time.perf_counter() - start) / calls)


def _run(case: Case, setting: Setting) -> Outcome:
    inputs = list(case.inputs(setting.quick))
    facts: Outcome = {}
    libraries = {"xpr": _xpr(case, setting, inputs)}
    if setting.runtime == "cuda":
        for name, make in (("jax", _jax), ("torch", _torch)):
            try:
                other = make(case, inputs)
            except Exception as error:
                facts[f"{name} failed"] = f"{type(error).__name__}: {error}"[:200]
            else:
                if other is not None:
                    libraries[name] = other
    if not setting.computes:
        return facts
    for library in libraries.values():
        library.round(1)  # the first call is another one
        library.seconds.clear()
        library.round(1)
    slowest = max(library.seconds.pop() for library in libraries.values())
    calls = max(1, min(100, int(0.05 / max(slowest, 1e-6))))
    for _ in range(3 if setting.quick else 7):
        for library in libraries.values():
            library.round(calls)
    flops = None if case.flops is None else case.flops(*inputs)
    moved = None if case.moved is None else case.moved(*inputs)
    for name, library in libraries.items():
        seconds = statistics.median(library.seconds)
        facts[f"{name} ms"] = round(seconds * 1e3, 5)
        if flops is not None:
            facts[f"{name} TFLOPS"] = round(flops / seconds / 1e12, 3)
        if moved is not None:
            facts[f"{name} GB/s"] = round(moved / seconds / 1e9, 1)
    return facts


def _xpr(case: Case, setting: Setting, inputs: Sequence[Any]) -> _Library:
    device = xpr.devices(setting.runtime)[0]
    operands = [xpr.device_put(x, device) for x in inputs]
    program = xpr.jit(functools.partial(case.function, xpr))
    xpr.block_until_ready(program(*operands))
    return _Library(lambda: program(*operands), xpr.block_until_ready)


def _jax(case: Case, inputs: Sequence[Any]) -> _Library | None:
    try:
        jax: Any = importlib.import_module("jax")
    except ImportError:
        return None
    device = jax.devices("gpu")[0]
    operands = [jax.device_put(x, device) for x in inputs]
    program = jax.jit(functools.partial(case.function, jax))
    return _Library(lambda: program(*operands), jax.block_until_ready)


def _torch(case: Case, inputs: Sequence[Any]) -> _Library | None:
    if case.torch is None:
        return None
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    tensors = []
    for x in inputs:
        if x.dtype == xpr.numpy.bfloat16:
            tensors.append(torch.from_numpy(x.view(np.int16)).cuda().view(torch.bfloat16))
        else:
            tensors.append(torch.from_numpy(x).cuda())
    call = functools.partial(case.torch, torch, *tensors)
    return _Library(call, lambda found: torch.cuda.synchronize())
