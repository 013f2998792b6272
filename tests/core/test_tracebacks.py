"""Exceptions leave xpr with the user's frames, and with all of them where that is asked for."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.core.config import override
from xpr.core.tracebacks import NOTE

HERE = __file__


def fails(x: Any) -> Any:
    return jnp.sum(jnp.ones(3) @ jnp.reshape(x, (-1,)))


CALLS: dict[str, Callable[[], Any]] = {
    "jit": lambda: xpr.jit(fails)(jnp.ones(4)),
    "jit with keywords": lambda: xpr.jit(fails)(x=jnp.ones(4)),
    "jit in jit": lambda: xpr.jit(lambda x: xpr.jit(fails)(x))(jnp.ones(4)),
    "grad": lambda: xpr.grad(fails)(jnp.ones(4)),
    "value_and_grad": lambda: xpr.value_and_grad(fails)(jnp.ones(4)),
    "vmap": lambda: xpr.vmap(fails)(jnp.ones((2, 4))),
    "jvp": lambda: xpr.jvp(fails, (jnp.ones(4),), (jnp.ones(4),)),
    "vjp": lambda: xpr.vjp(fails, jnp.ones(4)),
    "linearize": lambda: xpr.linearize(fails, jnp.ones(4)),
    "jacrev": lambda: xpr.jacrev(fails)(jnp.ones(4)),
    "checkpoint": lambda: xpr.checkpoint(fails)(jnp.ones(4)),
    "make_jaxpr": lambda: xpr.make_jaxpr(fails)(jnp.ones(4)),
    "eval_shape": lambda: xpr.eval_shape(fails, jnp.ones(4)),
    "scan": lambda: xpr.lax.scan(lambda c, x: (c, fails(x)), 0.0, jnp.ones((2, 4))),
    "cond": lambda: xpr.lax.cond(True, fails, fails, jnp.ones(4)),
    "grad of jit of vmap": lambda: xpr.grad(xpr.jit(lambda x: xpr.vmap(fails)(x).sum()))(
        jnp.ones((2, 4))
    ),
}


def files_of(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


@pytest.fixture
def filtering(request: pytest.FixtureRequest) -> Iterator[None]:
    with override("traceback_filtering", request.param):
        yield


@pytest.mark.parametrize("filtering", ["auto", "quiet_remove_frames"], indirect=True)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.usefixtures("filtering")
def test_only_the_users_frames_are_shown(name: str) -> None:
    with pytest.raises(TypeError, match="dot_general requires") as caught:
        CALLS[name]()
    assert set(files_of(caught.value)) == {HERE}
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.name == "fails"


def test_the_note_is_there_once() -> None:
    with (
        override("traceback_filtering", "auto"),
        pytest.raises(TypeError, match="dot_general") as caught,
    ):
        CALLS["jit in jit"]()
    assert caught.value.__notes__.count(NOTE) == 1
    with (
        override("traceback_filtering", "quiet_remove_frames"),
        pytest.raises(TypeError, match="dot_general") as quiet,
    ):
        CALLS["jit in jit"]()
    assert NOTE not in quiet.value.__notes__


def test_off_leaves_all_frames() -> None:
    with (
        override("traceback_filtering", "off"),
        pytest.raises(TypeError, match="dot_general") as caught,
    ):
        CALLS["jit"]()
    assert any(name.endswith("jit.py") for name in files_of(caught.value))


def test_hiding_marks_frames_for_other_tools() -> None:
    with (
        override("traceback_filtering", "tracebackhide"),
        pytest.raises(TypeError, match="dot_general") as caught,
    ):
        CALLS["grad"]()
    hidden = [
        "__tracebackhide__" in frame.f_locals
        for frame, _ in traceback.walk_tb(caught.value.__traceback__)
        if frame.f_code.co_filename != HERE
    ]
    # The frame of the boundary itself comes on top when the error has passed it.
    assert hidden.count(False) <= 1
    assert hidden.count(True) > 3


def test_errors_of_the_users_own_code_keep_their_lines() -> None:
    def divides(x: Any) -> Any:
        return {}["missing"] + x

    with (
        override("traceback_filtering", "auto"),
        pytest.raises(KeyError, match="missing") as caught,
    ):
        xpr.jit(xpr.grad(divides))(1.0)
    assert [f.name for f in traceback.extract_tb(caught.value.__traceback__)][-1] == "divides"
    assert set(files_of(caught.value)) == {HERE}


def test_a_nan_in_a_program_has_one_traceback() -> None:
    with xpr.debug_nans(True), pytest.raises(FloatingPointError, match=r"\(nan\).* log") as caught:
        xpr.jit(lambda x: jnp.log(x) * 2)(np.float32(-1))
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
