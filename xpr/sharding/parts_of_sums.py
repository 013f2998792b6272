"""Partitioning of values that are held as parts of sums: when a sum is completed, and when not.

A value that is *unreduced* along mesh axes is what the devices along them hold together: the sum of
their parts. Its type says so, along Explicit axes. It is computed with as it is by operations that
are linear in it (`linear.py`); who needs the whole value gets the sum, by one collective, or by one
that leaves each device its own block, if that is what is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core.aval import ShapedArray, unreduced_axes
from xpr.core.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var, literal_operand
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.sharding.layout import replicated
from xpr.sharding.linear import summands, unreduced_result
from xpr.sharding.mesh import AxisType
from xpr.sharding.moves import reshard
from xpr.sharding.place import MeshPlace
from xpr.sharding.rule import Axes, Spec

if TYPE_CHECKING:
    from xpr.sharding.partition import Held, Walk

MAKES = frozenset({"broadcast_in_dim", "iota", "empty"})
"""Operations that make a value from nothing: each device's part is what they make."""


def unreduced_of(aval: ShapedArray) -> Axes:
    """The Explicit mesh axes along which values of this type are parts of sums, in order."""
    axes = unreduced_axes(aval)
    if not axes:
        return ()
    mesh = aval.sharding.mesh
    return tuple(a for a in mesh.axis_names if a in axes and mesh.axis_type(a) is AxisType.Explicit)


def mark(walk: Walk, variables: Sequence[Atom]) -> None:
    """Notes of variables that were given values in the form that their types say."""
    for v in variables:
        axes = unreduced_of(v.aval)
        if axes and isinstance(v, Var):
            walk.unreduced[v] = axes


def wishes_of(jaxpr: Jaxpr) -> dict[Atom, Axes]:
    """Along which axes values may stay unreduced though their types do not say so.

    These become, by linear operations alone, values whose types do.
    """
    wishes: dict[Atom, Axes] = {}
    for eqn in reversed(jaxpr.eqns):
        for v in eqn.outvars:
            axes = unreduced_of(v.aval) or wishes.get(v, ())
            if not axes:
                continue
            if eqn.primitive.name in ("reshard", "mesh_cast"):
                places: tuple[int, ...] = (0,)
            else:
                places = summands(eqn.primitive.name, len(eqn.invars))
            for i in places:
                operand = eqn.invars[i]
                if operand.aval.sharding is None:
                    wishes.setdefault(operand, axes)
    return wishes


# ---- reading


def whole(walk: Walk, v: Var) -> Held:
    """The value of `v`, whose sum is completed if that has not been done."""
    found = walk.completed.get(v)
    if found is None:
        x, spec = walk.env[v]
        axes = walk.unreduced[v]
        found = walk.completed[v] = (walk.place.reduce(x, axes, "sum"), spec)
    return found


def whole_as(walk: Walk, v: Var, spec: Spec) -> Any:
    """The device's part of the whole `v` when that is sharded as `spec` says."""
    found = walk.resharded.get((v, spec))
    if found is None:
        if v in walk.completed:
            x, old = walk.completed[v]
        else:
            x, old = walk.env[v]
            x, old = walk.reduced(x, old, walk.unreduced[v], "sum", spec)
        found = reshard(walk.place, x, old, spec, v.aval.shape)
        walk.resharded[v, spec] = found
    return found


def parts_as(walk: Walk, atom: Atom, spec: Spec, axes: Axes) -> Any:
    """The device's part of `atom` when it is sharded as `spec` says and unreduced along `axes`."""
    if not axes:
        return walk.read_as(atom, spec)
    if isinstance(atom, Literal):
        x, old, have = literal_operand(atom), replicated(atom.aval.ndim), ()
    else:
        (x, old), have = walk.env[atom], walk.unreduced.get(atom, ())
    over = tuple(a for a in have if a not in axes)
    if over:
        x, old = walk.reduced(x, old, over, "sum", spec)
    more = tuple(a for a in axes if a not in have)
    if more:
        x, old = _split(walk.place, x, old, more)
    return reshard(walk.place, x, old, spec, atom.aval.shape)


def _split(place: MeshPlace, x: Any, spec: Spec, axes: Axes) -> tuple[Any, Spec]:
    """A whole value as a sum over `axes`.

    Where it is cut over one of them each device gives its block, and zeros elsewhere; along the
    others the first device gives all.
    """
    rest = list(axes)
    new = list(spec)
    for dim, own in enumerate(spec):
        while new[dim] and new[dim][-1] in rest:
            axis = new[dim][-1]
            x = _among_zeros(place, x, (axis,), dim)
            rest.remove(axis)
            new[dim] = new[dim][:-1]
        if any(a in rest for a in own):
            x = place.gather(x, new[dim], dim)
            new[dim] = ()
    if rest:
        aval = get_aval(x)
        first = ops.bind("eq", place.index(tuple(rest)), np.int32(0))
        nothing = ops.broadcast_in_dim(np.zeros((), aval.dtype)[()], aval.shape, ())
        x = ops.select(ops.broadcast_in_dim(first, aval.shape, ()), x, nothing)
    return x, tuple(new)


def _among_zeros(place: MeshPlace, x: Any, axes: Axes, dim: int) -> Any:
    """The block of this device at its place in an array that is zero elsewhere."""
    aval = get_aval(x)
    size = aval.shape[dim]
    shape = (*aval.shape[:dim], size * place.count(axes), *aval.shape[dim + 1 :])
    zeros = ops.broadcast_in_dim(np.zeros((), aval.dtype)[()], shape, ())
    starts: list[Any] = [np.int32(0)] * aval.ndim
    starts[dim] = ops.mul(place.index(axes), np.int32(size))
    return ops.bind("dynamic_update_slice", zeros, x, *starts)


# ---- equations


def unreduced_operands(walk: Walk, eqn: JaxprEqn) -> Axes:
    """Along which axes an equation is computed on parts of sums; nothing if on whole values."""
    found = [frozenset(walk.unreduced.get(v, ())) for v in eqn.invars]  # type: ignore[arg-type]
    axes = unreduced_result(eqn.primitive.name, found)
    return tuple(a for a in walk.sizes if a in axes)


def settle(walk: Walk, v: Atom, held: Held, have: Axes) -> None:
    """Gives `v` a value that is unreduced along `have`, in the form that its type says.

    A type without a sharding says nothing, and the sum may stay open.
    """
    assert isinstance(v, Var)
    wanted = unreduced_of(v.aval)
    if v.aval.sharding is not None and set(wanted) != set(have):
        x, spec = held
        over = tuple(a for a in have if a not in wanted)
        if over:
            x, spec = walk.reduced(x, spec, over, "sum", walk.specs.of(v))
        more = tuple(a for a in wanted if a not in have)
        if more:
            x, spec = _split(walk.place, x, spec, more)
        held, have = (x, spec), wanted
    walk.env[v] = held
    if have:
        walk.unreduced[v] = have
