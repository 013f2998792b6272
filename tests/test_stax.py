"""Layers of stax: what they compute, by loops in NumPy; keys and shapes as JAX's stax has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.example_libraries import stax

KEY = xpr.random.key(0)


def _run(layer: Any, shape: Any, x: Any = None, **kwargs: Any) -> Any:
    """The shape that a layer promises, its parameters, its input and its result."""
    init, apply = layer
    out_shape, params = init(KEY, shape)
    if x is None:
        x = np.arange(np.prod(shape), dtype="f4").reshape(shape) / 10
    out = apply(params, jnp.asarray(x) if isinstance(x, np.ndarray) else x, **kwargs)
    return out_shape, params, x, out


def _sums(params: Any) -> list[float]:
    return [float(p.sum()) for p in xpr.tree_util.tree_leaves(params)]


def test_dense() -> None:
    shape, (w, b), x, out = _run(stax.Dense(4), (2, 3))
    assert shape == out.shape == (2, 4)
    np.testing.assert_allclose(out, x @ np.asarray(w) + np.asarray(b), rtol=1e-6)
    # What JAX 0.10.2 draws from the same key.
    np.testing.assert_allclose(
        _sums((w, b)), [-2.104013442993164, -0.046261418610811234], rtol=1e-5
    )
    assert stax.Dense(4)[0](KEY, (-1, 3))[0] == (-1, 4)


def test_convolutions() -> None:
    shape, (w, b), x, out = _run(stax.Conv(2, (3, 2), strides=(2, 1)), (1, 7, 4, 3))
    assert shape == out.shape == (1, 3, 3, 2)
    expected = np.zeros(shape)
    for i, j in np.ndindex(3, 3):
        window = x[0, 2 * i : 2 * i + 3, j : j + 2]
        expected[0, i, j] = np.einsum("hwc,hwco->o", window, np.asarray(w))
    np.testing.assert_allclose(out, expected + np.asarray(b), rtol=1e-5, atol=1e-5)
    assert stax.Conv(5, (3, 3))[0](KEY, (-1, 8, 8, 3))[0] == (-1, 6, 6, 5)
    general = stax.GeneralConv(("NCHW", "OIHW", "NCHW"), 5, (3, 2))
    shape, params, _, out = _run(general, (2, 3, 8, 8))
    assert shape == out.shape == (2, 5, 6, 7)
    np.testing.assert_allclose(_sums(params), [2.276655673980713, -5.388116e-06], rtol=1e-5)
    # Sums of results of JAX 0.10.2.
    np.testing.assert_allclose(out.sum(), 3793.703125, rtol=1e-5)
    for layer, given, wanted, total in (
        (stax.ConvTranspose(5, (3, 3), strides=(2, 2)), (2, 8, 8, 3), (2, 17, 17, 5), 5058.972656),
        (stax.Conv1DTranspose(5, (3,)), (2, 8, 3), (2, 10, 5), 32.46105),
    ):
        shape, _, _, out = _run(layer, given)
        assert shape == out.shape == wanted
        np.testing.assert_allclose(out.sum(), total, rtol=1e-5)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scale", [True, False])
def test_batch_norm(center: bool, scale: bool) -> None:
    layer = stax.BatchNorm(axis=0, center=center, scale=scale)
    _, (beta, gamma), x, _ = _run(layer, (5, 3))
    assert [np.shape(beta), np.shape(gamma)] == [(3,) if center else (0,), (3,) if scale else (0,)]
    params = (jnp.arange(3.0) if center else (), jnp.arange(3.0) + 2 if scale else ())
    expected = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
    expected = expected * (np.arange(3) + 2 if scale else 1) + (np.arange(3) if center else 0)
    np.testing.assert_allclose(layer[1](params, jnp.asarray(x)), expected, rtol=1e-4, atol=1e-5)


def _windows(x: np.ndarray[Any, Any], size: int, step: int) -> np.ndarray[Any, Any]:
    view = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))
    return view[:, ::step, ::step]


def test_pools() -> None:
    shape = (1, 5, 5, 2)
    for layer, reduce in ((stax.MaxPool, np.max), (stax.SumPool, np.sum), (stax.AvgPool, np.mean)):
        promised, params, x, out = _run(layer((2, 2), (2, 2)), shape)
        assert params == ()
        assert promised == out.shape == (1, 2, 2, 2)
        np.testing.assert_allclose(out, reduce(_windows(x, 2, 2), axis=(-2, -1)), rtol=1e-6)
    # Means at the border are those of fewer elements; the axes may have another order.
    _, _, x, out = _run(stax.AvgPool((2, 2), (2, 2), "SAME"), shape)
    np.testing.assert_allclose(out[0, 2, 2], x[0, 4, 4], rtol=1e-6)
    _, _, x, out = _run(stax.AvgPool((2, 2), spec="NCHW"), (1, 2, 4, 4))
    moved = np.moveaxis(x, 1, 3)
    expected = np.moveaxis(_windows(moved, 2, 1).mean((-2, -1)), 3, 1)
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_elementwise_layers() -> None:
    x = np.linspace(-2, 2, 6, dtype="f4").reshape(2, 3)
    e = np.exp(x)
    for layer, expected in (
        (stax.Tanh, np.tanh(x)),
        (stax.Relu, np.maximum(x, 0)),
        (stax.Exp, e),
        (stax.Softplus, np.log1p(e)),
        (stax.Sigmoid, e / (1 + e)),
        (stax.Elu, np.where(x > 0, x, e - 1)),
        (stax.LeakyRelu, np.where(x > 0, x, 0.01 * x)),
        (stax.Softmax, e / e.sum(-1, keepdims=True)),
        (stax.LogSoftmax, x - np.log(e.sum(-1, keepdims=True))),
        (stax.elementwise(lambda a, by: a**by, by=2), x**2),
        (stax.Identity, x),
    ):
        shape, params, _, out = _run(layer, (2, 3), x)
        assert (shape, params) == ((2, 3), ())
        np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-6)
    assert _run(stax.Flatten, (2, 3, 4))[0] == _run(stax.Flatten, (2, 3, 4))[3].shape == (2, 12)


def test_layers_of_layers() -> None:
    """Both ways get keys of their own; a network learns what a linear map is."""
    net = stax.serial(
        stax.FanOut(2), stax.parallel(stax.Dense(4), stax.Identity), stax.FanInConcat()
    )
    shape, params, x, out = _run(net, (2, 3))
    assert shape == out.shape == (2, 7)
    w, b = params[1][0]
    np.testing.assert_allclose(out, np.concatenate([x @ w + b, x], 1), rtol=1e-6)
    np.testing.assert_allclose(_sums(params), [0.6442505121231079, 0.0010438333], rtol=1e-5)
    total = stax.serial(stax.FanOut(3), stax.FanInSum)
    np.testing.assert_allclose(_run(total, (2, 3))[3], 3 * x, rtol=1e-6)
    same = stax.shape_dependent(lambda s: stax.Dense(s[-1]))
    assert _run(same, (2, 3))[0] == (2, 3)
    assert _run(stax.serial(), (2, 3))[3].shape == (2, 3)

    init, apply = stax.serial(stax.Dense(4), stax.Dense(2))
    _, params = init(KEY, (-1, 3))
    data = np.random.default_rng(0).normal(size=(20, 3)).astype("f4")
    wanted = data @ np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 0.0]], "f4")

    def loss(params: Any) -> Any:
        return jnp.mean((apply(params, data) - wanted) ** 2)

    @xpr.jit
    def train(params: Any) -> Any:
        def step(_: Any, p: Any) -> Any:
            return xpr.tree_util.tree_map(lambda a, g: a - 0.1 * g, p, xpr.grad(loss)(p))

        return xpr.lax.fori_loop(0, 200, step, params)

    assert float(loss(train(params))) < 1e-3 < float(loss(params))


def test_dropout() -> None:
    init, apply = stax.Dropout(0.7)
    x = jnp.ones((20, 30))
    out = np.asarray(apply(init(KEY, x.shape)[1], x, rng=KEY))
    assert set(np.unique(out)) == {0, np.float32(1 / 0.7)}
    assert abs((out > 0).mean() - 0.7) < 0.1
    np.testing.assert_array_equal(out > 0, xpr.random.bernoulli(KEY, 0.7, x.shape))
    assert stax.Dropout(0.7, mode="test")[1]((), x, rng=KEY) is x
    with pytest.raises(ValueError, match="requires apply_fun to be called with a PRNG key"):
        apply((), x)
    net = stax.serial(stax.Dense(4), stax.Dropout(0.5))
    np.testing.assert_allclose(_run(net, (2, 3), rng=KEY)[3].sum(), -0.195252, rtol=1e-4)
