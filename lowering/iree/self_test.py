"""A test of a compiler that xpr's own tests have not seen: two seconds, once for each release.

It compiles two programs for this machine's processor, runs them and compares with NumPy. They hold
the forms in which IREE's releases differed before: updates of arguments that are read again, loops
with counters of both widths, products in tiles, stable sorts, gathers and scatters. The cache
remembers the verdict.
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xpr.core.config import state
from xpr.core.errors import CompileError
from xpr.lowering.cache import default_cache
from xpr.lowering.iree import attempts, dispatches, driver, installed, shortcuts, versions
from xpr.lowering.iree.failures import Failure
from xpr.lowering.iree.jobs import Job
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints
from xpr.runtimes import registry
from xpr.runtimes.base import ExecutableSignature

_log = logging.getLogger("xpr.compile")

REVISION = 1
"""Tells apart what older forms of this test remembered."""

_Arrays = tuple[np.ndarray[Any, Any], ...]


@dataclass(frozen=True)
class Program:
    """A program, and the same with NumPy."""

    name: str
    text: str
    hints: ProgramHints
    arguments: Callable[[], _Arrays]
    expected: Callable[..., _Arrays]


_STRAIGHT = """
module @self_test_straight {
func.func public @main(%x: tensor<24x16xf32>, %i: tensor<5xi32>)
    -> (tensor<24x24xf32>, tensor<24xf32>, tensor<24x16xf32>, tensor<24x16xf32>, tensor<5x16xf32>)
{
  %product = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1]
      : (tensor<24x16xf32>, tensor<24x16xf32>) -> tensor<24x24xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<24x16xf32>, tensor<f32>) -> tensor<24xf32>
  %kept = stablehlo.optimization_barrier %x : tensor<24x16xf32>
  %at = stablehlo.constant dense<3> : tensor<i32>
  %row = stablehlo.constant dense<7.0> : tensor<1x16xf32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %updated = stablehlo.dynamic_update_slice %x, %row, %at, %none
      : (tensor<24x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<24x16xf32>
  %rows = "stablehlo.gather"(%x, %i) <{
      dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
          start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 16>, indices_are_sorted = false}>
      : (tensor<24x16xf32>, tensor<5xi32>) -> tensor<5x16xf32>
  return %product, %sum, %kept, %updated, %rows
      : tensor<24x24xf32>, tensor<24xf32>, tensor<24x16xf32>, tensor<24x16xf32>, tensor<5x16xf32>
}
}
"""


def _straight(x: np.ndarray[Any, Any], i: np.ndarray[Any, Any]) -> _Arrays:
    updated = x.copy()
    updated[3] = 7
    return x @ x.T, x.sum(1), x, updated, x[i]


_LOOP = """
module @self_test_loop {
func.func public @main(%x: tensor<300xf32>, %n: tensor<i32>)
    -> (tensor<300xf32>, tensor<300xf32>, tensor<i32>, tensor<i64>)
{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %start = stablehlo.constant dense<0> : tensor<i64>
  %negated = stablehlo.negate %x : tensor<300xf32>
  %r:4 = stablehlo.while(%a = %x, %b = %negated, %k = %zero, %offset = %start)
      : tensor<300xf32>, tensor<300xf32>, tensor<i32>, tensor<i64>
  cond {
    %go = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %half = stablehlo.constant dense<0.5> : tensor<300xf32>
    %less = stablehlo.multiply %a, %half : tensor<300xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i64>
    %far = stablehlo.add %offset, %three : tensor<i64>
    stablehlo.return %b, %less, %next, %far
        : tensor<300xf32>, tensor<300xf32>, tensor<i32>, tensor<i64>
  }
  return %r#0, %r#1, %r#2, %r#3 : tensor<300xf32>, tensor<300xf32>, tensor<i32>, tensor<i64>
}
}
"""


def _loop(x: np.ndarray[Any, Any], n: np.ndarray[Any, Any]) -> _Arrays:
    a, b = x, -x
    for _ in range(int(n)):
        a, b = b, a * np.float32(0.5)
    return a, b, n, np.asarray(3 * int(n), np.int64)


def _rows() -> _Arrays:
    random = np.random.default_rng(5)
    x = random.integers(-8, 8, (24, 16)).astype(np.float32)
    return x, np.array([3, 0, 23, 3, 11], np.int32)


def _vector() -> _Arrays:
    return np.arange(300, dtype=np.float32), np.asarray(7, np.int32)


PROGRAMS = (
    Program("straight", _STRAIGHT, ProgramHints(), _rows, _straight),
    Program("loop", _LOOP, ProgramHints(has_control_flow=True), _vector, _loop),
)
"""All values are small integers and halves of them, so that results are equal to the last bit."""


class UnsuitedCompilerError(CompileError):
    """The installed compiler fails the self-test."""

    def __init__(self, release: str, reason: str) -> None:
        super().__init__(
            f"iree-base-compiler {release} fails xpr's self-test: {reason}. Install "
            f"iree-base-compiler and iree-base-runtime {versions.supported()}",
            stablehlo_path=None,
            diagnostics=reason,
            source_location=None,
        )


def checked(job: Job) -> Job:
    """The job, with the shortcuts that the installed compiler is fit for.

    Raises `UnsuitedCompilerError` if the compiler fails the self-test. One that xpr's tests have
    passed with is not tested.
    """
    revision = installed.version()
    release = versions.release(revision)
    # Without a compiler modules come from the cache.
    if versions.find(revision).is_tested(release) or installed.package() is None:
        return job
    without, reason = verdict(revision)
    if reason:
        raise UnsuitedCompilerError(release or revision, reason)
    return replace(job, shortcuts=job.shortcuts - frozenset(without))


@functools.cache
def verdict(revision: str) -> tuple[tuple[str, ...], str]:
    """The shortcuts that a compiler fails with, and why it fails without them, if it does."""
    cache = default_cache()
    key = hashlib.sha256(f"self-test {REVISION}\0{revision}".encode()).digest()
    noted = cache.noted(key) if cache is not None else {}
    if "self_test" in noted:
        return tuple(noted["without"]), noted["self_test"]
    allowed = versions.find(revision).shortcuts(shortcuts.ALL)
    without: Sequence[str] = ()
    reason = _fault(allowed)
    if reason and allowed:
        _log.info("the self-test fails with shortcuts: %s", reason)
        without, reason = sorted(allowed), _fault(frozenset())
    if cache is not None:
        cache.note(key, {"self_test": reason, "without": list(without)})
    return tuple(without), reason


def remembered() -> str:
    """The state of the installed compiler, for `xpr devices`: tested, or the verdict so far."""
    if installed.package() is None:
        return "not installed; modules come from the compile cache"
    revision = installed.version()
    version, release = versions.find(revision), versions.release(revision)
    if version.is_tested(release):
        return f"{release}, tested"
    cache = default_cache()
    key = hashlib.sha256(f"self-test {REVISION}\0{revision}".encode()).digest()
    noted = cache.noted(key) if cache is not None else {}
    how = "with its shortcuts" if version.is_known and not noted.get("without") else "no shortcuts"
    if "self_test" not in noted:
        return f"{release or 'unknown'}, not tested; a self-test comes before the first compile"
    if noted["self_test"]:
        return f"{release or 'unknown'}, unusable: {noted['self_test']}"
    return f"{release or 'unknown'}, passed the self-test ({how}); tested: {versions.supported()}"


def _fault(allowed: frozenset[str]) -> str:
    """The first difference from NumPy; empty if there is none."""
    for program in PROGRAMS:
        found = _fault_of(program, allowed)
        if found:
            return f"program {program.name!r} {found}"
    return ""


def _fault_of(program: Program, allowed: frozenset[str]) -> str:
    job = _job(program, allowed)
    outcome = attempts.compile_job(job)
    if isinstance(outcome, Failure):
        said = outcome.diagnostics[0].message if outcome.diagnostics else "nothing"
        return f"does not compile; the compiler says: {said}"
    return _difference(program, outcome.module)


def compiled(
    program: Program,
    allowed: frozenset[str],
    on_decline: Callable[[shortcuts.DeclinedError], None] = shortcuts.record,
) -> tuple[bytes | None, str]:
    """The module of a program, compiled in this process, or what the compiler says."""
    job = _job(program, allowed)
    module, said = driver.compile_module(
        job.text,
        job.flag_sets[0],
        name="self_test",
        verify=False,
        changes=job.changes(),
        dispatches=dispatches.Nowhere() if job.keeps_dispatches else None,
        allowed=allowed,
        on_decline=on_decline,
    )
    return module, "" if module is not None or not said else said[0].message


def fault_here(
    program: Program,
    allowed: frozenset[str],
    on_decline: Callable[[shortcuts.DeclinedError], None] = shortcuts.record,
) -> str:
    """As `_fault`, of one program and in this process, where each decline can be seen."""
    module, said = compiled(program, allowed, on_decline)
    if module is None:
        return f"does not compile; the compiler says: {said}"
    for patch in _job(program, allowed).patches():
        module = patch.apply(module)
    return _difference(program, module)


def _job(program: Program, allowed: frozenset[str]) -> Job:
    target = get_target("cpu")
    return Job(
        program.text,
        None,
        target,
        target.flag_sets(program.hints),
        program.hints,
        verify=False,
        parallel=state.parallel_compiles,
        where=state.compiler,
        shortcuts=allowed,
    )


def _difference(program: Program, module: bytes) -> str:
    """How the results of a module differ from NumPy's; empty if they do not."""
    arguments = program.arguments()
    expected = program.expected(*arguments)
    try:
        found = _run(module, arguments, expected)
    except Exception as error:  # whatever a runtime of another release raises is the verdict
        return f"does not run: {type(error).__name__}: {error}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if not np.array_equal(a, b):
            different = int(np.argmax(np.ravel(a != b)))
            return (
                f"computes {np.ravel(a)[different]} instead of {np.ravel(b)[different]} "
                f"(result {i}, element {different})"
            )
    return ""


def _run(module: bytes, arguments: _Arrays, results: _Arrays) -> list[np.ndarray[Any, Any]]:
    device = registry.devices("cpu")[0]
    signature = ExecutableSignature(
        "main",
        tuple((a.shape, a.dtype) for a in arguments),
        tuple((r.shape, r.dtype) for r in results),
    )
    executable = device.runtime.load(module, signature, device)
    buffers = [device.runtime.buffer_from_host(a, device, copy=True) for a in arguments]
    return [np.array(buffer.host_view()) for buffer in executable(buffers)]
