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


EAGER: dict[str, Callable[[], Any]] = {
    "a + b": lambda: jnp.ones((3, 4)) + jnp.ones(3),
    "5 + b": lambda: (5,) @ jnp.ones(3),
    "w @ x": lambda: jnp.ones((3, 4)) @ jnp.ones((5, 3)),
    "x[5]": lambda: jnp.ones(3)["a"],
    "method": lambda: jnp.ones(3).sum(axis=2),
    "at": lambda: jnp.ones(3).at[0].set(jnp.ones(7)),
    "bool": lambda: bool(jnp.ones(3)),
    "float": lambda: float(jnp.ones(3)),
    "len": lambda: len(jnp.float32(3)),
    "function": lambda: jnp.sum([1.0, 2.0]),  # pyright: ignore[reportArgumentType]
    "ufunc": lambda: jnp.add(jnp.ones(3), jnp.ones(4)),
    "ufunc's method": lambda: jnp.add.reduce(jnp.ones(3), axis=4),
    "einsum": lambda: jnp.einsum("ij,jk->ik", jnp.ones((3, 4)), jnp.ones((5, 6))),
    "lax": lambda: xpr.lax.dot(jnp.ones(3), jnp.ones(4)),
    "linalg": lambda: jnp.linalg.solve(jnp.ones((3, 4)), jnp.ones(3)),
    "nn": lambda: xpr.nn.one_hot(jnp.ones(3), 4, axis=7),
    "random": lambda: xpr.random.normal(3.0, (2,)),
    "scipy": lambda: xpr.scipy.special.gammaln("text"),  # pyright: ignore[reportArgumentType]
    "device_put": lambda: xpr.device_put("text"),
    "tree": lambda: xpr.tree.map(lambda x, y: x, [1], [1, 2]),
}


@pytest.mark.parametrize("name", EAGER)
def test_errors_outside_of_programs_end_at_the_users_line(name: str) -> None:
    with (
        override("traceback_filtering", "auto"),
        pytest.raises((TypeError, ValueError)) as caught,
    ):
        EAGER[name]()
    assert set(files_of(caught.value)) == {HERE}
    assert caught.value.__notes__.count(NOTE) == 1


def test_causes_are_filtered_too() -> None:
    with override("traceback_filtering", "auto"), pytest.raises(TypeError, match="text") as caught:
        jnp.asarray("text")
    error: BaseException | None = caught.value
    while error is not None:
        assert [f for f in files_of(error) if f != HERE and "/xpr/" in f] == []
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_warnings_name_the_users_line() -> None:
    with pytest.warns(UserWarning, match="not available") as caught:
        jnp.asarray([1.0]).astype("float64")
    assert {w.filename for w in caught} == {HERE}


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
