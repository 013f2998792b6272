"""Cosine transforms against SciPy: lengths, axes, norms, derivatives, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.fft

import xpr
from xpr.core.config import override
from xpr.scipy import fft as xfft
from xpr.test_util import check_grads

RNG = np.random.default_rng(7)
NAMES = ("dct", "idct", "dctn", "idctn")


def _close(found: Any, wanted: Any, what: str = "") -> None:
    assert found.shape == wanted.shape, what
    assert found.dtype == wanted.dtype, what
    single = found.dtype.itemsize // (2 if found.dtype.kind == "c" else 1) == 4
    size = max(1.0, np.abs(wanted).max(initial=0))
    tolerance = 2e-6 if single else 4e-15
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * size, err_msg=what)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_lengths_and_norms(dtype: str) -> None:
    with override("enable_x64", True):
        for n in (*range(1, 21), 97, 256):
            x = RNG.uniform(-1, 1, (2, n))
            x = (x + 1j * x[::-1] if dtype.startswith("c") else x).astype(dtype)
            for norm in (None, "backward", "ortho"):
                for name in ("dct", "idct"):
                    wanted = getattr(scipy.fft, name)(x, norm=norm)
                    _close(getattr(xfft, name)(x, norm=norm), wanted, f"{name} {n} {norm}")


def test_axes_and_sizes() -> None:
    x = RNG.uniform(-1, 1, (3, 4, 5)).astype(np.float32)

    def results(module: Any, x: Any) -> list[Any]:
        out = []
        for name in ("dct", "idct"):
            function = getattr(module, name)
            out += [function(x, n=n, axis=a) for n, a in ((2, 0), (7, 1), (5, -1), (None, 0))]
        for name in ("dctn", "idctn"):
            function = getattr(module, name)
            out += [
                function(x, s=s, axes=a, norm=norm)
                for s, a, norm in (
                    (None, None, None),
                    (None, (0, -1), "ortho"),
                    ((2, 7), None, None),
                    ((2, 7, 3), (2, 0, 1), "ortho"),
                    ([6], [1], None),
                )
            ]
        return out

    wanted = results(scipy.fft, x)
    for found in (results(xfft, x), xpr.jit(lambda x: results(xfft, x))(x)):
        for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
            _close(a, b, str(i))
    _close(xfft.dctn(x, s=3), scipy.fft.dctn(x, s=3, axes=-1))
    _close(xfft.dctn(x, axes=1), scipy.fft.dctn(x, axes=1))


def test_dtypes_and_empty_arrays() -> None:
    x = np.array([1, 2, 4])
    for dtype in (np.int32, np.uint8, np.bool_, np.float16):
        found = xfft.dct(x.astype(dtype))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, scipy.fft.dct(x.astype(dtype).astype("f4")), rtol=1e-5)
    with override("enable_x64", True):
        assert xfft.dct(x.astype(np.int32)).dtype == np.float32
        assert xfft.idct(x.astype(np.int64)).dtype == np.float64
    for name in NAMES:
        assert getattr(xfft, name)(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_derivatives_and_batches() -> None:
    x = RNG.uniform(-1, 1, (2, 3, 4))
    with override("enable_x64", True):
        for name in NAMES:
            function = getattr(xfft, name)
            check_grads(function, (x,), order=2)
            check_grads(lambda x, f=function: f(x, norm="ortho"), (x[:, 0],), order=1)
            found = xpr.vmap(function, in_axes=1)(x)
            rows = np.stack([function(x[:, i]) for i in range(3)])
            np.testing.assert_allclose(found, rows, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda x: xfft.dct(x, type=3), NotImplementedError, "Only DCT type 2 is implemented"),
        (lambda x: xfft.idctn(x, type=1), NotImplementedError, "Only DCT type 2 is implemented"),
        (lambda x: xfft.dct(x, norm="forward"), ValueError, "norm = 'forward' is not implemented"),
        (lambda x: xfft.dct(x, axis=2), ValueError, "axis 2 is out of bounds"),
        (lambda x: xfft.dct(x, n=0), ValueError, "must be positive, got 0"),
        (lambda x: xfft.dctn(x, s=(1, 2, 3)), ValueError, r"at most x.ndim \(2\) elements, got 3"),
        (lambda x: xfft.dctn(x, s=(1,), axes=(0, 1)), ValueError, "got 1 lengths for 2 axes"),
        (lambda x: xfft.dctn(x, axes=(0, -2)), ValueError, r"repeated axes: \(0, 0\)"),
        (lambda x: xfft.dct([1.0]), TypeError, "dct requires ndarray or scalar"),
    ],
)
def test_errors(call: Any, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        call(np.ones((2, 3), np.float32))
