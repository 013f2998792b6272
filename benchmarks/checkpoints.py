"""Saving 1 GB over two processes, beside what ``dd`` writes to the same disk in the same run.

``python -m benchmarks.checkpoints FOLDER BYTES ROUNDS`` is what each of the processes does; MPI's
launcher starts them. The figures are the least of several rounds, in which all take turns: a disk
that somebody else uses, too, is never faster than it is, and often slower.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.launched import launch, launcher
from benchmarks.report import Row, progress
from benchmarks.timing import Measurement

NAMES = (
    "1 GB by dd with conv=fsync",
    "save 1 GB over 2 processes",
    "save 1 GB in the background: until save returns",
    "save 1 GB in the background: what the next step, which donates it, takes longer",
    "save 1 GB in the background: until it is complete",
    "restore 1 GB over 2 processes",
)
_KEYS = ("dd", "save", "call", "longer", "behind", "restore")


def measure(rounds: int, wanted: frozenset[str], quick: bool) -> list[Row]:
    """The rows among `NAMES` that are wanted."""
    if launcher() is None or shutil.which("dd") is None:
        progress("mpi4py, mpirun or dd is missing: checkpoints are not measured")
        return []
    size = 1 << 25 if quick else 1 << 30
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = launch(2, ["-m", __name__, folder, str(size), str(rounds)])
        except RuntimeError as error:
            return [Row(NAMES[1], "checkpoints", {}, remarks=(str(error),))]
    rows = []
    for name, key in zip(NAMES, _KEYS, strict=True):
        if name in wanted:
            # A difference of two times may be negative where there is none.
            least = max(0.0, min(answer[key] for answer in found))
            rows.append(Row(name, "checkpoints", {"xpr jit": Measurement((least,))}))
    return rows


def findings(rows: Sequence[Row]) -> list[str]:
    """How saving compares with the disk, and for how much of that a program is stopped."""
    mine = [row for row in rows if row.name in NAMES and row.measured]
    seconds = {row.name: row.measured["xpr jit"].least for row in mine}
    if not seconds.keys() >= set(NAMES[:3]):
        return []
    disk, save, call = (seconds[name] for name in NAMES[:3])
    return [
        f"saving runs at {disk / save:.0%} of the disk's rate; in the background it stops a "
        f"program for {call / disk:.1%} of the disk's time"
    ]


def _dd(path: Path, size: int) -> float:
    block = 1 << 20
    start = time.perf_counter()
    subprocess.run(
        ["dd", "if=/dev/zero", f"of={path}", f"bs={block}", f"count={size // block}", "conv=fsync"],
        check=True,
        capture_output=True,
    )
    taken = time.perf_counter() - start
    path.unlink()
    return taken


def _main(folder: Path, size: int, rounds: int) -> None:
    # What is measured is loaded by the processes that measure.
    import numpy as np  # noqa: PLC0415

    import xpr  # noqa: PLC0415
    from xpr.experimental import checkpoint, multihost_utils  # noqa: PLC0415
    from xpr.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: PLC0415

    xpr.distributed.initialize()
    first = xpr.process_index() == 0
    place = NamedSharding(Mesh(np.array(xpr.devices()), ("x",)), PartitionSpec("x"))
    shape = (size // 8 // 4 // 1024, 1024)
    rng = np.random.default_rng(0)
    step = xpr.jit(lambda tree: [x * 0.999 for x in tree], donate_argnums=0)
    part = rng.standard_normal(place.shard_shape(shape), dtype=np.float32)
    tree: list[Any] = [
        xpr.make_array_from_callback(shape, place, lambda _, i=i: part + np.float32(i))
        for i in range(8)
    ]
    answers = []
    checkpointer = checkpoint.Checkpointer(folder / "checkpoints")
    for i in range(rounds + 1):
        answer = {}
        tree = xpr.block_until_ready(step(tree))
        multihost_utils.sync_global_devices("step")
        start = time.perf_counter()
        tree = xpr.block_until_ready(step(tree))
        usual = time.perf_counter() - start
        answer["dd"] = _dd(folder / "dd", size) if first else 0.0
        multihost_utils.sync_global_devices("dd")
        start = time.perf_counter()
        checkpointer.save(2 * i, tree)
        answer["save"] = time.perf_counter() - start
        multihost_utils.sync_global_devices("saved")

        start = time.perf_counter()
        checkpointer.restore(2 * i, like=tree)
        answer["restore"] = time.perf_counter() - start
        multihost_utils.sync_global_devices("restored")

        start = time.perf_counter()
        checkpointer.save(2 * i + 1, tree, wait=False)
        answer["call"] = time.perf_counter() - start
        begin = time.perf_counter()
        tree = xpr.block_until_ready(step(tree))
        answer["longer"] = time.perf_counter() - begin - usual
        checkpointer.wait()
        answer["behind"] = time.perf_counter() - start
        multihost_utils.sync_global_devices("written")
        if first:
            shutil.rmtree(checkpointer.directory)
        multihost_utils.sync_global_devices("removed")
        if i:  # the first round takes memory and disk into use
            answers.append(answer)
    everybody = multihost_utils.process_allgather(
        np.array([[answer[key] for key in _KEYS] for answer in answers], np.float32)
    )
    if first:  # a round has taken what the slower process took
        worst = np.max(everybody, axis=0).tolist()
        print(json.dumps([dict(zip(_KEYS, row, strict=True)) for row in worst]))


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
