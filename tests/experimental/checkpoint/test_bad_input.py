"""What cannot be saved or does not fit is refused, and the message says where."""

from __future__ import annotations

import collections
import datetime
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.experimental import checkpoint

TREE = {"layers": [{"w": jnp.ones((300, 2)), "b": jnp.zeros(2)}], "step": 5, "name": "a"}


class Pair(NamedTuple):
    a: Any
    b: Any


def _like(**changes: Any) -> dict[str, Any]:
    return {**TREE, **changes}


@pytest.mark.parametrize(
    ("like", "error", "match"),
    [
        (_like(step=...) | {"extra": 1}, TypeError, r"\['extra'\] is in `like` and not in"),
        ({"step": 5, "name": "a"}, TypeError, r"\['layers'\] is in the checkpoint and not in"),
        (_like(layers=[]), TypeError, r"\['layers'\]\[0\] is in the checkpoint and not in `like`"),
        (_like(layers=({},)), TypeError, r"\['layers'\] is a list of 1 in the .* and a tuple of 1"),
        (_like(layers=[Pair(1, 2)]), TypeError, r"\['layers'\]\[0\] is a dict of b, w in .*Pair"),
        (_like(layers=None), TypeError, r"\['layers'\] is a list of 1 in the checkpoint and None"),
        (_like(layers=3), TypeError, r"\['layers'\] is a list of 1 in the checkpoint and a leaf"),
        (_like(step={"a": 1}), TypeError, r"\['step'\] is a leaf in the .* and a dict of a"),
        (_like(step=5.0), TypeError, r"\['step'\] is 5 of type int in the .* 5.0 of type float"),
        (_like(step=True), TypeError, r"\['step'\] is 5 of type int .* True of type bool"),
        (_like(step=jnp.ones(2)), TypeError, r"\['step'\] is 5 of type int .* type ArrayImpl"),
        (_like(name=b"a"), TypeError, r"\['name'\] is 'a' of type str .* b'a' of type bytes"),
        (
            _like(layers=[{"w": jnp.ones((2, 300)), "b": ...}]),
            ValueError,
            r"leaf \['layers'\]\[0\]\['w'\] has shape \(300, 2\) .* \(2, 300\) in `like`",
        ),
        (
            _like(layers=[{"w": ..., "b": jnp.zeros(2, int)}]),
            TypeError,
            r"leaf \['layers'\]\[0\]\['b'\] has dtype float32 .* int32 in `like`",
        ),
        (
            _like(layers=[{"w": ..., "b": 3.0}]),
            TypeError,
            r"\['layers'\]\[0\]\['b'\] is float32\[2\] in the checkpoint, and 3.0 of type float",
        ),
        (
            _like(layers=[{"w": ..., "b": object()}]),
            TypeError,
            r"\['layers'\]\[0\]\['b'\] is float32\[2\] in the .* of type object in `like`",
        ),
        ([1, 2], TypeError, r"the whole tree is a dict of layers, name, step in the checkpoint"),
    ],
)  # fmt: skip
def test_another_tree(like: Any, error: type[Exception], match: str, saved: Path) -> None:
    with pytest.raises(error, match=match):
        checkpoint.restore(saved, like=like)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    checkpoint.save(folder, 3, TREE)
    return folder


def test_like_dicts_of_other_kinds_fit(saved: Path) -> None:
    found = checkpoint.restore(saved, like=collections.OrderedDict(sorted(TREE.items())))
    assert type(found) is collections.OrderedDict
    assert found["step"] == 5


class Plain:
    pass


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (Plain(), r"cannot keep leaf \['x'\]\[1\] of .*Plain.*registered as pytrees"),
        (datetime.date(2020, 1, 1), r"leaf \['x'\]\[1\] of <class 'datetime.date'>"),
        (np.array(["a"]), r"leaf \['x'\]\[1\]: a NumPy array of dtype <U1"),
        (np.array([object()]), r"leaf \['x'\]\[1\]: a NumPy array of dtype object"),
        (np.ma.masked_array([1.0]), r"leaf \['x'\]\[1\] of .*MaskedArray"),
        (np.longdouble(1), r"leaf \['x'\]\[1\]: a NumPy array of dtype (float128|longdouble)"),
        ({Plain: 1}, r"a dictionary's key .*Plain"),
    ],
)
def test_values_that_cannot_be_kept(value: Any, match: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=match):
        checkpoint.save(tmp_path, 0, {"x": [1, value]})
    assert [p.name for p in tmp_path.iterdir() if p.name != ".lock"] == []


def test_traced_values(tmp_path: Path) -> None:
    def step(x: Any) -> Any:
        checkpoint.save(tmp_path, 0, {"x": x})
        return x

    with pytest.raises(TypeError, match=r"leaf \['x'\] .*it is being traced"):
        xpr.jit(step)(jnp.ones(2))


@pytest.mark.parametrize(
    ("step", "error", "match"),
    [
        (-1, ValueError, "must not be negative, got -1"),
        (1.5, TypeError, "must be an integer, got 1.5"),
        ("1", TypeError, "must be an integer, got '1'"),
        (None, TypeError, "must be an integer, got None"),
    ],
)
def test_steps(step: Any, error: type[Exception], match: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=match):
        checkpoint.save(tmp_path, step, 1)


def test_a_step_that_exists(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, "first")
    with pytest.raises(FileExistsError, match=r"a checkpoint of step 1 .*overwrite=True replaces"):
        checkpoint.save(tmp_path, 1, "second")
    assert checkpoint.restore(tmp_path) == "first"
    checkpoint.save(tmp_path, 1, "second", overwrite=True)
    assert checkpoint.restore(tmp_path) == "second"
    (tmp_path / "2").mkdir()
    for overwrite in (False, True):
        with pytest.raises(FileExistsError, match="something else in place of step 2"):
            checkpoint.save(tmp_path, 2, "third", overwrite=overwrite)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "1", "2"]


def test_nothing_to_restore(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        checkpoint.restore(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="no complete checkpoint in"):
        checkpoint.restore(tmp_path)
    for step in range(12):
        checkpoint.save(tmp_path, step, step)
    with pytest.raises(FileNotFoundError, match=r"of step 99 .* 0, 1, 2, \.\.\., 8, 9, 10, 11"):
        checkpoint.restore(tmp_path, 99)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError, match="file is no directory"):
        checkpoint.restore(tmp_path / "file")


def test_directories_are_made(tmp_path: Path) -> None:
    assert checkpoint.latest_step(tmp_path / "a" / "b") is None
    checkpoint.save(tmp_path / "a" / "b", 1, 2)
    assert checkpoint.all_steps(str(tmp_path / "a" / "b")) == [1]
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        checkpoint.save(tmp_path / "file", 1, 2)


_READ_ONLY = """
import os, sys
import xpr
from xpr.experimental import checkpoint
checkpoint.save(sys.argv[1], 1, 2)
os.chmod(sys.argv[1], 0o555)
os.chmod(sys.argv[1] + "/.lock", 0o444)
if os.geteuid() == 0:
    os.seteuid(65534)  # root may write everywhere
try:
    checkpoint.save(sys.argv[1], 2, 3)
except PermissionError as error:
    print("refused", error.filename.startswith(sys.argv[1]))
print(checkpoint.all_steps(sys.argv[1]))
"""


def test_a_directory_that_is_read_only(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    for folder in (tmp_path, *tmp_path.parents[:3]):  # xdist adds one
        if folder.stat().st_uid == os.getuid():
            folder.chmod(0o755)
    run = subprocess.run(
        [sys.executable, "-c", _READ_ONLY, str(tmp_path / "c")],
        capture_output=True,
        text=True,
        check=False,
    )
    (tmp_path / "c").chmod(0o755)
    assert (run.stdout, run.returncode) == ("refused True\n[1]\n", 0), run.stderr


def test_without_tensorstore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorstore", None)
    for use in (lambda: checkpoint.save(tmp_path, 0, 1), lambda: checkpoint.restore(tmp_path)):
        with pytest.raises(ImportError, match=r"pip install 'xpr\[checkpoint\]'"):
            use()


def test_wide_dtypes_need_their_setting(tmp_path: Path) -> None:
    with xpr.enable_x64():
        tree = {"w": jnp.ones(300, "float64")}
        checkpoint.save(tmp_path, 0, tree)
    with pytest.raises(TypeError, match=r"leaf \['w'\] has dtype float64 .* setting enable_x64"):
        checkpoint.restore(tmp_path)
    like = {"w": xpr.ShapeDtypeStruct((300,), "float32")}
    with pytest.raises(TypeError, match=r"dtype float64 .* float32 in `like`.*enable_x64"):
        checkpoint.restore(tmp_path, like=like)
    with xpr.enable_x64():
        assert checkpoint.restore(tmp_path, like=tree)["w"].dtype == np.float64


def test_arguments_of_checkpointers(tmp_path: Path) -> None:
    for keep in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="keep must be a positive number"):
            checkpoint.Checkpointer(tmp_path, keep=keep)
    with checkpoint.Checkpointer(tmp_path) as checkpointer:
        pass
    with pytest.raises(ValueError, match="is closed"):
        checkpointer.save(1, 2)
