"""Programs for GPUs with barriers: what a barrier gives is not freed with what went into it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import xpr
import xpr.numpy as xnp
from tests.lowering.vulkan_util import run_on, vulkan_device
from xpr import lax
from xpr.lowering.iree import driver
from xpr.lowering.iree.jobs import Job
from xpr.lowering.iree.post_passes import changes_for
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints
from xpr.runtimes.base import Device

FREE = b"hal.device.queue.dealloca"
V = "tensor<12xi32>"

# A step that gives one array twice, the second time behind a barrier.
TWICE = f"""
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:3 = stablehlo.while(%i = %zero, %v = %a0, %w = %a0) : tensor<i32>, {V}, {V}
      cond {{
        %n = stablehlo.constant dense<6> : tensor<i32>
        %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %x = stablehlo.add %v, %w : {V}
        MORE
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %x, %y : tensor<i32>, {V}, {V}
      }}
    %s = stablehlo.add %r#1, %r#2 : {V}
    %s
"""
ALIAS = TWICE.replace("MORE", f"%y = stablehlo.optimization_barrier %x : {V}")
# The same with a second array that lies in one allocation with the first.
PART = TWICE.replace(
    "MORE",
    f"""%b = stablehlo.reverse %v, dims = [0] : {V}
        %c = stablehlo.reduce(%b init: %one) applies stablehlo.add across dimensions = [0]
          : ({V}, tensor<i32>) -> tensor<i32>
        %d = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> {V}
        %y = stablehlo.optimization_barrier %d : {V}""",
)
REFUSALS = {
    "alias": "already been queued for deallocation",
    "part": "was not returned by Vulkan queue_alloca",
}
PROGRAMS = {"alias": ALIAS, "part": PART}
X = np.arange(12, dtype=np.int32)


@pytest.fixture(scope="module")
def device() -> Device:
    return vulkan_device()


def expected(name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    v, w = X, X
    for _ in range(6):
        v, w = v + w, v + w if name == "alias" else np.full_like(X, v.sum() + 1)
    return v + w


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_barrier_gives_is_freed_too(
    name: str, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When this fails, IREE knows what a barrier is, and `remove_deallocations.py` can go."""
    frees = changes_for(has_branches=False, frees=True)
    monkeypatch.setattr(Job, "changes", lambda job: frees)
    monkeypatch.setenv("XPR_CACHE", "0")
    with pytest.raises((RuntimeError, ValueError), match=REFUSALS[name]):
        run_on(device, PROGRAMS[name], [X], X)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_nobody_refers_to_is_freed_alone(name: str, device: Device) -> None:
    np.testing.assert_array_equal(run_on(device, PROGRAMS[name], [X], X), expected(name))


@pytest.mark.parametrize("target", ["cuda", "rocm", "vulkan"])
def test_which_modules_free_arrays(target: str) -> None:
    """Compiled only: three products in a row have arrays that are read no more."""
    flags = get_target(target).flag_sets(ProgramHints())[0]
    body = "\n".join(
        f"%{i + 1} = stablehlo.dot %{i}, %a : (tensor<9x9xf32>, tensor<9x9xf32>)"
        f" -> tensor<9x9xf32>\n%b{i} = stablehlo.optimization_barrier %{i + 1} : tensor<9x9xf32>"
        for i in range(3)
    )
    text = f"""
module @m attributes {{{get_target(target).module_attributes}}} {{
  func.func public @main(%a: tensor<9x9xf32>) -> tensor<9x9xf32> {{
    %0 = stablehlo.add %a, %a : tensor<9x9xf32>
    {body}
    return %3 : tensor<9x9xf32>
  }}
}}"""
    found = {}
    for frees in (True, False):
        changes = changes_for(has_branches=False, frees=frees)
        module, said = driver.compile_module(text, flags, name="t", verify=True, changes=changes)
        assert module is not None, said
        found[frees] = FREE in module
    assert found == {True: True, False: False}


def test_loops_give_memory_back(device: Device) -> None:
    """Eighty arrays of four megabytes, of which a few at a time are needed."""

    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    def step(_: int, pair: tuple[xpr.Array, xpr.Array]) -> tuple[xpr.Array, xpr.Array]:
        total = pair[0] * 0.5 + pair[1] * 0.25
        return total, total

    f = xpr.jit(lambda x: lax.fori_loop(0, 80, step, (x, x + 1))[0])
    assert "optimization_barrier" in f.lower(xnp.ones((1000, 1000))).as_text("iree")
    x = xpr.device_put(np.ones((1000, 1000), np.float32), device)
    xpr.block_until_ready(f(x))
    before = resident()
    peaks = [before]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            peaks.append(resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    found = np.asarray(f(x))
    done.set()
    watcher.join()
    v, w = np.float32(1), np.float32(2)
    for _ in range(80):
        v = w = np.float32(v * 0.5 + w * 0.25)
    np.testing.assert_allclose(found[0, 0], v, rtol=1e-5)
    assert max(peaks) - before < 80 << 20
