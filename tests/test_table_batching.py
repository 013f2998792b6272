"""Each row of the table under `vmap`, against the function applied to one example at a time."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.harness import assert_same
from tests.op_row import OpRow, np_dtype
from tests.op_table import all_rows
from xpr.core.config import override
from xpr.core.primitive import Absent, registry
from xpr.transforms.tracing import ShapeDtypeStruct, eval_shape
from xpr.transforms.vmap import vmap

_SIZE = 3
Axes = tuple[int | None, ...]


def _rows() -> list[Any]:
    """Every row once, in the dtype that programs use most."""
    found = []
    for rows in all_rows().values():
        for row in rows:
            if row.no_batching_check:
                continue
            preferred = [d for d in ("float32", "int32", "bool", "complex64") if d in row.dtypes]
            dtype = (preferred or list(row.dtypes))[0]
            found.append(pytest.param(row, dtype, id=f"{row.id}-{dtype}"))
    return found


def _operands(row: OpRow, dtype: str, example: int) -> Sequence[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(zlib.crc32(f"{row.id}/{dtype}/{example}".encode()))
    return [np.asarray(x) for x in row.args(rng, np_dtype(dtype))]


def _combinations(ranks: Sequence[int]) -> list[Axes]:
    """Each operand alone, in front and at the end, and all of them, in the same places or not."""
    n = len(ranks)
    found: list[Axes] = []
    for i in range(n):
        found.append(tuple(0 if j == i else None for j in range(n)))
        found.append(tuple(-1 if j == i else None for j in range(n)))
    found.append((0,) * n)
    found.append(tuple(-1 if j % 2 else 0 for j in range(n)))
    found.append(tuple(min(1, r) for r in ranks))
    return list(dict.fromkeys(axes for axes in found if any(a is not None for a in axes)))


def _list(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (tuple, list)) else [out]


@pytest.mark.parametrize(("row", "dtype"), _rows())
def test_vmap_is_loop_and_stack(row: OpRow, dtype: str) -> None:
    with override("enable_x64", True):
        examples = [_operands(row, dtype, i) for i in range(_SIZE)]
        if not examples[0]:
            return
        if isinstance(registry[row.primitive].batch, Absent):
            with pytest.raises(NotImplementedError, match="not implemented"):
                vmap(row.function)(*[np.stack(x) for x in zip(*examples, strict=True)])
            return
        for axes in _combinations([x.ndim for x in examples[0]]):
            _check(row, examples, axes)


def _check(row: OpRow, examples: Sequence[Sequence[Any]], axes: Axes) -> None:
    first = examples[0]
    looped = [
        [x if a is not None else y for x, y, a in zip(some, first, axes, strict=True)]
        for some in examples
    ]
    expected = [
        np.stack([np.asarray(x) for x in results])
        for results in zip(*[_list(row.function(*some)) for some in looped], strict=True)
    ]
    batched = [
        np.stack(columns, axis=a) if a is not None else columns[0]
        for columns, a in zip(zip(*looped, strict=True), axes, strict=True)
    ]
    found = _list(vmap(row.function, in_axes=axes)(*batched))
    assert len(found) == len(expected)
    for i, (x, y) in enumerate(zip(found, expected, strict=True)):
        rtol, atol = row.tolerance_for(y.dtype)
        what = f"{row.id} in_axes={axes} result {i}"
        assert_same(np.asarray(x), y, rtol, atol, what=what)
    # A batch of no examples has the shapes and dtypes of the others.
    empty = [
        np.take(x, [], axis=a) if a is not None else x for x, a in zip(batched, axes, strict=True)
    ]
    shapes = _list(eval_shape(row.function, *[ShapeDtypeStruct(x.shape, x.dtype) for x in first]))
    for x, s in zip(_list(vmap(row.function, in_axes=axes)(*empty)), shapes, strict=True):
        assert (x.shape, x.dtype) == ((0, *s.shape), s.dtype), f"{row.id} {axes}"
