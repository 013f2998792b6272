"""Commits are atomic: what is complete, what a process has left that died, and who may write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr.numpy as jnp
from xpr.experimental import checkpoint
from xpr.experimental.checkpoint import folder as folder_module


def _names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name != ".lock")


def test_what_does_not_count(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 3, 3)
    for name in ("5", "7.tmp-00000000", "007", "8.gone-00000000", "-1", "x", "9.old"):
        (tmp_path / name).mkdir()
    shutil.copy(tmp_path / "3" / "tree.json", tmp_path / "007")
    shutil.copy(tmp_path / "3" / "tree.json", tmp_path / "8.gone-00000000")
    (tmp_path / "10").write_text("a file")
    assert checkpoint.all_steps(tmp_path) == [3]
    assert checkpoint.latest_step(tmp_path) == 3


def test_what_a_dead_process_has_left_is_removed(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 3, 3)
    for name in ("4.tmp-0123abcd", "2.gone-0123abcd"):
        shutil.copytree(tmp_path / "3", tmp_path / name)
    (tmp_path / "notes.tmp").mkdir()
    checkpoint.save(tmp_path, 4, 4)
    assert _names(tmp_path) == ["3", "4", "notes.tmp"]


def test_overwriting_never_leaves_a_gap(tmp_path: Path) -> None:
    """Between the two renames the old one counts, and the next save puts it back."""
    checkpoint.save(tmp_path, 3, "old")
    os.rename(tmp_path / "3", tmp_path / "3.old")
    assert checkpoint.all_steps(tmp_path) == [3]
    assert checkpoint.restore(tmp_path) == "old"
    checkpoint.save(tmp_path, 4, "next")
    assert _names(tmp_path) == ["3", "4"]
    shutil.copytree(tmp_path / "3", tmp_path / "3.old")
    checkpoint.save(tmp_path, 3, "new", overwrite=True)
    assert _names(tmp_path) == ["3", "4"]
    assert checkpoint.restore(tmp_path, 3) == "new"


def test_everything_is_on_the_disk_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    synced, renamed = os.fsync, os.rename

    def fsync(handle: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{handle}"))
        synced(handle)

    def rename(old: Any, new: Any) -> None:
        done.append("rename")
        renamed(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    checkpoint.save(tmp_path, 1, {"w": jnp.ones((300, 2))})
    at = done.index("rename")
    before = {Path(p).name.partition(".tmp")[0] for p in done[:at]}
    # tensorstore waits for its own files
    assert before == {"tree.json", "1", "arrays", "0.w", "c", "0"}
    assert done[at + 1 :] == [str(tmp_path)]


def test_keep(tmp_path: Path) -> None:
    with checkpoint.Checkpointer(tmp_path, keep=2) as checkpointer:
        for step in (10, 20, 30):
            checkpointer.save(step, step)
        assert checkpointer.all_steps() == [20, 30]
        checkpointer.save(5, 5)  # one that was just saved stays
        assert checkpointer.all_steps() == [5, 20, 30]
        checkpointer.save(40, 40)
        assert checkpointer.all_steps() == [30, 40]
        assert checkpointer.latest_step() == 40
        assert checkpointer.metadata(30) == 30
    assert _names(tmp_path) == ["30", "40"]


# ---- two writers


_OTHER = """
import sys
from xpr.experimental import checkpoint
try:
    checkpoint.save(sys.argv[1], 2, 2)
except checkpoint.CheckpointError as error:
    print(error)
"""


def test_two_writers(tmp_path: Path, gate: threading.Event) -> None:
    with checkpoint.Checkpointer(tmp_path) as one, checkpoint.Checkpointer(tmp_path) as other:
        one.save(1, 1, wait=False)
        expected = (
            rf"two writers at once: saving step 2 in .* while process {os.getpid()} on .*step 1"
        )
        with pytest.raises(checkpoint.CheckpointError, match=expected):
            other.save(2, 2)
        found = subprocess.run(
            [sys.executable, "-c", _OTHER, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert f"while process {os.getpid()} on" in found.stdout
        assert len(_names(tmp_path)) == 1  # nobody removed what is being written
        gate.set()
        one.wait()
        other.save(2, 2)
    assert checkpoint.all_steps(tmp_path) == [1, 2]


_RACE = """
import sys
import numpy as np
from xpr.experimental import checkpoint
saved = []
for i in range(60):
    try:
        checkpoint.save(sys.argv[1], i, np.full(1000, i * 2 + int(sys.argv[2])))
        saved.append(i)
    except (checkpoint.CheckpointError, FileExistsError):
        pass
print(saved)
"""


@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_a_race_of_two_writers(locks: bool, tmp_path: Path) -> None:
    """Each step is saved by one of them and is whole, also on a file system without locks."""
    body = _RACE
    if not locks:
        body = "import fcntl\ndef flock(*a): raise OSError(38)\nfcntl.flock = flock\n" + body
    both = [
        subprocess.Popen(
            [sys.executable, "-c", body, str(tmp_path), str(i)], stdout=subprocess.PIPE, text=True
        )
        for i in range(2)
    ]
    saved = [eval(process.communicate(timeout=120)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert not set(saved[0]) & set(saved[1])
    assert checkpoint.all_steps(tmp_path) == sorted(saved[0] + saved[1])
    for who, steps in enumerate(saved):
        for step in steps[::7]:
            found = checkpoint.restore(tmp_path, step)
            np.testing.assert_array_equal(found, np.full(1000, step * 2 + who))


# ---- a full disk

_FULL = """
import errno, os, resource, sys
import numpy as np
from xpr.experimental import checkpoint
folder = sys.argv[1]
checkpoint.save(folder, 1, {"w": np.ones(1000)})
limits = {"values": 30_000, "structure": 2_000}
for what, limit in limits.items():
    tree = {"w": np.ones(10_000)} if what == "values" else {"w": "x" * 10_000}
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        checkpoint.save(folder, 2, tree)
    except OSError as error:
        print(what, errno.errorcode[error.errno], "['w']" in str(error), error.__notes__[-1][:22])
    print(sorted(os.listdir(folder)), checkpoint.restore(folder)["w"].sum())
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
with checkpoint.Checkpointer(folder) as checkpointer:
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))
    checkpointer.save(2, {"w": np.ones(10_000)}, wait=False)
    try:
        checkpointer.wait()
    except OSError as error:
        print("later", errno.errorcode[error.errno])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    checkpointer.save(2, {"w": np.ones(10_000)}, wait=False)
print(sorted(os.listdir(folder)), checkpoint.restore(folder)["w"].sum())
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """The old checkpoint stays, nothing is left of the new one, and it works when there is room."""
    found = subprocess.run(
        [sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [
        "values EFBIG True This was saving step 2",
        "['.lock', '1'] 1000.0",
        "structure EFBIG False This was saving step 2",
        "['.lock', '1'] 1000.0",
        "later EFBIG",
        "['.lock', '1', '2'] 10000.0",
    ]


def test_locks_end_with_the_save(tmp_path: Path) -> None:
    for attempt in range(3):
        with pytest.raises(TypeError, match="cannot keep"):
            checkpoint.save(tmp_path, attempt, object())
        lock = folder_module.Folder(tmp_path).lock(0)
        assert lock.is_held
        lock.release()
        lock.release()
