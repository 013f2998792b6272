"""The example runs as a user runs it, and tells when something is wrong."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "quickstart.py"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_quickstart_classifies_saves_and_runs_without_python(tmp_path: Path) -> None:
    module = tmp_path / "digits.vmfb"
    done = _run("--output", str(module))
    assert done.returncode == 0, done.stdout + done.stderr

    accuracy = re.search(r"^accuracy: (\d\.\d+)", done.stdout, flags=re.MULTILINE)
    assert accuracy is not None, done.stdout
    assert float(accuracy[1]) >= 0.97

    line = r"^(against NumPy|iree-run-module): greatest difference (\S+), (\d+) classes differ \(ok"
    differences = re.findall(line, done.stdout, flags=re.MULTILINE)
    assert [name for name, _, _ in differences] == ["against NumPy", "iree-run-module"]
    assert all(float(difference) <= 1e-3 for _, difference, _ in differences)
    assert all(int(disagree) == 0 for _, _, disagree in differences)
    assert module.stat().st_size > 0


def test_quickstart_fails_where_the_module_cannot_be_saved(tmp_path: Path) -> None:
    done = _run("--output", str(tmp_path / "no such folder" / "digits.vmfb"))
    assert done.returncode != 0
    assert "no such folder" in done.stderr


@pytest.fixture(scope="module")
def quickstart() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quickstart", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("classes", "distance"), [([1, 3], 0.5), ([1, 2], 0.75)])
def test_quickstart_reports_a_mismatch(
    quickstart: ModuleType,
    capsys: pytest.CaptureFixture[str],
    classes: list[int],
    distance: float,
) -> None:
    expected = (np.array([1, 2]), np.array([[0.5], [0.5]]))
    found = (np.array(classes), np.array([[0.5], [distance]]))
    assert quickstart.compare("here", expected, expected)
    assert "(ok)" in capsys.readouterr().out
    assert not quickstart.compare("here", found, expected)
    assert "MISMATCH" in capsys.readouterr().out


def test_quickstart_says_why_a_module_does_not_run(quickstart: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "broken.vmfb"
    file.write_bytes(b"no module")
    with pytest.raises(RuntimeError, match="iree-run-module failed with"):
        quickstart.run_module(file, [np.zeros(3, np.float32)], results=1)
