"""Where a program's arrays lie: in the memory of a result, or in the workspace.

The parts of an allocation that are used together are a region. A region that is copied to a result
as a whole takes the result's memory, and the copy is left out. The others share the workspace, as
long as they are not in use at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xpr.lowering.no_runtime.program import (
    Address,
    Allocate,
    Base,
    Copy,
    Jump,
    Load,
    Place,
    Program,
    Range,
    Site,
    Statement,
    Terminator,
    places_of,
    ranges_of,
    with_jumps,
    with_ranges,
)

ALIGNMENT = 64


def aligned(size: int) -> int:
    """The size, up to the next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass
class _Region:
    site: int
    low: int
    high: int
    first: int
    last: int
    whole_program: bool = False
    new: Base | None = None
    """The place that it takes: of a result, or of a site of its own."""
    copies: list[tuple[int, int]] = field(default_factory=list)
    """The results that it is copied to as a whole, with the numbers of the steps."""


def _fixed(place: Place) -> tuple[int, int] | None:
    """The allocation that a place is in, and the offset there, if both are known."""
    base, offset = place.base, place.offset
    if isinstance(base, Base) and base.kind == "site" and isinstance(offset, int):
        return base.number, offset
    return None


def _loops(program: Program, starts: list[int]) -> list[tuple[int, int]]:
    """The steps of each loop, from its head to the block that leads back."""
    ends = [*starts[1:], starts[-1] + len(program.blocks[-1].statements) + 1]
    return [
        (starts[j.block], ends[i])
        for i, b in enumerate(program.blocks)
        for j in b.jumps()
        if j.block <= i
    ]


class _Planner:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._starts: list[int] = []
        at = 0
        for block in program.blocks:
            self._starts.append(at)
            at += len(block.statements) + 1
        self._steps = at
        self._regions: list[_Region] = []

    def plan(self) -> Program:
        self._find_regions()
        self._give_results()
        self._rewrite()
        self._pack()
        return self._program

    def _numbered(self) -> list[tuple[int, Statement]]:
        return [
            (start + k, s)
            for start, b in zip(self._starts, self._program.blocks, strict=True)
            for k, s in enumerate(b.statements)
        ]

    def _opaque_sites(self) -> set[int]:
        """The allocations that are used at places that are not known."""
        found = {i for i, site in enumerate(self._program.sites) if site.slots > 1}
        places = [v for b in self._program.blocks for j in b.jumps() for v in j.values]
        for statement in self._program.statements():
            if not ranges_of(statement):
                places += places_of(statement)
            for r in ranges_of(statement):
                if not isinstance(r.length, int) or not isinstance(r.place.offset, int):
                    places.append(r.place)
        for place in places:
            if isinstance(place, Place) and isinstance(place.base, Base):
                found |= {place.base.number} if place.base.kind == "site" else set()
        return found

    def _find_regions(self) -> None:
        opaque = self._opaque_sites()
        pieces = [
            _Region(i, 0, site.size, 0, self._steps, whole_program=True)
            for i, site in enumerate(self._program.sites)
            if i in opaque
        ]
        for step, statement in self._numbered():
            for r in ranges_of(statement):
                found = _fixed(r.place)
                if found is None or found[0] in opaque or not isinstance(r.length, int):
                    continue
                number, offset = found
                low = offset // ALIGNMENT * ALIGNMENT
                pieces.append(_Region(number, low, offset + max(r.length, 1), step, step))
        pieces.sort(key=lambda p: (p.site, p.low))
        for piece in pieces:
            last = self._regions[-1] if self._regions else None
            if last is not None and last.site == piece.site and piece.low < aligned(last.high):
                last.high = max(last.high, piece.high)
                last.first, last.last = min(last.first, piece.first), max(last.last, piece.last)
            else:
                self._regions.append(piece)
        self._stretch_over_loops()

    def _stretch_over_loops(self) -> None:
        loops = _loops(self._program, self._starts)
        changed = True
        while changed:
            changed = False
            for region in self._regions:
                for begin, end in loops:
                    touches = region.first < end and region.last >= begin
                    if touches and not (region.first <= begin and region.last >= end):
                        region.first, region.last = min(region.first, begin), max(region.last, end)
                        changed = True

    def _region_of(self, place: Place) -> _Region | None:
        found = _fixed(place)
        if found is None:
            return None
        site, offset = found
        return next((r for r in self._regions if r.site == site and r.low <= offset < r.high), None)

    def _give_results(self) -> None:
        targets: dict[int, int] = {}
        for step, s in self._numbered():
            target = s.target.place.base if isinstance(s, Copy) else None
            if not isinstance(s, Copy) or not isinstance(target, Base) or target.kind != "result":
                continue
            targets[target.number] = targets.get(target.number, 0) + 1
            region = self._region_of(s.source.place)
            if region is None or region.whole_program:
                continue
            if s.source.place.offset == region.low and s.source.length == region.high - region.low:
                region.copies.append((target.number, step))
        for region in self._regions:
            for number, _ in region.copies[:1]:
                if targets[number] == 1:
                    region.new = Base("result", number)

    def _rewrite(self) -> None:
        sites: list[Site] = []
        for region in self._regions:
            if region.new is None:
                old = self._program.sites[region.site]
                region.new = Base("site", len(sites))
                sites.append(Site(old.size if region.whole_program else region.high - region.low))
                sites[-1].slots = old.slots
        moved = {r.site: r.new.number for r in self._regions if r.whole_program and r.new}

        def place(p: Place) -> Place:
            region = self._region_of(p)
            if region is not None and region.new is not None and isinstance(p.offset, int):
                return Place(region.new, p.offset - region.low)
            if isinstance(p.base, Base) and p.base.kind == "site":
                return Place(Base("site", moved[p.base.number]), p.offset)
            return p

        for block in self._program.blocks:
            made: list[Statement] = []
            for s in block.statements:
                ranges = ranges_of(s)
                if ranges:
                    s = with_ranges(s, [Range(place(r.place), r.length) for r in ranges])
                    if isinstance(s, Copy) and s.source.place == s.target.place:
                        continue
                elif isinstance(s, Allocate):
                    s = Allocate(s.target, moved[s.site], tuple(place(p) for p in s.occupied))
                else:
                    s = _statement_at(s, place)
                made.append(s)
            block.statements = made
            block.end = _moved_end(block.end, place)
        self._program.sites = sites

    def _pack(self) -> None:
        """Gives each site the first gap that is free while it is in use."""
        placed: list[tuple[_Region, Site]] = []
        for region in self._regions:
            if region.new is None or region.new.kind != "site":
                continue
            site, at = self._program.sites[region.new.number], 0
            size = aligned(site.size) * site.slots
            for other, there in sorted(placed, key=lambda p: p[1].offset):
                if other.last < region.first or region.last < other.first:
                    continue
                if at + size <= there.offset:
                    break
                at = max(at, there.offset + aligned(there.size) * there.slots)
            site.offset = at
            placed.append((region, site))
            self._program.workspace = max(self._program.workspace, at + size)


def _statement_at(s: Statement, place: Callable[[Place], Place]) -> Statement:
    """The statement at other places, for one without ranges."""
    if isinstance(s, Address):
        return Address(s.target, place(s.place))
    return Load(s.target, place(s.place), s.bytes) if isinstance(s, Load) else s


def _moved_end(end: Terminator, place: Callable[[Place], Place]) -> Terminator:
    def moved(jump: Jump) -> Jump:
        values = tuple(place(v) if isinstance(v, Place) else v for v in jump.values)
        return Jump(jump.block, values)

    return with_jumps(end, moved)


def planned(program: Program) -> Program:
    """The program with places for all its arrays, and the bytes of workspace that it needs."""
    return _Planner(program).plan()
