"""Straight-line programs in fewer passes over memory.

IREE makes a pass over memory of each pad and each concatenation: the gradient of a stencil is as
many padded arrays, which are added in one pass more. Here the equations that lead from arrays to
a result by pads, concatenations, slices, reversals (of which IREE makes loops without vectors) and
operations on elements become one, `one_pass`, that is compiled as one nest of loops, which is cut
where pads begin and end (`loops/memory`).

What would be computed at several places is computed at each of them, as long as that is little;
else it is stored, and read by the passes that need it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Var
from xpr.core.primitive import Primitive, registry
from xpr.lowering.loops.memory.costs import cost_of_operation
from xpr.primitives import ELEMENTWISE_FAMILIES

one_pass_p: Final = Primitive("one_pass", "loops", multiple_results=True)
"""Its parameter `jaxpr` is the program; only the lowering makes equations of it."""

# Smaller results are not worth a dispatch of their own.
_LEAST_BYTES = 1 << 10
# Operations on an element that may be done again for each place that reads it,
_MAX_AGAIN = 12
# and all that may lead to one element.
_MAX_COST = 100
_MAX_OPERANDS = 24
_MAX_JOINED = 8
# Each place that reads a pad cuts the loops again where that begins and ends; so many may, and so
# many where much is computed in each part.
_MOST_READERS, _MOST_READERS_FOR_MUCH = 25, 9
# Rows of so few elements are copied slowly.
_SHORT_ROW = 16

_JOINING = frozenset(("pad", "concatenate", "stack"))
_MOVING = _JOINING | {"slice", "rev"}
# What is computed of so many windows of arrays, as in stencils and filters, is a pass of its own.
# IREE's is one, too, which takes a third as long again (stencils of a million elements; none at
# all in one dimension), and compiles in nine tenths of the time.
_LEAST_WINDOWS = 4
_LEAST_WINDOWS_BYTES = 1 << 14
_MAX_WINDOWS_COST = 3000
_DTYPES = frozenset(map(np.dtype, ("f4", "f8", "i4", "i8", "u4", "u8")))


def in_few_passes(jaxpr: Jaxpr, *, is_whole: bool = False) -> Jaxpr:
    """The same program with `one_pass` for what IREE would make several passes of.

    `is_whole` says that it is all of a program, so that nothing else reads its results.
    """
    names = [e.primitive.name for e in jaxpr.eqns]
    joins = any(name in _JOINING or name == "rev" for name in names)
    has_windows = is_whole and names.count("slice") >= _LEAST_WINDOWS
    if not (joins or has_windows):
        return jaxpr
    found = _Groups(jaxpr)
    groups = found.found()
    if has_windows:
        groups |= found.of_windows(groups)
    if not groups:
        return jaxpr
    eqns: list[JaxprEqn] = []
    needed: set[Atom] = {v for v in jaxpr.outvars if isinstance(v, Var)}
    for eqn in reversed(jaxpr.eqns):
        group = groups.get(id(eqn))
        kept = eqn if group is None else _equation(eqn, group)
        if kept.effects or any(v in needed for v in kept.outvars):
            eqns.append(kept)
            needed.update(v for v in kept.invars if isinstance(v, Var))
    return jaxpr.replace(eqns=eqns[::-1])


def _equation(root: JaxprEqn, group: Sequence[JaxprEqn]) -> JaxprEqn:
    """The equation that computes the results of `root` by the equations of its group."""
    return one_pass_equation(root, group, root.outvars)


def one_pass_equation(at: JaxprEqn, group: Sequence[JaxprEqn], results: Sequence[Var]) -> JaxprEqn:
    """The equation, told to come from the place of `at`, that computes `results` by a group."""
    read = read_from_outside(group)
    inner = Jaxpr([], read, list(results), list(group))
    return at.replace(
        primitive=one_pass_p,
        invars=read,
        outvars=list(results),
        params={"jaxpr": ClosedJaxpr(inner, ())},
    )


def read_from_outside(eqns: Sequence[JaxprEqn]) -> list[Var]:
    """The variables that equations read and do not make, each once, in the order of their use."""
    made = {v for e in eqns for v in e.outvars}
    read = (a for e in eqns for a in e.invars if isinstance(a, Var) and a not in made)
    return list(dict.fromkeys(read))


class _Groups:
    """What becomes of the variables of a program."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self._jaxpr = jaxpr
        self._results = dict.fromkeys(v for v in jaxpr.outvars if isinstance(v, Var))
        self._given = {*jaxpr.constvars, *jaxpr.invars}
        self._maker = {e.outvars[0]: e for e in jaxpr.eqns if _is_taken(e)}
        self._users: dict[Var, list[JaxprEqn]] = {}
        for eqn in jaxpr.eqns:
            for v in dict.fromkeys(a for a in eqn.invars if isinstance(a, Var)):
                self._users.setdefault(v, []).append(eqn)
        # How many operations lead to an element of what is computed where it is read,
        self._inner: dict[Var, int] = {}
        # and how many pads, concatenations and reversals.
        self._joins: dict[Var, int] = {}
        # What is stored.
        self._stored: dict[Var, JaxprEqn] = {}
        work = sum(map(_cost_in_pass, self._maker.values()))
        self._most_readers = _MOST_READERS_FOR_MUCH if work > _MAX_COST else _MOST_READERS
        for eqn in self._maker.values():
            self._note(eqn)

    def _note(self, eqn: JaxprEqn) -> None:
        (out,) = eqn.outvars
        moves = eqn.primitive.name in _MOVING
        users = self._users.get(out, ())
        taken = [e for e in users if self._maker.get(e.outvars[0]) is e]
        is_read_elsewhere = len(taken) < len(users) or out in self._results
        places = sum(e.primitive.name in _MOVING for e in taken)
        places += (len(taken) > places) + is_read_elsewhere
        reads = [v for v in eqn.invars if isinstance(v, Var) and v in self._inner]
        if moves:
            # Instead of what moves elements it is better to store them where they are.
            for v in reads:
                if self._inner[v] * (places - 1) > _MAX_AGAIN:
                    self._store(v)
            reads = [v for v in reads if v in self._inner]
        costs = [self._inner[v] for v in reads]
        # Of what a pad or a concatenation reads only one is computed for each element.
        is_join = eqn.primitive.name in _JOINING
        cost = max(costs, default=0) if is_join else sum(costs)
        cost += _cost_in_pass(eqn)
        is_costly = is_join or eqn.primitive.name == "rev"
        joins = self._joins[out] = sum(self._joins[v] for v in reads) + is_costly
        spreads = any(e.primitive.name == "broadcast_in_dim" for e in taken)
        if (
            taken
            and cost <= _MAX_COST
            and cost * (places - 1) <= _MAX_AGAIN
            and not (spreads and cost and out.aval.size > 1)
            and not (joins and (is_read_elsewhere or places > self._most_readers))
            and out not in self._results
        ):
            self._inner[out] = cost
        if out not in self._inner or is_read_elsewhere:
            self._stored[out] = eqn

    def _store(self, x: Var) -> None:
        del self._inner[x]
        self._stored[x] = self._maker[x]

    def found(self) -> dict[int, list[JaxprEqn]]:
        """The equations of each pass, by the identity of the last of them."""
        groups: dict[int, list[JaxprEqn]] = {}
        for root in self._stored.values():
            if self._pays(root):
                group = self._leading_to(root)
                if _can_be_read(group):
                    groups[id(root)] = group
        return groups

    def of_windows(self, joined: Mapping[int, Sequence[JaxprEqn]]) -> dict[int, list[JaxprEqn]]:
        """The equations of results that are computed of windows of arrays, and of nothing else."""
        groups: dict[int, list[JaxprEqn]] = {}
        for out in self._results:
            root = self._maker.get(out)
            if root is None or id(root) in joined or root.primitive.name in _MOVING:
                continue
            group = self._of_windows(root)
            if group is not None:
                groups[id(root)] = group
        return groups

    def _of_windows(self, root: JaxprEqn) -> list[JaxprEqn] | None:
        (out,) = root.outvars
        if out.aval.nbytes < _LEAST_WINDOWS_BYTES or out.aval.dtype not in _DTYPES:
            return None
        found: dict[int, JaxprEqn] = {}
        left = [root]
        while left:
            eqn = left.pop()
            if id(eqn) in found:
                continue
            found[id(eqn)] = eqn
            for v in eqn.invars:
                maker = self._maker.get(v) if isinstance(v, Var) else None
                if maker is not None and maker.primitive.name not in _JOINING:
                    left.append(maker)
                elif isinstance(v, Var) and maker is None and v not in self._given:
                    return None
        # Nothing is computed for more than one place that reads it, and nothing is read elsewhere.
        for eqn in found.values():
            (v,) = eqn.outvars
            users = self._users.get(v, ())
            if any(id(e) not in found for e in users) or (v in self._results and v is not out):
                return None
            moves = [e.primitive.name in ("slice", "broadcast_in_dim") for e in users]
            is_moved_itself = eqn.primitive.name in ("slice", "broadcast_in_dim", "reshape")
            if any(moves) and not is_moved_itself:
                return None
        group = [e for e in self._jaxpr.eqns if id(e) in found]
        windows = sum(e.primitive.name == "slice" for e in group)
        cost = sum(_cost_in_pass(e) for e in group)
        if windows < _LEAST_WINDOWS or cost > _MAX_WINDOWS_COST or not _can_be_read(group):
            return None
        return group

    def _pays(self, root: JaxprEqn) -> bool:
        (out,) = root.outvars
        if out.aval.nbytes < _LEAST_BYTES or out.aval.dtype not in _DTYPES:
            return False
        if self._makes_index_vectors(root):
            return False
        # IREE reverses element by element.
        if _interleaves(root) or root.primitive.name == "rev":
            return True
        # Where another operation reads it, that one would be in the same pass as what adds pads.
        spared = self._joins[out] - (root.primitive.name in _JOINING)
        return spared > (out not in self._results)

    def _makes_index_vectors(self, root: JaxprEqn) -> bool:
        """Whether indices are joined that gathers and scatters take apart again."""
        (out,) = root.outvars
        users = self._users.get(out, ())
        return (
            root.primitive.name == "concatenate"
            and out not in self._results
            and all(a.aval.shape[-1] == 1 for a in root.invars)
            and root.params["dimension"] == out.aval.ndim - 1
            and all(
                e.primitive.name.startswith(("gather", "scatter"))
                and e.invars[1] is out
                and out not in (e.invars[0], *e.invars[2:])
                for e in users
            )
        )

    def _leading_to(self, root: JaxprEqn) -> list[JaxprEqn]:
        found: dict[int, JaxprEqn] = {}
        left = [root]
        while left:
            eqn = left.pop()
            if id(eqn) in found:
                continue
            found[id(eqn)] = eqn
            left += [self._maker[v] for v in eqn.invars if isinstance(v, Var) and v in self._inner]
        return [e for e in self._jaxpr.eqns if id(e) in found]


def _cost_in_pass(eqn: JaxprEqn) -> int:
    return 0 if eqn.primitive.name in _MOVING else cost_of_operation(eqn.primitive)


def _interleaves(eqn: JaxprEqn) -> bool:
    """Whether a few elements of one array follow a few of another, which IREE copies one by one."""
    name, params = eqn.primitive.name, eqn.params
    if name == "stack":
        axis, rows = params["axis"], [1]
    elif name == "concatenate":
        axis = params["dimension"]
        rows = [a.aval.shape[axis] for a in eqn.invars]
    else:
        return False
    shape = eqn.outvars[0].aval.shape
    return min(rows) * math.prod(shape[axis + 1 :]) < _SHORT_ROW and math.prod(shape[:axis]) > 1


def _can_be_read(group: Sequence[JaxprEqn]) -> bool:
    """Whether all that a pass reads is of types that it reads without copies."""
    read = read_from_outside(group)
    return len(read) <= _MAX_OPERANDS and all(v.aval.dtype in _DTYPES for v in read)


def _is_taken(eqn: JaxprEqn) -> bool:
    """Whether the emitter of loops computes an equation element by element."""
    primitive = eqn.primitive
    if eqn.effects or len(eqn.outvars) != 1 or registry.get(primitive.name) is not primitive:
        return False
    avals = [a.aval for a in (*eqn.invars, *eqn.outvars)]
    if not all(a.size and (a.dtype in _DTYPES or a.dtype == bool) for a in avals):
        return False
    name, params = primitive.name, eqn.params
    if name == "slice":
        return all(s == 1 for s in params["strides"] or ())
    if name == "pad":
        return all(gap == 0 for _, _, gap in params["padding_config"])
    if name in ("concatenate", "stack"):
        return len(avals) <= _MAX_JOINED + 1
    if name in ("reshape", "squeeze"):
        old, new = ([n for n in a.shape if n != 1] for a in avals)
        return (old == new and params.get("dimensions") is None) or name == "squeeze"
    return name in ("broadcast_in_dim", "rev") or primitive.family in ELEMENTWISE_FAMILIES
