"""References, `jax.ref`: places that hold an array and may be written to.

    ref = xpr.new_ref(jnp.zeros(3))
    ref[0] = 1.0
    ref[1:] += 2.0
    total = ref[...].sum()

A function may make references, take them as arguments or close over them; it cannot return them.
What a jitted function, a loop or a branch writes is there when it has ended. More is said in
`docs/transformations/references.md`.
"""

from __future__ import annotations

from typing import Any

from xpr.core.primitive import uninterpreted
from xpr.core.references import AbstractRef, Ref, RefView, normalized, require_ref
from xpr.core.trace import is_valid_value
from xpr.interpreters.zeros import zeros
from xpr.primitives.ref import addupdate_p, freeze_p, get_p, new_ref_p, swap_p
from xpr.transforms.tracing import abstractify

__all__ = [
    "AbstractRef",
    "Ref",
    "addupdate",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "set",
    "swap",
]


def _check_value(name: str, x: Any) -> None:
    if not is_valid_value(x):
        raise uninterpreted(name, 0, x)


def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Ref:
    """A reference to a new place that holds `init_val`, an array or a number.

    `kind` says what JAX's rematerialization does with it, and has no effect. Raises TypeError for
    what is no array, NotImplementedError for a memory space.

    >>> import xpr
    >>> ref = xpr.new_ref(xpr.numpy.arange(3))
    >>> ref[0] = 7
    >>> ref
    Ref([7, 1, 2], dtype=int32)
    """
    if memory_space is not None:
        raise NotImplementedError(f"new_ref: memory spaces are not supported, got {memory_space!r}")
    if kind not in (None, "no_grad_no_remat"):
        raise ValueError(f"new_ref: kind must be None or 'no_grad_no_remat', got {kind!r}")
    _check_value("new_ref", init_val)
    return new_ref_p.bind(init_val, kind=kind, memory_space=None)[0]


def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """A reference to a new place for an array of the type of `ty`; it holds zeros.

    `ty` is an array or a ShapeDtypeStruct. (With JAX the values mean nothing, and there is no such
    place outside `jit`.) Raises NotImplementedError for a memory space.

    >>> import xpr, xpr.numpy as jnp
    >>> empty_ref(xpr.ShapeDtypeStruct((2,), jnp.float32))
    Ref([0., 0.], dtype=float32)
    """
    return new_ref(zeros(abstractify(ty)), memory_space=memory_space)


def freeze(ref: Ref) -> Any:
    """The value of a reference that is not used any more.

    Under a trace that made the reference, using it afterwards raises ValueError.

    >>> import xpr
    >>> freeze(xpr.new_ref(xpr.numpy.arange(3)))
    Array([0, 1, 2], dtype=int32)
    """
    _check_value("freeze", ref)
    return freeze_p.bind(ref)


def free_ref(ref: Ref) -> None:
    """Says that a reference is not used any more.

    >>> import xpr
    >>> free_ref(xpr.new_ref(1.0))
    """
    freeze_p.bind(ref)


def get(ref: Ref | RefView, idx: Any = None) -> Any:
    """`ref[idx]`, or the whole value without an index.

    Raises ValueError for an integer that is out of bounds and for what is no reference.

    >>> import xpr
    >>> get(xpr.new_ref(xpr.numpy.arange(5)), slice(1, 3))
    Array([1, 2], dtype=int32)
    """
    if isinstance(ref, RefView):
        return ref[... if idx is None else idx]
    index, operands = normalized(require_ref(ref, "get"), ... if idx is None else idx)
    return get_p.bind(ref, *operands, index=index)


def swap(ref: Ref | RefView, idx: Any, value: Any) -> Any:
    """Writes `value` at `idx`, and gives what was there.

    Raises ValueError for another shape or dtype than what was there.

    >>> import xpr
    >>> ref = xpr.new_ref(xpr.numpy.arange(5))
    >>> swap(ref, 3, 10)
    Array(3, dtype=int32)
    >>> ref
    Ref([ 0,  1,  2, 10,  4], dtype=int32)
    """
    if isinstance(ref, RefView):
        idx = ... if idx is None else idx
        before = ref[idx]
        ref[idx] = value
        return before
    index, operands = normalized(require_ref(ref, "swap"), ... if idx is None else idx)
    return swap_p.bind(ref, value, *operands, index=index)[0]


def set(ref: Ref | RefView, idx: Any, value: Any) -> None:
    """`ref[idx] = value`.

    >>> import xpr
    >>> ref = xpr.new_ref(xpr.numpy.zeros(2))
    >>> set(ref, 1, 10.0)
    >>> ref
    Ref([ 0., 10.], dtype=float32)
    """
    whole = ref if isinstance(ref, RefView) else require_ref(ref, "set")
    whole[... if idx is None else idx] = value


def addupdate(ref: Ref | RefView, idx: Any, x: Any) -> None:
    """Adds `x` to what stands at `idx`; an element that an array names twice is added to twice.

    >>> import xpr, xpr.numpy as jnp
    >>> ref = xpr.new_ref(jnp.zeros(3))
    >>> addupdate(ref, jnp.array([0, 0, 2]), jnp.ones(3))
    >>> ref
    Ref([2., 0., 1.], dtype=float32)
    """
    if isinstance(ref, RefView):
        ref.addupdate(x, ... if idx is None else idx)
        return
    index, operands = normalized(require_ref(ref, "addupdate"), ... if idx is None else idx)
    addupdate_p.bind(ref, x, *operands, index=index)
