"""Evaluates a program and finds its errors; programs inside it give errors of their own.

A program inside another is rewritten once, to one that gives its error state in front of its
results. It takes no error state: whoever calls it keeps the earlier error of the two.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xpr import lax
from xpr.core.context import context
from xpr.core.jaxpr import ClosedJaxpr, Var, eval_closed, literal_operand
from xpr.core.jaxpr_trace import hoist_consts, trace_to_jaxpr
from xpr.core.primitive import Primitive
from xpr.experimental.checkify.automatic import CHECKS
from xpr.experimental.checkify.errors import Categories
from xpr.experimental.checkify.state import (
    Error,
    Slot,
    enabled_part,
    filled,
    init_error,
    is_silent,
    merged,
)
from xpr.interpreters.caching import weak_jaxpr_cache
from xpr.interpreters.zeros import zero_tangent
from xpr.primitives._shard_bodies import inside
from xpr.tree_util import PyTreeDef, tree_flatten, tree_unflatten

Found = tuple[Error, Sequence[Any]]
Rule = Callable[[Primitive, Sequence[Any], dict[str, Any], Categories], Found]
"""How an equation that holds programs is evaluated: its error and its results."""


def evaluate(closed: ClosedJaxpr, enabled: Categories, args: Sequence[Any]) -> Found:
    """The first error of a program on `args`, and its results."""
    jaxpr = closed.jaxpr
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    error = init_error
    outer = context.source
    try:
        for eqn in jaxpr.eqns:
            operands = [env[v] if isinstance(v, Var) else literal_operand(v) for v in eqn.invars]
            context.source = eqn.source_info
            found, results = _evaluate_eqn(eqn.primitive, operands, eqn.params, enabled)
            error = merged(error, found)
            env.update(zip(eqn.outvars, results, strict=True))
    finally:
        context.source = outer
    return error, [env[v] if isinstance(v, Var) else v.val for v in jaxpr.outvars]


def _evaluate_eqn(
    primitive: Primitive, operands: Sequence[Any], params: dict[str, Any], enabled: Categories
) -> Found:
    rule = _RULES.get(primitive.name)
    if rule is not None:
        return rule(primitive, operands, params, enabled)
    results = _bound(primitive, operands, params)
    check = CHECKS.get(primitive.name)
    if check is None:
        return init_error, results
    return check(primitive, operands, params, results, enabled), results


def _bound(primitive: Primitive, operands: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    found = primitive.bind(*operands, **params)
    return found if primitive.multiple_results else [found]


# ---- programs inside programs


@dataclass(frozen=True, eq=False)
class Checked:
    """A program that gives the leaves of its error, a tree `tree`, in front of its results.

    `consts` are operands in front of the others.
    """

    closed: ClosedJaxpr
    consts: list[Any]
    tree: PyTreeDef
    slots: tuple[Slot, ...]
    silent: bool
    """Whether the program cannot fail."""

    def split(self, out: Sequence[Any]) -> Found:
        count = self.tree.num_leaves
        return tree_unflatten(self.tree, out[:count]), list(out[count:])

    def __call__(self, *args: Any) -> Found:
        return self.split(eval_closed(self.closed, [*self.consts, *args]))

    def no_error(self) -> list[Any]:
        """The leaves of an error state of this structure that holds none."""
        return tree_flatten(filled(init_error, self.slots))[0]


@weak_jaxpr_cache
def checked(closed: ClosedJaxpr, enabled: Categories) -> Checked:
    """The program with its errors as results."""
    found: list[tuple[Any, tuple[Any, ...], bool]] = []

    def flat(*args: Any) -> list[Any]:
        error, out = evaluate(closed, enabled, args)
        leaves, tree = tree_flatten(error)
        # What is kept holds no tracer of this program.
        found.append((tree, tuple(error._payloads), is_silent(error)))
        return [*leaves, *out]

    program = trace_to_jaxpr(flat, closed.in_avals, closed.jaxpr.debug_info)
    program, consts = hoist_consts(program)
    return Checked(program, consts, *found[0])


def _check(
    primitive: Primitive, operands: Sequence[Any], params: dict[str, Any], enabled: Categories
) -> Found:
    del primitive
    return enabled_part(tree_unflatten(params["err_tree"], operands), enabled), []


def _call(
    primitive: Primitive, operands: Sequence[Any], params: dict[str, Any], enabled: Categories
) -> Found:
    """Of `jit` and `checkpoint`."""
    inner = checked(params["jaxpr"], enabled)
    if inner.silent:
        return init_error, _bound(primitive, operands, params)
    params = params | {"jaxpr": inner.closed}
    if "donated_invars" in params:
        params["donated_invars"] = (*(False for _ in inner.consts), *params["donated_invars"])
    return inner.split(primitive.bind(*inner.consts, *operands, **params))


def _cond(
    primitive: Primitive, operands: Sequence[Any], params: dict[str, Any], enabled: Categories
) -> Found:
    branches = [checked(b, enabled) for b in params["branches"]]
    if all(b.silent for b in branches):
        return init_error, _bound(primitive, operands, params)
    slots = [s for b in branches for s in b.slots]

    def function(branch: Checked) -> Callable[..., Found]:
        def run(*args: Any) -> Found:
            error, out = branch(*args)
            return filled(error, slots), out

        return run

    index, *args = operands
    return lax.switch(index, [function(b) for b in branches], *args)


def _scan(
    primitive: Primitive, operands: Sequence[Any], params: dict[str, Any], enabled: Categories
) -> Found:
    step = checked(params["jaxpr"], enabled)
    if step.silent:
        return init_error, _bound(primitive, operands, params)
    n, held = params["num_consts"], params["num_consts"] + params["num_carry"]
    consts, start, xs = operands[:n], list(operands[n:held]), list(operands[held:])

    def body(carry: Any, x: Any) -> Any:
        error, values = carry
        found, out = step(*consts, *values, *x)
        return (merged(error, found), out[: held - n]), out[held - n :]

    (error, carry), ys = lax.scan(
        body,
        (filled(init_error, step.slots), start),
        xs,
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return error, [*carry, *ys]


def _while(
    primitive: Primitive, operands: Sequence[Any], params: dict[str, Any], enabled: Categories
) -> Found:
    test = checked(params["cond_jaxpr"], enabled)
    step = checked(params["body_jaxpr"], enabled)
    if test.silent and step.silent:
        return init_error, _bound(primitive, operands, params)
    a = params["cond_nconsts"]
    b = a + params["body_nconsts"]
    test_consts, step_consts, start = operands[:a], operands[a:b], list(operands[b:])

    def goes_on(state: Any) -> Any:
        return test(*test_consts, *state[1])[1][0]

    def body(state: Any) -> Any:
        error, values = state
        found, values = step(*step_consts, *values)
        after, _ = test(*test_consts, *values)
        return filled(merged(error, merged(found, after)), slots), values

    # The condition is evaluated once before the first step, then after each.
    slots = (*test.slots, *step.slots)
    first, _ = test(*test_consts, *start)
    return lax.while_loop(goes_on, body, (filled(first, slots), start))


def _custom_jvp(
    primitive: Primitive, operands: Sequence[Any], params: dict[str, Any], enabled: Categories
) -> Found:
    """The function is checked; its rule, which stands for it in derivatives, is not."""
    inner = checked(params["call_jaxpr"], enabled)
    if inner.silent:
        return init_error, _bound(primitive, operands, params)
    rule = params["jvp"]

    @functools.wraps(rule)
    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        out, moved = rule(primals, tangents)
        none = inner.no_error()
        return [*none, *out], [*map(zero_tangent, none), *moved]

    count = len(inner.consts) + params["num_consts"]
    params = params | {"call_jaxpr": inner.closed, "jvp": jvp, "num_consts": count}
    return inner.split(primitive.bind(*inner.consts, *operands, **params))


def _custom_vjp(
    primitive: Primitive, operands: Sequence[Any], params: dict[str, Any], enabled: Categories
) -> Found:
    """The function is checked; its rules, which stand for it in derivatives, are not."""
    inner = checked(params["call_jaxpr"], enabled)
    if inner.silent:
        return init_error, _bound(primitive, operands, params)
    forward, backward = params["fwd"], params["bwd"]

    @functools.wraps(forward)
    def fwd(primals: Sequence[Any], perturbed: Sequence[bool]) -> Any:
        residuals, out = forward(primals, perturbed)
        return residuals, [*inner.no_error(), *out]

    @functools.wraps(backward)
    def bwd(residuals: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
        return backward(residuals, cts[inner.tree.num_leaves :])

    count = len(inner.consts) + params["num_consts"]
    params = params | {"call_jaxpr": inner.closed, "fwd": fwd, "bwd": bwd, "num_consts": count}
    return inner.split(primitive.bind(*inner.consts, *operands, **params))


def _shard_map(
    primitive: Primitive, operands: Sequence[Any], params: dict[str, Any], enabled: Categories
) -> Found:
    with inside(params):
        silent = checked(params["jaxpr"], enabled).silent
    if not silent:
        raise NotImplementedError(
            "checkify does not look inside shard_map: the devices' errors have no common value. "
            "Call checkify inside the function that is given to shard_map, and return the error "
            "with a spec for each device."
        )
    return init_error, _bound(primitive, operands, params)


_RULES: dict[str, Rule] = {
    "check": _check,
    "jit": _call,
    "remat2": _call,
    "cond": _cond,
    "scan": _scan,
    "while": _while,
    "custom_jvp_call": _custom_jvp,
    "custom_vjp_call": _custom_vjp,
    "shard_map": _shard_map,
}
