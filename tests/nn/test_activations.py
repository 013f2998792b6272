"""Activation functions against their formulas in NumPy and SciPy, and their derivatives."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import special

import xpr
from tests.numpy.cases import Case, check, jnp
from xpr.test_util import check_grads

nn: Any = xpr.nn

POINTS = np.array([-30, -8, -3, -1.5, -1, -0.25, -1e-4, 0, 1e-4, 0.3, 1, 1.7, 3, 5.5, 6, 9, 40])


def _below(x: Any) -> Any:
    return np.minimum(x, 0)


def _elu(x: Any, alpha: Any = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(_below(x)))


FORMULAS: dict[str, Any] = {
    "celu": lambda x: np.maximum(x, 0) + np.expm1(_below(x)),
    "elu": _elu,
    "gelu": lambda x: (
        0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * np.clip(x, -50, 50) ** 3)))
    ),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "identity": lambda x: x,
    "leaky_relu": lambda x: np.where(x < 0, 0.01 * x, x),
    "log_sigmoid": lambda x: special.log_expit(x),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "selu": lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772),
    "sigmoid": special.expit,
    "silu": lambda x: x * special.expit(x),
    "swish": lambda x: x * special.expit(x),
    "soft_sign": lambda x: x / (np.abs(x) + 1),
    "softplus": lambda x: np.logaddexp(x, 0),
    "sparse_plus": lambda x: np.where(np.abs(x) < 1, (x + 1) ** 2 / 4, np.maximum(x, 0)),
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "tanh": np.tanh,
}
SMOOTH = [n for n in FORMULAS if n != "identity"]
# Where the formula adds numbers of opposite signs, digits of the result are lost: a few units in
# the last place of the operands stay.
CANCEL = {"gelu": 1e-6, "squareplus": 4e-6, "celu": 1e-6, "mish": 1e-6}
UNIT = {"float16": 1e-3, "bfloat16": 8e-3}


def _case(name: str, x: np.ndarray[Any, Any], rtol: float, atol: float) -> Case:
    def expected(v: Any) -> Any:
        return FORMULAS[name](v.astype(np.float64))

    def call(module: Any, v: Any) -> Any:
        return getattr(nn, name)(v)

    return Case(name, (x,), call=call, expected=expected, dtype=x.dtype.name, rtol=rtol, atol=atol)


def test_values() -> None:
    cases = []
    for name in FORMULAS:
        atol = CANCEL.get(name, 1e-7)
        cases.append(_case(name, POINTS.astype("f4"), 2e-6, atol))
        cases.append(_case(name, POINTS[:16].reshape(2, 4, 2).astype("f4"), 2e-6, atol))
        cases.append(_case(name, np.zeros((0, 3), "f4"), 0, 0))
        for dtype in (np.float16, ml_dtypes.bfloat16):
            # Each of some ten steps rounds once, at a size up to that of the operand.
            unit = UNIT[np.dtype(dtype).name]
            cases.append(_case(name, np.clip(POINTS, -9, 9).astype(dtype), 5 * unit, 5 * unit))
    check(cases)


def test_values_in_float64() -> None:
    with xpr.enable_x64(True):
        for name, formula in FORMULAS.items():
            found = getattr(nn, name)(POINTS)
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, formula(POINTS), rtol=1e-13, atol=1e-14, err_msg=name)


# At -inf and inf; NaN where the formula is 0 times infinity. A NaN gives NaN.
LIMITS: dict[str, tuple[float, float]] = {
    "celu": (-1, np.inf),
    "elu": (-1, np.inf),
    "hard_sigmoid": (0, 1),
    "hard_silu": (np.nan, np.inf),
    "hard_tanh": (-1, 1),
    "identity": (-np.inf, np.inf),
    "leaky_relu": (-np.inf, np.inf),
    "log_sigmoid": (-np.inf, 0),
    "mish": (np.nan, np.inf),
    "relu": (0, np.inf),
    "relu6": (0, 6),
    "selu": (-1.7580993408473766, np.inf),
    "sigmoid": (0, 1),
    "silu": (np.nan, np.inf),
    "softplus": (0, np.inf),
    "sparse_plus": (0, np.inf),
    "sparse_sigmoid": (0, 1),
    "tanh": (-1, 1),
}


def test_limits() -> None:
    x = np.array([-np.inf, np.inf, np.nan], "f4")
    compiled = xpr.jit(lambda v: {n: getattr(nn, n)(v) for n in LIMITS})(x)
    for name, (left, right) in LIMITS.items():
        expected = np.array([left, right, np.nan], "f4")
        for found in (getattr(nn, name)(x), compiled[name]):
            np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=name)


# The slopes at corners, from the conventions that the docstrings state.
CORNERS = [
    ("relu", 0.0, 0.0),
    ("relu", -0.0, 0.0),
    ("relu6", 0.0, 0.0),
    ("relu6", 6.0, 0.0),
    ("relu6", 3.0, 1.0),
    ("leaky_relu", 0.0, 1.0),
    ("elu", 0.0, 1.0),
    ("celu", 0.0, 1.0),
    ("selu", 0.0, 1.0507009873554805 * 1.6732632423543772),
    ("hard_tanh", -1.0, 1.0),
    ("hard_tanh", 1.0, 1.0),
    ("hard_tanh", 1.5, 0.0),
    ("hard_sigmoid", -3.0, 0.0),
    ("hard_sigmoid", 3.0, 0.0),
    ("hard_sigmoid", 0.0, 1 / 6),
    ("hard_silu", 3.0, 1.0),
    ("sparse_plus", -1.0, 0.0),
    ("sparse_plus", 1.0, 1.0),
    ("sparse_sigmoid", -1.0, 0.25),
    ("sparse_sigmoid", 1.0, 0.25),
    ("soft_sign", 0.0, 1.0),
    ("softplus", 0.0, 0.5),
    ("log_sigmoid", 0.0, 0.5),
    ("squareplus", 0.0, 0.5),
    ("silu", 0.0, 0.5),
    ("gelu", 0.0, 0.5),
    ("mish", 0.0, 0.6),
    # No overflow of an exponential reaches the gradient.
    ("elu", 200.0, 1.0),
    ("selu", 200.0, 1.0507009873554805),
    ("celu", 200.0, 1.0),
    ("softplus", 1000.0, 1.0),
    ("softplus", -1000.0, 0.0),
    ("log_sigmoid", -1000.0, 1.0),
    ("sigmoid", -1000.0, 0.0),
]


def test_derivatives_at_corners() -> None:
    points = np.array([p for _, p, _ in CORNERS], "f4")
    expected = [slope for _, _, slope in CORNERS]

    def slopes(xs: Any) -> Any:
        return [xpr.grad(getattr(nn, n))(x) for (n, _, _), x in zip(CORNERS, xs, strict=True)]

    for found in (slopes(points), xpr.jit(slopes)(points)):
        for (name, point, _), slope, e in zip(CORNERS, found, expected, strict=True):
            np.testing.assert_allclose(slope, e, rtol=1e-6, err_msg=f"{name} at {point}")
    forward = [xpr.jvp(getattr(nn, n), (p,), (1.0,))[1] for n, p, _ in CORNERS]
    np.testing.assert_allclose(np.array(forward), expected, rtol=1e-6)


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    with xpr.enable_x64(True):
        x = np.array([-3.3, -1.2, -0.4, 0.2, 0.7, 2.1, 4.2])
        check_grads(getattr(nn, name), (x,), order=2)


def test_parameters() -> None:
    x = POINTS.astype("f4")
    alpha = np.float32(0.7)
    below = np.minimum(x, 0)
    np.testing.assert_allclose(nn.elu(x, 0.7), _elu(x, alpha), rtol=1e-6)
    celu = np.maximum(x, 0) + alpha * np.expm1(below / alpha)
    np.testing.assert_allclose(nn.celu(x, alpha=alpha), celu, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(nn.leaky_relu(x, 0.5), np.where(x < 0, x / 2, x))
    np.testing.assert_allclose(nn.squareplus(x, 0.0), np.maximum(x, 0), atol=1e-6)
    exact = x * special.ndtr(x.astype(np.float64))
    np.testing.assert_allclose(nn.gelu(x, approximate=False), exact, rtol=2e-6, atol=1e-6)
    slopes = np.linspace(0, 1, x.size).astype("f4")
    np.testing.assert_allclose(nn.leaky_relu(x, slopes), np.where(x < 0, slopes * x, x), rtol=1e-6)
    with xpr.enable_x64(True):
        check_grads(lambda v: nn.gelu(v, approximate=False), (np.array([-1.3, 0.4]),), order=2)
        check_grads(nn.elu, (np.array([-1.3, 0.4]), np.float64(0.6)), order=1)


def test_dtypes() -> None:
    ints = np.arange(-3, 4, dtype="i4")
    for name in ("relu", "hard_tanh", "identity"):
        found = getattr(nn, name)(ints)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, FORMULAS[name](ints))
    for name in sorted(
        set(FORMULAS) - {"relu", "hard_tanh", "identity", "sigmoid", "silu", "swish"}
    ):
        found = getattr(nn, name)(ints)
        assert found.dtype == np.float32, name
        np.testing.assert_allclose(found, FORMULAS[name](ints), rtol=1e-5, atol=1e-6, err_msg=name)
    assert nn.relu(2.0).weak_type
    assert nn.softplus(2).weak_type
    assert not nn.gelu(2.0).weak_type
    assert not nn.elu(np.float32(1)).weak_type
    assert (nn.leaky_relu(-2.0) * jnp.ones(1, jnp.bfloat16)).dtype == jnp.bfloat16


@pytest.mark.parametrize("jitted", [False, True])
def test_glu(jitted: bool) -> None:
    x = np.random.default_rng(0).normal(size=(4, 3, 6)).astype("f4")
    for axis in (-1, 2, 0, -3):
        run = partial(nn.glu, axis=axis)
        found = (xpr.jit(run) if jitted else run)(x)
        a, b = np.split(x, 2, axis)
        np.testing.assert_allclose(found, a * special.expit(b), rtol=1e-5, atol=1e-7)
    with xpr.enable_x64(True):
        check_grads(nn.glu, (x.astype(np.float64),), order=1)


@pytest.mark.parametrize("jitted", [False, True])
def test_log1mexp(jitted: bool) -> None:
    x = np.array([0, 1e-30, 1e-10, 1e-3, 0.5, 0.69, 0.7, 1, 10, 80], np.float32)
    wide = x.astype(np.float64)
    with np.errstate(divide="ignore"):
        expected = np.where(wide < 0.5, np.log(-np.expm1(-wide)), np.log1p(-np.exp(-wide)))
    f = xpr.jit(nn.log1mexp) if jitted else nn.log1mexp
    np.testing.assert_allclose(f(x), expected, rtol=1e-6)
    np.testing.assert_array_equal(f(np.array([-1.0, np.nan, np.inf], "f4")), [np.nan, np.nan, 0])
    slopes = xpr.vmap(xpr.grad(f))(x[1:])
    np.testing.assert_allclose(slopes, 1 / np.expm1(wide[1:]), rtol=1e-6)
    with xpr.enable_x64(True):
        check_grads(nn.log1mexp, (np.array([0.1, 0.6, 0.8, 3.0]),), order=2)


def test_vmap_agrees_with_a_loop() -> None:
    x = np.random.default_rng(1).normal(size=(3, 4)).astype("f4")
    for name in (*FORMULAS, "glu"):
        f = getattr(nn, name)
        expected = np.stack([np.asarray(f(row)) for row in x])
        np.testing.assert_allclose(xpr.vmap(f)(x), expected, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.glu(np.ones((2, 3))), ValueError, "divisible by 2, got 3 for axis -1"),
        (lambda: nn.glu(np.ones((2, 4)), 2), ValueError, "axis 2 is out of bounds"),
        (lambda: nn.relu([1.0]), TypeError, "maximum requires ndarray or scalar arguments"),
        (lambda: nn.elu(None), TypeError, "elu requires ndarray or scalar arguments"),
        (lambda: nn.sigmoid(np.arange(3)), TypeError, "logistic does not accept dtype int32"),
        (lambda: nn.silu(np.arange(3)), TypeError, "logistic does not accept dtype int32"),
    ],
)
def test_errors(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_loaded_when_first_used() -> None:
    code = (
        "import sys, xpr; before = 'xpr.nn' in sys.modules; "
        "print(before, float(xpr.nn.relu(2.0)), 'nn' in dir(xpr), 'xpr.random' in sys.modules, "
        "[m for m in sys.modules if m.split('.')[0] == 'iree'])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False 2.0 True False []"
    assert "initializers" in dir(nn)
    for module in (xpr, nn):
        match = f"module '{module.__name__}' has no attribute 'no_such_name'"
        with pytest.raises(AttributeError, match=match):
            _ = getattr(module, "no_such_" + "name")
