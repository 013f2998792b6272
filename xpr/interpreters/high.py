"""Programs on values of high types become programs on arrays: one pass over the jaxpr.

It is made where a program is about to run, after all transformations. The program is evaluated with
values of the high types' classes that hold traced arrays, on which the primitives act at once
(`to_lojax`). A value that is an argument stands for its arrays, and so does a result. Of arguments
of mutable types the arrays that they hold at last are further results, which are put into the
values that the call was given. An equation that holds programs (`jit`, `scan`, `cond`, `while`,
`checkpoint`) is bound with programs on arrays; loops carry what mutable values hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from xpr.core.context import context
from xpr.core.high import AvalQDD, StateVar, joined, plain
from xpr.core.jaxpr import ClosedJaxpr, Var, eval_closed
from xpr.core.jaxpr_trace import hoist_consts, trace_to_jaxpr
from xpr.core.primitive import Primitive, get_primitive
from xpr.core.trace import get_aval
from xpr.interpreters.caching import weak_jaxpr_cache

Params = dict[str, Any]


class Lowered(NamedTuple):
    """A program on arrays, and what these are of.

    `held` are the high values that the program closed over, which stand in front of its other
    arguments; `types` are those of all of these. `consts` are operands in front of all. After the
    arrays of the results, of `out_types`, stand those of the arguments that `mutable` names, in the
    states that they are in at last.
    """

    closed: ClosedJaxpr
    consts: list[Any]
    held: list[Any]
    types: list[Any]
    out_types: list[Any]
    mutable: list[tuple[int, AvalQDD]]

    @property
    def is_plain(self) -> bool:
        """Whether only the inside of the program has high values."""
        return not self.held and not any(t.is_high for t in (*self.types, *self.out_types))

    def alone(self) -> ClosedJaxpr:
        """The program on arrays, which closes over its constants.

        Raises NotImplementedError if arguments or results are of high types.
        """
        jaxpr, count = self.closed.jaxpr, len(self.consts)
        if not self.is_plain:
            raise NotImplementedError(
                f"{jaxpr.debug_info.describe()} takes or returns values of high types or closes "
                "over them: such a program can be called, but not exported or sharded"
            )
        changed = jaxpr.replace(constvars=jaxpr.invars[:count], invars=jaxpr.invars[count:])
        return ClosedJaxpr(changed, self.consts)


@weak_jaxpr_cache
def lowered(closed: ClosedJaxpr) -> Lowered:
    """The program on arrays. Raises TypeError for one that returns a mutable value."""
    closed, held = _with_held_in_front(closed)
    types, out_types = closed.in_avals, closed.out_avals
    for t in out_types:
        if t.has_qdd:
            raise TypeError(
                f"{closed.jaxpr.debug_info.describe()} returns a value of the mutable type "
                f"{plain(t)}: mutable values cannot be returned from compiled functions"
            )
    finals = [
        (i, AvalQDD(v.aval.aval, v.final))  # type: ignore[attr-defined]
        for i, v in enumerate(closed.jaxpr.invars)
        if isinstance(v, StateVar)
    ]

    def flat(*arrays: Any) -> list[Any]:
        context.trace.lowers = True
        values = raised(types, arrays)
        out = eval_closed(closed, values)
        results = low_values(out_types, out)
        for i, t in finals:
            results += t.lower_val(values[i])
        context.trace.drop_unused(0)
        return results

    avals = [a for t in types for a in t.lo_ty()]
    program = trace_to_jaxpr(flat, avals, closed.jaxpr.debug_info)
    program, consts = hoist_consts(program)
    return Lowered(program, consts, held, types, out_types, finals)


def _with_held_in_front(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """The program with the high values that it closes over as inputs in front; these values."""
    jaxpr = closed.jaxpr
    pairs = list(zip(jaxpr.constvars, closed.consts, strict=True))
    high = [(v, c) for v, c in pairs if v.aval.is_high]
    if not high:
        return closed, []
    rest = [(v, c) for v, c in pairs if not v.aval.is_high]
    changed = jaxpr.replace(
        constvars=[v for v, _ in rest], invars=[*(v for v, _ in high), *jaxpr.invars]
    )
    return ClosedJaxpr(changed, [c for _, c in rest]), [c for _, c in high]


def low_values(types: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The arrays that values of such types are made of."""
    return [a for t, x in zip(types, values, strict=True) for a in t.lower_val(x)]


def raised(types: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    """The values of such types that are made of arrays."""
    given = iter(arrays)
    return [_raise(t, given) for t in types]


def _raise(t: Any, given: Iterator[Any]) -> Any:
    return t.raise_val(*[next(given) for _ in t.lo_ty()])


def call_lowered(
    low: Lowered, args: Sequence[Any], call: Callable[[Sequence[Any]], Sequence[Any]]
) -> list[Any]:
    """The results of a program on high values: `call` runs the one on arrays."""
    values = [*low.held, *args]
    _check_mutable(low.mutable, values, low.closed.jaxpr.debug_info.describe())
    given = iter(call([*low.consts, *low_values(low.types, values)]))
    results = [_raise(t, given) for t in low.out_types]
    _put_back(low.mutable, values, given)
    return results


def _check_mutable(
    mutable: Sequence[tuple[int, AvalQDD]], values: Sequence[Any], name: str
) -> None:
    """ValueError for a mutable value that stands for two: one of them would lose its changes."""
    seen: set[int] = set()
    for i, t in mutable:
        if id(values[i]) in seen:
            raise ValueError(
                f"only one reference to a mutable value may be passed as an argument to {name}, "
                f"but a value of type {t.str_short()} was given twice, or given and closed over"
            )
        seen.add(id(values[i]))


def _after_loop(low: Lowered) -> list[tuple[int, AvalQDD]]:
    """The mutable arguments of a loop's body, in the states after any number of steps."""
    return [(i, AvalQDD(t.aval, joined([t.qdd, low.types[i].qdd]))) for i, t in low.mutable]


def _after_branches(branches: Sequence[Lowered]) -> list[tuple[int, AvalQDD]]:
    """The mutable arguments of branches, in the states after any of them."""
    return [
        (same[0][0], AvalQDD(same[0][1].aval, joined([t.qdd for _, t in same])))
        for same in zip(*(b.mutable for b in branches), strict=True)
    ]


def _put_back(
    mutable: Sequence[tuple[int, AvalQDD]], values: Sequence[Any], given: Iterator[Any]
) -> None:
    """Gives mutable values the arrays that they hold now."""
    for i, t in mutable:
        arrays = [_strong(next(given)) if not a.weak_type else next(given) for a in t.lo_ty()]
        t.aval.update_from_loval(t.qdd, values[i], *arrays)


def _strong(x: Any) -> Any:
    aval = get_aval(x)
    if not aval.weak_type:
        return x
    return get_primitive("convert_element_type").bind(x, new_dtype=aval.dtype, weak_type=False)


# ---- equations that hold programs


def bind_lowered(primitive: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    """Binds a primitive whose programs have high values, on arrays.

    Raises NotImplementedError for a primitive that cannot have such programs.
    """
    rule = _RULES.get(primitive.name)
    if rule is None:
        raise NotImplementedError(f"{primitive.name} cannot take values of high types")
    return rule(primitive, args, params)


def _call(primitive: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    low = lowered(params["jaxpr"])

    def call(operands: Sequence[Any]) -> Sequence[Any]:
        changed = params | {"jaxpr": low.closed}
        if "donated_invars" in params:
            changed["donated_invars"] = (False,) * len(operands)
        return primitive.bind(*operands, **changed)

    return call_lowered(low, args, call)


def _lowered_inside(closed: ClosedJaxpr, name: str) -> Lowered:
    low = lowered(closed)
    if low.held:
        raise NotImplementedError(f"{name}: a program inside it closes over a high value")
    return low


def _groups(types: Sequence[Any], variables: Sequence[Any]) -> list[list[Any]]:
    """The variables of the arrays of each value."""
    given = iter(variables)
    return [[next(given) for _ in t.lo_ty()] for t in types]


def _joined(groups: Sequence[Sequence[Any]]) -> list[Any]:
    return [x for group in groups for x in group]


def _cond(primitive: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    index, *values = args
    branches = [_lowered_inside(b, "cond") for b in params["branches"]]
    programs = []
    for k, low in enumerate(branches):
        # Each branch takes the constants of all.
        before = [Var(get_aval(c)) for b in branches[:k] for c in b.consts]
        after = [Var(get_aval(c)) for b in branches[k + 1 :] for c in b.consts]
        own, invars = len(low.consts), low.closed.jaxpr.invars
        jaxpr = low.closed.jaxpr.replace(invars=[*before, *invars[:own], *after, *invars[own:]])
        programs.append(ClosedJaxpr(jaxpr, []))
    first = branches[0]
    _check_mutable(first.mutable, values, "cond")
    consts = [c for b in branches for c in b.consts]
    operands = [*consts, *low_values(first.types, values)]
    given = iter(primitive.bind(index, *operands, **(params | {"branches": tuple(programs)})))
    results = [_raise(t, given) for t in first.out_types]
    _put_back(_after_branches(branches), values, given)
    return results


def _scan(primitive: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    """What mutable values hold that are closed over is carried."""
    low = _lowered_inside(params["jaxpr"], "scan")
    n_consts, n_carry, length = params["num_consts"], params["num_carry"], params["length"]
    end = n_consts + n_carry
    moved = [i for i, _ in low.mutable]
    if any(i >= n_consts for i in moved):
        raise NotImplementedError("scan cannot carry mutable values or scan over them")
    _check_mutable(low.mutable, args, "scan")
    jaxpr, own = low.closed.jaxpr, len(low.consts)
    groups = _groups(low.types, jaxpr.invars[own:])
    given = iter(jaxpr.outvars)
    outs = _groups(low.out_types, [next(given) for t in low.out_types for _ in t.lo_ty()])
    last = list(given)

    def arranged(items: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        consts = _joined([x for i, x in enumerate(items[:n_consts]) if i not in moved])
        carried = _joined([*items[n_consts:end], *(items[i] for i in moved)])
        return consts, carried, _joined(items[end:])

    consts, carried, scanned = arranged(groups)
    step = jaxpr.replace(
        invars=[*jaxpr.invars[:own], *consts, *carried, *scanned],
        outvars=[*_joined(outs[:n_carry]), *last, *_joined(outs[n_carry:])],
    )
    full = [*low.types[:end], *(_stacked(t, length) for t in low.types[end:])]
    operands = arranged([t.lower_val(x) for t, x in zip(full, args, strict=True)])
    changed = {
        "jaxpr": ClosedJaxpr(step, []),
        "num_consts": own + len(consts),
        "num_carry": len(carried),
    }
    out = iter(primitive.bind(*low.consts, *_joined(operands), **(params | changed)))
    results = [_raise(t, out) for t in low.out_types[:n_carry]]
    _put_back(_after_loop(low), args, out)
    return results + [_raise(_stacked(t, length), out) for t in low.out_types[n_carry:]]


def _stacked(t: Any, length: int) -> Any:
    """The type of as many values in one; the number of arrays of a plain one is the same."""
    return t.inc_rank(length, t.leading_axis_spec()) if t.is_high else t


def _while(primitive: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    """What mutable values hold that the body closes over is carried."""
    a = params["cond_nconsts"]
    b = a + params["body_nconsts"]
    test = _lowered_inside(params["cond_jaxpr"], "while")
    step = _lowered_inside(params["body_jaxpr"], "while")
    if test.mutable:
        raise NotImplementedError("the condition of a while loop cannot take mutable values")
    moved = [i for i, _ in step.mutable]
    if any(i >= b - a for i in moved):
        raise NotImplementedError("while_loop cannot carry mutable values")
    values = args[a:]
    _check_mutable(step.mutable, values, "while_loop")
    own = len(step.consts)
    groups = _groups(step.types, step.closed.jaxpr.invars[own:])
    kept = [g for i, g in enumerate(groups) if i not in moved]
    body = step.closed.jaxpr.replace(
        invars=[
            *step.closed.jaxpr.invars[:own],
            *_joined(kept),
            *_joined([groups[i] for i in moved]),
        ]
    )
    carried = [Var(v.aval) for i in moved for v in groups[i]]
    condition = test.closed.jaxpr.replace(invars=[*test.closed.jaxpr.invars, *carried])
    held = [t.lower_val(x) for t, x in zip(step.types, values, strict=True)]
    closed_over = _joined([h for i, h in enumerate(held[: b - a]) if i not in moved])
    test_values = low_values(test.types[:a], args[:a])
    out = iter(
        primitive.bind(
            *test.consts,
            *test_values,
            *step.consts,
            *closed_over,
            *_joined(held[b - a :]),
            *_joined([held[i] for i in moved]),
            cond_jaxpr=ClosedJaxpr(condition, []),
            body_jaxpr=ClosedJaxpr(body, []),
            cond_nconsts=len(test.consts) + len(test_values),
            body_nconsts=own + len(closed_over),
        )
    )
    results = [_raise(t, out) for t in step.out_types]
    _put_back(_after_loop(step), values, out)
    return results


_RULES: dict[str, Callable[[Primitive, Sequence[Any], Params], list[Any]]] = {
    "jit": _call,
    "remat2": _call,
    "cond": _cond,
    "scan": _scan,
    "while": _while,
}
