"""SciPy's compiled modules, loaded without its packages."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there the packages say where libraries lie")
def test_transforms_and_factors_need_no_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CODE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [*["True"] * 3, "[]", "True", "True", "True 24.0"]


def test_what_is_no_file_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    scipy_parts.compiled_module.cache_clear()
    monkeypatch.setattr(scipy_parts, "_spec", lambda name: None)
    found = scipy_parts.compiled_module("linalg.cython_blas")
    assert "dgemm" in found.__dict__["__pyx_capi__"]
    with pytest.raises(ImportError, match="nothing"):
        scipy_parts.compiled_module("nothing")


def test_python_modules_are_left_to_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scipy_parts._spec("scipy.linalg._basic") is None
    assert scipy_parts._spec("scipy.linalg.nothing") is None
    assert scipy_parts._spec("no_such_package.thing") is None
