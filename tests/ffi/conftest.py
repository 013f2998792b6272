"""Handlers in C, compiled when the first test needs them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.ffi
import xpr.numpy as jnp

HERE = Path(__file__).parent
_COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

STATELESS = (
    "describe",
    "scale",
    "copy",
    "accumulate",
    "row_sums",
    "count",
    "fail",
    "fail_at_stage",
    "ask",
    "negate",
    "squares",
)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The handlers of `handlers.c`, all of those without states under their own names."""
    if _COMPILER is None:
        pytest.skip("needs a compiler for C")
    path = tmp_path_factory.mktemp("ffi") / "handlers.so"
    command = [_COMPILER, "-std=c11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    command += ["-o", str(path), str(HERE / "handlers.c"), "-lpthread"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    lib = ctypes.CDLL(str(path))
    for name in STATELESS:
        xpr.ffi.register_ffi_target(name, capsule(lib, name))
    for name in ("twice", "sum_and_difference", "with_options"):
        xpr.ffi.register_ffi_target(name, capsule(lib, name), api_version=0)
    for name in ("number_of_calls", "counters_made", "counters_dropped"):
        getattr(lib, name).restype = ctypes.c_int64
    for name in ("counter_type_address", "counter_info_address"):
        getattr(lib, name).restype = ctypes.c_void_p
    registration = {
        "type_id": xpr.ffi.pycapsule(lib.counter_type_address()),
        "type_info": xpr.ffi.pycapsule(lib.counter_info_address()),
    }
    xpr.ffi.register_ffi_type("counter", registration)
    stages = ("instantiate", "prepare", "initialize", "execute")
    xpr.ffi.register_ffi_target("stages", {s: capsule(lib, f"counter_{s}") for s in stages})
    counter = {
        "instantiate": capsule(lib, "counter_instantiate"),
        "execute": capsule(lib, "counter_execute_alone"),
    }
    xpr.ffi.register_ffi_target("counter", counter)
    failing = dict.fromkeys(stages, capsule(lib, "fail_at_stage"))
    xpr.ffi.register_ffi_target("fail_at_each_stage", failing)
    return lib


def capsule(lib: ctypes.CDLL, name: str) -> Any:
    return xpr.ffi.pycapsule(getattr(lib, name))


def text_of(array: Any) -> str:
    """What a handler has written."""
    return np.asarray(array).tobytes().split(b"\0")[0].decode()


@pytest.fixture
def described(library: ctypes.CDLL) -> Callable[..., str]:
    """What a handler sees of a call: `described(*operands, extra=(), **attributes)`."""

    def call(*operands: Any, extra: Any = (), size: int = 400, **attributes: Any) -> str:
        types = (xpr.ShapeDtypeStruct((size,), jnp.uint8), *extra)
        return text_of(xpr.ffi.ffi_call("describe", types)(*operands, **attributes)[0])

    return call
