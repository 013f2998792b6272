"""What a device is, its memory over many steps, and arrays of more bytes than 32 bits count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import xpr
import xpr.numpy as xnp
from benchmarks.gpu.rows import Outcome, Row, Setting
from xpr import lax, nn, random

_F32 = np.dtype(np.float32)


def first_rows() -> Iterator[Row]:
    """The device itself."""
    yield Row("device/table", _device)
    yield Row("device/call", _call)
    yield Row("device/transfers", _transfers)
    yield Row("device/random", _random)


def last_rows() -> Iterator[Row]:
    """What takes longer."""
    yield Row("programs/classifier", _classifier, limit=120)
    yield Row("programs/convolutions", _convolutions, limit=120)
    yield Row("programs/recurrent", _recurrent, limit=120)
    yield Row("memory/steps", _steps, limit=180)
    yield Row("memory/shortage", _shortage, limit=60)
    yield Row("memory/large", _large, limit=180)


def _device(setting: Setting) -> Outcome:
    device = xpr.devices(setting.runtime)[0]
    return {
        "kind": device.device_kind,
        "features": device.features(),
        "devices": len(xpr.devices(setting.runtime)),
        "memory": device.memory_stats(),
        "xpr": xpr.__version__,
    }


def _call(setting: Setting) -> Outcome:
    with xpr.default_device(setting.runtime):
        found = xpr.jit(lambda x: x * 2 + 1)(np.arange(4, dtype=_F32))
    return {"error": setting.close(found, [1, 3, 5, 7], 0)}


def _transfers(setting: Setting) -> Outcome:
    device = xpr.devices(setting.runtime)[0]
    for dtype in ("bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32", "complex64"):
        x = np.arange(24).reshape(2, 3, 4).astype(xnp.dtype(dtype))
        moved = xpr.device_put(x, device)
        np.testing.assert_array_equal(np.asarray(moved), x, err_msg=dtype)
    return {}


def _classifier(setting: Setting) -> Outcome:
    """Learns which of four centres points were drawn about."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 4, 512).astype(np.int32)
    points = rng.normal(size=(512, 16)).astype(_F32) + 3 * np.eye(4, 16, dtype=_F32)[labels]

    def scores(w: Any, x: Any) -> Any:
        return nn.relu(x @ w[0]) @ w[1]

    def loss(w: Any, x: Any, y: Any) -> Any:
        return -(nn.one_hot(y, 4) * nn.log_softmax(scores(w, x))).sum(1).mean()

    @xpr.jit
    def step(w: Any, x: Any, y: Any) -> Any:
        value, slope = xpr.value_and_grad(loss)(w, x, y)
        return [a - 0.5 * b for a, b in zip(w, slope, strict=True)], value

    with xpr.default_device(setting.runtime):
        w = [rng.normal(size=s).astype(_F32) * 0.3 for s in ((16, 64), (64, 4))]
        first = last = 0.0
        for i in range(60):
            w, value = step(w, points, labels)
            last = float(value)
            first = last if i == 0 else first
        right = xpr.jit(lambda w, x, y: (scores(w, x).argmax(1) == y).mean())(w, points, labels)
        accuracy = float(right)
    if setting.computes:
        assert last < first / 2, f"the loss went from {first} to {last}"
        assert accuracy > 0.9, f"{accuracy} of the points are classified right"
    return {"first loss": first, "last loss": last, "accuracy": accuracy}


def _convolutions(setting: Setting) -> Outcome:
    """The gradient of a small convolutional network, against the reference rules."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(8, 12, 12, 3)).astype(_F32)
    kernels = [rng.normal(size=s).astype(_F32) * 0.2 for s in ((3, 3, 3, 8), (3, 3, 8, 8))]

    def loss(kernels: Any, x: Any) -> Any:
        for k in kernels:
            numbers = ("NHWC", "HWIO", "NHWC")
            x = xnp.tanh(lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=numbers))
        return (x**2).mean()

    with xpr.default_device(setting.runtime):
        slopes = [np.asarray(g) for g in xpr.jit(xpr.grad(loss))(kernels, x)]
    with xpr.default_device("reference"):
        expected = [np.asarray(g) for g in xpr.jit(xpr.grad(loss))(kernels, x)]
    pairs = zip(slopes, expected, strict=True)
    return {"error": max(setting.close(a, b, 1e-3, 1e-5) for a, b in pairs)}


def _recurrent(setting: Setting) -> Outcome:
    """The gradient of a loop of 40 steps."""
    rng = np.random.default_rng(3)
    xs, w = rng.normal(size=(40, 4, 8)).astype(_F32), rng.normal(size=(8, 8)).astype(_F32) * 0.3

    def loss(w: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = xnp.tanh(h @ w + x)
            return h, h.sum()

        return lax.scan(step, xnp.zeros((4, 8)), xs)[1].mean()

    with xpr.default_device(setting.runtime):
        slope = np.asarray(xpr.jit(xpr.grad(loss))(w, xs))
    with xpr.default_device("reference"):
        expected = np.asarray(xpr.jit(xpr.grad(loss))(w, xs))
    return {"error": setting.close(slope, expected, 1e-3, 1e-4)}


def _steps(setting: Setting) -> Outcome:
    """The memory of 2000 steps of a gradient descent stays what it was after a few."""
    count = 200 if setting.quick or not setting.computes else 2000
    device = xpr.devices(setting.runtime)[0]

    @xpr.jit
    def step(w: Any, x: Any) -> Any:
        return w - 0.01 * xpr.grad(lambda w: ((x @ w) ** 2).mean())(w)

    early = 0
    with xpr.default_device(device):
        w, x = xnp.asarray(np.ones((64, 8), _F32)), xnp.asarray(np.ones((32, 64), _F32))
        for i in range(count):
            w = step(w, x)
            if i == 100:
                w.block_until_ready()
                early = (device.memory_stats() or {}).get("bytes_in_use", 0)
        late = (device.memory_stats() or {}).get("bytes_in_use", 0)
    assert late <= early + (1 << 16), f"{early} bytes after 100 steps, {late} after {count}"
    return {"steps": count, "bytes": late}


def _shortage(setting: Setting) -> Outcome:
    """What does not fit is refused in words, and the device works on."""
    limit = (xpr.devices(setting.runtime)[0].memory_stats() or {}).get("bytes_limit", 0)
    if not limit or not setting.computes or setting.quick:
        return {"skipped": "the device does not tell its memory, or has the host's"}
    with xpr.default_device(setting.runtime):
        x = xnp.asarray(np.ones(1 << 20, _F32))
        side = int((limit / 4) ** 0.5) + 4096
        try:
            pairs = xpr.jit(lambda x: x[:side, None] * xnp.ones((1, side)))(x)
            pairs.block_until_ready()
        except xpr.errors.OutOfMemoryError as error:
            said = str(error).splitlines()[0]
        else:
            raise AssertionError(f"{4 * side * side} bytes fit into {limit}")
        again = float(xpr.jit(lambda x: x.sum())(x))
    assert again == 1 << 20
    return {"said": said}


def _large(setting: Setting) -> Outcome:
    """An array of more than 2^31 bytes: its last elements are read, written and summed."""
    count = (1 << 16 if setting.quick else 1 << 29) + 1024
    with xpr.default_device(setting.runtime):
        x = xpr.jit(lambda: lax.iota(np.int32, count) % 1000)()
        y = xpr.jit(lambda x: x.at[-1].set(7))(x)
        tail = np.asarray(xpr.jit(lambda y: y[-5:])(y))
        total = int(xpr.jit(lambda y: (y[: 1 << 15] % 2).sum() + y[-1])(y))
    expected = np.arange(count - 5, count) % 1000
    expected[-1] = 7
    setting.close(tail, expected.astype(np.int32), 0)
    if setting.computes:
        assert total == (1 << 14) + 7
    return {"bytes": 4 * count}


def _random(setting: Setting) -> Outcome:
    """Random bits are those of the reference."""
    with xpr.default_device(setting.runtime):
        found = np.asarray(random.bits(random.key(3), (1001,)))
    with xpr.default_device("reference"):
        expected = np.asarray(random.bits(random.key(3), (1001,)))
    setting.close(found, expected, 0)
    return {}
