"""Sorts: comparators of keys become sorts by keys, others a count of what comes before."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import lax
from xpr.core import dtypes
from xpr.export.stablehlo.form import Block, Operation, Value
from xpr.export.stablehlo.importer import Rule, Scope, Site, dtype_of, shape_of
from xpr.export.stablehlo.rules.elements import over_elements
from xpr.export.stablehlo.rules.elementwise import total_order

_FLIPPED = {"LT": "GT", "GT": "LT"}
_Key = tuple[Value, str, str]
"""The value that is compared, the direction, and the kind of comparison."""


class _Comparator:
    """The structure of a comparator: which values of one side it compares, in turn."""

    def __init__(self, block: Block) -> None:
        self._side = {a: i % 2 for i, a in enumerate(block.arguments)}
        self._place = {a: i // 2 for i, a in enumerate(block.arguments)}
        self.keys = self._keys(block.terminator.operands[0])

    def _keys(self, value: Value) -> list[_Key] | None:
        """The keys of a lexicographic order: k0 < l0 or (k0 = l0 and the rest)."""
        op = value.owner
        if op is None:
            return None
        if op.name == "stablehlo.compare":
            key = self._compared(op)
            return None if key is None or key[1] not in _FLIPPED else [key]
        rest: Value | None = None
        first: Value | None = None
        equal: Value | None = None
        if op.name == "stablehlo.or":
            for a, b in (op.operands, op.operands[::-1]):
                both = b.owner
                if both is not None and both.name == "stablehlo.and":
                    first, (equal, rest) = a, both.operands
        elif op.name == "stablehlo.select":
            equal, rest, first = op.operands
        if first is None or equal is None or rest is None:
            return None
        head, same, tail = self._keys(first), equal.owner, self._keys(rest)
        if head is None or len(head) != 1 or tail is None:
            return None
        if same is None or same.name != "stablehlo.compare":
            return None
        found = self._compared(same)
        if found is None or found[1] != "EQ" or not _alike(found[0], head[0][0]):
            return None
        return head + tail

    def _compared(self, op: Operation) -> _Key | None:
        direction = str(op.attributes.get("comparison_direction"))
        kind = str(op.attributes.get("compare_type") or "NOTYPE")
        left, right = op.operands
        if self._of_side(left, 1) and self._of_side(right, 0):
            left, right = right, left
            direction = _FLIPPED.get(direction, direction)
        if not (self._of_side(left, 0) and self._of_side(right, 1)):
            return None
        return (left, direction, kind) if self._mirrored(left, right) else None

    def _of_side(self, value: Value, side: int) -> bool:
        if value in self._side:
            return self._side[value] == side
        op = value.owner
        return op is None or all(self._of_side(v, side) for v in op.operands)

    def _mirrored(self, left: Value, right: Value) -> bool:
        """Whether the right side computes of its arguments what the left one does."""
        if left in self._place or right in self._place:
            return self._place.get(left, -1) == self._place.get(right, -2)
        if left is right:
            return True
        a, b = left.owner, right.owner
        if a is None or b is None or a.name != b.name or a.regions or b.regions:
            return False
        if len(a.operands) != len(b.operands) or not _same(a.attributes, b.attributes):
            return False
        return all(self._mirrored(x, y) for x, y in zip(a.operands, b.operands, strict=True))


def _alike(left: Value, right: Value) -> bool:
    """Whether two values are computed in the same way from the same."""
    if left is right:
        return True
    a, b = left.owner, right.owner
    if a is None or b is None or a.name != b.name or a.regions or b.regions:
        return False
    if len(a.operands) != len(b.operands) or not _same(a.attributes, b.attributes):
        return False
    return all(_alike(x, y) for x, y in zip(a.operands, b.operands, strict=True))


def _same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(
        np.array_equal(left[k], right[k])
        if isinstance(left[k], np.ndarray)
        else left[k] == right[k]
        for k in left
    )


def _sort(site: Site) -> Any:
    operands = site.operands
    if not operands:
        raise site.error("nothing is sorted")
    rank = len(shape_of(operands[0]))
    axis = site.int("dimension", -1)
    axis = axis + rank if axis < 0 else axis
    if not 0 <= axis < rank:
        raise site.error(f"the dimension {axis} of operands of rank {rank}")
    if any(shape_of(x) != shape_of(operands[0]) for x in operands):
        raise site.error("the operands must be of one shape")
    block = site.block(0)
    if len(block.arguments) != 2 * len(operands):
        raise site.error("the comparator must take two values of each operand")
    if not len(site.block(0).terminator.operands) == 1:
        raise site.error("the comparator must return one boolean")
    keys = _Comparator(block).keys
    if keys is None:
        return _sort_by_count(site, axis)
    places = _plain(block, keys)
    if places is not None:
        order = places + [i for i in range(len(operands)) if i not in places]
        found = lax.sort([operands[i] for i in order], axis, num_keys=len(places))
        return [found[order.index(i)] for i in range(len(operands))]
    columns = [_column(site, key) for key in keys]
    found = lax.sort([*columns, *operands], axis, num_keys=len(columns))
    return list(found[len(columns) :])


def _plain(block: Block, keys: list[_Key]) -> list[int] | None:
    """The operands that are the keys, where the order is that of `lax.sort` itself."""
    out: list[int] = []
    for value, direction, kind in keys:
        source = _uncanonical(value) if kind == "TOTALORDER" else value
        if source not in block.arguments or direction != "LT":
            return None
        place = block.arguments.index(source) // 2
        floats = dtypes.is_float(source.type.dtype)
        if place in out or (floats and kind == "TOTALORDER" and source is value):
            return None
        out.append(place)
    return out


def _uncanonical(value: Value) -> Value:
    """What a float is that JAX makes one zero and one NaN of before it compares them."""
    op = value.owner
    seen = 0
    while op is not None and op.name == "stablehlo.select" and seen < 2:
        test = op.operands[0].owner
        if test is None or test.name != "stablehlo.compare":
            return value
        direction = test.attributes.get("comparison_direction")
        inner = op.operands[2]
        if direction == "EQ" and test.operands[0] is inner and _is_constant(op.operands[1]):
            value = inner
        elif direction == "NE" and test.operands[0] is test.operands[1]:
            value = inner
        else:
            return value
        op = value.owner
        seen += 1
    return value


def _is_constant(value: Value) -> bool:
    op = value.owner
    while op is not None and op.name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
        op = op.operands[0].owner
    return op is not None and op.name == "stablehlo.constant"


def _column(site: Site, key: _Key) -> Any:
    """A key for all elements at once, ascending and without special values."""
    value, direction, kind = key
    block = site.block(0)
    shape = shape_of(site.operands[0])
    scope = Scope(site.scope)
    for i, argument in enumerate(block.arguments):
        scope.set(argument, site.operands[i // 2])
    found = _computed(site, value, scope, shape)
    if shape_of(found) != shape:
        found = lax.broadcast(found, shape)
    dtype = dtype_of(found)
    if dtypes.is_float(dtype):
        if kind != "TOTALORDER":
            # One zero, and NaN behind all numbers in either direction.
            found = lax.select(
                lax.eq(found, lax.full_like(found, 0)), lax.full_like(found, 0), found
            )
        found = total_order(found)
    elif dtype == np.bool_:
        found = lax.convert_element_type(found, np.uint8)
    elif dtypes.is_complex(dtype):
        raise site.error("complex keys must be compared by their parts")
    return lax.bitwise_not(found) if direction == "GT" else found


def _computed(site: Site, value: Value, scope: Scope, shape: tuple[int, ...]) -> Any:
    """A value of the comparator on whole operands: its operations work element by element."""
    op = value.owner
    if value in site.block(0).arguments or op is None:
        return scope.get(value)
    if op.name == "stablehlo.constant":
        return np.broadcast_to(np.asarray(op.attributes.get("value")).reshape(()), shape)
    inner = [_computed(site, v, scope, shape) for v in op.operands]
    whole = [x if shape_of(x) == shape else lax.broadcast(x, shape) for x in inner]
    names = {v: x for v, x in zip(op.operands, whole, strict=True)}
    if op.name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
        return whole[0]
    local = Scope(scope)
    for v, x in names.items():
        local.set(v, x)
    results = [Value(_grown(v.type, shape)) for v in op.results]
    grown = Operation(op.name, op.operands, results, op.attributes, op.regions, op.location)
    return site.importer.evaluate(grown, local)[op.results.index(value)]


def _grown(type_: Any, shape: tuple[int, ...]) -> Any:
    return type(type_)(shape, type_.element)


def _sort_by_count(site: Site, axis: int) -> list[Any]:
    """A stable sort with any comparator: each element's place is how many come before it."""
    operands = [lax.transpose(x, _front(x, axis)) for x in site.operands]
    shape = shape_of(operands[0])
    count = shape[0]
    if count < 2:
        return list(site.operands)
    region = site.region(0)
    index = lax.broadcasted_iota(np.int32, shape, 0)

    def before(places: Any, x: Any) -> tuple[Any, None]:
        number, *values = x
        wide = [lax.broadcast_in_dim(v, shape, range(1, len(shape))) for v in values]
        first = _interleaved(region, wide, operands)
        second = _interleaved(region, operands, wide)
        equal = lax.bitwise_not(lax.bitwise_or(first, second))
        tie = lax.bitwise_and(equal, lax.gt(index, lax.broadcast(number, shape)))
        ahead = lax.bitwise_or(first, tie)
        return lax.add(places, lax.convert_element_type(ahead, np.int32)), None

    numbers = np.arange(count, dtype=np.int32)
    places, _ = lax.scan(before, lax.full(shape, 0, np.int32), (numbers, *operands))
    found = lax.sort([places, *operands], 0, num_keys=1)[1:]
    back = _back(len(shape), axis)
    return [lax.transpose(x, back) for x in found]


def _interleaved(region: Any, left: list[Any], right: list[Any]) -> Any:
    """The comparator on whole arrays."""
    flat = [x for pair in zip(left, right, strict=True) for x in pair]
    return over_elements(region, flat)[0]


def _front(x: Any, axis: int) -> tuple[int, ...]:
    return (axis, *(a for a in range(len(shape_of(x))) if a != axis))


def _back(rank: int, axis: int) -> tuple[int, ...]:
    order = [axis, *(a for a in range(rank) if a != axis)]
    return tuple(order.index(a) for a in range(rank))


RULES: dict[str, Rule] = {"stablehlo.sort": _sort}
