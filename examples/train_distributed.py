"""Train a small transformer in several processes, kill one of them, and go on where it ended.

The model and its step are those of train_sharded.py, and nothing in them knows of processes. A mesh
has the axes `data` and `model`: the devices of a process lie along `model`, and the processes along
`data`, so that each process loads its own pieces of each batch. Every few steps the state is saved
in the background.

    python examples/train_distributed.py
    python examples/train_distributed.py --processes 4 --steps 60 --output distributed

shows it all: it starts a training of several processes, and the same one again, in which one
process is killed half-way; started once more, that one goes on from its last checkpoint. Both must
end with the same parameters, bit for bit, which one process reads from the checkpoints.

    mpirun -n 4 python examples/train_distributed.py --train --output distributed
    xpr launch -n 4 examples/train_distributed.py --train --output distributed

is what a training of one's own looks like: on one machine or many, by any launcher of MPI.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
import train_sharded as model

import xpr
from xpr import random, tree
from xpr.experimental import checkpoint
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

DEVICES = 2
"""Devices of each process."""


def make_mesh() -> Mesh:
    """The processes along `data`, the devices of each along `model`."""
    devices = np.array(xpr.devices("cpu")).reshape(xpr.process_count(), -1)
    return Mesh(devices, ("data", "model"))


def state_like(mesh: Mesh, options: argparse.Namespace) -> model.State:
    """Types and shardings of the state, without its values."""
    types = xpr.eval_shape(lambda: model.initial_state(random.key(options.seed), options.layers))
    return tree.map(
        lambda t, spec: xpr.ShapeDtypeStruct(t.shape, t.dtype, sharding=NamedSharding(mesh, spec)),
        types,
        model.state_specs(options.layers),
    )


def train(options: argparse.Namespace) -> None:
    """What each process runs: the training, from the last checkpoint if there is one."""
    xpr.distributed.initialize()
    mesh = make_mesh()
    folder = options.output / "checkpoints"
    like = state_like(mesh, options)
    whole = NamedSharding(mesh, P("data"))
    with checkpoint.Checkpointer(folder, keep=2) as checkpointer:
        begun = checkpointer.latest_step() or 0
        if begun:
            found = checkpointer.restore(begun, {"state": like, "losses": ...})
            state = found["state"]
            losses = checkpoint.metadata(folder, begun)["losses"]
            say(f"goes on from step {begun}")
        else:
            first = model.initial_state(random.key(options.seed), options.layers)
            state = xpr.device_put(first, tree.map(lambda t: t.sharding, like))
            losses = []
        step = xpr.jit(
            model.train_step,
            donate_argnums=0,
            out_shardings=(tree.map(lambda t: t.sharding, like), None),
        )
        start = time.perf_counter()
        for number, text in enumerate(model.batches(options.seed, options.steps), 1):
            if number <= begun:
                continue
            # A process would load only its own pieces of text; these are cut from one generator,
            # so that any number of processes sees the same.
            rows = np.array_split(text, xpr.process_count())[xpr.process_index()]
            batch = xpr.make_array_from_process_local_data(whole, rows)
            state, value = step(state, batch)
            losses.append(float(value))
            if number % options.every == 0 or number == options.steps:
                checkpointer.save(number, {"state": state, "losses": losses}, wait=False)
            if number == options.kill_at and xpr.process_index() == xpr.process_count() - 1:
                say(f"is killed after step {number}")
                os.kill(os.getpid(), signal.SIGKILL)
        checkpointer.wait()
    rate = (time.perf_counter() - start) / max(1, options.steps - begun)
    if xpr.process_index() == 0:
        say(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at last, {1e3 * rate:.0f} ms a step")


def say(what: str) -> None:
    """Prints a line about this process."""
    print(f"process {xpr.process_index()} of {xpr.process_count()} {what}", flush=True)


def processes(options: argparse.Namespace, output: Path, *more: str) -> int:
    """Starts a training of several processes by MPI's launcher, and waits for its end."""
    command = [
        *(sys.executable, "-m", "xpr", "launch", "-n", str(options.processes)),
        *(__file__, "--train", "--output", str(output)),
        *("--steps", str(options.steps), "--every", str(options.every)),
        *("--layers", str(options.layers), "--seed", str(options.seed)),
        *more,
    ]
    environment = os.environ | {"XPR_NUM_CPU_DEVICES": str(DEVICES)}
    return subprocess.run(command, env=environment, check=False).returncode


def demonstrate(options: argparse.Namespace) -> int:
    """Trains without and with an interruption; 0 where both end with the same parameters."""
    calm, killed = options.output / "calm", options.output / "killed"
    for folder in (calm, killed):
        shutil.rmtree(folder, ignore_errors=True)
    middle = options.steps // 2 + 1
    print(f"== {options.processes} processes train without an interruption", flush=True)
    if processes(options, calm) != 0:
        return fail("the training ended with an error")
    print("== the same, and one of them is killed", flush=True)
    if processes(options, killed, "--kill-at", str(middle)) == 0:
        return fail("a process was killed, and the launcher tells no error")
    kept = checkpoint.latest_step(killed / "checkpoints")
    print(f"== started again: the last complete checkpoint is of step {kept}", flush=True)
    if processes(options, killed) != 0:
        return fail("the training that went on ended with an error")

    # One process reads what several have written, each array whole on its one device.
    whole = [checkpoint.restore(f / "checkpoints", options.steps) for f in (calm, killed)]
    first, second = (tree.leaves(found["state"]) for found in whole)
    same = all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))
    losses = [found["losses"] for found in whole]
    same = same and len(first) == len(second) and losses[0] == losses[1]
    picture = options.output / "loss.png"
    plot(picture, losses[0], middle, kept or 0)
    print(f"saved {picture}")
    if not same:
        return fail("the interrupted training ended with other parameters")
    print(f"{len(first)} arrays of the state are the same, bit for bit, after the interruption")
    return 0


def plot(path: Path, losses: list[float], killed: int, kept: int) -> None:
    """Save the curve of the losses, and where the training was interrupted."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  after the backend is chosen

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(range(1, len(losses) + 1), losses, color="tab:blue")
    axes.axvline(killed, color="tab:red", linestyle=":", label="a process is killed")
    if kept:
        axes.axvline(
            kept, color="tab:green", linestyle="--", label="the checkpoint it goes on from"
        )
    axes.set_xlabel("step")
    axes.set_ylabel("loss in nats a character")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def fail(what: str) -> int:
    """The exit status of an example that found something wrong."""
    print(f"train_distributed failed: {what}", file=sys.stderr)
    return 1


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train a transformer in several processes, kill one, and go on."
    )
    parser.add_argument("--train", action="store_true", help="be one process of a training")
    parser.add_argument("--processes", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--steps", type=int, default=40, help="(default: %(default)s)")
    parser.add_argument(
        "--every", type=int, default=6, help="steps between checkpoints (default: %(default)s)"
    )
    parser.add_argument("--layers", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument(
        "--kill-at", type=int, metavar="STEP", help="kill the last process after this step"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("train_distributed"),
        help="the folder for checkpoints and the plot (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    for name in ("processes", "steps", "every", "layers"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be 1 or more, got {getattr(options, name)}")
    if model.BATCH % options.processes:
        parser.error(
            f"--processes must divide the {model.BATCH} pieces of a batch, got {options.processes}"
        )
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the example, or with --train one process of it."""
    options = parse_arguments(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    if options.train:
        train(options)
        return 0
    mpl.use("Agg")
    return demonstrate(options)


if __name__ == "__main__":
    sys.exit(main())
