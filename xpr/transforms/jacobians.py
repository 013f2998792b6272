"""`jacfwd`, `jacrev`, `hessian`: whole matrices of derivatives, direction by direction."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.trace import get_aval
from xpr.core.tracebacks import api_boundary
from xpr.core.wrapping import wraps
from xpr.interpreters.batching import broadcast_batch
from xpr.primitives import _ops as ops
from xpr.primitives.creation import iota
from xpr.transforms.arguments import (
    Argnums,
    Selected,
    check_argnums,
    check_differentiable_input,
    check_leaf,
    check_real_output,
)
from xpr.transforms.derivatives import jvp, vjp
from xpr.transforms.tracing import check_function
from xpr.transforms.vmap import vmap


def jacfwd(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `fun` by forward mode: best for few inputs.

    The result has the structure of `fun`'s result, with the structure of the argument at `argnums`
    (a tuple of them for a sequence) in place of each leaf: for a result of shape `s` and an
    argument of shape `t` an array of shape `s + t`. With `has_aux`, `(jacobian, aux)`.

    Raises TypeError for arguments that are not real, or not complex with `holomorphic`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jacfwd(lambda x: x ** 2)(jnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_function(fun, "jacfwd")
    check_argnums(argnums, "jacfwd")

    @api_boundary
    @wraps(fun)
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        selected = Selected(fun, argnums, args, kwargs, "jacfwd")
        leaves, tree = tree_util.tree_flatten(selected.dynamic)
        for x in leaves:
            _check_forward_input(x, holomorphic)

        def push(*flat: Any) -> Any:
            return jvp(selected, selected.dynamic, tree_util.tree_unflatten(tree, flat), has_aux)

        found = vmap(push, out_axes=(None, -1, None) if has_aux else (None, -1))(
            *_basis([get_aval(x) for x in leaves])
        )
        value, moved = found[0], found[1]
        for x in tree_util.tree_leaves(value):
            _check_forward_output(x, holomorphic)
        shapes = [get_aval(x).shape for x in leaves]

        def spread(column: Any) -> Any:
            shape = get_aval(column).shape[:-1]
            parts = _split(column, [_size(s) for s in shapes], len(shape))
            blocks = [
                ops.reshape(p, (*shape, *s)) if (*shape, *s) != get_aval(p).shape else p
                for p, s in zip(parts, shapes, strict=True)
            ]
            tuples = tree_util.tree_unflatten(tree, blocks)
            return tuples[0] if selected.alone else tuples

        jacobian = tree_util.tree_map(spread, moved)
        return (jacobian, found[2]) if has_aux else jacobian

    return jacobian_of


def jacrev(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `fun` by reverse mode: best for few results.

    Structure of the result as for `jacfwd`.

    Raises TypeError for results that are not real, or not complex with `holomorphic`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jacrev(lambda x: jnp.sum(x ** 2))(jnp.array([1.0, 2.0]))
    Array([2., 4.], dtype=float32)
    """
    check_function(fun, "jacrev")
    check_argnums(argnums, "jacrev")

    @api_boundary
    @wraps(fun)
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        selected = Selected(fun, argnums, args, kwargs, "jacrev")
        for x in tree_util.tree_leaves(selected.dynamic):
            check_differentiable_input(x, "jacrev", holomorphic, allow_int)
        found = vjp(selected, *selected.dynamic, has_aux=has_aux)
        value, pull = found[0], found[1]
        leaves, tree = tree_util.tree_flatten(value)
        for x in leaves:
            check_real_output(x, "jacrev", holomorphic)
        avals = [get_aval(x) for x in leaves]

        def pull_flat(*flat: Any) -> Any:
            return pull(tree_util.tree_unflatten(tree, flat))

        pulled = vmap(pull_flat)(*_basis(avals))
        pulled = pulled[0] if selected.alone else pulled
        rows, row_tree = tree_util.tree_flatten(pulled)
        split = [_split(row, [_size(a.shape) for a in avals], 0) for row in rows]
        results = []
        for i, aval in enumerate(avals):
            blocks = []
            for parts in split:
                shape = (*aval.shape, *get_aval(parts[i]).shape[1:])
                blocks.append(ops.reshape(parts[i], shape))
            results.append(tree_util.tree_unflatten(row_tree, blocks))
        jacobian = tree_util.tree_unflatten(tree, results)
        return (jacobian, found[2]) if has_aux else jacobian

    return jacobian_of


def jacobian(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The function `jacrev` under its other name.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jacobian(lambda x: x**2)(jnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    return jacrev(fun, argnums, has_aux, holomorphic, allow_int)


def hessian(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """A function that gives the matrix of second derivatives of `fun`.

    Forward mode over reverse mode. For a scalar `fun` of an array of shape `t` the result has the
    shape `t + t`; structures nest as for `jacfwd`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.hessian(lambda x: jnp.sum(x ** 3))(jnp.array([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )


def _size(shape: Sequence[int]) -> int:
    return ShapedArray(tuple(shape), dtypes.default_dtype("f")).size


def _basis(avals: Sequence[ShapedArray]) -> list[Any]:
    """The standard basis of the space of such arrays: its n vectors along a new first axis."""
    sizes = [a.size for a in avals]
    total = sum(sizes)
    rows = iota(dtypes.default_dtype("i"), total)
    starts = itertools.accumulate([0, *sizes[:-1]])
    found = []
    for aval, start, size in zip(avals, starts, sizes, strict=True):
        own = iota(dtypes.default_dtype("i"), size)
        shifted = ops.add(own, get_aval(own).dtype.type(start)) if start else own
        hit = ops.eq(
            ops.broadcast_in_dim(rows, (total, size), (0,)), broadcast_batch(shifted, total)
        )
        block = ops.convert(hit, aval.dtype, aval.weak_type)
        found.append(ops.reshape(block, (total, *aval.shape)))
    return found


def _split(x: Any, sizes: Sequence[int], axis: int) -> list[Any]:
    """`x` cut along `axis` into pieces of those sizes."""
    if len(sizes) == 1:
        return [x]
    return list(ops.bind("split", x, sizes=tuple(sizes), axis=axis))


def _check_forward_input(x: Any, holomorphic: bool) -> None:
    check_leaf(x, "jacfwd")
    dtype = get_aval(x).dtype
    kind = dtypes.kind(dtype)
    if holomorphic and kind != "c":
        raise TypeError(
            "jacfwd with holomorphic=True requires inputs with complex dtype, but got "
            f"{dtype.name}."
        )
    if not holomorphic and kind != "f":
        raise TypeError(
            "jacfwd requires real-valued inputs (input dtype that is a sub-dtype of np.floating), "
            f"but got {dtype.name}. For holomorphic differentiation, pass holomorphic=True. For "
            "differentiation of non-holomorphic functions involving complex inputs or integer "
            "inputs, use xpr.jvp directly."
        )


def _check_forward_output(x: Any, holomorphic: bool) -> None:
    dtype = get_aval(x).dtype
    if holomorphic and not dtypes.is_complex(dtype):
        raise TypeError(
            "jacfwd with holomorphic=True requires outputs with complex dtype, but got "
            f"{dtype.name}."
        )
