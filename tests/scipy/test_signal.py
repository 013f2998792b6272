"""Convolutions, trends and spectra against SciPy."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.signal

import xpr
from xpr.core.config import override
from xpr.errors import ConcretizationTypeError
from xpr.scipy import signal
from xpr.test_util import check_grads

RNG = np.random.default_rng(23)
MODES = ("full", "same", "valid")


def _values(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    if dtype.startswith("int"):
        return RNG.integers(-5, 6, shape).astype(dtype)
    x = RNG.uniform(-1, 1, shape)
    return (x + 1j * RNG.uniform(-1, 1, shape) if dtype.startswith("c") else x).astype(dtype)


def _close(found: Any, wanted: Any, what: str = "", tolerance: float = 3e-6) -> None:
    """Equal but for errors relative to the greatest element, in 32 bits."""
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape, what
    assert found.dtype == ("complex64" if wanted.dtype.kind == "c" else "float32"), what
    size = max(1.0, np.abs(wanted).max(initial=0))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * size, err_msg=what)


def _check(cases: list[tuple[Callable[[Any, Any], Any], list[Any]]]) -> None:
    """`function(module, *arrays)` for SciPy and for xpr; every second one compiled too."""

    def run(some: Any, operands: Any) -> list[Any]:
        return [f(signal, *args) for (f, _), args in zip(some, operands, strict=True)]

    for how, some in (("eager", cases), ("jit", cases[::2])):
        operands = [args for _, args in some]
        program = functools.partial(run, some)
        results = (xpr.jit(program) if how == "jit" else program)(operands)
        for i, ((f, args), found) in enumerate(zip(some, results, strict=True)):
            wanted = f(scipy.signal, *args)
            found, wanted = (r if isinstance(r, tuple) else (r,) for r in (found, wanted))
            for a, b in zip(found, wanted, strict=True):
                _close(a, b, f"case {i} {how}")


# ---- convolutions


def test_convolutions_of_vectors() -> None:
    cases: Any = []
    sizes = ((5, 3), (3, 5), (4, 4), (6, 1), (1, 1), (7, 4))
    for (n, m), mode in itertools.product(sizes, MODES):
        for name in ("convolve", "correlate", "fftconvolve"):
            kinds = ("complex64", "float32") if n != m else ("float32", "complex64")

            def call(module: Any, x: Any, y: Any, name=name, mode=mode) -> Any:
                return getattr(module, name)(x, y, mode)

            cases.append((call, [_values(kinds[0], n), _values(kinds[1], m)]))
    _check(cases)


def test_convolutions_of_more_axes() -> None:
    cases: Any = []
    shapes = (((4, 5), (2, 3)), ((2, 3), (4, 5)), ((3, 4), (3, 4)), ((5, 4), (2, 4)))
    for (first, second), mode in itertools.product(shapes, MODES):
        for name in ("convolve", "correlate", "convolve2d", "correlate2d", "fftconvolve"):

            def call(module: Any, x: Any, y: Any, name=name, mode=mode) -> Any:
                return getattr(module, name)(x, y, mode=mode)

            kinds = ("complex64", "complex64") if mode != "full" else ("float32", "float32")
            cases.append((call, [_values(kinds[0], *first), _values(kinds[1], *second)]))
    cases.append(
        (lambda m, x, y: m.convolve(x, y), [_values("float32", 3, 4, 3), np.ones((2,) * 3, "f4")])
    )
    _check(cases)


def test_transforms_convolve_along_axes() -> None:
    x, y = _values("float32", 3, 4, 6), _values("float32", 3, 2, 6)
    small, flat = _values("complex64", 3, 4, 2), _values("float32", 1, 6)
    _check(
        [
            (lambda m, x, y: m.fftconvolve(x, y, axes=1), [x, y]),
            (lambda m, x, y: m.fftconvolve(x, y, "valid", axes=[1]), [x, y]),
            (lambda m, x, y: m.fftconvolve(x, y, "same", axes=(-1, 0)), [x, small[:, :, :]]),
            (lambda m, x, y: m.convolve(x, y, method="fft"), [x, small]),
            (lambda m, x, y: m.correlate(x, y, mode="same", method="fft"), [x, small]),
            (lambda m, x, y: m.fftconvolve(x, y), [flat, flat.T.copy()]),
            (lambda m, x, y: m.fftconvolve(x, y), [_values("float32", 1009), flat[0]]),
        ]
    )


def test_integers_and_types() -> None:
    x, y = _values("int32", 6), _values("int32", 3)
    for name in ("convolve", "correlate", "fftconvolve"):
        found = getattr(signal, name)(x, y)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, getattr(scipy.signal, name)(x, y), atol=2e-5)
    with override("enable_x64", True):
        assert signal.convolve(x.astype("f8"), y.astype("f4")).dtype == np.float64


@pytest.mark.parametrize("n", [1, 2, 7, 11, 13, 97, 1009, 1025, 30031])
def test_fast_lengths(n: int) -> None:
    found = signal.convolution._fast_length(n)
    smooth = (2**a * 3**b * 5**c for a in range(17) for b in range(11) for c in range(8))
    assert found == min(m for m in smooth if m >= n)


# ---- trends


def test_trends() -> None:
    x, z = _values("float32", 3, 12), _values("complex64", 4, 7, 2)
    _check(
        [
            (lambda m, x: m.detrend(x), [x]),
            (lambda m, x: m.detrend(x, type="constant"), [x]),
            (lambda m, x: m.detrend(x, axis=0), [x]),
            (lambda m, x: m.detrend(x, bp=[0, 4, 9]), [x]),
            (lambda m, x: m.detrend(x, bp=5), [x]),
            (lambda m, x: m.detrend(x, axis=1, bp=np.array([1, 3])), [z]),
            (lambda m, x: m.detrend(x, axis=1, type="constant"), [z]),
        ]
    )
    line = np.arange(100, dtype=np.float32) * 3 + 1000
    np.testing.assert_allclose(signal.detrend(line), 0, atol=1e-3)
    assert signal.detrend([1, 2, 4]).dtype == np.float32


# ---- spectra

CUTS: tuple[dict[str, Any], ...] = (
    {"nperseg": 16},
    {"nperseg": 15, "noverlap": 4},
    {"nperseg": 8, "noverlap": 0, "nfft": 12},
    {"nperseg": 16, "noverlap": 15, "fs": 10.0},
    {"nperseg": 12, "window": "boxcar", "detrend": "linear"},
    {"nperseg": 9, "window": ("kaiser", 4.0), "detrend": "constant"},
    {"nperseg": 10, "return_onesided": False},
    {"window": np.linspace(1, 2, 10).astype(np.float32), "nperseg": 10},
    {"nperseg": 1, "noverlap": 0, "detrend": False},
)


def test_short_time_transforms() -> None:
    x = _values("float32", 3, 50)
    cases: Any = [(lambda m, x, how=how: m.stft(x, **how), [x]) for how in CUTS]
    for boundary, padded in itertools.product(("even", "odd", "constant", "zeros", None), (0, 1)):

        def call(module: Any, x: Any, boundary=boundary, padded=padded) -> Any:
            return module.stft(x, nperseg=14, boundary=boundary, padded=bool(padded))

        cases.append((call, [x]))
    cases.append((lambda m, x: m.stft(x, nperseg=6, axis=0), [x.T.copy()]))
    cases.append((lambda m, x: m.stft(x, nperseg=6, axis=1), [_values("float32", 2, 20, 3)]))
    z = _values("complex64", 40)
    cases.append((lambda m, x: m.stft(x, nperseg=8, return_onesided=False), [z]))
    _check(cases)


def test_densities() -> None:
    x, y = _values("float32", 3, 50), _values("float32", 3, 50)
    cases: Any = []
    for how, scaling in zip(CUTS, itertools.cycle(("density", "spectrum")), strict=False):
        if how.get("nperseg") == 1:
            continue
        average = "median" if len(how) > 1 else "mean"
        more = {**how, "scaling": scaling, "average": average}
        cases.append((lambda m, x, more=more: m.welch(x, **more), [x]))
        cases.append((lambda m, x, y, more=more: m.csd(x, y, **more), [x, y]))
    cases.append((lambda m, x, y: m.csd(x, y, nperseg=10, axis=0), [x.T.copy(), y.T[:44].copy()]))
    cases.append((lambda m, x, y: m.csd(x, y, nperseg=10), [x[:, :44].copy(), y]))
    cases.append((lambda m, x, y: m.csd(x, y, nperseg=10), [x, y[:1].copy()]))
    cases.append((lambda m, x: m.welch(x, nperseg=50), [x]))
    z = _values("complex64", 40)
    cases.append((lambda m, x: m.welch(x, nperseg=8, return_onesided=False), [z]))
    _check(cases)


def test_the_whole_signal_is_a_segment_by_default() -> None:
    x = _values("float32", 300)
    _close(signal.welch(x)[1], scipy.signal.welch(x, nperseg=300)[1])
    _close(signal.csd(x, None)[1], signal.welch(x)[1])


def test_functions_that_take_trends() -> None:
    x = _values("float32", 3, 40)

    def halved(segments: Any) -> Any:
        return segments / 2

    _close(
        signal.stft(x, nperseg=8, detrend=halved)[2],
        scipy.signal.stft(x, nperseg=8, detrend=halved)[2],
    )

    def less_first(segments: Any) -> Any:
        return segments - segments[:1]

    found = signal.stft(x.T, nperseg=8, detrend=less_first, axis=0, boundary=None)[2]
    wanted = scipy.signal.stft(x.T, nperseg=8, detrend=less_first, axis=0, boundary=None)[2]
    _close(found, wanted)


def test_inversion() -> None:
    x = _values("float32", 3, 48)
    cases: Any = []
    for how in (
        {"nperseg": 16},
        {"nperseg": 15},
        {"nperseg": 12, "noverlap": 9, "fs": 4.0},
        {"nperseg": 8, "noverlap": 5, "nfft": 20},
        {"nperseg": 8, "noverlap": 0, "window": "boxcar"},
        {"nperseg": 8, "window": np.linspace(1, 2, 8).astype(np.float32)},
    ):
        z = scipy.signal.stft(x, **how)[2].astype(np.complex64)
        cases.append((lambda m, z, how=how: m.istft(z, **how), [z]))
    z = scipy.signal.stft(x, nperseg=8)[2].astype(np.complex64)
    turned = np.moveaxis(z, (0, 1, 2), (2, 1, 0)).copy()
    cases.append((lambda m, z: m.istft(z, time_axis=0, freq_axis=1), [turned]))
    cases.append(
        (lambda m, z: m.istft(z, time_axis=-2, freq_axis=-3), [np.moveaxis(z, 0, 2).copy()])
    )
    cases.append((lambda m, z: m.istft(z, boundary=False), [z[..., 3:-3].copy()]))
    two = scipy.signal.stft(x, nperseg=8, return_onesided=False)[2].astype(np.complex64)
    cases.append((lambda m, z: m.istft(z, input_onesided=False), [two]))
    with warnings.catch_warnings():
        # SciPy warns of the end points that no window reaches.
        warnings.simplefilter("ignore")
        _check(cases)


def test_round_trip() -> None:
    x = _values("float32", 2, 100)
    for how in ({"nperseg": 20}, {"nperseg": 21}, {"nperseg": 16, "noverlap": 12}):
        _, _, z = signal.stft(x, **how)
        _, back = signal.istft(z, **how)
        np.testing.assert_allclose(back[:, :100], x, atol=1e-6)
    np.testing.assert_allclose(
        signal.istft(signal.stft(x, nperseg=1, noverlap=0)[2], nperseg=1)[1], x, atol=1e-6
    )


def test_empty_signals() -> None:
    x = np.zeros((2, 0), np.float32)
    with pytest.warns(UserWarning, match="nperseg=4 is greater"):
        f, t, z = signal.stft(x, nperseg=4)
    assert (f.shape, t.shape, z.shape, z.dtype) == ((2, 0), (2, 0), (2, 0), np.complex64)
    f, p = signal.welch(np.zeros((0, 4), np.float32))
    assert (f.shape, p.shape, p.dtype) == ((0, 4), (0, 4), np.float32)


# ---- transformations


def test_derivatives() -> None:
    with override("enable_x64", True):
        x, y, k = (_values("float64", n) for n in (12, 12, 3))
        for mode in MODES:
            check_grads(lambda x, k, m=mode: signal.convolve(x, k, m), (x, k), order=2)
            check_grads(lambda x, k, m=mode: signal.correlate(k, x, m), (x, k), order=1)
            check_grads(lambda x, k, m=mode: signal.fftconvolve(x, k, m), (x, k), order=2)
        check_grads(lambda x: signal.detrend(x, bp=4), (x,), order=1)
        check_grads(lambda x: signal.stft(x, nperseg=6)[2], (x,), order=1)
        check_grads(lambda x: signal.welch(x, nperseg=4)[1], (x,), order=2)
        check_grads(lambda x, y: signal.csd(x, y, nperseg=4)[1], (x, y), order=1)
        z = _values("complex128", 4, 5)
        check_grads(lambda z: signal.istft(z)[1], (z,), order=1)
        check_grads(lambda w: signal.stft(x, window=w, nperseg=6)[2], (x[:6],), order=1)


def test_batches() -> None:
    x, k = _values("float32", 4, 20), _values("float32", 4, 3)
    found = xpr.jit(xpr.vmap(signal.convolve))(x, k)
    _close(found, np.stack([np.convolve(a, b) for a, b in zip(x, k, strict=True)]))
    found = xpr.vmap(lambda a: signal.stft(a, nperseg=8)[2])(x)
    _close(found, scipy.signal.stft(x, nperseg=8)[2])
    found = xpr.vmap(lambda a: signal.istft(signal.stft(a, nperseg=8)[2])[1])(x)
    np.testing.assert_allclose(found, x, atol=1e-6)


# ---- errors

X = np.ones(8, np.float32)
M = np.ones((3, 4), np.float32)


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda: signal.convolve(X, X, "x"), ValueError, "mode must be one of"),
        (lambda: signal.convolve(X, M), ValueError, "same number of dimensions"),
        (lambda: signal.convolve(X, X, method="x"), ValueError, "expected 'auto', 'fft', or"),
        (lambda: signal.convolve(X, X[:0]), ValueError, "zero-size arrays not supported"),
        (lambda: signal.convolve(M, M.T), ValueError, "must be smaller than the other in every"),
        (lambda: signal.convolve([1.0], X), TypeError, "signal.convolve requires ndarray"),
        (lambda: signal.convolve2d(X, X), ValueError, "only supports 2-dimensional inputs"),
        (lambda: signal.convolve2d(M, M, boundary="wrap"), NotImplementedError, "boundary='fill'"),
        (lambda: signal.correlate2d(M, M, fillvalue=1), NotImplementedError, "fillvalue=0"),
        (lambda: signal.fftconvolve(M, M.T, "valid"), ValueError, "For 'valid' mode"),
        (lambda: signal.fftconvolve(M, M.T, axes=0), ValueError, "mapped axes must have same"),
        (lambda: signal.detrend(X, type="x"), ValueError, "'linear' or 'constant', got 'x'"),
        (lambda: signal.detrend(X, bp=9), ValueError, "Breakpoints must be non-negative"),
        (lambda: signal.detrend(X, overwrite_data=True), NotImplementedError, "overwrite_data"),
        (lambda: signal.stft(X, nperseg=0), ValueError, "nperseg must be a positive integer"),
        (lambda: signal.stft(X, nperseg=4, noverlap=4), ValueError, "noverlap must be less"),
        (lambda: signal.stft(X, nperseg=4, nfft=2), ValueError, "nfft must be greater"),
        (lambda: signal.stft(X, nperseg=4, boundary="x"), ValueError, "Unknown boundary option"),
        (lambda: signal.stft(X, window=M), ValueError, "window must be 1-D"),
        (lambda: signal.stft(X, window=X[:3]), ValueError, "is different from length of window"),
        (lambda: signal.stft(X[:4], window=X), ValueError, "window is longer than input"),
        (lambda: signal.stft(X, nperseg=4, detrend="x"), ValueError, "Trend type must be"),
        (lambda: signal.stft(X[:4], nperseg=4, detrend=3), ValueError, "Unsupported detrend type"),
        (lambda: signal.stft(X[:2], nperseg=2, boundary="odd", axis=1), ValueError, "axis 1 is"),
        (lambda: signal.csd(X, M), ValueError, r"must have the same rank \(1 vs 2\)"),
        (lambda: signal.csd(M, M[:2]), ValueError, "cannot be broadcast together"),
        (lambda: signal.welch(X, scaling="x"), ValueError, "Unknown scaling: 'x'"),
        (lambda: signal.welch(X, average="x"), ValueError, 'must be "median" or "mean", got x'),
        (lambda: signal.istft(X), ValueError, "must be at least 2d"),
        (lambda: signal.istft(M, time_axis=0, freq_axis=-2), ValueError, "differing time and"),
        (lambda: signal.istft(M, nfft=2), ValueError, r"FFT length \(2\) must be longer"),
        (lambda: signal.istft(M, window=X[:3]), ValueError, "window must have length of 4"),
        (
            lambda: xpr.jit(lambda x, n: signal.stft(x, nperseg=n))(X, 4),
            ConcretizationTypeError,
            "nperseg must be known",
        ),
    ],
)
def test_errors(call: Any, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        call()


def test_warnings() -> None:
    with pytest.warns(UserWarning, match="nperseg=9 is greater than input_length=8"):
        assert signal.welch(X, nperseg=9)[0].shape == (5,)
    with pytest.warns(UserWarning, match="switching to return_onesided=False"):
        assert signal.stft(X.astype(np.complex64), nperseg=4)[0].shape == (4,)
