"""Releases of IREE: which facts hold for which, and what happens with an unknown one."""

from __future__ import annotations

import dataclasses
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.lowering.iree import (
    attempts,
    installed,
    patch_vm_bytecode,
    self_test,
    shortcuts,
    versions,
    vm_code,
)
from xpr.lowering.iree.post_passes import COPIED_REFERENCES, Patch

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "minor", "release"),
    [
        ("3.13.0rc20261016 @ 89ece87b89852100c0a4ac3d515e14842d090967", "3.13", "3.13.0"),
        ('PACKAGE_SUFFIX = ""\nVERSION = "3.12.0rc20260917"\n', "3.12", "3.12.0"),
        ("3.13.1", "3.13", "3.13.1"),
    ],
)
def test_a_release_is_found_by_its_name(text: str, minor: str, release: str) -> None:
    assert versions.find(text).minor == minor
    assert versions.find(text).is_known
    assert versions.release(text) == release


@pytest.mark.parametrize("text", ["3.99.0 @ 0", "4.0.0", "none"])
def test_an_unknown_release_has_no_shortcuts(text: str) -> None:
    found = versions.find(text)
    assert not found.is_known
    assert found.shortcuts(shortcuts.ALL) == frozenset()
    assert set(found.without) == shortcuts.ALL


def test_facts_are_those_of_the_nearest_release() -> None:
    assert versions.find("3.2.0").texts == versions.KNOWN["3.12"].texts
    assert versions.find("3.20.0").texts == versions.KNOWN["3.13"].texts


def test_the_package_requires_what_was_tested() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for package in ("compiler", "runtime"):
        assert f'"iree-base-{package}{versions.supported()}"' in text


def test_no_other_file_names_a_release() -> None:
    """A fact about one release in another place would not be found when the next one comes."""
    release = re.compile(r"(?i)\biree\W+3\.\d+|[\"']3\.1\d\b")
    found = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "lowering/iree").rglob("*.py"))
        if "versions" not in path.parts and release.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_the_native_part_knows_the_same_instructions() -> None:
    """Both read one table; here it is compared with places that use its codes as numbers."""
    opcodes = versions.KNOWN["3.13"].bytecode.instructions
    assert opcodes[vm_code.CONST_I32].name == "ConstI32"
    assert opcodes[patch_vm_bytecode._BLOCK].name == "Block"
    ends = {opcodes[code].name for code in patch_vm_bytecode._ENDS if opcodes[code].name}
    calls = {"CallYieldable", "CallVariadicYieldable"}
    assert ends == {"Branch", "CondBranch", "BranchTable", "Return", "Fail"} | calls
    named = [opcode.name for opcode in opcodes.values() if opcode.name]
    assert len(set(named)) == len(named) > 80


def _as_of_version(module: bytes, version: int) -> bytes:
    tables = 30 + sum(struct.unpack_from("<HH", module, 26)) + 4
    place = module.index(struct.pack("<I", 17 << 16), tables)
    other = bytearray(module)
    struct.pack_into("<I", other, place, version << 16)
    return bytes(other)


def test_a_loop_in_an_unknown_byte_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def later(module: bytes) -> bytes:
        return patch_vm_bytecode.with_copies(_as_of_version(module, 18))

    changed = Patch(COPIED_REFERENCES.name, COPIED_REFERENCES.revision, later)
    monkeypatch.setattr(attempts.Job, "patches", lambda _: (changed,))
    x = jnp.ones((3, 4))

    def program(x: xpr.Array) -> xpr.Array:
        return xpr.lax.while_loop(lambda x: jnp.sum(x) < 77.5, lambda x: x @ x.T @ x, x)

    with pytest.raises(xpr.errors.CompileError, match=r"got version 18 .*; xpr knows version 17"):
        xpr.jit(program).lower(x).compile()


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A compiler that says it is of an unknown release, and an empty cache."""
    revision = 'VERSION = "3.99.0rc1"'
    monkeypatch.setattr(installed, "version", lambda: revision)
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path))
    self_test.verdict.cache_clear()
    return revision


def test_an_unknown_release_is_tested_once(unknown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not tested; a self-test comes before" in self_test.remembered()
    tried: list[frozenset[str]] = []
    real = self_test._fault_of

    def watched(program: self_test.Program, allowed: frozenset[str]) -> str:
        tried.append(allowed)
        return real(program, allowed)

    monkeypatch.setattr(self_test, "_fault_of", watched)
    jobs: list[frozenset[str]] = []
    compile_job = attempts.compile_job
    monkeypatch.setattr(
        attempts, "compile_job", lambda job: jobs.append(job.shortcuts) or compile_job(job)
    )
    x = np.arange(7, dtype=np.float32)
    np.testing.assert_array_equal(xpr.jit(lambda x: x * 3 + 5)(x), x * 3 + 5)
    assert tried == [frozenset()] * len(self_test.PROGRAMS)
    assert set(jobs) == {frozenset()}
    assert "3.99.0, passed the self-test (no shortcuts)" in self_test.remembered()
    # Another process reads the verdict.
    self_test.verdict.cache_clear()
    assert self_test.verdict(unknown) == ((), "")
    assert len(tried) == len(self_test.PROGRAMS)


def test_an_untested_patch_release_does_without_shortcuts_that_fail(
    unknown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(program: self_test.Program, allowed: frozenset[str]) -> str:
        return "computes 1 instead of 2" if allowed else ""

    monkeypatch.setattr(self_test, "_fault_of", fault)
    monkeypatch.setattr(installed, "version", lambda: "3.13.7")
    without, reason = self_test.verdict("3.13.7")
    assert set(without) == shortcuts.ALL
    assert reason == ""
    assert "3.13.7, passed the self-test (no shortcuts)" in self_test.remembered()


@pytest.mark.usefixtures("unknown")
def test_a_release_that_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = self_test.PROGRAMS[0]

    def wrong(x: Any, i: Any) -> tuple[Any, ...]:
        product, *others = right.expected(x, i)
        return product + (np.arange(24) == 2), *others

    program = dataclasses.replace(right, expected=wrong)
    monkeypatch.setattr(self_test, "PROGRAMS", (program,))
    with pytest.raises(
        self_test.UnsuitedCompilerError,
        match=r"3\.99\.0 fails xpr's self-test: program 'straight' computes .* \(result 0, element "
        r"2\)\. Install iree-base-compiler and iree-base-runtime >=3\.12,<3\.14",
    ):
        xpr.jit(lambda x: x * 4 + 5)(np.arange(7, dtype=np.float32))
    assert "3.99.0, unusable: program 'straight'" in self_test.remembered()


@pytest.mark.parametrize("allowed", [frozenset[str](), shortcuts.ALL], ids=["without", "with"])
def test_the_installed_compiler_passes(allowed: frozenset[str]) -> None:
    assert self_test._fault(allowed) == ""
