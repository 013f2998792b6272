"""Saving in the background: what is saved is what there was, and no error is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.experimental import checkpoint
from xpr.experimental.checkpoint import saving
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes writing fail."""

    def fail(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(saving, "write", fail)
        yield patch


def test_donation_and_changes_after_save(tmp_path: Path, gate: threading.Event) -> None:
    mesh = Mesh(np.array(xpr.devices("cpu")[:4]), ("x",))
    values = np.arange(4096 * 16, dtype=np.float32).reshape(4096, 16)
    host = values.copy()
    step = xpr.jit(lambda tree: [x * -1 for x in tree], donate_argnums=0)
    state = step([xpr.device_put(-values, NamedSharding(mesh, P("x"))), jnp.asarray(-values)])
    deleted = jnp.asarray(values) + 0
    with checkpoint.Checkpointer(tmp_path) as checkpointer:
        tree = {"state": state, "host": host, "deleted": deleted, "list": [1, 2]}
        checkpointer.save(0, tree, wait=False)
        assert checkpointer.is_saving()
        for _ in range(3):
            state = step(state)
        host[:] = 0
        deleted.delete()
        tree["list"].append(3)
        tree.clear()
        np.testing.assert_array_equal(state[0], -values)
        gate.set()
        checkpointer.wait()
        assert not checkpointer.is_saving()
        found = checkpointer.restore()
    for array in (*found["state"], found["host"], found["deleted"]):
        np.testing.assert_array_equal(array, values)
    assert found["list"] == [1, 2]


def test_values_that_are_still_computed(tmp_path: Path) -> None:
    with checkpoint.Checkpointer(tmp_path) as checkpointer:
        previous = xpr.config.async_dispatch
        xpr.config.update("async_dispatch", "always")
        try:
            step = xpr.jit(lambda x: x * 2 + 1, donate_argnums=0)
            x = jnp.zeros((500, 500))
            for i in range(4):
                x = step(x)
                checkpointer.save(i, x, wait=False)
            x = step(x)
        finally:
            xpr.config.update("async_dispatch", previous)
        checkpointer.wait()
        for i in range(4):
            np.testing.assert_array_equal(
                checkpointer.restore(i), np.full((500, 500), 2.0 ** (i + 1) - 1)
            )


def test_a_failed_program_raises_in_save(tmp_path: Path) -> None:
    def fail(x: Any) -> Any:
        raise ValueError("no luck")

    previous = xpr.config.async_dispatch
    xpr.config.update("async_dispatch", "always")
    try:
        shape = xpr.ShapeDtypeStruct((300, 2), np.float32)
        x = xpr.jit(lambda x: xpr.pure_callback(fail, shape, x))(jnp.ones((300, 2)))
        with pytest.raises(Exception, match="no luck"):
            checkpoint.save(tmp_path, 0, {"x": x})
    finally:
        xpr.config.update("async_dispatch", previous)
    assert checkpoint.all_steps(tmp_path) == []


def test_a_save_waits_for_the_one_before(tmp_path: Path, gate: threading.Event) -> None:
    with checkpoint.Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, 1, wait=False)
        second = threading.Thread(target=checkpointer.save, args=(2, 2))
        second.start()
        second.join(0.1)
        assert second.is_alive()
        gate.set()
        second.join(60)
        assert checkpointer.all_steps() == [1, 2]


@pytest.mark.parametrize("how", ["save", "wait", "close", "restore", "wait_until_finished"])
def test_errors_come_with_the_next_call(how: str, tmp_path: Path, broken: Any) -> None:
    checkpointer = checkpoint.Checkpointer(tmp_path)
    checkpointer.save(1, 1, wait=False)
    with pytest.raises(OSError, match="No space left on device") as caught:
        getattr(checkpointer, how)(*((2, 2) if how == "save" else ()))
    assert any("This was saving step 1" in note for note in caught.value.__notes__)
    broken.undo()
    checkpointer.wait()  # it is raised once
    if how != "close":
        checkpointer.save(2, 2)
        assert checkpointer.all_steps() == [2]


def test_errors_and_with(tmp_path: Path, broken: Any) -> None:
    def block(error: Exception | None) -> None:
        with checkpoint.Checkpointer(tmp_path) as checkpointer:
            checkpointer.save(1, 1, wait=False)
            if error is not None:
                raise error

    with pytest.raises(OSError, match="No space left on device"):
        block(None)
    with pytest.raises(KeyError, match="of the block") as caught:
        block(KeyError("of the block"))
    assert "No space left on device" in caught.value.__notes__[0]


_AT_EXIT = """
import sys
import numpy as np
from xpr.experimental import checkpoint
from xpr.experimental.checkpoint import saving
if sys.argv[2] == "broken":
    def fail(*args):
        raise OSError(28, "No space left on device")
    saving.write = fail
checkpoint.Checkpointer(sys.argv[1]).save(1, {"w": np.arange(1 << 20)}, wait=False)
print("the end")
"""


def test_the_end_of_the_process(tmp_path: Path) -> None:
    """What is being written is finished, and an error that nobody has asked for is printed."""
    found = {}
    for how in ("fine", "broken"):
        found[how] = subprocess.run(
            [sys.executable, "-c", _AT_EXIT, str(tmp_path / how), how],
            capture_output=True,
            text=True,
            check=True,
        )
        assert found[how].stdout == "the end\n"
    assert found["fine"].stderr == ""
    np.testing.assert_array_equal(checkpoint.restore(tmp_path / "fine")["w"], np.arange(1 << 20))
    assert "saving step 1 in" in found["broken"].stderr
    assert "failed in the background" in found["broken"].stderr
    assert "No space left on device" in found["broken"].stderr
    assert checkpoint.all_steps(tmp_path / "broken") == []


def test_memory_is_let_go(tmp_path: Path) -> None:
    """Nothing keeps the arrays when they are on the disk: the next donation copies nothing."""
    step = xpr.jit(lambda x: x + 1, donate_argnums=0)
    with checkpoint.Checkpointer(tmp_path) as checkpointer:
        x = step(jnp.zeros((1000, 100)))
        address = x.unsafe_buffer_pointer()
        checkpointer.save(1, x, wait=False)
        checkpointer.wait()
        x = step(x)
        assert x.unsafe_buffer_pointer() == address
        checkpointer.save(2, x)
        assert step(x).unsafe_buffer_pointer() == address
