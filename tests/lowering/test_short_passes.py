"""Shorter lists of IREE's passes: what they are for, and that they come to what IREE comes to."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import Call, run
from xpr import lax
from xpr.lowering.iree import compiler_library, driver, sessions, short_passes, shortcuts, versions
from xpr.lowering.iree.invocation import Diagnostic, Invocation, parsed
from xpr.lowering.iree.post_passes import changes_for
from xpr.lowering.iree.versions.base import Step, Steps
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints

CPU = get_target("cpu")
FUSED, PLAIN = CPU.flag_sets(ProgramHints())
LARGE = CPU.flag_sets(ProgramHints(num_operations=10_000))[0]
RNG = np.random.default_rng(11)
X = RNG.standard_normal((6, 8), dtype=np.float32)


def elementwise(x: Any) -> Any:
    return jnp.tanh(x) * 2.0 + 1.0, x - 1.0


def layers(x: Any) -> Any:
    w = jnp.ones((8, 8), jnp.float32)
    return jnp.sum(jnp.tanh(x @ w) @ w, axis=0), jnp.max(x, axis=1)


def softmax(x: Any) -> Any:
    return xpr.nn.softmax(x, axis=-1)


def indices(x: Any) -> Any:
    return x[jnp.array([2, 0, 1])], x.at[1].add(3.0), jnp.cumsum(x, axis=0)


def loop(x: Any) -> Any:
    return lax.while_loop(
        lambda c: jnp.sum(c[0]) < 1000.0, lambda c: (c[0] * 2.0 + c[1], c[1]), (jnp.abs(x), x * x)
    )[0]


def branch(x: Any) -> Any:
    return lax.cond(x[0, 0] > 0, lambda a: a @ a.T, lambda a: (a - 1) @ a.T, x)


def in_integers(x: Any) -> Any:
    n = jnp.astype(x * 10, jnp.int32)
    return n // 3, n % 7, jnp.sort(n, axis=1)


PROGRAMS: list[Callable[[Any], Any]] = [elementwise, layers, softmax, indices, loop, branch]
PROGRAMS += [in_integers]


def text_of(function: Callable[[Any], Any], *args: Any) -> str:
    return xpr.jit(function).lower(*(args or (X,))).as_text("iree")


def steps(text: str, flags: tuple[str, ...] = FUSED) -> Steps:
    return short_passes.steps_for(text, flags, versions.of_installed())


def at_stream(text: str, flags: tuple[str, ...], chosen: Steps) -> list[str]:
    """The lines of the program behind the phase stream, without the names of values, sorted."""
    library = compiler_library.load()
    said: list[Diagnostic] = []
    with (
        sessions.session(library, flags, text, parallel=True) as session,
        parsed(library, session, text, "program", False, said) as begun,
    ):
        assert begun is not None, said
        compiling = Invocation(library, session, begun, None, steps=chosen, verify=False)
        changes = changes_for(has_branches=True, frees=True)
        before = "start"
        for phase in short_passes.PHASES:
            compiling.phases(before, phase)
            before = phase
            for change in changes:
                assert change.phase != phase or compiling.change(change)
        lines = compiling.text().splitlines()
    return sorted(re.sub(r"%[\w#]+", "%", line).strip() for line in lines)


@pytest.fixture
def this_compiler() -> None:
    """Skips a test where the lists of passes do not apply to the installed compiler."""
    reason = compiler_library.load().version.without.get(shortcuts.SHORT_PASSES)
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.usefixtures("this_compiler")
@pytest.mark.parametrize("flags", [FUSED, LARGE], ids=["hoists", "large"])
@pytest.mark.parametrize("function", PROGRAMS)
def test_they_come_to_what_the_compiler_comes_to(
    function: Callable[[Any], Any], flags: tuple[str, ...]
) -> None:
    text = text_of(function)
    chosen = steps(text, flags)
    assert set(chosen) == set(short_passes.PHASES) - {"preprocessing"}
    assert at_stream(text, flags, chosen) == at_stream(text, flags, {})


@pytest.mark.usefixtures("this_compiler")
def test_every_list_is_known_to_the_compiler() -> None:
    library = compiler_library.load()
    lists: set[str] = set()
    for function in PROGRAMS:
        for flags in (FUSED, LARGE):
            for step in steps(text_of(function), flags).values():
                lists |= {*step.passes, *step.with_globals, *step.without}
    assert len(lists) > 10
    with sessions.session(library, FUSED, "", parallel=False) as session:
        assert [p for p in lists if isinstance(session.manager(p), str)] == []


def test_they_are_for_known_flags() -> None:
    text = text_of(elementwise)
    assert steps(text, PLAIN) == {}
    for flag in (
        "--iree-opt-data-tiling=true",
        "--iree-dispatch-creation-enable-split-reduction=true",
        "--iree-input-promote-bf16-to-f32=true",
    ):
        assert steps(text, (*FUSED, flag)) == {}
    for target in ("vulkan", "vmvx"):
        assert not any(map(short_passes.are_for, get_target(target).flag_sets(ProgramHints())))


@pytest.mark.parametrize(
    "line",
    [
        "%0 = stablehlo.add %x, %x : tensor<?xf32>",
        "%0 = stablehlo.cholesky %x, lower = true : tensor<4x4xf32>",
        "%0 = stablehlo.custom_call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>",
        "%0 = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>",
        "util.global private @g : tensor<4xf32>",
    ],
)
def test_they_are_for_known_operations(line: str) -> None:
    assert steps("%0 = stablehlo.add %x, %x : tensor<4xf32>\n")
    assert steps(f"%0 = stablehlo.add %x, %x : tensor<4xf32>\n{line}\n") == {}


def compiled(text: str) -> bytes:
    module, said = driver.compile_module(text, FUSED, name="program", verify=False)
    assert module is not None, said
    return module


def test_a_list_that_is_refused_leaves_the_compiler_its_own_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = text_of(elementwise)
    tried: list[str] = []

    def refused(*_: Any) -> Steps:
        tried.append("")
        return {"flow": Step(("iree-there-is-no-such-pass",))}

    expected = compiled(text)
    monkeypatch.setattr(short_passes, "steps_for", refused)
    assert compiled(text) == expected
    assert tried == [""]


def test_what_fails_with_a_list_is_compiled_in_the_compilers_own_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = text_of(elementwise)
    expected = compiled(text)
    # Without any pass the text does not become dispatches.
    nothing = dict.fromkeys(short_passes.PHASES, Step(()))
    monkeypatch.setattr(short_passes, "steps_for", lambda *_: nothing)
    assert compiled(text) == expected


def test_such_a_program_is_right() -> None:
    (status, (answer,)) = run(compiled(text_of(softmax)), [Call("main", [X])])
    assert (status, answer.error) == (0, "")
    wanted = np.exp(X - X.max(-1, keepdims=True))
    wanted /= wanted.sum(-1, keepdims=True)
    np.testing.assert_allclose(answer.results[0], wanted, rtol=1e-5)
