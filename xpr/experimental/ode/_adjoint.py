"""Solutions with a gradient: the adjoint equation is solved backwards in time.

With the adjoint a(t) = dL/dy(t), da/dt = -a df/dy, and the gradient of the parameters grows by
a df/dp: Chen et al., "Neural ordinary differential equations" (2018). No values are kept but those
that are returned; between these the solution is computed again, backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.core.dtypes import float0
from xpr.experimental.ode._dormand_prince import Control, integrate
from xpr.flatten_util import ravel_pytree
from xpr.lax.loops import scan
from xpr.transforms.custom_vjp import custom_vjp
from xpr.transforms.derivatives import vjp
from xpr.transforms.jit import jit
from xpr.transforms.vmap import vmap
from xpr.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten


@partial(custom_vjp, nondiff_argnums=(0, 1))
def _solve(
    func: Callable[..., Any], control: Control, y0: Any, ts: Any, args: tuple[Any, ...]
) -> Any:
    """The trees y(t) for all `ts`, stacked; y' = `func(y, t, *args)`, of the types of `y0`."""
    flat, unravel = ravel_pytree(y0)

    def derivative(y: Any, t: Any) -> Any:
        return ravel_pytree(func(unravel(y), t, *args))[0]

    return vmap(unravel)(integrate(derivative, flat, ts, control))


def _forward(
    func: Callable[..., Any], control: Control, y0: Any, ts: Any, args: tuple[Any, ...]
) -> tuple[Any, Any]:
    ys = _solve(func, control, y0, ts, args)
    return ys, (ys, ts, args)


def _backward(
    func: Callable[..., Any], control: Control, residuals: Any, cotangents: Any
) -> tuple[Any, Any, Any]:
    ys, ts, args = residuals
    dynamics = _Adjoint(func)

    def at_time(i: int) -> tuple[Any, Any]:
        return tree_map(lambda y: y[i], ys), tree_map(lambda ct: ct[i], cotangents)

    def to_time_before(carry: Any, slice_: Any) -> tuple[Any, Any]:
        adjoint, of_args = carry
        y, cotangent, t, t_before = slice_
        of_time = _product(cotangent, func(y, t, *args), t.dtype)
        adjoint = tree_map(jnp.add, adjoint, cotangent)
        backwards = _solve(
            dynamics, control, (y, adjoint, of_args), jnp.stack([-t, -t_before]), args
        )
        _, adjoint, of_args = tree_map(lambda x: x[1], backwards)
        return (adjoint, of_args), of_time

    y_first, cotangent_first = at_time(0)
    zeros = tree_map(jnp.zeros_like, (y_first, _inexact(args)))
    rest = tree_map(lambda x: x[1:], (ys, cotangents))
    (adjoint, of_args), of_times = scan(
        to_time_before, zeros, (*rest, ts[1:], ts[:-1]), reverse=True
    )
    # A later start, from the same value: what comes is as if that value had been moved back.
    of_start = -_product(adjoint, func(y_first, ts[0], *args), ts.dtype)
    adjoint = tree_map(jnp.add, adjoint, cotangent_first)
    without = [np.zeros(jnp.shape(x), float0) for x in tree_leaves(args)]
    of_arguments = _replaced(args, without, of_args)
    return adjoint, jnp.concatenate([of_start[None], of_times]), of_arguments


_solve.defvjp(_forward, _backward)
solve = jit(_solve, static_argnums=(0, 1))


@dataclass(frozen=True)
class _Adjoint:
    """The derivative, in the time -t, of the state, its adjoint and that of the parameters."""

    func: Callable[..., Any]

    def __call__(self, state: Any, minus_t: Any, *args: Any) -> Any:
        y, adjoint, _ = state
        leaves = tree_leaves(args)
        slope, pullback = vjp(
            lambda y, parameters: self.func(y, -minus_t, *_replaced(args, leaves, parameters)),
            y,
            _inexact(args),
        )
        of_y, of_parameters = pullback(adjoint)
        return tree_map(jnp.negative, slope), of_y, of_parameters


def _places(leaves: list[Any]) -> list[int]:
    """Which leaves have derivatives."""
    return [i for i, x in enumerate(leaves) if jnp.issubdtype(jnp.result_type(x), jnp.inexact)]


def _inexact(tree: Any) -> list[Any]:
    leaves = tree_leaves(tree)
    return [leaves[i] for i in _places(leaves)]


def _replaced(tree: Any, others: list[Any], new: list[Any]) -> Any:
    """A tree of the leaves `others`, but for `new` where `tree` has leaves with derivatives."""
    leaves, structure = tree_flatten(tree)
    out = list(others)
    for i, x in zip(_places(leaves), new, strict=True):
        out[i] = x
    return tree_unflatten(structure, out)


def _product(cotangents: Any, slopes: Any, dtype: Any) -> Any:
    """How the cotangents change with time, if the values move with these slopes."""
    terms = [
        jnp.real(jnp.sum(ct * slope)).astype(dtype)
        for ct, slope in zip(tree_leaves(cotangents), tree_leaves(slopes), strict=True)
    ]
    return sum(terms, jnp.zeros((), dtype))
