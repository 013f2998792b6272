"""Train a small convolutional network on images of digits, then run it without Python.

A whole epoch is one compiled function: a `scan` over minibatches in a random order, each image
shifted at random by up to a pixel, with Adam written over pytrees. Parameters and optimiser state
are donated, so that an epoch may overwrite them. One third of the images is held out; what the
network makes of them is drawn as curves and as a confusion matrix. The parameters are saved as
safetensors, and the trained network as a .vmfb file, which `iree-run-module` runs on the same
images. The same seed gives the same network.

The method: D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization", ICLR 2015.

    python examples/train_digits.py
    python examples/train_digits.py --epochs 10 --seed 3 --output digits
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from quickstart import run_module
from safetensors.numpy import load_file, save_file
from sklearn.datasets import load_digits

import xpr
import xpr.numpy as xnp
from xpr import lax, nn, random, tree

CLASSES = 10
SIZE = 8
BATCH = 64
RATE = 3e-3
# Decay rates of the two moments, and what keeps the quotient finite: the values of the paper.
MEAN_DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8
REQUIRED_ACCURACY = 0.98
# Probabilities are at most one, and the logits are float32 sums of some hundred terms.
TOLERANCE = 1e-4
BAR = 20

Params = dict[str, dict[str, Any]]


class Data(NamedTuple):
    """Images f32[n, 8, 8] between 0 and 1, and what they show, int32[n]."""

    images: Any
    labels: Any


class Optimiser(NamedTuple):
    """What Adam remembers: steps taken, and means of the gradients and of their squares."""

    steps: Any
    mean: Params
    square: Params


class History(NamedTuple):
    """After each epoch: loss and accuracy in training, and on the images held out."""

    loss: list[float]
    accuracy: list[float]
    held_out_loss: list[float]
    held_out_accuracy: list[float]


def initial_parameters(key: Any) -> Params:
    """Kernels by He's rule, and biases of zero."""
    shapes = {
        "conv1": (3, 3, 1, 24),
        "conv2": (3, 3, 24, 48),
        "dense1": ((SIZE // 2) ** 2 * 48, 64),
        "dense2": (64, CLASSES),
    }
    he = nn.initializers.he_normal()
    return {
        name: {"kernel": he(k, shape), "bias": xnp.zeros(shape[-1])}
        for (name, shape), k in zip(shapes.items(), random.split(key, len(shapes)), strict=True)
    }


def convolve(layer: dict[str, Any], x: Any) -> Any:
    """A convolution over f32[n, height, width, channels] that keeps height and width."""
    layout = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(x, layer["kernel"], (1, 1), "SAME", dimension_numbers=layout)
    return x + layer["bias"]


def logits(params: Params, images: Any) -> Any:
    """The network: f32[n, 10] for images f32[n, 8, 8]."""
    x = nn.relu(convolve(params["conv1"], images[..., None]))
    x = nn.relu(convolve(params["conv2"], x))
    x = lax.reduce_window(x, -xnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(x.shape[0], -1)
    x = nn.relu(x @ params["dense1"]["kernel"] + params["dense1"]["bias"])
    return x @ params["dense2"]["kernel"] + params["dense2"]["bias"]


def loss_and_accuracy(params: Params, data: Data) -> tuple[Any, Any]:
    """The mean cross entropy, and the share of the images that are recognised."""
    scores = logits(params, data.images)
    surprise = -xnp.sum(nn.log_softmax(scores) * nn.one_hot(data.labels, CLASSES), axis=-1)
    return xnp.mean(surprise), xnp.mean(scores.argmax(axis=-1) == data.labels)


def predict(params: Params, images: Any) -> tuple[Any, Any]:
    """The class of each image, int32[n], and the probabilities of all, f32[n, 10]."""
    probabilities = nn.softmax(logits(params, images))
    return probabilities.argmax(axis=-1).astype("int32"), probabilities


def shift(images: Any, offsets: Any) -> Any:
    """Each image moved by its offsets int32[n, 2] from 0 to 2, of which 1 leaves it in place."""
    padded = xnp.pad(images, ((0, 0), (1, 1), (1, 1)))
    return xpr.vmap(lambda x, at: lax.dynamic_slice(x, (at[0], at[1]), (SIZE, SIZE)))(
        padded, offsets
    )


def adam(
    params: Params, optimiser: Optimiser, gradient: Params, rate: Any
) -> tuple[Params, Optimiser]:
    """One step of Adam: new parameters and the new state."""
    steps = optimiser.steps + 1
    mean = tree.map(lambda m, g: MEAN_DECAY * m + (1 - MEAN_DECAY) * g, optimiser.mean, gradient)
    square = tree.map(
        lambda s, g: SQUARE_DECAY * s + (1 - SQUARE_DECAY) * g * g, optimiser.square, gradient
    )
    # Both means begin at zero; these factors make up for it.
    mean_scale = 1 / (1 - MEAN_DECAY**steps)
    square_scale = 1 / (1 - SQUARE_DECAY**steps)
    params = tree.map(
        lambda p, m, s: p - rate * m * mean_scale / (xnp.sqrt(s * square_scale) + EPSILON),
        params,
        mean,
        square,
    )
    return params, Optimiser(steps, mean, square)


@partial(xpr.jit, donate_argnums=(0, 1))
def train_epoch(
    params: Params, optimiser: Optimiser, key: Any, total: Any, data: Data
) -> tuple[Params, Optimiser, Any, Any]:
    """Train once on all images: parameters, state, and the means of loss and accuracy.

    The rate falls as a cosine from `RATE` to zero over ``total`` steps. The images that do not
    fill the last minibatch are left out; others at each epoch.
    """
    count = len(data.labels) // BATCH
    order_key, shift_key = random.split(key)
    order = random.permutation(order_key, len(data.labels))[: count * BATCH]
    offsets = random.randint(shift_key, (count, BATCH, 2), 0, 3)

    def step(state: tuple[Params, Optimiser], chosen: tuple[Any, Any]) -> Any:
        params, optimiser = state
        index, offset = chosen
        batch = Data(shift(data.images[index], offset), data.labels[index])
        differentiate = xpr.value_and_grad(loss_and_accuracy, has_aux=True)
        (loss, accuracy), gradient = differentiate(params, batch)
        rate = RATE * (1 + xnp.cos(xnp.pi * optimiser.steps / total)) / 2
        return adam(params, optimiser, gradient, rate), (loss, accuracy)

    state, (losses, accuracies) = lax.scan(
        step, (params, optimiser), (order.reshape(count, BATCH), offsets)
    )
    return *state, xnp.mean(losses), xnp.mean(accuracies)


def split_digits(key: Any) -> tuple[Data, Data]:
    """Two thirds of the images to train with, and one third held out, in a random order."""
    pixels, labels = (np.asarray(part) for part in load_digits(return_X_y=True))
    images = xnp.array(pixels / 16, dtype="float32").reshape(-1, SIZE, SIZE)
    data = Data(images, xnp.array(labels, dtype="int32"))
    order = random.permutation(key, len(labels))
    cut = len(labels) * 2 // 3
    return tree.map(lambda x: x[order[:cut]], data), tree.map(lambda x: x[order[cut:]], data)


def show_progress(epoch: int, epochs: int, history: History) -> None:
    """Draw the bar: over the last one on a terminal, else on a line of its own."""
    filled = BAR * epoch // epochs
    end = "\r" if sys.stdout.isatty() and epoch < epochs else "\n"
    print(
        f"epoch {epoch:{len(str(epochs))}}/{epochs} [{'#' * filled:.<{BAR}}] "
        f"loss {history.loss[-1]:.4f}, accuracy {history.accuracy[-1]:.4f}, "
        f"held out {history.held_out_accuracy[-1]:.4f}",
        end=end,
        flush=True,
    )


def train(key: Any, epochs: int, training: Data, held_out: Data) -> tuple[Params, History]:
    """Trained parameters, and how the training went."""
    init_key, key = random.split(key)
    params = initial_parameters(init_key)
    optimiser = Optimiser(
        xnp.int32(0), tree.map(xnp.zeros_like, params), tree.map(xnp.zeros_like, params)
    )
    total = xnp.float32(epochs * (len(training.labels) // BATCH))
    evaluate = xpr.jit(loss_and_accuracy)

    start = time.perf_counter()
    train_epoch.lower(params, optimiser, key, total, training).compile()
    evaluate.lower(params, held_out).compile()
    print(f"compiled in {time.perf_counter() - start:.1f} s", flush=True)

    history = History([], [], [], [])
    seconds = 0.0
    for epoch in range(epochs):
        start = time.perf_counter()
        params, optimiser, *seen = train_epoch(
            params, optimiser, random.fold_in(key, epoch), total, training
        )
        xpr.block_until_ready(params)
        seconds += time.perf_counter() - start
        for values, value in zip(history, [*seen, *evaluate(params, held_out)], strict=True):
            values.append(float(value))
        show_progress(epoch + 1, epochs, history)
    print(f"{1e3 * seconds / epochs:.0f} ms an epoch")
    return params, history


def save_parameters(path: Path, params: Params) -> None:
    """Save as safetensors, named by their paths: "conv1.bias" and so on."""
    leaves, _ = tree.flatten_with_path(params)
    names = [xpr.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
    save_file(dict(zip(names, [np.asarray(leaf) for _, leaf in leaves], strict=True)), path)


def load_parameters(path: Path) -> Params:
    """What `save_parameters` saved."""
    params: Params = {}
    for name, value in load_file(path).items():
        layer, part = name.split(".")
        params.setdefault(layer, {})[part] = xnp.array(value)
    return params


def confusion(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """How often each class, by row, was taken for each, by column: int64[10, 10]."""
    counts = np.zeros((CLASSES, CLASSES), np.int64)
    np.add.at(counts, (truth, predicted), 1)
    return counts


def plot_history(path: Path, history: History) -> None:
    """Save the curves of loss and error."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  after the backend is chosen

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    epochs = range(1, len(history.loss) + 1)
    for axes, name, seen, unseen in (
        (left, "loss", history.loss, history.held_out_loss),
        (right, "accuracy", history.accuracy, history.held_out_accuracy),
    ):
        axes.plot(epochs, seen, ".-", color="tab:blue", label="training, on shifted images")
        axes.plot(epochs, unseen, ".-", color="tab:orange", label="held out")
        axes.set_title(name)
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
    left.set_yscale("log")
    # The first epochs would hide the differences of the last.
    right.set_ylim(min(0.8, history.accuracy[-1], history.held_out_accuracy[-1]), 1.0)
    right.axhline(
        REQUIRED_ACCURACY, color="0.3", linewidth=1, linestyle=":", label=f"{REQUIRED_ACCURACY:g}"
    )
    right.legend(loc="lower right")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def plot_confusion(path: Path, counts: np.ndarray) -> None:
    """Save the confusion matrix, with the mistakes in red."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  after the backend is chosen

    figure, axes = plt.subplots(figsize=(5.6, 5.6), layout="constrained")
    right = np.eye(CLASSES, dtype=bool)
    axes.imshow(np.where(right, counts, np.nan), cmap="Blues", vmin=0, vmax=1.5 * counts.max())
    wrong = np.ma.masked_where(right | (counts == 0), counts)
    axes.imshow(wrong, cmap="Reds", vmin=-1, vmax=max(6, wrong.filled(0).max()))
    for (row, column), count in np.ndenumerate(counts):
        if count:
            axes.text(column, row, str(count), ha="center", va="center")
    axes.set_xticks(range(CLASSES))
    axes.set_yticks(range(CLASSES))
    axes.set_xticks(np.arange(0.5, CLASSES - 1), minor=True)
    axes.set_yticks(np.arange(0.5, CLASSES - 1), minor=True)
    axes.grid(which="minor", color="0.9")
    axes.tick_params(which="minor", length=0)
    axes.set_xlabel("predicted")
    axes.set_ylabel("shown")
    mistakes = counts.sum() - np.trace(counts)
    axes.set_title(f"{mistakes} of {counts.sum()} held out images mistaken")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def compare(name: str, found: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    """Print how far two predictions are apart, and whether that is within the tolerance."""
    disagree = int(np.count_nonzero(found[0] != expected[0]))
    difference = float(np.max(np.abs(found[1] - expected[1])))
    agree = disagree == 0 and difference <= TOLERANCE
    verdict = "ok" if agree else f"MISMATCH, {TOLERANCE:g} is allowed"
    print(f"{name}: greatest difference {difference:.2g}, {disagree} classes differ ({verdict})")
    return agree


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train a convolutional network on digits and run it without Python."
    )
    parser.add_argument("--epochs", type=int, default=40, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the key (default: %(default)s)")
    parser.add_argument(
        "--accuracy",
        type=float,
        default=REQUIRED_ACCURACY,
        help="fail below this accuracy on the images held out (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("train_digits"),
        help="the folder for plots, parameters and module (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error(f"--epochs must be 1 or more, got {options.epochs}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the example; 0 where the accuracy is reached and all predictions agree."""
    options = parse_arguments(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    split_key, train_key = random.split(random.key(options.seed))
    training, held_out = split_digits(split_key)
    print(f"{len(training.labels)} images to learn from, {len(held_out.labels)} held out")

    params, history = train(train_key, options.epochs, training, held_out)
    accuracy = history.held_out_accuracy[-1]
    print(f"accuracy: {accuracy:.4f} (at least {options.accuracy:g} expected)")

    predictor = xpr.jit(predict)
    predicted = [np.asarray(part) for part in predictor(params, held_out.images)]
    curves, matrix = options.output / "curves.png", options.output / "confusion.png"
    plot_history(curves, history)
    plot_confusion(matrix, confusion(np.asarray(held_out.labels), predicted[0]))
    print(f"saved {curves} and {matrix}")

    tensors = options.output / "digits.safetensors"
    save_parameters(tensors, params)
    print(f"saved {tensors} ({tensors.stat().st_size / 1024:.0f} KiB)")
    loaded = predictor(load_parameters(tensors), held_out.images)
    same_loaded = compare("loaded parameters", [np.asarray(part) for part in loaded], predicted)

    # What a function closes over becomes part of the module: its only argument is the images.
    module = options.output / "digits.vmfb"
    xpr.jit(partial(predict, params)).save(module, held_out.images)
    print(f"saved {module} ({module.stat().st_size / 1024:.0f} KiB)")
    answers = run_module(module, [np.asarray(held_out.images)], results=2)
    same_module = compare("iree-run-module", answers, predicted)

    if accuracy >= options.accuracy and same_loaded and same_module:
        return 0
    print("train_digits failed: see the lines above", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
