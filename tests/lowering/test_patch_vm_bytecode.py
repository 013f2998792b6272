"""Copies for the moves of compiled modules that lose a reference (`iree/patch_vm_bytecode.py`).

That they mend what is wrong is tested in `test_iree_hazards.py`.
"""

from __future__ import annotations

import io
import struct
import zipfile

import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import compile_with
from tests.lowering.test_iree_hazards import FAST, LOSING_LOOP
from xpr import lax
from xpr.lowering.iree import patch_vm_bytecode, vm_code
from xpr.lowering.iree.patch_vm_bytecode import with_copies


def _texts() -> list[str]:
    """Loops, branches, sorting, random numbers: programs whose modules have different code."""
    x = jnp.ones(3000)

    def loop(x: xpr.Array) -> tuple[xpr.Array, ...]:
        return lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[2], s[1] * 2), (0, x, -x))

    def branch(x: xpr.Array) -> xpr.Array:
        return lax.cond(
            x[0] > 0, jnp.sort, lambda x: lax.fori_loop(0, 3, lambda _, x: x @ x * x, x), x
        )

    programs = [loop, branch, lambda x: xpr.random.permutation(xpr.random.key(0), x)]
    return [xpr.jit(f).lower(x).as_text("iree") for f in programs]


@pytest.fixture(scope="module")
def modules() -> list[bytes]:
    found = [compile_with(text)[0] for text in _texts()]
    found.append(compile_with(LOSING_LOOP, FAST)[0])
    return [m for m in found if m is not None]


def test_all_instructions_of_modules_are_known(modules: list[bytes]) -> None:
    assert len(modules) == 4
    for module in modules:
        # Only what is lost is copied: what nobody reads any more would stay for ever.
        assert bool(list(patch_vm_bytecode._losing_moves(module))) == (module is modules[-1])


def test_a_changed_module_is_whole(modules: list[bytes]) -> None:
    for module in modules:
        changed = with_copies(module)
        assert len(changed) == len(module)
        assert zipfile.ZipFile(io.BytesIO(changed)).testzip() is None
        assert with_copies(changed) == changed


def test_another_version_is_refused(modules: list[bytes]) -> None:
    data = struct.unpack_from("<HH", modules[0], 26)
    tables = 30 + sum(data) + 4
    version = modules[0].index(struct.pack("<I", 17 << 16), tables)
    other = bytearray(modules[0])
    struct.pack_into("<I", other, version, 18 << 16)
    with pytest.raises(vm_code.UnknownVersionError, match=r"version 18 .* xpr knows version 17"):
        with_copies(bytes(other))


def test_what_is_no_module_stays(modules: list[bytes]) -> None:
    module = next(m for m in modules if with_copies(m) != m)
    tables = 30 + sum(struct.unpack_from("<HH", module, 26)) + 4
    for wrong in (b"", b"not a module", module[:40], module[: tables + 100], bytes(200)):
        assert with_copies(wrong) == wrong
