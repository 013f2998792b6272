"""What IREE does wrong or in a way to know about: each test fails when a later IREE mends it.

Then the guard that the test names can go.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints
from xpr.runtimes import extension, hal
from xpr.runtimes.host import HostBuffer, aligned_copy

from .programs import compiled, cpu, f32, load, put

M = "tensor<64x64xf32>"

TOLD = f"""
func.func public @both(%a: {M} {{iree.abi.output = 0 : index}}, %b: {M}) -> ({M}, {M}) {{
  %0 = stablehlo.add %a, %b : {M}
  %1 = stablehlo.multiply %a, %b : {M}
  return %0, %1 : {M}, {M}
}}
func.func public @square(%a: {M} {{iree.abi.output = 0 : index}}) -> {M} {{
  %0 = stablehlo.dot %a, %a : ({M}, {M}) -> {M}
  return %0 : {M}
}}
func.func public @update(%a: tensor<4096xf32>, %b: tensor<16xf32>) -> tensor<4096xf32> {{
  %i = stablehlo.constant dense<100> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %a, %b, %i
    : (tensor<4096xf32>, tensor<16xf32>, tensor<i32>) -> tensor<4096xf32>
  return %0 : tensor<4096xf32>
}}
"""


@pytest.fixture(autouse=True)
def _by_iree(monkeypatch: pytest.MonkeyPatch) -> None:
    """All programs here are run by IREE, also where the native part would."""
    monkeypatch.setattr(extension.native(), "executor", None)


class Tracked(np.ndarray[Any, Any]):
    """An array that can be watched by a weak reference."""


def test_import_host_allocation_does_not_hold_the_array() -> None:
    """Guard: `Hal.imported` imports by DLPack."""
    shared = hal.start()
    rt = shared.rt
    array = aligned_copy(np.arange(5000, dtype=np.float32)).view(Tracked)
    alive = weakref.ref(array)
    buffer = shared.allocator.import_host_allocation(
        array,
        int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
        int(rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING),
    )
    view = shared.BufferView(buffer, (5000,), shared.element_type(np.dtype(np.float32)))
    del array, buffer
    gc.collect()
    assert view.byte_length == 20000
    assert alive() is None, "the view holds the array: import_host_allocation has become safe"


def test_imported_arrays_cannot_be_updated() -> None:
    """Guard: `HostBuffer.private_view` copies what was imported."""
    device = cpu()[1]
    update = load(TOLD, "update", [f32(4096), f32(16)], [f32(4096)])
    operand = put(aligned_copy(np.zeros(4096, np.float32)))
    with pytest.raises(RuntimeError, match=r"PERMISSION_DENIED.*operation requires DISCARD_WRITE"):
        update([operand, put(np.ones(16, np.float32))])
    own = HostBuffer(None, device, operand.copied_view(), operand.kind)
    (found,) = update([own, put(np.ones(16, np.float32))])
    assert found.host_view().sum() == 16


def test_an_argument_told_to_hold_a_result_is_still_read_afterwards() -> None:
    """Guard: the lowering tells so for a program of one elementwise result only."""
    rng = np.random.default_rng(0)
    a = rng.integers(1, 9, (64, 64)).astype(np.float32)
    b = rng.integers(1, 9, (64, 64)).astype(np.float32)
    kind = f32(64, 64)
    both = load(TOLD, "both", [kind, kind], [kind, kind], donations=[(0, 0)])
    total, product = both([put(a), put(b)])
    np.testing.assert_array_equal(total.host_view(), a + b)
    assert not (product.host_view() == a * b).all(), "two results have become safe"
    square = load(TOLD, "square", [kind], [kind], donations=[(0, 0)])
    (found,) = square([put(a)])
    assert not (found.host_view() == a @ a).all(), "products have become safe"


def test_a_dispatch_has_at_most_32_buffers() -> None:
    """The lowering must not let more operands be fused: `tests/lowering/test_fusion_limit.py`."""
    names = [f"%a{i}" for i in range(40)]
    lines = [f"%s0 = stablehlo.add {names[0]}, {names[1]} : tensor<4xf32>"]
    lines += [
        f"%s{i} = stablehlo.add %s{i - 1}, {names[i + 1]} : tensor<4xf32>" for i in range(1, 39)
    ]
    arguments = ", ".join(f"{n}: tensor<4xf32>" for n in names)
    text = (
        f"func.func public @sum({arguments}) -> tensor<4xf32> {{\n"
        + "\n".join(lines)
        + "\nreturn %s38 : tensor<4xf32>\n}"
    )
    assert compiled(text)
    with pytest.raises(Exception, match="binding count 41 > 32"):
        load(text, "sum", [f32(4)] * 40, [f32(4)])


def test_h13_one_instance_serves_all_devices() -> None:
    """Two instances, or a device freed too early, end the process; `test_process.py` ends many."""
    first = hal.start()
    again = hal.start()
    assert again is first
    assert again.instance is first.instance
    assert first.sync_device(0) is first.sync_device(0)


def test_h16_programs_are_called_synchronously() -> None:
    """The asynchronous form takes fences, which crash on the queue for small programs."""
    flags = get_target("cpu").flag_sets(ProgramHints())
    assert not any("execution-model" in flag for variant in flags for flag in variant)
