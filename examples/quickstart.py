"""Classify digits by their nearest neighbours, then run the same program without Python.

One compiled function normalises the columns, finds the three nearest training images of each held
out image and lets them vote. Its result is compared with the same program in NumPy. Then the
function is saved as a .vmfb file, and that file is run with `iree-run-module` on the same input.

    python examples/quickstart.py
    python examples/quickstart.py --seed 3 --output digits.vmfb
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import xpr
import xpr.numpy as xnp

CLASSES = 10
NEIGHBOURS = 3
# The distances are float32 sums of 64 terms below one, so rounding stays well under this.
TOLERANCE = 1e-3
REQUIRED_ACCURACY = 0.97


def classify(
    module: ModuleType,
    top_k: Callable[[Any, int], Any],
    train: Any,
    labels: Any,
    images: Any,
) -> tuple[Any, Any]:
    """The class of each image, int32[n], and its squared distances to its neighbours, f32[n, 3].

    ``train`` is f32[m, d], ``labels`` int32[m] and ``images`` f32[n, d]. ``module`` is
    ``xpr.numpy`` or ``numpy``: both read the same program.
    """
    low = train.min(axis=0)
    width = train.max(axis=0) - low
    width = module.where(width > 0, width, 1.0)
    train = (train - low) / width
    images = (images - low) / width

    # |a - b|² = |a|² - 2 a·b + |b|²: one matrix product gives every distance.
    squares = (images * images).sum(axis=1)[:, None] + (train * train).sum(axis=1)
    distances = squares - 2.0 * (images @ train.T)
    nearest, index = top_k(-distances, NEIGHBOURS)
    nearest = -nearest

    # A vote weighs the inverse of its distance, so that the nearest image breaks a tie.
    weights = 1.0 / module.maximum(nearest, 1e-6)
    votes = labels[index][:, :, None] == module.arange(CLASSES, dtype="int32")
    score = (votes * weights[:, :, None]).sum(axis=1)
    return score.argmax(axis=1).astype("int32"), nearest


def numpy_top_k(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest values of each row and where they are: `xpr.lax.top_k` in NumPy."""
    index = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, index, axis=1), index


def split_digits(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images and labels (two thirds), then those held out, in a seeded random order."""
    images, labels = (np.asarray(part) for part in load_digits(return_X_y=True))
    order = np.random.default_rng(seed).permutation(len(labels))
    images, labels = images[order].astype(np.float32), labels[order].astype(np.int32)
    cut = len(order) * 2 // 3
    return images[:cut], labels[:cut], images[cut:], labels[cut:]


def run_module(path: Path, arguments: list[np.ndarray], results: int) -> list[np.ndarray]:
    """Run a .vmfb file with `iree-run-module`, a program that holds no Python and no xpr."""
    program = shutil.which("iree-run-module", path=Path(sys.executable).parent)
    if program is None:
        raise FileNotFoundError(
            f"iree-run-module is not in {Path(sys.executable).parent}: "
            "it comes with the package iree-base-runtime"
        )
    with tempfile.TemporaryDirectory() as folder:
        command = [program, f"--module={path}", "--device=local-task", "--function=main"]
        for number, argument in enumerate(arguments):
            file = Path(folder, f"input{number}.npy")
            np.save(file, argument)
            command.append(f"--input=@{file}")
        outputs = [Path(folder, f"output{number}.npy") for number in range(results)]
        command += [f"--output=@{file}" for file in outputs]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"iree-run-module failed with {done.returncode}:\n{done.stderr}")
        return [np.load(file) for file in outputs]


def compare(
    name: str, found: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray]
) -> bool:
    """Print how far two results are apart, and whether that is within the tolerance."""
    disagree = int(np.count_nonzero(found[0] != expected[0]))
    difference = float(np.max(np.abs(found[1] - expected[1])))
    agree = disagree == 0 and difference <= TOLERANCE
    verdict = "ok" if agree else f"MISMATCH, {TOLERANCE:g} is allowed"
    print(
        f"{name}: greatest difference {difference:.2g}, {disagree} classes differ ({verdict})",
        flush=True,
    )
    return agree


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Classify digits with one compiled function and run it without Python."
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random split (default: 0)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("digits.vmfb"),
        help="where to save the compiled module (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the example; 0 where the accuracy is reached and all three results agree."""
    options = parse_arguments(arguments)
    train, labels, images, truth = split_digits(options.seed)
    print(f"{len(train)} images to learn from, {len(images)} held out")

    @xpr.jit
    def digits(train: Any, labels: Any, images: Any) -> tuple[Any, Any]:
        return classify(xnp, xpr.lax.top_k, train, labels, images)

    predicted, nearest = (np.asarray(result) for result in digits(train, labels, images))
    accuracy = float(np.mean(predicted == truth))
    reached = accuracy >= REQUIRED_ACCURACY
    print(f"accuracy: {accuracy:.4f} (at least {REQUIRED_ACCURACY} expected)")

    expected = classify(np, numpy_top_k, train, labels, images)
    same_as_numpy = compare("against NumPy", (predicted, nearest), expected)

    digits.lower(train, labels, images).compile().save(options.output)
    print(f"saved {options.output} ({options.output.stat().st_size / 1024:.0f} KiB)")
    classes, distances = run_module(options.output, [train, labels, images], results=2)
    same_as_file = compare("iree-run-module", (classes, distances), (predicted, nearest))

    if reached and same_as_numpy and same_as_file:
        return 0
    print("quickstart failed: see the lines above", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
