"""SciPy's compiled modules, loaded without its packages."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from xpr.primitives import _linalg_host, fft
from xpr.runtimes import scipy_parts

_CODE = """
import sys
import numpy as np, xpr, xpr.numpy as jnp
x = np.arange(6, dtype=np.float32)
a = np.array([[4, 1], [1, 3]], np.float32)
print(np.allclose(jnp.fft.fft(x), np.fft.fft(x), atol=1e-5))
print(np.allclose(jnp.linalg.solve(a, a[0]), [1, 0], atol=1e-6))
print(np.allclose(jnp.linalg.eigh(a)[0], np.linalg.eigvalsh(a), atol=1e-5))
print([m for m in ("scipy.fft", "scipy.linalg", "scipy.special") if m in sys.modules])
# SciPy works as ever, with the same modules.
names = ("scipy.fft._pocketfft.pypocketfft", "scipy.linalg._flapack")
kept = [sys.modules[name] for name in names]
import scipy.fft, scipy.linalg, scipy.special
from scipy.fft._pocketfft import pypocketfft
print(kept == [pypocketfft, scipy.linalg.lapack._flapack])
print(np.allclose(scipy.fft.ifft(scipy.fft.fft(x)), x, atol=1e-5))
print(np.allclose(scipy.linalg.solve(a, a[0]), [1, 0], atol=1e-6), scipy.special.gamma(5.0))
print(scipy.fft._pocketfft.pypocketfft is pypocketfft, scipy.linalg._flapack is kept[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there the packages say where libraries lie")
def test_transforms_and_factors_need_no_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CODE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [
        *["True"] * 3,
        "[]",
        "True",
        "True",
        "True 24.0",
        "True True",
    ]


_THREADS = """
import sys, threading
sys.setswitchinterval(1e-6)
from xpr.runtimes.scipy_parts import compiled_module
import importlib
names = ["linalg.cython_lapack", "linalg.cython_blas", "linalg._flapack"]
start, found = threading.Barrier(9), []

def load(i):
    start.wait()
    for name in names:
        if i < 4:
            found.append((name, compiled_module(name)))
        else:
            found.append((name, importlib.import_module("scipy." + name)))

threads = [threading.Thread(target=load, args=(i,)) for i in range(8)]
for t in threads: t.start()
start.wait()
for t in threads: t.join()
print(len(found), all(m is sys.modules["scipy." + n] for n, m in found))
print(all(m.__pyx_capi__ for n, m in found if "cython" in n))
import scipy.linalg.cython_lapack
print(scipy.linalg.cython_lapack is compiled_module(names[0]), scipy.linalg._flapack is not None)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there the packages say where libraries lie")
def test_threads_that_load_the_same_module() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _THREADS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == ["24 True", "True", "True True"]


def test_what_is_no_file_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fft, "compiled_module", lambda name: None)
    monkeypatch.setattr(_linalg_host, "compiled_module", lambda name: None)
    monkeypatch.setattr(scipy_parts, "compiled_module", lambda name: None)
    x = np.random.default_rng(0).standard_normal((3, 4, 6)).astype(np.float32)
    for inner, lengths in ((fft.FftType.RFFT, (6,)), (fft.FftType.RFFT, (4, 6))):
        found = fft.fft_on_host(x, fft_type=inner, fft_lengths=lengths)
        wanted = np.fft.rfftn(x, lengths, range(3 - len(lengths), 3))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        back = fft.fft_on_host(found, fft_type=fft.FftType.IRFFT, fft_lengths=lengths)
        np.testing.assert_allclose(back, x, rtol=1e-5, atol=1e-5)
    whole = x.astype(np.complex64)
    fft.fft_in_place(whole, fft_type=fft.FftType.IFFT, fft_lengths=(6,))
    np.testing.assert_allclose(whole, np.fft.ifft(x), rtol=1e-5, atol=1e-5)
    getrf = _linalg_host.lapack.__wrapped__("getrf", np.dtype(np.float64))
    assert getrf(np.eye(3))[2] == 0
    trsm = _linalg_host._trsm.__wrapped__(np.dtype(np.float32))
    np.testing.assert_array_equal(trsm(1.0, np.eye(2, dtype="f4"), x[0, :2]), x[0, :2])
    blas = scipy_parts.compiled_or_imported("linalg.cython_blas")
    assert "dgemm" in blas.__pyx_capi__


def test_python_modules_are_left_to_the_import() -> None:
    assert scipy_parts._spec("scipy.linalg._basic") is None
    assert scipy_parts._spec("scipy.linalg.nothing") is None
    assert scipy_parts._spec("no_such_package.thing") is None
