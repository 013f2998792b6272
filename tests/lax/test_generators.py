"""`rng_bit_generator` against published numbers, a plain loop, and the numbers that XLA gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax

THREE_FRY, PHILOX = lax.RandomAlgorithm.RNG_THREE_FRY, lax.RandomAlgorithm.RNG_PHILOX
MASK = 0xFFFFFFFF

# (algorithm, key, dtype, shape, new key, bits): what JAX 0.10.2 gives on a CPU.
GOLDEN: list[tuple[Any, ...]] = [
    (
        "RNG_THREE_FRY",
        (1, 2, 3, 4),
        "uint16",
        (2, 3),
        [1, 2, 6, 4],
        [13292, 43176, 26179, 6542, 64094, 6425],
    ),
    (
        "RNG_THREE_FRY",
        (1, 2, 3, 4),
        "uint16",
        (3, 3),
        [1, 2, 9, 4],
        [13292, 43176, 26179, 6542, 64094, 6425, 64347, 47957, 29034],
    ),
    (
        "RNG_THREE_FRY",
        (1, 2, 3, 4),
        "uint32",
        (5,),
        [1, 2, 6, 4],
        [1576285164, 2249660814, 740599976, 2425682526, 2436392515],
    ),
    (
        "RNG_THREE_FRY",
        (1, 2, 3, 4),
        "uint32",
        (2, 3),
        [1, 2, 6, 4],
        [1576285164, 740599976, 2436392515, 2249660814, 2425682526, 1497962777],
    ),
    (
        "RNG_THREE_FRY",
        (1, 2, 3, 4),
        "uint32",
        (3, 3),
        [1, 2, 9, 4],
        [
            1576285164,
            740599976,
            2436392515,
            2249660814,
            2425682526,
            1497962777,
            1335360347,
            3981753173,
            3812192618,
        ],
    ),
    (
        "RNG_THREE_FRY",
        (7, 8, 4294967295, 4294967295),
        "uint32",
        (5,),
        [7, 8, 2, 0],
        [1924557324, 278999500, 2550323360, 1872224871, 1935995360],
    ),
    (
        "RNG_PHILOX",
        (1, 2, 3, 4),
        "uint16",
        (2, 3),
        [1, 2, 5, 4],
        [59492, 3031, 51646, 37377, 18555, 22166],
    ),
    (
        "RNG_PHILOX",
        (1, 2, 3, 4),
        "uint16",
        (3, 3),
        [1, 2, 6, 4],
        [59492, 3031, 51646, 37377, 18555, 22166, 25972, 55279, 12983],
    ),
    (
        "RNG_PHILOX",
        (1, 2, 3, 4),
        "uint32",
        (5,),
        [1, 2, 5, 4],
        [512747620, 1298009047, 1267190206, 761827841, 1383286907],
    ),
    (
        "RNG_PHILOX",
        (1, 2, 3, 4),
        "uint32",
        (2, 3),
        [1, 2, 5, 4],
        [512747620, 1298009047, 1267190206, 761827841, 1383286907, 1639995030],
    ),
    (
        "RNG_PHILOX",
        (1, 2, 3, 4),
        "uint32",
        (3, 3),
        [1, 2, 6, 4],
        [
            512747620,
            1298009047,
            1267190206,
            761827841,
            1383286907,
            1639995030,
            2756207988,
            2154813423,
            2586587831,
        ],
    ),
    (
        "RNG_PHILOX",
        (7, 8, 4294967295, 4294967295),
        "uint32",
        (5,),
        [7, 8, 1, 0],
        [4160284401, 836550360, 2189995417, 3762274168, 2915866093],
    ),
]


def philox(counter: int, key: tuple[int, int]) -> list[int]:
    """Philox4x32-10 in Python's integers, of a counter of 128 bits."""
    c = [counter >> 32 * i & MASK for i in range(4)]
    k = list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second >> 32 ^ c[1] ^ k[0], second & MASK, first >> 32 ^ c[3] ^ k[1], first & MASK]
        k = [k[0] + 0x9E3779B9 & MASK, k[1] + 0xBB67AE85 & MASK]
    return c


def test_philox_has_its_published_values() -> None:
    """The first and the last known answer of Random123, the authors' own implementation."""
    words = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    _, bits = lax.rng_bit_generator(np.zeros(4, np.uint32), (4,))
    assert tuple(np.asarray(bits)) == words == tuple(philox(0, (0, 0)))
    words = (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    _, bits = lax.rng_bit_generator(np.full(4, MASK, np.uint32), (4,))
    assert tuple(np.asarray(bits)) == words == tuple(philox((1 << 128) - 1, (MASK, MASK)))


@pytest.mark.parametrize("row", GOLDEN, ids=lambda r: f"{r[0]}-{r[2]}-{r[3]}-{r[1][2]}")
def test_numbers_of_xla(row: tuple[Any, ...]) -> None:
    algorithm, key, dtype, shape, state, bits = row
    found = lax.rng_bit_generator(
        np.array(key, np.uint32), shape, dtype, lax.RandomAlgorithm[algorithm]
    )
    assert np.asarray(found[0]).tolist() == state
    assert found[1].shape == shape
    assert found[1].dtype == dtype
    assert np.asarray(found[1]).ravel().tolist() == bits


@pytest.mark.parametrize("low", [0, (1 << 64) - 2])
def test_philox_is_the_loop_and_carries(low: int) -> None:
    key = (7, MASK)
    state = np.array([*key, low & MASK, low >> 32], np.uint32)
    new, bits = lax.rng_bit_generator(state, (13,), algorithm=PHILOX)
    start = low | (key[0] | key[1] << 32) << 64
    words = [w for i in range(4) for w in philox(start + i, key)]
    assert np.asarray(bits).tolist() == words[:13]
    after = low + 4 & (1 << 64) - 1
    assert np.asarray(new).tolist() == [*key, after & MASK, after >> 32]


def test_words_of_64_bits_and_keys_of_two() -> None:
    with xpr.enable_x64(True):
        short = np.array([1, 2, 3, 4], np.uint32)
        long = np.array([1 | 2 << 32, 3 | 4 << 32], np.uint64)
        for algorithm in (THREE_FRY, PHILOX):
            state, bits = lax.rng_bit_generator(short, (5,), np.uint64, algorithm)
            same_state, same = lax.rng_bit_generator(long, (5,), np.uint64, algorithm)
            np.testing.assert_array_equal(np.asarray(bits), np.asarray(same))
            np.testing.assert_array_equal(np.asarray(state).view(np.uint64), np.asarray(same_state))
        # Philox fills words of 64 bits from neighbours, the low half first.
        narrow = lax.rng_bit_generator(short, (10,), np.uint32)[1]
        assert np.asarray(bits).tolist() == np.asarray(narrow).view(np.uint64).tolist()


def test_compiled_and_batched_are_what_each_key_gives() -> None:
    keys = np.array([[1, 2, 3, 4], [5, 6, MASK, MASK]], np.uint32)

    def both(key: Any) -> Any:
        return [lax.rng_bit_generator(key, (3, 3), np.uint16, a) for a in (THREE_FRY, PHILOX)]

    alone = [both(k) for k in keys]
    together = xpr.jit(xpr.vmap(both))(keys)
    for i, (state, bits) in enumerate(together):
        for j in range(len(keys)):
            np.testing.assert_array_equal(state[j], alone[j][i][0])
            np.testing.assert_array_equal(bits[j], alone[j][i][1])


def test_no_bits_leave_the_state() -> None:
    for algorithm in (THREE_FRY, PHILOX):
        state, bits = lax.rng_bit_generator(
            np.array([1, 2, 3, 4], np.uint32), (0, 3), algorithm=algorithm
        )
        assert bits.shape == (0, 3)
        assert np.asarray(state).tolist() == [1, 2, 3, 4]


def test_errors_of_the_generator() -> None:
    key = np.zeros(4, np.uint32)
    for bad in (np.zeros(3, np.uint32), np.zeros(4, np.int32), np.zeros((2, 4), np.uint32)):
        with pytest.raises(TypeError, match=r"requires key: uint32\[4\] or uint64\[2\]"):
            lax.rng_bit_generator(bad, (2,))
    with pytest.raises(TypeError, match="unsupported dtype int32"):
        lax.rng_bit_generator(key, (2,), np.int32)
    with pytest.raises(ValueError, match="sizes of 0 or more"):
        lax.rng_bit_generator(key, (-1,))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float16", "bfloat16", "float32"])
def test_uniform_numbers_lie_in_their_range(dtype: str) -> None:
    kind: Any = getattr(xpr.numpy, dtype).dtype.type
    low, high = kind(3), kind(11)
    found = np.asarray(lax.rng_uniform(low, high, (40, 50)))
    assert found.shape == (40, 50)
    assert found.dtype == low.dtype
    values = found.astype(np.float64)
    assert low <= values.min() < 3.5
    assert 9.9 < values.max() < high
    assert abs(values.mean() - (7 if "float" in dtype else 6.5)) < 0.25
    again = np.asarray(lax.rng_uniform(low, high, (40, 50)))
    assert (found != again).any()


def test_uniform_numbers_of_a_range_as_wide_as_the_type() -> None:
    found = np.asarray(lax.rng_uniform(np.int8(-128), np.int8(127), (4000,)))
    assert found.min() < -120
    assert found.max() > 120


def test_errors_of_uniform_numbers() -> None:
    with pytest.raises(ValueError, match="identical dtypes, got int32 and float32"):
        lax.rng_uniform(0, 1.0, (2,))
    with pytest.raises(ValueError, match=r"must be scalars; got shapes \(2,\) and \(\)"):
        lax.rng_uniform(np.zeros(2, np.float32), 1.0, (2,))
    with pytest.raises(TypeError, match="integers or floats, got dtype bool"):
        lax.rng_uniform(False, True, (2,))
