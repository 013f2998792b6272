"""The example of deployment runs as a user runs it, and all ways to run the bundle agree."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "deploy" / "export_digits.py"


def test_the_digits_classifier_is_deployed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--epochs", "1", "--output", "deployed"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr

    size = re.search(r"^deployed/digits\.xpr: .* (\d+\.\d) kB without weights$", done.stdout, re.M)
    assert size is not None, done.stdout
    assert float(size[1]) < 256
    line = r"^([\w-]+) on (\w+): greatest difference (\S+), 0 classes differ \(ok\)$"
    found = [(way, platform) for way, platform, _ in re.findall(line, done.stdout, re.M)]
    usable = ["cpu"] if "vulkan is left out: " in done.stdout else ["cpu", "vulkan"]
    assert found == [(w, p) for p in usable for w in ("loader", "iree-run-module")]
    times = re.findall(r"^loader on \w+: load and first call .* ms, later calls", done.stdout, re.M)
    assert len(times) == len(usable)

    # What was copied is all that another machine needs.
    folder = tmp_path / "deployed"
    loader, original = folder / "bundle.py", ROOT / "runtimes" / "bundle" / "one_file" / "bundle.py"
    assert loader.read_bytes() == original.read_bytes()
    command = [sys.executable, "bundle.py", "digits.xpr", "--input", "images.npy"]
    command += ["--output", "again.npy", "--output", "likely.npy", "--platform", "cpu"]
    subprocess.run(command, check=True, cwd=folder, timeout=120)
    np.testing.assert_array_equal(np.load(folder / "again.npy").shape, (64,))
    np.testing.assert_allclose(np.load(folder / "likely.npy").sum(1), 1, rtol=1e-5)


@pytest.mark.skipif(
    "IREE_INCLUDE_DIR" not in os.environ or shutil.which("cc") is None,
    reason="IREE_INCLUDE_DIR names no folder with IREE's headers, or there is no C compiler",
)
def test_the_program_in_c_compiles_against_the_headers_of_iree(tmp_path: Path) -> None:
    program = Path(__file__).parents[1] / "examples" / "deploy" / "classify.c"
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-I", os.environ["IREE_INCLUDE_DIR"])
    command = ["cc", *flags, "-c", str(program), "-o", str(tmp_path / "classify.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
