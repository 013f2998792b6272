"""Memory that functions of this process write results of programs to."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.runtimes.extension import native

needs_executor = pytest.mark.skipif(
    native().executor is None, reason="the native part does not run programs here"
)


@needs_executor
def test_only_what_is_unfinished_is_written_to() -> None:
    block = native().executor.Block.empty(24)
    array: Any = np.ndarray((2, 3), np.float32, block.unfinished())
    array[...] = np.arange(6).reshape(2, 3)
    seen: Any = np.ndarray((6,), np.float32, block)
    np.testing.assert_array_equal(seen, np.arange(6))
    assert array.flags.writeable
    assert not seen.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        seen.setflags(write=True)


@needs_executor
def test_the_memory_lives_as_long_as_an_array_over_it() -> None:
    executor = native().executor
    before = executor.bytes_in_use()
    block = executor.Block.empty(1 << 16)
    array: Any = np.ndarray((1 << 16,), np.uint8, block.unfinished())
    del block
    gc.collect()
    array[:] = 7
    assert executor.bytes_in_use() >= before + (1 << 16)
    assert array.sum(dtype=np.int64) == 7 << 16
    del array
    gc.collect()
    assert executor.bytes_in_use() <= before


@pytest.mark.parametrize("shape", [(0, 4), (1,), (3, 5), (64, 64)])
def test_results_of_functions_of_this_process(shape: tuple[int, ...]) -> None:
    """Transforms are written over a copy of their operand, factors into new memory."""
    z = np.random.default_rng(0).standard_normal(shape).astype(np.complex64)
    given = z.copy()
    f = xpr.jit(lambda z: (jnp.fft.fft(z) if z.size else z, z))
    for _ in range(3):
        transformed, same = f(z)
        wanted = np.fft.fft(z) if z.size else z
        np.testing.assert_allclose(np.asarray(transformed), wanted, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(np.asarray(same), given)
    np.testing.assert_array_equal(z, given)


def test_of_types_that_are_not_numpys() -> None:
    x = jnp.arange(4, dtype="bfloat16")
    double = xpr.jit(lambda x: xpr.pure_callback(lambda x: x * 2, x, x))
    np.testing.assert_array_equal(np.asarray(double(x), np.float32), [0, 2, 4, 6])
