"""Rows of `dot_general`, against `np.einsum` in higher precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_row import ALL, COMPLEX, FLOATS, Arrays, OpRow, random_values
from xpr.primitives.dot_general import dot_general

# Rounding errors of a sum of k products are measured against the products.
_TOLERANCE = {
    "float64": (1e-13, 1e-12),
    "float32": (1e-5, 1e-4),
    "float16": (4e-3, 4e-2),
    "bfloat16": (2e-2, 4e-1),
    "complex64": (1e-5, 1e-4),
    "complex128": (1e-13, 1e-12),
}


def _row(
    case: str,
    lhs: tuple[int, ...],
    rhs: tuple[int, ...],
    dims: Any,
    text: str,
    dtypes: tuple[str, ...] = ("int32", "float32", "complex64"),
    preferred: Any = None,
) -> OpRow:
    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        return random_values(rng, dtype, lhs, -3, 3), random_values(rng, dtype, rhs, -3, 3)

    def oracle(x: Any, y: Any) -> Any:
        kind = x.dtype.kind
        if kind == "b":
            return np.einsum(text, x.astype(np.int64), y.astype(np.int64)) > 0
        wide = {"i": np.int64, "u": np.uint64, "c": np.complex128}.get(kind, np.float64)
        return np.einsum(text, x.astype(wide), y.astype(wide))

    return OpRow(
        primitive="dot_general",
        function=lambda x, y: dot_general(x, y, dims, preferred_element_type=preferred),
        args=args,
        dtypes=dtypes,
        case=case,
        oracle=oracle,
        tolerance=_TOLERANCE,
        signed_zero=False,
    )


_NONE: tuple[Any, Any] = ((), ())
ROWS = [
    _row("matrices", (5, 7), (7, 3), (((1,), (0,)), _NONE), "ij,jk->ik", ALL),
    _row("vectors", (9,), (9,), (((0,), (0,)), _NONE), "i,i->", (*FLOATS, *COMPLEX)),
    _row("matrix and vector", (6, 9), (9,), (((1,), (0,)), _NONE), "ij,j->i"),
    _row("vector and matrix", (9,), (9, 6), (((0,), (0,)), _NONE), "j,jk->k"),
    _row("first axes", (7, 5), (7, 3), (((0,), (0,)), _NONE), "ji,jk->ik"),
    _row("last axes", (5, 7), (3, 7), (((1,), (1,)), _NONE), "ij,kj->ik"),
    _row("outer", (4,), (3,), (_NONE, _NONE), "i,j->ij"),
    _row("scalars", (), (), (_NONE, _NONE), ",->", ALL),
    _row("batch", (2, 4, 5), (2, 5, 3), (((2,), (1,)), ((0,), (0,))), "bij,bjk->bik"),
    _row("batch inside", (4, 2, 5), (5, 3, 2), (((2,), (0,)), ((1,), (2,))), "ibj,jkb->bik"),
    _row("two batches", (2, 3, 4, 5), (3, 2, 5), (((3,), (2,)), ((0, 1), (1, 0))), "abij,baj->abi"),
    _row("two contractions", (3, 4, 5), (5, 4, 2), (((1, 2), (1, 0)), _NONE), "ijk,kjl->il"),
    _row("all contracted", (3, 4), (3, 4), (((0, 1), (0, 1)), _NONE), "ij,ij->"),
    _row("batch only", (6,), (6,), (_NONE, ((0,), (0,))), "b,b->b"),
    _row("no contraction length", (3, 0), (0, 4), (((1,), (0,)), _NONE), "ij,jk->ik"),
    _row("no rows", (0, 3), (3, 4), (((1,), (0,)), _NONE), "ij,jk->ik"),
    _row("size one", (1, 1), (1, 1), (((1,), (0,)), _NONE), "ij,jk->ik"),
    _row("larger", (70, 90), (90, 50), (((1,), (0,)), _NONE), "ij,jk->ik", ("float32", "float64")),
    _row(
        "wider result",
        (5, 7),
        (7, 3),
        (((1,), (0,)), _NONE),
        "ij,jk->ik",
        ("float16", "bfloat16"),
        np.dtype("float32"),
    ),
    _row(
        "int8 into int32",
        (5, 40),
        (40, 3),
        (((1,), (0,)), _NONE),
        "ij,jk->ik",
        ("int8",),
        np.dtype("int32"),
    ),
]
