"""Damaged modules (`.vmfb`) are described or refused, and never end the process."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import xpr
import xpr.numpy as xnp

from .scripts import cases, run


def test_inspecting_damaged_modules(tmp_path: Path) -> None:
    def f(x, w):
        return xnp.tanh(x @ w), xnp.sum(x, axis=0)

    path = tmp_path / "f.vmfb"
    xpr.jit(f).save(path, np.ones((4, 8), np.float32), np.ones(8, np.float32))
    body = """
import random, sys
from pathlib import Path
from tests.reliability.scripts import damaged
from xpr.cli.errors import CommandError
from xpr.cli.modules import describe
sound = Path(sys.argv[1]).read_bytes()
rng, described, refused = random.Random(4), 0, 0
assert describe(sound, "f").functions[0].name == "main"
for _ in range(int(sys.argv[2])):
    try:
        describe(damaged(sound, rng), "f")
        described += 1
    except CommandError as error:
        assert str(error).startswith(("f is not a compiled module", "f is damaged: "))
        refused += 1
print(described + refused, refused > 9 * described)
"""
    count = cases(2000, 50_000)
    assert run(body, path, count) == f"{count} True\n"
