"""Operations on references (`xpr/core/references.py`): what functions that are traced record.

Outside such functions nothing is recorded: the primitives' `bind` reads and replaces the value that
a reference holds. So their rules are never asked for, and no program that runs has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.context import context
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.manual import in_order, joined, with_vma
from xpr.core.primitive import NotBatchable, NotDifferentiable, NotLinear, Primitive, define
from xpr.core.references import (
    REFERENCE,
    AbstractRef,
    Ref,
    index_of,
    read,
    recorder_for,
    require_ref,
    write,
)
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._collective_sums import vary

_WHY = "references become values before programs are transformed"


def _selected(aval: ShapedArray, index: Sequence[Any], operands: Sequence[ShapedArray]) -> Any:
    """The type of what an index selects."""
    if tuple(index) == (...,):
        return aval
    closed = trace_to_jaxpr(lambda x, *xs: [x[index_of(index, xs)]], [aval, *operands])
    return closed.out_avals[0]


def _inner(aval: Any, name: str) -> ShapedArray:
    if not isinstance(aval, AbstractRef):
        raise ValueError(f"Can only call `ref_{name}` on a `Ref`: {aval}.")
    return aval.inner_aval


def _prepared(name: str, ref: Ref, value: Any, operands: Sequence[Any], index: Any) -> Any:
    """A value to be written, in the dtype of the reference; ValueError unless it has its type."""
    aval, inner = get_aval(value), ref.aval.inner_aval
    wanted = _selected(inner, index, [get_aval(x) for x in operands])
    if aval.shape != wanted.shape:
        raise ValueError(
            f"Invalid shape for `{name}`. Ref shape: {inner.shape}. Expected shape: "
            f"{wanted.shape}. Value shape: {aval.shape}."
        )
    if aval.dtype == inner.dtype:
        return value
    if not aval.weak_type or np.dtype(aval.dtype).kind != np.dtype(inner.dtype).kind:
        raise ValueError(
            f"Invalid dtype for `{name}`. Ref dtype: {inner.dtype}. Value dtype: {aval.dtype}."
        )
    return ops.convert(value, inner.dtype)


def _varying_as(ref: Ref, value: Any, operands: Sequence[Any]) -> Any:
    """A value to be written, made to vary as the reference does; ValueError if it varies more."""
    allowed = ref.aval.inner_aval.vma
    more = joined(map(get_aval, (value, *operands))) - allowed
    if more:
        raise ValueError(
            f"a value of type {get_aval(value)} is written to a reference of type {ref.aval}, "
            f"which is the same along {sorted(more)}: make the reference vary there, with in_specs "
            "that name these axes, or new_ref(lax.pcast(value, axes, to='varying'))"
        )
    return vary(value, in_order(allowed - get_aval(value).vma))


class _Access(Primitive):
    """Reads or writes; recorded where the reference is recorded."""

    __slots__ = ()
    takes_references = True

    def bind(self, *args: Any, unread: bool = False, **params: Any) -> Any:
        """With `unread` nobody wants to know what was there before."""
        ref, *rest = args
        ref = require_ref(ref, self.name)
        index = params["index"]
        if self.name != "get":
            rest[0] = _prepared(self.name, ref, rest[0], rest[1:], index)
            if context.manual_axes:
                rest[0] = _varying_as(ref, rest[0], rest[1:])
        if recorder_for(ref) is context.trace:
            return super().bind(ref, *rest, **params)
        return _done(self.name, ref, rest, index, unread)


def _done(name: str, ref: Ref, rest: Sequence[Any], index: Sequence[Any], unread: bool) -> Any:
    """What the operation does to the value."""
    old = read(ref)
    whole = tuple(index) == (...,)
    if name == "get":
        return old if whole else old[index_of(index, rest)]
    value, *operands = rest
    where = index_of(index, operands)
    if name == "swap":
        write(ref, value if whole else old.at[where].set(value))
        return [] if unread else [old if whole else old[where]]
    new = ops.add(old, value) if whole else old.at[where].add(value)
    write(ref, new, "an addupdate")
    return []


class _NewRef(Primitive):
    __slots__ = ()

    def bind(self, *args: Any, **params: Any) -> Any:
        (value,) = args
        trace: Any = context.trace
        aval = get_aval(value)
        if isinstance(aval, AbstractRef):
            raise TypeError(f"new_ref takes an array, got a reference of type {aval}")
        if trace.keeps_refs:
            (found,) = super().bind(value, **params)
            return [Ref(found.aval, trace, tracer=found)]
        if trace is context.eager:
            value = ops.bind("copy", value)  # the user may donate what was given
        elif not isinstance(value, Array):
            value = ops.convert(value, aval.dtype, aval.weak_type)
        return [Ref(AbstractRef(aval), trace, value)]


class _Freeze(Primitive):
    __slots__ = ()
    takes_references = True

    def bind(self, *args: Any, **params: Any) -> Any:
        ref = require_ref(args[0], "freeze")
        if recorder_for(ref) is not context.trace:
            return read(ref)
        found = super().bind(ref, **params)
        if ref.home is context.trace:
            ref.tracer = found  # what is bound on it from now on finds no reference
        return found


def _new_ref_abstract(aval: ShapedArray, **_: Any) -> Any:
    return [AbstractRef(aval)]


def _get_abstract(ref: Any, *operands: ShapedArray, index: Any) -> Any:
    return _selected(_inner(ref, "get"), index, operands)


def _swap_abstract(ref: Any, value: ShapedArray, *operands: ShapedArray, index: Any) -> Any:
    del value
    return [_selected(_inner(ref, "swap"), index, operands)]


def _addupdate_abstract(ref: Any, *_: ShapedArray, index: Any) -> Any:
    del index
    _inner(ref, "addupdate")
    return []


def _freeze_abstract(ref: Any) -> Any:
    return _inner(ref, "freeze")


def _vma(avals: Sequence[Any], found: Any, params: Any) -> Any:
    """What is read varies as what was written may, and as the index does."""
    del params
    if isinstance(found, list):
        return [a if isinstance(a, AbstractRef) else _vma(avals, a, None) for a in found]
    ref, *operands = avals
    return with_vma(found, ref.inner_aval.vma | joined(operands))


def _no_reference(*_: Any, **__: Any) -> Any:
    raise NotImplementedError(f"references have no NumPy rule: {_WHY}")


def _defined(
    name: str, kind: type[Primitive], doc: str, abstract: Any, effects: bool = False
) -> Primitive:
    return define(
        name,
        family="ref",
        doc=doc,
        abstract=abstract,
        reference=_no_reference,
        jvp=NotDifferentiable(_WHY),
        transpose=NotLinear(_WHY),
        batch=NotBatchable(_WHY),
        multiple_results=effects,
        effects=(lambda _: frozenset((REFERENCE,))) if effects else None,
        eager="inline",
        vma=_vma,
        kind=kind,
    )


new_ref_p = _defined("new_ref", _NewRef, "A reference to a new place.", _new_ref_abstract, True)
get_p = _defined("get", _Access, "What a reference holds.", _get_abstract)
swap_p = _defined("swap", _Access, "Writes, and gives what was there.", _swap_abstract, True)
addupdate_p = _defined("addupdate", _Access, "Adds to what is there.", _addupdate_abstract, True)
freeze_p = _defined("freeze", _Freeze, "The last value of a reference.", _freeze_abstract)
