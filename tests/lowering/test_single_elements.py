"""Several updates of one array at the same places, and single elements of these places."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import xpr
from tests.lowering.iree_util import MENDED, status_of_compile
from tests.lowering.test_ir import graph_of
from tests.reliability.scripts import run
from xpr.core.config import override
from xpr.lowering import passes
from xpr.lowering.ir.printer import print_module
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets

FAST = llvm_cpu_flag_sets(ProgramHints())[0]
BARRIER = "stablehlo.optimization_barrier"

X = np.arange(10, dtype=np.float32)
PLACES = np.array([2**31 - 1, 10, -11, 3, -(2**31)], np.int32)
OTHERS = np.array([3, 3, -7, 40, 0], np.int32)
UPDATE = np.array([5, -2, 7, 3, -9], np.float32)


def _both(x: Any, i: Any) -> Any:
    return x.at[i].set(0.0), x.at[i].add(1.0)


def _single(x: Any, i: Any) -> Any:
    places = abs(i)
    return places + places[0], x.at[places].add(1.0)


def _text(function: Callable[..., Any], *args: Any, without: str | None = None) -> str:
    with pytest.MonkeyPatch.context() as patch:
        if without is not None:
            patch.delitem(passes.PASSES, without)
        return print_module(graph_of(xpr.make_jaxpr(function)(*args), "cpu"), "m")


def test_without_the_pass_the_compile_does_not_end() -> None:
    script = (
        "import sys; from tests.lowering.iree_util import compile_with;"
        "compile_with(sys.argv[1], sys.argv[2:])"
    )
    path = os.pathsep.join(path for path in sys.path if path)
    text = _text(_both, X, PLACES, without="single_elements")
    with subprocess.Popen(
        [sys.executable, "-c", script, text, *FAST], env=os.environ | {"PYTHONPATH": path}
    ) as compile:
        try:
            status = compile.wait(8)  # with the pass it takes one second
        except subprocess.TimeoutExpired:
            status = None
            compile.kill()
    assert status is None, MENDED
    assert status_of_compile(_text(_both, X, PLACES), FAST) == 0


def test_where_barriers_are_put() -> None:
    def count(function: Callable[..., Any]) -> int:
        texts = _text(function, X, PLACES), _text(function, X, PLACES, without="single_elements")
        return texts[0].count(BARRIER) - texts[1].count(BARRIER)

    assert count(_both) == 1
    assert count(_single) == 1
    # One scatter reads the places and the single element.
    assert count(lambda x, i: x.at[i].set(0.0)) == 0
    # Nothing is scattered.
    assert count(lambda x, i: (i * 2 + (i * 2)[0], x[i])) == 0
    # An argument is not computed.
    assert count(lambda x, i: (i + i[0], x.at[i].add(1.0, mode="promise_in_bounds"))) == 0
    # The compiler inlines the functions of a program.
    assert count(lambda x, i: (xpr.jit(lambda p: p + p[0])(abs(i)), x.at[abs(i)].add(1.0))) == 1
    assert count(lambda x, i: (abs(i) + abs(i)[0], xpr.jit(lambda p: x.at[p].add(1.0))(abs(i)))) > 0


UPDATES: dict[str, Any] = {
    "set": lambda old, new: new,
    "add": np.add,
    "multiply": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def _expected(x: np.ndarray[Any, Any], kind: str, places: Any, updates: Any) -> Any:
    """The update by a plain loop, in order; what lies outside of the array is dropped."""
    x, updates = x.copy(), np.broadcast_to(updates, np.shape(places)).astype(x.dtype)
    for place, update in zip(places.tolist(), updates, strict=True):
        if -len(x) <= place < len(x):
            x[place] = UPDATES[kind](x[place], update)
    return x


def _check(cases: Sequence[tuple[tuple[str, Any, Any], ...]]) -> None:
    """Compiles several updates of the same array for each case, all cases in one program."""

    @xpr.jit
    def updated(x: Any, i: Any, j: Any, u: Any) -> Any:
        values = {"i": i, "j": j, "u": u}
        return [
            [getattr(x.at[values[p]], kind)(values.get(v, v)) for kind, p, v in case]
            for case in cases
        ]

    with warnings.catch_warnings(), override("compiler_timeout", 60):
        warnings.simplefilter("error")  # a compile that does not end is one of another form
        found = updated(X, PLACES, OTHERS, UPDATE)
    values: dict[Any, Any] = {"i": PLACES, "j": OTHERS, "u": UPDATE}
    for case, arrays in zip(cases, found, strict=True):
        for (kind, p, v), array in zip(case, arrays, strict=True):
            wanted = _expected(X, kind, values[p], values.get(v, v))
            np.testing.assert_array_equal(array, wanted, err_msg=f"{case}, {kind}")


def test_pairs_of_updates_at_the_same_places() -> None:
    pairs = itertools.combinations_with_replacement(UPDATES, 2)
    _check([((a, "i", 0.0), (b, "i", 2.0)) for a, b in pairs])


def test_pairs_of_updates_at_other_places_and_of_shared_updates() -> None:
    kinds = ("set", "add", "max")
    _check(
        [((a, "i", "u"), (b, p, "u")) for a in kinds for b in kinds for p in ("i", "j")]
        + [(("set", "j", "u"), ("add", "j", 2.0))]
    )


def test_triples_of_updates() -> None:
    kinds = ("set", "add", "min")
    _check([tuple((kind, "i", "u") for kind in kinds), (*((k, "j", 1.0) for k in kinds),)])
    _check([(("set", "i", 0.0), ("set", "j", 0.0), ("add", "i", "u"))])


def test_updates_and_gathers_at_the_same_places() -> None:
    @xpr.jit
    def both(x: Any, i: Any, u: Any) -> Any:
        filled = x.at[i].get(mode="fill", fill_value=-1.0)
        return filled, x.at[i].set(u), x.at[i].add(filled), (i % 10) + (i % 10)[2]

    with warnings.catch_warnings(), override("compiler_timeout", 60):
        warnings.simplefilter("error")
        found = both(X, PLACES, UPDATE)
    inside = (PLACES >= -10) & (PLACES < 10)
    filled = np.where(inside, X[np.where(inside, PLACES, 0)], np.float32(-1))
    np.testing.assert_array_equal(found[0], filled)
    np.testing.assert_array_equal(found[1], _expected(X, "set", PLACES, UPDATE))
    np.testing.assert_array_equal(found[2], _expected(X, "add", PLACES, filled))
    np.testing.assert_array_equal(found[3], PLACES % 10 + (PLACES % 10)[2])


_INLINE = """
import numpy as np, xpr
f = xpr.jit(lambda x, i: (x.at[i].set(0.0), x.at[i].add(1.0), abs(i) + abs(i)[0]))
x, i = np.arange(10, dtype="f4"), np.array([12, 3, -1], "i4")
a, b, c = f(x, i)
np.testing.assert_array_equal(a, [0, 1, 2, 0, 4, 5, 6, 7, 8, 0])
np.testing.assert_array_equal(b, [0, 1, 2, 4, 4, 5, 6, 7, 8, 10])
np.testing.assert_array_equal(c, [24, 15, 13])
"""


def test_in_the_programs_own_process() -> None:
    assert run(_INLINE, XPR_COMPILER="inline") == ""
