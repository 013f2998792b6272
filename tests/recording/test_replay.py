"""`xpr.replay`: where it stops, what it says, sessions, smaller programs."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.cli import main
from xpr.recording import Replay, session
from xpr.recording.replaying import replay_program


@pytest.fixture(autouse=True)
def _reference() -> Any:
    with xpr.default_device(xpr.devices("reference")[0]):
        yield


def train(w: Any, xs: Any) -> Any:
    def step(w: Any, x: Any) -> Any:
        size = w * x
        loss = jnp.log(size)
        return w - loss, loss

    return xpr.lax.scan(step, w, xs)


FIRST = train.__code__.co_firstlineno


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with xpr.record(tmp_path / "run.xprrec"):
        xpr.jit(train)(np.float32(1), np.full(6, 3, np.float32))
    return tmp_path / "run.xprrec"


def test_it_stops_at_the_first_nan(file: Path) -> None:
    found = xpr.replay(file)
    assert found.step is not None
    # w is 1, then 1 - log(3) = -0.0986: the second logarithm is not a number.
    assert found.step.frame.label == "iteration 1 of scan"
    assert found.step.eqn.primitive.name == "log"
    assert found.step.eqn.source_info.line == FIRST + 3
    assert np.isclose(found.values["size"], 3 * (1 - np.log(3)), rtol=1e-5)
    text = str(found)
    assert "loss = jnp.log(size)" in text
    assert "in iteration 1 of scan at " in text
    assert "<table>" in found._repr_html_()
    assert "loss = jnp.log(size)" in found._repr_html_()


def test_it_stops_where_it_is_asked_to(file: Path) -> None:
    def at(**options: Any) -> Any:
        found = xpr.replay(file, **options).step
        return None if found is None else (found.eqn.primitive.name, found.frame.iteration)

    assert at(at=f"test_replay.py:{FIRST + 2}") == ("mul", 0)
    assert at(at=f"test_replay.py:{FIRST + 2}", iteration=3) == ("mul", 3)
    assert at(iteration=4)[1] == 4
    assert at(condition="isnan(loss)") == ("log", 1)
    assert at(condition=lambda step: step.eqn.primitive.name == "sub") == ("sub", 0)
    assert at(at="elsewhere.py:1") is None
    with pytest.raises(ValueError, match="must be FILE:LINE"):
        xpr.replay(file, at="model.py")


def test_an_infinity_and_none(tmp_path: Path) -> None:
    def look(f: Any, x: Any) -> Replay:
        with xpr.record(tmp_path / "run.xprrec"):
            xpr.jit(f)(x)
        return xpr.replay(tmp_path / "run.xprrec")

    found = look(lambda x: jnp.exp(x) * 2, np.float32(1000))
    assert found.why == "the first inf that reaches the results"
    assert found.step is not None
    assert found.step.eqn.primitive.name == "exp"
    assert look(lambda x: x + 1, np.float32(1)).why == "no NaN or infinity reaches the results"
    assert look(lambda x: x + 1, np.float32("nan")).why == "the nan came with an argument"
    found = look(lambda x: 0 * (1 / x), np.float32(0))
    assert found.since is not None
    assert found.since.eqn.primitive.name == "div"


def test_a_wrong_operation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference rule of tanh is off by a thousandth: the compiled one differs from it there."""
    from xpr.core.primitive import find_primitive  # noqa: PLC0415  beside the one use

    def f(x: Any) -> Any:
        return jnp.sin(jnp.tanh(jnp.exp(x)).sum())

    x = np.linspace(-1, 1, 7, dtype=np.float32)
    closed = xpr.make_jaxpr(f)(x)
    assert replay_program(closed, [x], against="cpu").step is None
    tanh = find_primitive("tanh")
    assert tanh is not None
    monkeypatch.setattr(tanh, "reference", lambda v, **_: np.tanh(v) * np.float32(1.001))
    found = replay_program(closed, [x], against="cpu")
    assert found.step is not None
    assert found.step.eqn.primitive.name == "tanh"


def talk(closed: Any, args: Any, *commands: str, start: Any = None) -> str:
    said = io.StringIO()
    typed = io.StringIO("\n".join(commands) + "\n")
    session.Session(closed, args, start, stdin=typed, stdout=said).run()
    return said.getvalue()


def test_a_session_steps_forward_and_back() -> None:
    args = [np.float32(1), np.full(4, 3, np.float32)]
    closed = xpr.make_jaxpr(train)(*args)
    first = talk(closed, args, "q")
    assert "in iteration 0 of scan" in first
    moved = talk(closed, args, "b log", "c", "p size * 2", "w", "u", "d", "l", "v", "back", "q")
    assert "f32[] = 6.0" in moved
    assert "-> " in moved
    assert "the whole program" in moved
    assert "in mul, called from" in moved[moved.index("(xpr)") :]  # where `back` came to
    asked = talk(closed, args, "p nothing", "p 1 + 1", "b isnan(loss)", "c", "b", "q")
    assert "NameError: name 'nothing' is not defined" in asked
    assert "(xpr) 2\n" in asked
    assert "in iteration 1 of scan" in asked
    assert asked.rstrip().endswith("(xpr) isnan(loss)\n(xpr)")
    returned = talk(closed, args, "n", "s", "r", "q")
    assert "in scan, called from" in returned
    out = talk(closed, args, "c")
    assert "result 0: f32[] = nan" in out
    assert "run to its end" in out
    assert "this is the first equation" in talk(closed, args, "back", "q")


def test_a_session_begins_at_the_step_that_was_found() -> None:
    args = [np.float32(1), np.full(4, 3, np.float32)]
    closed = xpr.make_jaxpr(train)(*args)
    found = replay_program(closed, args)
    said = talk(closed, args, "back", "q", start=found.step)
    assert said.index("in log, called from") < said.rindex("in mul, called from")


def test_a_smaller_program_shows_the_same(file: Path, tmp_path: Path) -> None:
    text = xpr.replay(file).shrink(tmp_path / "small.py")
    assert len(text.splitlines()) <= 25
    assert "bind('log'" in text
    out = subprocess.run(
        [sys.executable, tmp_path / "small.py"], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "nan"


def test_a_large_array_shrinks_to_one_element(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        return jnp.exp(jnp.log(x - 3.0) * 2.0)

    x = np.linspace(2, 9, 5000, dtype=np.float32)
    text = replay_program(xpr.make_jaxpr(f)(x), [x]).shrink(tmp_path / "small.py")
    assert "np.array(2.0, np.float32)" in text
    with pytest.raises(ValueError, match="only a step that makes a NaN"):
        replay_program(xpr.make_jaxpr(f)(x + 9), [x + 9]).shrink(tmp_path / "small.py")


def test_the_command(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(file), "--no-session"]) == 0
    said = capsys.readouterr().out
    assert "train: ok" in said
    assert "in iteration 1 of scan" in said
    small = tmp_path / "small.py"
    assert main(["replay", str(file), "--shrink", str(small)]) == 0
    assert small.exists()
    assert main(["replay", str(tmp_path), "--info"]) == 0
    assert main(["replay", str(file), "--iteration", "2", "--no-session"]) == 0
    assert "in iteration 2 of scan" in capsys.readouterr().out
    file.write_bytes(b"xprrec\x01\nnothing")
    assert main(["replay", str(file)]) == 1
    assert "damaged" in capsys.readouterr().err


def test_derivatives_do_not_take_the_names_of_variables() -> None:
    def loss(x: Any) -> Any:
        root = jnp.sqrt(x * x)
        return root * 2.0

    zero = np.zeros((), np.float32)
    found = replay_program(xpr.make_jaxpr(xpr.grad(loss))(zero), [zero])
    assert found.step is not None
    assert found.step.eqn.primitive.name == "mul"
    assert "in the gradient of this line" in str(found)
    assert found.values.get("root", 0.0) == 0.0
