"""References: places that hold an array and may be written to.

A reference belongs to the trace in which it was made, its *home*. While functions are traced to
jaxprs, what is done with it is recorded as equations (`xpr/primitives/ref.py`). Everywhere else a
reference is a cell that holds its present value, which each write replaces: values are as ever, so
that derivatives and batches need no rules for references. One pass over the jaxpr turns recorded
references into values before programs run (`xpr/interpreters/references.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xpr.core.array import Array
from xpr.core.aval import ShapedArray, without_dim
from xpr.core.context import context
from xpr.core.effects import Effect
from xpr.core.errors import UnexpectedTracerError, shown
from xpr.core.primitive import get_primitive
from xpr.core.stretches import Slice
from xpr.core.trace import Trace, Tracer, get_aval, register_aval, set_current_trace

if TYPE_CHECKING:
    from xpr.core.jaxpr import ClosedJaxpr, Jaxpr

REFERENCE = Effect("Reference", exact=False, ordered=False)
"""A program makes references, or writes to some."""


class AbstractRef:
    """The type of a reference to arrays of type `inner_aval`.

    >>> import xpr
    >>> xpr.typeof(xpr.new_ref(xpr.numpy.zeros(3)))
    Ref{float32[3]}
    """

    __slots__ = ("inner_aval",)

    sharding = None
    memory_space = "device"
    vma: frozenset[str] = frozenset()
    is_high = False
    has_qdd = False

    def __init__(self, inner_aval: ShapedArray) -> None:
        self.inner_aval = inner_aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inner_aval.shape

    @property
    def dtype(self) -> Any:
        return self.inner_aval.dtype

    @property
    def ndim(self) -> int:
        return self.inner_aval.ndim

    @property
    def size(self) -> int:
        return self.inner_aval.size

    @property
    def weak_type(self) -> bool:
        return self.inner_aval.weak_type

    def strip_weak_type(self) -> AbstractRef:
        return self

    def normalize(self) -> AbstractRef:
        return self

    def to_tangent_aval(self) -> AbstractRef:
        """The type of a reference to the tangents."""
        return AbstractRef(self.inner_aval.to_tangent_aval())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractRef) and self.inner_aval == other.inner_aval

    def __hash__(self) -> int:
        return hash((AbstractRef, self.inner_aval))

    def update(self, **_: Any) -> Any:
        """What operations on arrays ask of a type: TypeError."""
        raise TypeError(f"expected an array, got a reference of type {self}: read it, ref[...]")

    def str_short(self) -> str:
        """The form that jaxprs print, such as `Ref{f32[3,4]}`."""
        return f"Ref{{{self.inner_aval.str_short()}}}"

    def __str__(self) -> str:
        return f"Ref{{{self.inner_aval}}}"

    __repr__ = __str__


class Ref:
    """A reference to an array: `xpr.new_ref` makes one.

    `ref[index]` reads and `ref[index] = value` writes; the indices are those of arrays, `...` means
    the whole. Raises ValueError for a value of another shape or dtype than what it replaces.

    >>> import xpr, xpr.numpy as jnp
    >>> ref = xpr.new_ref(jnp.zeros(3))
    >>> ref[1] += 5
    >>> ref
    Ref([0., 5., 0.], dtype=float32)
    """

    __slots__ = ("__weakref__", "aval", "home", "tracer", "value", "written")

    def __init__(
        self, aval: AbstractRef, home: Trace, value: Any = None, tracer: Any = None
    ) -> None:
        self.aval = aval
        self.home = home
        # One of the two: the present value of a cell, or a variable of a trace that records.
        self.value = value
        self.tracer = tracer
        self.written = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    @property
    def sharding(self) -> Any:
        """How the array is sharded over devices."""
        return read(self).sharding

    @property
    def committed(self) -> bool:
        """Whether the user placed the array."""
        return read(self).committed

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise not_an_array(self, "conversion to NumPy")

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        template, operands = normalized(self, index)
        return get_primitive("get").bind(self, *operands, index=template)

    def __setitem__(self, index: Any, value: Any) -> None:
        template, operands = normalized(self, index)
        get_primitive("swap").bind(self, value, *operands, index=template, unread=True)

    def addupdate(self, value: Any, index: Any = ...) -> None:
        """Adds `value` to the elements at `index`."""
        template, operands = normalized(self, index)
        get_primitive("addupdate").bind(self, value, *operands, index=template)

    @property
    def at(self) -> _Views:
        """`ref.at[index]` is the part at an index, which is read and written as a reference is.

        >>> import xpr, xpr.numpy as jnp
        >>> ref = xpr.new_ref(jnp.zeros(4))
        >>> ref.at[1:3][1] = 5
        >>> ref
        Ref([0., 0., 5., 0.], dtype=float32)
        """
        return _Views(self)

    def __repr__(self) -> str:
        if isinstance(self.value, Array) and not isinstance(self.value, Tracer):
            return "Ref" + repr(self.value).removeprefix("Array")
        return str(self.aval)

    def __copy__(self) -> Ref:
        raise TypeError("a reference cannot be copied: copy its value, xpr.new_ref(ref[...])")

    def __deepcopy__(self, memo: Any) -> Ref:
        return self.__copy__()

    def __reduce__(self) -> Any:
        raise TypeError("a reference cannot be pickled: pickle its value, ref[...]")


register_aval(Ref, lambda x: x.aval)


class RefView:
    """A part of the array in a reference: `ref.at[index]` makes one.

    The index is looked at when the part is read or written, and means what it means for arrays.
    """

    __slots__ = ("_index", "_whole")

    def __init__(self, whole: Ref | RefView, index: Any) -> None:
        self._whole = whole
        self._index = index

    @property
    def aval(self) -> ShapedArray:
        return get_aval(self[...])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self._whole.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def at(self) -> _Views:
        return _Views(self)

    def __getitem__(self, index: Any) -> Any:
        part = self._whole[self._index]
        return part if _is_whole(index) else part[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if not _is_whole(index):
            value = self._whole[self._index].at[index].set(value)
        self._whole[self._index] = value

    def addupdate(self, value: Any, index: Any = ...) -> None:
        """Adds `value` to the elements at `index`."""
        if _is_whole(index):
            self._whole.addupdate(value, self._index)
        else:
            self._whole[self._index] = self._whole[self._index].at[index].add(value)

    def __repr__(self) -> str:
        return f"{self._whole!r}.at[{self._index!r}]"


class _Views:
    """Makes views of a reference, or of one of its views, by index."""

    __slots__ = ("_whole",)

    def __init__(self, whole: Ref | RefView) -> None:
        self._whole = whole

    def __getitem__(self, index: Any) -> RefView:
        return RefView(self._whole, index)


def _is_whole(index: Any) -> bool:
    return index is Ellipsis or (isinstance(index, tuple) and index in ((), (Ellipsis,)))


def require_ref(x: Any, name: str) -> Ref:
    """`x`, if it is a reference; ValueError otherwise."""
    if not isinstance(x, Ref):
        what = get_aval(x) if isinstance(x, Array) else shown(x)
        raise ValueError(f"Can only call `ref_{name}` on a `Ref`: {what}.")
    return x


def not_an_array(ref: Ref, name: str) -> TypeError:
    """The error of an operation on numbers that is given a reference."""
    return TypeError(
        f"{name} requires ndarray or scalar arguments, got {type(ref)} of type {ref.aval}: read "
        "its value, ref[...]"
    )


def belongs_to_trace(x: Any) -> bool:
    """Whether `x` means something inside one trace only: a tracer, or a reference made there."""
    return isinstance(x, Tracer) or (type(x) is Ref and x.home is not context.eager)


# ---- where a reference is kept


def recorder_for(ref: Ref) -> Any:
    """The trace that records what is done with `ref`, seen from the current one.

    None if it is a cell that can be reached at once.
    """
    trace: Any = context.trace
    while True:
        if trace is ref.home:
            return trace if ref.tracer is not None else None
        if trace.keeps_refs:
            return trace
        parent = getattr(trace, "parent", None)
        if parent is None:
            raise UnexpectedTracerError(
                f"a reference of type {ref.aval} is used outside of the function in which it was "
                "made, which has been traced: return its value, ref[...]"
            )
        trace = parent


def read(ref: Ref) -> Any:
    """The whole present value."""
    recorder = recorder_for(ref)
    if recorder is None:
        return ref.value
    with set_current_trace(recorder):
        return recorder.process_primitive(get_primitive("get"), [ref], {"index": (...,)})


def write(ref: Ref, value: Any, what: str = "a set/swap") -> None:
    """Replaces the whole value.

    Raises ValueError for one that a transformation made inside the place where the reference is.
    """
    recorder = recorder_for(ref)
    _check_origin(ref, value, recorder, what)
    inner = ref.aval.inner_aval
    aval = get_aval(value)
    if aval.dtype != inner.dtype or aval.weak_type != inner.weak_type or type(value) is np.ndarray:
        convert = get_primitive("convert_element_type")
        value = convert.bind(value, new_dtype=inner.dtype, weak_type=inner.weak_type)
    if recorder is None:
        ref.value = value
        ref.written = True
        return
    with set_current_trace(recorder):
        recorder.process_primitive(get_primitive("swap"), [ref, value], {"index": (...,)})


def _check_origin(ref: Ref, value: Any, recorder: Any, what: str) -> None:
    if not isinstance(value, Tracer):
        return
    trace: Any = context.trace
    while trace is not None and trace is not ref.home and trace is not recorder:
        if value._trace is trace:
            if hasattr(trace, "axis"):
                raise ValueError(
                    f"performing {what} operation with vmapped value on an unbatched array "
                    f"reference of type {ref.aval}. Move the array reference to be an argument to "
                    "the vmapped function?"
                )
            raise ValueError(
                f"performing {what} operation with a differentiated value on a "
                f"non-differentiated array reference of type {ref.aval}. Move the array reference "
                "to be an argument of the differentiated function?"
            )
        trace = getattr(trace, "parent", None)


# ---- indices


class RefSlice:
    """A slice of a recorded index: slices cannot be hashed."""

    __slots__ = ("start", "step", "stop")

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.start, self.stop, self.step = start, stop, step

    def __str__(self) -> str:
        ends = [self.start, self.stop] + ([self.step] if self.step is not None else [])
        return ":".join("" if e is None else str(e) for e in ends)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RefSlice) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class Operand:
    """The place of an operand in a recorded index."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operand) and self.number == other.number

    def __hash__(self) -> int:
        return hash((Operand, self.number))

    def __str__(self) -> str:
        return f"#{self.number}"


class RefStretch:
    """A `ds` of a recorded index: the place of its start among the operands."""

    __slots__ = ("number", "size", "stride")

    def __init__(self, number: int, size: int, stride: int) -> None:
        self.number = number
        self.size = size
        self.stride = stride

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RefStretch) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return RefStretch, self.number, self.size, self.stride

    def __str__(self) -> str:
        return f"#{self.number}:#{self.number}+{self.size}" + (
            f":{self.stride}" if self.stride != 1 else ""
        )


def normalized(ref: Ref, index: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """An index as a tuple that can be hashed, and the arrays in it, its operands.

    Raises ValueError for an integer that is out of bounds, and for too many indices.
    """
    entries = index if isinstance(index, tuple) else (index,)
    spent = sum(_axes_of(e) for e in entries)
    if spent > ref.ndim:
        raise ValueError(
            f"`indices` must not be longer than `shape`: indices={entries}, shape={ref.shape}"
        )
    template: list[Any] = []
    operands: list[Any] = []
    axis = 0
    for entry in entries:
        if entry is Ellipsis:
            axis += ref.ndim - spent
        if entry is None or entry is Ellipsis:
            template.append(entry)
            continue
        if isinstance(entry, Slice):
            _record_stretch(entry, ref.shape[axis], template, operands)
        elif isinstance(entry, slice):
            template.append(RefSlice(entry.start, entry.stop, entry.step))
        elif isinstance(entry, (int, np.integer)) and not isinstance(entry, bool):
            template.append(_checked(int(entry), ref.shape[axis]))
        else:
            template.append(Operand(len(operands)))
            operands.append(np.asarray(entry) if isinstance(entry, (list, bool)) else entry)
        axis += _axes_of(entry)
    return tuple(template), operands


def _record_stretch(item: Slice, size: int, template: list[Any], operands: list[Any]) -> None:
    """A `ds` along an axis of that size: a slice if its start is known, and then it has to fit."""
    if isinstance(item.start, int):
        stop = item.start + (item.size - 1) * item.stride + 1 if item.size else item.start
        if not 0 <= item.start <= stop <= size:
            raise ValueError(
                f"Out of bound slice: start={item.start}, size={item.size}, stride={item.stride}, "
                f"dim={size}."
            )
        template.append(RefSlice(item.start, stop, item.stride))
    else:
        template.append(RefStretch(len(operands), item.size, item.stride))
        operands.append(item.start)


def _axes_of(entry: Any) -> int:
    """How many axes an entry of an index takes."""
    if entry is None or entry is Ellipsis:
        return 0
    dtype = getattr(entry, "dtype", None)
    return entry.ndim if dtype is not None and dtype == np.bool_ else 1


def _checked(index: int, size: int) -> int:
    if not -size <= index < size:
        raise ValueError(f"Out of bound indexer: idx={index}, dim={size}.")
    return index


def index_of(template: Sequence[Any], operands: Sequence[Any]) -> Any:
    """The index of arrays that a recorded one and its operands mean."""
    return tuple(
        operands[e.number]
        if isinstance(e, Operand)
        else slice(e.start, e.stop, e.step)
        if isinstance(e, RefSlice)
        else Slice(operands[e.number], e.size, e.stride)
        if isinstance(e, RefStretch)
        else e
        for e in template
    )


def slice_of_ref(aval: Any, dim: int = 0) -> Any:
    """The type of a slice along an axis of an array or of a reference to one."""
    if isinstance(aval, AbstractRef):
        return AbstractRef(without_dim(aval.inner_aval, dim))
    return without_dim(aval, dim)


def uses_references(jaxpr: Jaxpr) -> bool:
    """Whether a program makes, reads or writes references."""
    # A program that makes a reference and never writes to it has no effect; it is rare.
    if REFERENCE in jaxpr.effects:
        return True
    return any(isinstance(v.aval, AbstractRef) for v in (*jaxpr.constvars, *jaxpr.invars))


class Discharged(NamedTuple):
    """A program on the values of its references, which stand where those stood.

    `consts` are operands in front of the others. After the results stand the new values of the
    inputs (without `consts`) that `written` names.
    """

    closed: ClosedJaxpr
    consts: list[Any]
    written: tuple[int, ...]
