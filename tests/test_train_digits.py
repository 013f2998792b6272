"""The example of training runs as a user runs it: it learns, saves, loads and runs elsewhere."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "train_digits.py"
EPOCHS = 8


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=folder,
    )


def test_train_digits_learns_saves_and_runs_without_python(tmp_path: Path) -> None:
    done = _run(tmp_path, "--epochs", str(EPOCHS), "--accuracy", "0.95", "--output", "made/here")
    assert done.returncode == 0, done.stdout + done.stderr

    number = r"(\d+\.\d+)"
    bar = rf"^epoch (\d+)/{EPOCHS} \[(#*)\.*\] loss {number}, accuracy {number}, held out {number}$"
    epochs = re.findall(bar, done.stdout, flags=re.MULTILINE)
    assert [int(epoch) for epoch, *_ in epochs] == list(range(1, EPOCHS + 1))
    assert [len(filled) for _, filled, *_ in epochs] == [20 * e // 8 for e in range(1, 9)]
    losses = [float(loss) for _, _, loss, _, _ in epochs]
    assert losses[-1] < 0.5 < 1 < losses[0]
    accuracy = re.search(rf"^accuracy: {number} ", done.stdout, flags=re.MULTILINE)
    assert accuracy is not None, done.stdout
    assert float(accuracy[1]) >= 0.95
    assert accuracy[1] == epochs[-1][-1]

    line = r"^([\w -]+): greatest difference (\S+), (\d+) classes differ \(ok\)$"
    found = re.findall(line, done.stdout, flags=re.MULTILINE)
    assert [name for name, _, _ in found] == ["loaded parameters", "iree-run-module"]
    assert float(found[0][1]) == 0
    assert float(found[1][1]) <= 1e-4
    assert all(int(disagree) == 0 for _, _, disagree in found)

    made = tmp_path / "made" / "here"
    assert sorted(file.name for file in made.iterdir()) == [
        "confusion.png",
        "curves.png",
        "digits.safetensors",
        "digits.vmfb",
    ]
    for name in ("confusion.png", "curves.png"):
        picture = (made / name).read_bytes()
        assert picture.startswith(b"\x89PNG\r\n")
        assert len(picture) > 10_000
    tensors = load_file(made / "digits.safetensors")
    assert tensors["conv2.kernel"].shape == (3, 3, 24, 48)
    assert sorted(tensors) == [
        f"{layer}.{part}"
        for layer in ("conv1", "conv2", "dense1", "dense2")
        for part in ("bias", "kernel")
    ]


def test_train_digits_refuses_no_epochs(tmp_path: Path) -> None:
    done = _run(tmp_path, "--epochs", "0")
    assert done.returncode == 2
    assert "--epochs must be 1 or more, got 0" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def example() -> ModuleType:
    # It takes run_module from the example beside it.
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE.parent))
        spec = importlib.util.spec_from_file_location("train_digits", EXAMPLE)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def test_adam_takes_the_steps_of_the_paper(example: ModuleType) -> None:
    rng = np.random.default_rng(0)
    start = rng.standard_normal(5).astype(np.float32)
    zeros = np.zeros(5, np.float32)
    params: Any = {"layer": {"w": start}}
    state = example.Optimiser(0, {"layer": {"w": zeros}}, {"layer": {"w": zeros}})
    expected, mean, square = start.astype(np.float64), np.zeros(5), np.zeros(5)
    for t in range(1, 6):
        gradient = rng.standard_normal(5).astype(np.float32)
        params, state = example.adam(params, state, {"layer": {"w": gradient}}, 0.1)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient.astype(np.float64) ** 2
        step = mean / (1 - 0.9**t) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
        expected -= 0.1 * step
    assert int(state.steps) == 5
    # 1 - 0.999**t loses ten of the 24 bits.
    np.testing.assert_allclose(np.asarray(params["layer"]["w"]), expected, rtol=0, atol=5 * 2**-14)


def test_shifted_images_are_moved_by_up_to_a_pixel(example: ModuleType) -> None:
    images = np.random.default_rng(0).uniform(1, 2, (9, 8, 8)).astype(np.float32)
    offsets = np.array([(i, j) for i in range(3) for j in range(3)], np.int32)
    moved = np.asarray(example.shift(images, offsets))
    for image, (i, j), found in zip(images, offsets, moved, strict=True):
        np.testing.assert_array_equal(found, np.pad(image, 1)[i : i + 8, j : j + 8])


def test_an_epoch_is_the_same_each_time_and_consumes_what_is_donated(example: ModuleType) -> None:
    random, tree, xnp = example.random, example.tree, example.xnp
    split_key, init_key, key = random.split(random.key(7), 3)
    training, held_out = example.split_digits(split_key)
    assert (len(training.labels), len(held_out.labels)) == (1198, 599)

    def run() -> tuple[list[np.ndarray], Any]:
        params = example.initial_parameters(init_key)
        zeros = [tree.map(xnp.zeros_like, params) for _ in range(2)]
        state = example.Optimiser(xnp.int32(0), *zeros)
        result = example.train_epoch(params, state, key, xnp.float32(18), training)
        return [np.array(leaf) for leaf in tree.leaves(result)], params

    first, donated = run()
    second, _ = run()
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert all(leaf.is_deleted() for leaf in tree.leaves(donated))
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(donated["conv1"]["bias"])


def test_train_digits_fails_below_the_accuracy(
    example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert example.main(["--epochs", "1", "--output", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.out.count("(ok)") == 2
    assert "train_digits failed" in printed.err


def test_parameters_and_confusions(example: ModuleType, tmp_path: Path) -> None:
    params = example.initial_parameters(example.random.key(0))
    file = tmp_path / "p.safetensors"
    example.save_parameters(file, params)
    loaded = example.load_parameters(file)
    assert example.tree.structure(loaded) == example.tree.structure(params)
    for a, b in zip(example.tree.leaves(loaded), example.tree.leaves(params), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))

    counts = example.confusion(np.array([1, 1, 2, 1]), np.array([1, 3, 2, 3]))
    assert counts.sum() == 4
    assert (counts[1, 1], counts[1, 3], counts[2, 2]) == (1, 2, 1)


def test_train_digits_reports_a_mismatch(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = [np.array([1, 2]), np.array([[0.5], [0.5]])]
    assert example.compare("here", expected, expected)
    assert "(ok)" in capsys.readouterr().out
    for classes, probability in (([1, 3], 0.5), ([1, 2], 0.75)):
        found = [np.array(classes), np.array([[0.5], [probability]])]
        assert not example.compare("here", found, expected)
        assert "MISMATCH" in capsys.readouterr().out
