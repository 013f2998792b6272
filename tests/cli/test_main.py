"""The command as a whole: help, exit status, errors as one line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

import xpr.version
from xpr.cli.errors import CommandError, one_line

from .conftest import Call

ROOT = Path(__file__).parents[2]
COMMANDS = tuple("devices compile run inspect bench cache launch replay sentinel".split())


def test_help_lists_every_command(call: Call) -> None:
    status, out, err = call("--help")
    assert (status, err) == (0, "")
    listed = re.findall(r"^    (\w+) ", out, flags=re.MULTILINE)
    assert tuple(listed) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(call: Call, command: str) -> None:
    status, out, err = call(command, "--help")
    assert (status, err) == (0, "")
    assert f"\nexample:\n  xpr {command}" in out
    assert "--traceback" in out


def test_the_version_is_the_packages(call: Call) -> None:
    assert call("--version") == (0, f"xpr {xpr.version.__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("cache", "burn"),
        ("inspect",),
        ("compile", "model.py:f"),
        ("bench", "model.xpr", "--seconds", "fast"),
    ],
)
def test_a_wrong_command_line_gives_2(call: Call, arguments: tuple[str, ...]) -> None:
    status, out, err = call(*arguments)
    assert (status, out) == (2, "")
    assert "usage: xpr" in err


def test_a_failure_is_one_line_and_gives_1(call: Call, folder: Path) -> None:
    for command in ("inspect", "run", "bench"):
        line = f"xpr {command}: missing.vmfb: No such file or directory\n"
        assert call(command, "missing.vmfb") == (1, "", line)


def test_traceback_shows_where_a_failure_came_from(call: Call, folder: Path) -> None:
    arguments = ("compile", "model.py:fails", "--args", "f32[2]", "-o", "f.vmfb")
    status, _, err = call(*arguments)
    assert status == 1
    assert err.count("\n") == 1
    assert err.startswith("xpr compile: ZeroDivisionError: ")
    assert err.endswith(f"(at {folder / 'model.py'}:14)\n")
    status, _, err = call(*arguments, "--traceback")
    assert status == 1
    assert err.startswith("Traceback (most recent call last):")
    assert "return 1 // 0" in err


def test_an_error_of_xpr_names_the_users_line(call: Call, folder: Path) -> None:
    status, _, err = call(
        "compile", "model.py:mismatch", "--args", "f32[2]", "f32[3]", "-o", "m.vmfb"
    )
    assert status == 1
    assert err.count("\n") == 1
    assert "dot_general requires contracting dimensions to have the same shape, got (2,)" in err
    assert re.search(rf"called from {re.escape(str(folder))}/model\.py:17:\d+", err)


def test_long_messages_are_cut() -> None:
    text = one_line(CommandError("word " * 1000))
    assert len(text) < 500
    assert text.endswith("... (--traceback shows all)")


def test_it_is_a_module_and_a_script() -> None:
    """`python -m xpr` is the command, which loads nothing of IREE to say what it is."""
    script = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert script == {"xpr": "xpr.cli:main"}
    code = (
        "import sys\n"
        "from xpr.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.split('.')[0] == 'iree' or 'lowering' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"
    done = subprocess.run(
        [sys.executable, "-m", "xpr", "inspect", "nowhere.vmfb"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "xpr inspect: nowhere.vmfb: No such file or directory\n"


@pytest.mark.skipif(os.name != "posix", reason="a closed pipe is told in another way")
@pytest.mark.parametrize("command", ["cache ls", "--help"])
def test_a_reader_that_goes_away_is_no_complaint(tmp_path: Path, command: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m xpr {command} | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "XPR_CACHE_DIR": str(tmp_path)},
    )
    assert done.stderr == ""
    assert done.stdout in ("0\n", "1\n")


@pytest.mark.skipif(os.name != "posix", reason="an interrupt is told in another way")
def test_ctrl_c_ends_a_command_without_a_traceback(folder: Path) -> None:
    arguments = ("compile", "model.py:waits", "--args", "f32[2]", "-o", "f.vmfb")
    with subprocess.Popen(
        [sys.executable, "-m", "xpr", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert not (folder / "f.vmfb").exists()


def test_a_warning_is_one_line(call: Call, folder: Path, monkeypatch) -> None:
    """A folder that cannot be made: compiled programs are not kept, and the command goes on."""
    (folder / "file").touch()
    monkeypatch.setenv("XPR_CACHE", "1")
    monkeypatch.setenv("XPR_CACHE_DIR", str(folder / "file"))
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # the tests make errors of warnings
        done = call("compile", "model.py:Held.half", "--args", "f32[3]", "-o", "h.vmfb")
    assert done.status == 0
    assert done.err.startswith("xpr compile: warning: compiled programs are not cached: ")
    assert done.err.count("\n") == 1
