"""``python -m benchmarks.scale [ROUNDS]``: the model of `xpr bench --scale`, and what is measured.

A data-parallel training step, each process with a batch of its own, runs in 1, 2 and 4 processes of
this machine, each kept to one core. What the model needs is measured apart: what one process
computes when it is alone, the time of a sum of 8 bytes and of one of 8 MB in two processes, and the
rate at which a core adds arrays. Where there are more processes than cores, the model says that
everything takes as many times as long as processes share a core.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.launched import launch
from benchmarks.sessions import environment
from xpr.sharding.scaling import Network, communication_seconds

SIZES = (784, 512, 512, 10)
BATCH = 512
COUNTS = (1, 2, 4)
SUM_BYTES = 8 << 20


def _median(call: Callable[[], Any], samples: int = 40) -> float:
    """Seconds of a call, the median; all processes call equally often."""
    for _ in range(3):
        call()
    times: list[float] = []
    for _ in range(samples):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _worker(processes: int) -> None:
    """Measures in one of the processes; the first one prints."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]} if processes == 1 else _core())
    xpr = importlib.import_module("xpr")
    if processes > 1:
        xpr.distributed.initialize()
    found: dict[str, Any] = {"step": _step_seconds(xpr)}
    if processes == 2:
        found["sums"] = [_sum_seconds(xpr, elements) for elements in (2, SUM_BYTES // 4)]
    if processes == 1:
        x, y = np.ones(SUM_BYTES // 8, np.float32), np.ones(SUM_BYTES // 8, np.float32)
        found["reduction"] = x.nbytes / _median(lambda: np.add(x, y, out=y))
    if xpr.process_index() == 0:
        print(json.dumps(found))


def _core() -> set[int]:
    """The core of this process, of those that the machine has."""
    rank = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
    return {rank % (os.cpu_count() or 1)}


def _step_seconds(xpr: Any) -> float:
    step, arguments = _training(xpr, np.array(xpr.devices()))
    return _median(lambda: xpr.block_until_ready(step(*arguments)))


def _training(xpr: Any, devices: Any) -> tuple[Any, tuple[Any, ...]]:
    """A step of an MLP, and its arguments: each device has a batch of its own."""
    jnp, sharding = xpr.numpy, xpr.sharding
    mesh = sharding.Mesh(devices, ("data",))
    cut = sharding.NamedSharding(mesh, sharding.PartitionSpec("data"))
    whole = sharding.NamedSharding(mesh, sharding.PartitionSpec())
    rng = np.random.default_rng(0)
    params = [rng.normal(0, 0.05, pair).astype(np.float32) for pair in itertools.pairwise(SIZES)]
    x = rng.normal(size=(BATCH * len(devices), SIZES[0])).astype(np.float32)
    y = rng.normal(size=(BATCH * len(devices), SIZES[-1])).astype(np.float32)

    def loss(params: Any, x: Any, y: Any) -> Any:
        for w in params[:-1]:
            x = jnp.tanh(x @ w)
        return jnp.mean((x @ params[-1] - y) ** 2)

    @xpr.jit
    def step(params: Any, x: Any, y: Any) -> Any:
        slope = xpr.grad(loss)(params, x, y)
        return xpr.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, slope)

    return step, (xpr.device_put(params, whole), xpr.device_put(x, cut), xpr.device_put(y, cut))


def _sum_seconds(xpr: Any, elements: int) -> float:
    """Seconds of a sum over the processes, as a program has it."""
    count = xpr.process_count()
    spec = xpr.sharding.PartitionSpec
    mesh = xpr.sharding.Mesh(np.array(xpr.devices()), ("p",))
    sharding = xpr.sharding.NamedSharding(mesh, spec("p"))
    x = xpr.make_array_from_callback(
        (count * elements,), sharding, lambda _: np.ones(elements, np.float32)
    )
    total = xpr.jit(
        xpr.shard_map(
            lambda x: xpr.lax.psum(x, "p"), mesh=mesh, in_specs=spec("p"), out_specs=spec()
        )
    )
    return _median(lambda: total(x).block_until_ready())


def _run(processes: int) -> dict[str, Any]:
    command = ["-m", "benchmarks.scale", "worker", str(processes)]
    if processes > 1:
        return launch(processes, command, "--bind-to", "none")
    done = subprocess.run(
        [sys.executable, *command],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    """Measures in turns, and prints the model beside it."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    runs: dict[int, list[dict[str, Any]]] = {count: [] for count in COUNTS}
    for _ in range(rounds):
        for count in COUNTS:
            runs[count].append(_run(count))
    compute = statistics.median(r["step"] for r in runs[1])
    reduction = statistics.median(r["reduction"] for r in runs[1])
    small, large = (statistics.median(r["sums"][i] for r in runs[2]) for i in (0, 1))
    network = _network(small, large, reduction)
    print(
        f"measured: a message {small * 1e6:.0f} us, {network.bandwidth / 1e9:.2f} GB/s, reduction "
        f"at {reduction / 1e9:.2f} GB/s, {compute * 1e3:.2f} ms of computing"
    )
    print("processes    model  measured  model / measured")
    cores = os.cpu_count() or 1
    for count in COUNTS:
        sent = _communication(count)
        model = max(1.0, count / cores) * (compute + communication_seconds(sent, network))
        found = statistics.median(r["step"] for r in runs[count])
        print(f"{count:9}  {model * 1e3:7.2f}  {found * 1e3:8.2f}  {model / found:16.2f}")
    return 0


def _network(small: float, large: float, reduction: float) -> Network:
    """The figures with which the model gives the two sums of two processes."""
    # Half of the operand goes each way twice, and one half is added; three messages carry it.
    bandwidth = SUM_BYTES / max(large - 3 * small - SUM_BYTES / 2 / reduction, 1e-9)
    return Network(latency=0.0, bandwidth=bandwidth, reduction=reduction, overhead=small)


def _communication(count: int) -> Any:
    """What the step sends, counted in this process on as many devices."""
    xpr = importlib.import_module("xpr")
    if xpr.config.num_cpu_devices < max(COUNTS):
        xpr.config.update("num_cpu_devices", max(COUNTS))
    step, arguments = _training(xpr, np.array(xpr.devices("cpu")[:count]))
    return step.lower(*arguments).communication()


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        _worker(int(sys.argv[2]))
    else:
        sys.exit(main())
