"""Random programs give what they give on the reference runtime.

Programs of loops and branches over mixed types are where IREE has been wrong without a word. The
long form (XPR_LONG_TESTS=1) runs some hundreds; `python -m tests.reliability.test_random_programs
vulkan 1000 200` runs any.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

import xpr
from tests.conftest import skip_unless_usable
from xpr.core.config import override
from xpr.runtimes import registry

from .random_programs import operands, results, steps
from .scripts import cases


def check(platform: str, number: int) -> None:
    """Runs the program of that number on both devices."""
    rng = np.random.default_rng(number)
    arrays, program = operands(rng), steps(rng)
    f = xpr.jit(lambda *xs: results(program, xs))
    with override("enable_x64", True):
        found, expected = (
            [np.asarray(x) for x in f(*xpr.device_put(arrays, registry.devices(name)[0]))]
            for name in (platform, "reference")
        )
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3, err_msg=f"{number}, result {i}")


@pytest.mark.parametrize("number", range(cases(8, 300)))
@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
def test_random_programs(platform: str, number: int) -> None:
    skip_unless_usable(platform)
    check(platform, number)


if __name__ == "__main__":
    _, name, first, count = sys.argv
    for k in range(int(first), int(first) + int(count)):
        try:
            check(name, k)
        except Exception as error:
            print(k, type(error).__name__, str(error)[:500], flush=True)
