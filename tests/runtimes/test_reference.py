"""The reference runtime: programs that are Python functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xpr.runtimes import registry
from xpr.runtimes.base import ExecutableSignature
from xpr.runtimes.host import HostBuffer

PAIR = ((3,), np.dtype(np.float32))


def load(program: Any, inputs: Any, outputs: Any, donations: Any = ()) -> Any:
    runtime = registry.get_runtime("reference")
    signature = ExecutableSignature("main", tuple(inputs), tuple(outputs), tuple(donations))
    return runtime.load(program, signature, runtime.devices()[0])


def put(values: Any) -> HostBuffer:
    return HostBuffer(np.asarray(values, np.float32), registry.devices("reference")[0])


def test_runs_the_function() -> None:
    program = load(lambda a: [a[0] + a[1], a[0] * a[1]], [PAIR, PAIR], [PAIR, PAIR])
    total, product = program([put([1, 2, 3]), put([4, 5, 6])])
    np.testing.assert_array_equal(total.host_view(), [5, 7, 9])
    np.testing.assert_array_equal(product.host_view(), [4, 10, 18])
    assert not total.host_view().flags.writeable
    assert total.device is registry.devices("reference")[0]


def test_operands_are_read_only() -> None:
    def program(arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        arrays[0][0] = 9
        return arrays

    with pytest.raises(ValueError, match="read-only"):
        load(program, [PAIR], [PAIR])([put([1, 2, 3])])


def test_results_have_memory_of_their_own() -> None:
    mine = np.array([1, 2, 3], np.float32)
    kind = ((3, 1), np.dtype(np.float32))

    def program(arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        double = arrays[0] * 2
        return [arrays[0], arrays[0].reshape(3, 1), double, double[::-1]]

    results = load(program, [PAIR], [PAIR, kind, PAIR, PAIR])([put(mine)])
    mine[:] = 0
    arrays = [r.host_view() for r in results]
    np.testing.assert_array_equal(arrays[0], [1, 2, 3])
    np.testing.assert_array_equal(arrays[1], [[1], [2], [3]])
    np.testing.assert_array_equal(arrays[2], [2, 4, 6])
    np.testing.assert_array_equal(arrays[3], [6, 4, 2])
    for i in range(4):
        for k in range(i):
            assert not np.shares_memory(arrays[i], arrays[k])


def test_donated_operands_are_deleted() -> None:
    operand, other = put([1, 2, 3]), put([1, 1, 1])
    program = load(lambda a: [a[0] + a[1]], [PAIR, PAIR], [PAIR], [(0, 0)])
    (result,) = program([operand, other])
    np.testing.assert_array_equal(result.host_view(), [2, 3, 4])
    assert operand.is_deleted()
    assert not other.is_deleted()
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        program([operand, other])


def test_wrong_types() -> None:
    program = load(lambda a: [a[0][:2]], [PAIR], [PAIR])
    with pytest.raises(TypeError, match="the program takes 1 arguments, got 2"):
        program([put([1, 2, 3])] * 2)
    with pytest.raises(TypeError, match=r"takes float32\[3\] as argument 0, got float32\[2\]"):
        program([put([1, 2])])
    with pytest.raises(TypeError, match=r"promises float32\[3\] as result 0, got float32\[2\]"):
        program([put([1, 2, 3])])
    with pytest.raises(TypeError, match="promises 1 results, got 0"):
        load(lambda a: [], [PAIR], [PAIR])([put([1, 2, 3])])
    with pytest.raises(TypeError, match="the reference runtime runs Python functions, got bytes"):
        load(b"vmfb", [PAIR], [PAIR])


def test_buffer_from_host() -> None:
    runtime = registry.get_runtime("reference")
    source = np.arange(3.0)
    copied = runtime.buffer_from_host(source, runtime.devices()[0], copy=True)
    shared = runtime.buffer_from_host(source, runtime.devices()[0], copy=False)
    source[0] = 9
    assert copied.host_view()[0] == 0
    assert shared.host_view()[0] == 9
