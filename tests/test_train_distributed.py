"""The example of training in several processes: killed and resumed, it ends as it would have."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import xpr
from xpr import tree
from xpr.experimental import checkpoint

pytest.importorskip("mpi4py", reason="several processes need mpi4py, of the extra mpi")
pytest.importorskip("tensorstore", reason="checkpoints need tensorstore, of the extra checkpoint")

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "train_distributed.py"


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "XPR_NUM_CPU_DEVICES"},
    )


def test_a_killed_training_goes_on_and_ends_with_the_same_parameters(tmp_path: Path) -> None:
    given = ("--steps", "7", "--every", "3", "--layers", "1", "--output", "made")
    done = _run(tmp_path, *given)
    assert done.returncode == 0, done.stdout + done.stderr

    assert "process 1 of 2 is killed after step 4" in done.stdout
    assert "started again: the last complete checkpoint is of step 3" in done.stdout
    goes_on = re.findall(r"process (\d) of 2 goes on from step 3$", done.stdout, re.MULTILINE)
    assert sorted(goes_on) == ["0", "1"]
    # Process 0 raises, and says who is gone.
    assert re.search(r"PeerError: .* process 1 \(host .*\) is gone", done.stdout + done.stderr)
    losses = re.findall(r"loss ([\d.]+) at first, ([\d.]+) at last", done.stdout)
    assert len(losses) == 2
    assert losses[0] == losses[1]
    assert float(losses[0][1]) < float(losses[0][0]) - 1

    # What is on the disk says it, too.
    states = [
        checkpoint.restore(tmp_path / "made" / name / "checkpoints", 7)["state"]
        for name in ("calm", "killed")
    ]
    first, second = (tree.leaves(state) for state in states)
    assert len(first) == len(second) > 20
    for a, b in zip(first, second, strict=True):
        assert isinstance(a, xpr.Array)
        assert a.tobytes() == b.tobytes()
    assert (tmp_path / "made" / "loss.png").read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--steps", "0"), "--steps must be 1 or more, got 0"),
        (("--processes", "3"), "--processes must divide the 32 pieces of a batch, got 3"),
    ],
)
def test_arguments_that_cannot_be(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = _run(tmp_path, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
