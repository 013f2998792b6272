"""IREE's dispatches of many programs, looked through for what it would do wrong.

What the passes did not foresee shows here before it gives wrong numbers: in the operation table, in
random programs, in the benchmarks' kernels and in the examples. Nothing is compiled beyond the
phase that forms dispatches. The long form (XPR_LONG_TESTS=1) looks through all of the table, and
kernels of the size at which they are timed; the short one through a part of it.
"""

from __future__ import annotations

import functools
import importlib
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr.numpy as jnp
from benchmarks.cases import SEED, ProgramCase
from benchmarks.kernels import KERNELS
from tests.conftest import skip_unless_usable
from tests.harness import Case, trace_cases
from tests.lowering.dispatches.faults import faults
from tests.lowering.dispatches.formed import NotFormedError, formed, formed_of
from tests.op_runs import Pair, cases_of, that_run
from tests.op_table import all_rows
from tests.reliability import random_arrays, random_programs
from tests.reliability.scripts import LONG, cases
from xpr import lax
from xpr.core.config import override
from xpr.dispatch import compiling

RUNTIMES = ("cpu", "vulkan")

_TOGETHER = 60
"""The rows that are one program: IREE takes more than proportionally long for larger ones."""

_ONE_IN = 24
"""How many rows with their types there are to each one that the short form looks at."""


def wrong(named: Sequence[tuple[str, Case]], runtime: str) -> list[str]:
    """What is wrong with programs, looked at as one and then, if need be, as halves of them."""
    try:
        with formed(trace_cases([case for _, case in named])[0], runtime) as program:
            found = faults(program)
    except NotFormedError as error:
        found = [str(error)]
    if not found:
        return []
    middle = len(named) // 2
    inside = wrong(named[:middle], runtime) + wrong(named[middle:], runtime) if middle else []
    return inside or [f"{', '.join(name for name, _ in named)}: {found}"]


# ---- the operation table


def _is_looked_at(pair: Pair) -> bool:
    row, dtype = pair
    return LONG or zlib.crc32(f"{row.id}/{dtype}".encode()) % _ONE_IN == 0


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_table(runtime: str) -> None:
    skip_unless_usable(runtime)
    found = []
    with override("enable_x64", True):
        for rows in all_rows().values():
            wanted = filter(_is_looked_at, [(row, d) for row in rows for d in row.dtypes])
            pairs = that_run(wanted, runtime)
            names = [f"{row.id} {dtype}" for row, dtype in pairs]
            named = list(zip(names, cases_of(pairs), strict=True))
            for k in range(0, len(named), _TOGETHER):
                found += wrong(named[k : k + _TOGETHER], runtime)
    assert not found, "\n".join(found)


# ---- random programs


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("kind", ["loops", "arrays"])
def test_random_programs(kind: str, runtime: str) -> None:
    skip_unless_usable(runtime)
    first, found = 5_000_000, []
    with override("enable_x64", kind == "loops"):
        for start in range(first, first + cases(8, 400), 8):
            named = [(str(n), _random(kind, n)) for n in range(start, start + 8)]
            found += wrong(named, runtime)
    assert not found, "\n".join(found)


RIGHT = (
    ("loops", "vulkan", 6_000_000),
    ("loops", "vulkan", 5_000_074),
    ("loops", "cpu", 6_000_004),
    ("arrays", "cpu", 5_000_296),
    ("loops", "cpu", 5_000_375),
)
"""Programs that were taken for wrong, though their numbers are right: an array that IREE copies
before an update, since it is used later; whether any of some constants is true; a conversion that
is read by two access maps; one of which parts are reduced; an array that is written back."""


@pytest.mark.parametrize(("kind", "runtime", "number"), RIGHT)
def test_what_is_right_is_not_told(kind: str, runtime: str, number: int) -> None:
    skip_unless_usable(runtime)
    with override("enable_x64", kind == "loops"):
        assert wrong([(str(number), _random(kind, number))], runtime) == []


def _random(kind: str, number: int) -> Case:
    rng = np.random.default_rng(number)
    if kind == "loops":
        arrays, program = random_programs.operands(rng), random_programs.steps(rng)
        return lambda *xs: random_programs.results(program, xs), arrays
    large, steps = random_arrays.operands(rng), random_arrays.steps(rng)
    count = int(rng.integers(1, 6))
    return lambda *xs: random_arrays.results(steps, xs, count), large


# ---- kernels


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_kernels(runtime: str) -> None:
    skip_unless_usable(runtime)
    named = []
    for kernel in KERNELS:
        assert isinstance(kernel, ProgramCase)
        arrays = kernel.inputs(np.random.default_rng(SEED), not LONG)
        named.append((kernel.name, (functools.partial(kernel.program, jnp, lax), arrays)))
    found = wrong(named, runtime)
    assert not found, "\n".join(found)


# ---- the examples

EXAMPLES: dict[str, list[str]] = {"counter": [], "curve_fit": [], "quickstart": []}
if LONG:
    EXAMPLES |= {"train_digits": ["--epochs", "1"], "train_sharded": ["--steps", "2"]}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: dict[str, Any] = {}
    lower: Callable[..., Any] = compiling.lower_jaxpr_to_module

    def noted(closed: Any, target: Any, **options: Any) -> Any:
        module = lower(closed, target, **options)
        if target.name == "cpu":
            lowered[module.text] = module, target
        return module

    # A program that the cache knows by its jaxpr is not lowered.
    monkeypatch.setenv("XPR_CACHE", "0")
    monkeypatch.setattr(compiling, "lower_jaxpr_to_module", noted)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "examples")
    monkeypatch.setattr(sys, "argv", [name, *EXAMPLES[name]])
    importlib.import_module(name).main()
    assert lowered
    found = []
    for module, target in lowered.values():
        with formed_of(module, target) as program:
            found += faults(program)
    assert not found, "\n".join(found)
