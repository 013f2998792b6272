"""``python -m benchmarks.data_parallel [ROUNDS]``: two devices in one process, and in two.

The same training, whose batch is cut over two devices, runs in one process that has both and under
MPI's launcher in two with one each, in turns. Prints the times of a step and whether the parameters
are the same bits; the exit status is 1 if they are not.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.launched import launch
from benchmarks.sessions import environment

SIZES = (784, 512, 512, 10)
BATCHES = (64, 512, 2048)
STEPS = 40


def _worker(joined: bool) -> None:
    """Trains, and prints for each batch size the seconds of each step and a digest."""
    xpr = importlib.import_module("xpr")
    if joined:
        xpr.distributed.initialize()
    found = {batch: _train(xpr, batch) for batch in BATCHES}
    if xpr.process_index() == 0:
        print(json.dumps(found))


def _train(xpr: Any, batch: int) -> tuple[list[float], str]:
    jnp, sharding = xpr.numpy, xpr.sharding
    mesh = sharding.Mesh(np.array(xpr.devices()), ("data",))
    cut = sharding.NamedSharding(mesh, sharding.PartitionSpec("data"))
    whole = sharding.NamedSharding(mesh, sharding.PartitionSpec())
    rng = np.random.default_rng(0)
    params = [
        (rng.normal(0, 0.05, pair).astype(np.float32), np.zeros(pair[1], np.float32))
        for pair in itertools.pairwise(SIZES)
    ]
    params = xpr.device_put(params, whole)
    x = xpr.device_put(rng.normal(size=(batch, SIZES[0])).astype(np.float32), cut)
    y = xpr.device_put(rng.integers(0, SIZES[-1], batch).astype(np.int32), cut)

    def loss(params: Any, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = jnp.tanh(x @ w + b)
        w, b = params[-1]
        logits = xpr.nn.log_softmax(x @ w + b)
        return -jnp.mean(jnp.take_along_axis(logits, y[:, None], 1))

    @xpr.jit
    def step(params: Any, x: Any, y: Any) -> Any:
        value, slope = xpr.value_and_grad(loss)(params, x, y)
        return xpr.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, slope), value

    times: list[float] = []
    for i in range(-3, STEPS):  # the first ones compile
        start = time.perf_counter()
        params, value = step(params, x, y)
        float(value)
        xpr.block_until_ready(params)
        if i >= 0:
            times.append(time.perf_counter() - start)
    leaves = xpr.tree_util.tree_leaves(params)
    digest = hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in leaves))
    return times, digest.hexdigest()


def _run(processes: int) -> dict[str, tuple[list[float], str]]:
    """What the worker printed, of two devices in so many processes."""
    command = ["-m", "benchmarks.data_parallel", "worker", str(processes)]
    devices = {"XPR_NUM_CPU_DEVICES": str(2 // processes)}
    if processes > 1:
        return launch(processes, command, **devices)
    done = subprocess.run(
        [sys.executable, *command],
        env=environment(**devices),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    """Measures in turns and prints."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    times: dict[tuple[int, str], list[float]] = {}
    digests: dict[str, set[str]] = {}
    for _ in range(rounds):
        for processes in (1, 2):
            for batch, (found, digest) in _run(processes).items():
                times.setdefault((processes, batch), []).extend(found)
                digests.setdefault(batch, set()).add(digest)
    for batch in map(str, BATCHES):
        one, two = times[1, batch], times[2, batch]
        same = "the same bits" if len(digests[batch]) == 1 else "OTHER BITS"
        print(
            f"a step with a batch of {batch}: one process {_shown(one)}, two {_shown(two)}; "
            f"two / one {min(two) / min(one):.2f} by the least, "
            f"{statistics.median(two) / statistics.median(one):.2f} by the medians; {same}"
        )
    return int(any(len(d) > 1 for d in digests.values()))


def _shown(samples: list[float]) -> str:
    return f"{min(samples) * 1e3:.2f} ms (median {statistics.median(samples) * 1e3:.2f})"


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        _worker(joined=sys.argv[2] != "1")
    else:
        sys.exit(main())
