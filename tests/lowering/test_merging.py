"""Small programs that share a module."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.lowering.iree import attempts, compiler, merging
from xpr.lowering.iree.invocation import Diagnostic
from xpr.lowering.iree.process.client import CompilerDiedError

X = np.linspace(0.25, 2, 12, dtype=np.float32)
FUNCTIONS = {
    "product": (lambda x, y: x * 2 + y, lambda x, y: x * 2 + y),
    "sine": (lambda x, y: jnp.sin(x) * y, lambda x, y: np.sin(x) * y),
    "sum": (lambda x, y: jnp.sum(x * y), lambda x, y: np.sum(x * y)),
    "two": (lambda x, y: (x - y, jnp.maximum(x, y)), lambda x, y: (x - y, np.maximum(x, y))),
    "sorted": (lambda x, y: jnp.sort(x - y), lambda x, y: np.sort(x - y)),
    "matrix": (lambda x, y: jnp.outer(x, y), np.outer),
}


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many programs each compile took, without a cache."""
    monkeypatch.setenv("XPR_CACHE", "0")
    found: list[int] = []
    real = compiler._compile_bundle

    def counted(bundle):
        found.append(len(bundle.requests))
        return real(bundle)

    monkeypatch.setattr(compiler._requests, "_compile", counted)
    monkeypatch.setattr(compiler._requests, "_cores", 1)
    return found


def check(functions: dict[str, Any]) -> None:
    for name, function in functions.items():
        got, want = function(X, X[::-1].copy()), FUNCTIONS[name][1](X, X[::-1])
        for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=name)


def test_each_program_computes_its_own(compiles: list[int]) -> None:
    functions = {name: xpr.jit(f) for name, (f, _) in FUNCTIONS.items()}
    warmings = xpr.compile_ahead([(f, X, X) for f in functions.values()])
    for warming in warmings:
        warming.wait()
    assert compiles[0] > 3  # some, such as sorting, are loops and go alone
    check(functions)
    assert sum(compiles) == len(FUNCTIONS)


def test_programs_that_fail_together_are_compiled_alone(
    compiles: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = attempts.run_compiler

    def fails(job, text, flags, verify):
        if "@merged" in text:
            return None, [Diagnostic("error", f"{CompilerDiedError(11)}")]
        return run(job, text, flags, verify)

    monkeypatch.setattr(attempts, "run_compiler", fails)
    functions = {
        name: xpr.jit(lambda x, y, f=FUNCTIONS[name][0]: f(x, y)) for name in ("sum", "two")
    }
    xpr.compile_ahead([(f, X, X) for f in functions.values()])
    check(functions)
    assert compiles == [2]


def test_merged_modules_are_kept_apart_in_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("XPR_CACHE", "1")
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiler._requests, "_cores", 1)
    calls = [(xpr.jit(lambda x, k=k: x * k - 1), X) for k in (3, 4)]
    for warming in xpr.compile_ahead(calls):
        warming.wait()
    assert len(list(tmp_path.glob("*/*.vmfb"))) == 2
    monkeypatch.setattr(attempts, "run_compiler", None)  # nothing is compiled any more
    again = xpr.jit(lambda x: x * 3 - 1)
    np.testing.assert_allclose(again(X), X * 3 - 1, rtol=1e-6)
    monkeypatch.undo()
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path))
    # What is saved or exported holds no other program.
    calls[0][0].save(tmp_path / "saved", X)
    assert len(list(tmp_path.glob("*/*.vmfb"))) == 3


def test_what_is_not_merged() -> None:
    text = xpr.jit(lambda x: x + 1).lower(X).as_text("iree")
    assert merging.is_mergeable(text)
    assert not merging.is_mergeable(text + "x" * merging.LONGEST_TEXT)
    for part in ('@"a b"', "@xpr.callback", 'a = "name @b"', "func.func public @other"):
        assert not merging.is_mergeable(text.replace("{\n", "{\n" + part + "\n", 1))
    assert not merging.is_mergeable(text.replace("@main", "@other"))
    with pytest.raises(merging.NotMergedError, match="m000"):
        merging.program(b"\x04\0\0\0none", 0)
