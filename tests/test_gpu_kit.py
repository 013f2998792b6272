"""The kit for a machine with a GPU: it is made, is whole, and its cache lacks nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import kit, report, rows, runner, unpack
from benchmarks.gpu.rows import Outcome

_ONLY = "device/call,hazards/byte_products,hazards/loops,operations/int8/compare/0"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of nothing in place of those that are downloaded."""
    folder = tmp_path_factory.mktemp("wheels")
    with zipfile.ZipFile(folder / "nothing-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("nothing.py", "")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Path:
    """A small kit for a card that is not here."""
    folder = tmp_path_factory.mktemp("kit") / "kit"
    arguments = [str(folder), "--device", "cuda:sm_90", "--only", _ONLY, "--quick"]
    assert kit.main([*arguments, "--wheels", str(wheels)]) == 0
    return folder


def _call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(folder / "gpu_kit.py"), *arguments],
        env={**os.environ, "PYTHONPATH": "", "XPR_ABSENT": "cuda:sm_90"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_kit_runs_without_the_compiler_and_misses_nothing(made: Path, tmp_path: Path) -> None:
    """Nothing of what it was filled for: one row more is a miss."""
    lines = tmp_path / "lines.jsonl"
    asked = f"{_ONLY},hazards/empty"
    done = _call(made, "--runtime", "absent", "--lines", str(lines), "--only", asked)
    assert done.returncode == 1
    assert "absent: 4 rows right, 1 failed, 1 of them misses" in done.stderr
    assert "(its programs return zeros)" in done.stderr
    outcomes = runner.read_lines(lines)
    assert [o["row"] for o in outcomes] == rows.chosen(asked)
    (missed,) = (o for o in outcomes if not o["ok"])
    assert missed["row"] == "hazards/empty"
    assert missed["miss"]
    assert "requires iree-base-compiler" in missed["failure"]
    assert sum(p.stat().st_size for p in made.rglob("*") if p.is_file()) < kit.MOST_BYTES


def test_a_device_that_does_not_work_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--runtime", "metal", "--lines", str(tmp_path / "lines.jsonl")]
    assert command.main(arguments) == command.NO_DEVICE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("metal cannot be used: RuntimeError: Unable to initialize backend metal")


def test_a_damaged_kit_is_one_line(made: Path, tmp_path: Path) -> None:
    copy = tmp_path / "kit"
    for file in made.rglob("*"):
        if file.is_file():
            there = copy / file.relative_to(made)
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(file.read_bytes())
    archive = copy / "cache.tar.xz"
    whole = archive.read_bytes()
    for change, words in (
        (lambda: archive.write_bytes(whole[:-1]), "cache.tar.xz is not as it was made"),
        (archive.unlink, "cache.tar.xz: "),
        (lambda: (copy / "manifest.json").write_text("{"), "manifest.json: "),
    ):
        change()
        done = _call(copy)
        assert done.returncode == unpack.UNUSABLE
        (line,) = done.stderr.splitlines()
        assert "is damaged" in line
        assert words in line


def test_a_kit_for_another_python_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / "thing-1-cp39-cp39-linux_x86_64.whl").touch()
    with pytest.raises(unpack.UnusableKitError, match="is for another Python than this one, cp3"):
        unpack.check_machine(tmp_path)
    (folder / "thing-1-cp39-cp39-linux_x86_64.whl").rename(
        folder / "thing-1-cp39-abi3-linux_x86_64.whl"
    )
    unpack.check_machine(tmp_path)
    monkeypatch.setattr(unpack, "_NEEDED", ("numpy", "no_such_module"))
    with pytest.raises(unpack.UnusableKitError, match="the kit needs no_such_module, which this"):
        unpack.check_machine(tmp_path)


def test_what_cannot_be_made_says_why(
    tmp_path: Path,
    wheels: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").touch()
    assert kit.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"{tmp_path} is not empty\n"
    arguments = ["--device", "cuda:sm_90", "--only", "device/table", "--wheels", str(wheels)]
    statuses = [command.RIGHT, command.RIGHT, command.FAILED]
    monkeypatch.setattr(command, "main", lambda arguments: statuses.pop(0))
    monkeypatch.setattr(kit, "MOST_BYTES", 1000)
    assert kit.main([str(tmp_path / "kit"), *arguments]) == 1
    assert "bytes, more than 1000" in capsys.readouterr().err
    arguments[-1] = str(tmp_path)
    assert kit.main([str(tmp_path / "other"), *arguments]) == 1
    assert "holds no wheels" in capsys.readouterr().err
    assert kit.main([str(tmp_path / "failed"), *arguments]) == 1
    assert "some rows failed for cuda:sm_90" in capsys.readouterr().err


_BAD_WORKER = """
import json, os, sys, time
for line in sys.stdin:
    name = line.strip()
    if name == "dies":
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), 11)
    if name == "hangs":
        time.sleep(1000)
    print(json.dumps({"row": name, "ok": name == "works", "seconds": 0}), flush=True)
"""


def test_rows_that_end_their_process_or_never_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad_worker.py").write_text(_BAD_WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(runner, "_START_SECONDS", 20.0)

    def start() -> runner.Worker:
        return runner.Worker("cpu", (), {}, "bad_worker")

    worker = start()
    assert worker.run("works", 20) == ({"row": "works", "ok": True, "seconds": 0}, True)
    outcome, goes_on = worker.run("dies", 20)
    assert not goes_on
    assert outcome["failure"] == "the process ended by signal 11"
    assert "last words" in outcome["said"]
    worker.end()
    worker = start()
    assert worker.run("fails", 20)[1] is False
    outcome, goes_on = worker.run("hangs", 0.2)
    assert (outcome["failure"], goes_on) == ("took more than 0.2 s", False)


def test_a_run_goes_on_where_an_earlier_one_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Fake:
        def __init__(self, *_: object) -> None:
            pass

        def run(self, name: str, limit: float) -> tuple[Outcome, bool]:
            asked.append(name)
            return {"row": name, "ok": name != "device/call", "seconds": limit}, True

        def end(self) -> None:
            pass

    monkeypatch.setattr(runner, "Worker", Fake)
    file = tmp_path / "lines.jsonl"
    names = ["device/table", "device/call", "hazards/loops"]
    assert len(runner.run_rows(names[:2], "cpu", file)) == 2
    file.write_text(file.read_text() + '{"row": "hazards/lo')  # the process was ended here
    found = runner.run_rows(names, "cpu", file)
    assert asked == names
    assert [o["row"] for o in found] == names
    assert report.summary(found, 5) == "2 rows right, 1 failed, 0 of them misses, 2 not run"
    assert runner.run_rows(names, "vulkan", file, minutes=1e-9) == []


def test_lines_of_another_kind_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text("nonsense\n{}\n")
    with pytest.raises(ValueError, match=r"lines\.jsonl, line 1: not the outcome of a row"):
        runner.read_lines(file)
    assert command.main(["tables", str(tmp_path / "none")]) == command.USAGE
    assert command.main(["--only", "no such row"]) == command.USAGE
    for bad in (["tables"], ["words"], ["--minutes", "0"]):
        with pytest.raises(SystemExit):
            command.main(bad)


def test_the_tables_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (
        {"row": "device/table", "kind": "H100", "features": "sm_90", "xpr": "1", "ok": True},
        {"row": "timings/softmax", "ok": True, "xpr ms": 0.5, "torch ms": 0.4, "xpr GB/s": 1500},
        {"row": "operations/float32/sort/0", "ok": False, "failure": "wrong", "said": "no\nword"},
    )
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(json.dumps(line | {"runtime": "cuda"}) + "\n" for line in lines))
    assert command.main(["tables", str(file)]) == 0
    text = capsys.readouterr().out
    assert "H100 (sm_90), xpr 1." in text
    assert "| operations/float32 | 0 | 1 |" in text
    assert "| softmax | 0.5 |  | 0.4 |  | 1500 |" in text
    assert "- `operations/float32/sort/0`: wrong" in text


def test_a_rehearsal_has_some_of_the_operation_table() -> None:
    names = list(rows.all_rows())
    some = rows.sample(names)
    others = [name for name in names if not name.startswith("operations/")]
    assert [name for name in some if name in others] == others
    assert 10 < len(some) - len(others) < 40
    assert {"hazards/loops", "timings/softmax", "memory/large"} <= set(some)
