"""What the tests of the command line share: a folder with a program in it, and a way to call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from xpr.cli import main

MODEL = '''
import xpr
import xpr.numpy as xnp

def predict(x, w):
    """Two results of different types."""
    return {"score": xnp.tanh(x @ w), "sum": xnp.sum(x, axis=0).astype("int32")}

@xpr.jit
def affine(x, *, scale):
    return x * scale + 1

def fails(x):
    return 1 // 0

def mismatch(x, y):
    return x @ y

class Held:
    half = staticmethod(lambda x: x / 2)

number = 3

def kinds(a, b, c, d):
    return a * 2, ~b, c + 1, d * 2

def waits(x):
    import time
    print("waiting", flush=True)
    time.sleep(60)
'''


class Outcome(NamedTuple):
    """What a call of the command left behind."""

    status: int
    out: str
    err: str


Call = Callable[..., Outcome]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, with `model.py` and arrays for it."""
    (tmp_path / "model.py").write_text(MODEL)
    np.save(tmp_path / "x.npy", np.arange(32, dtype=np.float32).reshape(4, 8))
    np.save(tmp_path / "w.npy", np.linspace(-0.1, 0.1, 8, dtype=np.float32))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    other = sys.modules.pop("model", None)  # that of an example, say
    yield tmp_path
    sys.modules.pop("model", None)
    if other is not None:
        sys.modules["model"] = other


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the command in this process."""

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        out, err = capsys.readouterr()
        return Outcome(status, out, err)

    return run
