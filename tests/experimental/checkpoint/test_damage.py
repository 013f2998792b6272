"""Files that are cut, altered, missing or of another array: found, and the leaf named."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr.numpy as jnp
from tests.reliability.scripts import cases, damaged
from xpr import tree_util
from xpr.experimental import checkpoint

TREE = {
    "w": jnp.arange(600.0).reshape(300, 2),
    "v": jnp.arange(600).reshape(300, 2),
    "zeros": jnp.zeros((300, 2), "bfloat16"),
    "few": [jnp.arange(3), 5, "text"],
    "moments": (np.arange(1000), jnp.ones((1000,), bool)),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    checkpoint.save(folder, 1, TREE)
    return folder


def _copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def _same(found: Any) -> bool:
    leaves = tree_util.tree_leaves(found), tree_util.tree_leaves(TREE)
    assert [type(x) for x in leaves[0]] == [type(x) for x in leaves[1]]
    return all(np.array_equal(a, b) for a, b in zip(*leaves, strict=True))


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".lock")


def test_files_of_a_checkpoint(whole: Path) -> None:
    """Those that the tests below damage are all that there are."""
    names = {re.sub(r".*/", "", str(p.parent)) + "/" + p.name for p in _files(whole)}
    assert names >= {"1/tree.json", "6.w/zarr.json", "c/0", "0/0"}
    assert _same(checkpoint.restore(whole))


def test_every_file_cut_or_missing(whole: Path, tmp_path: Path) -> None:
    folder = _copy(whole, tmp_path)
    for path in _files(folder):
        content = path.read_bytes()
        for left in (0, 1, len(content) // 2, len(content) - 3):
            path.write_bytes(content[:left])
            with pytest.raises(checkpoint.DamagedCheckpointError) as caught:
                checkpoint.restore(folder)
            _names_what_is_damaged(caught.value, path)
        path.unlink()
        if path.name == "tree.json":
            with pytest.raises(FileNotFoundError, match="no complete checkpoint"):
                checkpoint.restore(folder)
        else:
            with pytest.raises(checkpoint.DamagedCheckpointError, match=r"missing|not exist"):
                checkpoint.restore(folder)
        path.write_bytes(content)
    assert _same(checkpoint.restore(folder))


def _names_what_is_damaged(error: checkpoint.DamagedCheckpointError, path: Path) -> None:
    if path.name == "tree.json":
        assert str(path) in str(error)
        assert error.leaf is None
        return
    at = path.parts.index("arrays")
    leaves = json.loads(Path(*path.parts[:at], "tree.json").read_text())
    store = path.parts[at + 1]
    (leaf,) = [x["path"] for x in leaves["content"]["leaves"] if x.get("store") == store]
    assert error.leaf == leaf
    assert f"leaf {leaf} " in str(error)


@pytest.mark.parametrize("seed", range(cases(40, 800)))
def test_altered_files(seed: int, whole: Path, tmp_path: Path) -> None:
    """An altered file is an error, or does not matter (white space, say)."""
    rng = random.Random(seed)
    folder = _copy(whole, tmp_path)
    path = rng.choice(_files(folder))
    path.write_bytes(damaged(path.read_bytes(), rng))
    try:
        found = checkpoint.restore(folder)
    except checkpoint.CheckpointError:
        return
    assert path.name.endswith(".json")  # every byte of the values counts
    assert _same(found)


def test_every_byte_of_values_counts(whole: Path, tmp_path: Path) -> None:
    folder = _copy(whole, tmp_path)
    path = next((folder / "1" / "arrays").glob("*w/c/*/*"))
    content = path.read_bytes()
    assert len(content) == 600 * 4 + 4
    for at in range(0, len(content), 97):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])
        with pytest.raises(checkpoint.DamagedCheckpointError, match=r"leaf \['w'\] .* Digest"):
            checkpoint.restore(folder)
    path.write_bytes(content + b"\0")
    with pytest.raises(checkpoint.DamagedCheckpointError, match="has 2405 bytes, expected 2404"):
        checkpoint.restore(folder)


def test_arrays_of_another_type(whole: Path, tmp_path: Path) -> None:
    """The folder of another array in place of the right one."""
    folder = _copy(whole, tmp_path)
    stores = {p.name.partition(".")[2]: p for p in (folder / "1" / "arrays").iterdir()}
    shutil.rmtree(stores["w"])
    shutil.copytree(stores["v"], stores["w"])
    with pytest.raises(checkpoint.DamagedCheckpointError, match=r"leaf \['w'\].*float32.*int32"):
        checkpoint.restore(folder)


def test_other_versions_are_named(whole: Path, tmp_path: Path) -> None:
    folder = _copy(whole, tmp_path)
    path = folder / "1" / "tree.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "version": 2}))
    with pytest.raises(checkpoint.CheckpointError, match="has version 2; this xpr reads version 1"):
        checkpoint.restore(folder)
    path.write_text(json.dumps({**content, "format": "else"}))
    with pytest.raises(checkpoint.DamagedCheckpointError, match="its format is 'else'"):
        checkpoint.restore(folder)


def test_a_damaged_checkpoint_does_not_hide_the_one_before(whole: Path, tmp_path: Path) -> None:
    folder = _copy(whole, tmp_path)
    checkpoint.save(folder, 2, {"w": jnp.ones((300, 2))})
    next((folder / "2" / "arrays").glob("*w/c/*/*")).unlink()
    with pytest.raises(checkpoint.DamagedCheckpointError, match=r"leaf \['w'\]"):
        checkpoint.restore(folder)
    assert checkpoint.all_steps(folder) == [1, 2]
    assert _same(checkpoint.restore(folder, 1))
