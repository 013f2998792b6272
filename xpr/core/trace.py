"""Traces and tracers: what happens when a primitive is bound.

One trace is current in each thread. Outside every transformation it is the eager trace, which
computes; inside `jit` or `make_jaxpr` it is a `JaxprTrace`, which records equations. A value made
by another live trace is a constant to the current one; a value of a finished trace is a leak.
"""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray, scalar_aval
from xpr.core.config import set_meshes, state
from xpr.core.context import Context, context
from xpr.core.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
    shown,
)

if TYPE_CHECKING:
    from xpr.core.primitive import Primitive


class Trace:
    """What binding a primitive means; subclasses compute, record, differentiate or batch."""

    alive: bool = True
    # Whether it records what is done with references: see `xpr/core/references.py`.
    keeps_refs: bool = False
    # Whether values of high types are Python objects to it, which primitives on them act on at
    # once: see `xpr/core/high.py`. `any_high` is true, of all traces, once there is such a type.
    lowers: bool = False
    any_high: bool = False

    @property
    def main(self) -> Trace:
        """The trace itself: libraries compare traces by this name."""
        return self

    def runs_eagerly(self) -> bool:
        """Whether what is done here ends as single operations, not in a program."""
        return False

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must say what binding a primitive does")

    def state_of(self, x: Any) -> Any:
        """The state of a value of a mutable high type, at this point of the program."""
        return x.cur_qdd()

    def process_on_several(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Binds a primitive that several devices compute, wherever its operands are."""
        return self.process_primitive(primitive, args, params)

    def process_custom_jvp_call(
        self,
        primitive: Any,
        fun: Callable[..., Sequence[Any]],
        jvp: Callable[..., Any],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> Sequence[Any]:
        """Calls a function that has a JVP rule of its own."""
        raise NotImplementedError(f"{type(self).__name__} must say what custom_jvp calls do")

    def process_custom_vjp_call(
        self,
        primitive: Any,
        fun: Callable[..., Sequence[Any]],
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> Sequence[Any]:
        """Calls a function that has a VJP rule of its own."""
        raise NotImplementedError(f"{type(self).__name__} must say what custom_vjp calls do")


class _NoEagerTrace(Trace):
    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        raise RuntimeError("xpr is only half imported: import xpr before using its parts")


Context.trace = _NoEagerTrace()


def install_eager_trace(trace: Trace) -> None:
    """Makes `trace` the one that every thread starts with."""
    Context.trace = trace
    Context.eager = trace


class set_current_trace:
    """Makes `trace` current inside a `with` block."""

    __slots__ = ("_old", "_trace")

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __enter__(self) -> None:
        self._old = context.trace
        context.trace = self._trace

    def __exit__(self, *_: object) -> None:
        context.trace = self._old


class outside_programs:
    """Makes operations inside a `with` block compute at once, whatever is traced around it.

    There is no mesh in use, either: a function that a program calls is that of one device.
    """

    __slots__ = ("_meshes", "_old")

    def __enter__(self) -> None:
        c = context
        self._meshes = state.meshes
        if self._meshes is not None:
            set_meshes(None)
        self._old = c.trace, c.source, c.axis_env, c.name_stack, c.manual_axes, c.spmd_names
        c.trace, c.source = c.eager, None
        c.axis_env, c.name_stack, c.manual_axes, c.spmd_names = (), (), (), ()

    def __exit__(self, *_: object) -> None:
        c = context
        c.trace, c.source, c.axis_env, c.name_stack, c.manual_axes, c.spmd_names = self._old
        if self._meshes is not None:
            set_meshes(self._meshes)


def is_eager() -> bool:
    """Whether no transformation is under way in this thread."""
    return context.trace is context.eager


# ---- avals of concrete values

aval_rules: dict[type, Callable[[Any], ShapedArray]] = {}
"""How values are abstracted, by class."""


def register_aval(type_: type, rule: Callable[[Any], ShapedArray]) -> None:
    """Says how values of `type_` are abstracted."""
    aval_rules[type_] = rule


def get_aval(x: Any) -> ShapedArray:
    """The aval of an array, a tracer, a NumPy value or a Python scalar; TypeError for others."""
    rule = aval_rules.get(type(x))
    if rule is not None:
        return rule(x)
    for base in type(x).__mro__[1:]:
        rule = aval_rules.get(base)
        if rule is not None:
            return rule(x)
    raise TypeError(
        f"Value {shown(x)} with type {type(x)} is not a valid JAX type: "
        "expected an array, a NumPy value or a Python number"
    )


def is_valid_value(x: Any) -> bool:
    """Whether `get_aval(x)` has an answer."""
    return any(base in aval_rules for base in type(x).__mro__)


def _aval_of_ndarray(x: np.ndarray[Any, Any]) -> ShapedArray:
    # NumPy loads its masked arrays, a tenth of what importing xpr takes, when they are named.
    if type(x) is not np.ndarray and isinstance(x, np.ma.MaskedArray):
        raise ValueError(
            "numpy masked arrays are not supported as direct inputs to JAX functions. Use "
            f"arr.filled() to convert the value to a standard numpy array, got {shown(x)}"
        )
    try:
        dtype = dtypes.canonicalize(x.dtype, allow_float0=True)
    except TypeError as error:
        raise TypeError(
            f"Value {shown(x)} of type {type(x)} is not a valid JAX type: {error}"
        ) from None
    return ShapedArray(x.shape, dtype)


register_aval(bool, lambda x: scalar_aval("b"))
register_aval(int, lambda x: scalar_aval("i"))
register_aval(float, lambda x: scalar_aval("f"))
register_aval(complex, lambda x: scalar_aval("c"))
register_aval(np.ndarray, _aval_of_ndarray)
register_aval(
    np.generic, lambda x: ShapedArray((), dtypes.canonicalize(x.dtype, allow_float0=True))
)


def check_python_int(x: Any, dtype: np.dtype[Any]) -> None:
    """Raises OverflowError when a Python integer does not fit the dtype it stands for."""
    if type(x) is int:
        info = np.iinfo(dtype)
        if not info.min <= x <= info.max:
            raise OverflowError(f"Python int {x} too large to convert to {dtype}")


# ---- tracers


class Tracer(Array):
    """Stands for an array while a function is traced."""

    __slots__ = ("__weakref__", "_trace", "aval")

    aval: ShapedArray
    _trace: Any

    def __init__(self, trace: Trace, aval: ShapedArray) -> None:
        self._trace = trace
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.aval.dtype

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    @property
    def size(self) -> int:
        return self.aval.size

    def _leaked_from(self) -> str:
        """What more to say when the tracer is used after its trace has ended."""
        return ""

    def _origin(self) -> str:
        """Where the tracer comes from, for messages."""
        return ""

    def _static_advice(self) -> str:
        """That the value may come from a static argument, where there are such arguments."""
        return ""

    def _concrete(self) -> Any:
        """A value whose Python value may stand for this tracer's; None if there is none."""
        return None

    def __bool__(self) -> bool:
        if (value := self._concrete()) is not None:
            return bool(value)
        if self.shape and self.size != 1:
            sizes = "an array with more than one element" if self.size else "an empty array"
            raise ValueError(
                f"The truth value of {sizes} is ambiguous, got {_shape(self)}{self._origin()}\n"
                "Use .any() or .all()."
            )
        raise TracerBoolConversionError(
            "Attempted boolean conversion of traced array with shape "
            f"{_shape(self)}.{self._origin()}\n"
            "Use xpr.numpy.where or xpr.lax.cond, or xpr.lax.while_loop in place of `while`"
            f"{self._static_advice()}."
        )

    def __index__(self) -> int:
        if (value := self._concrete()) is not None:
            return operator.index(value)
        if self.shape or dtypes.kind(self.dtype) not in "iu":
            raise TypeError(
                "Only integer scalar arrays can be converted to a scalar index, got "
                f"{_shape(self)}{self._origin()}"
            )
        raise TracerIntegerConversionError(
            "The __index__() method was called on traced array with shape "
            f"{_shape(self)}{self._origin()}"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        raise TracerArrayConversionError(
            "The numpy.ndarray conversion method __array__() was called on traced array with "
            f"shape {_shape(self)}{self._origin()}\nUse the function of xpr.numpy instead of "
            "NumPy's."
        )

    def _concretization(self, what: str) -> ConcretizationTypeError:
        return ConcretizationTypeError(
            "Abstract tracer value encountered where concrete value is expected: traced array with "
            f"shape {_shape(self)}\n{what}{self._origin()}"
        )

    def __int__(self) -> int:
        if (value := self._concrete()) is not None:
            return int(value)
        self._require_scalar("int()")
        raise self._concretization(_conversion_hint("int"))

    def __float__(self) -> float:
        if (value := self._concrete()) is not None:
            return float(value)
        self._require_scalar("float()")
        raise self._concretization(_conversion_hint("float"))

    def __complex__(self) -> complex:
        if (value := self._concrete()) is not None:
            return complex(value)
        self._require_scalar("complex()")
        raise self._concretization(_conversion_hint("complex"))

    def _require_scalar(self, what: str) -> None:
        if self.shape:
            raise TypeError(
                f"Only scalar arrays can be converted to Python scalars; {what} got an array of "
                f"shape {self.shape}{self._origin()}"
            )

    def item(self, *args: int) -> Any:
        if (value := self._concrete()) is not None:
            return value.item(*args)
        raise self._concretization(
            "`item()` needs the value, which exists only when the program runs."
        )

    def tolist(self) -> Any:
        if (value := self._concrete()) is not None:
            return value.tolist()
        raise self._concretization(
            "`tolist()` needs the values, which exist only when the program runs."
        )

    def block_until_ready(self) -> Tracer:
        return self

    def devices(self) -> Any:
        if (value := self._concrete()) is not None:
            return value.devices()
        raise self._concretization(
            f"The devices() method was called on traced array with shape {_shape(self)}."
        )

    @property
    def committed(self) -> bool:
        if (value := self._concrete()) is not None:
            return value.committed
        raise self._concretization(
            f"The 'committed' attribute is not available on traced array with shape {_shape(self)}."
        )

    def __getattr__(self, name: str) -> Any:
        if name in _PLACE:
            raise AttributeError(
                f"The {name!r} attribute is not available on traced array with shape "
                f"{_shape(self)}: where a program runs is known when it is called. The sharding of "
                f"its type is that of xpr.typeof(x){self._origin()}"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __hash__(self) -> int:
        raise TypeError(f"unhashable type: {type(self).__name__!r}")

    def __repr__(self) -> str:
        return f"JitTracer({self.aval})"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> Any:
        raise self._concretization("A traced array cannot be pickled.")

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self

    def __copy__(self) -> Tracer:
        return self


# What only concrete arrays have, and programs may ask of any array.
_PLACE = frozenset(
    {"addressable_shards", "device", "global_shards", "is_fully_addressable",
     "is_fully_replicated", "sharding"}
)  # fmt: skip


def _shape(x: Tracer) -> str:
    return str(x.aval.strip_weak_type())


def _conversion_hint(name: str) -> str:
    return (
        f"The problem arose with the `{name}` function. If trying to convert the data type of a "
        f"value, try using `x.astype({name})` or `jnp.array(x, {name})` instead."
    )


def check_leaks(trace: Trace) -> None:
    """UnexpectedTracerError if a tracer of `trace`, which has ended, can still be reached.

    For `check_tracer_leaks`: the whole process is searched. What called the traced function must
    have let go of its tracers.
    """
    gc.collect()
    # Objects that pretend to be of another class are not asked: `type` cannot be deceived.
    found = [x for x in gc.get_objects() if issubclass(type(x), Tracer) and x._trace is trace]
    if found:
        shown_tracers = "\n".join(f"{x!r}{x._origin()}" for x in found)
        raise UnexpectedTracerError(
            f"Leaked trace {type(trace).__name__}. Leaked tracer(s):\n\n{shown_tracers}\n"
            "They are still referred to after the function that was traced has returned."
        )


def leaked(tracer: Tracer) -> UnexpectedTracerError:
    """The error for a tracer whose trace has ended."""
    text = (
        "Encountered an unexpected tracer. A function transformed by xpr had a side effect, "
        "allowing for a reference to an intermediate value with type "
        f"{tracer.aval.strip_weak_type()} wrapped in a {type(tracer).__name__} to escape the scope "
        "of the transformation.\nTransformations require that functions explicitly return their "
        "outputs, and disallow saving intermediate values to global state."
    )
    return UnexpectedTracerError(text + tracer._leaked_from())


register_aval(Tracer, lambda x: x.aval)
