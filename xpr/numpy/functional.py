"""Functions that apply a function of the caller along axes or to each element."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core.array import Array as _Array
from xpr.core.trace import get_aval
from xpr.core.wrapping import wraps
from xpr.lax.conditionals import switch
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, broadcast_to, check_ranks, convert
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike, Shape
from xpr.numpy.creation import asarray
from xpr.numpy.logic import to_bool
from xpr.numpy.manipulation import moveaxis
from xpr.primitives._index_dims import canonicalize_axis
from xpr.primitives.shape import broadcast_shapes, expand_dims, reshape
from xpr.transforms.vmap import vmap

# A gufunc's signature, "(m,n),(n)->(m)": names of axes for each operand and each result.
_OPERAND = r"\((?:\w+(?:,\w+)*)?\)"
_OPERANDS = rf"{_OPERAND}(?:,{_OPERAND})*"
_SIGNATURE = re.compile(rf"(?P<inputs>{_OPERANDS})->(?P<outputs>{_OPERANDS})")

_Names = tuple[str, ...]


def apply_over_axes(
    func: Callable[[Any, int], Any], a: ArrayLike, axes: int | Sequence[int]
) -> Array:
    """`func(a, axis)` for one of `axes` after the other; axes that it removes come back as size 1.

    Raises ValueError when the result has other numbers of axes.

    >>> import xpr.numpy as jnp
    >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3)), [0, 1])
    Array([[6.]], dtype=float32)
    """
    x = as_array(as_operand("apply_over_axes", a, 1))
    for axis in (axes,) if isinstance(axes, int) else axes:
        place = canonicalize_axis(axis, x.ndim)
        found = as_array(func(x, place))
        if found.ndim == x.ndim - 1:
            found = expand_dims(found, (place,))
        if get_aval(found).ndim != x.ndim:
            raise ValueError(
                "function is not returning an array of the correct shape: "
                f"got {found.shape} for {x.shape} and axis {place}"
            )
        x = found
    return x


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """`func1d(slice, *args, **kwargs)` for each one-dimensional slice of `arr` along `axis`.

    The axes of its result take the place of `axis`; a pytree of results gives a pytree. Raises
    ValueError for an axis out of range, TypeError for an operand that is no array.

    >>> import xpr.numpy as jnp
    >>> jnp.apply_along_axis(jnp.sort, 0, jnp.array([[3, 1], [2, 4]]))
    Array([[2, 1],
           [3, 4]], dtype=int32)
    """
    x = as_array(as_operand("apply_along_axis", arr, 2))
    place = canonicalize_axis(axis, x.ndim)
    others = x.shape[:place] + x.shape[place + 1 :]
    if not others:
        return func1d(x, *args, **kwargs)
    slices = reshape(moveaxis(x, place, -1), (math.prod(others), x.shape[place]))

    def back(found: Array) -> Array:
        own = found.ndim - 1
        whole = reshape(found, (*others, *found.shape[1:]))
        return moveaxis(whole, range(len(others), whole.ndim), range(place, place + own))

    return tree_util.tree_map(back, vmap(lambda s: func1d(s, *args, **kwargs))(slices))


# ---- vectorize


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """A function that applies `pyfunc` to each element of its operands, broadcast.

    With a `signature` such as "(m,n),(n)->(m)" it applies `pyfunc` to arrays with the named axes,
    which are the last ones of each operand, and broadcasts the axes before; a result has the axes
    that the signature says. Arguments at the positions or of the names in `excluded`, and those
    that are None, are handed to `pyfunc` as they are. The loops are those of `vmap`.

    Raises TypeError for entries of `excluded` that are neither, ValueError for negative ones. The
    function raises ValueError for a signature that is none and for operands or results that do not
    fit it or have no common shape, TypeError for the wrong number of them.

    >>> import xpr.numpy as jnp
    >>> times = jnp.vectorize(jnp.dot, signature="(m,n),(n)->(m)")
    >>> times(jnp.ones((4, 2, 3)), jnp.arange(3.0)).shape
    (4, 2)
    """
    if any(not isinstance(e, (int, str)) for e in excluded):
        raise TypeError(
            f"vectorize can only exclude integer or string arguments, but excluded={excluded!r}"
        )
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"excluded={excluded!r} contains negative numbers")
    context = f"on vectorized function with excluded={excluded!r} and signature={signature!r}"

    @wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        given: dict[int | str, Any] = {**dict(enumerate(args)), **kwargs}
        mapped = [k for k in given if k not in excluded]
        inputs, outputs = _parsed(signature, len(mapped))
        if len(inputs) != len(mapped):
            raise TypeError(
                f"wrong number of positional arguments: expected {len(inputs)}, got {len(mapped)} "
                f"{context}"
            )
        axes_of = dict(zip(mapped, inputs, strict=True))
        if any(given[k] is None and axes_of[k] for k in mapped):
            raise ValueError(f"None stands for an operand with axes {context}")
        mapped = [k for k in mapped if given[k] is not None]
        operands = [asarray(given[k]) for k in mapped]
        sizes: dict[str, int] = {}
        loops: list[Shape] = []
        for x, names in zip(operands, (axes_of[k] for k in mapped), strict=True):
            if x.ndim < len(names):
                raise ValueError(
                    f"input with shape {x.shape} does not have enough dimensions for all core "
                    f"dimensions {names} {context}"
                )
            first = x.ndim - len(names)
            loops.append(x.shape[:first])
            _match_sizes(sizes, x.shape[first:], names, context)
        if len({len(loop) for x, loop in zip(operands, loops, strict=True) if x.ndim}) > 1:
            check_ranks("vectorize", [x.shape for x in operands])

        def on_core(*cores: Any) -> Any:
            filled = {**given, **dict(zip(mapped, cores, strict=True))}
            found = pyfunc(*(filled[i] for i in range(len(args))), **{k: filled[k] for k in kwargs})
            if outputs is not None:
                _check_results(found, outputs, dict(sizes), context)
            return found

        return _looped(on_core, operands, loops)

    return vectorized


def _parsed(signature: str | None, count: int) -> tuple[list[_Names], list[_Names] | None]:
    """The names of the axes of each operand and, where they are known, of each result."""
    if signature is None:
        return [()] * count, None
    match = _SIGNATURE.fullmatch("".join(signature.split()))
    if match is None:
        raise ValueError(f"not a valid gufunc signature: {signature}")
    inputs, outputs = (
        [tuple(re.findall(r"\w+", operand)) for operand in re.findall(_OPERAND, side)]
        for side in match.groups()
    )
    return inputs, outputs


def _match_sizes(sizes: dict[str, int], shape: Shape, names: _Names, context: str) -> None:
    """Enters the sizes of named axes; ValueError for one that was different before."""
    for name, size in zip(names, shape, strict=True):
        if sizes.setdefault(name, size) != size:
            raise ValueError(
                f"inconsistent size for core dimension {name!r}: {size} vs {sizes[name]} {context}"
            )


def _check_results(
    found: Any, outputs: Sequence[_Names], sizes: dict[str, int], context: str
) -> None:
    if len(outputs) > 1 and not isinstance(found, tuple):
        raise TypeError(
            f"output must be a tuple when multiple outputs are expected, got: {found!r} {context}"
        )
    results = found if isinstance(found, tuple) else (found,)
    if len(results) != len(outputs):
        raise TypeError(
            f"wrong number of output arguments: expected {len(outputs)}, got {len(results)} "
            f"{context}"
        )
    for result, names in zip(results, outputs, strict=True):
        shape = get_aval(result).shape
        if len(shape) != len(names):
            raise ValueError(
                f"output shape {shape} does not match core dimensions {names} {context}"
            )
        _match_sizes(sizes, shape, names, context)


def _looped(f: Callable[..., Any], operands: Sequence[Array], loops: Sequence[Shape]) -> Any:
    """`f` mapped over the first axes of the operands, which broadcast against each other.

    An axis of size 1 is taken away, not spread, so that `f` is not computed twice for the same.
    """
    shape = broadcast_shapes(*loops)
    runs, cores = [], []
    for x, loop in zip(operands, loops, strict=True):
        first = len(shape) - len(loop)
        runs.append({first + i for i, n in enumerate(loop) if n != 1})
        cores.append(reshape(x, tuple(n for n in loop if n != 1) + x.shape[len(loop) :]))
    alone = []
    for d in reversed(range(len(shape))):
        if any(d in places for places in runs):
            f = vmap(f, tuple(0 if d in places else None for places in runs))
        else:
            alone.append(d)
    found = f(*cores)
    if not alone:
        return found
    return tree_util.tree_map(lambda r: expand_dims(as_array(r), sorted(alone)), found)


def piecewise(
    x: ArrayLike,
    condlist: Any,
    funclist: Sequence[ArrayLike | Callable[..., Any]],
    *args: Any,
    **kw: Any,
) -> Array:
    """A function given in pieces: of the conditions that hold, the last says which piece counts.

    Each piece is a number or an elementwise function, called with `x` and the further arguments. A
    piece more than there are conditions holds where none does; otherwise that is 0. The result has
    the dtype of `x`. Raises ValueError for another number of pieces.

    >>> import xpr.numpy as jnp
    >>> x = jnp.array([-2.0, 0.0, 3.0])
    >>> jnp.piecewise(x, [x < 0, x > 0], [lambda v: -v, lambda v: 2 * v])
    Array([2., 0., 6.], dtype=float32)
    """
    x = as_array(as_operand("piecewise", x))
    conditions = list(condlist) if not isinstance(condlist, (_Array, np.ndarray)) else condlist
    funclist = [f if callable(f) else as_operand("piecewise", f) for f in funclist]
    count, pieces = len(conditions), len(funclist)
    if pieces not in (count, count + 1):
        raise ValueError(
            f"with {count} condition(s), either {count} or {count + 1} functions are expected; "
            f"got {pieces}"
        )

    pieces_in_order = [funclist[count] if pieces > count else 0, *funclist[:count]]
    chosen: Any = np.int32(0)
    for i in range(count):
        condition = broadcast_to(to_bool(asarray(conditions[i])), x.shape)
        chosen = select_where(condition, np.int32(i + 1), chosen)

    def piece(f: Any) -> Callable[[Any], Any]:
        def value(v: Any) -> Any:
            found = f(v, *args, **kw) if callable(f) else f
            return convert(as_operand("piecewise", found), x.dtype)

        return value

    # A choice for each element, so that a derivative never comes from a piece that does not count.
    branches = [piece(f) for f in pieces_in_order]
    return vectorize(lambda which, v: switch(which, branches, v))(broadcast_to(chosen, x.shape), x)
