"""`ufunc`: an elementwise function with reductions, prefixes and updates made of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core.aval import without_dim
from xpr.core.jaxpr_trace import hoist_consts, trace_to_jaxpr
from xpr.core.trace import Tracer, get_aval
from xpr.core.tracebacks import export_methods
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, broadcast_all, convert, refuse_out
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.functional import vectorize
from xpr.numpy.logic import to_bool
from xpr.numpy.manipulation import broadcast_to, moveaxis
from xpr.numpy.reductions import kept_dims, reduced_axes
from xpr.numpy.updates import at as index_update
from xpr.primitives._index_dims import canonicalize_axis
from xpr.primitives.convert import convert_type
from xpr.primitives.creation import full
from xpr.primitives.joining import concatenate, stack
from xpr.primitives.scan import scan_p
from xpr.primitives.shape import reshape
from xpr.primitives.slicing import index_in_dim, slice_in_dim

Function = Callable[..., Any]


@export_methods
class ufunc:
    """An elementwise function of `nin` arrays with `nout` results.

    Functions of two arrays and one result can be reduced along an axis, by `reduce`, `accumulate`
    and `reduceat`; those given here replace the general form, which calls the function once for
    each element along the axis, from left to right.

    >>> import xpr.numpy as jnp
    >>> jnp.add.reduce(jnp.arange(4))
    Array(6, dtype=int32)
    >>> jnp.multiply.outer(jnp.arange(2), jnp.arange(3))
    Array([[0, 0, 0],
           [0, 1, 2]], dtype=int32)
    """

    def __init__(
        self,
        func: Function,
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Function | None = None,
        reduce: Function | None = None,
        accumulate: Function | None = None,
        at: Function | None = None,
        reduceat: Function | None = None,
        on_scalars: bool = False,
    ) -> None:
        if not callable(func):
            raise TypeError(f"a ufunc requires a function, got {func!r} of type {type(func)}")
        own = getattr(func, "__name__", None)
        self.__name__ = self.__qualname__ = name or (own if isinstance(own, str) else "ufunc")
        self.__doc__ = func.__doc__
        self.__wrapped__ = func
        self._nin = nin
        self._nout = nout
        self._nargs = nin if nargs is None else nargs
        self._identity = identity
        self._on_scalars = on_scalars
        self._given_call = call
        self._call = call or self._vectorized
        self._own_reduce = reduce
        self._own_accumulate = accumulate
        self._own_at = at
        self._own_reduceat = reduceat
        try:
            self.__signature__ = inspect.signature(func)
        except (TypeError, ValueError):  # functions written in C may have none
            return

    @property
    def nin(self) -> int:
        """The number of operands."""
        return self._nin

    @property
    def nout(self) -> int:
        """The number of results."""
        return self._nout

    @property
    def nargs(self) -> int:
        """The number of arguments that a call takes."""
        return self._nargs

    @property
    def identity(self) -> Any:
        """The value that changes no other one it is joined with; None if there is none."""
        return self._identity

    @property
    def _func(self) -> Function:
        return self.__wrapped__

    def _identifying(self) -> tuple[Any, ...]:
        return (
            self.__wrapped__, self.__name__, self.nin, self.nout, self.nargs, self.identity,
            self._on_scalars, self._given_call, self._own_reduce, self._own_accumulate,
            self._own_at, self._own_reduceat,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ufunc):
            return NotImplemented
        return self._identifying() == other._identifying()

    def __hash__(self) -> int:
        return hash(self._identifying())

    def __repr__(self) -> str:
        return f"<jnp.ufunc {self.__name__!r}>"

    def __call__(self, *args: ArrayLike, out: None = None, where: None = None) -> Any:
        if out is not None:
            raise NotImplementedError(f"out argument of {self}")
        if where is not None:
            raise NotImplementedError(f"where argument of {self}")
        return self._call(*args)

    def _vectorized(self, *args: Any) -> Any:
        if len(args) != self.nargs:
            raise TypeError(
                f"{self.__name__}() takes {self.nargs} positional argument"
                f"{'' if self.nargs == 1 else 's'} but {len(args)} were given"
            )
        if self._on_scalars:
            found = vectorize(self.__wrapped__)(*args)
            return tuple(found) if self.nout > 1 else found
        arrays = [as_array(as_operand(self.__name__, a, i)) for i, a in enumerate(args)]
        found = self.__wrapped__(*broadcast_all(*arrays))
        return tuple(found) if self.nout > 1 else found

    def _check_fold(self, method: str) -> None:
        if (self.nin, self.nout) != (2, 1):
            raise ValueError(
                f"{method} only supported for binary ufuncs with one result, but {self} has "
                f"{self.nin} operands and {self.nout} results"
            )

    # ---- reductions

    def reduce(
        self,
        a: ArrayLike,
        axis: Any = 0,
        dtype: DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """The elements along `axis` (all for None) joined by the function, from left to right.

        Raises ValueError for functions without an identity when there are no elements, or `where`,
        but no `initial`.
        """
        self._check_fold("reduce")
        refuse_out(f"{self.__name__}.reduce", out)
        x = as_array(as_operand(f"{self.__name__}.reduce", a))
        if self.identity is None and where is not None and initial is None:
            raise ValueError(
                f"reduction operation {self.__name__!r} does not have an identity, so to use a "
                "where mask one has to specify 'initial'."
            )
        if self._own_reduce is not None:
            return self._own_reduce(
                x, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
            )
        return self._fold(x, axis, dtype, keepdims, initial, where)

    def _fold(
        self, x: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any
    ) -> Array:
        if dtype is not None:
            x = convert(x, requested_dtype(dtype, f"{self.__name__}.reduce"))
        axes = reduced_axes(axis, x.ndim)
        if len(axes) > 1 and axis is not None:
            raise NotImplementedError(f"{self}.reduce folds one axis or all, got {axis}")
        shape, row = x.shape, tuple[int, ...](axes)
        if axis is None:
            x, row = reshape(x, (x.size,)), (0,)
        neutral = self.identity if initial is None else initial
        size = x.shape[row[0]] if row else 1
        if neutral is None and size == 0:
            raise ValueError(
                f"zero-size array to reduction operation {self.__name__} which has no identity"
            )
        parts = [index_in_dim(x, i, row[0], keepdims=False) for i in range(size)] if row else [x]
        masks: list[Any] = [None] * len(parts)
        if where is not None:
            mask = broadcast_to(to_bool(as_array(as_operand("reduce", where))), shape)
            mask = reshape(mask, x.shape)
            masks = [index_in_dim(mask, i, row[0], keepdims=False) for i in range(size)]
        result_shape = tuple(n for i, n in enumerate(x.shape) if i not in row)
        if initial is None and where is None and parts:
            found, parts, masks = parts[0], parts[1:], masks[1:]
        else:
            found = full(result_shape, convert(as_operand("initial", neutral), x.dtype))
        for part, mask in zip(parts, masks, strict=True):
            joined = self._call(found, part)
            found = joined if mask is None else select_where(mask, joined, found)
        return kept_dims(found, shape, axes) if keepdims else found

    def accumulate(
        self,
        a: ArrayLike,
        axis: int | None = 0,
        dtype: DTypeLike | None = None,
        out: None = None,
    ) -> Array:
        """The results of `reduce` for each prefix along `axis`, of all elements for None.

        Raises ValueError without axes.
        """
        self._check_fold("accumulate")
        refuse_out(f"{self.__name__}.accumulate", out)
        x = as_array(as_operand(f"{self.__name__}.accumulate", a))
        if axis is None:
            x, axis = reshape(x, (x.size,)), 0
        if not x.ndim:
            raise ValueError(f"{self}.accumulate needs an array with axes, got {axis=}")
        place = canonicalize_axis(axis, x.ndim)
        if self._own_accumulate is not None:
            return self._own_accumulate(x, axis=place, dtype=dtype)
        if dtype is not None:
            x = convert(x, requested_dtype(dtype, f"{self.__name__}.accumulate"))
        parts = [index_in_dim(x, i, place, keepdims=False) for i in range(x.shape[place])]
        found = parts[:1]
        for part in parts[1:]:
            found.append(self._call(found[-1], part))
        return stack(found, axis=place) if found else x

    def reduceat(
        self,
        a: ArrayLike,
        indices: Any,
        axis: int = 0,
        dtype: DTypeLike | None = None,
        out: None = None,
    ) -> Array:
        """`reduce` over the slices from each of `indices` up to the next one.

        Where the next index is not greater, the element at the index itself.
        """
        self._check_fold("reduceat")
        refuse_out(f"{self.__name__}.reduceat", out)
        x = as_array(as_operand(f"{self.__name__}.reduceat", a))
        if axis is None or not x.ndim:
            raise ValueError(f"{self}.reduceat needs an array with axes, got {axis=}")
        if dtype is not None:
            x = convert(x, requested_dtype(dtype, f"{self.__name__}.reduceat"))
        place = canonicalize_axis(axis, x.ndim)
        places = as_array(as_operand(f"{self.__name__}.reduceat", indices, 1))
        if self._own_reduceat is not None:
            return self._own_reduceat(x, places, place)
        if isinstance(places, Tracer):
            return self._reduce_slices(x, places, place)
        starts = np.asarray(places).tolist()
        size = x.shape[place]
        found = []
        for start, stop in zip(starts, [*starts[1:], size], strict=True):
            part = slice_in_dim(x, start, stop if stop > start else start + 1, axis=place)
            found.append(self.reduce(part, axis=place))
        return stack(found, axis=place)

    def _reduce_slices(self, x: Any, starts: Any, axis: int) -> Array:
        """`reduceat` for indices that are not known: all slices at once, along the axis."""
        size, index = x.shape[axis], starts.dtype.type
        last = concatenate([starts[1:], full((1,), index(size))], 0)
        stops = select_where(last > starts, last, starts + index(1))
        rows = moveaxis(x, axis, 0)
        shape = (starts.shape[0], *rows.shape[1:])
        slices = (shape[0], *(1,) * (len(shape) - 1))

        def step(found: Any, row: Any) -> Any:
            number, values = row
            values = broadcast_to(reshape(values, (1, *shape[1:])), shape)
            joined = convert(self._call(found, values), found.dtype)
            inside = (number > starts) & (number < stops)
            found = select_where(reshape(inside, slices), joined, found)
            return select_where(reshape(number == starts, slices), values, found)

        numbers = np.arange(size, dtype=index)
        found = _loop(step, full(shape, x.dtype.type(0)), (numbers, rows))
        return moveaxis(found, 0, axis)

    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Array:
        """The function of each element of `A` with each of `B`, shape `A.shape + B.shape`."""
        self._check_fold("outer")
        x = as_array(as_operand(f"{self.__name__}.outer", A))
        y = as_array(as_operand(f"{self.__name__}.outer", B, 1))
        return self._call(
            reshape(x, (*x.shape, *(1,) * y.ndim)), reshape(y, (*(1,) * x.ndim, *y.shape))
        )

    def at(
        self, a: ArrayLike, indices: Any, b: ArrayLike | None = None, /, *, inplace: bool = True
    ) -> Array:
        """`a` with the function applied at `indices`, with `b`; repeated indices count each time.

        Arrays cannot change, so `inplace=False` must be given; NotImplementedError otherwise.
        """
        if inplace:
            raise NotImplementedError(
                "Because arrays are immutable, jnp.ufunc.at() cannot operate inplace like "
                "np.ufunc.at(). Instead, you can pass inplace=False and capture the result; e.g. "
                f"arr = jnp.{self.__name__}.at(arr, ind, val, inplace=False)"
            )
        x = as_array(as_operand(f"{self.__name__}.at", a))
        if self.nin == 1:
            if b is not None:
                raise ValueError(f"{self}.at takes no second operand")
            return index_update(x)[indices].apply(self)
        self._check_fold("at")
        if b is None:
            raise ValueError(f"{self}.at needs a second operand")
        if self._own_at is not None:
            return self._own_at(x, indices, b)
        return self._update_in_turn(x, indices, b)

    def _update_in_turn(self, x: Any, indices: Any, b: Any) -> Array:
        """One update after the other, since a repeated index sees those before it."""
        numbers = as_array(np.arange(x.size, dtype=np.int32).reshape(x.shape))
        places = index_update(numbers)[indices].get(mode="fill", fill_value=x.size)
        values = reshape(broadcast_to(as_array(as_operand("at", b)), places.shape), (places.size,))
        flat = reshape(x, (x.size,))

        def step(flat: Any, update: Any) -> Any:
            place, value = update
            joined = convert(self._call(flat[place], value), flat.dtype)
            return index_update(flat)[place].set(joined, mode="drop")

        flat = _loop(step, flat, (reshape(places, (places.size,)), values))
        return reshape(flat, x.shape)


def _loop(step: Callable[[Any, Any], Any], carry: Any, rows: tuple[Any, ...]) -> Any:
    """`carry = step(carry, row)` for the rows of all of `rows` together, in order."""
    carry = convert_type(carry)
    slices = [without_dim(get_aval(r), 0) for r in rows]

    def flat(carry: Any, *row: Any) -> list[Any]:
        return [convert_type(step(carry, row), carry.dtype)]

    closed, outer = hoist_consts(trace_to_jaxpr(flat, [get_aval(carry), *slices]))
    [found] = scan_p.bind(
        *outer,
        carry,
        *rows,
        jaxpr=closed,
        length=get_aval(rows[0]).shape[0],
        reverse=False,
        num_carry=1,
        num_consts=len(outer),
        unroll=1,
    )
    return found


def frompyfunc(func: Function, /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """The function `func` of `nin` scalars with `nout` results, applied elementwise: a `ufunc`.

    >>> import xpr.numpy as jnp
    >>> multiply_add = jnp.frompyfunc(lambda x, y: 10 * x + y, 2, 1)
    >>> multiply_add.reduce(jnp.array([1, 2, 3]))
    Array(123, dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity, on_scalars=True)
