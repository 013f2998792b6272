"""Memory that a device does not have: how much was asked for, and what holds the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as xnp
from tests.lowering.vulkan_util import vulkan_device
from xpr.dispatch.out_of_memory import largest_values
from xpr.errors import JaxRuntimeError, OutOfMemoryError
from xpr.runtimes import exhausted, hal_device
from xpr.runtimes.base import Executable

_PB = 4 * 10**15


def test_an_array_that_no_machine_has_the_memory_for() -> None:
    held = xnp.ones((1000, 999))
    for make in (
        lambda: xnp.ones((10**6, 10**9)),
        lambda: xnp.ones((10**6, 1)) * xnp.ones((1, 10**9)),
        lambda: xnp.broadcast_to(xnp.ones((10**6, 1)), (10**6, 10**9)) + 1,
    ):
        with pytest.raises(OutOfMemoryError, match=r"^RESOURCE_EXHAUSTED: Out of") as caught:
            make()
        assert isinstance(caught.value, JaxRuntimeError)
        assert isinstance(caught.value, MemoryError)
        text = str(caught.value)
        assert f"Out of memory allocating {_PB} bytes." in text
        assert "f32[1000,999] (4 MB)" in text
        assert "cpu:0" in text
    assert held.sum() == 999_000


_PROGRAM = """
import resource, sys
import numpy as np
import xpr, xpr.numpy as xnp

@xpr.jit
def pairs(x, y):
    return xnp.sort(x[:, None] * y[None, :], axis=0)[::1000, ::1000]

x = xnp.ones(200)
pairs(x, x).block_until_ready()
big = xnp.ones(60_000)
pairs.lower(big, big).compile()
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
for _ in range(2):
    try:
        pairs(big, big).block_until_ready()
    except xpr.errors.OutOfMemoryError as error:
        print(error)
    else:
        print("there was enough")
print(pairs(x, x).shape)
"""


@pytest.mark.parametrize("native", ["1", "0"])
def test_a_program_that_asks_for_too_much(native: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "XPR_NATIVE": native},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("RESOURCE_EXHAUSTED: Out of memory") == 2, done.stdout
    assert "The program pairs asked for memory on cpu:0." in done.stdout
    assert "Its largest arrays: f32[60000,60000] (14.4 GB, " in done.stdout
    assert "f32[60000] (240 kB)" in done.stdout
    assert done.stdout.endswith("(1, 1)\n")
    if native == "1":
        assert "Out of memory allocating 14400000000 bytes." in done.stdout


def test_the_largest_arrays_of_a_program() -> None:
    closed = xpr.make_jaxpr(lambda x: xnp.outer(x, x).sum() + x.sum())(np.ones(300, np.float32))
    first, *rest = largest_values(closed.jaxpr)
    assert first.startswith("f32[300,300] (360 kB, ")
    assert __file__ in first
    assert len(rest) == 2


def test_words_that_mean_a_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[exhausted.Shortage] = []

    def noted(shortage: exhausted.Shortage) -> BaseException:
        found.append(shortage)
        return OutOfMemoryError("noted")

    monkeypatch.setattr(exhausted, "_error_of", noted)
    for error, asked in (
        (MemoryError("RESOURCE_EXHAUSTED: Out of memory allocating 12 bytes"), 12),
        (MemoryError("std::bad_alloc"), 7),
        (RuntimeError("cuda_allocator.c:1: RESOURCE_EXHAUSTED; 'CUDA_ERROR_OUT_OF_MEMORY' (2)"), 7),
        (RuntimeError("VK_ERROR_OUT_OF_DEVICE_MEMORY"), 7),
    ):
        with pytest.raises(OutOfMemoryError, match="noted"):
            exhausted.reraise(error, nbytes=7)
        assert found.pop().nbytes == asked
    for error in (MemoryError("the user's own"), RuntimeError("INVALID_ARGUMENT"), ValueError("x")):
        exhausted.reraise(error)
    assert not found


def test_what_a_gpu_s_driver_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays say how large they are; of programs only the driver knows."""
    said = (
        "c/cuda_allocator.c:398: RESOURCE_EXHAUSTED; CUDA driver error 'CUDA_ERROR_OUT_OF_MEMORY'"
    )

    def refuse(*_: Any) -> Any:
        raise RuntimeError(said)

    device: Any = vulkan_device()
    program: Any = Executable.__new__(hal_device.HalExecutable)
    program.name, program.device = "step", device
    program.signature = SimpleNamespace(inputs=(), outputs=())
    program._raised, program._function = None, None
    program._context = SimpleNamespace(invoke=refuse)
    program._pack_context = None
    monkeypatch.setattr(hal_device.hal.start(), "pack", lambda *_: None)
    with pytest.raises(OutOfMemoryError, match="The program step asked for memory on vulkan:0"):
        program([])
    allocator = SimpleNamespace(allocate_buffer_copy=refuse)
    monkeypatch.setattr(device, "hal_device", lambda: (SimpleNamespace(allocator=allocator), None))
    with pytest.raises(OutOfMemoryError, match=r"allocating 400 bytes\.\nIt was asked"):
        device.from_host(np.ones(100, np.float32))
