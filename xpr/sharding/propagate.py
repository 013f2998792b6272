"""Propagation: from the shardings that are known to those of every variable.

The known ones are those of arguments, of constraints, of results that the user asked for, and those
that types carry. They flow through the factors of each equation, forwards and backwards, until
nothing changes; a sharding is only ever extended, so that this ends. When two disagree about a
factor, what they have in common goes on. This is what Shardy calls basic propagation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xpr.core.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from xpr.sharding.choose import Choices
from xpr.sharding.layout import Sizes, common_start, count, factor_axes, fitting_roughly, replicated
from xpr.sharding.named import NamedSharding
from xpr.sharding.rotations import Rotations
from xpr.sharding.rule import Axes, FactorRule, Spec, Structural, rule_of
from xpr.sharding.rules.collectives import kept_axes
from xpr.sharding.spec import PartitionSpec
from xpr.sharding.user_propagation import Inferred, mesh_of

_MAX_SWEEPS = 32
"""More than any program needs: each sweep extends at least one axis through a whole program."""


@dataclass
class Specs:
    """What is known of the variables of a flattened program."""

    sizes: Sizes
    """The mesh axes that the compiler may use: all but those that are manual."""

    known: dict[Var, list[Axes]] = field(default_factory=dict)
    pinned: set[Var] = field(default_factory=set)
    """Variables whose spec is not extended."""

    open_dims: dict[Var, frozenset[int]] = field(default_factory=dict)
    """Axes of pinned variables that propagation may decide after all."""

    rules: dict[int, FactorRule] = field(default_factory=dict)
    """The rule of each equation, by its identity."""

    choices: Choices = field(default_factory=dict)
    """How equations were sharded that have been partitioned."""

    mesh: Any = None
    """The mesh that users are shown, if it is known."""

    inspected: list[tuple[Any, Spec]] = field(default_factory=list)
    """Functions that want to be told of a sharding, each with what was decided."""

    has_sums: bool = False
    """Whether a type of the program says that values are parts of sums."""

    def of(self, v: Atom) -> Spec:
        """The spec of a variable; literals are replicated."""
        if isinstance(v, Literal):
            return replicated(v.aval.ndim)
        found = self.known.get(v)
        return replicated(v.aval.ndim) if found is None else tuple(found)

    def pin(self, v: Var, spec: Spec, open_dims: Iterable[int] = ()) -> None:
        """Fixes the spec of `v`; axes in `open_dims` may still be extended."""
        self.known[v] = list(spec)
        self.pinned.add(v)
        free = frozenset(open_dims)
        if free:
            self.open_dims[v] = free

    def extend(self, v: Atom, dim: int, axes: Axes) -> bool:
        """Shards the axis `dim` of `v` over more of `axes`, as far as that is possible."""
        if not axes or isinstance(v, Literal):
            return False
        if v in self.pinned and dim not in self.open_dims.get(v, ()):
            return False
        spec = self.known.get(v)
        if spec is None:
            spec = self.known[v] = [()] * v.aval.ndim
        old = spec[dim]
        if len(axes) <= len(old) or axes[: len(old)] != old:
            return False
        for i, a in enumerate(axes[len(old) :], len(old)):
            if a not in self.sizes or any(a in s for s in spec):
                axes = axes[:i]
                break
        axes = fitting_roughly(axes, v.aval.shape[dim], self.sizes)
        if len(axes) <= len(old):
            return False
        spec[dim] = axes
        return True


class _FactorNode:
    """An equation with a factor rule."""

    def __init__(self, specs: Specs, eqn: JaxprEqn, rule: FactorRule) -> None:
        self.specs = specs
        self.rule = rule
        tensors: list[tuple[Var, int, tuple[int, ...]]] = []
        for atoms, dims in ((eqn.invars, rule.operands), (eqn.outvars, rule.results)):
            for v, factors_of in zip(atoms, dims, strict=True):
                if isinstance(v, Literal):
                    continue
                for dim, factors in enumerate(factors_of):
                    if factors and not (len(factors) == 1 and factors[0] in rule.whole):
                        tensors.append((v, dim, factors))
        self.places = tensors

    def sweep(self) -> bool:
        rule, specs = self.rule, self.specs
        best: dict[int, Axes] = {}
        torn: set[int] = set()
        known = specs.known
        for v, dim, factors in self.places:
            spec = known.get(v)
            if spec is None or not spec[dim]:
                continue
            if len(factors) == 1:
                shared = [(factors[0], spec[dim])]
            else:
                shared = factor_axes(spec[dim], factors, rule.sizes, specs.sizes)
            for f, axes in shared:
                if f in rule.whole or f in torn:
                    continue
                old = best.get(f, ())
                length = min(len(axes), len(old))
                if axes[:length] != old[:length]:
                    # Two ways to shard one factor: what they have in common goes on.
                    best[f] = common_start(axes, old)
                    torn.add(f)
                elif len(axes) > len(old):
                    best[f] = axes
        if not best:
            return False
        changed = False
        for v, dim, factors in self.places:
            axes: Axes = ()
            for f in factors:
                axes += best.get(f, ())
                if count(best.get(f, ()), specs.sizes) != rule.sizes[f]:
                    break
            if axes:
                changed = specs.extend(v, dim, axes) or changed
        return changed


_SAME_AXES = frozenset(
    {"slice", "pad", "concatenate", "dynamic_slice", "split", "rev", "sort", "cumsum", "cumprod"}
    | {"cummax", "cummin", "cumlogsumexp", "reduce_window_sum", "reduce_window_max"}
    | {"reduce_window_min", "conv_general_dilated"}
)
"""Operations whose results have the axes of their operands, of another size perhaps."""


class _Follower:
    """An axis of a result that is sharded as that of an operand, though no factor joins them."""

    def __init__(
        self, specs: Specs, sources: Sequence[Var], results: Sequence[Var], dim: int
    ) -> None:
        self.specs = specs
        self.sources = sources
        self.results = results
        self.dim = dim

    def sweep(self) -> bool:
        known = self.specs.known
        found = [known[v][self.dim] if v in known else () for v in self.sources]
        axes = found[0]
        for other in found[1:]:
            axes = common_start(axes, other)
        changed = False
        for v in self.results:
            changed = self.specs.extend(v, self.dim, axes) or changed
        return changed


def _followers(specs: Specs, eqn: JaxprEqn, rule: FactorRule) -> list[_Follower]:
    found: list[_Follower] = []
    rank = eqn.outvars[0].aval.ndim
    for dim in range(rank):
        joined = {f for r in rule.results for f in r[dim] if f not in rule.whole}
        sources = [
            v
            for v, dims in zip(eqn.invars, rule.operands, strict=True)
            if isinstance(v, Var) and v.aval.ndim == rank and not joined.intersection(dims[dim])
        ]
        if sources and dim == eqn.params.get("dimension"):
            # Short parts that are joined to a long one are not sharded themselves.
            longest = max(v.aval.shape[dim] for v in sources)
            sources = [v for v in sources if v.aval.shape[dim] == longest]
        if sources:
            found.append(_Follower(specs, sources, eqn.outvars, dim))
    return found


class _Link:
    """Variables that are the same array, but for leading axes that some have and others do not."""

    def __init__(self, specs: Specs, members: Sequence[tuple[Atom, int]]) -> None:
        self.specs = specs
        self.members = [(v, skip) for v, skip in members if isinstance(v, Var)]

    def sweep(self) -> bool:
        known = self.specs.known
        rank = min((v.aval.ndim - skip for v, skip in self.members), default=0)
        changed = False
        for dim in range(rank):
            best: Axes = ()
            for v, skip in self.members:
                spec = known.get(v)
                axes = spec[dim + skip] if spec is not None else ()
                if len(axes) > len(best) and axes[: len(best)] == best:
                    best = axes
            if best:
                for v, skip in self.members:
                    changed = self.specs.extend(v, dim + skip, best) or changed
        return changed


class _Kept:
    """Operand and result of which some axes are the same, as pairs of their places."""

    def __init__(self, specs: Specs, v: Var, w: Var, pairs: Sequence[tuple[int, int]]) -> None:
        self.specs, self.v, self.w, self.pairs = specs, v, w, pairs

    def sweep(self) -> bool:
        changed = False
        for i, j in self.pairs:
            changed = self.specs.extend(self.w, j, self.specs.of(self.v)[i]) or changed
            changed = self.specs.extend(self.v, i, self.specs.of(self.w)[j]) or changed
        return changed


class _Part:
    """A part in the body of a `shard_map`, sharded as the whole is beside the manual axes."""

    def __init__(self, specs: Specs, body: Specs, whole: Var, part: Var, cut: Spec) -> None:
        self.specs, self.body, self.whole, self.part, self.cut = specs, body, whole, part, cut

    def sweep(self) -> bool:
        changed = False
        outer, inner = self.specs.of(self.whole), self.body.of(self.part)
        for dim, cut in enumerate(self.cut):
            rest = tuple(a for a in outer[dim] if a in self.body.sizes)
            changed = self.body.extend(self.part, dim, rest) or changed
            changed = self.specs.extend(self.whole, dim, (*cut, *inner[dim])) or changed
        return changed


_Node = _FactorNode | _Follower | _Link | _Kept | _Part | Inferred


def propagate(specs: Specs, jaxpr: Jaxpr) -> None:
    """Extends `specs` to all variables of the flattened program `jaxpr`."""
    nodes: list[_Node] = []
    _collect(specs, jaxpr, nodes)
    for _ in range(_MAX_SWEEPS):
        changed = False
        for node in nodes:
            changed = node.sweep() or changed
        if not changed:
            return
        changed = False
        for node in reversed(nodes):
            changed = node.sweep() or changed
        if not changed:
            return


def _collect(specs: Specs, jaxpr: Jaxpr, nodes: list[_Node]) -> None:
    _pin_typed(specs, (*jaxpr.constvars, *jaxpr.invars))
    rotations = Rotations(jaxpr).of_join
    for eqn in jaxpr.eqns:
        if id(eqn) in rotations:
            nodes.append(_Link(specs, [(rotations[id(eqn)].source, 0), (eqn.outvars[0], 0)]))
        _pin_typed(specs, eqn.outvars)
        rule = rule_of(eqn.primitive)
        if isinstance(rule, Structural):
            _structural(specs, eqn, nodes)
            continue
        found = rule([v.aval for v in eqn.invars], [v.aval for v in eqn.outvars], eqn.params)
        specs.rules[id(eqn)] = found
        node = _FactorNode(specs, eqn, found)
        if node.places:
            nodes.append(node)
        if eqn.primitive.name in _SAME_AXES:
            nodes += _followers(specs, eqn, found)


def _pin_typed(specs: Specs, variables: Iterable[Var]) -> None:
    """Types that carry a sharding decide about the axes of the mesh that are explicit."""
    for v in variables:
        if v.aval.sharding is None:
            continue
        if v.aval.sharding.spec.unreduced:
            specs.has_sums = True
        if v not in specs.pinned:
            spec = v.aval.sharding.normalized_spec(v.aval.ndim)
            kept = tuple(tuple(a for a in axes if a in specs.sizes) for axes in spec)
            specs.known[v] = list(kept)
            if v.aval.sharding.mesh.are_all_axes_explicit:
                specs.pinned.add(v)


def _structural(specs: Specs, eqn: JaxprEqn, nodes: list[_Node]) -> None:
    name, params = eqn.primitive.name, eqn.params
    if name == "scan":
        body: Jaxpr = params["jaxpr"].jaxpr
        held, carried = params["num_consts"], params["num_carry"]
        _collect(specs, body, nodes)
        _link_pairs(specs, eqn.invars[:held], body.invars[:held], nodes)
        for i in range(carried):
            group = (
                eqn.invars[held + i],
                body.invars[held + i],
                body.outvars[i],
                eqn.outvars[i],
            )
            nodes.append(_Link(specs, [(v, 0) for v in group]))
        for outer, inner in zip(
            eqn.invars[held + carried :], body.invars[held + carried :], strict=True
        ):
            nodes.append(_Link(specs, [(outer, 1), (inner, 0)]))
        for outer, inner in zip(eqn.outvars[carried:], body.outvars[carried:], strict=True):
            nodes.append(_Link(specs, [(outer, 1), (inner, 0)]))
    elif name == "while":
        test, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
        a = params["cond_nconsts"]
        b = a + params["body_nconsts"]
        _collect(specs, test, nodes)
        _collect(specs, body, nodes)
        _link_pairs(specs, eqn.invars[:a], test.invars[:a], nodes)
        _link_pairs(specs, eqn.invars[a:b], body.invars[: b - a], nodes)
        for i, v in enumerate(eqn.outvars):
            group = (
                eqn.invars[b + i],
                body.invars[b - a + i],
                body.outvars[i],
                test.invars[a + i],
                v,
            )
            nodes.append(_Link(specs, [(x, 0) for x in group]))
    elif name == "cond":
        for branch in params["branches"]:
            _collect(specs, branch.jaxpr, nodes)
            _link_pairs(specs, eqn.invars[1:], branch.jaxpr.invars, nodes)
            _link_pairs(specs, eqn.outvars, branch.jaxpr.outvars, nodes)
    elif name == "remat2":
        inner = params["jaxpr"].jaxpr
        _collect(specs, inner, nodes)
        _link_pairs(specs, eqn.invars, inner.invars, nodes)
        _link_pairs(specs, eqn.outvars, inner.outvars, nodes)
    elif name == "shard_map":
        _shard_map(specs, eqn, nodes)
    elif name in ("place", "sharding_constraint", "reshard"):
        if isinstance(params["sharding"], NamedSharding):  # a program knows of no single devices
            _pinned_results(specs, eqn)
        _link_pairs(specs, eqn.invars, eqn.outvars, nodes)
    elif name == "custom_partitioning":
        _custom_partitioning(specs, eqn, nodes)
    elif name == "shard_alike":
        nodes.append(_Link(specs, [(v, 0) for v in (*eqn.invars, *eqn.outvars)]))
    else:
        # Named collectives: what they give is sharded as what they get, where no axis changes.
        for v, w in zip(eqn.invars, eqn.outvars, strict=False):
            if isinstance(v, Var):
                nodes.append(_Kept(specs, v, w, kept_axes(name, params, v.aval.ndim)))


def _link_pairs(
    specs: Specs, first: Sequence[Atom], second: Sequence[Atom], nodes: list[_Node]
) -> None:
    for v, w in zip(first, second, strict=True):
        if v.aval.ndim:
            nodes.append(_Link(specs, [(v, 0), (w, 0)]))


def _pinned_results(specs: Specs, eqn: JaxprEqn) -> None:
    sharding = eqn.params["sharding"]
    for v in eqn.outvars:
        spec = sharding.normalized_spec(v.aval.ndim)
        free = eqn.params.get("unconstrained_dims") or ()
        kept = tuple(tuple(a for a in axes if a in specs.sizes) for axes in spec)
        specs.pin(v, kept, free)


def _shard_map(specs: Specs, eqn: JaxprEqn, nodes: list[_Node]) -> None:
    """Operands are wanted, and results are given, as the specs say.

    Along the axes of the mesh that are not manual, parts are sharded as the wholes are.
    """
    params = eqn.params
    manual: frozenset[str] = params["manual_axes"]
    inner: Jaxpr = params["jaxpr"].jaxpr
    sizes = {a: n for a, n in specs.sizes.items() if a not in manual}
    for v, spec in zip(eqn.outvars, params["out_specs"], strict=True):
        cut = normalized(spec, v.aval.ndim)
        known = specs.of(v)  # from its type, with the axes that are not manual
        longer = tuple(k if k[: len(c)] == c else c for k, c in zip(known, cut, strict=True))
        specs.pin(v, longer, range(v.aval.ndim) if sizes else ())
    for v, spec in zip(eqn.invars, params["in_specs"], strict=True):
        if isinstance(v, Var):
            wanted = Var(v.aval)
            specs.pin(wanted, normalized(spec, v.aval.ndim))
            nodes.append(_Link(specs, [(v, 0), (wanted, 0)]))
    body = Specs(sizes, specs.known, specs.pinned, specs.open_dims, specs.rules, mesh=specs.mesh)
    specs.rules.setdefault(id(eqn), FactorRule((), (), ()))
    _collect(body, inner, nodes)
    if sizes:
        for wholes, parts, cuts in (
            (eqn.invars, inner.invars, params["in_specs"]),
            (eqn.outvars, inner.outvars, params["out_specs"]),
        ):
            for v, w, spec in zip(wholes, parts, cuts, strict=True):
                if isinstance(v, Var) and isinstance(w, Var):
                    nodes.append(_Part(specs, body, v, w, normalized(spec, v.aval.ndim)))


def _custom_partitioning(specs: Specs, eqn: JaxprEqn, nodes: list[_Node]) -> None:
    """By the user's rule, or by what the user's function infers."""
    if not specs.sizes:
        return
    rules = eqn.params["rules"]
    mesh = mesh_of(specs.mesh, specs.sizes)
    found = rules.factor_rule(mesh, [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars])
    if found is not None:
        nodes.append(_FactorNode(specs, eqn, found))
    elif rules.infers:
        nodes.append(Inferred(specs, eqn))


def normalized(spec: PartitionSpec, rank: int) -> Spec:
    """A partition spec with a tuple of mesh axes for each of `rank` axes."""
    found: list[Axes] = []
    for entry in spec.partitions:
        if entry is None:
            found.append(())
        elif isinstance(entry, str):
            found.append((entry,))
        elif isinstance(entry, tuple):
            found.append(tuple(entry))
        else:
            raise TypeError(f"a spec has axis names, tuples of them or None, got {entry!r}")
    return (*found, *((),) * (rank - len(found)))
