"""Statistics, shapes and dtypes of initial weights, with fixed keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import xpr
from tests.numpy.cases import jnp
from xpr import random

init: Any = xpr.nn.initializers

KEY = random.key(17)
# Half the samples of a shape that is not square, so that inputs and outputs are told apart.
SHAPE = (60, 100)


def test_constants() -> None:
    assert init.zeros(KEY, (2, 3)).tolist() == [[0] * 3] * 2
    assert init.ones(None, (2,), jnp.int32).dtype == np.int32
    assert init.constant(-7.0)(KEY, (2,)).tolist() == [-7, -7]
    assert init.constant(2, jnp.bfloat16)(KEY, ()).dtype == jnp.bfloat16
    assert init.constant(np.arange(3.0))(KEY, (2, 3)).tolist() == [[0, 1, 2]] * 2
    with xpr.enable_x64(True):
        assert init.zeros(KEY, (1,)).dtype == np.float64


def _fits(sample: Any, distribution: Any) -> None:
    """The Kolmogorov-Smirnov test; a wrong scale of a few percent fails it."""
    found = stats.kstest(np.asarray(sample, np.float64).ravel(), distribution.cdf)
    assert found.pvalue > 1e-3, found


def test_distributions() -> None:
    _fits(init.uniform(3.0)(KEY, SHAPE), stats.uniform(0, 3))
    _fits(init.normal(0.5)(KEY, SHAPE), stats.norm(0, 0.5))
    _fits(init.truncated_normal(0.5)(KEY, SHAPE), stats.truncnorm(-2, 2, 0, 0.5))
    found = init.truncated_normal(2.0, lower=-1.0, upper=3.0)(KEY, SHAPE)
    _fits(found, stats.truncnorm(-1, 3, 0, 2))
    assert float(init.uniform()(KEY, SHAPE).max()) < 0.01
    assert 0.009 < float(init.normal()(KEY, SHAPE).std()) < 0.011
    whole = init.normal(2.0)(KEY, SHAPE, jnp.complex64)
    _fits(whole.real, stats.norm(0, 2 / np.sqrt(2)))


def _uniform(variance: float) -> Any:
    half = np.sqrt(3 * variance)
    return stats.uniform(-half, 2 * half)


def _truncated(variance: float) -> Any:
    return stats.truncnorm(-2, 2, 0, np.sqrt(variance / stats.truncnorm(-2, 2).var()))


COUNTS = {"fan_in": 60, "fan_out": 100, "fan_avg": 80, "fan_geo_avg": np.sqrt(6000)}
DISTRIBUTIONS: dict[str, Any] = {
    "uniform": _uniform,
    "normal": lambda v: stats.norm(0, np.sqrt(v)),
    "truncated_normal": _truncated,
}


@pytest.mark.parametrize("mode", COUNTS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_variance_scaling(mode: str, distribution: str) -> None:
    found = init.variance_scaling(1.7, mode, distribution)(KEY, SHAPE)
    assert found.shape == SHAPE
    assert found.dtype == np.float32
    _fits(found, DISTRIBUTIONS[distribution](1.7 / COUNTS[mode]))


@pytest.mark.parametrize(
    ("name", "other", "variance", "distribution"),
    [
        ("glorot_uniform", "xavier_uniform", 1 / 80, _uniform),
        ("glorot_normal", "xavier_normal", 1 / 80, _truncated),
        ("lecun_uniform", None, 1 / 60, _uniform),
        ("lecun_normal", None, 1 / 60, _truncated),
        ("he_uniform", "kaiming_uniform", 2 / 60, _uniform),
        ("he_normal", "kaiming_normal", 2 / 60, _truncated),
    ],
)
def test_named_scalings(name: str, other: str | None, variance: float, distribution: Any) -> None:
    found = getattr(init, name)()(KEY, SHAPE)
    _fits(found, distribution(variance))
    assert other is None or getattr(init, other) is getattr(init, name)
    jitted = xpr.jit(getattr(init, name)(), static_argnums=1)(KEY, SHAPE)
    np.testing.assert_allclose(jitted, found, rtol=2e-6, atol=1e-7)


def test_axes_of_convolutions_and_batches() -> None:
    def spread(shape: Any, **axes: Any) -> float:
        return float(init.variance_scaling(1.0, "fan_in", "normal", **axes)(KEY, shape).std())

    # The standard error of a standard deviation of n numbers is 1 / sqrt(2 n) of it.
    assert spread((3, 3, 20, 40)) == pytest.approx((9 * 20) ** -0.5, rel=0.03)
    assert spread((20, 40, 9), in_axis=0, out_axis=1) == pytest.approx((9 * 20) ** -0.5, rel=0.03)
    assert spread((4, 5, 400), in_axis=(0, 1)) == pytest.approx(20**-0.5, rel=0.04)
    assert spread((8, 20, 40), batch_axis=0) == pytest.approx(20**-0.5, rel=0.03)
    assert spread((5000,), in_axis=0, out_axis=()) == pytest.approx(5000**-0.5, rel=0.04)


@pytest.mark.parametrize("dtype", [jnp.complex64, jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_dtypes(dtype: Any, distribution: str) -> None:
    found = init.variance_scaling(2.0, "fan_in", distribution, dtype=dtype)(KEY, SHAPE)
    assert found.dtype == dtype
    wide = np.asarray(found).astype(np.complex128)
    assert np.mean(np.abs(wide) ** 2) == pytest.approx(2 / 60, rel=0.06)
    if dtype == jnp.complex64:
        assert abs(wide.mean()) < 0.01
        most = {"uniform": np.sqrt(2), "truncated_normal": 2 / 0.95311164380491208, "normal": 9}
        assert np.abs(wide).max() <= most[distribution] * np.sqrt(2 / 60) * 1.0001
        # Real and imaginary parts are alike and independent.
        assert np.var(wide.real) == pytest.approx(1 / 60, rel=0.06)
        assert abs(np.corrcoef(wide.real.ravel(), wide.imag.ravel())[0, 1]) < 0.05


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3), (2, 3, 5)])
def test_orthogonal(shape: Any) -> None:
    found = np.asarray(init.orthogonal(2.0)(KEY, shape))
    assert found.shape == shape
    matrix = found.reshape(-1, shape[-1]) / 2
    product = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-5)
    turned = np.moveaxis(np.asarray(init.orthogonal(column_axis=0)(KEY, shape)), 0, -1)
    matrix = turned.reshape(-1, shape[0])
    product = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-5)


@pytest.mark.parametrize("window", [(3,), (4, 3), (1, 2, 5)])
def test_delta_orthogonal(window: Any) -> None:
    found = np.array(init.delta_orthogonal(3.0)(KEY, (*window, 2, 4)))
    middle = tuple((n - 1) // 2 for n in window)
    matrix = found[middle] / 3
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(2), atol=1e-5)
    found[middle] = 0
    assert not found.any()


def test_where_the_columns_of_orthogonal_weights_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with NumPy's decomposition in the place of the sampler."""

    def sampler(key: Any, n: int, shape: Any, dtype: Any, m: int) -> Any:
        drawn = np.linalg.qr(np.random.default_rng(0).normal(size=(max(n, m),) * 2))[0]
        return jnp.asarray(drawn[:n, :m], dtype)

    monkeypatch.setattr(random, "orthogonal", sampler)
    test_orthogonal((2, 3, 5))
    test_orthogonal((7, 3))
    test_delta_orthogonal((4, 3))
    assert init.orthogonal()(KEY, (0, 3)).shape == (0, 3)


def test_protocol() -> None:
    for found in (init.zeros, init.he_normal(), init.normal(), init.orthogonal()):
        assert isinstance(found, init.Initializer)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: init.he_normal()(KEY, (3,)), ValueError, "1-dimensional weights tensor"),
        (
            lambda: init.variance_scaling(1.0, "fan", "normal")(KEY, (2, 2)),
            ValueError,
            "invalid mode .* fan; it must be one of",
        ),
        (
            lambda: init.variance_scaling(1.0, "fan_in", "cauchy")(KEY, (2, 2)),
            ValueError,
            "invalid distribution .* cauchy; it must be one of",
        ),
        (lambda: init.orthogonal()(KEY, (3,)), ValueError, r"at least a 2D shape, got \(3,\)"),
        (lambda: init.delta_orthogonal()(KEY, (3, 3)), ValueError, r"3D, 4D or 5D shape, got"),
        (lambda: init.delta_orthogonal()(KEY, (3, 4, 2)), ValueError, "got 4 and 2"),
        (lambda: init.zeros(KEY, (1.5,)), TypeError, "integer"),
        (
            lambda: init.ones(KEY, (1,), out_sharding=1),
            TypeError,
            "`out_sharding` argument of ones only supports",
        ),
    ],
)
def test_errors(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", ["lecun_normal", "glorot_uniform", "he_normal", "lecun_uniform"])
def test_complex_weights_under_strict_promotion(name: str) -> None:
    with xpr.numpy_dtype_promotion("strict"), xpr.numpy_rank_promotion("raise"):
        weights = getattr(xpr.nn.initializers, name)()(xpr.random.key(0), (200, 50), "complex64")
    assert weights.dtype == np.complex64
    angles = np.angle(np.asarray(weights)).ravel()
    assert abs(np.mean(np.exp(1j * angles))) < 0.05  # all directions
