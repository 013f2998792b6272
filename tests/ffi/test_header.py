"""Handlers in C++ that are written with XLA's own header, where that is to be had.

`XPR_XLA_HEADERS` names its folder, which is what `jax.ffi.include_dir()` gives, if `jaxlib` is not
installed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.ffi import ffi_call, include_dir, pycapsule, register_ffi_target, register_ffi_type

S = xpr.ShapeDtypeStruct
F32 = jnp.float32


def _headers() -> str | None:
    given = os.environ.get("XPR_XLA_HEADERS")
    if given:
        return given
    try:
        return include_dir()
    except RuntimeError:
        return None


@pytest.fixture(scope="module")
def header_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    headers = _headers()
    if compiler is None or headers is None:
        pytest.skip("needs a compiler for C++ and XLA's header: see XPR_XLA_HEADERS")
    path = tmp_path_factory.mktemp("ffi") / "with_header.so"
    source = Path(__file__).parent / "with_header.cc"
    command = [
        compiler,
        "-std=c++17",
        "-shared",
        "-fPIC",
        f"-I{headers}",
        "-o",
        str(path),
        str(source),
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    lib = ctypes.CDLL(str(path))
    for name in ("normalize", "combine", "later"):
        register_ffi_target(name, pycapsule(getattr(lib, name)))
    for name in ("header_counter_type", "header_counter_info"):
        getattr(lib, name).restype = ctypes.c_void_p
    registration = {
        "type_id": pycapsule(lib.header_counter_type()),
        "type_info": pycapsule(lib.header_counter_info()),
    }
    register_ffi_type("header_counter", registration)
    stages = {s: pycapsule(getattr(lib, f"header_counter_{s}")) for s in ("instantiate", "execute")}
    register_ffi_target("header_counter", stages)
    return lib


pytestmark = pytest.mark.usefixtures("header_library")


@pytest.mark.parametrize("jit", [False, True])
def test_arithmetic(jit: bool) -> None:
    x = np.random.default_rng(6).standard_normal((4, 7)).astype(np.float32)

    def f(x: Any) -> Any:
        return ffi_call("normalize", S(x.shape, F32))(x, eps=np.float32(1e-5))

    wanted = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose((xpr.jit(f) if jit else f)(jnp.asarray(x)), wanted, rtol=1e-5)


def test_variadic_arguments_and_dictionaries() -> None:
    x = jnp.arange(3)

    def f(*xs: Any, **more: Any) -> Any:
        weights = np.array([1, 10, 100][: len(xs)], np.int32)
        options = {"name": "sum", "offset": 1000} | more
        return ffi_call("combine", (S((3,), jnp.int32),))(*xs, weights=weights, options=options)[0]

    np.testing.assert_array_equal(f(), [1000] * 3)
    np.testing.assert_array_equal(xpr.jit(f)(x, x, x), 1000 + 111 * np.arange(3))
    with pytest.raises(xpr.errors.JaxRuntimeError, match="OUT_OF_RANGE: sum"):
        ffi_call("combine", (S((3,), jnp.int32),))(
            x, weights=np.zeros(2, np.int32), options={"name": "sum", "offset": 0}
        )


@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        ((), {"eps": np.float32(0)}, "Wrong number of arguments: expected 1 but got 0"),
        ((1.0,), {}, "Wrong number of attributes: expected 1 but got 0"),
        ((1.0,), {"other": np.float32(0)}, "Attribute name mismatch: other vs eps"),
        ((1.0,), {"eps": 0.5}, "Wrong scalar data type: expected F32 but got F64"),
        ((1.0,), {"eps": 1}, "Wrong scalar data type: expected F32 but got S64"),
        ((1,), {"eps": np.float32(0)}, "Wrong buffer dtype: expected F32 but got S32"),
        ((1.0,), {"eps": np.float32(0)}, "INVALID_ARGUMENT: x must be an array"),
    ],
)
def test_calls_that_do_not_fit(operands: Any, attributes: Any, message: str) -> None:
    with pytest.raises(xpr.errors.JaxRuntimeError, match=message):
        ffi_call("normalize", S((), F32))(*operands, **attributes)


def test_states() -> None:
    f = xpr.jit(lambda: ffi_call("header_counter", S((), jnp.int32))(start=4))
    assert [int(f()) for _ in range(3)] == [5, 6, 7]


def test_futures_and_the_thread_pool() -> None:
    x = np.arange(1000, dtype=np.float32)
    f = xpr.jit(lambda x: ffi_call("later", S(x.shape, F32))(x))
    for _ in range(20):
        np.testing.assert_array_equal(f(x), x + 1)
