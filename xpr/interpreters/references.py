"""Programs with references become programs on values: one pass over the jaxpr.

Evaluated under a trace that keeps no references, each reference is a cell: reading gives its
value, writing replaces that. An equation that holds programs (`jit`, `scan`, `cond`, `while`,
`checkpoint`) is bound with programs that take the values of its references, and give new values
for those that they write to: loops carry these. The pass is made where a program is about to run or
to be transformed; functions that are only traced keep their references.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.context import context
from xpr.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Var,
    bind_equation,
    eval_jaxpr,
    sub_jaxprs,
)
from xpr.core.jaxpr_trace import JaxprTrace, hoist_consts, trace_to_jaxpr
from xpr.core.primitive import Primitive, get_primitive
from xpr.core.references import AbstractRef, Discharged, Ref, read, uses_references, write
from xpr.core.trace import get_aval
from xpr.interpreters.caching import weak_jaxpr_cache

Params = dict[str, Any]


def has_references(params: Params) -> bool:
    """Whether the programs in an operation's parameters make, read or write references."""
    return any(uses_references(sub) for sub in sub_jaxprs(params))


class ProgramPrimitive(Primitive):
    """A primitive that holds programs, whose references are replaced unless they are recorded."""

    __slots__ = ()
    takes_references = True

    def bind(self, *args: Any, **params: Any) -> Any:
        trace = context.trace
        if not trace.keeps_refs and has_references(params):
            return bind_on_values(self, args, params)
        if trace.lowers and trace.any_high:
            from xpr.core.high import params_have_high  # noqa: PLC0415  only for high types
            from xpr.interpreters.high import bind_lowered  # noqa: PLC0415

            if params_have_high(params):
                # References are not made of arrays: they are replaced before.
                if has_references(params):
                    return bind_on_values(self, args, params)
                return bind_lowered(self, args, params)
        return super().bind(*args, **params)


@weak_jaxpr_cache
def discharged(closed: ClosedJaxpr, given: tuple[int, ...] = ()) -> Discharged:
    """A program without references; it gives values of those that `given` names in any case."""
    written: list[int] = []
    types = closed.in_avals

    def flat(*args: Any) -> list[Any]:
        trace: Any = context.trace
        trace.keeps_refs = False
        operands = [
            Ref(t, trace, x) if isinstance(t, AbstractRef) else x
            for t, x in zip(types, args, strict=True)
        ]
        out = _evaluate(closed, operands)
        cells = {i: x for i, x in enumerate(operands) if isinstance(x, Ref)}
        written.extend(i for i, x in cells.items() if x.written or i in given)
        trace.drop_unused(0)
        return [*out, *(cells[i].value for i in written)]

    avals = [t.inner_aval if isinstance(t, AbstractRef) else t for t in types]
    program = trace_to_jaxpr(flat, avals, closed.jaxpr.debug_info)
    program, consts = hoist_consts(program)
    return Discharged(program, consts, tuple(written))


@weak_jaxpr_cache
def without_references(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program, which is to run, without references; itself if it has none.

    Raises NotImplementedError if references are among its arguments or what it closes over: they
    are given to `jit`'s calls only.
    """
    if not uses_references(closed.jaxpr):
        return closed
    if any(isinstance(a, AbstractRef) for a in (*closed.in_avals, *map(get_aval, closed.consts))):
        raise NotImplementedError(
            f"{closed.jaxpr.debug_info.describe()} takes references or closes over them: such a "
            "program can be called and compiled ahead of time, but not exported or sharded"
        )
    found = discharged(closed)
    count = len(found.consts)
    jaxpr = found.closed.jaxpr
    return ClosedJaxpr(
        jaxpr.replace(constvars=jaxpr.invars[:count], invars=jaxpr.invars[count:]), found.consts
    )


def _evaluate(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Binds each equation; those with programs inside, on programs without references."""
    return eval_jaxpr(closed.jaxpr, closed.consts, *args, bind=_bind)


def _bind(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    if has_references(eqn.params):
        return bind_on_values(eqn.primitive, operands, eqn.params)
    return bind_equation(eqn, operands)


def vjp_call_on_values(
    trace: Any,
    primitive: Any,
    rules: tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]],
    args: Sequence[Any],
    params: Params,
) -> list[Any]:
    """A call of a `custom_vjp` function as one on the values of the cells that `trace` has.

    The function and its forward rule make cells of them, and return the new values behind their
    results. Raises NotImplementedError where a residual is such a reference: it would be written to
    after the transformation has ended.
    """
    fun, fwd, bwd = rules
    places = [i for i, x in enumerate(args) if type(x) is Ref and x.home is trace]
    count = len(places)

    def cells(values: Sequence[Any]) -> list[Any]:
        inner = list(values)
        for i in places:
            inner[i] = Ref(args[i].aval, context.trace, values[i])
        return inner

    def on_values(*values: Any) -> list[Any]:
        inner = cells(values)
        out = fun(*inner)
        return [*out, *(inner[i].value for i in places)]

    @functools.wraps(fwd)
    def forward(primals: Sequence[Any], perturbed: Sequence[bool]) -> Any:
        inner = cells(primals)
        residuals, out = fwd(inner, perturbed)
        if any(any(x is inner[i] for i in places) for x in residuals):
            raise NotImplementedError(
                f"vmap of the custom_vjp function {params['name']}: its forward rule returns a "
                "mapped reference as a residual; differentiate inside of vmap"
            )
        return residuals, [*out, *(inner[i].value for i in places)]

    @functools.wraps(bwd)
    def backward(residuals: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
        return bwd(residuals, cts[:-count])

    values = [x.value if i in places else x for i, x in enumerate(args)]
    out = trace.process_custom_vjp_call(primitive, on_values, forward, backward, values, params)
    for i, value in zip(places, out[-count:], strict=True):
        # The rules say nothing of how it depends on the operands.
        write(args[i], get_primitive("stop_gradient").bind(value))
    return list(out[:-count])


# ---- equations that hold programs


def bind_on_values(primitive: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    """Binds a primitive whose programs have references, and writes what they write.

    Raises ValueError for a reference that is among the operands twice, NotImplementedError for a
    primitive that cannot take references.
    """
    trace = context.trace
    transforms = trace is not context.eager and not isinstance(trace, JaxprTrace)
    if transforms and any(map(_has_rules_on_references, sub_jaxprs(params))):
        return _inlined(primitive, args, params)
    rule = _RULES.get(primitive.name)
    if rule is not None:
        return rule(primitive, args, params)
    if any(isinstance(x, Ref) for x in args):
        if primitive.name == "custom_vjp_call":  # about to run: its rules have no say any more
            closed: ClosedJaxpr = params["call_jaxpr"]
            return eval_jaxpr(closed.jaxpr, closed.consts, *args, bind=_bind)
        raise NotImplementedError(f"{primitive.name} cannot take references or close over them")
    changed = {k: _pure(v) for k, v in params.items()}
    return list(primitive.bind(*args, **changed))


def _has_rules_on_references(jaxpr: Jaxpr) -> bool:
    """Whether it calls a function with a derivative rule of its own on references."""
    return any(
        (
            eqn.primitive.name == "custom_vjp_call"
            and any(isinstance(v.aval, AbstractRef) for v in eqn.invars)
        )
        or any(map(_has_rules_on_references, sub_jaxprs(eqn.params)))
        for eqn in jaxpr.eqns
    )


def _inlined(primitive: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    """The program's equations under the current trace, whose rules get the references themselves.

    A program on values would have lost the rules. A scan is written out. Raises
    NotImplementedError for a long one, and for other loops and branches.
    """
    check_once(args, primitive.name)
    closed = params.get("jaxpr")
    if primitive.name in ("jit", "remat2") and isinstance(closed, ClosedJaxpr):
        return eval_jaxpr(closed.jaxpr, closed.consts, *args)
    if primitive.name == "scan" and params["length"] <= _MOST_WRITTEN_OUT:
        return _written_out(args, params) if params["length"] else _scan(primitive, args, params)
    raise NotImplementedError(
        f"{primitive.name} cannot be transformed when a custom_vjp function inside takes "
        "references: call that function outside of branches, shard_map and loops (but for scans "
        f"of at most {_MOST_WRITTEN_OUT} steps)"
    )


_MOST_WRITTEN_OUT = 256


def _written_out(args: Sequence[Any], params: Params) -> list[Any]:
    """The steps of a scan one after the other."""
    closed: ClosedJaxpr = params["jaxpr"]
    first, count = params["num_consts"], params["num_carry"]
    consts, carry, xs = args[:first], list(args[first : first + count]), args[first + count :]
    if any(isinstance(x, Ref) for x in xs):
        raise NotImplementedError(
            "scan over a reference cannot be transformed when a custom_vjp function inside takes "
            "references: let the body close over it"
        )
    steps = range(params["length"])
    stacks: list[list[Any]] = []
    for i in reversed(steps) if params["reverse"] else steps:
        out = eval_jaxpr(closed.jaxpr, closed.consts, *consts, *carry, *(_row(x, i) for x in xs))
        carry = out[:count]
        stacks.append(out[count:])
    if params["reverse"]:
        stacks.reverse()
    stack = get_primitive("stack")
    return [*carry, *(stack.bind(*column, axis=0) for column in zip(*stacks, strict=True))]


def _row(x: Any, i: int) -> Any:
    """`x[i]`, by operations that every trace has."""
    shape = get_aval(x).shape
    low, high = (i, *(0 for _ in shape[1:])), (i + 1, *shape[1:])
    row = get_primitive("slice").bind(x, start_indices=low, limit_indices=high, strides=None)
    return get_primitive("squeeze").bind(row, dimensions=(0,))


def _pure(value: Any) -> Any:
    if isinstance(value, ClosedJaxpr):
        return without_references(value)
    if isinstance(value, Jaxpr) and uses_references(value):
        raise NotImplementedError("references inside this operation's program are not supported")
    return type(value)(map(_pure, value)) if isinstance(value, (tuple, list)) else value


def value_of(x: Any) -> Any:
    """The value of a reference; anything else as it is."""
    return read(x) if isinstance(x, Ref) else x


def check_once(args: Sequence[Any], name: str) -> None:
    """ValueError for a reference that is among the operands of the primitive `name` twice."""
    seen: set[int] = set()
    for x in args:
        if isinstance(x, Ref):
            if id(x) in seen:
                raise ValueError(
                    "only one reference to a mutable array may be passed as an argument to a "
                    f"function, but {name} has the reference of type {x.aval} twice"
                )
            seen.add(id(x))


def written_back(
    args: Sequence[Any], written: Sequence[int], out: Sequence[Any], count: int
) -> list[Any]:
    """The first `count` results; the following ones are written to the references `written`."""
    for place, value in zip(written, out[count:], strict=True):
        write(args[place], value)
    return list(out[:count])


def _call(primitive: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    check_once(args, primitive.name)
    closed = params["jaxpr"]
    found = discharged(closed)
    params = params | {"jaxpr": found.closed}
    if "donated_invars" in params:
        params["donated_invars"] = (*(False for _ in found.consts), *params["donated_invars"])
    out = primitive.bind(*found.consts, *map(value_of, args), **params)
    return written_back(args, found.written, out, len(closed.out_avals))


def _cond(primitive: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    index, *operands = args
    check_once(operands, primitive.name)
    branches: Sequence[ClosedJaxpr] = params["branches"]
    written = tuple(sorted({i for b in branches for i in discharged(b).written}))
    found = [discharged(b, written) for b in branches]
    consts = [c for f in found for c in f.consts]
    programs = []
    for k, f in enumerate(found):
        # Each branch takes the constants of all.
        own = len(f.consts)
        before = [c for g in found[:k] for c in g.consts]
        after = [c for g in found[k + 1 :] for c in g.consts]
        jaxpr = f.closed.jaxpr
        invars = [
            *(Var(get_aval(c)) for c in before),
            *jaxpr.invars[:own],
            *(Var(get_aval(c)) for c in after),
            *jaxpr.invars[own:],
        ]
        programs.append(ClosedJaxpr(jaxpr.replace(invars=invars), []))
    out = primitive.bind(
        index, *consts, *map(value_of, operands), **(params | {"branches": tuple(programs)})
    )
    return written_back(operands, written, out, len(branches[0].out_avals))


def _scan(primitive: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    """What is written to is carried; of a reference that is scanned over, slices are results."""
    check_once(args, primitive.name)
    closed: ClosedJaxpr = params["jaxpr"]
    found = discharged(closed)
    first, carry_end = params["num_consts"], params["num_consts"] + params["num_carry"]
    carried = [i for i in found.written if i < first]
    sliced = [i for i in found.written if i >= carry_end]
    count, own = len(closed.out_avals), len(found.consts)
    n_carry = params["num_carry"]

    def arranged(items: Sequence[Any]) -> list[Any]:
        consts = [x for i, x in enumerate(items[:first]) if i not in carried]
        return [*consts, *items[first:carry_end], *(items[i] for i in carried), *items[carry_end:]]

    jaxpr = found.closed.jaxpr
    outs = jaxpr.outvars
    new = dict(zip(found.written, outs[count:], strict=True))
    step = jaxpr.replace(
        invars=[*jaxpr.invars[:own], *arranged(jaxpr.invars[own:])],
        outvars=[
            *outs[:n_carry],
            *(new[i] for i in carried),
            *outs[n_carry:count],
            *(new[i] for i in sliced),
        ],
    )
    changed = {
        "jaxpr": ClosedJaxpr(step, []),
        "num_consts": own + first - len(carried),
        "num_carry": n_carry + len(carried),
    }
    values = arranged([value_of(x) for x in args])
    out = primitive.bind(*found.consts, *values, **(params | changed))
    end = n_carry + len(carried)
    for i, value in zip(carried, out[n_carry:end], strict=True):
        write(args[i], value)
    rest = out[end:]
    results = [*out[:n_carry], *rest[: count - n_carry]]
    for i, value in zip(sliced, rest[count - n_carry :], strict=True):
        write(args[i], value)
    return results


def _while(primitive: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    """What the body writes to is carried; the condition may read it."""
    a = params["cond_nconsts"]
    b = a + params["body_nconsts"]
    test, step = discharged(params["cond_jaxpr"]), discharged(params["body_jaxpr"])
    if test.written:
        raise NotImplementedError("the condition of a while loop cannot write to references")
    check_once(args[:a], primitive.name)
    check_once(args[a:], primitive.name)
    carried = [a + i for i in step.written]
    refs = [args[i] for i in carried]

    own = len(test.consts)
    places = {id(args[i]): v for i, v in enumerate(test.closed.jaxpr.invars[own : own + a])}
    test_args = [x for x in args[:a] if not any(x is r for r in refs)]
    read_there = [places.get(id(r)) or Var(r.aval.inner_aval) for r in refs]
    kept = [v for v in test.closed.jaxpr.invars if not any(v is r for r in read_there)]
    condition = test.closed.jaxpr.replace(invars=[*kept, *read_there])

    own = len(step.consts)
    invars = step.closed.jaxpr.invars
    moved = [invars[own + i] for i in step.written]
    body = step.closed.jaxpr.replace(
        invars=[*(v for v in invars if not any(v is m for m in moved)), *moved]
    )
    step_args = [x for i, x in enumerate(args[a:b], a) if i not in carried]
    out = primitive.bind(
        *test.consts,
        *map(value_of, test_args),
        *step.consts,
        *map(value_of, step_args),
        *args[b:],
        *map(read, refs),
        cond_jaxpr=ClosedJaxpr(condition, []),
        body_jaxpr=ClosedJaxpr(body, []),
        cond_nconsts=len(test.consts) + len(test_args),
        body_nconsts=len(step.consts) + len(step_args),
    )
    return written_back(args, carried, out, len(args) - b)


OnValues = Callable[[Primitive, Sequence[Any], Params], list[Any]]


def register_on_values(name: str, rule: OnValues) -> None:
    """Says how a primitive of that name is bound on the values of references."""
    _RULES[name] = rule


_RULES: dict[str, OnValues] = {
    "jit": _call,
    "remat2": _call,
    "cond": _cond,
    "scan": _scan,
    "while": _while,
}
