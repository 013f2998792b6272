"""Damaged modules (`.vmfb`) are described or refused, and never end the process."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import xpr
import xpr.numpy as xnp

from .scripts import cases, run


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small compiled module."""

    def f(x, w):
        return xnp.tanh(x @ w), xnp.sum(x, axis=0)

    path = tmp_path_factory.mktemp("module") / "f.vmfb"
    # By IREE's own pipeline alone: small modules with kept dispatches have their code inside.
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("XPR_CACHE", "0")
        xpr.jit(f).save(path, np.ones((4, 8), np.float32), np.ones(8, np.float32))
    return path


def test_inspecting_damaged_modules(module: Path) -> None:
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
    assert run(body, module, count) == f"{count} True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each case needs a process")
def test_a_damaged_module_ends_the_process_in_irees_loader(module: Path) -> None:
    """One bit of the bytecode is enough. Hence checksums are looked at before IREE is asked."""
    body = """
import faulthandler, os, sys
from pathlib import Path
from xpr.runtimes import hal
sound = Path(sys.argv[1]).read_bytes()
shared = hal.start()
faulthandler.disable()                       # the children are meant to die
end = sound.index(b"PK\\x03\\x04", 4)        # where the bytecode ends and the executables begin
for place in range(end - 400, end):
    for bit in (4, 7):
        child = os.fork()
        if child == 0:
            changed = bytearray(sound)
            changed[place] ^= 1 << bit
            try:
                shared.rt.VmModule.copy_buffer(shared.instance, bytes(changed))
            except Exception:
                pass
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            print("crashed")
            sys.exit(0)
print("none")
"""
    assert run(body, module) == "crashed\n"
