"""Gather: errors, printed equation, fill values, long chains of indices."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import run_compiled, run_reference
from xpr.primitives.gather import GatherDimensionNumbers as Numbers
from xpr.primitives.gather import GatherScatterMode, gather, index_take

X = np.arange(12, dtype=np.float32).reshape(3, 4)
I = np.array([[2], [0]], np.int32)  # noqa: E741  the indices
ROWS = Numbers((1,), (0,), (0,))


def test_the_equation_prints_as_jaxs() -> None:
    text = " ".join(str(xpr.make_jaxpr(lambda x, i: gather(x, i, ROWS, (1, 4)))(X, I)).split())
    assert text == (
        "{ lambda ; a:f32[3,4] b:i32[2,1]. let c:f32[2,4] = gather[ "
        "dimension_numbers=GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), "
        "start_index_map=(0,), operand_batching_dims=(), start_indices_batching_dims=()) "
        "fill_value=None indices_are_sorted=False mode=GatherScatterMode.PROMISE_IN_BOUNDS "
        "slice_sizes=(1, 4) unique_indices=False ] a b in (c,) }"
    )


def test_modes_by_name() -> None:
    assert GatherScatterMode.from_any("clip") is GatherScatterMode.CLIP
    assert GatherScatterMode.from_any("fill") is GatherScatterMode.FILL_OR_DROP
    assert GatherScatterMode.from_any("drop") is GatherScatterMode.FILL_OR_DROP
    assert GatherScatterMode.from_any(None) is GatherScatterMode.FILL_OR_DROP
    assert GatherScatterMode.from_any("promise_in_bounds") is GatherScatterMode.PROMISE_IN_BOUNDS
    assert str(GatherScatterMode.CLIP) == "GatherScatterMode.CLIP"
    with pytest.raises(ValueError, match='Unknown gather mode "bad"'):
        gather(X, I, ROWS, (1, 4), mode="bad")


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("float32", np.nan),
        ("bfloat16", np.nan),
        ("complex64", np.nan),
        ("int32", -(2**31)),
        ("int8", -128),
        ("uint8", 255),
        ("bool", True),
    ],
)
def test_default_fill_values(dtype: str, fill: Any, runtime: str) -> None:
    x = np.zeros(3).astype(jnp.dtype(dtype))
    far = np.array([[7], [1]], np.int32)
    numbers = Numbers((), (0,), (0,))
    case = (lambda a, i: gather(a, i, numbers, (1,), mode="fill"), [x, far])
    for found in (run_reference([case])[0][0], run_compiled([case], runtime)[0][0]):
        np.testing.assert_array_equal(found[0].astype(np.complex128), complex(fill))
        assert found[1] == 0
    given = gather(jnp.array(x), far, numbers, (1,), mode="fill", fill_value=1)
    assert np.asarray(given)[0] == 1


@pytest.mark.parametrize(
    ("numbers", "sizes", "match"),
    [
        (ROWS, (1, 5), r"Slice size at index 1 .* within \[0, 4 \+ 1\), got 5"),
        (ROWS, (1, -4), "got -4"),
        (ROWS, (2, 4), "only collapse slice dims with bound 1, but bound is 2"),
        (ROWS, (1,), "one slice size for every input dimension"),
        (Numbers((2,), (0,), (0,)), (1, 4), r"offset_dims .* \[0, 2\); got: 2"),
        (Numbers((1, 0), (), (0,)), (1, 4), r"offset_dims in gather op must be sorted; got \(1, "),
        (Numbers((1, 1), (0,), (0,)), (1, 4), "must not repeat"),
        (Numbers((1,), (0,), (0, 1)), (1, 4), "2 elements in start_index_map .* indices is 1"),
        (Numbers((1,), (0,), (5,)), (1, 4), r"start_index_map .* \[0, 2\); got: 5"),
        (Numbers((1,), (3,), (0,)), (1, 4), r"collapsed_slice_dims .* got: 3"),
        (Numbers((), (0,), (0,)), (1, 4), "must either be a offset dimension"),
        (Numbers((1,), (), (1,), (0,), (1,)), (1, 4), "index vector dimension as a batching"),
        (Numbers((1,), (), (1,), (0,), ()), (1, 4), "equal numbers of operand_batching_dims"),
        (Numbers((1,), (), (0,), (0,), (0,)), (1, 4), "must be disjoint"),
        (Numbers((1,), (), (1,), (0,), (0,)), (1, 4), r"same shape, got \(3,\) and \(2,\)"),
    ],
)  # fmt: skip
def test_bad_dimension_numbers(numbers: Numbers, sizes: tuple[int, ...], match: str) -> None:
    with pytest.raises(TypeError, match=match):
        gather(X, I, numbers, sizes)


def test_indices_are_integers() -> None:
    with pytest.raises(ValueError, match="indices must have an integer type, got float32"):
        gather(X, I.astype(np.float32), ROWS, (1, 4))


def test_lists_as_dimension_numbers() -> None:
    numbers = Numbers([1], [0], [0])  # type: ignore[arg-type]
    np.testing.assert_array_equal(np.asarray(gather(jnp.array(X), I, numbers, [1, 4])), X[[2, 0]])


def test_index_take_counts_modulo_the_size(runtime: str) -> None:
    i, j = np.array([5, -1, 0], np.int32), np.array([-4, 2, 9], np.int32)
    cases: list[Any] = [
        (lambda x, i: index_take(x, [i], (0,)), [X, i]),
        (lambda x, i, j: index_take(x, [i, j], (0, 1)), [X, i, j]),
        (lambda x, i, j: index_take(x, [j, i], (1, 0)), [X, i, j]),
    ]
    wanted = [X[i % 3], X[i % 3, j % 4], X[i % 3, j % 4]]
    for found, want in zip(run_compiled(cases, runtime), wanted, strict=True):
        np.testing.assert_array_equal(found[0], want)
    with pytest.raises(ValueError, match="an index for each axis, got 1 and 2"):
        index_take(jnp.array(X), [i], (0, 1))


def _chase(steps: int) -> Callable[..., Any]:
    def chase(table: Any, start: Any) -> Any:
        for _ in range(steps):
            start = table[start]
        return start

    return chase


def test_chains_of_gathers(runtime: str) -> None:
    table = np.random.default_rng(0).permutation(50).astype(np.int32)
    start = np.arange(50, dtype=np.int32)
    wanted = start
    for _ in range(12):
        wanted = table[wanted]
    found = run_compiled([(_chase(12), [table, start])], runtime)[0][0]
    np.testing.assert_array_equal(found, wanted)


_LONG_CHAIN = """
import resource
resource.setrlimit(resource.RLIMIT_CPU, (100, 100))
import numpy as np
import xpr
def f(table, i):
    for _ in range(60):
        i = i * i + i
    return table[i]
seed, table = np.arange(8, dtype=np.int32), np.arange(3.0, dtype=np.float32)
with np.errstate(over="ignore"):
    i = seed
    for _ in range(60):
        i = i * i + i
wanted = table[np.clip(np.where(i < 0, i.astype(np.int64) + 3, i), 0, 2)]
np.testing.assert_array_equal(np.asarray(xpr.jit(f)(table, seed)), wanted)
print("survived")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits processor time by setrlimit")
def test_long_computations_of_an_index_compile_at_all() -> None:
    # Compilers before IREE 3.13 took time exponential in the length of this chain.
    done = subprocess.run(
        [sys.executable, "-c", _LONG_CHAIN], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "survived" in done.stdout
