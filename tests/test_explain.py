"""Where the time goes when a program is made ready."""

from __future__ import annotations

from pathlib import Path
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
    assert lines[0].startswith(f"_two_dispatches: 4 equations, {found.dispatches} dispatches")
    assert lines[len(names) + 1].split()[0] == "total"
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


def test_what_is_cached_and_with_which_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = xpr.jit(lambda x: jnp.tanh(x) * 4.125)
    x = np.ones(3, np.float32)
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path))
    first = debug.explain(function, x)
    assert (first.cached, first.was_traced) == (None, False)
    function(x).block_until_ready()
    second = debug.explain(function, x)
    assert second.was_traced
    assert second.cached is not None
    assert tmp_path in Path(second.cached).parents
    assert Path(second.cached).stat().st_size > first.module_bytes // 2
    text = str(second)
    assert f"cached: in {second.cached}" in text
    assert "kept from an earlier call" in text
    assert "--iree-hal-target-device=local" in second.flags
    assert "flags, for cpu:\n" in text
    assert set(" ".join(second.flags).split()) <= set(text.split())


def test_advice_names_lines_and_arguments() -> None:
    def unrolled(state: Any, step: Any) -> Any:
        for _ in range(250):
            state = state + step
        return xpr.pure_callback(np.sin, xpr.ShapeDtypeStruct(state.shape, state.dtype), state)

    large = xpr.ShapeDtypeStruct((512, 1024), np.float32)
    found = debug.explain(unrolled, large, xpr.ShapeDtypeStruct((), np.float32))
    loop, call, donation = found.advice
    line = unrolled.__code__.co_firstlineno + 2
    assert loop.startswith(f"250 of 251 equations are from {__file__}:{line}:")
    assert "fori_loop" in loop
    assert call.startswith(f"pure_callback at {__file__}:{line + 1}:")
    assert "state (f32[512,1024], 2.097 MB)" in donation
    assert found.advice[0] in str(found)
    given = debug.explain(xpr.jit(lambda x: x + 1, donate_argnums=0), large)
    assert given.advice == ()


def test_advice_on_wide_numbers_and_loops_of_the_host() -> None:
    def powers(x: Any) -> Any:
        return xpr.lax.while_loop(lambda s: s[0, 0] < 1e9, lambda s: s @ s, x)

    with xpr.enable_x64(True):
        found = debug.explain(powers, xpr.ShapeDtypeStruct((300, 300), np.float64))
    line = f"{__file__}:{powers.__code__.co_firstlineno + 1}"
    wide, loop = found.advice
    assert f"in 64 bits, the first at {line}" in wide
    assert loop.startswith(f"the loop at {line}")
    assert debug.explain(jnp.sin, np.ones(3, np.float32)).advice == ()
