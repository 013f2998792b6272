"""Counters of loops and offsets that are carried side by side: neither overwrites the other."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.lowering.vulkan_util import vulkan_device
from xpr.dispatch.compiling import target_of
from xpr.lowering.iree import compiler_library, driver
from xpr.lowering.iree.post_passes import WIDEN_BLOCK_ARGUMENTS, changes_for
from xpr.lowering.targets.flags import ProgramHints
from xpr.runtimes import registry
from xpr.runtimes.base import ArrayType, Device, ExecutableSignature

NESTED = (Path(__file__).parent / "nested_loops.mlir").read_text(encoding="utf-8")
"""The smallest program found in which a counter is overwritten."""

TYPES = {
    "i32": np.int32,
    "f32": np.float32,
    "ui8": np.uint8,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}


def kinds(text: str) -> tuple[ArrayType, ...]:
    """The types in a list of tensor types."""
    found = []
    for inner in re.findall(r"tensor<([^>]*)>", text):
        *extents, element = inner.split("x")
        found.append((tuple(map(int, extents)), np.dtype(TYPES[element])))
    return tuple(found)


def rows(device: Device, start: int, *, widened: bool = True) -> list[float]:
    """What the inner loop leaves in each round of the outer one."""
    target = target_of(device)
    flags = target.flag_sets(ProgramHints(has_control_flow=True))[0]
    text = NESTED
    if target.module_attributes:
        text = text.replace("@nested {", f"@nested attributes {{{target.module_attributes}}} {{")
    changes = changes_for(has_branches=True, frees=False)
    if not widened:
        changes = tuple(c for c in changes if c is not WIDEN_BLOCK_ARGUMENTS)
    module, said = driver.compile_module(text, flags, name="nested", verify=True, changes=changes)
    assert module is not None, said
    head = re.search(r"@main\((.*?)\) -> \((.*?)\) \{", text)
    assert head is not None
    inputs, outputs = kinds(head[1]), kinds(head[2])
    signature = ExecutableSignature("nested.main", inputs, outputs)
    executable = device.runtime.load(module, signature, device)
    operands = [
        device.runtime.buffer_from_host(
            np.full(shape, start if dtype == np.int32 else 1, dtype), device, copy=True
        )
        for shape, dtype in inputs
    ]
    return executable(operands)[1].host_view().reshape(3, 12)[:, 0].tolist()


def test_an_offset_overwrites_a_counter() -> None:
    """When this fails, IREE moves registers in the right order, and the guard can go."""
    device = vulkan_device()
    assert rows(device, 0, widened=False) == [1, 4, 4]


@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
@pytest.mark.parametrize("start", [0, 2, -2])
def test_loops_inside_of_loops_run_all_their_rounds(platform: str, start: int) -> None:
    device = vulkan_device() if platform == "vulkan" else registry.devices(platform)[0]
    assert rows(device, start) == [1, 1, 1]


def test_loops_without_rounds_leave_what_they_start_with() -> None:
    for device in (vulkan_device(), registry.devices("cpu")[0]):
        assert rows(device, 3)[1:] == [4, 4]


def test_functions_that_are_not_declared() -> None:
    library = compiler_library.load()
    with pytest.raises(AttributeError, match="mlirFrobnicate is not declared"):
        library.mlir.Frobnicate()
    with pytest.raises(AttributeError, match="ireeCompilerFrobnicate is not declared"):
        library.Frobnicate()
