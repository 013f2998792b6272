"""Values that IREE may compute in the dispatch that uses them, and how they are read there.

IREE puts a fold or a product into the dispatch of the elementwise operations that use it. Where
those read it in two ways, as `s[:, None] - s[None, :]` does, the dispatch computes the elements
that one of the ways reads, and takes them for the other, too: the numbers are wrong, without a word
(the hazard "producers read in two ways" in docs/hazards.md). Such producers get a barrier when the
second way of reading is written.

Equal operations become one in the compiler, so that producers of one type count as one here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from xpr.lowering.emitter import Emitter
    from xpr.lowering.ir.graph import Op
    from xpr.lowering.value import Shape, Value

Way = tuple[object, ...]
"""For each axis of a value the axis of the producer that it runs along, -1 for none. What is no
such arrangement is a tuple of what was done instead."""

Reads = dict[str, dict[Way, frozenset["Producer"]]]
"""By the producers' type, the ways in which a value reads them, element by element."""

NO_READS: Reads = {}


class Producer(Protocol):
    """What gives a value that is perhaps computed where it is used."""

    home: Emitter
    """The builder whose operations may be fused with it."""

    def hold(self) -> None:
        """Has it computed on its own."""
        ...


class _Operation:
    """An operation of a function or a region."""

    def __init__(self, home: Emitter, op: Op) -> None:
        self.home = home
        self._op = op
        self._is_held = False

    def hold(self) -> None:
        if not self._is_held:
            self._is_held = True
            self.home.hold(self._op)


class Parameter:
    """An argument of a function that may be inlined: its caller holds what it stands for."""

    def __init__(self, home: Emitter) -> None:
        self.home = home
        self.is_held = False

    def hold(self) -> None:
        self.is_held = True


class _Result:
    """What a call gives: a producer inside of the called function."""

    def __init__(self, home: Emitter, inner: Producer) -> None:
        self.home = home
        self.hold = inner.hold


def _read_as_is(producer: Producer, shape: Shape, kind: str) -> Reads:
    way = tuple(-1 if size == 1 else i for i, size in enumerate(shape))
    return {kind: {way: frozenset((producer,))}} if any(i != -1 for i in way) else NO_READS


def note_operation(home: Emitter, values: Sequence[Value]) -> None:
    """Notes that an operation that IREE may fuse gives these values.

    What lies inside of a dispatch has no producers.
    """
    op = values[0].op
    if op is None or not home.makes_dispatches:
        return
    producer = _Operation(home, op)
    for v in values:
        v.reads = _read_as_is(producer, v.shape, v.type)


def note_parameters(home: Emitter, values: Sequence[Value]) -> list[Parameter]:
    """Notes that these values are the arguments of a function that may be inlined."""
    found = [Parameter(home) for _ in values]
    for parameter, v in zip(found, values, strict=True):
        v.reads = _read_as_is(parameter, v.shape, v.type)
    return found


def joined(home: Emitter, operands: Iterable[Value]) -> Reads:
    """What an elementwise operation reads; holds what it would read in two ways."""
    found = NO_READS
    for v in operands:
        reads = v.reads
        if reads is found or not reads:
            continue
        if not found:
            found = reads
            continue
        merged = dict(found)
        for kind, ways in reads.items():
            before = merged.get(kind)
            merged[kind] = ways if before is None else _united(before, ways)
        found = merged
    if any(len(ways) > 1 for ways in found.values()):
        found = _one_way_each(home, found)
    if found and not home.target.spreads_folds:
        _hold_spread(home, found)
    return found


def _hold_spread(home: Emitter, reads: Reads) -> None:
    """Holds what is spread along a leading axis, as `s[None, :]` is.

    IREE's code generator for SPIR-V does not get through with a fold of rows and such an operation
    in one dispatch; for integers of 8 bits it ends the process.
    """
    for ways in reads.values():
        for way, producers in ways.items():
            if way and way[0] == -1:
                _hold(home, producers)


def _hold(home: Emitter, producers: Iterable[Producer]) -> None:
    """Holds those that may be fused; what lies around a region was computed before it."""
    for producer in producers:
        if producer.home is home:
            producer.hold()


def _united(
    a: dict[Way, frozenset[Producer]], b: dict[Way, frozenset[Producer]]
) -> dict[Way, frozenset[Producer]]:
    if a is b:
        return a
    out = dict(a)
    for way, producers in b.items():
        out[way] = out.get(way, frozenset()) | producers
    return out


def _one_way_each(home: Emitter, reads: Reads) -> Reads:
    out = {}
    for kind, ways in reads.items():
        if sum(any(p.home is home for p in producers) for producers in ways.values()) > 1:
            for producers in ways.values():
                _hold(home, producers)
        else:
            out[kind] = ways
    return out


def held(home: Emitter, operands: Iterable[Value]) -> None:
    """Holds all producers that the operands read."""
    for v in operands:
        for ways in v.reads.values():
            for producers in ways.values():
                _hold(home, producers)


def share(a: Value, b: Value) -> bool:
    """Whether two values read producers of one type."""
    return not a.reads.keys().isdisjoint(b.reads)


# ---- arrangements


def _moved(reads: Reads, move: Callable[[Way], Way]) -> Reads:
    return {
        kind: {move(way): producers for way, producers in ways.items()}
        for kind, ways in reads.items()
    }


def broadcast(reads: Reads, old: Shape, new: Shape, dims: Sequence[int]) -> Reads:
    """What `broadcast_in_dim` from shape `old` to shape `new` reads."""
    source = {d: i for i, d in enumerate(dims) if old[i] == new[d]}

    def move(way: Way) -> Way:
        if not _is_plain(way):
            return ("broadcast", tuple(dims), new, way)
        return tuple(way[source[d]] if d in source else -1 for d in range(len(new)))

    return _moved(reads, move)


def transposed(reads: Reads, permutation: Sequence[int]) -> Reads:
    """What `transpose` reads."""

    def move(way: Way) -> Way:
        if not _is_plain(way):
            return ("transpose", tuple(permutation), way)
        return tuple(way[i] for i in permutation)

    return _moved(reads, move)


def reshaped(reads: Reads, old: Shape, new: Shape) -> Reads:
    """What `reshape` from shape `old` to shape `new` reads."""
    axes = [i for i, size in enumerate(old) if size != 1]
    unit_axes_only = [old[i] for i in axes] == [size for size in new if size != 1]

    def move(way: Way) -> Way:
        if not unit_axes_only or not _is_plain(way):
            return ("reshape", new, way)
        kept = iter(axes)
        return tuple(-1 if size == 1 else way[next(kept)] for size in new)

    return _moved(reads, move)


def _is_plain(way: Way) -> bool:
    return not way or isinstance(way[0], int)


# ---- calls


def of_call(
    home: Emitter, operands: Sequence[Value], parameters: Sequence[Parameter], result: Value
) -> Reads:
    """What a result of a called function reads, once it is inlined.

    `result.reads` tells it in the function's own terms.
    """
    by_parameter = dict(zip(parameters, operands, strict=True))
    out: Reads = {}

    def add(kind: str, way: Way, producers: frozenset[Producer]) -> None:
        ways = out.setdefault(kind, {})
        ways[way] = ways.get(way, frozenset()) | producers

    for kind, ways in result.reads.items():
        for way, producers in ways.items():
            for producer in producers:
                operand = by_parameter.get(producer) if isinstance(producer, Parameter) else None
                if operand is None:
                    add(kind, way, frozenset((_Result(home, producer),)))
                    continue
                for own_kind, own_ways in operand.reads.items():
                    for own_way, own in own_ways.items():
                        add(own_kind, _composed(own_way, way), own)
    return out


def _composed(inner: Way, outer: Way) -> Way:
    if _is_plain(inner) and _is_plain(outer):
        return tuple(inner[i] if isinstance(i, int) and i >= 0 else -1 for i in outer)
    return ("then", inner, outer)
