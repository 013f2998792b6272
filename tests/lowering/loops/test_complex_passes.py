"""Operations on complex elements of straight-line programs, in vectors of parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import xpr
import xpr.numpy as jnp
from xpr.core.config import override

_N = 700


@pytest.fixture(autouse=True)
def _in_double_precision() -> Any:
    with override("enable_x64", True):
        yield


def _numbers(seed: int = 0, shape: tuple[int, ...] = (_N,)) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def _is_taken_apart(function: Callable[..., Any], *args: Any) -> bool:
    text = xpr.jit(function).lower(*args).as_text("iree")
    return "flow.dispatch.region" in text or "flow.dispatch @" in text


@pytest.mark.parametrize(
    "name",
    [
        *("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos"),
        *("arctan", "arcsinh", "arccosh", "arctanh", "abs", "sign", "expm1", "log1p", "reciprocal"),
        *("log2", "log10", "exp2"),
    ],
)
def test_functions(name: str) -> None:
    z = 2 * _numbers()
    f, plain = getattr(jnp, name), getattr(np, name)
    assert _is_taken_apart(f, z)
    np.testing.assert_allclose(xpr.jit(f)(z), plain(z), rtol=1e-12, atol=1e-13)
    single = z.astype(np.complex64)
    np.testing.assert_allclose(
        xpr.jit(f)(single), plain(single.astype(complex)), rtol=2e-5, atol=2e-6
    )


def test_functions_of_several_operands() -> None:
    z, w = _numbers(), _numbers(1)
    x = np.abs(w)
    for f in (
        lambda np_, z, w, x: z / w,
        lambda np_, z, w, x: z / x,
        lambda np_, z, w, x: x / z,
        lambda np_, z, w, x: z**w,
        lambda np_, z, w, x: np_.power(z, 2.5),
        lambda np_, z, w, x: (z + 1) / (w - 2) * np_.exp(1j * x) + np_.conj(z),
        lambda np_, z, w, x: np_.where(x > 0.5, z / w, np_.exp(z)).real,
    ):
        got = xpr.jit(lambda z, w, x, f=f: f(jnp, z, w, x))(z, w, x)
        np.testing.assert_allclose(got, f(np, z, w, x), rtol=1e-11, atol=1e-12)


_PARTS = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e300, 1e-300, -2.5)


def _special() -> np.ndarray[Any, Any]:
    one = np.array([complex(a, b) for a in _PARTS for b in _PARTS])
    return np.tile(one, 8)


@pytest.mark.parametrize("name", ["exp", "sqrt", "abs", "log", "sin", "tanh", "arcsin"])
def test_special_values_are_those_of_few_elements(name: str) -> None:
    """The same rule, on parts and on complex elements, on which it is tested against C99."""
    z = _special()
    f = xpr.jit(getattr(jnp, name))
    assert _is_taken_apart(getattr(jnp, name), z)
    few = np.concatenate([np.asarray(f(z[i : i + 100])) for i in range(0, len(z), 100)])
    many = np.asarray(f(z))
    np.testing.assert_allclose(many, few, rtol=1e-14)
    for part in ("real", "imag"):
        a, b = getattr(many, part), getattr(few, part)
        np.testing.assert_array_equal(np.signbit(a)[~np.isnan(b)], np.signbit(b)[~np.isnan(b)])


def test_special_values_of_quotients() -> None:
    z = _special()
    rng = np.random.default_rng(0)
    w = rng.permutation(z)
    f = xpr.jit(jnp.divide)
    few = [np.asarray(f(z[i : i + 100], w[i : i + 100])) for i in range(0, len(z), 100)]
    np.testing.assert_allclose(np.asarray(f(z, w)), np.concatenate(few), rtol=1e-14)


def test_derivatives() -> None:
    """By finite differences, along a direction."""
    z, direction = _numbers(), _numbers(2)

    def loss(np_: Any, z: Any) -> Any:
        return np_.sum(np_.abs(z) ** 3 + np_.real(np_.exp(z) / (z + 3)))

    slope = np.asarray(xpr.jit(xpr.grad(lambda z: loss(jnp, z)))(z))
    h = 1e-6
    wanted = (loss(np, z + h * direction) - loss(np, z - h * direction)) / (2 * h)
    # The gradient's conjugate belongs to the direction, as in JAX.
    np.testing.assert_allclose(np.sum(slope * direction).real, wanted, rtol=1e-7)


def test_what_lies_between_keeps_its_place() -> None:
    """Sums, transforms and products separate passes, whose results they read."""

    def f(np_: Any, z: Any) -> Any:
        a = np_.exp(z)
        total = np_.sum(a, axis=0)
        b = np_.sqrt(a) / (1 + np_.abs(total))
        c = np_.fft.fft(b)
        return np_.log(c) * total, a, b @ b.T, np_.abs(c).sum()

    z = _numbers(3, (30, 40))
    for got, wanted in zip(xpr.jit(lambda z: f(jnp, z))(z), f(np, z), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("shape", [(512,), (513,), (1, 600), (7, 11, 13), (2000, 64)])
def test_shapes_and_vectors(shape: tuple[int, ...]) -> None:
    z = _numbers(4, shape)
    given = z.copy()
    got = xpr.jit(lambda z: jnp.tanh(z) / z)(z)
    np.testing.assert_allclose(got, np.tanh(z) / z, rtol=1e-12)
    np.testing.assert_array_equal(z, given)
    batched = xpr.jit(xpr.vmap(lambda z: jnp.log(z) * 2))(z.reshape(-1, shape[-1]))
    np.testing.assert_allclose(batched, 2 * np.log(z).reshape(-1, shape[-1]), rtol=1e-12)


def test_long_programs_are_several_passes() -> None:
    def f(np_: Any, z: Any) -> Any:
        for _ in range(20):
            z = np_.exp(0.3 * z) / (2 + z)
        return z

    z = _numbers(5)
    np.testing.assert_allclose(xpr.jit(lambda z: f(jnp, z))(z), f(np, z), rtol=1e-11)


def test_few_elements_are_left_to_iree() -> None:
    assert not _is_taken_apart(jnp.exp, np.ones(40, complex))
    assert not _is_taken_apart(lambda z: z * z + 1, _numbers())


def test_real_functions_beside_complex_ones() -> None:
    z = _numbers(6)

    def f(np_: Any, erf: Any, z: Any) -> Any:
        x = np_.abs(z)
        return erf(x) + np_.floor(x) + np_.exp(z).imag

    got = xpr.jit(lambda z: f(jnp, xpr.scipy.special.erf, z))(z)
    np.testing.assert_allclose(got, f(np, scipy.special.erf, z), rtol=1e-11, atol=1e-12)


def test_one_program_has_one_text() -> None:
    """The cache finds modules by it, in other processes as well."""

    def program(z: Any) -> Any:
        a = [jnp.exp(z * k) for k in (1, 2, 3)]
        return [*a, *(x.real for x in a), *(x.imag for x in a), *(x + 1 for x in a)]

    z = _numbers(7)
    texts = {xpr.jit(lambda z: program(z)).lower(z).as_text("iree") for _ in range(4)}
    assert len(texts) == 1
