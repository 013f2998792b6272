"""The example of a fit runs as a user runs it, and agrees with SciPy."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "curve_fit.py"


def test_curve_fit_agrees_with_scipy_and_saves_a_plot(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    line = r"^([\w ]+) against SciPy: greatest relative difference (\S+) \(ok\)$"
    found = re.findall(line, done.stdout, flags=re.MULTILINE)
    assert [what for what, _ in found] == ["parameters", "standard errors"]
    assert all(float(difference) <= 1e-4 for _, difference in found)

    # Nuclei are nearly discs: area = pi r².
    exponent = re.search(r"^b = (\S+) ± (\S+)$", done.stdout, flags=re.MULTILINE)
    assert exponent is not None, done.stdout
    assert abs(float(exponent[1]) - 2) < 3 * float(exponent[2])

    picture = (tmp_path / "curve_fit.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n")
    assert len(picture) > 10_000


@pytest.fixture(scope="module")
def curve_fit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("curve_fit", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_curve_fit_reports_a_mismatch(
    curve_fit: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = np.array([1.0, 2.0])
    assert curve_fit.compare("here", expected * (1 + 1e-6), expected)
    assert "(ok)" in capsys.readouterr().out
    assert not curve_fit.compare("here", np.array([1.0, 2.1]), expected)
    assert "MISMATCH" in capsys.readouterr().out


@pytest.mark.parametrize("n", [1, 2, 5])
def test_curve_fit_solves_small_systems(curve_fit: ModuleType, n: int) -> None:
    rng = np.random.default_rng(n)
    root = rng.standard_normal((n, n))
    matrix, rhs = root @ root.T + np.eye(n), rng.standard_normal(n)
    found = curve_fit.cholesky_solve(
        curve_fit.xnp.array(matrix, dtype="float32"), curve_fit.xnp.array(rhs, dtype="float32")
    )
    # The condition numbers are below 100, so float32 leaves 4 digits or more.
    np.testing.assert_allclose(
        np.asarray(found), np.linalg.solve(matrix, rhs), rtol=1e-3, atol=1e-4
    )
