"""The example of state says what state does under jit, and its mean is NumPy's."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "counter.py"

PRINTED = """\
state in an object:  1 1 1
state as an argument: 1 2 3
many counters at once: 1 11 21
means so far, by scan: 2.0 3.0 5.0 4.0
the state that scan leaves: 4 4.0
"""


def test_counter_prints_what_each_kind_of_state_does() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == PRINTED


@pytest.fixture(scope="module")
def counter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("counter", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_state_in_an_object_stays_behind(counter: ModuleType) -> None:
    tally = counter.Counter()
    compiled = counter.xpr.jit(tally.count)
    assert [int(compiled()) for _ in range(3)] == [1, 1, 1]
    # The tracing alone counted; without jit every call does.
    assert tally.n == 1
    assert [tally.count(), tally.count()] == [2, 3]


def test_means_so_far_are_those_of_numpy(counter: ModuleType) -> None:
    x = np.random.default_rng(0).standard_normal(50).astype(np.float32)
    state, means = counter.lax.scan(counter.observe, counter.Mean(0, 0.0), x)
    expected = np.cumsum(x, dtype=np.float64) / np.arange(1, len(x) + 1)
    # Each step rounds three times to half a unit of at most 2.
    np.testing.assert_allclose(np.asarray(means), expected, atol=50 * 3 * 2**-23, rtol=0)
    assert int(state.count) == len(x)
    assert float(state.mean) == float(means[-1])
