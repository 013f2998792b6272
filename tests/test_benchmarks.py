"""The benchmarks run, their programs are right in xpr, and their arithmetic is."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import checkpoints, implementations, moved, numpy_lax
from benchmarks.cases import ProgramCase, worst_error
from benchmarks.kernels import KERNELS
from benchmarks.processes import NAMES
from benchmarks.programs.plot import ratios_of, ratios_svg
from benchmarks.report import Row, findings, render
from benchmarks.sessions import CASES, LocalSession, Session, WorkerSession
from benchmarks.timing import Measurement, geometric_mean, loops_for, take_turns

ROOT = Path(__file__).resolve().parent.parent
# A case with collectives and one without, one on fewer cores, and one that is xpr's alone.
ON_DEVICES = (
    "jit(x * 2 + 1), 8 shards of 1 kB",
    "all_to_all of 64 B, 8 devices",
    "training step, 1 device on 1 core",
    "training step, 2 devices",
    "partition 250 equations",
)
PROGRAMS = [case.name for case in CASES.values() if isinstance(case, ProgramCase)]


def _check(name: str, mode: str) -> None:
    case = CASES[name]
    assert isinstance(case, ProgramCase)
    results = LocalSession().prepare(name, mode, quick=True)
    expected = case.reference(implementations.load("numpy"), quick=True)
    error, wrong = worst_error(results, expected)
    assert not wrong
    assert error <= case.tolerance


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_in_numpy_stay_near_double_precision(name: str) -> None:
    _check(name, "numpy")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_right_in_xpr(name: str) -> None:
    for mode in CASES[name].modes:
        if mode.startswith("xpr"):
            _check(name, mode)


def test_names_are_unique() -> None:
    assert len(CASES) == len({name.lower() for name in CASES})
    assert not set(CASES) & set(NAMES)
    assert len(KERNELS) >= 20


def test_worst_error_sees_shape_dtype_count_and_nan() -> None:
    ones = np.ones(3)
    assert worst_error([ones + 0.5], [ones * 2]) == (0.25, "")
    assert worst_error([], [ones]) == (math.inf, "0 results for 1")
    assert worst_error([np.ones((3, 1))], [ones]) == (math.inf, "shape (3, 1) for (3,)")
    assert worst_error([np.ones(3, "int32")], [ones]) == (math.inf, "dtype int32 for float64")
    assert worst_error([ones * np.nan], [ones]) == (math.inf, "NaN or infinity")
    assert worst_error([np.ones((0, 2))], [np.ones((0, 2))]) == (0.0, "")
    assert worst_error([np.full(2, 0.5)], [np.zeros(2)]) == (0.5, "")


def test_top_k_of_numpy_is_ordered() -> None:
    x = np.random.default_rng(0).permutation(60).reshape(3, 20)
    values, index = numpy_lax.top_k(x, 4)
    np.testing.assert_array_equal(values, np.sort(x, axis=1)[:, ::-1][:, :4])
    np.testing.assert_array_equal(np.take_along_axis(x, index, axis=1), values)


def test_convolution_of_numpy_is_a_sum_over_windows() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 5, 4)), rng.standard_normal((6, 3, 3, 3))
    expected = np.zeros((2, 6, 5, 4))
    for n, o, i, j in np.ndindex(expected.shape):
        for c, p, q in np.ndindex(w.shape[1:]):
            row, column = i + p - 1, j + q - 1
            if 0 <= row < 5 and 0 <= column < 4:
                expected[n, o, i, j] += x[n, c, row, column] * w[o, c, p, q]
    found = numpy_lax.conv_general_dilated(x, w, (1, 1), "SAME")
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    with pytest.raises(NotImplementedError, match=r"got \(2, 2\) and 'SAME'"):
        numpy_lax.conv_general_dilated(x, w, (2, 2), "SAME")


class _Clock(Session):
    """A session whose calls take a known time."""

    def __init__(self, log: list[str], name: str, each: float) -> None:
        self.log, self.name, self.each = log, name, each

    def prepare(self, case: str, mode: str, quick: bool) -> list[np.ndarray]:
        return []

    def seconds(self, loops: int) -> float:
        self.log.append(self.name)
        return loops * self.each

    def close(self) -> None:
        self.log.append("closed")


def test_turns_rotate_and_samples_are_per_call() -> None:
    log: list[str] = []
    sessions: dict[str, Session] = {
        name: _Clock(log, name, each) for name, each in (("a", 2.0), ("b", 3.0))
    }
    measured = take_turns(sessions, rounds=3, least_seconds=1.0)
    assert {name: m.samples for name, m in measured.items()} == {"a": (2.0,) * 3, "b": (3.0,) * 3}
    assert log == ["a", "b", "a", "b", "b", "a", "a", "b"]


def test_loops_fill_the_time_asked_for() -> None:
    clock = _Clock([], "a", 1e-6)
    loops = loops_for(clock, 0.05)
    assert 0.05 <= loops * clock.each < 0.2


def test_spread_is_half_the_interquartile_range() -> None:
    assert Measurement((1.0, 2.0, 3.0, 4.0, 5.0)).spread == pytest.approx(1.0 / 3.0)
    assert Measurement((7.0,)).spread == 0.0
    assert geometric_mean([]) is None
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)


def test_table_has_ratios_means_and_findings() -> None:
    rows = [
        Row("trace and lower 1000 equations", "compiling", _measured(jit=2.0, jax=1.0)),
        Row("trace and lower 4000 equations", "compiling", _measured(jit=8.0, jax=16.0)),
        Row("memory", "processes", {"xpr jit": Measurement((64e6,))}, "B", ("it leaks",)),
    ]
    text = render(rows, markdown=True)
    assert "| trace and lower 1000 equations | 2 s | 1 s | 2.00 |" in text
    assert "| geometric mean |  |  | 1.00 |" in text
    assert "| memory | 64.0 MB |" in text
    assert findings(rows) == [
        "memory: it leaks",
        "xpr jit takes 4.0 times as long to trace and lower 4000 equations as 1000 (4 is linear)",
        "JAX jit takes 16.0 times as long to trace and lower 4000 equations as 1000 (4 is linear)",
    ]
    assert "geometric mean" in render(rows, markdown=False)


def _measured(jit: float, jax: float) -> dict[str, Measurement]:
    return {"xpr jit": Measurement((jit,)), "jax jit": Measurement((jax,))}


def test_a_worker_answers_like_a_session_of_this_process() -> None:
    worker = WorkerSession(sys.executable)
    try:
        (found,) = worker.prepare("cumsum 1M", "numpy", quick=True)
        (expected,) = LocalSession().prepare("cumsum 1M", "numpy", quick=True)
        np.testing.assert_array_equal(found, expected)
        assert 0 < worker.seconds(3) < 60
        with pytest.raises(RuntimeError, match="KeyError: 'no such case'"):
            worker.prepare("no such case", "numpy", quick=True)
        assert worker.seconds(1) > 0
    finally:
        worker.close()


@pytest.mark.parametrize("name", ON_DEVICES)
def test_cases_run_on_several_devices(name: str) -> None:
    case = CASES[name]
    worker = WorkerSession(sys.executable, case.devices, case.cores)
    try:
        assert worker.prepare(name, case.modes[0], quick=True) == []
        assert 0 < worker.seconds(1) < 60
    finally:
        worker.close()


def test_sharded_programs_run_and_say_what_they_move() -> None:
    command = [sys.executable, "-m", "benchmarks.moved", "--only", "product, contracted,softmax"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    # A sum of 64 x 32 float32 over 8 devices; a maximum and a sum of 64.
    assert "| product, contracted | 8 d | 14,336 |" in done.stdout
    assert "| softmax over a sharded axis | 8 d | 896 |" in done.stdout


_COMPILED = """HloModule jit_f

%body.1 (p: (f32[])) -> (f32[]) {
  %r = (f32[4]{0}, f32[]) all-reduce(%a, %b), replica_groups={{0,1},{2,3}}, to_apply=%add
  ROOT %p = f32[16]{0} collective-permute(%r), source_target_pairs={{0,1}}
}

ENTRY %main.2 (p: f32[]) -> f32[] {
  %g = bf16[8,2]{1,0} all-gather(%p), replica_groups=[2,4]<=[8], dimensions={0}
  %s = f32[4]{0} reduce-scatter(%g), replica_groups=mesh['a'=2,'b'=4] {'b'}, to_apply=%add
  %e = f32[6]{0} all-to-all(%s), replica_groups=mesh['a'=2,'b'=4] {'a'}, dimensions={0}
  %w = (f32[]) while(%e), condition=%c, body=%body.1, backend_config={"known_trip_count":{"n":"3"}}
}
"""


def test_collectives_of_compiled_programs_are_counted() -> None:
    assert list(moved.collectives(_COMPILED)) == [
        ("all-gather", 32 * 3 / 4, 1),
        ("reduce-scatter", 16 * 3.0, 1),
        ("all-to-all", 24 / 2, 1),
        ("all-reduce", 2 * 20 / 2, 3),
        ("collective-permute", 64.0, 3),
    ]


def test_the_command_prints_its_tables() -> None:
    options = ["--quick", "--rounds=1", "--markdown", "--only=matmul 256,outside jit,64 MB,trace"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for heading in ("Overhead of a call", "Tracing and compiling", "New processes", "Kernels"):
        assert f"## {heading}" in done.stdout
    assert "| matmul 256 |" in done.stdout
    assert "xpr jit / NumPy" in done.stdout


def test_compile_times_are_told_by_stage() -> None:
    options = ["--quick", "--rounds=1", "--only=compile: a sine"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if "compile: a sine" in line]
    assert len(rows) == 2
    dispatches, *stages = map(int, rows[1][3:])
    assert dispatches == 1
    assert len(stages) == 9
    assert sum(stages) > 20


def test_findings_about_checkpoints() -> None:
    rows = [
        Row(name, "checkpoints", {"xpr jit": Measurement((seconds,))})
        for name, seconds in zip(checkpoints.NAMES, (1.0, 1.25, 0.05), strict=False)
    ]
    (finding,) = checkpoints.findings(rows)
    assert "at 80% of the disk's rate" in finding
    assert "for 5.0% of" in finding
    assert checkpoints.findings(rows[:2]) == []


def test_the_command_names_what_it_cannot_find() -> None:
    command = [sys.executable, "-m", "benchmarks", "--only", "no such case"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=60
    )
    assert done.returncode == 2
    assert "no case contains any of 'no such case'" in done.stderr


def test_the_picture_of_programs_is_that_of_the_table() -> None:
    """One bar for each of the forty programs, besides the ground; the page has both."""
    ratios = ratios_of((ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"))
    assert len(ratios) == 40
    picture = ratios_svg(ratios)
    assert picture.count("<rect") == 41
    assert picture == (ROOT / "docs" / "_static" / "programs.svg").read_text(encoding="utf-8")
