"""`Array`: the operators and methods that concrete arrays and tracers share.

The functions behind them are those of `xpr.numpy`, which lies above this layer; it hands them
down once, when it is imported, through `install_surface`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from xpr.core.tracebacks import api_boundary, export_methods

if TYPE_CHECKING:
    from xpr.core.aval import ShapedArray
    from xpr.core.index_updates import IndexUpdates

_np: Any = None


def install_surface(surface: Any) -> None:
    """Gives arrays their functions: `surface` has the names of `xpr.numpy.surface`."""
    global _np
    _np = surface


def surface() -> Any:
    """What `install_surface` was given."""
    return _np


_device_put: Callable[[Any, Any], Any]


def install_device_put(device_put: Callable[[Any, Any], Any]) -> None:
    """Sets the function that `Array.to_device` calls."""
    global _device_put
    _device_put = device_put


def _of_subclass(name: str, doc: str) -> property:
    """A property that concrete arrays and tracers define each in their own way."""

    def fget(self: Any) -> Any:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    return property(fget, doc=doc)


class _MethodOfSubclass:
    """A method that concrete arrays and tracers define each in their own way, seen on `Array`."""

    def __init__(self, name: str) -> None:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(self, name)(*args, **kwargs)

        method.__name__, method.__qualname__ = name, f"Array.{name}"
        method.__doc__ = f"`{name}` of concrete arrays."
        self._name = name
        self._method = method

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._method
        raise AttributeError(f"{type(instance).__name__!r} object has no attribute {self._name!r}")


@export_methods
class Array:
    """An immutable n-dimensional array: `isinstance(x, xpr.Array)` holds for tracers too.

    Arrays are made by `xpr.numpy.array`, `zeros` and the like, not by calling this class.

    >>> import xpr.numpy as jnp
    >>> x = jnp.arange(3)
    >>> x.at[1].set(10)
    Array([ 0, 10,  2], dtype=int32)
    """

    __slots__ = ()

    # NumPy's operators give way to ours: `numpy_array + x` is computed by xpr.
    __array_priority__ = 100

    if TYPE_CHECKING:
        # What concrete arrays and tracers define each in their own way.
        aval: ShapedArray

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> np.dtype[Any]: ...
        @property
        def size(self) -> int: ...
        @property
        def weak_type(self) -> bool: ...
        @property
        def committed(self) -> bool: ...
        @property
        def device(self) -> Any: ...
        @property
        def sharding(self) -> Any: ...
        @property
        def addressable_shards(self) -> list[Any]: ...
        @property
        def global_shards(self) -> list[Any]: ...
        @property
        def is_fully_addressable(self) -> bool: ...
        @property
        def is_fully_replicated(self) -> bool: ...

        def devices(self) -> set[Any]: ...
        def platform(self) -> str: ...
        def addressable_data(self, index: int) -> Array: ...
        def block_until_ready(self) -> Self: ...
        def copy_to_host_async(self) -> None: ...
        def is_ready(self) -> bool: ...
        def delete(self) -> None: ...
        def is_deleted(self) -> bool: ...
        def on_device_size_in_bytes(self) -> int: ...
        def unsafe_buffer_pointer(self) -> int: ...
        def item(self, *args: int) -> Any: ...
        def tolist(self) -> Any: ...
        def tobytes(self, order: str | None = "C") -> bytes: ...
        def to_numpy(self) -> np.ndarray[Any, Any]: ...
        def __array__(
            self, dtype: Any = None, copy: bool | None = None
        ) -> np.ndarray[Any, np.dtype[Any]]: ...
        def __dlpack__(
            self,
            *,
            stream: Any = None,
            max_version: tuple[int, int] | None = None,
            dl_device: tuple[Any, int] | None = None,
            copy: bool | None = None,
        ) -> Any: ...
        def __dlpack_device__(self) -> tuple[Any, int]: ...
        def __bool__(self) -> bool: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __complex__(self) -> complex: ...
        def __index__(self) -> int: ...

    else:
        shape = _of_subclass("shape", "The sizes of the axes.")
        dtype = _of_subclass("dtype", "The type of the elements.")
        size = _of_subclass("size", "The number of elements.")
        weak_type = _of_subclass("weak_type", "Whether the dtype gives way to others.")
        committed = _of_subclass("committed", "Whether the device was chosen by the user.")
        device = _of_subclass("device", "The device, or the sharding over several.")
        sharding = _of_subclass("sharding", "How the array lies on its devices.")
        item = _of_subclass("item", "The method that gives an element as a Python number.")
        copy_to_host_async = _of_subclass(
            "copy_to_host_async", "The method that begins to copy the elements to the host."
        )
        addressable_shards = _of_subclass("addressable_shards", "The parts that are here.")
        global_shards = _of_subclass("global_shards", "All parts.")
        is_fully_addressable = _of_subclass("is_fully_addressable", "Whether all parts are here.")
        is_fully_replicated = _of_subclass(
            "is_fully_replicated", "Whether each device has the whole array."
        )
        devices = _MethodOfSubclass("devices")
        platform = _MethodOfSubclass("platform")
        addressable_data = _MethodOfSubclass("addressable_data")
        block_until_ready = _MethodOfSubclass("block_until_ready")
        copy_to_host_async = _MethodOfSubclass("copy_to_host_async")
        is_ready = _MethodOfSubclass("is_ready")
        delete = _MethodOfSubclass("delete")
        is_deleted = _MethodOfSubclass("is_deleted")
        on_device_size_in_bytes = _MethodOfSubclass("on_device_size_in_bytes")
        unsafe_buffer_pointer = _MethodOfSubclass("unsafe_buffer_pointer")
        item = _MethodOfSubclass("item")
        tolist = _MethodOfSubclass("tolist")
        tobytes = _MethodOfSubclass("tobytes")

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    def to_device(self, device: Any, *, stream: Any = None) -> Array:
        """The array on another device, as `device_put` gives it; `stream` must be None."""
        if stream is not None:
            raise NotImplementedError(f"to_device takes stream=None, got {stream!r}")
        return _device_put(self, device)

    @property
    @api_boundary
    def T(self) -> Array:
        """The array with its axes reversed."""
        return _np.transpose(self)

    @property
    @api_boundary
    def mT(self) -> Array:
        """The array with its last two axes swapped."""
        return _np.matrix_transpose(self)

    @property
    @api_boundary
    def real(self) -> Array:
        """The real part."""
        return _np.real(self)

    @property
    @api_boundary
    def imag(self) -> Array:
        """The imaginary part."""
        return _np.imag(self)

    @property
    def at(self) -> IndexUpdates[Array]:
        """Indexed updates that return a new array: `x.at[idx].set(y)`."""
        return _np.at(self)

    @property
    def flat(self) -> Array:
        """The elements in one axis; use `flatten` or `ravel` in new code."""
        return _np.flat(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return _np.iterate(self)

    def __getitem__(self, index: Any) -> Array:
        return _np.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "JAX arrays are immutable and do not support in-place item assignment. Instead of "
            "x[idx] = y, use x = x.at[idx].set(y) or another .at[] method."
        )

    def __contains__(self, value: Any) -> bool:
        return _np.contains(self, value)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return _np.namespace(api_version)

    def __abs__(self) -> Array:
        return _np.abs(self)

    def __neg__(self) -> Array:
        return _np.negative(self)

    def __pos__(self) -> Array:
        return _np.positive(self)

    def __invert__(self) -> Array:
        return _np.invert(self)

    def __round__(self, ndigits: int | None = None) -> Array:
        return _np.op_round(self, ndigits)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> Array:
        return _np.op_add(self, other)

    def __radd__(self, other: Any) -> Array:
        return _np.op_radd(self, other)

    def __sub__(self, other: Any) -> Array:
        return _np.op_sub(self, other)

    def __rsub__(self, other: Any) -> Array:
        return _np.op_rsub(self, other)

    def __mul__(self, other: Any) -> Array:
        return _np.op_mul(self, other)

    def __rmul__(self, other: Any) -> Array:
        return _np.op_rmul(self, other)

    def __truediv__(self, other: Any) -> Array:
        return _np.op_truediv(self, other)

    def __rtruediv__(self, other: Any) -> Array:
        return _np.op_rtruediv(self, other)

    def __floordiv__(self, other: Any) -> Array:
        return _np.op_floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> Array:
        return _np.op_rfloordiv(self, other)

    def __mod__(self, other: Any) -> Array:
        return _np.op_mod(self, other)

    def __rmod__(self, other: Any) -> Array:
        return _np.op_rmod(self, other)

    def __divmod__(self, other: Any) -> tuple[Array, Array]:
        return _np.op_divmod(self, other)

    def __rdivmod__(self, other: Any) -> tuple[Array, Array]:
        return _np.op_rdivmod(self, other)

    def __pow__(self, other: Any) -> Array:
        return _np.op_pow(self, other)

    def __rpow__(self, other: Any) -> Array:
        return _np.op_rpow(self, other)

    def __matmul__(self, other: Any) -> Array:
        return _np.op_matmul(self, other)

    def __rmatmul__(self, other: Any) -> Array:
        return _np.op_rmatmul(self, other)

    def __and__(self, other: Any) -> Array:
        return _np.op_and(self, other)

    def __rand__(self, other: Any) -> Array:
        return _np.op_rand(self, other)

    def __or__(self, other: Any) -> Array:
        return _np.op_or(self, other)

    def __ror__(self, other: Any) -> Array:
        return _np.op_ror(self, other)

    def __xor__(self, other: Any) -> Array:
        return _np.op_xor(self, other)

    def __rxor__(self, other: Any) -> Array:
        return _np.op_rxor(self, other)

    def __lshift__(self, other: Any) -> Array:
        return _np.op_lshift(self, other)

    def __rlshift__(self, other: Any) -> Array:
        return _np.op_rlshift(self, other)

    def __rshift__(self, other: Any) -> Array:
        return _np.op_rshift(self, other)

    def __rrshift__(self, other: Any) -> Array:
        return _np.op_rrshift(self, other)

    def __eq__(self, other: Any) -> Array:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _np.op_eq(self, other)

    def __ne__(self, other: Any) -> Array:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _np.op_ne(self, other)

    def __lt__(self, other: Any) -> Array:
        return _np.op_lt(self, other)

    def __le__(self, other: Any) -> Array:
        return _np.op_le(self, other)

    def __gt__(self, other: Any) -> Array:
        return _np.op_gt(self, other)

    def __ge__(self, other: Any) -> Array:
        return _np.op_ge(self, other)

    def all(
        self, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
    ) -> Array:
        """Whether all elements along `axis` are true."""
        return _np.method_all(self, axis, out, keepdims, where=where)

    def any(
        self, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
    ) -> Array:
        """Whether any element along `axis` is true."""
        return _np.method_any(self, axis, out, keepdims, where=where)

    def argmax(
        self, axis: int | None = None, out: None = None, keepdims: bool | None = None
    ) -> Array:
        """Index of the first greatest element along `axis`."""
        return _np.method_argmax(self, axis, out, keepdims)

    def argmin(
        self, axis: int | None = None, out: None = None, keepdims: bool | None = None
    ) -> Array:
        """Index of the first least element along `axis`."""
        return _np.method_argmin(self, axis, out, keepdims)

    def argpartition(self, kth: int, axis: int = -1) -> Array:
        """Indices that partition the array around its kth element."""
        return _np.method_argpartition(self, kth, axis)

    def argsort(
        self,
        axis: int | None = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Array:
        """Indices that sort the array along `axis`."""
        return _np.method_argsort(
            self, axis, kind=kind, order=order, stable=stable, descending=descending
        )

    def astype(self, dtype: Any, copy: bool = False, device: Any = None) -> Array:
        """A copy with another dtype; out-of-range floats saturate."""
        return _np.method_astype(self, dtype, copy, device)

    def byteswap(self, inplace: bool = False) -> Array:
        """The array with the bytes of each element reversed."""
        return _np.method_byteswap(self, inplace)

    def choose(self, choices: Sequence[Any], out: None = None, mode: str = "raise") -> Array:
        """Elements picked from `choices` by index."""
        return _np.method_choose(self, choices, out, mode)

    def clip(self, min: Any = None, max: Any = None) -> Array:
        """Elements limited to [min, max]."""
        return _np.method_clip(self, min, max)

    def compress(
        self,
        condition: Any,
        axis: int | None = None,
        *,
        out: None = None,
        size: int | None = None,
        fill_value: Any = 0,
    ) -> Array:
        """Slices along `axis` where `condition` holds."""
        return _np.method_compress(self, condition, axis, out=out, size=size, fill_value=fill_value)

    def conj(self) -> Array:
        """The complex conjugate."""
        return _np.method_conj(self)

    def conjugate(self) -> Array:
        """The complex conjugate."""
        return _np.method_conjugate(self)

    def copy(self) -> Array:
        """A copy."""
        return _np.method_copy(self)

    def cumprod(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
        """Cumulative product along `axis`."""
        return _np.method_cumprod(self, axis, dtype, out)

    def cumsum(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
        """Cumulative sum along `axis`."""
        return _np.method_cumsum(self, axis, dtype, out)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """The diagonal over two axes."""
        return _np.method_diagonal(self, offset, axis1, axis2)

    def dot(self, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
        """The dot product with `b`."""
        return _np.method_dot(
            self, b, precision=precision, preferred_element_type=preferred_element_type
        )

    def flatten(self, order: str = "C", *, out_sharding: Any = None) -> Array:
        """The elements in one axis."""
        return _np.method_flatten(self, order, out_sharding=out_sharding)

    def max(
        self,
        axis: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Array:
        """The greatest element along `axis`."""
        return _np.method_max(self, axis, out, keepdims, initial, where)

    def mean(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: Any = None,
    ) -> Array:
        """The mean along `axis`."""
        return _np.method_mean(self, axis, dtype, out, keepdims, where=where)

    def min(
        self,
        axis: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Array:
        """The least element along `axis`."""
        return _np.method_min(self, axis, out, keepdims, initial, where)

    def nonzero(self, *, fill_value: Any = None, size: int | None = None) -> tuple[Array, ...]:
        """Indices of the nonzero elements, an array for each axis."""
        return _np.method_nonzero(self, fill_value=fill_value, size=size)

    def prod(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        promote_integers: bool = True,
    ) -> Array:
        """The product along `axis`."""
        return _np.method_prod(self, axis, dtype, out, keepdims, initial, where, promote_integers)

    def ptp(self, axis: Any = None, out: None = None, keepdims: bool = False) -> Array:
        """The range (greatest minus least) along `axis`."""
        return _np.method_ptp(self, axis, out, keepdims)

    def ravel(self, order: str = "C", *, out_sharding: Any = None) -> Array:
        """The elements in one axis."""
        return _np.method_ravel(self, order, out_sharding=out_sharding)

    def repeat(
        self,
        repeats: Any,
        axis: int | None = None,
        *,
        total_repeat_length: int | None = None,
        out_sharding: Any = None,
    ) -> Array:
        """Each element repeated."""
        return _np.method_repeat(
            self,
            repeats,
            axis,
            total_repeat_length=total_repeat_length,
            out_sharding=out_sharding,
        )

    def reshape(self, *args: Any, order: str = "C", out_sharding: Any = None) -> Array:
        """The same elements in another shape."""
        return _np.method_reshape(self, *args, order=order, out_sharding=out_sharding)

    def round(self, decimals: int = 0, out: None = None) -> Array:
        """Elements rounded to `decimals` places, halves to even."""
        return _np.method_round(self, decimals, out)

    def searchsorted(
        self, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
    ) -> Array:
        """Where to insert `v` to keep the order."""
        return _np.method_searchsorted(self, v, side, sorter, method=method)

    def sort(
        self,
        axis: int | None = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Array:
        """The elements sorted along `axis`."""
        return _np.method_sort(
            self, axis, kind=kind, order=order, stable=stable, descending=descending
        )

    def squeeze(self, axis: Any = None) -> Array:
        """The array without axes of size 1."""
        return _np.method_squeeze(self, axis)

    def std(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: int = 0,
        keepdims: bool = False,
        *,
        where: Any = None,
        correction: float | None = None,
    ) -> Array:
        """The standard deviation along `axis`."""
        return _np.method_std(
            self, axis, dtype, out, ddof, keepdims, where=where, correction=correction
        )

    def sum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        promote_integers: bool = True,
    ) -> Array:
        """The sum along `axis`."""
        return _np.method_sum(self, axis, dtype, out, keepdims, initial, where, promote_integers)

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """The array with two axes swapped."""
        return _np.method_swapaxes(self, axis1, axis2)

    def take(
        self,
        indices: Any,
        axis: int | None = None,
        out: None = None,
        mode: str | None = None,
        unique_indices: bool = False,
        indices_are_sorted: bool = False,
        fill_value: Any = None,
    ) -> Array:
        """Elements along `axis` by index."""
        return _np.method_take(
            self, indices, axis, out, mode, unique_indices, indices_are_sorted, fill_value
        )

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
    ) -> Array:
        """The sum along a diagonal."""
        return _np.method_trace(self, offset, axis1, axis2, dtype, out)

    def transpose(self, *args: Any) -> Array:
        """The array with its axes permuted."""
        return _np.method_transpose(self, *args)

    def var(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: int = 0,
        keepdims: bool = False,
        *,
        where: Any = None,
        correction: float | None = None,
    ) -> Array:
        """The variance along `axis`."""
        return _np.method_var(
            self, axis, dtype, out, ddof, keepdims, where=where, correction=correction
        )

    def view(self, dtype: Any = None, type: None = None) -> Array:
        """The bytes read as another dtype."""
        return _np.method_view(self, dtype, type)
