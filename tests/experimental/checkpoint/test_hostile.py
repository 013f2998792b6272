"""Checkpoints made to read something else: links, pipes, sizes, and each field of the structure."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.reliability.scripts import cases
from xpr.experimental import checkpoint
from xpr.experimental.checkpoint.leaves import is_store_name, leaf_from_json

TREE = {
    "w": jnp.arange(600.0).reshape(300, 2),
    "few": [jnp.arange(3), np.float32(2), 5, 1.5, 2j, b"x", None, "text"],
    "pair": (np.arange(1000), {}),
    "keys": xpr.random.split(xpr.random.key(1), 3),
    "tuples": {(1, 2): {3: True}},
    "empty": jnp.zeros((0, 3)),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    checkpoint.save(folder, 1, {"secret": jnp.full((300, 2), 42.0), **{f"x{i}": i for i in "ab"}})
    checkpoint.save(folder, 2, TREE)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def _content(folder: Path, step: int = 2) -> Any:
    return json.loads((folder / str(step) / "tree.json").read_text())["content"]


def _write(folder: Path, content: Any) -> None:
    """The structure with a digest that fits."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    whole = {"format": "xpr checkpoint", "version": 1, "digest": digest, "content": content}
    (folder / "2" / "tree.json").write_text(json.dumps(whole))


def _leaf(content: Any, path: str) -> Any:
    return next(leaf for leaf in content["leaves"] if leaf["path"] == path)


@pytest.mark.parametrize(
    "store",
    [
        *(
            "{other}",
            "../../1/arrays/{name}",
            "..",
            ".",
            "",
            "/",
            "9.w/",
            "9.w\0",
            "٣.w",
            "0" * 300,
        ),
        *(5, ["0.w"], "{name}/.", "./{name}", "{name}\n"),
    ],
)
def test_stores_are_names_of_folders_inside(store: Any, folder: Path) -> None:
    name = _leaf(_content(folder, 1), "['secret']")["store"]
    content = _content(folder)
    if isinstance(store, str):
        store = store.format(other=folder / "1" / "arrays" / name, name=name)
    _leaf(content, "['w']")["store"] = store
    _write(folder, content)
    with pytest.raises(checkpoint.DamagedCheckpointError, match=r"has a store .* never makes"):
        checkpoint.restore(folder)
    with pytest.raises(checkpoint.DamagedCheckpointError, match=r"has a store .* never makes"):
        checkpoint.metadata(folder)


def test_names_of_stores() -> None:
    for leaf in _content_leaves():
        assert is_store_name(leaf)


def _content_leaves() -> Iterator[str]:
    from xpr.experimental.checkpoint.leaves import ArrayLeaf, stored  # noqa: PLC0415  one use

    for path in ("", "['w']", "['" + "x" * 200 + "']", "['é']", ".a[0]"):
        leaf = stored(ArrayLeaf(path, "array", (8, 2), np.dtype(np.float32)), 12, (1, 1))
        assert leaf.store is not None
        assert leaf_from_json(leaf.to_json()) == leaf
        yield leaf.store


def _w(folder: Path, step: int = 2, path: str = "['w']") -> Path:
    return folder / str(step) / "arrays" / _leaf(_content(folder, step), path)["store"]


def _link(of: Path, to: Path) -> None:
    shutil.rmtree(of) if of.is_dir() else of.unlink()
    of.symlink_to(to)


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.unlink()
    os.mknod(path, 0o20644, os.makedev(1, 5))  # /dev/zero


def _huge(path: Path) -> None:
    os.truncate(path, 1 << 34)  # sparse: it takes no room


def _secret(folder: Path) -> Path:
    return _w(folder, 1, "['secret']")


PLACES: dict[str, Callable[[Path], Path]] = {
    "tree": lambda f: f / "2" / "tree.json",
    "zarr": lambda f: _w(f) / "zarr.json",
    "chunk": lambda f: _w(f) / "c" / "0" / "0",
}
FOLDERS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Path]]] = {
    "step": (lambda f: f / "2", lambda f: f / "1"),
    "arrays": (lambda f: f / "2" / "arrays", lambda f: f / "1" / "arrays"),
    "store": (_w, _secret),
    "c": (lambda f: _w(f) / "c", lambda f: _secret(f) / "c"),
    "row": (lambda f: _w(f) / "c" / "0", lambda f: _secret(f) / "c" / "0"),
}


@pytest.mark.parametrize("place", FOLDERS)
def test_links_to_folders(place: str, folder: Path) -> None:
    link, target = (where(folder) for where in FOLDERS[place])
    _link(link, target)
    with pytest.raises(checkpoint.DamagedCheckpointError, match="is a link, expected a folder"):
        checkpoint.restore(folder, 2)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["link", "fifo", "device", "folder", "huge"])
def test_files_of_other_kinds(kind: str, place: str, folder: Path, tmp_path: Path) -> None:
    path = PLACES[place](folder)
    match = "is not a regular file"
    if kind == "link":
        same = tmp_path / "same"
        shutil.copy(path, same)
        _link(path, same)
        match = "is a link, expected a regular file"
    elif kind == "fifo":
        _fifo(path)
    elif kind == "device":
        if os.geteuid() != 0:
            pytest.skip("only root can make a device")
        try:
            _device(path)
        except PermissionError:
            pytest.skip("devices cannot be made here")
    elif kind == "folder":
        path.unlink()
        path.mkdir()
    else:
        _huge(path)
        match = f"{1 << 34} bytes"
    with pytest.raises(checkpoint.DamagedCheckpointError, match=match):
        checkpoint.restore(folder)


def test_no_memory_is_asked_for_what_is_not_there(folder: Path) -> None:
    for shape, chunks in (([1 << 50, 2], [300, 2]), ([1 << 40, 2], [1 << 40, 2])):
        content = _content(folder)
        _leaf(content, "['w']").update(shape=shape, chunks=chunks)
        _write(folder, content)
        with pytest.raises(checkpoint.DamagedCheckpointError, match=r"is missing|expected \d{13}"):
            checkpoint.restore(folder)


def test_the_lock_and_what_died_are_no_ways_out(folder: Path, tmp_path: Path) -> None:
    """A save follows no links that whoever made the directory has put there."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep")
    (folder / "3.tmp-00000000").symlink_to(precious)
    (folder / "1.old").symlink_to(precious)
    checkpoint.save(folder, 4, {"x": 1})
    assert not (folder / "3.tmp-00000000").is_symlink()
    _link(folder / ".lock", precious / "file")
    with pytest.raises(checkpoint.CheckpointError, match="is a link or not a regular file"):
        checkpoint.save(folder, 5, {"x": 1})
    (folder / ".lock").unlink()
    os.mkfifo(folder / ".lock")
    with pytest.raises(checkpoint.CheckpointError, match="is not a regular file"):
        checkpoint.save(folder, 5, {"x": 1})
    assert (precious / "file").read_text() == "keep"


# ---- each field of the structure

_DEEP: Any = None
for _ in range(400):
    _DEEP = {"list": [_DEEP]}
VALUES: list[Any] = [None, True, -1, 0, 1, 7, 1 << 70, 1.5, float("nan"), "", "x", "../x", "\ud800"]
VALUES += [[], {}, [[]], [None], {"leaf": 0}, {"leaf": True}, {"tuple": {"0": 1}}, _DEEP]
VALUES += [{"key": {"_data": {"leaf": 1}}}, {"None": 1}, {"dict": [[{"int": 1}, None]] * 2}]
VALUES += ["int64", "bfloat16", "float0", "object", ">f4", [300, -2], [1 << 62, 2], [0, 1 << 62]]


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _places(value[key], (*at, key))


def _replaced(content: Any, at: tuple[Any, ...], value: Any) -> Any:
    if not at:
        return value
    changed = copy.deepcopy(content)
    inside = changed
    for key in at[:-1]:
        inside = inside[key]
    if value is ...:
        del inside[at[-1]]
    else:
        inside[at[-1]] = value
    return changed


def test_each_field_replaced(folder: Path) -> None:
    """The result is a tree or a DamagedCheckpointError; a type that needs x64 is told so."""
    content = _content(folder)
    places = list(_places(content))
    assert len(places) > 100
    tried = [(at, value) for at in places for value in (*VALUES, ...)]
    rng = random.Random(0)
    damaged = 0
    with xpr.enable_x64(True):
        for at, value in rng.sample(tried, cases(800, len(tried))):
            if value is ... and not at:
                continue
            _write(folder, _replaced(content, at, value))
            try:
                checkpoint.restore(folder)
            except checkpoint.DamagedCheckpointError:
                damaged += 1
    assert damaged > 400


def test_each_field_of_the_file_replaced(folder: Path) -> None:
    path = folder / "2" / "tree.json"
    whole = json.loads(path.read_text())
    for key in whole:
        for value in (*VALUES, ...):
            path.write_text(json.dumps(_replaced(whole, (key,), value)))
            if whole[key] == value and type(whole[key]) is type(value):
                continue
            is_newer = key == "version" and type(value) is int and value > 1
            kind = checkpoint.CheckpointError if is_newer else checkpoint.DamagedCheckpointError
            with pytest.raises(kind, match=r"tree\.json (is damaged|has version)"):
                checkpoint.restore(folder)
    for text in ("[" * 100000, '{"format":' * 5000, "9" * 10000, "\0", "nul", "[]", '"x"'):
        path.write_text(text)
        with pytest.raises(checkpoint.DamagedCheckpointError, match=r"tree\.json is damaged"):
            checkpoint.restore(folder)
