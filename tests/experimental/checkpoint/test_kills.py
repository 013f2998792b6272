"""A kill at any moment loses nothing that was complete; what resumes ends like what ran through."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

import xpr
from tests.reliability.scripts import ROOT, cases
from xpr.experimental import checkpoint

KILLS = cases(3, 50)
STEPS = 8 * KILLS

# A network learns; every step is saved. It prints the steps whose checkpoints are complete.
_TRAINING = """
import sys
import numpy as np
import xpr, xpr.numpy as jnp
from xpr.experimental import checkpoint

def loss(params, key):
    x = xpr.random.normal(key, (16, 8))
    h = jnp.tanh(x @ params["w"] + params["b"])
    return jnp.mean((h @ params["v"] - jnp.sum(x, 1, keepdims=True)) ** 2)

def learn(state):
    key, used = xpr.random.split(state["key"])
    gradient = xpr.grad(loss)(state["params"], used)
    moments = xpr.tree_util.tree_map(lambda m, g: 0.9 * m + g, state["moments"], gradient)
    params = xpr.tree_util.tree_map(lambda p, m: p - 0.02 * m, state["params"], moments)
    return {"params": params, "moments": moments, "key": key}

def start():
    rng = np.random.default_rng(0)
    shapes = {"w": (8, 64), "b": (64,), "v": (64, 1)}
    params = {name: rng.normal(size=shape) * 0.3 for name, shape in shapes.items()}
    params = {name: jnp.asarray(x, jnp.float32) for name, x in params.items()}
    moments = xpr.tree_util.tree_map(jnp.zeros_like, params)
    return {"params": params, "moments": moments, "key": xpr.random.key(0)}

directory, steps, every = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
step = xpr.jit(learn, donate_argnums=0)
with checkpoint.Checkpointer(directory, keep=2) as checkpointer:
    first, state = 0, start()
    if checkpointer.latest_step() is not None:
        found = checkpointer.restore(like={"state": state, "step": 0})
        first, state = found["step"], found["state"]
    print("started", first, flush=True)
    for i in range(first, steps):
        state = step(state)
        if (i + 1) % every == 0 or i + 1 == steps:
            checkpointer.save(i + 1, {"state": state, "step": i + 1}, wait=False)
            print("complete", i + 1 - every, flush=True)  # the save before has ended
"""


def _start(folder: Path, cache: Path, every: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _TRAINING, str(folder), str(STEPS), str(every)],
        cwd=ROOT,
        env={**os.environ, "XPR_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        text=True,
    )


def _killed(training: subprocess.Popen[str], rng: random.Random) -> int:
    """Kills a run at a random moment; the last step that it said is complete, 0 for none.

    The moment is some time after a random number of its lines, or any time after its start.
    """
    assert training.stdout is not None
    last = 0
    if rng.random() < 0.2:
        time.sleep(rng.uniform(0, 1.0))
    else:
        stuck = threading.Timer(120, training.terminate)
        stuck.start()
        for _ in range(rng.randrange(1, 12)):
            line = training.stdout.readline()
            if line.startswith("complete"):
                last = int(line.split()[1])
        stuck.cancel()
        time.sleep(rng.uniform(0, 0.02))
    training.send_signal(signal.SIGKILL)
    rest = _rest(training)
    said = [int(line.split()[1]) for line in rest.splitlines() if line.startswith("complete")]
    return max([last, *said])


def _rest(killed: subprocess.Popen[str]) -> str:
    """What a process that was killed has written and nobody has read.

    `communicate` would not see what `readline` has taken in beyond its line.
    """
    assert killed.stdout is not None
    with killed.stdout as stdout:
        rest = stdout.read()
    killed.wait(timeout=60)
    return rest


def _state(folder: Path) -> dict[str, bytes]:
    found = checkpoint.restore(folder)
    assert found["step"] == STEPS
    state = found["state"]
    leaves = {f"{n}.{k}": v for n in ("params", "moments") for k, v in state[n].items()}
    leaves["key"] = xpr.random.key_data(state["key"])
    return {name: np.asarray(x).tobytes() for name, x in leaves.items()}


def test_kills(tmp_path: Path) -> None:
    whole, folder, cache = (tmp_path / name for name in ("whole", "killed", "cache"))
    run = _start(whole, cache, STEPS)
    run.communicate(timeout=300)
    assert run.returncode == 0
    rng = random.Random(2026)
    kills = 0
    known = 0
    while kills < KILLS:
        training = _start(folder, cache, 1)
        complete = _killed(training, rng)
        if training.returncode == 0:  # it was quicker: begin again
            assert checkpoint.latest_step(folder) == STEPS
            shutil.rmtree(folder)
            known = 0
            continue
        assert training.returncode == -signal.SIGKILL
        kills += 1
        found = checkpoint.latest_step(folder) or 0
        assert found >= complete, f"step {complete} was complete, but only {found} is there"
        assert found >= known
        known = found
        for step in checkpoint.all_steps(folder):  # each that has a name is whole
            assert checkpoint.restore(folder, step)["step"] == step
    assert known < STEPS
    run = _start(folder, cache, 1)
    run.communicate(timeout=600)
    assert run.returncode == 0
    assert checkpoint.all_steps(folder) == [STEPS - 1, STEPS]
    assert _state(folder) == _state(whole)


_OVERWRITING = """
import itertools, sys
import numpy as np
from xpr.experimental import checkpoint
first = checkpoint.restore(sys.argv[1])["i"] if checkpoint.all_steps(sys.argv[1]) else 0
for i in itertools.count(first + 1):
    checkpoint.save(sys.argv[1], 0, {"i": i, "w": np.full(1000, i)}, overwrite=True)
    print(i, flush=True)
"""


def test_kills_while_one_checkpoint_is_overwritten(tmp_path: Path) -> None:
    rng = random.Random(7)
    last = 0
    for _ in range(cases(3, 50)):
        writer = subprocess.Popen(
            [sys.executable, "-c", _OVERWRITING, str(tmp_path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        for _ in range(rng.randrange(1, 10)):
            last = int(writer.stdout.readline())
        time.sleep(rng.uniform(0, 0.02))
        writer.kill()
        last = max([last, *map(int, _rest(writer).split())])
        found = checkpoint.restore(tmp_path)
        assert found["i"] in (last, last + 1)
        np.testing.assert_array_equal(found["w"], np.full(1000, found["i"]))
