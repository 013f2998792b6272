"""Places in memory, and what is known of two of them."""

from __future__ import annotations

import numpy as np

from xpr.lowering.ir.graph import PlainValue
from xpr.lowering.loops.memory.affine import Place, Symbol
from xpr.lowering.loops.memory.arrays import Buffer, View, moved, reshaped, whole
from xpr.lowering.loops.memory.conflicts import Verdict, verdict

_F64 = np.dtype(np.float64)


def _matrix(rows: int = 6, columns: int = 10) -> View:
    buffer = Buffer(PlainValue("memref<60xf64>"), rows * columns, _F64, None)
    return whole(buffer, (rows, columns), _F64)


def _part(x: View, rows: tuple[Place, int], columns: tuple[Place, int]) -> View:
    found = moved(
        x, (rows[1], columns[1]), lambda index: (index[0] + rows[0], index[1] + columns[0])
    )
    assert isinstance(found, View)
    return found


def test_sums_of_places_are_equal_when_their_terms_are():
    i, j = Symbol(None, 0, 5), Symbol(None, 0, 9)
    a = Place.of(i) * 10 + Place.of(j) + 3
    b = Place.of(j) + Place.of(i) * 10 + 3
    assert a == b
    assert hash(a) == hash(b)
    assert (a - b).known == 0
    assert (a - Place.of(j)).terms == {i: 10}


def test_bounds_follow_the_signs_of_factors():
    i, j = Symbol(None, 2, 5), Symbol(None, -1, 1)
    assert (Place.of(i) * -2 + Place.of(j) * 3 + 1).bounds == (-12, 0)


def test_reshapes_need_a_copy_only_where_rows_are_cut():
    x = _matrix()
    assert isinstance(reshaped(x, (60,)), View)
    assert isinstance(reshaped(x, (3, 2, 5, 2)), View)
    inner = _part(x, (Place(1), 4), (Place(1), 8))
    assert reshaped(inner, (32,)) is None
    halves = reshaped(inner, (4, 2, 4))
    assert isinstance(halves, View)
    assert halves.strides == (10, 4, 1)


def test_a_part_may_be_stored_over_itself_and_over_what_comes_later():
    x, k = _matrix(), Place.of(Symbol(None, 0, 3))
    target = _part(x, (k, 2), (Place(1), 8))
    same = _part(x, (k, 2), (Place(1), 8))
    ahead = _part(x, (k, 2), (Place(2), 8))
    behind = _part(x, (k, 2), (Place(0), 8))
    assert verdict([target], [same]) is Verdict.FREE
    assert verdict([target], [ahead]) is Verdict.IN_ORDER
    assert verdict([target], [behind]) is Verdict.NO


def test_other_rows_and_other_columns_lie_apart():
    x, k = _matrix(), Place.of(Symbol(None, 1, 4))
    row, above = (_part(x, (k + d, 1), (Place(0), 10)) for d in (0, -1))
    assert verdict([row], [above]) is Verdict.FREE
    column, left = (_part(x, (Place(0), 6), (k + d, 1)) for d in (0, -1))
    assert verdict([column], [left]) is Verdict.FREE
    unknown = _part(x, (Place.of(Symbol(None, 0, 5)), 1), (Place(0), 10))
    assert verdict([row], [unknown]) is Verdict.NO
