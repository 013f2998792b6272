"""The example of training on several devices: it learns as on one, parts lie as asked."""

import importlib.util
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import NamedSharding, P, tree
from xpr.sharding import Mesh

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "train_sharded.py"
STEPS = 4


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "XPR_NUM_CPU_DEVICES"},
    )


def test_eight_devices_learn_what_one_learns(tmp_path: Path) -> None:
    done = _run(tmp_path, "--steps", str(STEPS), "--layers", "1", "--output", "made/here")
    assert done.returncode == 0, done.stdout + done.stderr

    number = r"(\d+\.\d+)"
    line = rf"^(.+ devices?): loss {number} at first, {number} at last, \d+ ms a step$"
    found = re.findall(line, done.stdout, flags=re.MULTILINE)
    assert [name for name, _, _ in found] == ["one device", "8 devices"]
    (first, last), sharded = [[float(value) for value in values] for _, *values in found]
    assert sharded == pytest.approx([first, last], rel=0, abs=2e-4)
    # A model that knows nothing is surprised by log(128), and the first steps learn the most.
    assert abs(first - math.log(128)) < 0.3
    assert last < first - 1
    difference = re.search(r"^greatest difference of the losses: (\S+) \(ok\)$", done.stdout, re.M)
    assert difference is not None, done.stdout
    assert float(difference[1]) <= 1e-4

    row = r"^([a-z][\w.]+) +(\([\d, ]+\)) +(\([\d, ]+\)) +(P\(.*\))$"
    parts = {name: rest for name, *rest in re.findall(row, done.stdout, flags=re.MULTILINE)}
    assert parts == {
        "embedding": ["(128, 64)", "(32, 64)", "P('model', None)"],
        "head": ["(64, 128)", "(64, 32)", "P(None, 'model')"],
        "layers.0.down": ["(256, 64)", "(64, 64)", "P('model', None)"],
        "layers.0.join": ["(64, 64)", "(16, 64)", "P('model', None)"],
        **{
            f"layers.0.{name}": ["(64, 64)", "(64, 16)", "P(None, 'model')"]
            for name in ("key", "query", "value")
        },
        "layers.0.scale": ["(2, 64)", "(2, 64)", "P()"],
        "layers.0.up": ["(64, 256)", "(64, 64)", "P(None, 'model')"],
        "position": ["(64, 64)", "(64, 64)", "P()"],
        "scale": ["(64,)", "(64,)", "P()"],
    }
    assert re.search(r"^in all [\d.]+ MB per device and run$", done.stdout, re.MULTILINE)

    made = tmp_path / "made" / "here"
    assert sorted(file.name for file in made.iterdir()) == ["loss.png", "shardings.png"]
    for picture in made.iterdir():
        assert picture.read_bytes().startswith(b"\x89PNG\r\n")
        assert picture.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "--steps must be 1 or more, got 0"),
        (["--layers", "0"], "--layers must be 1 or more, got 0"),
        (["--mesh", "3x1"], "argument --mesh: invalid mesh_shape value: '3x1'"),
        (["--mesh", "1x8"], "argument --mesh: invalid mesh_shape value: '1x8'"),
    ],
)
def test_arguments_that_cannot_be(
    example: ModuleType, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        example.main(arguments)
    assert message in capsys.readouterr().err


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_sharded", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(xpr.devices("cpu")[:8]).reshape(2, 4), ("data", "model"))


def test_it_fails_where_losses_differ_or_parts_lie_elsewhere(
    example: ModuleType,
    mesh: Mesh,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = example.initial_state(example.random.key(0), 1)
    right = example.place(mesh, state, example.state_specs(1))
    key = right.params["layers"][0]["key"]
    moved = xpr.device_put(key, NamedSharding(mesh, P("model")))
    layer = {**right.params["layers"][0], "key": moved}
    wrong = right._replace(params={**right.params, "layers": [layer]})

    for name in ("plot_losses", "plot_shardings"):
        monkeypatch.setattr(example, name, lambda *_: None)

    def run(state: Any, second: list[float]) -> tuple[int, str]:
        answers = {True: [4.0, 3.0], False: second}
        monkeypatch.setattr(example, "train", lambda m, _: (state, answers[m is None]))
        code = example.main(["--layers", "1", "--output", str(tmp_path)])
        return code, "".join(capsys.readouterr())

    code, text = run(right, [4.0, 3.0])
    assert code == 0
    assert "(ok)" in text
    code, text = run(right, [4.0, 3.001])
    assert code == 1
    assert "0.001 (MISMATCH, 0.0001 is allowed)" in text
    code, text = run(wrong, [4.0, 3.0])
    assert code == 1
    assert re.search(r"^layers\.0\.key .* P\('model',\)  WRONG, P\(None, 'model'\) was", text, re.M)


def test_batches_are_pieces_of_the_text(example: ModuleType) -> None:
    text = np.frombuffer(Path(example.argparse.__file__).read_bytes(), np.uint8)
    windows = {bytes(text[i : i + 65]) for i in range(len(text) - 64)}
    first, second = list(example.batches(3, 2))
    assert first.shape == second.shape == (32, 65)
    assert first.dtype == np.int32
    assert all(bytes(row.astype(np.uint8)) in windows for row in (*first, *second))
    np.testing.assert_array_equal(next(example.batches(3, 1)), first)
    assert (next(example.batches(4, 1)) != first).any()


def test_a_character_sees_those_before_it_only(example: ModuleType) -> None:
    params = example.initial_state(example.random.key(1), 1).params
    text = next(example.batches(0, 1))[:2, :-1]
    changed = text.copy()
    changed[:, 40] = (changed[:, 40] + 1) % 128
    before, after = (np.asarray(example.logits(params, x)) for x in (text, changed))
    np.testing.assert_array_equal(before[:, :40], after[:, :40])
    assert (before[:, 40:] != after[:, 40:]).any(axis=-1).all()


def test_specs_have_the_structure_of_the_state(example: ModuleType) -> None:
    state = example.initial_state(example.random.key(0), 2)
    specs = example.state_specs(2)
    assert tree.structure(specs) == tree.structure(state)
    buffers = [leaf.unsafe_buffer_pointer() for leaf in tree.leaves(state)]
    assert len(set(buffers)) == len(buffers)


def test_a_step_sends_what_the_textbook_says(example: ModuleType, mesh: Mesh) -> None:
    layers = 2
    state = example.place(
        mesh, example.initial_state(example.random.key(0), layers), example.state_specs(layers)
    )
    text = example.place(mesh, next(example.batches(0, 1)), P("data"))
    shardings = tree.map(lambda x: x.sharding, state)
    step = xpr.jit(example.train_step, out_shardings=(shardings, None))
    sent: dict[int, list[float]] = {2: [], 4: []}
    for transfer in step.lower(state, text).communication().transfers:
        assert (transfer.kind, transfer.times) == ("all_reduce", 1)
        sent[transfer.devices].append(transfer.bytes)
    # Along `model`, a sum of activations f32[16, 64, 64] after each attention and each network, as
    # much on the way back, one for the embedding and one for the head. The softmax over characters
    # takes the greatest of each place, two sums, and one on the way back.
    activations, places = 16 * 64 * 64 * 4, 16 * 64 * 4
    ring = 2 * 3 / 4
    expected = [ring * activations] * (4 * layers + 2) + [ring * places] * 4
    assert sorted(sent[4], reverse=True) == expected
    # Along `data`, the gradient of what each device holds of the parameters, and the loss.
    parts = [leaf.addressable_shards[0].data.nbytes for leaf in tree.leaves(state.params)]
    assert sum(sent[2]) == sum(parts) + 4
