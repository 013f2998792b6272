"""The sentinel: right calls raise no alarm, wrong ones do, and the caller is hardly slower."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.accuracy.test_error_bars import PROGRAMS
from xpr.cli import main
from xpr.core.config import watching
from xpr.recording import Recording
from xpr.recording.checker import check_waiting
from xpr.recording.verdicts import RIGHT, UNKNOWN, WRONG, judged


def _recorded(tmp_path: Path, f: Any, *args: Any) -> Recording:
    with xpr.record(tmp_path / "run.xprrec"):
        xpr.jit(f)(*args)
    return Recording.load(tmp_path / "run.xprrec")


def test_compiled_calls_are_right_and_changed_results_are_wrong(tmp_path: Path) -> None:
    kinds = []
    for program in PROGRAMS[:12]:
        recording = _recorded(tmp_path, lambda *a, p=program: p.f(jnp, *a), *program.args)
        kinds.append(judged(recording).kind)
        assert kinds[-1] != WRONG, program.name
        if kinds[-1] == RIGHT:
            first = np.array(recording.results[0])
            first.flat[-1] = first.flat[-1] * 1.5 + 3
            recording.results[0] = first
            verdict = judged(recording)
            assert verdict.kind == WRONG, program.name
            assert "in any order of rounding" in verdict.reason
    assert kinds.count(RIGHT) >= 10


def test_what_cannot_be_judged_is_unknown(tmp_path: Path) -> None:
    def decided(x: Any) -> Any:
        return jnp.where(x * 3.0 - 0.3 > 0, 1.0, 2.0)

    found = judged(_recorded(tmp_path, decided, np.float32(0.1)))
    assert found.kind == UNKNOWN
    assert "rounding decides at" in found.reason
    found = judged(_recorded(tmp_path, jnp.linalg.cholesky, np.eye(2, dtype=np.float32)))
    assert found.kind == UNKNOWN
    assert "cholesky" in found.reason


def test_overflow_and_narrow_types_are_no_alarms(tmp_path: Path) -> None:
    x = np.array([1e38, 3e38, 2.0], np.float32)
    for f in (
        lambda x: x * 10.0,
        lambda x: (x * 10.0) / (x * 10.0),
        lambda x: jnp.exp(x),
        lambda x: x**3 - x,
        lambda x: x.astype(jnp.float16) + 1,
        lambda x: (x / 3.0).astype(jnp.bfloat16).astype(jnp.float32) * 1.5,
        lambda x: (x / 7e36).astype(jnp.float8_e5m2).astype(jnp.float32),
    ):
        assert judged(_recorded(tmp_path, f, x)).kind != WRONG


def test_integers_are_compared_exactly(tmp_path: Path) -> None:
    recording = _recorded(tmp_path, lambda x: (x * 7) % 5, np.arange(6, dtype=np.int32))
    assert judged(recording).kind == RIGHT
    recording.results[0] = np.asarray(recording.results[0]) + 1
    assert judged(recording).kind == WRONG


def test_a_wrong_call_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sentinel", "report", "--folder", str(tmp_path)]) == 0
    assert "no alarms" in capsys.readouterr().out
    from xpr.recording.calls import recorded_bytes, save_bytes  # noqa: PLC0415  beside the use

    closed = xpr.make_jaxpr(lambda x: x + 1.0)(np.float32(1))
    (tmp_path / "waiting").mkdir()
    for i in range(2):
        wrong = recorded_bytes("f", closed, [np.float32(i)], [np.float32(i + 2)], "ok", 1 << 20)
        save_bytes(tmp_path / "waiting" / f"{i}.xprrec", wrong)
    (tmp_path / "waiting" / "damaged.xprrec").write_bytes(b"nothing")
    assert check_waiting(tmp_path) == 3
    assert not list((tmp_path / "waiting").iterdir())
    assert main(["sentinel", "report", "--folder", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert said.count("wrong: result 0: 2.0 at []") == 1
    assert "0 right, 2 wrong, 1 unknown" in said


def test_calls_are_checked_in_another_process(tmp_path: Path) -> None:
    f = xpr.jit(lambda x: jnp.sin(x) * 2)
    with xpr.sentinel(1.0, folder=tmp_path, wait=60) as watch:
        for i in range(4):
            f(np.full(3, i, np.float32))
    assert watch.seen == 4
    assert watching.watcher is None
    (summary,) = tmp_path.glob("summary-*.json")
    assert json.loads(summary.read_text())["right"] == 4
    with (
        pytest.raises(ValueError, match="above 0 and up to 1"),
        xpr.sentinel(0, folder=tmp_path),
    ):
        pass


def test_few_calls_are_looked_at(tmp_path: Path) -> None:
    f = xpr.jit(lambda x: x + 1)
    x = jnp.ones(3)
    with xpr.sentinel(0.001, folder=tmp_path) as watch:
        for _ in range(5000):
            f(x)
    assert 1 <= watch.seen <= 200
