"""Rows of random bits: exact, against the generator written with Python's integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.op_row import Arrays, OpRow
from xpr.primitives import random as r

_U32 = ("uint32",)
_WORD = 1 << 32


def _rotated(x: int, places: int) -> int:
    return x * 2**places % _WORD + x // 2 ** (32 - places)


def threefry(key: Sequence[int], counter: Sequence[int]) -> tuple[int, int]:
    """Threefry-2x32-20 as the paper (Salmon et al., SC11) states it, round by round."""
    rotations = [13, 15, 26, 6, 17, 29, 16, 24]
    schedule = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
    a, b = (counter[0] + key[0]) % _WORD, (counter[1] + key[1]) % _WORD
    for number in range(1, 21):
        a = (a + b) % _WORD
        b = _rotated(b, rotations[(number - 1) % 8]) ^ a
        if number % 4 == 0:
            injection = number // 4
            a = (a + schedule[injection % 3]) % _WORD
            b = (b + schedule[(injection + 1) % 3] + injection) % _WORD
    return a, b


def _blocks(key: Any, count: int) -> Any:
    """The blocks of counters 0 .. count-1 for each key, as [keys, count, 2]."""
    keys = np.asarray(key).reshape(-1, 2).tolist()
    found = [[threefry(k, (0, i)) for i in range(count)] for k in keys]
    return np.array(found, np.uint64).reshape(len(keys), count, 2)


def _words(*shapes: tuple[int, ...]) -> Callable[..., Arrays]:
    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        return tuple(rng.integers(0, _WORD, s, dtype=dtype) for s in shapes)

    return args


def _elementwise(*operands: Any) -> Any:
    arrays = np.broadcast_arrays(*operands)
    flat = np.stack([a.ravel() for a in arrays], axis=-1).tolist()
    pairs = [threefry(x[:2], x[2:]) for x in flat]
    found = np.array(pairs, np.uint32).reshape(*arrays[0].shape, 2)
    return found[..., 0], found[..., 1]


def _bits_row(case: str, keys: tuple[int, ...], width: int, shape: tuple[int, ...]) -> OpRow:
    def expected(key: Any) -> Any:
        blocks = _blocks(key, int(np.prod(shape, dtype=int)))
        first, second = blocks[..., 0], blocks[..., 1]
        bits = first * 2**32 + second if width == 64 else (first ^ second) % 2**width
        return bits.astype(f"u{width // 8}").reshape((*keys, *shape))

    return OpRow(
        "random_bits",
        lambda key: r.random_bits(key, width, shape),
        _words((*keys, 2)),
        _U32,
        case=case,
        oracle=expected,
        exact=True,
    )


def _split_row(case: str, keys: tuple[int, ...], shape: tuple[int, ...]) -> OpRow:
    count = int(np.prod(shape, dtype=int))
    return OpRow(
        "random_split",
        lambda key: r.random_split(key, shape),
        _words((*keys, 2)),
        _U32,
        case=case,
        oracle=lambda key: _blocks(key, count).astype(np.uint32).reshape(*keys, *shape, 2),
        exact=True,
    )


def _folded(key: Any, data: Any) -> Any:
    pairs = zip(key.reshape(-1, 2).tolist(), data.reshape(-1).tolist(), strict=True)
    return np.array([threefry(k, (0, d)) for k, d in pairs], np.uint32).reshape(key.shape)


ROWS: list[OpRow] = [
    *(
        OpRow(
            "threefry2x32",
            lambda *x: r.threefry2x32(*x),
            _words(*shapes),
            _U32,
            case=case,
            oracle=_elementwise,
            exact=True,
        )
        for case, shapes in {
            "scalars": ((), (), (), ()),
            "matrix": ((3, 5),) * 4,
            "one-key": ((), (), (7,), (7,)),
            "few": ((), (), (2,), (2,)),
            "empty": ((0,),) * 4,
        }.items()
    ),
    *(_bits_row(f"{width}-bits", (), width, (3, 7)) for width in (8, 16, 32, 64)),
    _bits_row("scalar", (), 32, ()),
    _bits_row("keys", (2, 3), 32, (5,)),
    _bits_row("keys-64-bits", (3,), 64, ()),
    _bits_row("empty", (), 32, (3, 0)),
    _bits_row("no-keys", (0,), 32, (3,)),
    _bits_row("several-chunks", (), 16, (10007,)),
    _split_row("two", (), (2,)),
    _split_row("matrix", (), (3, 4)),
    _split_row("one", (), ()),
    _split_row("keys", (3,), (2, 2)),
    _split_row("none", (), (0,)),
    *(
        OpRow(
            "random_fold_in",
            lambda key, data: r.random_fold_in(key, data),
            _words((*keys, 2), keys),
            _U32,
            case=case,
            oracle=_folded,
            exact=True,
        )
        for case, keys in {"one": (), "keys": (2, 5), "none": (0,)}.items()
    ),
]
