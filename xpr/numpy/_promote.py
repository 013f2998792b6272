"""What every function of xpr.numpy does first: check its operands, promote dtypes and ranks.

What has to change for operands of given types is worked out once and kept, since eager operations
should cost little more than NumPy's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.extended import is_extended
from xpr.core.jaxpr_trace import JaxprTracer
from xpr.core.physical import is_extended_aval
from xpr.core.source_info import user_stacklevel
from xpr.core.trace import check_python_int, get_aval, is_eager, is_valid_value, register_aval
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.host_values import wrap
from xpr.numpy._typing import DType, Shape
from xpr.primitives.convert import convert_element_type_p, convert_type
from xpr.primitives.shape import broadcast_in_dim_p

_PYTHON_TYPES: dict[str, Any] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
_PYTHON_NUMBERS = frozenset((bool, int, float, complex))
_KNOWN_TYPES = frozenset((ArrayImpl, JaxprTracer, np.ndarray, *_PYTHON_NUMBERS))
# The types of Python numbers, without and with 64 bits.
_NUMBER_AVALS: dict[tuple[type, bool], ShapedArray] = {}
# Every 16-bit float holds floats of this size, so that NumPy gives no warning of an overflow.
_SAFE_SIZE = 6e4


def _register_scalars() -> None:
    """Makes the types of NumPy's scalars known, which saves a walk through their base classes."""
    names = "bool int8 int16 int32 uint8 uint16 uint32 float16 float32 complex64".split()
    for scalar in (*(getattr(np, name) for name in names), dtypes.bfloat16.type):
        aval = ShapedArray((), np.dtype(scalar))
        register_aval(scalar, lambda x, aval=aval: aval)


_register_scalars()

# ---- checks


def as_operand(name: str, x: Any, position: int = 0) -> Any:
    """`x` if it is an array or a number, or the array that its `__jax_array__` gives.

    Raises TypeError for anything else: lists, tuples, None, strings.
    """
    if type(x) in _KNOWN_TYPES or isinstance(x, Array) or is_valid_value(x):
        return x
    convert = getattr(type(x), "__jax_array__", None)
    if convert is not None:
        return convert(x)
    raise TypeError(
        f"{name} requires ndarray or scalar arguments, got {type(x)} at position {position}."
    )


def check_arraylike(name: str, *args: Any) -> None:
    """Raises TypeError, naming the argument, unless each of `args` is an array or a number."""
    for position, x in enumerate(args):
        if type(x) is not ArrayImpl:
            as_operand(name, x, position)


def refuse_out(name: str, out: Any) -> None:
    """Raises NotImplementedError unless `out` is None: arrays cannot be written to."""
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to jnp.{name} is not supported.")


# ---- plans: how each operand has to change

_KEEP, _DTYPE, _WEAKNESS = 0, 1, 2
_PLAIN, _INEXACT, _NUMERIC, _POWER = "plain", "inexact", "numeric", "power"

# For each operand: the change of its type, the shape and axes to spread it over, if any, and what
# makes a Python number of its type a scalar of the common dtype.
_Fix = tuple[int, Shape | None, Shape, Callable[[Any], Any] | None]
_Plan = tuple[DType, bool, tuple[_Fix, ...] | None]

_plans: dict[Any, _Plan] = {}
_MAX_PLANS = 1 << 14


def to_inexact(dtype: DType) -> DType:
    """The floating dtype that integers and booleans become: 64 bits only for 64-bit integers."""
    if dtypes.is_inexact(dtype):
        return dtype
    if is_extended(dtype):
        raise TypeError(f"Cannot interpret '{dtype}' as a data type of numbers")
    if dtypes.kind(dtype) in "iu" and dtype.itemsize == 8:
        return dtypes.default_dtype("f")
    return np.dtype(np.float32)


def check_ranks(name: str, shapes: Sequence[Shape]) -> None:
    """Refuses operands of different ranks, or warns of them, as numpy_rank_promotion says."""
    if state.numpy_rank_promotion == "allow":
        return
    shown = " ".join(str(s) for s in shapes)
    text = (
        f"Operands could not be broadcast together for {name} on shapes {shown} and with the "
        "config option numpy_rank_promotion='raise'."
    )
    if state.numpy_rank_promotion == "raise":
        raise ValueError(text)
    warnings.warn(
        f"Following NumPy automatic rank promotion for {name} on shapes {shown}. Set "
        "numpy_rank_promotion to 'allow' to silence this warning.",
        UserWarning,
        stacklevel=user_stacklevel(),
    )


def _shape_fixes(name: str, avals: Sequence[ShapedArray]) -> list[tuple[Shape | None, Shape]]:
    shapes = [a.shape for a in avals]
    with_axes = [s for s in shapes if s]
    if len(set(with_axes)) <= 1:
        return [(None, ())] * len(shapes)
    rank = max(len(s) for s in with_axes)
    if any(len(s) != rank for s in with_axes):
        check_ranks(name, shapes)
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            raise ValueError(
                f"Incompatible shapes for broadcasting: shapes={shapes} in {name}"
            ) from None
    fixes: list[tuple[Shape | None, Shape]] = []
    for s in shapes:
        if not s or len(s) == rank:
            fixes.append((None, ()))
        else:
            first = rank - len(s)
            fixes.append(((1,) * first + s, tuple(range(first, rank))))
    return fixes


_warned_of: set[str] = set()


def _warn_of_lost_range(name: str) -> None:
    """Says once that numbers of uint32 become int32, since their common dtype has 64 bits."""
    if "uint32" in _warned_of:
        return
    _warned_of.add("uint32")
    warnings.warn(
        f"{name}: uint32 and a signed integer dtype promote to int64, which is int32 while "
        "jax_enable_x64 is off, as in JAX: numbers from 2**31 on become negative. Convert one "
        "operand explicitly, as in x.astype('int32'), or enable 64 bits. This is said once.",
        UserWarning,
        stacklevel=user_stacklevel(),
    )


def _make_plan(name: str, mode: str, avals: Sequence[ShapedArray]) -> _Plan:
    # The name says the operation only where it is one of elements.
    several = name != "promote_dtypes" and len({a.dtype for a in avals}) > 1
    if several and any(map(is_extended_aval, avals)):
        found = ", ".join(str(a.dtype) for a in avals)
        raise TypeError(f"{name} does not accept dtypes {found}.")
    dtype, weak = dtypes.promote_avals(*((a.dtype, a.weak_type) for a in avals))
    if dtype == np.int32 and any(a.dtype == np.uint32 for a in avals):
        _warn_of_lost_range(name)
    if mode == _INEXACT:
        dtype = to_inexact(dtype)
    elif mode in (_NUMERIC, _POWER) and dtype == dtypes.BOOL:
        dtype = np.dtype(np.int32)
    kept = (
        mode == _POWER and dtypes.is_inexact(avals[0].dtype) and dtypes.is_integer(avals[1].dtype)
    )
    fixes: list[_Fix] = []
    for aval, (shape, dims) in zip(avals, _shape_fixes(name, avals), strict=True):
        change, make = _KEEP, None
        if kept:
            pass
        elif aval.dtype != dtype:
            change = _DTYPE
        elif aval.weak_type != weak:
            change = _WEAKNESS
        if change != _KEEP and not aval.shape and (aval.weak_type or aval.dtype == dtypes.BOOL):
            make = _scalar_maker(dtypes.kind(aval.dtype), dtype, weak)
        fixes.append((change, shape, dims, make))
    nothing = all(change == _KEEP and shape is None for change, shape, _, _ in fixes)
    return dtype, weak, None if nothing else tuple(fixes)


def _aval_of_number(kind: type) -> ShapedArray:
    key = (kind, state.enable_x64)
    aval = _NUMBER_AVALS.get(key)
    if aval is None:
        aval = _NUMBER_AVALS[key] = get_aval(kind())
    return aval


def _plan_for(name: str, mode: str, args: Sequence[Any]) -> tuple[Sequence[Any], _Plan]:
    """What has to change for `args`, which come back with each `__jax_array__` replaced."""
    avals = []
    for i, a in enumerate(args):
        kind = type(a)
        if kind is ArrayImpl or kind is JaxprTracer:
            avals.append(a.aval)
            continue
        if kind in _PYTHON_NUMBERS:
            avals.append(_aval_of_number(kind))
            continue
        found = as_operand(name, a, i)
        if found is not a:
            return _plan_for(name, mode, [as_operand(name, b, j) for j, b in enumerate(args)])
        avals.append(get_aval(a))
    key = (mode, state.trace_key, *avals)
    plan = _plans.get(key)
    if plan is None:
        plan = _make_plan(name, mode, avals)
        if state.numpy_rank_promotion == "warn":
            return args, plan
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        _plans[key] = plan
    return args, plan


# ---- changes


def _scalar_maker(kind: str, dtype: DType, weak: bool) -> Callable[[Any], Any]:
    """What makes a Python number of `kind` a scalar of `dtype`.

    The scalar is NumPy's, or a Python number again where it stays weakly typed. A Python integer
    stands for one of the default dtype, as in JAX: what does not fit that raises OverflowError.
    """
    target = dtypes.kind(dtype)
    default = dtypes.default_dtype("i")
    scalar = dtype.type

    def check(x: Any) -> None:
        if not -0x8000_0000 <= x <= 0x7FFF_FFFF:
            check_python_int(x, default)

    def unchecked(x: Any) -> Any:
        narrowed = (kind == "c" and target != "c") or (kind == "f" and target in "iub")
        if weak and not narrowed and dtypes.default_dtype(target) == dtype:
            return _PYTHON_TYPES[target](x)
        if weak:
            return convert_type(x, dtype, True)
        if narrowed:
            return _saturated(np.asarray(x), dtype)
        if target in "iu" and dtype != default:
            return np.asarray(x, default).astype(dtype)[()]
        if target == "c":
            with np.errstate(all="ignore"):
                return scalar(x)
        if -_SAFE_SIZE < x < _SAFE_SIZE:
            return scalar(x)
        with np.errstate(all="ignore"):
            return np.asarray(x).astype(dtype)[()]

    def checked(x: Any) -> Any:
        check(x)
        return unchecked(x)

    slow = checked if kind == "i" else unchecked
    if weak or kind not in "if" or not (target == "f" or dtype == default):
        return slow
    return lambda x: scalar(x) if -_SAFE_SIZE < x < _SAFE_SIZE else slow(x)


def _saturated(host: np.ndarray[Any, Any], dtype: DType) -> Any:
    """A NumPy value in `dtype` by the rules of arrays: what an integer cannot hold saturates."""
    with np.errstate(all="ignore"):
        out = convert_element_type_p.reference(host, new_dtype=dtype, weak_type=False)
    return np.asarray(out)[()]


def convert(x: Any, dtype: DType, weak: bool = False) -> Any:
    """`x` in a canonical dtype: traced for arrays, at once for NumPy values and Python numbers."""
    if isinstance(x, Array):
        return convert_type(x, dtype, weak)
    if type(x) in _PYTHON_NUMBERS:
        return _scalar_maker(dtypes.scalar_kind(x) or "f", dtype, weak)(x)
    if weak or (dtypes.is_inexact(get_aval(x).dtype) and not dtypes.is_inexact(dtype)):
        return convert_type(x, dtype, weak)
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def scalar_type(x: Any) -> Callable[[Any], Any]:
    """What makes constants of the dtype of `x`, as weakly typed as `x` is."""
    return _constant_type(get_aval(x), get_aval(x).weak_type)


def literal_type(x: Any) -> Callable[[Any], Any]:
    """As `scalar_type`, but weakly typed only for an `x` without axes, as many of JAX's constants.

    What is computed from them and a weakly typed array with axes has a type of its own.
    """
    aval = get_aval(x)
    return _constant_type(aval, aval.weak_type and not aval.shape)


def _constant_type(aval: ShapedArray, weak: bool) -> Callable[[Any], Any]:
    if weak:
        kind = dtypes.kind(aval.dtype)
        if dtypes.default_dtype(kind) == aval.dtype:
            return _PYTHON_TYPES[kind]
    return aval.dtype.type


def without_weak_type(x: Any) -> Any:
    """`x`, an array or a number, without a weak type."""
    aval = get_aval(x)
    return convert_type(x, aval.dtype) if aval.weak_type else x


def with_weak_type_of(x: Any, out: Any) -> Any:
    """`out`, computed from `x` alone and of its dtype, as weakly typed as `x` is."""
    aval = get_aval(x)
    return convert_type(out, aval.dtype, True) if aval.weak_type else out


def _fixed(x: Any, fix: _Fix, dtype: DType, weak: bool) -> Any:
    change, shape, dims, make = fix
    if make is not None and type(x) in _PYTHON_NUMBERS:
        return make(x)
    if change == _DTYPE or (change == _WEAKNESS and type(x) is not ArrayImpl):
        x = convert(x, dtype, weak)
    elif change == _WEAKNESS:
        x = _host_view_without_weak_type(x)
    if shape is not None:
        x = _with_leading_ones(x, shape, dims)
    return x


def _host_view_without_weak_type(x: ArrayImpl) -> ArrayImpl:
    """A view of a weakly typed array without its weak type; on other devices the array itself."""
    if is_eager() and x.device.runtime.is_host:
        return wrap(x._value, x.aval.strip_weak_type(), x.device, x.committed)
    return x


def _with_leading_ones(x: Any, shape: Shape, dims: Shape) -> Any:
    if type(x) is ArrayImpl and is_eager():
        device = x.device
        if device.runtime.is_host:
            # A view costs less than an operation of its own.
            return wrap(x._value.reshape(shape), x.aval.update(shape=shape), device, x.committed)
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=dims, sharding=None)


def _promoted(name: str, mode: str, args: Sequence[Any]) -> tuple[Sequence[Any], DType]:
    args, (dtype, weak, fixes) = _plan_for(name, mode, args)
    if fixes is None:
        return args, dtype
    return [_fixed(x, f, dtype, weak) for x, f in zip(args, fixes, strict=True)], dtype


def promote_args(name: str, *args: Any) -> tuple[Sequence[Any], DType]:
    """The operands of the function `name` brought to one dtype, and that dtype.

    Ranks are made equal, but operands without axes stay as they are, for every elementwise
    primitive takes them. Raises TypeError for operands that are no arrays or numbers.
    """
    return _promoted(name, _PLAIN, args)


def promote_args_inexact(name: str, *args: Any) -> tuple[Sequence[Any], DType]:
    """As `promote_args`; integers and booleans become floats."""
    return _promoted(name, _INEXACT, args)


def promote_args_numeric(name: str, *args: Any) -> tuple[Sequence[Any], DType]:
    """As `promote_args`; booleans become int32."""
    return _promoted(name, _NUMERIC, args)


def promote_power(name: str, x: Any, y: Any) -> tuple[Sequence[Any], DType]:
    """As `promote_args_numeric`, but integer exponents of inexact arrays keep their dtype.

    As floats, large exponents would lose their parity.
    """
    return _promoted(name, _POWER, (x, y))


def promote_dtypes(*args: Any) -> list[Any]:
    """The operands brought to one dtype; shapes stay as they are."""
    return _only_dtypes(_PLAIN, args)


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    """As `promote_dtypes`; integers and booleans become floats."""
    return _only_dtypes(_INEXACT, args)


def promote_dtypes_numeric(*args: Any) -> list[Any]:
    """As `promote_dtypes`; booleans become int32."""
    return _only_dtypes(_NUMERIC, args)


def _only_dtypes(mode: str, args: Sequence[Any]) -> list[Any]:
    avals = [get_aval(a) for a in args]
    key = (mode, "dtypes", state.trace_key, *avals)
    plan = _plans.get(key)
    if plan is None:
        flat = [a.update(shape=()) for a in avals]
        plan = _plans[key] = _make_plan("promote_dtypes", mode, flat)
    dtype, weak, fixes = plan
    if fixes is None:
        return list(args)
    return [_fixed(x, f, dtype, weak) for x, f in zip(args, fixes, strict=True)]


def one_inexact(name: str, x: Any) -> Any:
    """The operand of a function of one argument; integers and booleans become floats."""
    if type(x) is ArrayImpl and dtypes.is_inexact(x.aval.dtype):
        return x
    return _promoted(name, _INEXACT, (x,))[0][0]


def one_operand(name: str, x: Any) -> tuple[Any, DType]:
    """The operand of a function of one argument, and its dtype."""
    if type(x) is not ArrayImpl:
        x = as_operand(name, x)
    return x, get_aval(x).dtype


# ---- shapes


def broadcast_to(x: Any, shape: Shape) -> Any:
    """`x` broadcast to `shape` by NumPy's rules; ValueError when it does not fit."""
    aval = get_aval(x)
    have = aval.shape
    if have == shape:
        return x
    first = len(shape) - len(have)
    if first < 0 or any(a not in (1, b) for a, b in zip(have, shape[first:], strict=True)):
        raise not_broadcastable(aval, shape)
    return broadcast_in_dim_p.bind(
        x, shape=shape, broadcast_dimensions=tuple(range(first, len(shape))), sharding=None
    )


def not_broadcastable(aval: ShapedArray, shape: Shape) -> ValueError:
    """The error for an array of type `aval` that cannot be broadcast to `shape`."""
    if aval.ndim > len(shape):
        return ValueError(
            f"Cannot broadcast to shape with fewer dimensions: arr_shape={aval.shape} shape={shape}"
        )
    plain = ShapedArray(aval.shape, aval.dtype)
    return ValueError(
        f"Incompatible types for broadcasting: input type={plain} and requested "
        f"type={plain.update(shape=shape)}"
    )


def broadcast_all(*args: Any) -> list[Any]:
    """The operands spread over their common shape; ValueError when they have none."""
    shapes = [get_aval(a).shape for a in args]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"Incompatible shapes for broadcasting: shapes={shapes}") from None
    return [broadcast_to(a, shape) for a in args]


def wide_dtype(dtype: DType) -> DType:
    """The dtype to add up values of `dtype` in: float32 for the 16-bit floats."""
    if dtypes.is_float(dtype) and dtype.itemsize <= 2:
        return np.dtype(np.float32)
    return dtype
