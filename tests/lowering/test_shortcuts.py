"""Shortcuts around IREE's own way: each can be switched off, and none makes a compile fail."""

from __future__ import annotations

import dataclasses
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import Call, Store, run
from xpr.core.config import SHORTCUTS
from xpr.lowering.iree import (
    compiler_library,
    device_functions,
    dispatches,
    driver,
    merging,
    mlir,
    numbers,
    objects,
    sessions,
    short_passes,
    shortcuts,
    tiles,
    translation,
)
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints

FLAGS = get_target("cpu").flag_sets(ProgramHints())[0]
X = np.linspace(-1.0, 1.0, 24, dtype=np.float32).reshape(4, 6)


def layer(x: Any) -> Any:
    return jnp.tanh(x) * 0.375 + 1.25, jnp.sum(x, axis=-1)


def expected() -> tuple[np.ndarray, np.ndarray]:
    return np.tanh(X) * 0.375 + 1.25, X.sum(-1)


def check(**options: Any) -> list[shortcuts.DeclinedError]:
    """Compile and run the program; the shortcuts that declined on the way."""
    declined: list[shortcuts.DeclinedError] = []
    text = xpr.jit(layer).lower(X).as_text("iree")
    module, said = driver.compile_module(
        text, FLAGS, name="program", verify=False, on_decline=declined.append, **options
    )
    assert module is not None, said
    (status, (answer,)) = run(module, [Call("main", [X])])
    assert (status, answer.error) == (0, "")
    for got, want in zip(answer.results, expected(), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)
    return declined


def test_the_setting_knows_them_all() -> None:
    assert set(SHORTCUTS) == shortcuts.ALL


@pytest.mark.parametrize("name", [*SHORTCUTS, "all of them"])
def test_a_program_compiles_without_one(name: str) -> None:
    allowed = shortcuts.ALL - {name} if name in shortcuts.ALL else frozenset()
    store = Store()
    assert check(allowed=allowed, dispatches=store) == []
    assert bool(store.kept) == (shortcuts.DISPATCHES in allowed)


def fails(*_: Any, **__: Any) -> Any:
    raise KeyError("another version of the compiler")


FAULTS: dict[str, tuple[Any, str, str | None]] = {
    "the texts of dispatches": (dispatches, "_read", "dispatches"),
    "what refers to kept dispatches": (dispatches, "_put_in", "dispatches"),
    "text that is parsed": (mlir.Mlir, "parsed", "dispatches"),
    "tiles": (tiles, "smaller_tiles", "tiles"),
    "objects": (objects, "_link", "objects"),
    "functions of devices": (device_functions, "are_spared", "objects"),
    "lists of passes": (short_passes, "steps_for", "short_passes"),
    "passes of the translation": (translation, "passes", None),
    "sessions": (sessions.Session, "suits", None),
}
"""A function of a shortcut that fails, and the shortcut to which that is put down, if to one."""


@pytest.mark.parametrize(("owner", "function", "name"), FAULTS.values(), ids=FAULTS)
def test_one_that_raises_is_left_out(
    owner: Any, function: str, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    check()  # a session is there that may be used again
    monkeypatch.setattr(owner, function, fails)
    declined = check(dispatches=Store())
    assert "another version of the compiler" in str(declined[0])
    if name is not None:
        assert {n for error in declined for n in error.declined} == {name}


def test_a_list_of_passes_that_the_compiler_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "passes", lambda *_: "iree-there-is-no-such-pass")
    (error,) = check(dispatches=Store())
    assert error.declined == {"translation"}
    library = compiler_library.load()
    lists = library.version.dispatches
    wrong = lists._replace(short=lists.whole._replace(host="no-such-pass"))
    other = dataclasses.replace(library.version, dispatches=wrong)
    monkeypatch.setattr(library, "version", other)
    assert [e.declined for e in check(dispatches=Store())] == [{"translation"}, {"dispatches"}]


def test_a_program_that_fails_without_them_fails() -> None:
    declined: list[shortcuts.DeclinedError] = []
    text = (
        xpr.jit(layer).lower(X).as_text("iree").replace("stablehlo.tanh", "stablehlo.no_such_thing")
    )
    module, said = driver.compile_module(
        text, FLAGS, name="program", verify=False, on_decline=declined.append
    )
    assert module is None
    assert any("no_such_thing" in d.message for d in said)


def test_templates_and_merged_programs_that_fail(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path))
    before = shortcuts.declined()
    monkeypatch.setattr(numbers, "filled", fails)
    monkeypatch.setattr(merging, "programs", fails)
    functions: list[Callable[[Any], Any]] = [
        lambda x: x * 1.625 + 0.5,
        lambda x: x * 2.625 - x,
        lambda x: x - 3.625 * x,
        lambda x: x + 4.625 * x,
    ]
    jitted = [xpr.jit(f) for f in functions]
    for warming in xpr.compile_ahead([(f, X) for f in jitted]):
        warming.wait()
    for f, function in zip(jitted, functions, strict=True):
        np.testing.assert_allclose(f(X), function(X), rtol=1e-6, atol=1e-6)
    counts = shortcuts.declined()
    for name in ("templates", "merging"):
        assert counts.get(name, 0) > before.get(name, 0), name


def test_the_setting() -> None:
    with pytest.raises(ValueError, match=r"expected on, off or names out of .*, got no_such"):
        xpr.config.update("shortcuts", "tiles,no_such")
    assert xpr.config.shortcuts == shortcuts.ALL
    code = (
        "import xpr, numpy as np\n"
        "print(sorted(xpr.config.shortcuts))\n"
        "print(float(xpr.jit(lambda x: (x @ x).sum() * 0.5)(np.ones((5, 5), 'f'))))\n"
    )
    for value, names in (("off", []), ("tiles, objects", ["objects", "tiles"])):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"XPR_SHORTCUTS": value, "XPR_CACHE": "0", "XPR_COMPILER_IDLE": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"{names}\n62.5\n"


def test_declines_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    before = shortcuts.declined()
    with caplog.at_level(logging.DEBUG, "xpr.compile"):
        shortcuts.record(shortcuts.DeclinedError({"tiles", "objects"}, "a reason"))
    assert "compiled without objects, tiles: a reason" in caplog.text
    after = shortcuts.declined()
    assert all(after[name] - before.get(name, 0) == 1 for name in ("tiles", "objects"))
