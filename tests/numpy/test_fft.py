"""xpr.numpy.fft against NumPy: lengths, axes, norms, frequencies, shifts, derivatives."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy
from tests.numpy.cases import Case, check
from xpr import lax
from xpr.core.config import override
from xpr.errors import ConcretizationTypeError
from xpr.test_util import check_grads

jnp: Any = xpr.numpy

RNG = np.random.default_rng(11)
NORMS = (None, "backward", "ortho", "forward")
REAL_OPERANDS = ("rfft", "ihfft", "rfft2", "rfftn")
ONE_AXIS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
TWO_AXES = ("fft2", "ifft2", "rfft2", "irfft2")
ANY_AXES = ("fftn", "ifftn", "rfftn", "irfftn")


def _operand(name: str, *shape: int, wide: bool = False) -> np.ndarray[Any, Any]:
    x = RNG.uniform(-1, 1, shape)
    if name not in REAL_OPERANDS:
        x = x + 1j * RNG.uniform(-1, 1, shape)
    return x if wide else x.astype("f4" if name in REAL_OPERANDS else "c8")


def _case(name: str, *args: Any, atol: float = 2e-6, **kwargs: Any) -> Case:
    def call(module: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(module.fft, name)(*args, **kwargs)

    return Case(f"fft.{name}", args, kwargs, call=call, atol=atol, rtol=3e-6)


def test_lengths() -> None:
    lengths = (*range(1, 41), 64, 97, 1009, 1024)
    cases = [
        _case(name, _operand(name, n), atol=2e-7 * n + 1e-6)
        for name in ONE_AXIS
        for n in lengths
        if not (n == 1 and name in ("irfft", "hfft"))
    ]
    with override("enable_x64", True):
        check([c for c in cases if c.args[0].size in (1, 2, 7, 16, 97)])
        for case in cases:
            x = case.args[0].astype("f8" if case.args[0].dtype.kind == "f" else "c16")
            found, wanted = case.run(jnp, x), case.run(np, x)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-15 * x.size + 1e-15)


def test_cut_and_filled_axes_and_norms() -> None:
    cases = []
    for name in ONE_AXIS:
        for i, (n, axis) in enumerate(((1, 0), (3, 1), (4, -1), (5, 0), (9, -2), (None, 1))):
            for norm in (NORMS[i % 4], NORMS[(i + 2) % 4]):
                cases.append(_case(name, _operand(name, 4, 6), n=n, axis=axis, norm=norm))
    for name in TWO_AXES:
        for s, axes in ((None, (0, 1)), ((3, 4), (1, 2)), ((5, 2), (2, 0)), ((1, 7), (-1, 1))):
            cases.append(_case(name, _operand(name, 3, 4, 5), s=s, axes=axes, norm="ortho"))
    for name in ANY_AXES:
        for s, axes in ((None, None), (None, (1,)), ((2, 7), (0, -1)), ((4, 4, 2), (2, 0, 1))):
            for norm in ("forward", None):
                cases.append(_case(name, _operand(name, 3, 4, 5), s=s, axes=axes, norm=norm))
    check(cases)


def test_lengths_without_axes_are_those_of_the_last_axes() -> None:
    for name in ANY_AXES:
        x = _operand(name, 3, 4, 5)
        found = getattr(jnp.fft, name)(x, s=(2, 6))
        np.testing.assert_allclose(
            found, getattr(np.fft, name)(x, s=(2, 6), axes=(1, 2)), rtol=1e-5, atol=1e-6
        )


def test_many_axes() -> None:
    cases = []
    for name in ANY_AXES:
        for shape in ((2, 3, 2, 3), (2, 3, 2, 3, 2), (2, 1, 2, 2, 2, 3, 2)):
            x = _operand(name, *shape)
            cases.append(_case(name, x, axes=tuple(range(len(shape)))))
        cases.append(_case(name, _operand(name, 2, 3, 2, 3, 2), axes=(3, 0, 4, 1)))
    check(cases)


def test_dtypes() -> None:
    x = np.arange(6)
    for dtype in (bool, np.int8, np.uint16, np.int32, np.float32):
        for name in ("fft", "ifft", "rfft", "hfft"):
            found = getattr(jnp.fft, name)(x.astype(dtype))
            assert found.dtype == (np.float32 if name == "hfft" else np.complex64)
            wanted = getattr(np.fft, name)(x.astype(dtype))
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    half = jnp.fft.fft(x.astype(np.float16))
    assert half.dtype == np.complex64
    with override("enable_x64", True):
        for dtype, wanted in (("f4", "c8"), ("c8", "c8"), ("f8", "c16"), ("c16", "c16")):
            assert jnp.fft.fft(x.astype(dtype)).dtype == np.dtype(wanted)
        assert jnp.fft.irfft(x.astype("c8")).dtype == np.float32
        assert jnp.fft.irfft(x.astype("c16")).dtype == np.float64
        assert jnp.fft.fft(x.astype(np.int64)).dtype == np.complex128
        assert jnp.fft.fft(x.astype(np.int32)).dtype == np.complex64
        assert jnp.fft.rfft(x.astype(np.bool_)).dtype == np.complex64


def test_empty_arrays_and_scalars() -> None:
    for name in ONE_AXIS:
        function = getattr(jnp.fft, name)
        kind = "f4" if name in REAL_OPERANDS else "c8"
        assert function(np.zeros((0, 4), kind)).shape[0] == 0
        assert xpr.jit(function)(np.zeros((0, 4), kind)).shape[0] == 0
        np.testing.assert_array_equal(function(np.zeros((2, 0), kind), n=4)[0], 0)
    assert jnp.fft.fft(np.zeros((3, 0))).shape == (3, 0)
    assert jnp.fft.irfft(np.zeros((3, 1))).shape == (3, 0)
    assert jnp.fft.irfft(np.zeros((3, 0))).shape == (3, 0)
    assert jnp.fft.fftn(2.5) == 2.5
    x = _operand("fft", 2, 3)
    np.testing.assert_array_equal(jnp.fft.fftn(x, axes=()), x)


def test_frequencies() -> None:
    for n in (1, 2, 5, 8):
        for d in (1.0, 0.1, 3):
            for name in ("fftfreq", "rfftfreq"):
                found = getattr(jnp.fft, name)(n, d)
                assert found.dtype == np.float32
                np.testing.assert_allclose(found, getattr(np.fft, name)(n, d), rtol=2e-7)
    assert jnp.fft.fftfreq(0).shape == (0,)
    assert jnp.fft.fftfreq(4, dtype=jnp.bfloat16).dtype == jnp.bfloat16
    assert jnp.fft.rfftfreq(4, dtype=np.complex64).dtype == np.complex64
    with override("enable_x64", True):
        assert jnp.fft.fftfreq(7).dtype == np.float64
        np.testing.assert_allclose(jnp.fft.fftfreq(7, 0.3), np.fft.fftfreq(7, 0.3), rtol=3e-16)
    device = xpr.devices()[0]
    assert jnp.fft.fftfreq(4, device=device).devices() == {device}
    found = xpr.jit(lambda d: jnp.fft.fftfreq(5, d))(0.5)
    np.testing.assert_allclose(found, np.fft.fftfreq(5, 0.5), rtol=2e-7)
    slope = xpr.grad(lambda d: jnp.fft.rfftfreq(5, d)[2])(0.5)
    np.testing.assert_allclose(slope, -2 / 5 / 0.25, rtol=1e-6)


def test_shifts() -> None:
    x = np.arange(30.0, dtype=np.float32).reshape(2, 3, 5)
    check(
        [
            _case(name, operand, axes=axes)
            for name in ("fftshift", "ifftshift")
            for operand in (x, x.astype(np.int32), x.astype(np.complex64))
            for axes in (None, 0, -1, (0, 2), (1,), [1, 2])
        ]
    )
    assert jnp.fft.fftshift(2.0) == 2.0
    assert jnp.fft.ifftshift(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_laws() -> None:
    x, y = (_operand("fft", 30) for _ in range(2))
    f = jnp.fft.fft(x)
    np.testing.assert_allclose(jnp.fft.ifft(f), x, atol=1e-6)
    np.testing.assert_allclose(jnp.linalg.norm(f) ** 2, 30 * np.linalg.norm(x) ** 2, rtol=1e-5)
    product = jnp.fft.ifft(f * jnp.fft.fft(y))
    cyclic = sum(x[j] * np.roll(y, j) for j in range(30))
    np.testing.assert_allclose(product, cyclic, atol=1e-5)
    real = x.real
    np.testing.assert_allclose(jnp.fft.irfft(jnp.fft.rfft(real[:29]), n=29), real[:29], atol=1e-6)
    half = jnp.fft.ihfft(real)
    np.testing.assert_allclose(jnp.fft.hfft(half), real, atol=1e-6)


def test_vmap_equals_a_loop() -> None:
    cubes = {name: _operand(name, 3, 4, 5) for name in (*ONE_AXIS, "fft2", "rfftn")}
    for name, x in cubes.items():
        function = getattr(jnp.fft, name)
        for axis in (0, 1, 2):
            found = xpr.vmap(function, in_axes=axis, out_axes=axis)(x)
            rows = [function(np.take(x, i, axis)) for i in range(x.shape[axis])]
            np.testing.assert_allclose(found, np.stack(rows, axis), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [*ONE_AXIS, *TWO_AXES, *ANY_AXES])
def test_derivatives(name: str) -> None:
    function = getattr(jnp.fft, name)
    with override("enable_x64", True):
        if name in ONE_AXIS:
            for n in (3, 4, 7):
                x = _operand(name, 2, 4, wide=True)
                check_grads(functools.partial(function, n=n, norm="ortho"), (x,), order=2)
        else:
            x = _operand(name, 2, 3, 4, wide=True)
            check_grads(function, (x,), order=2)
            check_grads(functools.partial(function, s=(3, 5), axes=(1, 0)), (x,), order=1)


def test_gradients_are_those_of_the_matrix() -> None:
    x = _operand("rfft", 6)
    found = xpr.jit(xpr.grad(lambda x: jnp.abs(jnp.fft.rfft(x) ** 2).sum()))(x)
    matrix = np.exp(-2j * np.pi * np.outer(np.arange(4), np.arange(6)) / 6)
    np.testing.assert_allclose(found, 2 * (matrix.conj().T @ (matrix @ x)).real, rtol=1e-4)
    jacobian = xpr.jacrev(lambda x: jnp.fft.fft(x), holomorphic=True)(x.astype(np.complex64))
    whole = np.exp(-2j * np.pi * np.outer(np.arange(6), np.arange(6)) / 6)
    np.testing.assert_allclose(jacobian, whole, atol=1e-5)


def test_the_primitive() -> None:
    x = _operand("fft", 2, 3)
    text = str(xpr.make_jaxpr(lambda x: lax.fft(x, "fft", (3,)))(x))
    assert "fft[fft_lengths=(3,) fft_type=0] a" in text
    np.testing.assert_array_equal(
        lax.fft(x, lax.FftType.IFFT, (2, 3)), lax.fft(x, "IFFT", np.array([2, 3]))
    )
    assert lax.fft(1.0, "fft", ()).dtype == np.complex64
    threaded = _operand("fft", 300, 300)
    np.testing.assert_allclose(
        lax.fft(threaded, "fft", (300,)), np.fft.fft(threaded), rtol=1e-4, atol=1e-4
    )


X = np.ones((4, 4), np.float32)
Z = np.ones((4, 4), np.complex64)


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda: lax.fft(Z, "nope", (4,)), ValueError, "Unknown FFT type 'nope'"),
        (lambda: lax.fft(Z, None, (4,)), TypeError, "Unknown FFT type value 'None'"),
        (lambda: lax.fft(Z, "rfft", (4,)), ValueError, "only real valued inputs"),
        (lambda: lax.fft(Z, "fft", (3,)), ValueError, r"\(4, 4\) minor dimensions must be equal"),
        (lambda: lax.fft(Z, "irfft", (9,)), ValueError, "IRFFT input shape"),
        (lambda: lax.fft(Z, "fft", (4, 4, 4)), ValueError, "at least as many input dimensions"),
        (lambda: lax.fft(Z, "fft", (4, 4, 4, 4)), ValueError, "1 to 3 axes at once"),
        (lambda: lax.fft(X.astype("f2"), "rfft", (4,)), ValueError, "must be float32 or float64"),
        (lambda: jnp.fft.fft([1.0]), TypeError, "fft.fft requires ndarray or scalar"),
        (lambda: jnp.fft.fft(X, n=0), ValueError, "Shape should be positive"),
        (lambda: jnp.fft.fft(X, axis=2), ValueError, "axis 2 is out of bounds"),
        (lambda: jnp.fft.fft(1.0), ValueError, "axis -1 is out of bounds"),
        (lambda: jnp.fft.fft(X, axis=[0]), ValueError, "Please use jax.numpy.fft.fftn"),
        (lambda: jnp.fft.fft(X, norm="x"), ValueError, "Invalid norm value x"),
        (lambda: jnp.fft.rfft(Z), ValueError, "only real valued inputs supported for rfft"),
        (lambda: jnp.fft.fft2(X, axes=(0,)), ValueError, r"only supports 2 axes. Got axes = \(0"),
        (lambda: jnp.fft.fftn(X, axes=(0, 0)), ValueError, "does not support repeated axes"),
        (lambda: jnp.fft.fftn(X, axes=(1, -1)), ValueError, "does not support repeated axes"),
        (lambda: jnp.fft.fftn(X, s=(1,), axes=(0, 1)), ValueError, "have different lengths"),
        (lambda: jnp.fft.fftn(X, s=(1, 1, 1)), ValueError, "got 3 lengths"),
        (lambda: jnp.fft.fftfreq([4]), ValueError, "only takes an int"),
        (lambda: jnp.fft.rfftfreq(4, [1]), ValueError, "only takes a single value"),
        (lambda: xpr.jit(jnp.fft.fftfreq)(4), ConcretizationTypeError, "the n argument of jax"),
        (lambda: jnp.fft.fftshift([1, 2]), TypeError, "fftshift requires ndarray"),
        (lambda: jnp.fft.fftshift(X, axes=5), ValueError, "axis 5 is out of bounds"),
    ],
)
def test_errors(call: Any, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        call()


def test_loaded_when_used() -> None:
    code = (
        "import sys, xpr, xpr.numpy as jnp; before = 'xpr.numpy.fft' in sys.modules; "
        "jnp.fft.fftshift; print(before, 'xpr.numpy.fft' in sys.modules, 'scipy' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False True False"
