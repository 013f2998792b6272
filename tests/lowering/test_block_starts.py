"""What a program and one of its branches both return: no branch overwrites it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from tests.conftest import first_device
from tests.lowering.iree_util import MENDED, Call, run
from xpr import lax
from xpr.lowering.iree import driver
from xpr.lowering.iree.post_passes import BLOCK_STARTS, changes_for
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints

ARGUMENTS = np.array([1, 0, 2], np.int32), np.arange(3, dtype=np.int32), np.ones(4, np.float32)


def program(x: Any, m: Any, y: Any) -> tuple[Any, ...]:
    """Doubles `m`, and returns that a second time if `x` is not zero."""
    doubled = m * 2
    found = lax.cond(x.any(), lambda: (x, doubled, y * 3), lambda: (x + 1, x + 2, y * 2))
    return doubled, *found


def test_a_value_that_a_branch_returns_too_is_lost() -> None:
    """When this fails, IREE keeps the registers of blocks apart, and the change can go."""
    flags = get_target("cpu").flag_sets(ProgramHints(has_control_flow=True))[0]
    changes = [c for c in changes_for(has_branches=True, frees=True) if c is not BLOCK_STARTS]
    text = xpr.jit(program).lower(*ARGUMENTS).as_text("iree")
    module, said = driver.compile_module(text, flags, name="test", verify=True, changes=changes)
    assert module is not None, said
    _, (found,) = run(module, [Call("main", list(ARGUMENTS))])
    assert "ref is null" in found.error, MENDED


@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
@pytest.mark.parametrize("is_taken", [True, False])
def test_values_that_branches_return_too(platform: str, is_taken: bool) -> None:
    x, m, y = ARGUMENTS
    x = x if is_taken else x * 0
    found = xpr.jit(program)(*xpr.device_put((x, m, y), first_device(platform)))
    expected = [m * 2, x, m * 2, y * 3] if is_taken else [m * 2, x + 1, x + 2, y * 2]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_a_loop_starts_with_is_returned_too() -> None:
    def looped(x: Any, n: Any) -> tuple[Any, Any, Any]:
        doubled = x * 2
        last = lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + s[1]), (0, doubled))
        return doubled, last[1], doubled

    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    for n in (0, 3):
        found = xpr.jit(looped)(x, n)
        for a, b in zip(found, (2 * x, 2 ** (n + 1) * x, 2 * x), strict=True):
            np.testing.assert_array_equal(a, b)
