"""Optimizers of single arrays, as optimizers of trees of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from xpr.tree_util import (
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_structure,
    tree_unflatten,
)


class OptimizerState(NamedTuple):
    """The states of all arrays: their leaves, the parameters' tree and the tree of each state.

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> type(optimizers.sgd(0.1).init_fn(jnp.ones(2))).__name__
    'OptimizerState'
    """

    packed_state: tuple[list[Any], ...]
    tree_def: Any
    subtree_defs: tuple[Any, ...]


class Optimizer(NamedTuple):
    """`init_fn(params)`, `update_fn(step, grads, state)` and `params_fn(state)`.

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> init, update, get_params = optimizers.sgd(0.1)
    >>> get_params(update(0, jnp.array([10.0]), init(jnp.array([3.0]))))
    Array([2.], dtype=float32)
    """

    init_fn: Callable[[Any], OptimizerState]
    update_fn: Callable[[Any, Any, OptimizerState], OptimizerState]
    params_fn: Callable[[OptimizerState], Any]


# The structures are no arrays, so that a state goes through `jit`.
register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda structures, children: OptimizerState(children[0], *structures),
)


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Makes an optimizer of arrays one of trees of arrays.

    `opt_maker(...)` gives three functions of single arrays: `init(x)`, the state, any tree of
    arrays; `update(step, gradient, state)`, the next one; and `get_params(state)`, the array. The
    decorated function gives an `Optimizer` of trees.

    Its `update_fn` raises TypeError if the gradients have another structure than the parameters, or
    if `update` gives a state of another structure.

    >>> import xpr.numpy as jnp
    >>> @optimizer
    ... def signs(step_size):
    ...     return lambda x: x, lambda i, g, x: x - step_size * jnp.sign(g), lambda x: x
    >>> init, update, get_params = signs(0.5)
    >>> get_params(update(0, {"w": jnp.array([3.0, -2.0])}, init({"w": jnp.zeros(2)})))
    {'w': Array([-0.5,  0.5], dtype=float32)}
    """

    @functools.wraps(opt_maker)
    def tree_maker(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def init_tree(params: Any) -> OptimizerState:
            leaves, tree = tree_flatten(params)
            return _packed([init(x) for x in leaves], tree)

        def update_tree(step: Any, grads: Any, state: OptimizerState) -> OptimizerState:
            gradients, tree = tree_flatten(grads)
            if tree != state.tree_def:
                raise TypeError(
                    "optimizer update function was passed a gradient tree that did not match the "
                    "parameter tree structure with which it was initialized: parameter tree "
                    f"{state.tree_def} and grad tree {tree}."
                )
            new = _packed(
                [update(step, g, s) for g, s in zip(gradients, _unpacked(state), strict=True)], tree
            )
            for before, after in zip(state.subtree_defs, new.subtree_defs, strict=True):
                if before != after:
                    raise TypeError(
                        "optimizer update function produced an output structure that did not match "
                        f"its input structure: input {before} and output {after}."
                    )
            return new

        def params_of_tree(state: OptimizerState) -> Any:
            return tree_unflatten(state.tree_def, [get_params(s) for s in _unpacked(state)])

        return Optimizer(init_tree, update_tree, params_of_tree)

    return tree_maker


class JoinPoint:
    """One leaf of a tree, for the outside; `subtree` is the tree that stands there.

    >>> from xpr import tree
    >>> from xpr.example_libraries.optimizers import JoinPoint
    >>> tree.leaves([JoinPoint((1, 2)), 3])
    [JoinPoint((1, 2)), 3]
    """

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __repr__(self) -> str:
        return f"JoinPoint({self.subtree!r})"


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The parameters' tree, with a `JoinPoint` of the state for each array: for saving it.

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> state = optimizers.momentum(0.1, 0.9).init_fn([jnp.ones(1)])
    >>> unpack_optimizer_state(state)
    [JoinPoint((Array([1.], dtype=float32), Array([0.], dtype=float32)))]
    """
    return tree_unflatten(opt_state.tree_def, [JoinPoint(s) for s in _unpacked(opt_state)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The state that `unpack_optimizer_state` made the tree of.

    Raises TypeError for a tree with other leaves than `JoinPoint`s.

    >>> import xpr.numpy as jnp
    >>> from xpr.example_libraries import optimizers
    >>> state = optimizers.sgd(0.1).init_fn(jnp.ones(2))
    >>> packed = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    >>> optimizers.sgd(0.1).params_fn(packed)
    Array([1., 1.], dtype=float32)
    """
    points, tree = tree_flatten(marked_pytree)
    for point in points:
        if not isinstance(point, JoinPoint):
            raise TypeError(f"pack_optimizer_state takes a tree of JoinPoints, found {point!r}")
    return _packed([point.subtree for point in points], tree)


def _packed(states: list[Any], tree: Any) -> OptimizerState:
    leaves = tuple(tree_leaves(s) for s in states)
    return OptimizerState(leaves, tree, tuple(tree_structure(s) for s in states))


def _unpacked(state: OptimizerState) -> list[Any]:
    pairs = zip(state.subtree_defs, state.packed_state, strict=True)
    return [tree_unflatten(structure, leaves) for structure, leaves in pairs]
