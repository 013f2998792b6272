"""Loops that are part of a program: `scan`, `while_loop`, `fori_loop`, `map` and others."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.errors import shown
from xpr.core.references import slice_of_ref
from xpr.core.trace import Tracer, get_aval
from xpr.core.tracebacks import api_boundary
from xpr.lax._flat import (
    Program,
    argument_name,
    as_arrays,
    check_carry,
    promote_weak,
    trace_program,
)
from xpr.primitives import _ops as ops
from xpr.primitives.convert import convert_element_type
from xpr.primitives.joining import concatenate
from xpr.primitives.scan import scan_p
from xpr.primitives.shape import pad
from xpr.primitives.slicing import index_in_dim, slice_in_dim
from xpr.primitives.while_loop import while_p
from xpr.transforms.reference_arguments import check_references, has_references
from xpr.transforms.signature import name_of
from xpr.transforms.tracing import check_callable
from xpr.transforms.vmap import vmap


@api_boundary
def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """Applies `f` to one slice of `xs` after another, and carries a value along.

    `f(carry, x)` returns a pair `(carry, y)`; the carry keeps its structure, shapes and dtypes.
    `xs` is a pytree of arrays of shape `(length, ...)`, or None with `length`. Returns the last
    carry and the `y`s stacked along a first axis. `reverse` begins with the last slice (and its
    `y` is the last); `unroll` steps are written out for each turn of the compiled loop, all of them
    for True and for 0.

    Raises TypeError for a carry that changes its type or an `f` that returns no pair, ValueError
    for lengths that disagree.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.lax.scan(lambda c, x: (c + x, c * x), 0.0, jnp.arange(4.0))
    (Array(6., dtype=float32), Array([0., 0., 2., 9.], dtype=float32))
    """
    del _split_transpose  # how a compiler may arrange the reverse pass, with no other effect
    if not callable(f):
        raise TypeError(f"lax.scan: f argument should be a callable. Got {shown(f)}.")
    check_callable(f, "lax.scan")
    x_leaves, x_tree = tree_util.tree_flatten(xs)
    steps = _length(as_arrays(x_leaves, "scan"), length)
    init_leaves, init_tree = tree_util.tree_flatten(init)
    carry = as_arrays(init_leaves, "scan")
    per_turn = _unroll(unroll, steps)
    if state.disable_jit:
        return _scan_in_python(f, init, x_leaves, x_tree, steps, reverse)
    referring = has_references((*init_leaves, *x_leaves))
    if referring:
        check_references("scan", f, (init, xs))
    x_avals = [_slice_aval(get_aval(x), steps) for x in x_leaves]
    in_tree = tree_util.tree_structure((init, xs))

    def trace(carry: Sequence[Any]) -> Program:
        return trace_program(f, in_tree, [*(get_aval(c) for c in carry), *x_avals], "scan")

    program = trace(carry)
    if referring:
        check_references("scan", f, (init, xs), consts=program.consts)
    carry_tree, y_tree = _pair_of_trees(program)
    count = carry_tree.num_leaves
    if carry_tree == init_tree:
        wider = promote_weak(carry, program.out_avals[:count])
        if wider is not None:
            carry = wider
            program = trace(carry)
    name = argument_name(f, 0, "carry")
    avals = [get_aval(c) for c in carry]
    check_carry("scan body", name, init_tree, avals, carry_tree, program.out_avals[:count])
    out = scan_p.bind(
        *program.consts,
        *carry,
        *x_leaves,
        jaxpr=program.closed,
        length=steps,
        reverse=bool(reverse),
        num_carry=count,
        num_consts=len(program.consts),
        unroll=per_turn,
    )
    return (
        tree_util.tree_unflatten(carry_tree, out[:count]),
        tree_util.tree_unflatten(y_tree, out[count:]),
    )


def _pair_of_trees(program: Program) -> tuple[Any, Any]:
    children = program.out_tree.children()
    dummy = tree_util.tree_unflatten(program.out_tree, program.out_avals)
    if not isinstance(dummy, (tuple, list)) or len(children) != 2:
        raise TypeError(f"scan body output must be a pair, got {dummy}.")
    return children[0], children[1]


def _slice_aval(aval: Any, steps: int) -> Any:
    if aval.has_qdd:
        raise TypeError(f"scan cannot scan over a value of the mutable type {aval.aval}")
    if aval.is_high:
        return aval.dec_rank(steps, aval.leading_axis_spec())
    if aval.sharding is not None and aval.sharding.normalized_spec(aval.ndim)[0]:
        raise ValueError(
            f"0th dimension of all xs should be replicated. Got {aval.sharding.spec} of the type "
            f"{aval}: reshard it with xpr.sharding.reshard"
        )
    return slice_of_ref(aval)


def _length(leaves: Sequence[Any], length: int | None) -> int:
    sizes = []
    for x in leaves:
        if get_aval(x).is_high:
            continue
        shape = get_aval(x).shape
        if not shape:
            raise ValueError("scan got value with no leading axis to scan over: a rank-0 array")
        sizes.append(shape[0])
    if length is not None:
        try:
            wanted = operator.index(length)
        except TypeError:
            raise TypeError(
                f"scan: length must be an integer known when tracing, got {length!r}"
            ) from None
        if wanted < 0:
            raise ValueError(f"scan got a negative length: {wanted}")
        if any(size != wanted for size in sizes):
            raise ValueError(
                f"scan got `length` argument of {wanted} which disagrees with leading axis sizes "
                f"{sizes}."
            )
        return wanted
    if not sizes:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    if len(set(sizes)) > 1:
        shown = ", ".join(str(size) for size in sizes)  # `map` is a loop of this module
        raise ValueError(f"scan got values with different leading axis sizes: {shown}.")
    return sizes[0]


def _unroll(unroll: int | bool, steps: int) -> int:
    if isinstance(unroll, bool):
        return max(steps, 1) if unroll else 1
    # As JAX does, for 1.5 turns mean nothing.
    unroll = operator.index(unroll)
    if unroll < 0:
        raise ValueError(f"`unroll` must be a `bool` or a non-negative `int`. Got {unroll}.")
    return unroll


def _scan_in_python(
    f: Callable[..., Any], carry: Any, leaves: Sequence[Any], tree: Any, steps: int, reverse: bool
) -> tuple[Any, Any]:
    """`scan` step by step, for `disable_jit`."""
    if steps == 0:
        raise ValueError("zero-length scan is not supported in disable_jit() mode")
    ys = []
    for i in reversed(range(steps)) if reverse else range(steps):
        x = tree_util.tree_unflatten(tree, [index_in_dim(v, i, keepdims=False) for v in leaves])
        carry, y = f(carry, x)
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, tree_util.tree_map(lambda *parts: _stack(parts), *ys)


def _stack(parts: Sequence[Any]) -> Any:
    rows = [ops.reshape(p, (1, *get_aval(p).shape)) for p in parts]
    return concatenate(rows, 0)


# ---- loops with a condition


@api_boundary
def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Repeats `val = body_fun(val)` as long as `cond_fun(val)` holds, beginning with `init_val`.

    The value is a pytree that keeps its structure, shapes and dtypes; the condition gives a boolean
    scalar. Forward-mode derivatives work, reverse mode does not.

    Raises TypeError for a value that changes its type or a condition that is no boolean scalar.

    >>> import xpr
    >>> xpr.lax.while_loop(lambda x: x < 100, lambda x: x * 2, 3)
    Array(192, dtype=int32, weak_type=True)
    """
    if not (callable(body_fun) and callable(cond_fun)):
        raise TypeError(
            "lax.while_loop: body_fun and cond_fun arguments should be callable. Got "
            f"{shown(body_fun)} and {shown(cond_fun)}."
        )
    check_callable(cond_fun, "lax.while_loop")
    check_callable(body_fun, "lax.while_loop")
    leaves, tree = tree_util.tree_flatten(init_val)
    carry = as_arrays(leaves, "while_loop")
    if state.disable_jit and not any(isinstance(x, Tracer) for x in leaves):
        value = init_val
        while cond_fun(value):
            value = body_fun(value)
        return value
    in_tree = tree_util.tree_structure((init_val,))

    def trace(fun: Callable[..., Any], what: str) -> Program:
        return trace_program(fun, in_tree, [get_aval(c) for c in carry], what)

    body = trace(body_fun, "while_body")
    if body.out_tree == tree:
        wider = promote_weak(carry, body.out_avals)
        if wider is not None:
            carry = wider
            body = trace(body_fun, "while_body")
    condition = trace(cond_fun, "while_cond")
    _check_condition(condition)
    name = argument_name(body_fun, 0, "carry")
    avals = [get_aval(c) for c in carry]
    check_carry("while_loop body", name, tree, avals, body.out_tree, body.out_avals)
    out = while_p.bind(
        *condition.consts,
        *body.consts,
        *carry,
        cond_jaxpr=condition.closed,
        body_jaxpr=body.closed,
        cond_nconsts=len(condition.consts),
        body_nconsts=len(body.consts),
    )
    return tree_util.tree_unflatten(tree, out)


def _check_condition(condition: Program) -> None:
    avals = condition.out_avals
    if not tree_util.treedef_is_leaf(condition.out_tree):
        raise TypeError(
            "cond_fun must return a boolean scalar, but got pytree "
            f"{tree_util.tree_unflatten(condition.out_tree, avals)}."
        )
    if avals[0].shape or avals[0].dtype != np.bool_:
        raise TypeError(f"cond_fun must return a boolean scalar, but got output type(s) {avals}.")


@api_boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Repeats `val = body_fun(i, val)` for `i` from `lower` up to but not including `upper`.

    Bounds that are known when tracing make a loop of fixed length, a `scan`, which reverse mode
    differentiates and which `unroll` may write out; others make a `while_loop`. Bounds that are
    known may be floats or booleans: their integer parts count.

    Raises TypeError for bounds that are no scalars or differ in dtype (a Python integer takes that
    of a signed one), and as `while_loop`.

    >>> import xpr
    >>> xpr.lax.fori_loop(0, 5, lambda i, x: x + i, 0)
    Array(10, dtype=int32, weak_type=True)
    """
    if not callable(body_fun):
        raise TypeError(
            f"lax.fori_loop: body_fun argument should be callable. Got {shown(body_fun)}."
        )
    check_callable(body_fun, "lax.fori_loop")
    dtype = _bound_dtype(get_aval(lower), get_aval(upper))
    if not isinstance(lower, Tracer) and not isinstance(upper, Tracer) and dtype.kind != "c":
        first, last = int(lower), int(upper)
        if not state.disable_jit:
            return _fixed_loop(first, max(0, last - first), body_fun, init_val, unroll)
        value = init_val
        for i in range(first, last):
            value = body_fun(i, value)
        return value
    if unroll is not None and unroll is not False and unroll != 1:
        raise ValueError(
            "Can only use `unroll` in `fori_loop` if the loop bounds are statically known."
        )

    def condition(value: Any) -> Any:
        return ops.lt(value[0], value[1])

    def body(value: Any) -> Any:
        i, end, x = value
        return ops.add(i, get_aval(i).dtype.type(1)), end, body_fun(i, x)

    body.__name__ = name_of(body_fun)
    start = (convert_element_type(lower, dtype), convert_element_type(upper, dtype))
    return while_loop(condition, body, (*start, init_val))[2]


def _bound_dtype(low: ShapedArray, high: ShapedArray) -> np.dtype[Any]:
    if low.shape or high.shape:
        raise TypeError(
            "lower and upper arguments to fori_loop must be scalars, got "
            f"{low.str_short()} and {high.str_short()}"
        )
    if low.dtype == high.dtype:
        return low.dtype
    if low.weak_type != high.weak_type and low.dtype.kind == high.dtype.kind == "i":
        return high.dtype if low.weak_type else low.dtype
    raise TypeError(
        "lower and upper arguments to fori_loop must have equal types, got "
        f"{low.dtype.name} and {high.dtype.name}"
    )


def _fixed_loop(
    lower: int, steps: int, body_fun: Callable[[Any, Any], Any], init: Any, unroll: Any
) -> Any:
    def step(carried: Any, _: Any) -> Any:
        i, x = carried
        return (ops.add(i, 1), body_fun(i, x)), None

    step.__name__ = name_of(body_fun)
    (_, out), _ = scan(
        step, (lower, init), None, length=steps, unroll=1 if unroll is None else unroll
    )
    return out


# ---- loops without a carry, and parallel ones


@api_boundary
def map(f: Callable[..., Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Applies `f` to each slice of `xs` along its first axis, one after the other, and stacks.

    With `batch_size`, to that many slices at a time by `vmap`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.lax.map(lambda x: x * 2, jnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    check_callable(f, "lax.map")
    if not batch_size:
        _, ys = scan(lambda _, x: ((), f(x)), (), xs)
        return ys
    if batch_size < 0:
        raise ValueError(f"lax.map: batch_size cannot be negative, got {batch_size}")
    leaves, tree = tree_util.tree_flatten(xs)
    size = _length(leaves, None)
    whole = size - size % batch_size

    def part(start: int, stop: int, *shape: int) -> Any:
        pieces = [slice_in_dim(x, start, stop) for x in leaves]
        pieces = [ops.reshape(p, (*shape, *get_aval(p).shape[1:])) for p in pieces]
        return tree_util.tree_unflatten(tree, pieces)

    ys: list[Any] = []
    if whole:
        _, blocks = scan(
            lambda _, x: ((), vmap(f)(x)), (), part(0, whole, whole // batch_size, batch_size)
        )
        ys.append(tree_util.tree_map(_merge_first, blocks))
    if size > whole or not whole:
        ys.append(vmap(f)(part(whole, size, size - whole)))
    return ys[0] if len(ys) == 1 else tree_util.tree_map(lambda a, b: concatenate([a, b], 0), *ys)


def _merge_first(x: Any) -> Any:
    shape = get_aval(x).shape
    return ops.reshape(x, (shape[0] * shape[1], *shape[2:]))


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """All partial results of an associative operation along an axis, computed in parallel.

    `fn(a, b)` combines two pytrees like `elems`, element by element along the axis; result `i` is
    `elems[0] fn ... fn elems[i]` (from the end, if `reverse`). Pairs are combined, the scan of the
    pairs gives every other result, and one more step the rest: G. E. Blelloch, "Prefix sums and
    their applications", CMU-CS-90-190 (1990). Time grows with the logarithm of the length.

    Raises TypeError if `fn` cannot be called, ValueError for sizes that differ.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.lax.associative_scan(jnp.add, jnp.arange(5))
    Array([ 0,  1,  3,  6, 10], dtype=int32)
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    leaves, tree = tree_util.tree_flatten(elems)
    as_arrays(leaves, "associative_scan")
    if not leaves:
        return elems
    ranks = {len(get_aval(x).shape) for x in leaves}
    if axis < 0:
        if len(ranks) > 1:
            raise ValueError("associative_scan: a negative axis needs arrays of one rank")
        axis += next(iter(ranks))
    if any(not 0 <= axis < rank for rank in ranks):
        raise ValueError(
            f"associative_scan: axis {axis} is out of bounds for ranks {sorted(ranks)}"
        )
    size = get_aval(leaves[0]).shape[axis]
    if any(get_aval(x).shape[axis] != size for x in leaves):
        shapes = [get_aval(x).shape for x in leaves]
        raise ValueError(
            f"Array inputs to associative_scan must have the same first dimension. (saw: {shapes})"
        )

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        out = fn(tree_util.tree_unflatten(tree, a), tree_util.tree_unflatten(tree, b))
        return tree_util.tree_leaves(out)

    def flipped(values: Sequence[Any]) -> list[Any]:
        return [ops.bind("rev", x, dimensions=(axis,)) for x in values] if reverse else list(values)

    return tree_util.tree_unflatten(tree, flipped(_prefixes(combine, flipped(leaves), axis)))


def _prefixes(
    combine: Callable[[Sequence[Any], Sequence[Any]], list[Any]], xs: Sequence[Any], axis: int
) -> list[Any]:
    size = get_aval(xs[0]).shape[axis]
    if size < 2:
        return list(xs)

    def part(values: Sequence[Any], start: int, stop: int | None, stride: int = 1) -> list[Any]:
        return [slice_in_dim(x, start, stop, stride, axis) for x in values]

    pairs = combine(part(xs, 0, size - 1, 2), part(xs, 1, None, 2))
    odd = _prefixes(combine, pairs, axis)
    before = part(odd, 0, -1) if size % 2 == 0 else odd
    even = combine(before, part(xs, 2, None, 2))
    first = part(xs, 0, 1)
    even = [concatenate([a, b], axis) for a, b in zip(first, even, strict=True)]
    return [_interleaved(a, b, axis) for a, b in zip(even, odd, strict=True)]


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """The slices of two arrays in turn, beginning with the first's."""
    shape = get_aval(even).shape
    count = get_aval(odd).shape[axis]
    longer = shape[axis] > count
    if longer:
        config = [(0, int(i == axis), 0) for i in range(len(shape))]
        odd = pad(odd, get_aval(odd).dtype.type(0), config)
    both = [ops.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :])) for x in (even, odd)]
    joined = concatenate(both, axis + 1)
    flat = ops.reshape(joined, (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))
    return slice_in_dim(flat, 0, 2 * shape[axis] - 1, 1, axis) if longer else flat
