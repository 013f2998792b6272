"""StableHLO text for open sizes, made of the texts for several choices of them.

The texts differ in numbers only. A size in a type becomes `?`; operations that need the size as a
value (filled constants, broadcasts, counts, reshapes, slices) take their dynamic forms, with values
computed from the sizes of the function's arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from xpr.export.generalize import ADVICE, Fitter, SizeDependenceError, Terms
from xpr.export.open_lines import (
    Dim,
    OpenLine,
    OpenType,
    operation_of,
    refusal,
    unify_lines,
)
from xpr.export.open_values import OpenFunction

_ASSIGNMENT = re.compile(r'(\s*)(%[\w#]+) = "?(?:stablehlo|util)\.(\w+)"?\s?(.*)\Z')
_FUNCTION = re.compile(r"\s*func\.func (?:public|private) @\w+\(")
_CONSTANT = re.compile(r"dense<([^<>\"]*)> : ")
_BROADCAST = re.compile(
    r"\(?(%[\w#]+)(?:, dims = \[|\) <\{broadcast_dimensions = array<i64(?:: )?)([\d, ]*)[\]>]"
)
_SLICE = re.compile(r"(%[\w#]+) \[([^\]]*)\]")
_DYNAMIC_SLICE = re.compile(
    r"\(?(%[\w#]+), (%[^=)]+?)(?:, sizes = \[|\) <\{slice_sizes = array<i64: )([^\]>]*)[\]>]"
)
_DYNAMIC_UPDATE = re.compile(r"\(?(%[\w#]+), (%[\w#]+), (%[^=):]+?)\)? : ")
_GATHER = re.compile(
    r"(?P<operands>\([^)]*\)) <\{dimension_numbers = #stablehlo\.gather<"
    r"(?:offset_dims = (?P<offsets>\[[^\]]*\]), )?collapsed_slice_dims = (?P<dropped>\[[^\]]*\]), "
    r"(?:operand_batching_dims = \[\], start_indices_batching_dims = \[\], )?"
    r"start_index_map = (?P<map>\[[^\]]*\]), index_vector_dim = (?P<vector>\d+)>, "
    r"(?:indices_are_sorted = \w+, )?slice_sizes = array<i64: (?P<sizes>[^>]+)>"
)
_DOT = re.compile(
    r"(%[\w#]+), (%[\w#]+), (?:batching_dims = (\[[^\]]*\]) x (\[[^\]]*\]), )?"
    r"contracting_dims = (\[[^\]]*\]) x (\[[^\]]*\])([^:]*) : "
)
_WINDOWS = re.compile(
    r'"stablehlo\.reduce_window".*window_dimensions = array<i64: ([\d, ]+)>.*'
    r"padding = dense<(\[\[.*?\]\]|\d+)>"
)
_CONCATENATE = re.compile(r"(%[\w#]+(?:, %[\w#]+)*), dim = (\d+) : ")
_IOTA = re.compile(r"dim = (\d+)")
_LOCATION = re.compile(r'loc\("([^"]+)":(\d+)')
_HOLE = re.compile(r"⟦(\d+)⟧")


def general_text(texts: Sequence[str], fitter: Fitter, *, joins: bool = True) -> str:
    """The module for all sizes from those at the fitter's points.

    Without `joins`, arrays are joined along fixed axes by choices between padded ones.

    Raises SizeDependenceError, naming the operation, when an operation has no form for open sizes.
    """
    lines = [t.split("\n") for t in texts]
    if len({len(x) for x in lines}) != 1:
        raise _other_forms(lines)
    out: list[str] = []
    function: _Function | None = None
    for group in zip(*lines, strict=True):
        line = unify_lines(group, fitter)
        if _FUNCTION.match(line.text):
            out += function.finished() if function else []
            function = _Function(line, joins)
        elif function is None:
            out.append(line.text)
        else:
            function.add(line)
    return "\n".join(out + (function.finished() if function else []))


def _needs_constant(text: str) -> SizeDependenceError:
    return SizeDependenceError(
        f"{operation_of(text)} cannot be compiled for open sizes: it needs one as a constant. "
        + ADVICE
    )


def _other_forms(texts: Sequence[Sequence[str]]) -> SizeDependenceError:
    """The error for texts of different lengths: it names where they part."""
    where = ""
    for line, *others in zip(*texts, strict=False):
        found = operation_of(line)
        if any(operation_of(o) != found for o in others):
            source = _LOCATION.search(line)
            place = f", at {source[1]}:{source[2]}" if source else ""
            where = f", from {found} on{place}"
            break
    return SizeDependenceError(
        "the program is lowered in different ways for different open sizes" + where + ": an "
        f"operation takes another form for large arrays than for small ones. {ADVICE}"
    )


class _Function(OpenFunction):
    """A function whose operations take the forms that open sizes need."""

    def __init__(self, header: OpenLine, joins: bool) -> None:
        super().__init__(header)
        self._joins = joins
        self._spread: dict[str, tuple[str, OpenType, list[int]]] = {}

    def add(self, line: OpenLine) -> None:
        """Takes the next line of the function."""
        windows = _WINDOWS.search(line.text)
        if windows is not None:
            self._check_windows(windows[1], windows[2])
        match = _ASSIGNMENT.match(line.text)
        if line.same or match is None:
            self._plain(line)
            return
        indent, name, op, rest = match.groups()
        form = _FORMS.get(op)
        if form is None:
            self._plain(line)
        else:
            location = rest[rest.rindex(" loc(") :] if " loc(" in rest else ""
            self._body.append(f"{indent}{name} = {form(self, rest, line)}{location}")

    def _plain(self, line: OpenLine) -> None:
        if line.numbers:
            raise _needs_constant(line.text)
        self._body.append(line.text)

    def _check_windows(self, extents: str, padding: str) -> None:
        """Refuses the windows of a running sum: with open sizes they end IREE's process."""
        low = _integers(padding)[::2]
        if any(n > 1 and p == n - 1 for n, p in zip(_integers(extents), low, strict=False)):
            raise SizeDependenceError(
                "stablehlo.reduce_window, as running sums have it, cannot be compiled for open "
                f"sizes. {ADVICE}"
            )

    # ---- operations with a form of their own

    def constant(self, rest: str, line: OpenLine) -> str:
        (kind,) = line.types
        match = _CONSTANT.match(rest)
        if match is None:
            raise refusal([line.text])
        if match[1].startswith("["):
            return self._row([self._number(t, line) for t in match[1][1:-1].split(", ")], kind)
        hole = _HOLE.fullmatch(match[1])
        if hole is not None:
            scalar = self._scalar(line.numbers[int(hole[1])], kind.element)
        else:
            text = f"stablehlo.constant dense<{match[1]}> : tensor<{kind.element}>"
            scalar = self._define(text, text)
        if not kind.dims:
            return f"stablehlo.reshape {scalar} : ({kind}) -> {kind}"
        return self._broadcast(scalar, OpenType((), kind.element), [], kind)

    def _row(self, numbers: Sequence[Dim], kind: OpenType) -> str:
        """A tensor of rank 1 of these integers."""
        element = _without_sign(kind).element
        values = [
            self._here(f"arith.index_cast {self._value(n)} : index to {element}") for n in numbers
        ]
        plain = _without_sign(kind)
        return self._signed(f"tensor.from_elements {', '.join(values)} : {plain}", plain, kind)

    def _unspread(
        self, name: str, source: OpenType, places: Sequence[int]
    ) -> tuple[str, OpenType, list[int]]:
        """A broadcast of what is a broadcast itself, as one of the first operand.

        StableHLO joins two in a row, too, but forgets which dimensions are known to expand, and
        IREE cannot compile it without.
        """
        if name not in self._spread:
            return name, source, list(places)
        name, source, inner = self._spread[name]
        return name, source, [places[p] for p in inner]

    def _broadcast(self, name: str, source: OpenType, places: Sequence[int], kind: OpenType) -> str:
        name, source, places = self._unspread(name, source, places)
        spread = [i for i, p in enumerate(places) if source.dims[i] == 1 != kind.dims[p]]
        kept = [i for i, p in enumerate(places) if source.dims[i] == kind.dims[p]]
        known = ", ".join(
            f"known_{what}_dimensions = array<i64: {', '.join(map(str, axes))}>"
            for what, axes in (("expanding", spread), ("nonexpanding", kept))
            if axes
        )
        shape = self._vector(kind.dims)
        return (
            f"stablehlo.dynamic_broadcast_in_dim {name}, {shape}, dims = {places} "
            + (f"{{{known}}} " if known else "")
            + f": ({source}, tensor<{len(kind.dims)}xindex>) -> {kind}"
        )

    def broadcast_in_dim(self, rest: str, line: OpenLine) -> str:
        match, assigned = _BROADCAST.match(rest), _ASSIGNMENT.match(line.text)
        if match is None or assigned is None or line.numbers:
            raise refusal([line.text])
        (source, kind), places = line.types, _integers(match[2])
        kept = all(source.dims[i] == kind.dims[p] for i, p in enumerate(places))
        if kept and all(d == 1 for p, d in enumerate(kind.dims) if p not in places):
            return self.reshape(f"{match[1]} ", line)
        self._spread[assigned[2]] = self._unspread(match[1], source, places)
        return self._broadcast(match[1], source, places, kind)

    def iota(self, rest: str, line: OpenLine) -> str:
        match = _IOTA.match(rest)
        if match is None or line.numbers:
            raise refusal([line.text])
        (kind,) = line.types
        shape = f"tensor<{len(kind.dims)}xindex>"
        return (
            f"stablehlo.dynamic_iota {self._vector(kind.dims)}, dim = {match[1]} "
            f": ({shape}) -> {kind}"
        )

    def reshape(self, rest: str, line: OpenLine) -> str:
        source, kind = line.types
        operand = rest.split(" ", 1)[0].strip("()")
        name, plain = self._signless(operand, source)
        made = _without_sign(kind)
        return self._signed(self._reshaped(name, plain, made), made, kind)

    def _signless(self, name: str, kind: OpenType) -> tuple[str, OpenType]:
        """The value as integers without a sign: IREE moves no others where sizes are open."""
        plain = _without_sign(kind)
        if plain == kind:
            return name, kind
        return self._here(f"stablehlo.bitcast_convert {name} : ({kind}) -> {plain}"), plain

    def _signed(self, text: str, made: OpenType, kind: OpenType) -> str:
        """What the operation `text` makes, of the type that is wanted."""
        if made == kind:
            return text
        return f"stablehlo.bitcast_convert {self._here(text)} : ({made}) -> {kind}"

    def _reshaped(self, operand: str, source: OpenType, kind: OpenType) -> str:
        return (
            f"flow.tensor.reshape {operand} : {source}{self._open_dims(source)} -> "
            f"{kind}{self._open_dims(kind)}"
        )

    def optimization_barrier(self, rest: str, line: OpenLine) -> str:
        # IREE does not see through a barrier, and must be told the sizes of what comes out of it.
        kind, name = line.types[0], rest.partition(" :")[0].strip("()")
        if "," in name:
            raise refusal([line.text])
        name, made = self._signless(name, kind)
        barrier = self._here(f"util.optimization_barrier {name} : {made}")
        tied = f"flow.tensor.tie_shape {barrier} : {made}{self._open_dims(made)}"
        return self._signed(tied, made, kind)

    def concatenate(self, rest: str, line: OpenLine) -> str:
        match = _CONCATENATE.match(rest)
        if match is None or line.numbers:
            raise refusal([line.text])
        axis, names = int(match[2]), match[1].split(", ")
        *types, kind = line.types
        sizes = [t.dims[axis] for t in types]
        if self._joins or not all(isinstance(s, int) for s in sizes):
            return f"stablehlo.concatenate {rest.partition(' loc(')[0]}"
        found, start, total = "", 0, kind.dims[axis]
        for name, source, size in zip(names, types, sizes, strict=True):
            assert isinstance(size, int)
            assert isinstance(total, int)
            padded = self._padded(name, source, kind, axis, start, total - start - size)
            if found:
                chosen = self._from(start, kind, axis)
                mask = OpenType(kind.dims, "i1")
                found = self._here(f"stablehlo.select {chosen}, {padded}, {found} : {mask}, {kind}")
            found, start = found or padded, start + size
        return f"flow.tensor.tie_shape {found} : {kind}{self._open_dims(kind)}"

    def _padded(
        self, name: str, source: OpenType, kind: OpenType, axis: int, low: int, high: int
    ) -> str:
        """The array with zeros before and behind it along one axis."""
        none = [0] * len(kind.dims)
        before, behind = ([*none[:axis], n, *none[axis + 1 :]] for n in (low, high))
        scalar = f"tensor<{kind.element}>"
        zero = self._here(f"stablehlo.constant dense<{_zero(kind.element)}> : {scalar}")
        return self._here(
            f"stablehlo.pad {name}, {zero}, low = {before}, high = {behind}, interior = {none} : "
            f"({source}, {scalar}) -> {kind}"
        )

    def _from(self, start: int, kind: OpenType, axis: int) -> str:
        """Whether an element stands at `start` or behind it along an axis of fixed size."""
        row = OpenType((kind.dims[axis],), "i32")
        here = self._here(f"stablehlo.iota dim = 0 : {row}")
        first = self._here(f"stablehlo.constant dense<{start}> : {row}")
        flags = OpenType(row.dims, "i1")
        mask = self._here(
            f"stablehlo.compare GE, {here}, {first}, SIGNED : ({row}, {row}) -> {flags}"
        )
        return self._here(self._broadcast(mask, flags, [axis], OpenType(kind.dims, "i1")))

    def slice(self, rest: str, line: OpenLine) -> str:
        match = _SLICE.match(rest)
        if match is None:
            raise refusal([line.text])
        parts: list[list[Dim]] = []
        for entry in match[2].split(", "):
            numbers = [self._number(text, line) for text in entry.split(":")]
            parts.append([*numbers, 1][:3])
        source, kind = line.types
        vectors = [self._vector(v) for v in zip(*parts, strict=True)]
        shape = f"tensor<{len(parts)}xindex>"
        return (
            f"stablehlo.real_dynamic_slice {match[1]}, {', '.join(vectors)} "
            f": ({source}, {shape}, {shape}, {shape}) -> {kind}"
        )

    def _number(self, text: str, line: OpenLine) -> Dim:
        hole = _HOLE.fullmatch(text)
        return int(text) if hole is None else line.numbers[int(hole[1])].terms

    def dynamic_slice(self, rest: str, line: OpenLine) -> str:
        match = _DYNAMIC_SLICE.match(rest)
        if match is None:
            raise refusal([line.text])
        source, index, kind = line.types[0], line.types[1], line.types[-1]
        sizes = [self._number(text, line) for text in match[3].split(", ")]
        where = self._window(match[2].split(", "), index, source, sizes)
        (name, plain), part = self._signless(match[1], source), _without_sign(kind)
        return self._signed(f"tensor.extract_slice {name}{where} : {plain} to {part}", part, kind)

    def dynamic_update_slice(self, rest: str, line: OpenLine) -> str:
        match = _DYNAMIC_UPDATE.match(rest)
        if match is None or line.numbers:
            raise refusal([line.text])
        source, update, index = line.types[:3]
        where = self._window(match[3].split(", "), index, source, update.dims)
        new, part = self._signless(match[2], update)
        old, whole = self._signless(match[1], source)
        made = f"tensor.insert_slice {new} into {old}{where} : {part} into {whole}"
        return self._signed(made, whole, source)

    def _window(
        self, indices: Sequence[str], index: OpenType, source: OpenType, sizes: Sequence[Dim]
    ) -> str:
        """The place of a slice, moved to the edge where it would reach outside."""
        element = index.element.removeprefix("u")
        starts = []
        for start, size, extent in zip(indices, sizes, source.dims, strict=True):
            if index.element != element:
                start = self._here(
                    f"stablehlo.bitcast_convert {start} : ({index}) -> tensor<{element}>"
                )
            number = self._here(f"tensor.extract {start}[] : tensor<{element}>")
            number = self._here(f"arith.index_cast {number} : {element} to index")
            whole, part = self._value(extent), self._value(size)
            room = self._define(("-", whole, part), f"arith.subi {whole}, {part} : index")
            number = self._here(f"arith.minsi {number}, {room} : index")
            starts.append(self._here(f"arith.maxsi {number}, {self._index(0)} : index"))
        extents = ", ".join(str(d) if isinstance(d, int) else self._value(d) for d in sizes)
        return f"[{', '.join(starts)}] [{extents}] [{', '.join('1' for _ in sizes)}]"

    def dot_general(self, rest: str, line: OpenLine) -> str:
        """As a product of matrices: IREE makes one of it by a reshape that it cannot compile."""
        match = _DOT.match(rest)
        if match is None or line.numbers:
            raise refusal([line.text])
        left, right, kind = line.types
        batch = _integers(match[3] or ""), _integers(match[4] or "")
        contract = _integers(match[5]), _integers(match[6])
        free = tuple(
            [i for i in range(len(t.dims)) if i not in b and i not in c]
            for t, b, c in zip((left, right), batch, contract, strict=True)
        )
        if not all(free) or _product([left.dims[i] for i in contract[0]]) == 1:
            return self._by_broadcasts((match[1], match[2]), line.types, batch, free, contract)
        single = all(len(axes) == 1 for axes in (*contract, *free))
        if single and max(map(len, batch)) <= 1:
            return f"stablehlo.dot_general {rest.partition(' loc(')[0]}"
        a, a_type = self._matrix(match[1], left, [batch[0], free[0], contract[0]])
        b, b_type = self._matrix(match[2], right, [batch[1], contract[1], free[1]])
        first = 1 if batch[0] else 0
        product = OpenType((*a_type.dims[: first + 1], b_type.dims[-1]), kind.element)
        pairs = "batching_dims = [0] x [0], " if first else ""
        made = self._here(
            f"stablehlo.dot_general {a}, {b}, {pairs}contracting_dims = [{first + 1}] x [{first}]"
            f"{match[7]} : ({a_type}, {b_type}) -> {product}"
        )
        return self.reshape(f"{made} ", OpenLine("", [product, kind], []))

    def _by_broadcasts(
        self,
        names: Sequence[str],
        types: Sequence[OpenType],
        batch: Sequence[Sequence[int]],
        free: Sequence[Sequence[int]],
        contract: Sequence[Sequence[int]],
    ) -> str:
        """A product with a vector, or one that sums over nothing, as a sum of products.

        StableHLO would make reshapes of it that IREE cannot compile.
        """
        left, right, kind = types
        shared, own = len(batch[0]), (len(free[0]), len(free[1]))
        summed = [left.dims[i] for i in contract[0]]
        wide = OpenType((*kind.dims, *summed), kind.element)
        last = range(len(kind.dims), len(wide.dims))
        firsts = (shared, shared + own[0])
        terms = []
        for i, (name, source) in enumerate(zip(names, (left, right), strict=True)):
            order = [*batch[i], *free[i], *contract[i]]
            turned = OpenType(tuple(source.dims[k] for k in order), source.element)
            if order != sorted(order):
                name = self._here(
                    f"stablehlo.transpose {name}, dims = {order} : ({source}) -> {turned}"
                )
            if turned.element != kind.element:
                converted = OpenType(turned.dims, kind.element)
                name = self._here(f"stablehlo.convert {name} : ({turned}) -> {converted}")
                turned = converted
            places = [*range(shared), *range(firsts[i], firsts[i] + own[i]), *last]
            terms.append(self._here(self._broadcast(name, turned, places, wide)))
        if not summed:
            return f"stablehlo.multiply {terms[0]}, {terms[1]} : {kind}"
        product = self._here(f"stablehlo.multiply {terms[0]}, {terms[1]} : {wide}")
        scalar = f"tensor<{kind.element}>"
        start = self._here(f"stablehlo.constant dense<{_zero(kind.element)}> : {scalar}")
        return (
            f"stablehlo.reduce({product} init: {start}) applies stablehlo.add across dimensions = "
            f"{list(last)} : ({wide}, {scalar}) -> {kind}"
        )

    def _matrix(
        self, name: str, kind: OpenType, groups: Sequence[Sequence[int]]
    ) -> tuple[str, OpenType]:
        """An operand with each group of its axes made one; an empty first group is left out."""
        order = [i for group in groups for i in group]
        turned = OpenType(tuple(kind.dims[i] for i in order), kind.element)
        if order != sorted(order):
            name = self._here(f"stablehlo.transpose {name}, dims = {order} : ({kind}) -> {turned}")
        kept = groups if groups[0] else groups[1:]
        flat = OpenType(
            tuple(_product([kind.dims[i] for i in group]) for group in kept), kind.element
        )
        if flat.dims != turned.dims:
            name = self._here(self.reshape(f"{name} ", OpenLine("", [turned, flat], [])))
        return name, flat

    def gather(self, rest: str, line: OpenLine) -> str:
        match = _GATHER.match(rest)
        if match is None:
            self._plain(line)  # refuses, or leaves a form that IREE takes as it is
            return self._body.pop().partition(" = ")[2].partition(" loc(")[0]
        if line.numbers:
            return self._selected(match, line)
        operand, indices, kind = line.types
        offsets, dropped = (_integers(match[k] or "") for k in ("offsets", "dropped"))
        batch = len(kind.dims) - len(offsets)
        if not dropped or offsets != list(range(batch, len(kind.dims))):
            return '"stablehlo.gather"' + rest.partition(" loc(")[0]
        # IREE drops axes of open results by a reshape that it cannot compile; so do it for it.
        sizes = _integers(match["sizes"])
        whole = OpenType((*kind.dims[:batch], *sizes), kind.element)
        places = ", ".join(str(batch + i) for i in range(len(sizes)))
        gathered = self._here(
            f'"stablehlo.gather"{match["operands"]} <{{dimension_numbers = #stablehlo.gather<'
            f"offset_dims = [{places}], start_index_map = {match['map']}, "
            f"index_vector_dim = {match['vector']}>, slice_sizes = array<i64: {match['sizes']}>}}> "
            f": ({operand}, {indices}) -> {whole}"
        )
        return self.reshape(f"{gathered} ", OpenLine("", [whole, kind], []))

    def _selected(self, match: re.Match[str], line: OpenLine) -> str:
        """A gather of whole slices of open size, at positions along one axis."""
        source, indices, kind = line.types
        sizes = [self._number(text, line) for text in match["sizes"].split(", ")]
        axes, offsets, dropped = (_integers(match[k] or "") for k in ("map", "offsets", "dropped"))
        (axis, *more), last = axes, int(match["vector"]) == len(indices.dims) - 1
        others = [i for i in range(len(source.dims)) if i != axis]
        if more or dropped != axes or not last or any(sizes[i] != source.dims[i] for i in others):
            raise _needs_constant(line.text)
        operand, index = match["operands"].strip("()").split(", ")
        flat = OpenType(indices.dims[:-1], indices.element)
        index = self._here(self.reshape(f"{index} ", OpenLine("", [indices, flat], [])))
        batch = [i for i in range(len(kind.dims)) if i not in offsets]
        order = [*offsets[:axis], *batch, *offsets[axis:]]
        found = OpenType(tuple(kind.dims[i] for i in order), kind.element)
        text = (
            f'"stablehlo.torch_index_select"({operand}, {index}) '
            f"<{{dim = {axis} : i64, batch_dims = 0 : i64}}> : ({source}, {flat}) -> {found}"
        )
        if order == sorted(order):
            return text
        back = sorted(range(len(order)), key=order.__getitem__)
        made = self._here(text)
        return f"stablehlo.transpose {made}, dims = {back} : ({found}) -> {kind}"


def _product(dims: Sequence[Dim]) -> Dim:
    """The product of some extents."""
    total: Terms = {(): 1}
    for dim in dims:
        factors = {(): dim} if isinstance(dim, int) else dim
        result: Terms = {}
        for m, a in total.items():
            for n, b in factors.items():
                key = tuple(sorted(m + n))
                result[key] = result.get(key, 0) + a * b
        total = result
    return total.get((), 0) if not any(total) else total


def _zero(element: str) -> str:
    """Zero, as constants of an element type have it."""
    if element == "i1":
        return "false"
    return {"b": "0.0", "f": "0.0", "c": "(0.0, 0.0)"}.get(element[0], "0")


def _without_sign(kind: OpenType) -> OpenType:
    return OpenType(kind.dims, kind.element.removeprefix("u"))


def _integers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]


_FORMS: dict[str, Callable[[_Function, str, OpenLine], str]] = {
    "broadcast_in_dim": _Function.broadcast_in_dim,
    "concatenate": _Function.concatenate,
    "constant": _Function.constant,
    "dot_general": _Function.dot_general,
    "dynamic_slice": _Function.dynamic_slice,
    "dynamic_update_slice": _Function.dynamic_update_slice,
    "gather": _Function.gather,
    "iota": _Function.iota,
    "optimization_barrier": _Function.optimization_barrier,
    "reshape": _Function.reshape,
    "slice": _Function.slice,
}
"""The operations that a type with an open size is not enough for."""
