"""Where the time goes when a program is made ready."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import debug
from xpr.lowering.iree import stopwatch


def _two_dispatches(x: Any) -> Any:
    return jnp.sum(jnp.sin(x) @ x) * 2.0


def test_all_stages_and_dispatches_are_told() -> None:
    x = np.ones((40, 40), np.float32)
    found = debug.explain(xpr.jit(_two_dispatches), x)
    names = list(found.stages)
    assert names[:3] == ["trace", "prepare", "lower"]
    assert names[3] == "parse"
    assert names[-1] == "load"
    for phase in ("dispatch-creation", "executable-targets", "hal", "vm"):
        assert phase in names
    assert all(seconds >= 0 for seconds in found.stages.values())
    assert found.total == pytest.approx(sum(found.stages.values()))
    assert found.name == "_two_dispatches"
    assert found.equations == 4
    assert found.dispatches is not None
    assert found.dispatches >= 2
    assert found.module_bytes > 1000
    lines = str(found).splitlines()
    assert lines[0].startswith("_two_dispatches: 4 equations")
    assert len(lines) == len(names) + 2
    assert "LLVM" in next(line for line in lines if line.split()[0] == "hal")


def test_types_will_do_and_nothing_runs() -> None:
    def never(x: Any) -> Any:
        debug.callback(lambda: pytest.fail("it ran"))
        return x + 1

    found = debug.explain(never, xpr.ShapeDtypeStruct((3,), np.float32))
    assert found.name == "never"


def test_what_is_compiled_already_is_compiled_again() -> None:
    function = xpr.jit(lambda x: x * 3.25)
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(function(x), np.full(3, 3.25, np.float32))
    assert debug.explain(function, x).stages["hal"] > 0


def test_outside_nothing_is_watched() -> None:
    assert stopwatch.current() is None
    with stopwatch.watching() as watch:
        assert stopwatch.current() is watch
        stopwatch.passed("something")
    assert stopwatch.current() is None
    assert list(watch.stages) == ["something"]


def test_what_cannot_be_explained() -> None:
    with pytest.raises(TypeError, match="explain takes a function, got 3"):
        debug.explain(3, np.ones(3))  # pyright: ignore[reportArgumentType]


def test_programs_of_random_keys_are_explained() -> None:
    explained = xpr.debug.explain(lambda k: xpr.random.normal(k, (3,)), xpr.random.key(0))
    assert explained.module_bytes > 0
