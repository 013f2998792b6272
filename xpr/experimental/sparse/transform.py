"""Functions of arrays applied to sparse arrays, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import xpr.numpy as jnp
from xpr.core.aval import ShapedArray
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import get_aval
from xpr.core.wrapping import wraps
from xpr.experimental.sparse._array import BCOO, JAXSparse
from xpr.experimental.sparse._missing import missing_names
from xpr.experimental.sparse._rows import BCSR
from xpr.experimental.sparse.products import matmul as plain_matmul
from xpr.experimental.sparse.rows import bcsr_to_bcoo
from xpr.experimental.sparse.sparsify_rules import evaluate
from xpr.transforms import derivatives, jacobians
from xpr.transforms.arguments import FlatFunction
from xpr.transforms.tracing import check_callable
from xpr.tree_util import tree_flatten, tree_leaves, tree_structure, tree_unflatten


def is_sparse(x: Any) -> bool:
    """Whether `x` is a sparse array."""
    return isinstance(x, JAXSparse)


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """The function `f` of arrays, for sparse arrays.

    `f` is traced as for arrays, and its operations are applied to the sparse ones: products, sums,
    elementwise functions that are zero at zero, transposes, shapes, slices, and jitted functions of
    these. What would make a sparse array dense raises NotImplementedError. (JAX traces in another
    way with `use_tracer`; it has no effect here.)

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> sparse.sparsify(lambda x, v: jnp.sum(2 * x, axis=0) @ v)(m, jnp.ones(2))
    Array(12., dtype=float32)
    """
    del use_tracer
    check_callable(f, "sparsify")

    @wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs), is_leaf=is_sparse)
        leaves = [bcsr_to_bcoo(x) if isinstance(x, BCSR) else x for x in leaves]
        avals = [ShapedArray(x.shape, x.dtype) if is_sparse(x) else get_aval(x) for x in leaves]
        flat = FlatFunction(f, tree)
        return tree_unflatten_results(flat, evaluate(trace_to_jaxpr(flat, avals), leaves))

    return wrapped


def tree_unflatten_results(flat: FlatFunction, results: Sequence[Any]) -> Any:
    """The tree of results, some of which are sparse."""
    found = [x if is_sparse(x) else jnp.asarray(x) for x in results]
    return tree_unflatten(flat.out_tree, found)


def apply(function: Callable[..., Any], *operands: Any) -> Any:
    """An operator on sparse arrays."""
    return sparsify(function)(*operands)


def matmul(lhs: Any, rhs: Any) -> Any:
    """`lhs @ rhs`, one of which is sparse."""
    left, right = (
        bcsr_to_bcoo(x) if isinstance(x, BCSR) else x if is_sparse(x) else jnp.asarray(x)
        for x in (lhs, rhs)
    )
    found = plain_matmul(left, right)
    return apply(jnp.matmul, left, right) if found is None else found


# ---- derivatives with respect to the specified elements


def _of_data(
    transform: Callable[..., Any],
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    kwargs: dict[str, Any],
    restore: Callable[[Any, Any], Any],
) -> Callable[..., Any]:
    """`transform(fun)`, with sparse arrays in the place of their data."""
    places = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @wraps(fun)
    def derivative(*args: Any, **named: Any) -> Any:
        picked = tuple(args[i] for i in places)
        leaves, tree = tree_flatten(picked, is_leaf=is_sparse)

        def of_data(*data: Any, **named: Any) -> Any:
            values = [x.with_data(d) if is_sparse(x) else d
                      for x, d in zip(leaves, data, strict=True)]  # fmt: skip
            given = list(args)
            for i, value in zip(places, tree_unflatten(tree, values), strict=True):
                given[i] = value
            out = fun(*given, **named)
            structure[:] = [tree_structure(out[0] if has_aux else out)]
            return out

        structure: list[Any] = []
        data = [x.data if is_sparse(x) else x for x in leaves]
        transformed = transform(of_data, tuple(range(len(data))), has_aux=has_aux, **kwargs)
        found = transformed(*data, **named)

        def back(derivatives: Any) -> Any:
            """Of a result's derivatives by the leaves, a tuple, those by the arguments."""
            values = [restore(x, d) for x, d in zip(leaves, derivatives, strict=True)]
            by_argument = tree_unflatten(tree, values)
            return by_argument[0] if isinstance(argnums, int) else by_argument

        return back, found, structure[0]

    return derivative


def grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """As `xpr.grad`, with respect to the specified elements of sparse arrays.

    The gradient of a sparse array is a sparse array with the same indices.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> sparse.grad(lambda m: jnp.sum((m @ jnp.ones(2)) ** 2))(m).data
    Array([ 2., 10., 10.], dtype=float32)
    """
    inner = _of_data(derivatives.grad, fun, argnums, has_aux, kwargs, _gradient)

    @wraps(fun)
    def grad_f(*args: Any, **named: Any) -> Any:
        back, found, _ = inner(*args, **named)
        return (back(found[0]), found[1]) if has_aux else back(found)

    return grad_f


def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """As `xpr.value_and_grad`, with respect to the specified elements of sparse arrays.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([0.0, 1.0, 2.0]))
    >>> value, gradient = sparse.value_and_grad(lambda m: m @ jnp.arange(3.0))(m)
    >>> value, gradient.data
    (Array(5., dtype=float32), Array([1., 2.], dtype=float32))
    """
    inner = _of_data(derivatives.value_and_grad, fun, argnums, has_aux, kwargs, _gradient)

    @wraps(fun)
    def value_and_grad_f(*args: Any, **named: Any) -> Any:
        back, (value, gradient), _ = inner(*args, **named)
        return value, back(gradient)

    return value_and_grad_f


def _gradient(x: Any, d: Any) -> Any:
    return x.with_data(d) if is_sparse(x) else d


def _jacobian(x: Any, d: Any) -> Any:
    if not is_sparse(x):
        return d
    if not isinstance(x, BCOO):
        raise NotImplementedError(f"derivatives of arrays by {type(x).__name__} arrays: use BCOO")
    lead = d.shape[: d.ndim - x.data.ndim]
    indices = jnp.broadcast_to(x.indices, (*lead, *x.indices.shape))
    return BCOO((d, indices), shape=(*lead, *x.shape), **x.known())


def _of_results(
    transform: Callable[..., Any],
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    kwargs: dict[str, Any],
) -> Callable[..., Any]:
    inner = _of_data(transform, fun, argnums, has_aux, kwargs, _jacobian)

    @wraps(fun)
    def jacobian_f(*args: Any, **named: Any) -> Any:
        back, found, outer = inner(*args, **named)
        found, aux = found if has_aux else (found, None)
        leaves = tree_leaves(found)
        count = len(leaves) // max(outer.num_leaves, 1)
        groups = [leaves[i * count : (i + 1) * count] for i in range(outer.num_leaves)]
        made = tree_unflatten(outer, [back(g) for g in groups])
        return (made, aux) if has_aux else made

    return jacobian_f


def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """As `xpr.jacfwd`, with respect to the specified elements of BCOO arrays.

    The axes of the result become batch axes in front.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> sparse.jacfwd(lambda m: m @ jnp.ones(2))(m)
    BCOO(float32[2, 2, 2], nse=3, n_batch=1)
    """
    return _of_results(jacobians.jacfwd, fun, argnums, has_aux, kwargs)


def jacrev(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """As `xpr.jacrev`, with respect to the specified elements of BCOO arrays; see `jacfwd`.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([0.0, 2.0]))
    >>> sparse.jacrev(lambda m: (m * 3.0).todense())(m).todense().tolist()
    [[0.0, 0.0], [0.0, 3.0]]
    """
    return _of_results(jacobians.jacrev, fun, argnums, has_aux, kwargs)


jacobian = jacrev


__getattr__ = missing_names(__name__)
