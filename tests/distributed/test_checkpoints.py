"""Checkpoints of several processes: each writes and reads what its devices hold, and all agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr.experimental import checkpoint
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

VALUES = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)

# What the programs below share: shardings over all devices, and the shares of tensorstore's work.
COMMON = """
import os
import sys
import numpy as np
import tensorstore
import xpr
import xpr.numpy as jnp
from xpr.experimental import checkpoint
from xpr.sharding import Mesh, NamedSharding, PartitionSpec as P

me, directory = xpr.process_index(), sys.argv[1]
values = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
devices = np.array(xpr.devices())
line = Mesh(devices, ("x",))
rows, columns, everywhere = (NamedSharding(line, s) for s in (P("x"), P(None, "x"), P()))

def done(what):
    name = f"/tensorstore/kvstore/file/bytes_{what}"
    found = tensorstore.experimental_collect_matching_metrics(name)
    return found[0]["values"][0]["value"] if found else 0

def is_right(x, expected, sharding):
    assert x.sharding == sharding, x.sharding
    assert x.shape == expected.shape
    assert len(x.addressable_shards) == len(xpr.local_devices())
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), expected[shard.index])

def struct(x, sharding):
    return xpr.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)
"""

_SAVE = """
grid = NamedSharding(Mesh(devices.reshape(2, 2)[::-1], ("a", "b")), P("b", "a"))
elsewhere = NamedSharding(Mesh(devices[2:], "x"), P("x"))
tree = {
    "rows": xpr.device_put(values, rows),
    "grid": xpr.device_put(values.astype(jnp.bfloat16), grid),
    "everywhere": xpr.device_put(values[:64], everywhere),
    "few": xpr.device_put(np.arange(8), rows),
    "few everywhere": xpr.device_put(np.arange(8), NamedSharding(Mesh(devices[::-1], "x"), P())),
    "of process 1": xpr.device_put(values[:128], elsewhere),
    "own": jnp.arange(1000),
    "host": np.arange(1000),
    "key": xpr.random.key(5),
    "step": 7,
    "none": None,
}
before = done("written")
checkpoint.save(directory, 1, tree)
assert checkpoint.all_steps(directory) == [1]
mine = (done("written") - before) / (values.nbytes + values.nbytes / 2)
assert (0.49 if me == 0 else 0.57) < mine < (0.56 if me == 0 else 0.6), mine
before = done("read")
found = checkpoint.restore(directory, like={
    **tree,
    "rows": struct(values, columns),
    "grid": struct(tree["grid"], rows),
    "everywhere": struct(values[:64], rows),
    "own": ...,
    "host": ...,
})
is_right(found["rows"], values, columns)
is_right(found["grid"], values.astype(jnp.bfloat16), rows)
is_right(found["everywhere"], values[:64], rows)
is_right(found["few"], np.arange(8), rows)
assert found["of process 1"].sharding == elsewhere
for shard in found["of process 1"].addressable_shards:
    np.testing.assert_array_equal(np.asarray(shard.data), values[:128][shard.index])
np.testing.assert_array_equal(np.asarray(found["few everywhere"]), np.arange(8))
assert bool(found["key"] == tree["key"])
assert found["step"] == 7
# All rows are needed for columns, then half of the grid, and a 16th; process 1 has an 8th alone.
mine = (done("read") - before) / values.nbytes
assert 1.31 < mine - me / 8 < 1.33, mine

# Training goes on while checkpoints are written, with collectives of its own.
@xpr.jit
def learn(x):
    return x - 0.5 * xpr.numpy.mean(x, axis=0, keepdims=True)

learn_here = xpr.jit(learn, donate_argnums=0)
x, expected = xpr.device_put(values, rows), values
with checkpoint.Checkpointer(directory, keep=2) as checkpointer:
    for step in range(2, 6):
        x = learn_here(x)
        checkpointer.save(step, {"x": x, "step": step}, wait=False)
    x = learn_here(x)
    checkpointer.wait()
    assert checkpointer.all_steps() == [4, 5]
    found = checkpointer.restore(like={"x": x, "step": 0})
    again = learn_here(found["x"])
    for a, b in zip(again.addressable_shards, x.addressable_shards):
        assert np.asarray(a.data).tobytes() == np.asarray(b.data).tobytes()
    assert found["step"] == 5
checkpoint.save(directory, 9, tree)
print("saved")
"""

_RESTORE = """
assert checkpoint.latest_step(directory) == 9
before = done("read")
found = checkpoint.restore(directory, like={
    "rows": struct(values, rows),
    "grid": xpr.ShapeDtypeStruct(values.shape, "bfloat16", sharding=columns),
    **dict.fromkeys(["everywhere", "few", "few everywhere", "own", "host", "key", "none"], ...),
    "of process 1": ...,
    "step": 0,
})
is_right(found["rows"], values, rows)
is_right(found["grid"], values.astype(jnp.bfloat16), columns)
assert found["step"] == 7
# A quarter of one, and of the other two parts of four, each half of what is in a file.
mine = (done("read") - before) / values.nbytes
assert 0.5 < mine < 0.51, mine
found = checkpoint.restore(directory)  # each has all of it
np.testing.assert_array_equal(found["rows"], values)
assert found["own"].devices() == {xpr.local_devices()[0]}
found = checkpoint.restore(directory + "/one", like=[struct(values, rows)])
is_right(found[0], values, rows)
print("restored")
"""


def test_processes_save_and_others_restore(run_processes, tmp_path: Path):
    """Saved by 2 with 2 devices each; restored by them, by 4 with one each, and by one."""
    folder = tmp_path / "c"
    out = run_processes(2, COMMON + _SAVE, devices=2, arguments=(str(folder),)).out
    assert out == ["saved\n"] * 2
    checkpoint.save(folder / "one", 0, [jnp.asarray(VALUES)])
    out = run_processes(4, COMMON + _RESTORE, devices=1, arguments=(str(folder),)).out
    assert out == ["restored\n"] * 4
    mesh = Mesh(np.array(xpr.devices("cpu")[:8]).reshape(4, 2), ("x", "y"))
    place = NamedSharding(mesh, P("y", "x"))
    found = checkpoint.restore(folder)
    np.testing.assert_array_equal(found["rows"], VALUES)
    assert found["own"].dtype == found["few"].dtype == np.int32
    assert found["host"].dtype == np.int64
    assert bool(found["key"] == xpr.random.key(5))
    np.testing.assert_array_equal(found["few"], np.arange(8))
    like = {name: ... for name in found} | {
        "grid": xpr.ShapeDtypeStruct(VALUES.shape, "bfloat16", sharding=place)
    }
    grid = checkpoint.restore(folder, like=like)["grid"]
    assert grid.sharding == place
    np.testing.assert_array_equal(grid, VALUES.astype(jnp.bfloat16))
    assert sorted(p.name for p in folder.iterdir()) == [".lock", "4", "5", "9", "one"]


_ERRORS = """
import re
import resource
import pytest
from xpr.experimental.checkpoint import DamagedCheckpointError
from xpr.runtimes import processes

together = processes.current

def both(error, match, tree, step=2, save=checkpoint.save):
    with pytest.raises(error, match=match) as caught:
        save(directory, step, tree)
    together.barrier(what="cleaned")
    assert sorted(os.listdir(directory)) == [".lock", "1"], os.listdir(directory)
    together.barrier(what="next")
    return str(caught.value)

x = xpr.device_put(values, rows)
tree = {"x": x, "step": 3}
checkpoint.save(directory, 1, tree)

# what each has for itself must be the same
expected = r"Process 0 has 0 as leaf \\['step'\\], process 1 has 1 as"
both(ValueError, expected, {"x": x, "step": me})
expected = r"different things.*int(32|64)\\[1000\\] of digest \\w+ as leaf \\['n'\\]"
for other in (np.arange(1000) + me, jnp.arange(1000) + me):
    both(ValueError, expected, {"n": other})
# and so must be the trees
expected = r"Process 0 has int as leaf \\['a'\\], process 1 has float as leaf"
both(ValueError, expected, {"a": [1, 1.0][me]})
both(ValueError, r"Process 0 has no such leaf, process 1 has int as leaf \\[1\\]", [1] * (me + 1))
both(ValueError, r"int32\\[2\\] whole as the tree, .* int32\\[3\\] whole as", np.ones(2 + me, "i4"))

# what one cannot do fails everywhere, with the same type
expected = r"cannot keep leaf \\['bad'\\] of <class 'object'>"
message = both(TypeError, expected, {"bad": [1, object()][me]})
assert ("in process 1 (host" in message) == (me == 0)
message = both(FileExistsError, "a checkpoint of step 1", tree, step=1)
assert ("in process 0 (host" in message) == (me == 1)
limit = resource.getrlimit(resource.RLIMIT_FSIZE)
for save in (checkpoint.save, None):
    if me == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
    if save is None:
        with checkpoint.Checkpointer(directory) as checkpointer:
            def save(directory, step, tree):
                checkpointer.save(step, tree, wait=False)
                checkpointer.wait()
            message = both(OSError, r"File too large.*leaf \\['x'\\]", tree, save=save)
    else:
        message = both(OSError, r"File too large.*leaf \\['x'\\]", tree, save=save)
    assert ("in process 1 (host" in message) == (me == 0)
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)

# a file that process 1 alone reads is damaged
if me == 0:
    folders = [folder for folder, _, _ in os.walk(directory + "/1/arrays")]
    (path,) = [folder + "/0" for folder in folders if folder.endswith("/c/1")]
    content = open(path, "rb").read()
    open(path, "wb").write(content[:-1])
together.barrier(what="cut")
with pytest.raises(DamagedCheckpointError, match=r"leaf \\['x'\\] of the checkpoint") as caught:
    checkpoint.restore(directory, like=tree)
assert caught.value.leaf == "['x']"
assert ("in process 1 (host" in str(caught.value)) == (me == 0)
with pytest.raises(FileNotFoundError, match="no checkpoint of step 8"):
    checkpoint.restore(directory, 8)
checkpoint.save(directory, 2, tree)
is_right(checkpoint.restore(directory, like=tree)["x"], values, rows)
print("done")
"""


def test_errors_are_everywhere(run_processes, tmp_path: Path):
    out = run_processes(2, COMMON + _ERRORS, arguments=(str(tmp_path / "c"),)).out
    assert out == ["done\n"] * 2


_KILLED = """
import signal
from xpr.experimental.checkpoint import saving
first = checkpoint.latest_step(directory) or 0
write = saving.write
def dies(*arguments):
    write(*arguments)
    if first == 0 and me == 1 and checkpoint.latest_step(directory) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
saving.write = dies
x = xpr.device_put(values, rows)
if first:
    x = checkpoint.restore(directory, like=x)
step = xpr.jit(lambda x: x + 1, donate_argnums=0)
with checkpoint.Checkpointer(directory) as checkpointer:
    for i in range(first, 4):
        x = step(x)
        checkpointer.save(i + 1, x, wait=False)
is_right(x, values + 4, rows)
print("went on from", first)
"""


def test_a_process_is_killed_while_it_writes(run_processes, tmp_path: Path):
    """What was complete is there, and the program goes on from it."""
    folder = tmp_path / "c"
    arguments = (str(folder),)
    outcome = run_processes(2, COMMON + _KILLED, arguments=arguments, may_fail=True)
    assert outcome.code != 0
    assert checkpoint.all_steps(folder) == [1, 2]
    np.testing.assert_array_equal(checkpoint.restore(folder), VALUES + 2)
    out = run_processes(2, COMMON + _KILLED, arguments=arguments).out
    assert out == ["went on from 2\n"] * 2
    assert sorted(p.name for p in folder.iterdir()) == [".lock", "1", "2", "3", "4"]
