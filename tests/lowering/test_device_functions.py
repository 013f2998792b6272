"""The functions that IREE adds to each library: LLVM optimizes them only where they are called."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lowering.iree_util import result
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="code is linked in this way on Linux, for x86-64",
)

# Processors of this kind convert half floats by functions.
OLD = "x86-64"

HALVES = """
func.func public @main(%x: tensor<8xf16>) -> tensor<8xf32> {
  %0 = stablehlo.convert %x : (tensor<8xf16>) -> tensor<8xf32>
  %1 = stablehlo.add %0, %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
"""

SINGLES = """
func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<8xf32>
  %1 = stablehlo.add %0, %x : tensor<8xf32>
  return %1 : tensor<8xf32>
}
"""

# Compiles programs in a process that is alone or not, and tells what LLVM and the linker did.
PROGRAM = """
import json, sys
from xpr.lowering.iree import compiler_library, device_functions, driver, link_elf

request = json.load(sys.stdin)
compiler_library.load(alone_for=request["flags"] if request["alone"] else None)
refused = []
told = link_elf._refuse_calls
def refuse_calls(*given):
    try:
        told(*given)
    except link_elf.UnwantedCallError as error:
        refused.append(str(error))
        raise
link_elf._refuse_calls = refuse_calls
modules = []
for text in request["texts"]:
    module, said = driver.compile_module(text, request["flags"], name="program", verify=True)
    assert module is not None, said
    modules.append(module.hex())
print(json.dumps({"modules": modules, "refused": refused, "spared": device_functions.are_spared()}))
"""


def compiled(texts: list[str], *, alone: bool) -> dict[str, Any]:
    """What a process says that compiles programs for an old processor."""
    flags = [
        f"{name}={OLD}" if name == "--iree-llvmcpu-target-cpu" else flag
        for flag in get_target("cpu").flag_sets(ProgramHints())[0]
        for name in (flag.partition("=")[0],)
    ]
    request = {"alone": alone, "texts": texts, "flags": flags}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_modules_are_the_same_and_functions_that_are_called_are_optimized() -> None:
    # In this order, so that the second one is not compiled as the first one is in the end.
    texts = [HALVES, SINGLES, HALVES]
    alone, beside = compiled(texts, alone=True), compiled(texts, alone=False)
    assert alone["spared"]
    assert not beside["spared"]
    assert beside["refused"] == []
    assert alone["refused"] == ["the object calls __extendhfsf2"] * 2
    assert alone["modules"] == beside["modules"]

    x = np.linspace(-3, 3, 8, dtype=np.float32)
    halves = x.astype(np.float16)
    for module, argument, expected in (
        (alone["modules"][0], halves, 2 * halves.astype(np.float32)),
        (alone["modules"][1], x, x * x + x),
    ):
        found = result(bytes.fromhex(module), argument)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
