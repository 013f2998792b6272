"""Partitioning: from the program of whole arrays to the program that each device runs.

The flattened program is walked equation by equation, under a trace that records what one device
does. Each value is a device's part of an array, together with its spec. For each equation the
cheapest sharding of its factors is chosen (`choose.py`), operands are resharded to it, the same
primitive is bound on the parts, and factors that were reduced are finished by a collective.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.core.aval import Shape, ShapedArray
from xpr.core.context import context
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, literal_operand
from xpr.core.jaxpr_trace import hoist_consts, trace_to_jaxpr
from xpr.core.trace import get_aval
from xpr.primitives.group_collective import call_once_p
from xpr.sharding.choose import chosen_axes
from xpr.sharding.flatten import flattened
from xpr.sharding.layout import (
    Sizes,
    fitting,
    is_even,
    local_shape,
    replicated,
    spec_of_factors,
)
from xpr.sharding.moves import reshard
from xpr.sharding.parts_of_sums import (
    MAKES,
    mark,
    parts_as,
    settle,
    unreduced_of,
    unreduced_operands,
    whole,
    whole_as,
    wishes_of,
)
from xpr.sharding.place import MeshPlace
from xpr.sharding.propagate import Specs, propagate
from xpr.sharding.rotations import Rotations
from xpr.sharding.rule import Axes, FactorRule, LocalShapes, Spec, Structural, rule_of
from xpr.sharding.shifts import SHIFTS, without_rest
from xpr.sharding.sums import joined_sums

NUMBER = ShapedArray((), np.dtype(np.int32))
"""The type of the local program's first input, the number of the device that runs it."""


@dataclass(frozen=True)
class Partitioned:
    """The program of one device."""

    closed: ClosedJaxpr
    """Its inputs are the device's number, the constants of the whole program, its arguments."""

    in_specs: tuple[Spec, ...]
    """Of constants and arguments."""

    out_specs: tuple[Spec, ...]

    more_consts: tuple[Any, ...] = ()
    """Constants of calls inside the program, which come after its own."""

    inspected: tuple[tuple[Any, Spec], ...] = ()
    """Functions to be told of a sharding when the program is compiled, each with the sharding."""


def partition(
    closed: ClosedJaxpr,
    sizes: Sizes,
    const_specs: Sequence[Spec],
    in_specs: Sequence[Spec | None],
    out_specs: Sequence[Spec | None],
    mesh: Any = None,
    unreduced: Sequence[Axes | None] | None = None,
) -> Partitioned:
    """Partitions a program for a mesh of these axes.

    Specs that are None are free: propagation decides about them. `mesh` is what functions of users
    are shown of it. Results are unreduced along the mesh axes `unreduced`, where that is None as
    their types say.
    """
    flat = flattened(closed)
    jaxpr = flat.jaxpr
    specs = Specs(sizes, mesh=mesh)
    more = jaxpr.constvars[len(const_specs) :]
    constants = [*const_specs, *(replicated(v.aval.ndim) for v in more)]
    for v, spec in zip(jaxpr.constvars, constants, strict=True):
        specs.pin(v, spec)
    for v, spec in zip(jaxpr.invars, in_specs, strict=True):
        if spec is not None:
            specs.pin(v, spec)
    for v, spec in zip(jaxpr.outvars, out_specs, strict=True):
        if spec is not None and isinstance(v, Var) and v not in specs.pinned:
            specs.pin(v, spec)
    along = [
        unreduced_of(v.aval) if axes is None else axes
        for v, axes in zip(jaxpr.outvars, unreduced or [None] * len(out_specs), strict=True)
    ]
    propagate(specs, jaxpr)
    specs.has_sums |= any(along)
    inputs = [*jaxpr.constvars, *jaxpr.invars]
    local_in = [_local(v.aval, specs.of(v), sizes) for v in inputs]
    finals = tuple(
        _even(v.aval.shape, specs.of(v), sizes) if spec is None else spec
        for v, spec in zip(jaxpr.outvars, out_specs, strict=True)
    )

    def program(number: Any, *args: Any) -> list[Any]:
        walk = Walk(specs, MeshPlace(sizes, number))
        walk.assign(inputs, [(x, specs.of(v)) for x, v in zip(args, inputs, strict=True)])
        if specs.has_sums:
            mark(walk, inputs)
        walk.equations(jaxpr)
        return [
            parts_as(walk, v, spec, axes)
            for v, spec, axes in zip(jaxpr.outvars, finals, along, strict=True)
        ]

    local = trace_to_jaxpr(program, [NUMBER, *local_in], jaxpr.debug_info)
    return Partitioned(
        joined_sums(local),
        tuple(specs.of(v) for v in inputs),
        finals,
        tuple(flat.consts[len(const_specs) :]),
        tuple(specs.inspected),
    )


def _even(shape: Shape, spec: Spec, sizes: Sizes) -> Spec:
    """`spec` without what does not divide `shape`, for arrays that users see."""
    return tuple(fitting(axes, n, sizes) for n, axes in zip(shape, spec, strict=True))


def _local(aval: ShapedArray, spec: Spec, sizes: Sizes) -> ShapedArray:
    return ShapedArray(local_shape(aval.shape, spec, sizes), aval.dtype, aval.weak_type)


Held = tuple[Any, Spec]
"""One device's part of an array, and how the array is sharded."""


class Walk:
    """The walk over the equations of one program (or of one inside it)."""

    def __init__(self, specs: Specs, place: MeshPlace) -> None:
        self.specs = specs
        self.place = place
        self.sizes = place.sizes
        self.manual: frozenset[str] = frozenset()  # mesh axes along which the user sees parts
        self.env: dict[Var, Held] = {}
        self.resharded: dict[tuple[Var, Spec], Any] = {}
        self.unreduced: dict[Var, Axes] = {}
        """Variables whose values are parts of sums over devices along these axes."""
        self.completed: dict[Var, Held] = {}
        """The whole values of some of these."""
        self.wishes: dict[Atom, Axes] = {}
        self.along: dict[Var, Axes] = {}

    # ---- values

    def assign(self, variables: Sequence[Var], held: Sequence[Held]) -> None:
        for v, h in zip(variables, held, strict=True):
            self.env[v] = h

    def read(self, atom: Atom) -> Held:
        if isinstance(atom, Literal):
            return literal_operand(atom), replicated(atom.aval.ndim)
        return whole(self, atom) if atom in self.unreduced else self.env[atom]

    def read_as(self, atom: Atom, spec: Spec) -> Any:
        """The device's part of `atom` when it is sharded as `spec` says."""
        if atom in self.unreduced:
            return whole_as(self, atom, spec)
        value, old = self.read(atom)
        if old == spec or isinstance(atom, Literal):
            return value
        key = (atom, spec)
        found = self.resharded.get(key)
        if found is None:
            found = self.resharded[key] = reshard(self.place, value, old, spec, atom.aval.shape)
        return found

    # ---- equations

    def equations(self, jaxpr: Jaxpr) -> None:
        outer = context.source
        rotations = Rotations(jaxpr)
        if self.specs.has_sums:
            self.wishes = wishes_of(jaxpr)
        try:
            for eqn in jaxpr.eqns:
                if id(eqn) in rotations.slices:
                    continue
                context.source = eqn.source_info
                self.place.eqn = eqn
                rotated = rotations.rotated(self, eqn)
                if rotated is None:
                    self.equation(eqn)
                else:
                    settle(self, eqn.outvars[0], rotated, ())
        finally:
            context.source = outer

    def equation(self, eqn: JaxprEqn) -> None:
        if eqn.primitive.name == "device_put":  # the program's caller sees to where results are
            self.assign(eqn.outvars, [self.read(eqn.invars[0])])
            return
        rule = self.specs.rules.get(id(eqn))
        if eqn.primitive.family == "callback" and not self.manual:
            self.assign(eqn.outvars, self.once(eqn))
            return
        if rule is None or isinstance(rule_of(eqn.primitive), Structural):
            from xpr.sharding.structure import RULES  # noqa: PLC0415  it walks programs, too

            held = RULES[eqn.primitive.name](self, eqn)
            if self.specs.has_sums:
                mark(self, eqn.outvars)
        else:
            over = unreduced_operands(self, eqn) if self.specs.has_sums else ()
            shifted = None if over else SHIFTS.get(eqn.primitive.name)
            moved = None if shifted is None else shifted(self, eqn)
            held = self.by_factors(eqn, rule, over) if moved is None else [moved]
            if self.specs.has_sums:
                for v, h in zip(eqn.outvars, held, strict=True):
                    settle(self, v, h, self.along.pop(v, ()))
                return
        self.assign(eqn.outvars, held)

    def once(self, eqn: JaxprEqn) -> list[Held]:
        """A call of the user's function on whole arrays: one call, whatever the devices."""
        operands = [self.read_as(v, replicated(v.aval.ndim)) for v in eqn.invars]
        avals = [ShapedArray(v.aval.shape, v.aval.dtype) for v in eqn.outvars]
        found = call_once_p.bind(
            *operands,
            callback=eqn.params["callback"],
            result_avals=tuple(avals),
            collective=self.place.everybody("all_gather"),
            own_effects=eqn.effects,
        )
        return [(x, replicated(a.ndim)) for x, a in zip(found, avals, strict=True)]

    def by_factors(self, eqn: JaxprEqn, rule: FactorRule, over: Axes = ()) -> list[Held]:
        """An equation whose axes correspond by factors.

        With `over` it is computed on parts of sums over these mesh axes.
        """
        current = [self._raw(v)[1] if over else self.read(v)[1] for v in eqn.invars]
        wanted = [self.specs.of(v) for v in eqn.outvars]
        kept = self._kept_open(eqn)
        axes = chosen_axes(eqn, rule, current, wanted, self.specs.sizes, self.specs.choices, kept)
        if any(a in over for names in axes for a in names):
            return self.by_factors(eqn, rule)  # what is cut over an axis is no sum over it
        read = self._raw_as if over else self.read_as
        params = {k: None if k in _PLACED else p for k, p in eqn.params.items()}
        if not any(axes):
            operands = [read(v, replicated(v.aval.ndim)) for v in eqn.invars]
            results = _bind(eqn, operands, params)
            self._note(eqn, over)
            return [(x, replicated(v.aval.ndim)) for x, v in zip(results, eqn.outvars, strict=True)]
        operand_specs = [_spec(d, axes, rule, self.sizes) for d in rule.operands]
        result_specs = [_spec(d, axes, rule, self.sizes) for d in rule.results]
        operands = [read(v, s) for v, s in zip(eqn.invars, operand_specs, strict=True)]
        shapes = LocalShapes(
            tuple(
                local_shape(v.aval.shape, s, self.sizes)
                for v, s in zip(eqn.invars, operand_specs, strict=True)
            ),
            tuple(
                local_shape(v.aval.shape, s, self.sizes)
                for v, s in zip(eqn.outvars, result_specs, strict=True)
            ),
            axes,
        )
        if rule.apply is not None:
            results = list(rule.apply(self.place, operands, params, shapes))
        else:
            if rule.localize is not None:
                params = rule.localize(params, shapes)
            if rule.reduced:
                operands = self._masked(eqn, rule, axes, operands)
            results = _bind(eqn, operands, params)
        sums = tuple(a for f, op in rule.reduced.items() if op == "sum" for a in axes[f])
        self._note(eqn, over + tuple(a for a in sums if a in kept))
        return self._finished(rule, axes, results, result_specs, wanted, kept)

    def _raw(self, atom: Atom) -> Held:
        """As `read`, but parts of a sum as they are."""
        return self.read(atom) if isinstance(atom, Literal) else self.env[atom]

    def _raw_as(self, atom: Atom, spec: Spec) -> Any:
        value, old = self._raw(atom)
        return reshard(self.place, value, old, spec, atom.aval.shape)

    def _kept_open(self, eqn: JaxprEqn) -> Axes:
        """Along which axes the result of an equation may be left a sum that is not complete."""
        if not self.specs.has_sums or len(eqn.outvars) != 1:
            return ()
        (v,) = eqn.outvars
        return unreduced_of(v.aval) or self.wishes.get(v, ())

    def _note(self, eqn: JaxprEqn, along: Axes) -> None:
        """Notes along which axes the results are parts of sums, for `settle`."""
        if not self.specs.has_sums:
            return
        for v in eqn.outvars:
            made = not along and eqn.primitive.name in MAKES
            self.along[v] = unreduced_of(v.aval) if made else along

    def _masked(
        self, eqn: JaxprEqn, rule: FactorRule, axes: Sequence[Axes], operands: Sequence[Any]
    ) -> list[Any]:
        """Operands without influence of what lies behind the elements of axes that are reduced."""
        out = list(operands)
        for f, op in rule.reduced.items():
            if is_even(rule.sizes[f], axes[f], self.sizes):
                continue
            for i, dims in enumerate(rule.operands):
                for dim, factors in enumerate(dims):
                    if factors == (f,):
                        n = eqn.invars[i].aval.shape[dim]
                        out[i] = without_rest(self.place, out[i], axes[f], dim, n, op)
        return out

    def _finished(
        self,
        rule: FactorRule,
        axes: Sequence[Axes],
        results: Sequence[Any],
        specs: Sequence[Spec],
        wanted: Sequence[Spec],
        kept: Axes,
    ) -> list[Held]:
        """The results with reduced factors reduced over all devices, but for sums over `kept`."""
        over: dict[str, Axes] = {}
        for f, op in rule.reduced.items():
            names = tuple(a for a in axes[f] if op != "sum" or a not in kept)
            if names:
                over[op] = over.get(op, ()) + names
        held: list[Held] = []
        for x, spec, wish in zip(results, specs, wanted, strict=True):
            for op, names in over.items():
                x, spec = self.reduced(x, spec, names, op, wish)
            held.append((x, spec))
        return held

    def reduced(self, x: Any, spec: Spec, axes: Axes, op: str, wish: Spec) -> Held:
        """`x` reduced over `axes`: scattered at once, if the result is wanted that way."""
        if op == "sum":
            for dim, (have, want) in enumerate(zip(spec, wish, strict=True)):
                more = want[len(have) :]
                if (
                    want[: len(have)] == have
                    and more
                    and set(more) <= set(axes)
                    and is_even(get_aval(x).shape[dim], more, self.sizes)
                ):
                    x = self.place.scatter_sum(x, more, dim)
                    spec = (*spec[:dim], want, *spec[dim + 1 :])
                    axes = tuple(a for a in axes if a not in more)
        return (self.place.reduce(x, axes, op) if axes else x), spec

    def in_order(self, axes: frozenset[str]) -> Axes:
        """Those of the mesh axes, in the mesh's order."""
        return tuple(a for a in self.sizes if a in axes)

    # ---- programs inside

    def nested(self) -> Walk:
        """A walk with an environment of its own, in the same trace."""
        walk = Walk(self.specs, self.place)
        walk.manual = self.manual
        return walk

    def inner(
        self,
        jaxpr: Jaxpr,
        in_avals: Sequence[ShapedArray],
        run: Callable[[Walk, Sequence[Any]], list[Any]],
    ) -> tuple[ClosedJaxpr, list[Any]]:
        """A program inside, traced on local types: it, and what it closes over as operands."""

        def body(*args: Any) -> list[Any]:
            return run(self.nested(), args)

        return hoist_consts(joined_sums(trace_to_jaxpr(body, in_avals, jaxpr.debug_info)))

    def local_aval(self, v: Atom, spec: Spec | None = None) -> ShapedArray:
        """The type of one device's part of `v`."""
        return _local(v.aval, self.specs.of(v) if spec is None else spec, self.sizes)


_PLACED = frozenset({"sharding", "out_sharding"})
"""Parameters that say how a result is sharded, which a device's own part has no use for."""


def _spec(dims: Any, axes: Sequence[Axes], rule: FactorRule, sizes: Sizes) -> Spec:
    spec = spec_of_factors(dims, axes, rule.sizes, sizes)
    if spec is None:
        raise AssertionError(f"factors sharded over {axes} make no spec of {dims}")
    return spec


def _bind(eqn: JaxprEqn, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    found = eqn.primitive.bind(*operands, **params)
    return list(found) if eqn.primitive.multiple_results else [found]
