"""Types of parts of sums: along which mesh axes results are unreduced, and along which reduced.

A value that is *unreduced* along a mesh axis is a part of a sum: the array is what all devices
along it hold together. Types let it through operations that are linear in it and exchange nothing
between devices. A value that is *reduced* along an axis is whole, but its cotangent is to be
unreduced there. These are JAX's rules, and its errors where it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xpr.core.aval import ShapedArray, reduced_axes, unreduced_axes
from xpr.core.config import state
from xpr.core.errors import ShardingTypeError
from xpr.core.primitive import Primitive
from xpr.primitives import ELEMENTWISE_FAMILIES
from xpr.sharding.linear import unreduced_result
from xpr.sharding.named import NamedSharding
from xpr.sharding.spec import PartitionSpec
from xpr.sharding.type_specs import Avals, Params, entries, mesh_of, spec_of

Axes = frozenset[str]
Sets = tuple[Axes, Axes]
"""The axes along which a value is unreduced, and those along which it is reduced."""

_Rule = Callable[[Avals, Params], Sets]

_NONE: Axes = frozenset()
_RESHARD = "Complete the sum with xpr.sharding.reshard before."


def shows_sets(aval: ShapedArray) -> bool:
    """Whether the type says that values are unreduced or reduced along some axes."""
    return bool(unreduced_axes(aval) or reduced_axes(aval))


def with_sets(
    primitive: Primitive,
    operands: Avals,
    params: Params,
    found: Sequence[ShapedArray],
    given: NamedSharding | None,
) -> list[ShapedArray]:
    """`found`, the types of the results with their shardings, with the axes that they name.

    `given` is the sharding that the user asked for. Raises NotImplementedError, ValueError or
    ShardingTypeError for operations that parts of sums do not go through.
    """
    try:
        sets = _sets(primitive, operands, params, len(found), given)
    except (NotImplementedError, ValueError, ShardingTypeError):
        if not state.loose_types:
            raise
        axes = unreduced_result(primitive.name, [unreduced_axes(a) for a in operands])
        sets = [(axes, _NONE)] * len(found)
    mesh = mesh_of(operands) if given is None else given.mesh.abstract_mesh
    return [_with(a, mesh, s) for a, s in zip(found, sets, strict=True)]


def _with(aval: ShapedArray, mesh: object, sets: Sets) -> ShapedArray:
    unreduced, reduced = sets
    sharding = aval.sharding
    if sharding is None:
        if not unreduced and not reduced:
            return aval
        sharding = NamedSharding(mesh, PartitionSpec(*(None,) * aval.ndim))  # type: ignore[arg-type]
    spec = sharding.spec
    if not unreduced and not reduced and sharding.mesh.are_all_axes_manual:
        return aval.update(sharding=None)
    if (spec.unreduced, spec.reduced) == sets:
        return aval if aval.sharding is sharding else aval.update(sharding=sharding)
    return aval.update(
        sharding=sharding.with_spec(spec.update(unreduced=unreduced, reduced=reduced))
    )


def _sets(
    primitive: Primitive,
    operands: Avals,
    params: Params,
    count: int,
    given: NamedSharding | None,
) -> list[Sets]:
    name = primitive.name
    if name in _SPECIAL:
        return [_SPECIAL[name](operands, params)] * count
    if given is not None and name not in _PASSES:
        return [(given.spec.unreduced, given.spec.reduced)] * count
    if name == "optimization_barrier":
        return [(unreduced_axes(a), reduced_axes(a)) for a in operands]
    if name in _PASSES:
        return [(unreduced_axes(operands[0]), reduced_axes(operands[0]))] * count
    if primitive.family in ("callback", "kernel", "ffi"):
        return [(_NONE, _NONE)] * count
    if name in _ELEMENTWISE or (primitive.family in _FAMILIES and name not in _NOT_ELEMENTWISE):
        reduced = _common_reduced(operands)
        _refuse_unreduced(name, operands)
        return [(_NONE, reduced)] * count
    shown = ", ".join(a.str_short() for a in operands)
    if name in _NEEDS_VALUES:
        raise ValueError(
            f"{name} does not take operands that are unreduced or reduced along mesh axes, got "
            f"{shown}. {_RESHARD}"
        )
    raise NotImplementedError(
        f"unreduced/reduced rule for {name} is not implemented, got operands of types {shown}. "
        f"{_RESHARD}"
    )


_PASSES = frozenset(
    {"convert_element_type", "reduce_precision", "copy", "transpose", "squeeze", "slice", "pad"}
    | {"unstack", "split", "optimization_barrier", "stop_gradient", "name"}
)
"""Operations whose result is unreduced and reduced as their (first) operand is."""

_FAMILIES = ELEMENTWISE_FAMILIES - {"convert"}
_ELEMENTWISE = frozenset({"random_gamma_grad"})
_NOT_ELEMENTWISE = frozenset({"clamp", "integer_pow"})

_NEEDS_VALUES = frozenset(
    {"reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or", "reduce_xor"}
    | {"argmin", "argmax", "reduce", "sort", "top_k", "approx_top_k", "gather", "tile"}
    | {"cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"}
    | {"scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"}
)
"""Operations that JAX refuses with a ValueError."""


# ---- elementwise


def _refuse_unreduced(name: str, operands: Avals) -> None:
    if any(unreduced_axes(a) for a in operands):
        shown = ", ".join(a.str_short() for a in operands)
        raise NotImplementedError(
            f"unreduced rule for {name} is not implemented, got operands of types {shown}. "
            f"{_RESHARD}"
        )


def _common_reduced(operands: Avals) -> Axes:
    """The axes along which operands that meet element by element are reduced."""
    found = {r for a in operands if (r := reduced_axes(a))}
    if len(found) > 1:
        shown = ", ".join(a.str_short() for a in operands)
        raise ShardingTypeError(
            f"All inputs should be reduced across the same mesh axes. Got {shown}"
        )
    if not found:
        return _NONE
    (reduced,) = found
    mesh = mesh_of(operands)
    assert mesh is not None
    for a in operands:
        if reduced_axes(a) or not a.ndim or (a.sharding is None and not mesh.are_all_axes_manual):
            continue
        used = {m for axes in spec_of(a) for m in axes} | a.vma
        if reduced - used - unreduced_axes(a):
            raise ShardingTypeError(
                "Inputs cannot be replicated on the same axes that another input is reduced on. "
                f"Got input type: {a} and reduced spec: {set(reduced)}. Reshard it with "
                f"xpr.sharding.reshard(x, P(reduced={set(reduced)}))."
            )
        if reduced & used:
            raise ShardingTypeError(
                "Inputs cannot be sharded/varying on the same axes that another input is reduced "
                "on. Reshard the input which is reduced to be sharded on the mesh axes it is "
                "reduced on via `xpr.sharding.reshard(inp, xpr.P(...))`. Got input type: "
                f"{a} and reduced spec: {set(reduced)}"
            )
    return reduced


def _add(operands: Avals, params: Params) -> Sets:
    del params
    reduced = _common_reduced(operands)
    x, y = (unreduced_axes(a) for a in operands)
    if x and y and x != y:
        raise ShardingTypeError(
            "lhs and rhs to `add` must be unreduced along the same mesh axes. Got "
            f"lhs={operands[0]}, rhs={operands[1]}"
        )
    if x != y:
        one, other = ("lhs", "rhs") if x else ("rhs", "lhs")
        raise ShardingTypeError(
            f"{one} is unreduced while {other} is not. `add` operation does not allow this because "
            f"there will be implicit communication. Please reduce {one} via `reshard` before "
            f"calling `add`. Got lhs={operands[0]} and rhs={operands[1]}"
        )
    return x, reduced


def _mul(operands: Avals, params: Params) -> Sets:
    del params
    reduced = _common_reduced(operands)
    x, y = (unreduced_axes(a) for a in operands)
    if x and y:
        raise ShardingTypeError(
            "lhs and rhs to `mul` cannot be unreduced since mul is bilinear. Got "
            f"lhs={operands[0]}, rhs={operands[1]}"
        )
    if not x and not y:
        return _NONE, reduced
    which, other = ("RHS", "LHS") if x else ("LHS", "RHS")
    if reduced_axes(operands[1] if x else operands[0]) != (x or y):
        raise ShardingTypeError(
            f"{which} should be reduced along the same axes {other} is unreduced on. Got "
            f"lhs={operands[0]} and rhs={operands[1]}"
        )
    return x or y, _NONE


def _select(operands: Avals, params: Params) -> Sets:
    del params
    return _same("select cases must have the same shardings", operands[1:])


def _same(what: str, operands: Avals) -> Sets:
    """The axes of all operands; those whose types say nothing agree about reduced axes."""
    sets = {(unreduced_axes(a), reduced_axes(a)) for a in operands if a.sharding is not None}
    whole = any(a.sharding is None for a in operands)
    if len(sets) > 1 or (whole and any(u for u, _ in sets)):
        shown = ", ".join(a.str_short() for a in operands)
        raise ShardingTypeError(f"{what}, got {shown}. {_RESHARD}")
    return next(iter(sets), (_NONE, _NONE))


# ---- contractions and sums


def _dot_general(operands: Avals, params: Params) -> Sets:
    lhs, rhs = operands
    if unreduced_axes(lhs) or unreduced_axes(rhs):
        raise ShardingTypeError(
            f"lhs or rhs passed to dot_general cannot be unreduced. Got lhs={lhs} and rhs={rhs}. "
            f"{_RESHARD}"
        )
    given = params.get("out_sharding")
    if given is None or not given.spec.unreduced:
        return _NONE, _NONE
    (left, right), _ = params["dimension_numbers"]
    left_spec = tuple(spec_of(lhs)[i] for i in left)
    right_spec = tuple(spec_of(rhs)[i] for i in right)
    shown = f"lhs={lhs} and rhs={rhs}"
    if left_spec != right_spec:
        raise ShardingTypeError(
            "lhs and rhs contracting dims should be sharded identically when out_sharding provided "
            f"to dot_general mentions unreduced_axes. Got {entries(left_spec)} and "
            f"{entries(right_spec)} of {shown}"
        )
    unreduced = given.spec.unreduced
    if unreduced != {a for axes in left_spec for a in axes}:
        raise ShardingTypeError(
            "out_sharding's unreduced axes should be equal to the contracting specs. Got unreduced "
            f"axes={set(unreduced)} and contracting spec={entries(left_spec)} of {shown}"
        )
    return unreduced, _NONE


def _reduce_sum(operands: Avals, params: Params) -> Sets:
    (x,) = operands
    given = params.get("out_sharding")
    if given is None or not given.spec.unreduced:
        return unreduced_axes(x), reduced_axes(x)
    unreduced = given.spec.unreduced
    used = {a for i, axes in enumerate(spec_of(x)) if i in params["axes"] for a in axes}
    if not unreduced <= used | unreduced_axes(x):
        raise ShardingTypeError(
            "out_sharding's unreduced axes should be in operand's specs that were summed over. Got "
            f"operand={x}, axes={params['axes']}, unreduced_spec={set(unreduced)}"
        )
    return unreduced, reduced_axes(x)


# ---- shapes


def _reshape(operands: Avals, params: Params) -> Sets:
    (x,) = operands
    given = params.get("sharding")
    found = unreduced_axes(x), reduced_axes(x)
    if given is None:
        return found
    for what, mine, wanted in zip(
        ("unreduced", "reduced"), found, (given.spec.unreduced, given.spec.reduced), strict=True
    ):
        if mine and mine != wanted:
            raise ValueError(
                f"out_sharding passed to reshape must be {what} over the same mesh axes as "
                f"operand. Got out_sharding: {given.spec} and operand type: {x.str_short()}"
            )
        if wanted and not mine:
            raise ValueError(
                f"out_sharding passed to `reshape` cannot contain {what} axes. Got {given} and "
                f"operand type: {x.str_short()}"
            )
    return found


def _broadcast_in_dim(operands: Avals, params: Params) -> Sets:
    (x,) = operands
    given = params.get("sharding")
    if given is None:
        return unreduced_axes(x), reduced_axes(x)
    return given.spec.unreduced, given.spec.reduced


def _concatenate(operands: Avals, params: Params) -> Sets:
    del params
    return _same("All operands should have the same sharding", operands)


def _dynamic_slice(operands: Avals, params: Params) -> Sets:
    del params
    _refuse_unreduced("dynamic_slice", operands[:1])
    return _NONE, reduced_axes(operands[0])


def _dynamic_update_slice(operands: Avals, params: Params) -> Sets:
    del params
    what = "dynamic_update_slice operand and update must be unreduced along the same axes"
    return _same(what, operands[:2])


def _nothing(operands: Avals, params: Params) -> Sets:
    del operands, params
    return _NONE, _NONE


_SPECIAL: dict[str, _Rule] = {
    "add": _add,
    "add_any": _add,
    "mul": _mul,
    "select_n": _select,
    "dot_general": _dot_general,
    "reduce_sum": _reduce_sum,
    "reshape": _reshape,
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _concatenate,
    "stack": _concatenate,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "mesh_cast": _nothing,
}
