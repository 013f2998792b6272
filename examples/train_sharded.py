"""Train a small transformer on several devices, and see that one device learns the same.

The model predicts the next character of a Python program: the text of the module argparse. A mesh
of 2 x 4 devices has the axes `data` and `model`. Each batch is cut along `data`; the matrices of
each layer are cut along `model`, the first of a pair by columns and the second by rows, so that a
layer needs one sum over the devices after its attention and one after its network. Nothing else in
the program speaks of devices: the shardings of the state and of the batch say it all, and `jit`
finds the rest. The same program trains on one device with the same seed, and the losses must agree.
Without a GPU the processor counts as eight devices.

The cut of the matrices: M. Shoeybi and others, "Megatron-LM: training multi-billion parameter
language models using model parallelism", 2019. The model: A. Vaswani and others, "Attention is all
you need", 2017. Its training: D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization",
ICLR 2015.

    python examples/train_sharded.py
    python examples/train_sharded.py --mesh 8x1 --steps 50 --seed 3 --output sharded
"""

import argparse
import inspect
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np

import xpr
import xpr.numpy as xnp
from xpr import nn, random, tree
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

# Characters are those of ASCII.
CHARACTERS = 128
LENGTH = 64
BATCH = 32
WIDTH = 64
HEADS = 4
RATE = 3e-3
# Decay rates of the two moments, and what keeps the quotient finite: the values of the paper, but
# for a larger epsilon. Adam divides a gradient by its own size, and the rounding of one that is
# almost zero must not become a step.
MEAN_DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-6
# Sums in another order differ by some 1e-6 of a loss, which a hundred steps do not add up.
TOLERANCE = 1e-4

Params = dict[str, Any]


class State(NamedTuple):
    """What a step of training changes: the parameters, and what Adam remembers."""

    params: Params
    mean: Params
    square: Params
    steps: Any


def layer_specs() -> Params:
    """How the parameters of a layer are cut: columns of one matrix, rows of the next."""
    columns, rows = P(None, "model"), P("model", None)
    return {
        "query": columns,
        "key": columns,
        "value": columns,
        "join": rows,
        "up": columns,
        "down": rows,
        "scale": P(),
    }


def parameter_specs(layers: int) -> Params:
    """How all parameters are cut; the tree is that of the parameters."""
    return {
        "embedding": P("model", None),
        "position": P(),
        "layers": [layer_specs() for _ in range(layers)],
        "scale": P(),
        "head": P(None, "model"),
    }


def state_specs(layers: int) -> State:
    """How the state is cut: what Adam remembers lies with its parameter."""
    params = parameter_specs(layers)
    return State(params, params, params, P())


def initial_layer(key: Any) -> Params:
    """Matrices by Glorot's rule, and scales of one."""
    shapes = {
        "query": (WIDTH, WIDTH),
        "key": (WIDTH, WIDTH),
        "value": (WIDTH, WIDTH),
        "join": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
    }
    glorot = nn.initializers.glorot_normal()
    keys = random.split(key, len(shapes))
    made = {name: glorot(k, shape) for (name, shape), k in zip(shapes.items(), keys, strict=True)}
    return {**made, "scale": xnp.ones((2, WIDTH))}


def initial_state(key: Any, count: int) -> State:
    """The state before the first step."""
    embedding, position, head, *layers = random.split(key, 3 + count)
    params = {
        "embedding": 0.5 * random.normal(embedding, (CHARACTERS, WIDTH)),
        "position": 0.5 * random.normal(position, (LENGTH, WIDTH)),
        "layers": [initial_layer(k) for k in layers],
        "scale": xnp.ones(WIDTH),
        "head": nn.initializers.glorot_normal()(head, (WIDTH, CHARACTERS)),
    }
    # Each is an array of its own, for donated ones may be written to.
    mean, square = (tree.map(xnp.zeros_like, params) for _ in range(2))
    return State(params, mean, square, xnp.int32(0))


def normalise(x: Any, scale: Any) -> Any:
    """`x` with a root mean square of one along its last axis, times `scale`."""
    return x * scale / xnp.sqrt(xnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def attend(layer: Params, x: Any) -> Any:
    """Attention of each character to itself and those before, f32[n, length, width]."""
    count, length, _ = x.shape

    def heads(name: str) -> Any:
        return (x @ layer[name]).reshape(count, length, HEADS, WIDTH // HEADS)

    scores = xnp.einsum("nqhd,nkhd->nhqk", heads("query"), heads("key"))
    visible = xnp.tril(xnp.ones((length, length), bool))
    scores = xnp.where(visible, scores / np.sqrt(WIDTH // HEADS), -np.inf)
    seen = xnp.einsum("nhqk,nkhd->nqhd", nn.softmax(scores), heads("value"))
    return seen.reshape(count, length, WIDTH) @ layer["join"]


def logits(params: Params, text: Any) -> Any:
    """What follows each character, f32[n, length, characters], for text int32[n, length]."""
    x = params["embedding"][text] + params["position"]
    for layer in params["layers"]:
        x = x + attend(layer, normalise(x, layer["scale"][0]))
        x = x + nn.gelu(normalise(x, layer["scale"][1]) @ layer["up"]) @ layer["down"]
    return normalise(x, params["scale"]) @ params["head"]


def loss(params: Params, text: Any) -> Any:
    """The mean surprise at the next character, in nats, for text int32[n, length + 1]."""
    scores = nn.log_softmax(logits(params, text[:, :-1]))
    return -xnp.mean(xnp.sum(scores * nn.one_hot(text[:, 1:], CHARACTERS), axis=-1))


def train_step(state: State, text: Any) -> tuple[State, Any]:
    """One step of Adam: the new state, and the loss before it."""
    value, gradient = xpr.value_and_grad(loss)(state.params, text)
    steps = state.steps + 1
    mean = tree.map(lambda m, g: MEAN_DECAY * m + (1 - MEAN_DECAY) * g, state.mean, gradient)
    square = tree.map(
        lambda s, g: SQUARE_DECAY * s + (1 - SQUARE_DECAY) * g * g, state.square, gradient
    )
    # Both means begin at zero; these factors make up for it.
    mean_scale = 1 / (1 - MEAN_DECAY**steps)
    square_scale = 1 / (1 - SQUARE_DECAY**steps)
    params = tree.map(
        lambda p, m, s: p - RATE * m * mean_scale / (xnp.sqrt(s * square_scale) + EPSILON),
        state.params,
        mean,
        square,
    )
    return State(params, mean, square, steps), value


def batches(seed: int, steps: int) -> Iterator[np.ndarray]:
    """Pieces of the text at random places, int32[batch, length + 1], one for each step."""
    text = inspect.getsource(argparse).encode("ascii", "replace")
    characters = np.frombuffer(text, np.uint8).astype(np.int32)
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        starts = rng.integers(0, len(characters) - LENGTH, BATCH)
        yield characters[starts[:, None] + np.arange(LENGTH + 1)]


def place(mesh: Mesh | None, values: Any, specs: Any) -> Any:
    """The arrays of a tree, cut over the mesh as the specs say; on one device without a mesh."""
    if mesh is None:
        return tree.map(lambda x: xpr.device_put(x, xpr.devices("cpu")[0]), values)
    return xpr.device_put(values, tree.map(lambda spec: NamedSharding(mesh, spec), specs))


def train(mesh: Mesh | None, options: argparse.Namespace) -> tuple[State, list[float]]:
    """The trained state, and the loss before each step."""
    name = "one device" if mesh is None else f"{mesh.size} devices"
    state = place(
        mesh, initial_state(random.key(options.seed), options.layers), state_specs(options.layers)
    )
    # The new state takes the place of the old one, in memory and on the mesh.
    step = xpr.jit(
        train_step, donate_argnums=0, out_shardings=(tree.map(lambda x: x.sharding, state), None)
    )

    start = time.perf_counter()
    lowered = step.lower(state, place(mesh, next(batches(options.seed, 1)), P("data")))
    lowered.compile()
    print(f"{name}: compiled in {time.perf_counter() - start:.1f} s", flush=True)
    if mesh is not None:
        print(f"\nwhat a step sends:\n{lowered.communication()}\n", flush=True)

    start = time.perf_counter()
    losses: list[Any] = []
    for text in batches(options.seed, options.steps):
        state, value = step(state, place(mesh, text, P("data")))
        losses.append(value)
    found = [float(value) for value in losses]
    milliseconds = 1e3 * (time.perf_counter() - start) / options.steps
    print(
        f"{name}: loss {found[0]:.4f} at first, {found[-1]:.4f} at last, "
        f"{milliseconds:.0f} ms a step",
        flush=True,
    )
    return state, found


def check_places(params: Params, mesh: Mesh, layers: int) -> bool:
    """Print how each parameter is cut, and whether that is as it was asked for."""
    ok = True
    specs = tree.leaves(parameter_specs(layers))
    leaves, _ = tree.flatten_with_path(params)
    print("parameter            whole        on each device")
    for (path, leaf), spec in zip(leaves, specs, strict=True):
        sharding = NamedSharding(mesh, spec)
        right = leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
        name = xpr.tree_util.keystr(path, simple=True, separator=".")
        part = leaf.addressable_shards[0].data.shape
        verdict = "" if right else f"  WRONG, {spec} was asked for"
        print(f"{name:20} {leaf.shape!s:12} {part!s:12} {leaf.sharding.spec}{verdict}")
        ok = ok and right
    return ok


def plot_losses(path: Path, single: list[float], sharded: list[float], name: str) -> None:
    """Save both curves, and how far they are apart."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  after the backend is chosen

    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(7, 5.5), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    steps = range(len(single))
    upper.plot(steps, single, color="tab:orange", linewidth=4, alpha=0.5, label="one device")
    upper.plot(steps, sharded, color="tab:blue", linewidth=1.2, label=name)
    upper.set_ylabel("loss in nats a character")
    upper.legend()
    # A logarithmic axis has no zero.
    apart = np.maximum(np.abs(np.subtract(single, sharded)), 1e-8)
    lower.semilogy(steps, apart, ".", color="0.3")
    lower.axhline(TOLERANCE, color="tab:red", linewidth=1, linestyle=":")
    lower.set_ylabel("difference")
    lower.set_xlabel("step")
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def plot_shardings(path: Path, params: Params) -> None:
    """Save which devices hold which part of the matrices of a layer, and of the embedding."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  after the backend is chosen

    chosen = {"embedding": params["embedding"], **params["layers"][0]}
    names = ("embedding", "query", "join", "up", "down", "scale")
    figure, rows = plt.subplots(2, 3, figsize=(11, 7), layout="constrained")
    for axes, name in zip(rows.flat, names, strict=True):
        xpr.debug.draw_array_sharding(chosen[name], axes)
        axes.set_title(f"{name}: {chosen[name].sharding.spec}", fontsize=10)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def mesh_shape(text: str) -> tuple[int, int]:
    """The sizes that "2x4" names."""
    data, model = (int(part) for part in text.split("x"))
    if BATCH % data or HEADS % model or data < 1 or model < 1:
        raise ValueError(text)
    return data, model


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train a transformer on several devices and on one, and compare."
    )
    parser.add_argument(
        "--mesh",
        type=mesh_shape,
        default=(2, 4),
        metavar="DATAxMODEL",
        help=f"the number of devices along each axis; the first divides the {BATCH} pieces of a "
        f"batch, the second the {HEADS} heads (default: 2x4)",
    )
    parser.add_argument("--steps", type=int, default=100, help="(default: %(default)s)")
    parser.add_argument("--layers", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("train_sharded"),
        help="the folder for the plots (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    for name in ("steps", "layers"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be 1 or more, got {getattr(options, name)}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the example; 0 where both trainings agree and the parameters are where they belong."""
    options = parse_arguments(arguments)
    if "XPR_NUM_CPU_DEVICES" not in os.environ:
        xpr.config.update("num_cpu_devices", math.prod(options.mesh))
    options.output.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    devices = np.array(xpr.devices("cpu")[: math.prod(options.mesh)]).reshape(options.mesh)
    mesh = Mesh(devices, ("data", "model"))

    _, single = train(None, options)
    state, sharded = train(mesh, options)
    placed = check_places(state.params, mesh, options.layers)
    curves, places = options.output / "loss.png", options.output / "shardings.png"
    plot_losses(curves, single, sharded, f"{mesh.size} devices")
    plot_shardings(places, state.params)
    print(f"saved {curves} and {places}")

    difference = float(np.max(np.abs(np.subtract(single, sharded))))
    agree = difference <= TOLERANCE
    verdict = "ok" if agree else f"MISMATCH, {TOLERANCE:g} is allowed"
    print(f"greatest difference of the losses: {difference:.2g} ({verdict})")
    if agree and placed:
        return 0
    print("train_sharded failed: see the lines above", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
