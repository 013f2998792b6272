"""Forward and reverse mode for users: `jvp`, `linearize`, `vjp`, `grad`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.aval import ShapedArray, same_sharding, same_type
from xpr.core.context import context, named
from xpr.core.errors import shown
from xpr.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xpr.core.jaxpr_trace import JaxprTrace, trace_to_jaxpr
from xpr.core.trace import get_aval
from xpr.core.tracebacks import api_boundary
from xpr.core.wrapping import wraps
from xpr.interpreters.jvp import jvp_flat
from xpr.interpreters.linearize import linearize_flat
from xpr.interpreters.transpose import Linear, backward_pass
from xpr.interpreters.zeros import (
    Zero,
    cotangent_aval,
    instantiate,
    is_float0,
    ones,
    tangent_aval,
    zeros,
)
from xpr.transforms.arguments import (
    Argnums,
    FlatFunction,
    Selected,
    check_argnums,
    check_differentiable_input,
    check_leaf,
    check_real_output,
)
from xpr.transforms.jit import jit
from xpr.transforms.pullbacks import (
    Linearized,
    LinearProgram,
    Pullback,
    as_array,
)
from xpr.transforms.signature import name_of
from xpr.transforms.tracing import FIRST_ARGUMENT, abstractify, check_callable, check_function

# ---- forward mode


@api_boundary
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """The value of `fun` at `primals` and its derivative there in the direction `tangents`.

    `primals` and `tangents` are tuples or lists of the same structure, shapes and dtypes; tangents
    of integers and booleans have the dtype float0. Returns `(out, out_tangent)`, and the auxiliary
    data as a third when `has_aux` says that `fun` returns a pair `(out, aux)`.

    Raises TypeError where structures or dtypes differ, ValueError where shapes do.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jvp(lambda x: x ** 3, (2.0,), (1.0,))
    (Array(8., dtype=float32, weak_type=True), Array(12., dtype=float32, weak_type=True))
    """
    check_function(fun, "jvp")
    for name, value in (("primal", primals), ("tangent", tangents)):
        if not isinstance(value, (tuple, list)):
            raise TypeError(
                "primal and tangent arguments to xpr.jvp must be tuples or lists; found "
                f"{name}s of type {type(value).__name__}."
            )
    leaves, tree = tree_util.tree_flatten((tuple(primals), {}))
    moves, tangent_tree = tree_util.tree_flatten((tuple(tangents), {}))
    if tree != tangent_tree:
        raise TypeError(
            "primal and tangent arguments to xpr.jvp must have the same tree structure; primals "
            f"have tree structure {tree} whereas tangents have tree structure {tangent_tree}."
        )
    for p, t in zip(leaves, moves, strict=True):
        check_leaf(p, "jvp")
        check_leaf(t, "jvp")
        _check_tangent(p, t)
    moves = [Zero(get_aval(t)) if is_float0(get_aval(t)) else t for t in moves]
    flat = FlatFunction(fun, tree, has_aux)
    with named("jvp("):
        out, out_tangents = jvp_flat(flat, leaves, moves)
    tangent_leaves = [as_array(instantiate(t)) for t in out_tangents[: flat.count]]
    values = [as_array(x) for x in out[: flat.count]]
    result = flat.result(values), tree_util.tree_unflatten(flat.out_tree, tangent_leaves)
    return (*result, flat.aux(out)) if has_aux else result


def _check_tangent(primal: Any, tangent: Any) -> None:
    p, t = get_aval(primal), get_aval(tangent)
    expected = tangent_aval(p)
    if t.is_high or expected.is_high:
        if not same_type(t, expected):
            raise TypeError(
                "primal and tangent arguments to xpr.jvp do not match: a primal value of type "
                f"{p} has tangents of type {expected}, got {t}"
            )
        return
    if t.dtype != expected.dtype:
        raise TypeError(
            "primal and tangent arguments to xpr.jvp do not match; dtypes must be equal, or in "
            "case of int/bool primal dtype the tangent dtype must be float0. Got primal dtype "
            f"{p.dtype.name} and so expected tangent dtype {_dtype_name(expected)}, but got "
            f"tangent dtype {_dtype_name(t)} instead."
        )
    if t.shape != p.shape:
        raise ValueError(
            "jvp called with different primal and tangent shapes; Got primal shape "
            f"{p.shape} and tangent shape as {t.shape}"
        )


def _dtype_name(aval: ShapedArray) -> str:
    return "float0" if is_float0(aval) else aval.dtype.name


@api_boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `fun` at `primals`, and its derivative there as a function of tangents.

    Returns `(out, f_jvp)`: `f_jvp(*tangents)` gives what `jvp` would give as the tangent, without
    evaluating `fun` again. With `has_aux`, `(out, f_jvp, aux)`.

    >>> import xpr, xpr.numpy as jnp
    >>> y, derivative = xpr.linearize(jnp.sin, 0.0)
    >>> derivative(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    check_function(fun, "linearize")
    leaves, tree = tree_util.tree_flatten((primals, {}))
    for x in leaves:
        check_leaf(x, "linearize")
    flat = FlatFunction(fun, tree, has_aux)
    wanted = [not is_float0(tangent_aval(get_aval(x))) for x in leaves]
    out, linear, nonzero = linearize_flat(flat, leaves, wanted)
    out_avals = [tangent_aval(get_aval(x)) for x in out[: flat.count]]
    nonzero = nonzero[: flat.count]
    linear = _first_results(linear, sum(nonzero))
    f_jvp = _Pushforward(
        linear.consts,
        LinearProgram(
            fun,
            linear.jaxpr,
            tree_util.tree_structure(primals),
            tuple(get_aval(x) for x in leaves),
            tuple(wanted),
            flat.out_tree,
            tuple(out_avals),
            tuple(nonzero),
        ),
    )
    result = flat.result(out), f_jvp
    return (*result, flat.aux(out)) if has_aux else result


class _Pushforward(Linearized):
    """What `linearize` returns: maps tangents of the arguments to those of the results."""

    @property
    def func(self) -> Any:
        """The function without its residuals; its first bound argument is the linear jaxpr."""
        program = self.program
        return functools.partial(_evaluated, ClosedJaxpr(program.jaxpr, self.residuals))

    def __call__(self, *tangents: Any) -> Any:
        program = self.program
        moves, tangent_tree = tree_util.tree_flatten(tangents)
        if tangent_tree != program.in_tree:
            raise TypeError(
                f"linearized function called with tangents of tree structure {tangent_tree}, but "
                f"the primals have {program.in_tree}"
            )
        for p, t in zip(program.in_avals, moves, strict=True):
            _check_linear_tangent(p, t)
        given = [as_array(t) for t, w in zip(moves, program.wanted, strict=True) if w]
        found = iter(eval_jaxpr(program.jaxpr, self.residuals, *given))
        results = [
            as_array(next(found) if nz else zeros(a))
            for a, nz in zip(program.out_avals, program.nonzero, strict=True)
        ]
        return tree_util.tree_unflatten(program.out_tree, results)

    def __repr__(self) -> str:
        return f"<JVP function of {name_of(self.program.fun)}>"


def _evaluated(closed: ClosedJaxpr, *args: Any) -> Any:
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)


def _check_linear_tangent(p: ShapedArray, tangent: Any) -> None:
    t = get_aval(tangent)
    expected = tangent_aval(p)
    if not same_type(t, expected):
        raise ValueError(
            "linearized function called on tangent values inconsistent with the original primal "
            f"values:\nGot tangent aval {t.str_short()} for primal aval {p.str_short()} but "
            f"expected {expected.str_short()}"
        )


def _first_results(closed: ClosedJaxpr, count: int) -> ClosedJaxpr:
    """The program that returns only the first results."""
    return ClosedJaxpr(closed.jaxpr.replace(outvars=closed.jaxpr.outvars[:count]), closed.consts)


# ---- transposition and reverse mode


@api_boundary
def linear_transpose(
    fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Any] = ()
) -> Callable[..., Any]:
    """The transpose of a function that is linear in all its arguments.

    `primals` are arrays or ShapeDtypeStructs that give the types of the arguments. The result takes
    a cotangent of the type of `fun`'s result, and gives a tuple with a cotangent for each argument.

    It is a pytree, whose leaves are the arrays that `fun` closes over.

    Raises NotImplementedError for operations that are not linear, TypeError unless the types are
    all of floats and complex numbers, or all of integers.

    >>> import xpr
    >>> xpr.linear_transpose(lambda x, y: 2 * x - y, 1.0, 1.0)(3.0)
    (Array(6., dtype=float32, weak_type=True), Array(-3., dtype=float32, weak_type=True))
    """
    check_callable(fun, "linear_transpose", FIRST_ARGUMENT)
    if reduce_axes:
        raise NotImplementedError("linear_transpose: reduce_axes is deprecated and not supported")
    leaves, tree = tree_util.tree_flatten((primals, {}))
    avals = [abstractify(x) for x in leaves]
    flat = FlatFunction(fun, tree)
    closed = trace_to_jaxpr(flat, avals)
    out_avals = closed.out_avals
    known = {dtypes.kind(a.dtype) for a in (*avals, *out_avals)}
    if not (known <= {"f", "c"} or known <= {"i", "u"}):
        ins, outs = ([a.dtype.name for a in types] for types in (avals, out_avals))
        raise TypeError(
            "linear_transpose only supports [float or complex] -> [float or complex], and integer "
            f"-> integer functions, but got {ins} -> {outs}"
        )

    def transposed(consts: Sequence[Any], cotangent: Any) -> Any:
        cts, ct_tree = tree_util.tree_flatten(cotangent)
        if ct_tree != flat.out_tree:
            raise TypeError(
                f"cotangent tree does not match function output, expected {flat.out_tree} but got "
                f"{ct_tree} (linear_transpose of {name_of(fun)})"
            )
        for ct, a in zip(cts, out_avals, strict=True):
            check_leaf(ct, "the function that linear_transpose returns")
            found, expected = get_aval(ct), a if known <= {"i", "u"} else cotangent_aval(a)
            same = same_type(found, expected)
            if not same or not same_sharding(found, expected):
                raise TypeError(
                    f"cotangent type does not match function output, expected {expected} but got "
                    f"{found} (linear_transpose of {name_of(fun)})"
                )
        found = backward_pass(closed.jaxpr, consts, [Linear(a) for a in avals], cts)
        return tree_util.tree_unflatten(tree, [as_array(instantiate(ct)) for ct in found])[0]

    return tree_util.Partial(transposed, closed.consts)


@api_boundary
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Sequence[Any] = ()
) -> Any:
    """The value of `fun` at `primals`, and the function that pulls cotangents back.

    Returns `(out, f_vjp)`: `f_vjp(cotangent)` takes a cotangent of the structure and types of
    `out` and gives a tuple of cotangents, one for each of `primals`; those of integers have dtype
    float0. With `has_aux`, `(out, f_vjp, aux)`.

    `f_vjp.args_res` holds those arguments that the pullback depends on, and may be written to.
    `f_vjp.with_refs(*refs)` is the pullback that adds cotangents to references of the structure of
    `primals`; where these have `xpr.ad.DontWant()` there is none.

    >>> import xpr, xpr.numpy as jnp
    >>> y, pull = xpr.vjp(lambda a, b: a * b, 2.0, 3.0)
    >>> pull(1.0)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    check_function(fun, "vjp")
    if reduce_axes:
        raise NotImplementedError("vjp: reduce_axes is deprecated and not supported")
    out, pull, aux = _vjp(fun, primals, has_aux)
    pull.know_arguments(tree_util.tree_leaves(tuple(primals)))
    return (out, pull, aux) if has_aux else (out, pull)


def _vjp(fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool) -> tuple[Any, Any, Any]:
    leaves, tree = tree_util.tree_flatten((tuple(primals), {}))
    for x in leaves:
        check_leaf(x, "vjp")
    flat = FlatFunction(fun, tree, has_aux)
    in_avals = [get_aval(x) for x in leaves]
    wanted = [not is_float0(tangent_aval(a)) for a in in_avals]
    out, linear, nonzero = linearize_flat(flat, leaves, wanted)
    nonzero = nonzero[: flat.count]
    linear = _first_results(linear, sum(nonzero))
    pull = Pullback(
        linear.consts,
        LinearProgram(
            fun,
            linear.jaxpr,
            tree_util.tree_structure(tuple(primals)),
            tuple(in_avals),
            tuple(wanted),
            flat.out_tree,
            tuple(get_aval(x) for x in out[: flat.count]),
            tuple(nonzero),
        ),
    )
    return flat.result(out), pull, flat.aux(out) if has_aux else None


class _dropping_unused:
    """Lets a program that is being traced drop what is recorded here and never read.

    Reverse mode computes every value of a function but needs only some of them.
    """

    def __enter__(self) -> None:
        trace = context.trace
        self._trace = trace if isinstance(trace, JaxprTrace) else None
        self._start = 0 if self._trace is None else len(self._trace.eqns)

    def __exit__(self, *_: object) -> None:
        if self._trace is not None:
            self._trace.drop_unused(self._start)


P = ParamSpec("P")
R = TypeVar("R")


def value_and_grad(
    fun: Callable[P, R],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[P, tuple[R, Any]]:
    """A function that gives the value of `fun` and its gradient, evaluating `fun` once.

    `fun` gives a real scalar (a complex one with `holomorphic`). The gradient has the structure
    of the argument at `argnums`, or is a tuple of them for a sequence of positions. With `has_aux`
    `fun` returns a pair `(value, aux)`, and so is the first part of the result.

    Raises TypeError for results that are no real scalars and, unless `allow_int`, for integer
    arguments.

    >>> import xpr
    >>> xpr.value_and_grad(lambda x: x ** 2)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    return _value_and_grad(
        fun, argnums, has_aux, holomorphic, allow_int, reduce_axes, "value_and_grad"
    )


def _value_and_grad(
    fun: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    reduce_axes: Sequence[Any],
    what: str,
) -> Callable[..., Any]:
    check_function(fun, what)
    check_argnums(argnums, what)
    if reduce_axes:
        raise NotImplementedError(f"{what}: reduce_axes is deprecated and not supported")

    @api_boundary
    @wraps(fun)
    def value_and_grad_f(*args: Any, **kwargs: Any) -> Any:
        selected = Selected(fun, argnums, args, kwargs, what)
        for leaf in tree_util.tree_leaves(selected.dynamic):
            check_differentiable_input(leaf, "grad", holomorphic, allow_int)
        with _dropping_unused():
            value, pull, aux = _vjp(selected, selected.dynamic, has_aux)
            _check_scalar(value)
            check_real_output(value, "grad", holomorphic)
            gradient = pull(ones(cotangent_aval(get_aval(value))))
        gradient = gradient[0] if selected.alone else gradient
        return ((value, aux) if has_aux else value), gradient

    return value_and_grad_f


def _check_scalar(value: Any) -> None:
    message = "Gradient only defined for scalar-output functions. Output "
    try:
        aval = get_aval(value)
    except TypeError:
        raise TypeError(f"{message}was {shown(value)}.") from None
    if aval.is_high:
        raise TypeError(f"{message}had type: {aval}.")
    if aval.shape:
        raise TypeError(f"{message}had shape: {aval.shape}.")


@overload
def grad(
    fun: Callable[P, Any],
    argnums: Argnums = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[P, Any]: ...
@overload
def grad(
    fun: Callable[P, tuple[Any, R]],
    argnums: Argnums = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[P, tuple[Any, R]]: ...
@overload
def grad(
    fun: Callable[P, Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[P, Any]: ...
def grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """A function that gives the gradient of `fun`, which gives a real scalar.

    Options, structure of the result and errors as for `value_and_grad`; with `has_aux` the result
    is `(gradient, aux)`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.grad(lambda p: jnp.sum(p["w"] ** 2))({"w": jnp.array([1.0, 2.0])})
    {'w': Array([2., 4.], dtype=float32)}
    """
    both = _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes, "grad")

    @api_boundary
    @wraps(fun)
    def grad_f(*args: Any, **kwargs: Any) -> Any:
        with _dropping_unused():
            value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_f


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: Argnums, has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The two halves of reverse mode as functions that may be called at different times.

    `fwd(*args)` returns what `vjp` does for the arguments at `argnums`: the value and a pullback
    (and the auxiliary data, with `has_aux`). `bwd(pullback, cotangent)` returns the cotangent of
    the argument at `argnums`, a tuple of them for a sequence. Both are compiled unless `jitted` is
    False.

    >>> import xpr
    >>> fwd, bwd = xpr.fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    >>> value, pullback = fwd(2.0, 3.0)
    >>> bwd(pullback, 1.0)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    check_callable(fun, "fwd_and_bwd")
    check_argnums(argnums, "fwd_and_bwd")

    def fwd(*args: Any, **kwargs: Any) -> Any:
        selected = Selected(fun, argnums, args, kwargs, "fwd_and_bwd")
        return vjp(selected, *selected.dynamic, has_aux=has_aux)

    def bwd(pullback: Any, cotangent: Any) -> Any:
        found = pullback(cotangent)
        return found[0] if isinstance(argnums, int) else found

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
