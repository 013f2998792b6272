"""How long a compile may take before a simpler form is taken; where programs are explained."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import xpr
from tests.reliability.scripts import run
from xpr.core.config import override
from xpr.lowering import passes
from xpr.lowering.iree import attempts, limits
from xpr.lowering.iree.process.client import UnavailableError


def test_the_limit_depends_on_the_size_of_the_program() -> None:
    assert limits.seconds("auto", "") == 60
    small, large = (limits.seconds("auto", "line\n" * n) for n in (100, 1000))
    assert (small, large) == (60, pytest.approx(60 * 3.2))
    # Barriers behind all operations make a dispatch of each.
    assert limits.seconds("auto", "line\n" * 1000, separate=True) == pytest.approx(60 * 25.2)


@pytest.mark.parametrize("timeout", [0.5, 7.0, None])
def test_a_number_that_is_set_holds_for_all_programs(timeout: float | None) -> None:
    assert limits.seconds(timeout, "line\n" * 1000, separate=True) == timeout
    assert limits.seconds_to_begin(timeout) == timeout


def test_others_may_be_compiled_before() -> None:
    assert limits.seconds_to_begin("auto") == 900


def test_the_setting() -> None:
    assert xpr.config.compiler_timeout == "auto"
    for given, kept in (("none", None), ("12", 12.0), (" Auto ", "auto"), (None, None)):
        with override("compiler_timeout", given):
            assert xpr.config.compiler_timeout == kept
    with pytest.raises(ValueError, match="positive number of seconds or auto or none, got -1"):
        xpr.config.update("compiler_timeout", -1)


def test_what_is_asked_of_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt has the limit of its own text; the program's own process has none."""
    from xpr.lowering.iree.process import client  # noqa: PLC0415 - not on all systems

    asked: list[tuple[Any, Any]] = []

    def compile_module(text: str, flags: Any, **options: Any) -> Any:
        asked.append((options["timeout"], options["begins_within"]))
        raise UnavailableError("as if there were none")

    monkeypatch.setattr(client, "compile_module", compile_module)
    monkeypatch.setenv("XPR_CACHE", "0")
    x = np.arange(3.0, dtype="f4")

    def unrolled(x: Any, times: int) -> Any:
        for _ in range(times):
            x = x * 1.5 + 1
        return x

    with override("compiler", "auto"):
        assert xpr.jit(lambda x: unrolled(x, 1))(x)[0] == 1
        xpr.jit(lambda x: unrolled(x, 200))(x)
        with override("compiler_timeout", 5.0):
            assert xpr.jit(lambda x: unrolled(x, 2))(x)[0] == 2.5
    assert asked[0] == (60, 900)
    assert asked[1][0] > 80
    assert asked[2] == (5, 5)


def test_a_compile_that_does_not_end_is_one_in_a_simpler_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(passes.PASSES, "single_elements")  # IREE loops for ever then
    monkeypatch.setattr(limits, "_LEAST", 4.0)
    monkeypatch.setattr(limits, "_TIMES", 4.0)
    monkeypatch.setattr(attempts, "default_cache", lambda: None)
    monkeypatch.setenv("XPR_CACHE", "0")
    x, i = np.arange(10, dtype="f4"), np.array([12, 3, -11], "i4")
    begin = time.monotonic()
    with pytest.warns(RuntimeWarning, match="its operations are computed one by one"):
        a, b = xpr.jit(lambda x, i: (x.at[i].set(0.0), x.at[i].add(1.0)))(x, i)
    assert time.monotonic() - begin > 4
    np.testing.assert_array_equal(a, [0, 1, 2, 0, 4, 5, 6, 7, 8, 9])
    np.testing.assert_array_equal(b, [0, 1, 2, 4, 4, 5, 6, 7, 8, 9])


_CRASHES = """
import numpy as np, xpr, warnings
from xpr.lowering import passes
import xpr.lowering.module
passes.PASSES.pop("complex_products")
x = np.ones((512, 512), "c8")
found = xpr.debug.explain(xpr.jit(lambda a, b: a @ b), x, x)
assert found.stages["hal"] > 0 and found.dispatches, found
print(found.name)
"""


def test_explain_survives_a_crash_of_the_compiler() -> None:
    assert run(_CRASHES, XPR_CACHE="0", XPR_COMPILER="auto") == "<lambda>\n"


@pytest.mark.parametrize("compiler", ["process", "inline"])
def test_explain_says_the_same_wherever_it_compiles(compiler: str) -> None:
    with override("compiler", compiler):
        found = xpr.debug.explain(lambda x: (x * 2.5).sum() + x, np.ones((3, 4), "f4"))
    names = list(found.stages)
    assert (names[:4], names[-1]) == (["trace", "prepare", "lower", "parse"], "load")
    assert found.dispatches == 1
    assert found.flags
    assert found.stages["hal"] > 0
