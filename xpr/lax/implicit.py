"""Solutions of equations, differentiated by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import get_aval
from xpr.interpreters.jvp import jvp_flat
from xpr.interpreters.transpose import Linear, backward_pass
from xpr.interpreters.zeros import Zero, instantiate, zero_tangent
from xpr.lax._flat import Program, as_arrays, trace_program, with_consts
from xpr.primitives import _ops as ops
from xpr.primitives.custom import custom_jvp_call_p
from xpr.primitives.linear_solve import linear_solve_p
from xpr.transforms.derivatives import linearize
from xpr.transforms.tracing import check_callable

# ---- linear systems


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The solution `x` of `matvec(x) == b`, found by `solve(matvec, b)`.

    `matvec` is linear and maps a pytree like `b` to another; what it closes over is the matrix.
    `solve` may do anything, such as iterate, for it is not differentiated: derivatives with respect
    to `b` and to what `matvec` closes over are solutions of the same system, by `solve` again.
    Reverse mode needs `transpose_solve(vecmat, b)`, which solves the transposed system; with
    `symmetric`, `solve` does. With `has_aux` both return a pair of solution and auxiliary values,
    which have no derivative, and the pair is returned.

    Raises ValueError for results of other shapes than `b`, TypeError in reverse mode without
    `transpose_solve`.

    >>> import xpr, xpr.numpy as jnp
    >>> def root(d, b):
    ...     solve = lambda matvec, b: b / matvec(jnp.ones_like(b))  # the matrix is diagonal
    ...     return xpr.lax.custom_linear_solve(lambda x: d * x, b, solve, symmetric=True)
    >>> root(jnp.array([2.0, 4.0]), jnp.array([1.0, 1.0]))
    Array([0.5 , 0.25], dtype=float32)
    >>> xpr.grad(lambda d: root(d, jnp.ones(2)).sum())(jnp.array([2.0, 4.0]))
    Array([-0.25  , -0.0625], dtype=float32)
    """
    check_callable(matvec, "custom_linear_solve: matvec")
    check_callable(solve, "custom_linear_solve: solve")
    if transpose_solve is not None:
        check_callable(transpose_solve, "custom_linear_solve: transpose_solve")
    elif symmetric:
        transpose_solve = solve
    leaves, tree = tree_util.tree_flatten(b)
    avals = [get_aval(x) for x in as_arrays(leaves, "custom_linear_solve")]
    in_tree = tree_util.tree_structure((b,))

    def traced(fun: Callable[[Any], Any], what: str, aux: bool) -> Program:
        program = trace_program(fun, in_tree, avals, f"custom_linear_solve {what}")
        solved = program.out_avals
        if aux:
            count = _solution_of_pair(program, what).num_leaves
            solved = solved[:count]
        found, wanted = [a.shape for a in solved], [a.shape for a in avals]
        if found != wanted:
            raise ValueError(f"{what}() output shapes must match b, got {found} and {wanted}")
        return program

    programs = [
        traced(matvec, "matvec", False),
        traced(lambda y: solve(matvec, y), "solve", has_aux),
    ]
    if transpose_solve is not None:
        turned = transpose_solve
        back = programs[0] if symmetric else _transposed(programs[0])
        vecmat = _callable(back, tree)
        programs.append(back)
        programs.append(traced(lambda y: turned(vecmat, y), "transpose_solve", has_aux))
    closed, consts = with_consts(programs)
    out = linear_solve_p.bind(
        *consts,
        *leaves,
        matvec=closed[0],
        vecmat=closed[2] if transpose_solve is not None else None,
        solve=closed[1],
        transpose_solve=closed[3] if transpose_solve is not None else None,
        num_consts=len(consts),
    )
    count = len(leaves)
    x = tree_util.tree_unflatten(tree, out[:count])
    if not has_aux:
        return x
    aux_tree = programs[1].out_tree.children()[1]
    return x, tree_util.tree_unflatten(aux_tree, out[count:])


def _solution_of_pair(program: Program, what: str) -> Any:
    """The structure of the first of two results; ValueError if a program has no such two."""
    shown = program.out_tree
    pair = tree_util.tree_unflatten(shown, program.out_avals)
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ValueError(
            f"{what}() produced a pytree with structure {shown}, but a pytree tuple with auxiliary "
            "output was expected because has_aux was set to True."
        )
    return shown.children()[0]


def _transposed(program: Program) -> Program:
    """The transpose of a program that is linear in what follows its constants."""
    closed = program.closed
    count = len(program.consts)

    def flat(*args: Any) -> list[Any]:
        given = [
            ops.convert(ct, a.dtype) if get_aval(ct).dtype != a.dtype else ct
            for ct, a in zip(args[count:], closed.out_avals, strict=True)
        ]
        linear = [Linear(a) for a in closed.in_avals[count:]]
        found = backward_pass(closed.jaxpr, closed.consts, [*args[:count], *linear], given)
        return [instantiate(ct) for ct in found[count:]]

    return Program(trace_to_jaxpr(flat, closed.in_avals), program.consts, program.out_tree)


def _callable(program: Program, tree: Any) -> Callable[[Any], Any]:
    closed = program.closed

    def call(x: Any) -> Any:
        leaves = tree_util.tree_leaves(x)
        out = eval_jaxpr(closed.jaxpr, closed.consts, *program.consts, *leaves)
        return tree_util.tree_unflatten(tree, out)

    return call


# ---- roots


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """A root `x` of `f`, found by `solve(f, initial_guess)`.

    `solve` may do anything, for it is not differentiated: derivatives with respect to what `f`
    closes over follow from `f(x) == 0` by the implicit function theorem. There is none with respect
    to the guess. `tangent_solve(g, y)` returns the solution `v` of `g(v) == y`, where `g` is `f`
    linearised at the root; it must be linear in `y`, and for reverse mode be made of what can be
    transposed, such as `custom_linear_solve`. With `has_aux`, `solve` returns a pair of root and
    auxiliary values, which have no derivative, and the pair is returned.

    Raises TypeError if the results of the functions have not the structure (and those of `solve`
    and `tangent_solve` the shapes) of the guess.

    >>> import xpr
    >>> def sqrt(a):
    ...     def newton(f, x):
    ...         return xpr.lax.fori_loop(0, 8, lambda _, x: x - f(x) / xpr.grad(f)(x), x)
    ...     return xpr.lax.custom_root(lambda x: x * x - a, a, newton, lambda g, y: y / g(1.0))
    >>> xpr.value_and_grad(sqrt)(4.0)
    (Array(2., dtype=float32, weak_type=True), Array(0.25, dtype=float32, weak_type=True))
    """
    for name, fun in (("f", f), ("solve", solve), ("tangent_solve", tangent_solve)):
        check_callable(fun, f"custom_root: {name}")
    leaves, tree = tree_util.tree_flatten(initial_guess)
    avals = [get_aval(x) for x in as_arrays(leaves, "custom_root")]
    in_tree = tree_util.tree_structure((initial_guess,))
    shapes = [a.shape for a in avals]

    function = trace_program(f, in_tree, avals, "custom_root f")
    _check_tree("f", "initial_guess", function.out_tree, tree)
    solution = trace_program(lambda x: solve(f, x), in_tree, avals, "custom_root solve")
    found_tree = _solution_of_pair(solution, "solve") if has_aux else solution.out_tree
    _check_tree("solve", "initial_guess", found_tree, tree)
    count = len(leaves)
    roots = solution.out_avals[:count]
    _check_shapes("solve", "initial_guess", roots, shapes)

    def tangent(x: Any, y: Any) -> Any:
        _, g = linearize(f, x)
        return tangent_solve(g, y)

    both = tree_util.tree_structure((initial_guess, initial_guess))
    moving = trace_program(
        tangent, both, [*roots, *function.out_avals], "custom_root tangent_solve"
    )
    _check_tree("tangent_solve", "x", moving.out_tree, tree)
    _check_shapes("tangent_solve", "x", moving.out_avals, shapes)
    closed, consts = with_consts([function, solution, moving])
    out = _root(closed, len(consts), count, [*consts, *leaves])
    x = tree_util.tree_unflatten(tree, out[:count])
    if not has_aux:
        return x
    return x, tree_util.tree_unflatten(solution.out_tree.children()[1], out[count:])


def _check_tree(what: str, like: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise TypeError(
            f"{what}() output pytree structure must match {like}, got {found} and {wanted}."
        )


def _check_shapes(what: str, like: str, avals: Sequence[Any], wanted: Sequence[Any]) -> None:
    found = [a.shape for a in avals]
    if found != list(wanted):
        raise TypeError(
            f"{what}() output shapes must match {like}, got {found} and {list(wanted)}."
        )


def _root(
    programs: Sequence[ClosedJaxpr], num_consts: int, count: int, operands: Sequence[Any]
) -> list[Any]:
    """The root by the second of three programs, with a rule for its derivative by the others."""
    function, solution, moving = programs

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        out = _root(programs, num_consts, count, primals)
        x, consts = out[:count], primals[:num_consts]

        def at_root(*cs: Any) -> list[Any]:
            return eval_jaxpr(function.jaxpr, function.consts, *cs, *x)

        _, moved = jvp_flat(at_root, consts, tangents[:num_consts])
        none = [zero_tangent(v) for v in out]
        if all(type(t) is Zero for t in moved):
            return out, list(none)
        right = [instantiate(t) for t in moved]
        found = eval_jaxpr(moving.jaxpr, moving.consts, *consts, *x, *right)
        return out, [*(ops.neg(t) for t in found), *none[count:]]

    return list(
        custom_jvp_call_p.bind(
            *operands,
            call_jaxpr=solution,
            jvp=jvp,
            num_consts=0,
            name="custom_root",
            symbolic_zeros=True,
        )
    )
