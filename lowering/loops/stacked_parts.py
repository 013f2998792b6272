"""Reductions of a few arrays that were stacked for it, as in `stack([a, b, c]).sum(0)`.

A stack is written to memory and read again. Where it is reduced along its own axis the parts are
combined instead, which takes one pass. The same holds for what is computed of a stack element by
element: the squares of which `linalg.norm(stack([x, y, z]), axis=0)` is the root, or the
differences from the mean in `stack([a, b, c]).var(0)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from xpr.core.primitive import Primitive, registry
from xpr.lowering.loops.memory.costs import cost_of_operation
from xpr.primitives import ELEMENTWISE_FAMILIES, elementwise, integer, reduce

# So many arrays are read by one dispatch.
_MOST_PARTS = 16
# What may be done to an element before it is reduced, next to an addition: other uses of the stack
# do it again.
_MOST_COST = 6

_COMBINES: Mapping[Primitive, Primitive] = {
    reduce.reduce_sum_p: elementwise.add_p,
    reduce.reduce_prod_p: elementwise.mul_p,
    reduce.reduce_max_p: elementwise.max_p,
    reduce.reduce_min_p: elementwise.min_p,
    reduce.reduce_and_p: integer.and_p,
    reduce.reduce_or_p: integer.or_p,
    reduce.reduce_xor_p: integer.xor_p,
}
# Sums of narrower numbers are computed in wider ones.
_DTYPES = frozenset(map(np.dtype, ("f4", "f8", "i4", "i8", "u4", "u8", "?")))


def with_parts_combined(jaxpr: Jaxpr) -> Jaxpr:
    """The same program, with stacks that are reduced along their axis combined part by part."""
    makers = {v: e for e in jaxpr.eqns for v in e.outvars if _may_lead_to_stack(e)}
    if not any(e.primitive.name == "stack" for e in makers.values()):
        return jaxpr
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        axis = _stacked_axis(eqn, makers)
        eqns += [eqn] if axis is None else _Parts(eqn, axis, makers).combined()
    if len(eqns) == len(jaxpr.eqns):
        return jaxpr
    return jaxpr.replace(eqns=_needed(eqns, jaxpr.outvars))


def _needed(eqns: Sequence[JaxprEqn], results: Sequence[Atom]) -> list[JaxprEqn]:
    found: list[JaxprEqn] = []
    needed = {v for v in results if isinstance(v, Var)}
    for eqn in reversed(eqns):
        if eqn.effects or any(v in needed for v in eqn.outvars):
            found.append(eqn)
            needed.update(v for v in eqn.invars if isinstance(v, Var))
    return found[::-1]


def _may_lead_to_stack(eqn: JaxprEqn) -> bool:
    primitive = eqn.primitive
    if eqn.effects or len(eqn.outvars) != 1 or registry.get(primitive.name) is not primitive:
        return False
    if primitive.name in ("stack", "broadcast_in_dim"):
        return True
    rank = eqn.outvars[0].aval.ndim
    return (
        primitive.family in ELEMENTWISE_FAMILIES
        and _cost(eqn) <= _MOST_COST
        and all(a.aval.ndim in (rank, 0) for a in eqn.invars)
    )


def _cost(eqn: JaxprEqn) -> int:
    if eqn.primitive.name == "square":
        return 1
    if eqn.primitive.name == "integer_pow" and eqn.params["y"] in (2, 3):
        return eqn.params["y"] - 1
    return cost_of_operation(eqn.primitive)


def _stacked_axis(eqn: JaxprEqn, makers: Mapping[Var, JaxprEqn]) -> int | None:
    """The axis of a reduction along which its operand was stacked."""
    if eqn.primitive not in _COMBINES or eqn.params.get("out_sharding") is not None:
        return None
    (x,) = eqn.invars
    if not isinstance(x, Var) or x.aval.dtype not in _DTYPES or x not in makers:
        return None
    shape = x.aval.shape
    axes = (a for a in eqn.params["axes"] if 1 < shape[a] <= _MOST_PARTS)
    return next((a for a in axes if _is_stacked(x, a, makers)), None)


def _is_stacked(x: Var, axis: int, makers: Mapping[Var, JaxprEqn]) -> bool:
    parts = cost = 0
    seen: set[Var] = set()
    left = [x]
    while left:
        v = left.pop()
        if v in seen:
            continue
        seen.add(v)
        eqn = makers.get(v)
        if eqn is None:
            return False
        name, params = eqn.primitive.name, eqn.params
        if name == "stack":
            if params["axis"] != axis:
                return False
            parts += len(eqn.invars)
        elif name == "broadcast_in_dim":
            if axis in params["broadcast_dimensions"] or params["sharding"] is not None:
                return False
        else:
            if v.aval.shape[axis] > 1:  # else it is done once for all parts
                cost += _cost(eqn)
            left += [a for a in eqn.invars if isinstance(a, Var) and a.aval.shape]
    return 0 < parts <= _MOST_PARTS and cost <= _MOST_COST


class _Parts:
    """The parts of what a reduction combines, and the equations that compute them."""

    def __init__(self, root: JaxprEqn, axis: int, makers: Mapping[Var, JaxprEqn]) -> None:
        self._root = root
        self._axis = axis
        self._makers = makers
        self._eqns: list[JaxprEqn] = []
        self._found: dict[tuple[Var, int], Atom] = {}

    def combined(self) -> list[JaxprEqn]:
        """The equations that take the place of the reduction."""
        root, axis = self._root, self._axis
        (x,), (out,) = root.invars, root.outvars
        combine = _COMBINES[root.primitive]
        axes = tuple(a - (a > axis) for a in root.params["axes"] if a != axis)
        count = x.aval.shape[axis]
        total = self._part(x, 0)
        for i in range(1, count):
            is_last = i == count - 1 and not axes
            result = out if is_last else self._variable(x)
            operands = [total, self._part(x, i)]
            self._eqns.append(
                root.replace(primitive=combine, invars=operands, outvars=[result], params={})
            )
            total = result
        if axes:
            params = {**root.params, "axes": axes}
            self._eqns.append(root.replace(invars=[total], params=params))
        return self._eqns

    def _variable(self, x: Atom) -> Var:
        return Var(ShapedArray(self._shape(x), x.aval.dtype, weak_type=x.aval.weak_type))

    def _shape(self, x: Atom) -> tuple[int, ...]:
        shape = x.aval.shape
        return (*shape[: self._axis], *shape[self._axis + 1 :])

    def _part(self, x: Atom, index: int) -> Atom:
        if isinstance(x, Literal) or not x.aval.shape:
            return x
        eqn = self._makers[x]
        if eqn.primitive.name == "stack":
            return eqn.invars[index if len(eqn.invars) > 1 else 0]
        is_same = eqn.primitive.name == "broadcast_in_dim" or x.aval.shape[self._axis] == 1
        key = x, 0 if is_same else index
        if key not in self._found:
            self._found[key] = self._computed(eqn, key[1])
        return self._found[key]

    def _computed(self, eqn: JaxprEqn, index: int) -> Atom:
        (out,) = eqn.outvars
        result = self._variable(out)
        if eqn.primitive.name == "broadcast_in_dim":
            (x, *_), axis = eqn.invars, self._axis
            dims = tuple(d - (d > axis) for d in eqn.params["broadcast_dimensions"])
            if x.aval.shape == result.aval.shape and dims == tuple(range(len(dims))):
                return x
            params = {**eqn.params, "shape": result.aval.shape, "broadcast_dimensions": dims}
            made = eqn.replace(outvars=[result], params=params)
        else:
            parts = [self._part(a, index) for a in eqn.invars]
            made = eqn.replace(invars=parts, outvars=[result])
        self._eqns.append(made)
        return result
