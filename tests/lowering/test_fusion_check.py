"""Programs that aggressive fusion makes a cycle of: the compile ends, and says why it failed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import MENDED
from xpr.experimental.jet import jet
from xpr.lowering.iree import compiler_library, driver, fusion_check, sessions, short_passes
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints


def _program() -> str:
    """The Taylor series of a spectrum and of an angle, which share many intermediate values."""

    def function(x: Any, y: Any) -> Any:
        return jnp.abs(jnp.fft.fft(x)) + jnp.arctan2(x, y.T)

    with xpr.enable_x64(True):
        x, y = [np.ones((3, 4))] * 4, [np.ones((4, 3))] * 4
        jitted = xpr.jit(jet, static_argnums=0)
        return jitted.lower(function, (x[0], y[0]), (x[1:], y[1:])).as_text("iree")


def test_a_cycle_is_found_behind_the_fusion() -> None:
    """Without the check some of its compiles did not end, and others failed two phases later."""
    text = _program()
    fused, plain = get_target("cpu").flag_sets(ProgramHints())
    phases: list[str] = []
    module, said = driver.compile_module(
        text, fused, name="program", verify=False, tell=phases.append
    )
    assert module is None, MENDED
    assert "does not dominate this use" in said[0].message
    assert phases[-1] == fusion_check.PHASE
    # What other flags make of it is not checked, and compiles.
    assert not fusion_check.is_needed(plain)
    module, said = driver.compile_module(text, plain, name="program", verify=False)
    assert module is not None, said


def test_only_the_fusion_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the compiler's own way."""
    monkeypatch.setattr(short_passes, "steps_for", lambda *_: {})
    library = compiler_library.load()
    settings: list[bool] = []
    was: list[bool] = []
    set_verify, run = library.InvocationSetVerifyIR, library.InvocationPipeline

    def note(invocation: int, on: bool) -> None:
        settings.append(on)
        set_verify(invocation, on)

    def pipeline(invocation: int, kind: int) -> bool:
        was.append(settings[-1])
        return run(invocation, kind)

    monkeypatch.setattr(library, "InvocationSetVerifyIR", note)
    monkeypatch.setattr(library, "InvocationPipeline", pipeline)
    text = xpr.jit(lambda x: x * 2 + 1).lower(np.ones(4, np.float32)).as_text("iree")
    for flags, times in zip(get_target("cpu").flag_sets(ProgramHints()), (1, 0), strict=True):
        was.clear()
        module, said = driver.compile_module(text, flags, name="program", verify=False)
        assert module is not None, said
        assert was.count(True) == times
        was.clear()
        driver.compile_module(text, flags, name="program", verify=True)
        assert all(was)


def test_shorter_lists_are_checked_where_dispatches_are_formed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = compiler_library.load()
    done: list[str] = []
    verify, manager = library.mlir.OperationVerify, sessions.Session.manager

    def note(module: int) -> bool:
        done.append("check")
        return verify(module)

    def listed(session: sessions.Session, passes: str) -> int | str:
        done.append(passes)
        return manager(session, passes)

    monkeypatch.setattr(library.mlir, "OperationVerify", note)
    monkeypatch.setattr(sessions.Session, "manager", listed)
    text = xpr.jit(lambda x: x * 2 + 1).lower(np.ones(4, np.float32)).as_text("iree")
    fused = get_target("cpu").flag_sets(ProgramHints())[0]
    module, said = driver.compile_module(text, fused, name="program", verify=False)
    assert module is not None, said
    steps = short_passes.steps_for(text, fused, library.version)
    parts = steps[fusion_check.PHASE].passes
    at = done.index(parts[0])
    assert done[at : at + 2 * len(parts)] == [x for part in parts for x in (part, "check")]
    assert done.count("check") == len(parts)
