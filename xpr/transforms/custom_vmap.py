"""`custom_vmap`: functions whose batching rule the user gives; `sequential_vmap`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.aval import without_dim
from xpr.core.jaxpr_trace import hoist_consts, trace_to_jaxpr
from xpr.core.trace import get_aval
from xpr.core.wrapping import like
from xpr.primitives.custom import custom_vmap_call_p
from xpr.primitives.scan import scan_p
from xpr.transforms.arguments import FlatFunction, check_leaf
from xpr.transforms.custom_calls import bound_arguments
from xpr.transforms.signature import name_of
from xpr.transforms.tracing import check_callable, debug_info

_RULES = ("defjvp", "defjvps", "defvjp")


class custom_vmap:
    """A function with a rule for `vmap`: `@custom_vmap`, then `f.def_vmap(rule)`.

    The rule takes `(axis_size, in_batched, *args)`: `in_batched` says of each array of the
    arguments whether it has a batch axis, which is then its first. It returns the result and,
    in the same structure, which of its arrays have one.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.custom_batching.custom_vmap
    ... def f(x):
    ...     return x + 1
    >>> @f.def_vmap
    ... def f_vmap(axis_size, in_batched, x):
    ...     return x + 10, in_batched[0]
    >>> xpr.vmap(f)(jnp.arange(3))
    Array([10, 11, 12], dtype=int32)
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        check_callable(fun, "custom_vmap")
        like(self, fun)
        self.fun = fun
        self.vmap_rule: Callable[..., Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _RULES:  # of the function inside: decorators may come in any order
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the rule and returns it, so that it can be a decorator."""
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = name_of(self.fun)
        args = bound_arguments(self.fun, args, kwargs, "custom_vmap")
        leaves, tree = tree_util.tree_flatten((args, {}))
        for x in leaves:
            check_leaf(x, f"the custom_vmap function {name}")
        if self.vmap_rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {name} using def_vmap."
            )
        flat = FlatFunction(self.fun, tree)
        info = debug_info(self.fun, tree, {}, "custom_vmap")
        closed = trace_to_jaxpr(flat, [get_aval(x) for x in leaves], info, deferred=True)
        closed, outer = hoist_consts(closed)
        rule = _flat_rule(self.vmap_rule, name, tree, flat)
        out = custom_vmap_call_p.bind(
            *outer, *leaves, call_jaxpr=closed, rule=rule, num_consts=len(outer), name=name
        )
        return flat.result(out)


def _flat_rule(
    rule: Callable[..., Any], name: str, in_tree: Any, flat: FlatFunction
) -> Callable[..., tuple[list[Any], list[bool]]]:
    out_tree = flat.out_tree

    def on_leaves(
        size: int, batched: Sequence[bool], leaves: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        args, _ = tree_util.tree_unflatten(in_tree, leaves)
        flags, _ = tree_util.tree_unflatten(in_tree, batched)
        who = f"the batching rule {name_of(rule)} of the custom_vmap function {name}"
        pair = rule(size, list(flags), *args)
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise TypeError(f"{who} must return a pair (result, which are batched), got {pair!r}")
        found, tree = tree_util.tree_flatten(pair[0])
        marks, mark_tree = tree_util.tree_flatten(pair[1])
        if tree != mark_tree:
            raise ValueError(
                "structure of output value and output batching specification returned by custom "
                f"vmap rule ({name_of(rule)}) do not match. They are {tree} and {mark_tree}"
            )
        if tree != out_tree:
            raise ValueError(
                f"structure of output returned by custom vmap rule ({name_of(rule)}) does not "
                f"match that of original custom-vmapped function. {who} must return results and "
                f"flags with the structure {out_tree}, got {tree} and {mark_tree}"
            )
        return found, [bool(mark) for mark in marks]

    return on_leaves


def sequential_vmap(fun: Callable[..., Any]) -> custom_vmap:
    """`fun` with a batching rule that applies it to one example after the other.

    >>> import xpr, xpr.numpy as jnp
    >>> f = xpr.custom_batching.sequential_vmap(lambda x: x + 1)
    >>> xpr.vmap(f)(jnp.arange(3))
    Array([1, 2, 3], dtype=int32)
    """
    function = custom_vmap(fun)

    def rule(axis_size: int, in_batched: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        leaves, tree = tree_util.tree_flatten(args)
        batched = tree_util.tree_leaves(tuple(in_batched))
        rows = [x for x, has_axis in zip(leaves, batched, strict=True) if has_axis]
        out_trees: list[Any] = []

        def one(*given: Any) -> list[Any]:
            row = iter(given)
            example = [
                next(row) if has_axis else x for x, has_axis in zip(leaves, batched, strict=True)
            ]
            out, out_tree = tree_util.tree_flatten(
                function(*tree_util.tree_unflatten(tree, example))
            )
            out_trees.append(out_tree)
            return out

        avals = [without_dim(get_aval(x), 0) for x in rows]
        closed, outer = hoist_consts(trace_to_jaxpr(one, avals))
        found = scan_p.bind(
            *outer,
            *rows,
            jaxpr=closed,
            length=axis_size,
            num_carry=0,
            num_consts=len(outer),
            reverse=False,
            unroll=1,
        )
        stacked = tree_util.tree_unflatten(out_trees[-1], found)
        return stacked, tree_util.tree_map(lambda _: True, stacked)

    function.def_vmap(rule)
    return function
