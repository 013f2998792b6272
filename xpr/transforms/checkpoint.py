"""`checkpoint` (also called `remat`): compute intermediate values again instead of keeping them."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.config import state
from xpr.core.jaxpr import Literal, Var
from xpr.core.jaxpr_trace import hoist_consts, trace_to_jaxpr
from xpr.core.references import belongs_to_trace
from xpr.core.trace import Trace, context, get_aval
from xpr.core.tracebacks import api_boundary
from xpr.core.wrapping import wraps
from xpr.interpreters.linearize import linearize_jaxpr
from xpr.primitives.checkpoint import Policy, remat_p
from xpr.primitives.custom import name_p
from xpr.transforms.arguments import FlatFunction, check_leaf
from xpr.transforms.signature import argument_names, name_of
from xpr.transforms.tracing import check_callable, debug_info

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "print_saved_residuals"]


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    concrete: bool = False,
) -> Any:
    """`fun`, whose reverse mode keeps its arguments and computes intermediate values again.

    `policy` says which results are kept all the same, see `checkpoint_policies`; `prevent_cse`
    keeps the compiler from sharing the second computation with the first; arguments at
    `static_argnums` are passed as they are.

    >>> import xpr, xpr.numpy as jnp
    >>> f = xpr.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    >>> round(float(xpr.grad(f)(1.0)), 4)
    0.36
    """
    if fun is None:
        return functools.partial(
            checkpoint,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=static_argnums,
            concrete=concrete,
        )
    check_callable(fun, "checkpoint")
    if concrete:
        raise NotImplementedError(
            "The `concrete` option to `jax.checkpoint` was deprecated and removed. In its place "
            "please use `static_argnums`"
        )
    fixed = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @api_boundary
    @wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        places = {n + len(args) if n < 0 else n for n in fixed}
        for n in places:
            if not 0 <= n < len(args):
                raise ValueError(
                    f"the static_argnums of checkpoint name argument {n}, but {name_of(fun)} was "
                    f"called with {len(args)} positional arguments"
                )
        dynamic = tuple(a for i, a in enumerate(args) if i not in places)
        leaves, tree = tree_util.tree_flatten((dynamic, kwargs))
        for x in leaves:
            check_leaf(x, "checkpoint")

        def inner(*given: Any, **named: Any) -> Any:
            rest = iter(given)
            whole = [args[i] if i in places else next(rest) for i in range(len(args))]
            return fun(*whole, **named)

        statics = {i: args[i] for i in sorted(places)}
        avals = [get_aval(x) for x in leaves]
        known = None if Trace.any_high else _traces_of(fun)
        key = _trace_key(tree, statics, avals)
        found = None if known is None or key is None else known.get(key)
        if found is None:
            flat = FlatFunction(inner, tree)
            info = debug_info(fun, tree, statics, "checkpoint")
            traced = trace_to_jaxpr(flat, avals, info, deferred=True)
            found = (*hoist_consts(traced), flat.out_tree)
            if known is not None and key is not None and not any(map(belongs_to_trace, found[1])):
                known[key] = found
        closed, outer, out_tree = found
        out = remat_p.bind(
            *outer,
            *leaves,
            jaxpr=closed,
            prevent_cse=prevent_cse,
            differentiated=False,
            policy=policy,
        )
        return tree_util.tree_unflatten(out_tree, out)

    return checkpointed


# Programs of functions, as long as these live: eager calls would trace them each time.
_by_function: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


def clear() -> None:
    """Forgets what was traced."""
    _by_function.clear()


def _traces_of(fun: Any) -> dict[Any, Any] | None:
    try:
        return _by_function.setdefault(fun, {})
    except TypeError:  # not hashable, or no weak references
        return None


def _trace_key(tree: Any, statics: dict[int, Any], avals: Sequence[Any]) -> Any:
    """What a program depends on besides its function; None where a static value has no hash."""
    # Where nothing compiles the program, transfers in it are made at once.
    bound = context.axis_env, context.manual_axes, context.trace.runs_eagerly()
    values = tuple((i, type(x), x) for i, x in statics.items())
    key = (state.trace_key, bound, tree, values, *avals)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def checkpoint_name(x: Any, name: str) -> Any:
    """`x`, known to the policies of `checkpoint` by a name.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.ad_checkpoint import checkpoint_name
    >>> policy = xpr.checkpoint_policies.save_only_these_names("hidden")
    >>> f = xpr.checkpoint(lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "hidden")), policy=policy)
    >>> round(float(xpr.grad(f)(1.0)), 4)
    0.36
    """
    _known_names("checkpoint_name", (name,))
    return tree_util.tree_map(lambda leaf: name_p.bind(leaf, name=name), x)


# ---- policies


def _known_names(function: str, names: Sequence[str]) -> frozenset[str]:
    """The names; TypeError for a list of them, or an array, which no value would be called."""
    try:
        return frozenset(names)
    except TypeError:
        kinds = ", ".join(type(n).__name__ for n in names)
        raise TypeError(
            f"{function} takes names, one by one, which are strings; got {kinds}"
        ) from None


class checkpoint_policies:
    """What `checkpoint` keeps: functions of an operation that say whether its results are.

    >>> import xpr, xpr.numpy as jnp
    >>> keep_dots = xpr.checkpoint_policies.dots_saveable
    >>> f = xpr.checkpoint(lambda x: jnp.sin(x @ x), policy=keep_dots)
    >>> f(jnp.zeros(3))
    Array(0., dtype=float32)
    """

    @staticmethod
    def everything_saveable(*_: Any, **__: Any) -> bool:
        """Keeps everything, as if there were no checkpoint."""
        return True

    @staticmethod
    def nothing_saveable(*_: Any, **__: Any) -> bool:
        """Keeps nothing but the arguments: the default."""
        return False

    @staticmethod
    def dots_saveable(primitive: Any, *_: Any, **__: Any) -> bool:
        """Keeps the results of matrix products and convolutions."""
        return primitive.name in ("dot_general", "conv_general_dilated")

    checkpoint_dots = dots_saveable

    @staticmethod
    def dots_with_no_batch_dims_saveable(primitive: Any, *_: Any, **params: Any) -> bool:
        """Keeps the results of matrix products without batch dimensions."""
        if primitive.name != "dot_general":
            return False
        _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
        return not lhs_batch and not rhs_batch

    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

    @staticmethod
    def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
        """Keeps what `dots_with_no_batch_dims_saveable` keeps: there is one memory only."""
        del offload_src, offload_dst
        return checkpoint_policies.dots_with_no_batch_dims_saveable

    @staticmethod
    def save_any_names_but_these(*names: str) -> Policy:
        """Keeps values that have a name, but those with one of these."""
        known = _known_names("save_any_names_but_these", names)
        return lambda primitive, *_, **params: (
            primitive.name == "name" and params["name"] not in known
        )

    @staticmethod
    def save_only_these_names(*names: str) -> Policy:
        """Keeps values that have one of these names (see `checkpoint_name`)."""
        known = _known_names("save_only_these_names", names)
        return lambda primitive, *_, **params: primitive.name == "name" and params["name"] in known

    @staticmethod
    def save_anything_except_these_names(*names: str) -> Policy:
        """Keeps everything but values that have one of these names."""
        known = _known_names("save_anything_except_these_names", names)
        return lambda primitive, *_, **params: (
            not (primitive.name == "name" and params["name"] in known)
        )

    @staticmethod
    def save_from_both_policies(first: Policy, second: Policy) -> Policy:
        """Keeps what either policy keeps."""
        return lambda primitive, *avals, **params: bool(
            first(primitive, *avals, **params) or second(primitive, *avals, **params)
        )

    @staticmethod
    def save_and_offload_only_these_names(
        *,
        names_which_can_be_saved: Sequence[str],
        names_which_can_be_offloaded: Sequence[str],
        offload_src: str,
        offload_dst: str,
    ) -> Policy:
        """Keeps values that have one of the names: there is one memory only."""
        del offload_src, offload_dst
        return checkpoint_policies.save_only_these_names(
            *names_which_can_be_saved, *names_which_can_be_offloaded
        )


# ---- what reverse mode keeps


def print_saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Prints what reverse mode of `fun` keeps from the forward pass, a line for each array.

    >>> import xpr.numpy as jnp
    >>> print_saved_residuals(lambda x: x * x, 2.0)
    f32[] from the argument x
    """
    leaves, tree = tree_util.tree_flatten((args, kwargs))
    flat = FlatFunction(fun, tree)
    closed, outer = hoist_consts(trace_to_jaxpr(flat, [get_aval(x) for x in leaves]))
    split = linearize_jaxpr(closed, (True,) * (len(outer) + len(leaves))).split
    paths = [p for p, _ in tree_util.tree_flatten_with_path((args, kwargs))[0]]
    names = argument_names(fun, paths, tree_util.keystr, range(len(args)))
    known = split.known.jaxpr
    made_by = {v: eqn for eqn in known.eqns for v in eqn.outvars}
    returned = iter(known.outvars[len(closed.out_avals) :])
    for place in split.forwarded:
        if place is not None:
            aval = known.invars[place].aval
            name = names[place - len(outer)] if place >= len(outer) else "a constant"
            print(f"{aval.str_short()} from the argument {name}")
            continue
        v = next(returned)
        if isinstance(v, Literal):
            print(f"{v.aval.str_short()} from a literal")
        elif isinstance(v, Var) and v in made_by:
            eqn = made_by[v]
            what = f"output of {eqn.primitive.name}"
            if eqn.primitive is name_p:
                what = f"named {eqn.params['name']!r}"
            print(f"{v.aval.str_short()} {what} from {eqn.source_info}")
        else:
            print(f"{v.aval.str_short()} from a constant")
