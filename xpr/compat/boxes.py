"""Boxes: mutable values that hold a tree of arrays, whose structure and types may change.

box = Box(jnp.zeros(3))

@jax.jit
def accumulate(x):
    box.set(box.get() + x)
"""

from __future__ import annotations

from typing import Any

from xpr import tree_util
from xpr.compat.high_primitives import (
    HiPrimitive,
    MutableHiType,
    control_flow_allowed_effects,
    register_hitype,
)
from xpr.core.effects import Effect
from xpr.core.high import AvalQDD, aval_method, cur_qdd
from xpr.core.trace import Tracer, get_aval
from xpr.interpreters.zeros import Zero, instantiate


class BoxEffect(Effect):
    """A program makes boxes, reads or writes them."""


box_effect = BoxEffect()
control_flow_allowed_effects.add_type(BoxEffect)


class BoxTypeState:
    """What a box holds: a tree, and the types of its leaves."""

    def __init__(self, leaf_avals: tuple[Any, ...], treedef: Any) -> None:
        self.leaf_avals = leaf_avals
        self.treedef = treedef

    def to_tangent_qdd(self) -> BoxTypeState:
        """The state of a box of tangents."""
        return BoxTypeState(tuple(a.to_tangent_aval() for a in self.leaf_avals), self.treedef)

    def normalize(self) -> BoxTypeState:
        return BoxTypeState(tuple(a.normalize() for a in self.leaf_avals), self.treedef)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoxTypeState) and (
            (self.leaf_avals, self.treedef) == (other.leaf_avals, other.treedef)
        )

    def __hash__(self) -> int:
        return hash((self.leaf_avals, self.treedef))

    def __repr__(self) -> str:
        return f"BoxTypeState(leaf_avals={self.leaf_avals}, treedef={self.treedef})"


class BoxTy(MutableHiType):
    """The type of boxes."""

    def __hash__(self) -> int:
        return hash(BoxTy)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoxTy)

    def __repr__(self) -> str:
        return "BoxTy"

    def lo_ty_qdd(self, state: Any, /) -> list[Any]:
        return [low for t in state.leaf_avals for low in t.lo_ty()]

    def new_from_loval(self, state: Any, /, *vals: Any) -> Any:
        return Box._new(_tree_of(state, vals))

    def read_loval(self, state: Any, val: Any, /) -> list[Any]:
        leaves, treedef = tree_util.tree_flatten(box_get(val))
        if treedef != state.treedef:
            raise TypeError(f"a box should hold {state.treedef}, and holds {treedef}")
        pairs = zip(state.leaf_avals, leaves, strict=True)
        return [low for t, x in pairs for low in t.lower_val(x)]

    def update_from_loval(self, state: Any, val: Any, /, *lo_vals: Any) -> None:
        box_set(val, _tree_of(state, lo_vals))

    def to_tangent_aval(self) -> BoxTy:
        return BoxTy()


def _tree_of(state: BoxTypeState, arrays: Any) -> Any:
    given = iter(arrays)
    leaves = [t.raise_val(*[next(given) for _ in t.lo_ty()]) for t in state.leaf_avals]
    return tree_util.tree_unflatten(state.treedef, leaves)


class _BoxMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        """Whether it is a box, or a traced one."""
        if super().__instancecheck__(instance):
            return True
        return isinstance(instance, Tracer) and isinstance(instance.aval, BoxTy)


class Box(metaclass=_BoxMeta):
    """A mutable value that holds a tree of arrays."""

    _val: Any

    def __new__(cls, init_val: Any = None) -> Any:
        box = new_box()
        box.set(init_val)
        return box

    @classmethod
    def _new(cls, value: Any) -> Any:
        made = super().__new__(cls)
        made._val = value
        return made

    def get(self) -> Any:
        """What the box holds."""
        return box_get(self)

    def set(self, val: Any) -> None:
        """Makes the box hold another tree."""
        box_set(self, val)

    def cur_qdd(self) -> BoxTypeState:
        """The structure of what the box holds and the types of its leaves."""
        return self.type_state()

    def type_state(self) -> BoxTypeState:
        """As `cur_qdd`."""
        leaves, treedef = tree_util.tree_flatten(self._val)
        return BoxTypeState(tuple(map(get_aval, leaves)), treedef)

    @property
    def ty(self) -> BoxTy:
        return BoxTy()


def new_box() -> Any:
    """A box that holds None."""
    return new_box_p.bind(treedef=tree_util.tree_structure(None))


def box_get(box: Any) -> Any:
    """What a box holds."""
    state = cur_qdd(box)
    leaves = box_get_p.bind(box, avals=tuple(state.leaf_avals))
    return tree_util.tree_unflatten(state.treedef, leaves)


def box_set(box: Any, val: Any) -> None:
    """Makes a box hold another tree."""
    leaves, treedef = tree_util.tree_flatten(val)
    box_set_p.bind(box, *leaves, treedef=treedef)


BoxTy.get = aval_method(box_get)  # type: ignore[attr-defined]
BoxTy.set = aval_method(box_set)  # type: ignore[attr-defined]
register_hitype(Box, lambda b: b.ty)


class NewBox(HiPrimitive):
    """Makes an empty box."""

    def abstract_eval(self, *, treedef: Any) -> Any:
        return AvalQDD(BoxTy(), BoxTypeState((), treedef)), {box_effect}

    def to_lojax(self, *, treedef: Any) -> Any:
        del treedef
        return Box._new(None)


class BoxSet(HiPrimitive):
    """Replaces what a box holds."""

    multiple_results = True

    def abstract_eval(self, box_ty: Any, *leaf_avals: Any, treedef: Any) -> Any:
        box_ty.mutable_qdd.update(BoxTypeState(leaf_avals, treedef))
        return [], {box_effect}

    def to_lojax(self, box: Any, *leaves: Any, treedef: Any) -> Any:
        box._val = tree_util.tree_unflatten(treedef, leaves)
        return []

    def jvp(self, primals: Any, tangents: Any, *, treedef: Any) -> Any:
        box, *values = primals
        moved_box, *moved = tangents
        if type(moved_box) is Zero:
            raise Exception(
                "can't differentiate Box.set operation, did you forget jax.lax.stop_gradient?"
            )
        box_set_p.bind(box, *values, treedef=treedef)
        box_set_p.bind(moved_box, *map(instantiate, moved), treedef=treedef)
        return [], []


class BoxGet(HiPrimitive):
    """Reads what a box holds."""

    multiple_results = True

    def abstract_eval(self, box_ty: Any, *, avals: Any) -> Any:
        del box_ty
        return list(avals), {box_effect}

    def to_lojax(self, box: Any, *, avals: Any) -> Any:
        del avals
        return tree_util.tree_leaves(box._val)

    def jvp(self, primals: Any, tangents: Any, *, avals: Any) -> Any:
        moved = tuple(a.to_tangent_aval() for a in avals)
        return (
            box_get_p.bind(primals[0], avals=avals),
            box_get_p.bind(tangents[0], avals=moved),
        )


new_box_p = NewBox("new_box")
box_set_p = BoxSet("box_set")
box_get_p = BoxGet("box_get")
