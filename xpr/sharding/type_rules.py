"""Types of results where they do not follow from the factors alone: see `types.py`.

These operations cut, join or reorder axes. What they may do with sharded ones is what JAX allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xpr.core.aval import ShapedArray
from xpr.core.errors import ShardingTypeError
from xpr.core.primitive import get_primitive
from xpr.sharding.rule import Axes, Spec
from xpr.sharding.type_specs import (
    Avals,
    Params,
    Specs,
    TypeRule,
    entries,
    forward,
    mesh_of,
    spec_of,
)

TYPE_RULES: dict[str, TypeRule] = {}
"""The rules, by the names of the primitives."""

_RESHARD = "Reshard it with xpr.sharding.reshard."


def _rule(*names: str) -> Callable[[TypeRule], TypeRule]:
    def register(rule: TypeRule) -> TypeRule:
        TYPE_RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def _count(axes: Axes, operands: Avals) -> int:
    mesh = mesh_of(operands)
    total = 1
    for a in axes:
        assert mesh is not None
        total *= mesh.shape[a]
    return total


def _divided(name: str, operands: Avals, result: ShapedArray, spec: Spec) -> Spec:
    """`spec`, if it divides the sizes of `result`; ShardingTypeError if it does not."""
    for n, axes in zip(result.shape, spec, strict=True):
        parts = _count(axes, operands)
        if n % parts:
            raise ShardingTypeError(
                f"{name} on sharded dims where out dim ({n}) is not divisible by mesh axes "
                f"({parts}) with spec ({', '.join(axes)}) is not implemented. Got input "
                f"type={operands[0].str_short()} and output shape={result.shape}. {_RESHARD} "
                "For indexing, x.at[...].get(out_sharding=...) says how the result is sharded."
            )
    return spec


def _all_equal(what: str, operands: Avals) -> None:
    """Raises ShardingTypeError unless the types that carry shardings have the same."""
    specs = [spec_of(a) for a in operands if a.sharding is not None]
    if any(s != specs[0] for s in specs):
        shown = ", ".join(str(a) for a in operands)
        raise ShardingTypeError(f"{what}, got {shown}. Reshard some with xpr.sharding.reshard.")


def _first_typed(operands: Avals) -> Spec:
    found = next((a for a in operands if a.sharding is not None), operands[0])
    return spec_of(found)


def _without(items: Sequence[Axes], drop: Iterable[int]) -> Spec:
    gone = set(drop)
    return tuple(a for i, a in enumerate(items) if i not in gone)


def _whole_along(name: str, x: ShapedArray, axis: int) -> None:
    if spec_of(x)[axis]:
        raise ShardingTypeError(
            f"{name}: the operand must be unsharded along axis {axis}, got input type={x} and "
            f"axis={axis}. {_RESHARD}"
        )


# ---- choosing


@_rule("select_n")
def _select(operands: Avals, params: Params, results: Avals) -> Specs:
    which, *cases = operands
    _all_equal("select cases must have the same shardings", cases)
    if which.ndim:
        _all_equal(
            "select `which` must be scalar or have the same sharding as cases", [which, *cases]
        )
    return [_first_typed([*cases, which] if which.ndim else cases)]


@_rule("clamp")
def _clamp(operands: Avals, params: Params, results: Avals) -> Specs:
    return [spec_of(operands[1])]


# ---- contractions


@_rule("dot_general")
def _dot_general(operands: Avals, params: Params, results: Avals) -> Specs:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = params["dimension_numbers"]
    lhs, rhs = map(spec_of, operands)
    if params.get("out_sharding") is not None:  # the partitioner brings operands together
        return [((),) * results[0].ndim]

    def agreed(what: str, left: Sequence[int], right: Sequence[int]) -> list[Axes]:
        for i, j in zip(left, right, strict=True):
            if lhs[i] and rhs[j] and lhs[i] != rhs[j]:
                raise ShardingTypeError(
                    f"dot_general requires {what} to have consistent sharding, got "
                    f"{entries(tuple(lhs[d] for d in left))} and "
                    f"{entries(tuple(rhs[d] for d in right))}. Reshard an operand, of types "
                    f"{operands[0]} and {operands[1]}, with xpr.sharding.reshard."
                )
        return [lhs[i] or rhs[j] for i, j in zip(left, right, strict=True)]

    batch = agreed("lhs batch dimensions and rhs batch dimensions", lhs_batch, rhs_batch)
    agreed("contracting dimensions", lhs_contract, rhs_contract)
    shared = [lhs[i] for i, j in zip(lhs_contract, rhs_contract, strict=True) if lhs[i] and rhs[j]]
    if shared:
        raise ShardingTypeError(
            "Contracting dimensions are sharded and it is ambiguous how the output should be "
            "sharded. Please specify the output sharding via the `out_sharding` parameter. Got "
            f"lhs_contracting_spec={entries(tuple(lhs[d] for d in lhs_contract))} and "
            f"rhs_contracting_spec={entries(tuple(rhs[d] for d in rhs_contract))} in operands of "
            f"types {operands[0]} and {operands[1]}"
        )
    left = _without(lhs, [*lhs_contract, *lhs_batch])
    right = _without(rhs, [*rhs_contract, *rhs_batch])
    return [(*batch, *left, *right)]


@_rule("conv_general_dilated")
def _conv(operands: Avals, params: Params, results: Avals) -> Specs:
    """Batch and space pass through where the kernel is replicated and the features whole."""
    numbers = params["dimension_numbers"]
    lhs, rhs = map(spec_of, operands)
    batch, feature, *space = numbers.lhs_spec
    out: list[Axes] = [()] * len(lhs)
    if any(rhs) or lhs[feature] or (lhs[batch] and params["batch_group_count"] > 1):
        raise ShardingTypeError(
            "Please specify the output sharding via `out_sharding` parameter of "
            f"`conv_general_dilated`: got operands of types {operands[0]} and {operands[1]}"
        )
    for place, axis in zip(numbers.out_spec, (batch, feature, *space), strict=True):
        out[place] = lhs[axis]
    return [_divided("conv_general_dilated", operands, results[0], tuple(out))]


# ---- shapes


@_rule("broadcast_in_dim")
def _broadcast_in_dim(operands: Avals, params: Params, results: Avals) -> Specs:
    """A number spread over a shape goes with whatever it meets."""
    if not operands[0].ndim:
        return [None]
    return forward(get_primitive("broadcast_in_dim"), operands, params, results)


@_rule("reshape")
def _reshape(operands: Avals, params: Params, results: Avals) -> Specs:
    """An axis may be cut into several, several may be merged; the major ones are sharded."""
    x, new = operands[0], results[0].shape
    if params.get("sharding") is not None:
        return [((),) * len(new)]
    spec = spec_of(x)
    if not any(spec):
        return [((),) * len(new)]
    made = None
    if params["dimensions"] is None and x.size:
        made = _regrouped(x.shape, spec, new, operands)
    if made is None:
        raise ShardingTypeError(
            "This reshape is not supported. Please specify the sharding of the output via the "
            f"`out_sharding` argument of xpr.lax.reshape. Got operand type: {x}, new sizes: {new}"
        )
    return [made]


def _regrouped(old: Sequence[int], spec: Spec, new: Sequence[int], operands: Avals) -> Spec | None:
    """The spec after a reshape; None where a sharded axis takes part in more than a cut."""
    made: list[Axes] = [()] * len(new)
    before = [i for i, n in enumerate(old) if n != 1 or spec[i]]
    after = [j for j, n in enumerate(new) if n != 1]
    while before or after:
        left, right = before[:1], after[:1]
        if not left or not right:
            return None
        before, after = before[1:], after[1:]
        a, b = old[left[0]], new[right[0]]
        while a != b:
            if a < b:
                left.append(before.pop(0))
                a *= old[left[-1]]
            else:
                right.append(after.pop(0))
                b *= new[right[-1]]
        if len(left) == 1:
            rest = spec[left[0]]
            for j in right:
                made[j] = _fitting(rest, new[j], operands)
                rest = rest[len(made[j]) :]
                if not rest or _count(made[j], operands) != new[j]:
                    break
            if rest:
                return None
        elif any(spec[i] for i in left):
            sharded = [bool(spec[i]) for i in left]
            if len(right) > 1 or sharded != sorted(sharded, reverse=True):
                return None
            made[right[0]] = sum((spec[i] for i in left), ())
    return tuple(made)


def _fitting(axes: Axes, size: int, operands: Avals) -> Axes:
    for i in range(len(axes)):
        if size % _count(axes[: i + 1], operands):
            return axes[:i]
    return axes


@_rule("rev", "fft")
def _as_operand(operands: Avals, params: Params, results: Avals) -> Specs:
    return [_divided("an operation", operands, results[0], spec_of(operands[0]))]


@_rule("pad")
def _pad(operands: Avals, params: Params, results: Avals) -> Specs:
    return [_divided("padding", operands, results[0], spec_of(operands[0]))]


@_rule("tile")
def _tile(operands: Avals, params: Params, results: Avals) -> Specs:
    (x,) = operands
    for axis, rep in enumerate(params["reps"]):
        if rep != 1 and spec_of(x)[axis]:
            raise ShardingTypeError(
                f"Operand cannot be sharded on dimension {axis} when the tiling is non-trivial. "
                f"Got input type: {x} with reps: {params['reps']}. {_RESHARD}"
            )
    return [spec_of(x)]


@_rule("reshard", "mesh_cast")
def _without_type(operands: Avals, params: Params, results: Avals) -> Specs:
    """What is not said is left open."""
    return [None]


# ---- joining


@_rule("concatenate")
def _concatenate(operands: Avals, params: Params, results: Avals) -> Specs:
    _all_equal("All operands should have the same sharding", operands)
    return [_divided("concatenate", operands, results[0], _first_typed(operands))]


@_rule("stack")
def _stack(operands: Avals, params: Params, results: Avals) -> Specs:
    _all_equal("All operands should have the same sharding", operands)
    spec, axis = _first_typed(operands), params["axis"]
    return [(*spec[:axis], (), *spec[axis:])]


@_rule("unstack")
def _unstack(operands: Avals, params: Params, results: Avals) -> Specs:
    (x,), axis = operands, params["axis"]
    if spec_of(x)[axis]:
        raise ShardingTypeError(
            f"unstack operand cannot be sharded on the unstacking axis {axis}. Got operand "
            f"type={x}. {_RESHARD}"
        )
    return [_without(spec_of(x), [axis])] * len(results)


@_rule("split")
def _split(operands: Avals, params: Params, results: Avals) -> Specs:
    return [_divided("split", operands, r, spec_of(operands[0])) for r in results]


# ---- slices


@_rule("slice")
def _slice(operands: Avals, params: Params, results: Avals) -> Specs:
    return [_divided("slicing", operands, results[0], spec_of(operands[0]))]


@_rule("dynamic_slice")
def _dynamic_slice(operands: Avals, params: Params, results: Avals) -> Specs:
    return [_divided("dynamic_slice", operands, results[0], spec_of(operands[0]))]


@_rule("dynamic_update_slice")
def _dynamic_update_slice(operands: Avals, params: Params, results: Avals) -> Specs:
    x, update = operands[:2]
    _all_equal(
        "dynamic_update_slice operand sharding must be equal to update sharding", [x, update]
    )
    return [_first_typed([x, update])]


@_rule("gather")
def _gather(operands: Avals, params: Params, results: Avals) -> Specs:
    """Axes that are taken whole, and batching axes, pass through."""
    x, indices = operands
    d, sizes = params["dimension_numbers"], params["slice_sizes"]
    own, places = spec_of(x), spec_of(indices)[:-1]
    batch = dict(zip(d.start_indices_batching_dims, d.operand_batching_dims, strict=True))
    dropped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    window = [i for i in range(x.ndim) if i not in dropped]
    moved = any(
        own[i] and (i in d.collapsed_slice_dims or sizes[i] != x.shape[i])
        for i in range(x.ndim)
        if i not in d.operand_batching_dims
    )
    if moved or any(a for i, a in enumerate(places) if i not in batch):
        raise _unresolved("gather", operands)
    outer: list[Axes] = []
    for i, axes in enumerate(places):
        mine = own[batch[i]] if i in batch else ()
        if mine and axes and mine != axes:
            raise _unresolved("gather", operands)
        outer.append(mine or axes)
    made = iter(outer)
    inner = iter(own[i] for i in window)
    out = tuple(next(inner) if i in d.offset_dims else next(made) for i in range(results[0].ndim))
    return [out]


@_rule("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max")
def _scatter(operands: Avals, params: Params, results: Avals) -> Specs:
    """The operand may be sharded along axes that updates cover whole, and batching axes."""
    x, _, updates = operands
    d = params["dimension_numbers"]
    own, places, new = map(spec_of, operands)
    batch = dict(zip(d.scatter_indices_batching_dims, d.operand_batching_dims, strict=True))
    dropped = {*d.inserted_window_dims, *d.operand_batching_dims}
    window = [i for i in range(x.ndim) if i not in dropped]
    outer = [i for i in range(updates.ndim) if i not in d.update_window_dims]
    clash = any(own[i] for i in d.inserted_window_dims)
    for i, j in zip(window, d.update_window_dims, strict=True):
        clash |= bool(own[i]) and x.shape[i] != updates.shape[j]
        clash |= bool(new[j]) and new[j] != own[i]
    for i, j in enumerate(outer):
        mine = own[batch[i]] if i in batch else ()
        clash |= any(a and a != mine for a in (places[i], new[j]))
    if clash:
        raise _unresolved("scatter", operands)
    return [own]


def _unresolved(name: str, operands: Avals) -> ShardingTypeError:
    where = ".get(out_sharding=)" if name == "gather" else ".set/add/mul/...(out_sharding=)"
    what = "gather indexing" if name == "gather" else "scatter update"
    names = ("operand", "indices", "updates")
    shown = ", ".join(f"{n}={a}" for n, a in zip(names, operands, strict=False))
    return ShardingTypeError(
        f"Use `.at[...]{where}` to provide output PartitionSpec for the {what} as out sharding "
        "could not be resolved unambiguously (or would require collectives on inputs). Got "
        f"{shown}"
    )


# ---- along one axis


@_rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _cumulative(operands: Avals, params: Params, results: Avals) -> Specs:
    (x,) = operands
    _whole_along("a running fold", x, params["axis"])
    return [spec_of(x)]


@_rule("sort")
def _sort(operands: Avals, params: Params, results: Avals) -> Specs:
    for x in operands:
        if x.sharding is not None:
            _whole_along("sort", x, params["dimension"])
    _all_equal("Arguments to sort must have equal shardings", operands)
    return [_first_typed(operands)] * len(results)


@_rule("top_k", "approx_top_k")
def _top_k(operands: Avals, params: Params, results: Avals) -> Specs:
    x = operands[0]
    axis = params["axis"] if "axis" in params else params["reduction_dimension"] % x.ndim
    _whole_along("top_k", x, axis)
    return [spec_of(x)] * len(results)


@_rule("reduce")
def _reduce(operands: Avals, params: Params, results: Avals) -> Specs:
    arrays = operands[: len(operands) // 2]
    _all_equal("All operands should have the same sharding", arrays)
    return [_without(_first_typed(arrays), params["dimensions"])] * len(results)


# ---- windows


@_rule("reduce_window_sum", "reduce_window_max", "reduce_window_min", "reduce_window")
def _reduce_window(operands: Avals, params: Params, results: Avals) -> Specs:
    arrays = operands[: len(results)]
    _all_equal("All operands should have the same sharding", arrays)
    spec = _first_typed(arrays)
    return [_divided("reduce_window", operands, r, spec) for r in results]


@_rule("select_and_scatter_add", "select_and_gather_add")
def _chosen_in_windows(operands: Avals, params: Params, results: Avals) -> Specs:
    spec = spec_of(operands[1])
    return [_divided("a choice in windows", operands, results[0], spec)]


# ---- functions of the user's


@_rule("pure_callback", "io_callback", "debug_callback", "ffi_call")
def _replicated(operands: Avals, params: Params, results: Avals) -> Specs:
    """What functions of this process make of whole arrays is whole on each device."""
    return [((),) * a.ndim for a in results]
