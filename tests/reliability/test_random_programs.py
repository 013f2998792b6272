"""Random programs give what they give on the reference runtime.

Programs of loops and branches over mixed types, and reductions in dispatches with what uses them,
are where IREE has been wrong without a word; updates, gathers, windows and sorts that share what
they read are where its compiler did not come to an end. The long form (XPR_LONG_TESTS=1) runs some
hundreds of each kind, and 5000 of updates;
`python -m tests.reliability.test_random_programs arrays vulkan 1000 200` runs any of the first two,
`python -m tests.reliability.random_runs updates cpu 0 20000` any.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import xpr
from tests.conftest import skip_unless_usable
from xpr.core.config import override
from xpr.runtimes import registry

from . import random_arrays, random_programs, random_runs
from .scripts import cases, run


def check_loops(platform: str, number: int) -> None:
    """Runs the program of small arrays, loops and branches of that number on both devices."""
    rng = np.random.default_rng(number)
    arrays, program = random_programs.operands(rng), random_programs.steps(rng)
    with override("enable_x64", True):
        _compare(platform, number, lambda *xs: random_programs.results(program, xs), arrays)


def check_arrays(platform: str, number: int) -> None:
    """Runs the program of larger arrays of that number on both devices."""
    rng = np.random.default_rng(number)
    arrays, program = random_arrays.operands(rng), random_arrays.steps(rng)
    count = int(rng.integers(1, 6))
    _compare(platform, number, lambda *xs: random_arrays.results(program, xs, count), arrays)


def _compare(
    platform: str,
    number: int,
    function: Callable[..., Any],
    arrays: Sequence[np.ndarray[Any, Any]],
) -> None:
    f = xpr.jit(function)
    found, expected = (
        [np.asarray(x) for x in f(*xpr.device_put(arrays, registry.devices(name)[0]))]
        for name in (platform, "reference")
    )
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3, err_msg=f"{number}, result {i}")


CHECKS = {"loops": check_loops, "arrays": check_arrays}


@pytest.mark.parametrize("number", range(cases(8, 300)))
@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
@pytest.mark.parametrize("kind", CHECKS)
def test_random_programs(kind: str, platform: str, number: int) -> None:
    skip_unless_usable(platform)
    CHECKS[kind](platform, number)


_TOGETHER = 8


@pytest.mark.parametrize("group", range(cases(3, 625)))
def test_random_updates(group: int) -> None:
    """Several are one program to the compiler; one that does not end ends the time of all."""
    first = group * _TOGETHER
    programs = [random_runs.program("updates", n) for n in range(first, first + _TOGETHER)]
    assert random_runs.faults(programs, "cpu") == []


def test_random_updates_in_the_programs_own_process() -> None:
    script = (
        "from tests.reliability import random_runs\n"
        "programs = [random_runs.program('updates', n) for n in range(1000, 1004)]\n"
        "assert random_runs.faults(programs, 'cpu') == []\n"
    )
    assert run(script, XPR_COMPILER="inline") == ""


ONCE_WRONG = (("loops", 32), ("loops", 200_767), ("loops", 201_013), ("arrays", 201_884))
"""Programs that gave wrong numbers or did not compile: as they were found, since smaller ones with
the same fault are hard to come by (`tests/lowering/test_block_starts.py`,
`tests/lowering/test_loop_starts.py`, `tests/primitives/test_updates_behind_barriers.py`)."""


@pytest.mark.parametrize(("kind", "number"), ONCE_WRONG)
def test_programs_that_once_were_wrong(kind: str, number: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CHECKS[kind]("cpu", number)


def test_a_program_has_one_text() -> None:
    """The text is the program's key in the cache; of this one there once were two."""
    rng = np.random.default_rng(77_031)
    arrays, program = random_programs.operands(rng), random_programs.steps(rng)

    def text() -> str:
        f = xpr.jit(lambda *xs: random_programs.results(program, xs))
        return f.lower(*arrays).as_text("iree")

    with override("enable_x64", True):
        assert len({text() for _ in range(8)}) == 1


if __name__ == "__main__":
    _, which, name, first, count = sys.argv
    for k in range(int(first), int(first) + int(count)):
        try:
            CHECKS[which](name, k)
        except Exception as error:
            print(k, type(error).__name__, str(error)[:500], flush=True)
