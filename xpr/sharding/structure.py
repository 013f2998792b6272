"""Partitioning of equations that hold programs, and of those that say how arrays are sharded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Var
from xpr.sharding.layout import replicated, used_axes
from xpr.sharding.named_collectives import RESOLVERS
from xpr.sharding.parts_of_sums import mark, parts_as, unreduced_of
from xpr.sharding.propagate import normalized
from xpr.sharding.rule import Spec
from xpr.sharding.user_partition import custom_partitioning

if TYPE_CHECKING:
    from xpr.sharding.partition import Held, Walk

StructureRule = Callable[["Walk", JaxprEqn], "list[Held]"]


def _specs(walk: Walk, variables: Sequence[Atom]) -> list[Spec]:
    return [walk.specs.of(v) for v in variables]


def _operands(walk: Walk, atoms: Sequence[Atom], inner: Sequence[Var]) -> list[Any]:
    """Operands, sharded as the program inside wants its inputs."""
    return [
        parts_as(walk, a, walk.specs.of(v), unreduced_of(v.aval))
        for a, v in zip(atoms, inner, strict=True)
    ]


def _avals(walk: Walk, variables: Sequence[Var]) -> list[ShapedArray]:
    return [walk.local_aval(v).strip_weak_type() for v in variables]


def _traced(
    walk: Walk, jaxpr: Jaxpr, out_specs: Sequence[Spec], out: Sequence[Atom] | None = None
) -> tuple[ClosedJaxpr, list[Any]]:
    """A program inside on local parts, its results sharded as `out_specs` say.

    They are parts of sums where the types of the variables `out` (its own results) say so.
    """
    along = [unreduced_of(v.aval) for v in (jaxpr.outvars if out is None else out)]

    def run(inner: Walk, args: Sequence[Any]) -> list[Any]:
        inner.assign(
            jaxpr.invars,
            [(x, walk.specs.of(v)) for x, v in zip(args, jaxpr.invars, strict=True)],
        )
        mark(inner, jaxpr.invars)
        inner.equations(jaxpr)
        return [
            parts_as(inner, v, s, axes)
            for v, s, axes in zip(jaxpr.outvars, out_specs, along, strict=True)
        ]

    return walk.inner(jaxpr, _avals(walk, jaxpr.invars), run)


def _scan(walk: Walk, eqn: JaxprEqn) -> list[Held]:
    params = eqn.params
    body: Jaxpr = params["jaxpr"].jaxpr
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    held = n_consts + n_carry
    stacked_specs = _specs(walk, body.outvars[n_carry:])
    out_specs = [*_specs(walk, body.invars[n_consts:held]), *stacked_specs]
    closed, extra = _traced(walk, body, out_specs, eqn.outvars)
    operands = [
        *extra,
        *_operands(walk, eqn.invars[:held], body.invars[:held]),
        *(
            parts_as(walk, a, ((), *walk.specs.of(v)), unreduced_of(v.aval))
            for a, v in zip(eqn.invars[held:], body.invars[held:], strict=True)
        ),
    ]
    changed = params | {"jaxpr": closed, "num_consts": n_consts + len(extra)}
    found = eqn.primitive.bind(*operands, **changed)
    specs = [*out_specs[:n_carry], *(((), *s) for s in stacked_specs)]
    return list(zip(found, specs, strict=True))


def _while(walk: Walk, eqn: JaxprEqn) -> list[Held]:
    params = eqn.params
    test, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
    a, n_body = params["cond_nconsts"], params["body_nconsts"]
    b = a + n_body
    carried = _specs(walk, body.invars[n_body:])
    for v, spec in zip(test.invars[a:], carried, strict=True):
        walk.specs.known[v] = list(spec)
    tested, test_extra = _traced(walk, test, [()])
    stepped, body_extra = _traced(walk, body, carried, eqn.outvars)
    operands = [
        *test_extra,
        *_operands(walk, eqn.invars[:a], test.invars[:a]),
        *body_extra,
        *_operands(walk, eqn.invars[a:b], body.invars[:n_body]),
        *_operands(walk, eqn.invars[b:], body.invars[n_body:]),
    ]
    found = eqn.primitive.bind(
        *operands,
        cond_jaxpr=tested,
        body_jaxpr=stepped,
        cond_nconsts=a + len(test_extra),
        body_nconsts=n_body + len(body_extra),
    )
    return list(zip(found, carried, strict=True))


def _cond(walk: Walk, eqn: JaxprEqn) -> list[Held]:
    branches: Sequence[ClosedJaxpr] = eqn.params["branches"]
    first = branches[0].jaxpr
    in_specs, out_specs = _specs(walk, first.invars), _specs(walk, eqn.outvars)
    for branch in branches[1:]:
        for v, spec in zip(branch.jaxpr.invars, in_specs, strict=True):
            walk.specs.known[v] = list(spec)
    traced = [_traced(walk, b.jaxpr, out_specs, eqn.outvars) for b in branches]
    extras: list[Any] = [x for _, extra in traced for x in extra]
    programs: list[ClosedJaxpr] = []
    start = 0
    for closed, extra in traced:
        programs.append(_with_unused(closed, start, len(extra), extras))
        start += len(extra)
    index = walk.read_as(eqn.invars[0], ())
    operands = _operands(walk, eqn.invars[1:], first.invars)
    found = eqn.primitive.bind(
        index, *extras, *operands, **eqn.params | {"branches": tuple(programs)}
    )
    return list(zip(found, out_specs, strict=True))


def _with_unused(closed: ClosedJaxpr, start: int, count: int, extras: Sequence[Any]) -> ClosedJaxpr:
    """A branch that also takes, and does not use, what other branches close over."""
    from xpr.core.trace import get_aval  # noqa: PLC0415  only for branches that close over values

    jaxpr = closed.jaxpr
    before = [Var(get_aval(x)) for x in extras[:start]]
    after = [Var(get_aval(x)) for x in extras[start + count :]]
    invars = [*before, *jaxpr.invars[:count], *after, *jaxpr.invars[count:]]
    return ClosedJaxpr(jaxpr.replace(invars=invars), closed.consts)


def _remat(walk: Walk, eqn: JaxprEqn) -> list[Held]:
    body: Jaxpr = eqn.params["jaxpr"].jaxpr
    out_specs = _specs(walk, eqn.outvars)
    closed, extra = _traced(walk, body, out_specs, eqn.outvars)
    operands = [*extra, *_operands(walk, eqn.invars, body.invars)]
    found = eqn.primitive.bind(*operands, **eqn.params | {"jaxpr": closed})
    return list(zip(found, out_specs, strict=True))


def _shard_map(walk: Walk, eqn: JaxprEqn) -> list[Held]:
    """The body is walked on the devices' parts, which may be sharded over axes not manual here."""
    params = eqn.params
    body: Jaxpr = params["jaxpr"].jaxpr
    manual = params["manual_axes"]
    given = [walk.specs.of(v) for v in body.invars]
    wanted = [
        tuple(c + g for c, g in zip(normalized(s, len(spec)), spec, strict=True))
        for s, spec in zip(params["in_specs"], given, strict=True)
    ]
    operands = [
        parts_as(walk, v, s, walk.in_order(spec.unreduced))
        for v, s, spec in zip(eqn.invars, wanted, params["in_specs"], strict=True)
    ]
    inner = walk.nested()
    inner.manual = walk.manual | manual
    inner.assign(body.invars, list(zip(operands, given, strict=True)))
    consts = params["jaxpr"].consts
    inner.assign(
        body.constvars,
        [(c, replicated(v.aval.ndim)) for c, v in zip(consts, body.constvars, strict=True)],
    )
    inner.equations(body)
    held: list[Held] = []
    for v, spec in zip(body.outvars, params["out_specs"], strict=True):
        value, automatic = inner.read(v)
        outer = normalized(spec, v.aval.ndim)
        if used_axes(automatic) & manual:
            raise AssertionError(f"a value inside shard_map is sharded over {automatic}")
        held.append((value, tuple(o + i for o, i in zip(outer, automatic, strict=True))))
    return held


def _constraint(walk: Walk, eqn: JaxprEqn) -> list[Held]:
    return [
        (parts_as(walk, a, walk.specs.of(v), unreduced_of(v.aval)), walk.specs.of(v))
        for a, v in zip(eqn.invars, eqn.outvars, strict=True)
    ]


def _inspect(walk: Walk, eqn: JaxprEqn) -> list[Held]:
    walk.specs.inspected.append((eqn.params["callback"], walk.read(eqn.invars[0])[1]))
    return []


RULES: dict[str, StructureRule] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "remat2": _remat,
    "shard_map": _shard_map,
    "place": _constraint,
    "sharding_constraint": _constraint,
    "reshard": _constraint,
    "shard_alike": _constraint,
    "inspect_sharding": _inspect,
    "custom_partitioning": custom_partitioning,
    **RESOLVERS,
}
