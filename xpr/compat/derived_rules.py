"""Rules of high primitives that follow from others: `vjp_fwd, vjp_bwd_retval = vjp_from_jvp`.

The pairs are unpacked in the body of a subclass of `HiPrim`, and are methods there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from xpr import tree_util
from xpr.compat.vjp_primitives import VJPHiPrimitive
from xpr.interpreters.batching import BatchAxis, at_front, with_axis
from xpr.interpreters.zeros import Zero, instantiate, tangent_aval
from xpr.transforms.derivatives import linear_transpose

__all__ = [
    "bdims_at_front",
    "jvp_from_lin",
    "linearize_from_jvp",
    "unmap_avals",
    "vjp_from_jvp",
    "vjp_from_lin",
]


@dataclass(frozen=True)
class _RulePair:
    """Unpacks to two methods; says so where it is called."""

    name: str
    targets: str
    rules: tuple[Callable[..., Any], Callable[..., Any]]

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return iter(self.rules)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"`{self.name}` is a pair of rules, not a single rule; unpack it in the class body: "
            f"`{self.targets} = {self.name}`"
        )


@tree_util.register_static
class _Marks:
    """Which leaves of the arguments move, beside residuals that are arrays."""

    def __init__(self, marks: Sequence[bool]) -> None:
        self.marks = tuple(marks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Marks) and self.marks == other.marks

    def __hash__(self) -> int:
        return hash(self.marks)


def _marks(prim: VJPHiPrimitive, nzs_in: Any) -> _Marks:
    return _Marks(prim.in_tree.flatten_up_to(nzs_in))


def _dense(tree: Any) -> Any:
    return tree_util.tree_map(instantiate, tree, is_leaf=lambda t: type(t) is Zero)


def _transposed(
    prim: VJPHiPrimitive, moved: Callable[[Any], Any], marks: Sequence[bool], outgrad: Any
) -> Any:
    """The cotangents of the arguments, by transposing `moved`: tangents to those of the result."""
    zeros = [Zero(tangent_aval(a)) for a in prim.in_avals_flat]

    def from_moving(*given: Any) -> Any:
        rest = iter(given)
        tangents = [next(rest) if m else z for m, z in zip(marks, zeros, strict=True)]
        return _dense(moved(tree_util.tree_unflatten(prim.in_tree, tangents)))

    examples = [instantiate(z) for m, z in zip(marks, zeros, strict=True) if m]
    found = iter(linear_transpose(from_moving, *examples)(_dense(outgrad)))
    cts = [next(found) if m else z for m, z in zip(marks, zeros, strict=True)]
    return tree_util.tree_unflatten(prim.in_tree, cts)


# ---- from a JVP rule


def _primals_as_residuals(self: VJPHiPrimitive, nzs_in: Any, /, *primals: Any) -> Any:
    return self(*primals), (primals, _marks(self, nzs_in))


def _bwd_from_jvp(self: VJPHiPrimitive, res: Any, outgrad: Any, /) -> Any:
    primals, marks = res
    return _transposed(self, lambda ts: self.jvp(primals, ts)[1], marks.marks, outgrad)


def _linearized_from_jvp(self: VJPHiPrimitive, residuals: Any, *tangents: Any) -> Any:
    # What depends on primals alone is known where this is linearized, and computed once.
    return self.jvp(residuals[0], tangents)[1]


# A rule of its own, by which `jvp_from_lin` sees that each would be made from the other.
def _lin_from_jvp(self: VJPHiPrimitive, nzs_in: Any, *primals: Any) -> Any:
    return _primals_as_residuals(self, nzs_in, *primals)


# ---- from the rules of linearization


def jvp_from_lin(self: VJPHiPrimitive, primals: Any, tangents: Any) -> Any:
    """A JVP rule from `lin` and `linearized`: `jvp = jvp_from_lin` in the body of a class.

    Raises TypeError where these come from `linearize_from_jvp`.
    """
    if type(self).lin is _lin_from_jvp:
        raise TypeError(
            f"subclass {type(self)} can't set both `jvp = jvp_from_lin` and "
            "`lin, linearized = linearize_from_jvp`, since each would be defined in terms of the "
            "other"
        )
    marks = [type(t) is not Zero for t in self.in_tree.flatten_up_to(tuple(tangents))]
    nzs_in = tree_util.tree_unflatten(self.in_tree, marks)
    out, residuals, *_ = self.lin(nzs_in, *primals)
    return out, self.linearized(residuals, *tangents)


def _fwd_from_lin(self: VJPHiPrimitive, nzs_in: Any, /, *primals: Any) -> Any:
    out, residuals, *more = self.lin(nzs_in, *primals)
    return (out, (residuals, _marks(self, nzs_in)), *more)


def _bwd_from_lin(self: VJPHiPrimitive, res: Any, outgrad: Any, /) -> Any:
    residuals, marks = res
    return _transposed(self, lambda ts: self.linearized(residuals, *ts), marks.marks, outgrad)


linearize_from_jvp = _RulePair(
    "linearize_from_jvp", "lin, linearized", (_lin_from_jvp, _linearized_from_jvp)
)
vjp_from_jvp = _RulePair(
    "vjp_from_jvp", "vjp_fwd, vjp_bwd_retval", (_primals_as_residuals, _bwd_from_jvp)
)
vjp_from_lin = _RulePair("vjp_from_lin", "vjp_fwd, vjp_bwd_retval", (_fwd_from_lin, _bwd_from_lin))


# ---- what rules for batches use


def unmap_avals(axis_data: BatchAxis, avals: Any, dims: Any) -> Any:
    """The types `avals`, a tree, with the batch axis at `dims`; None where there is none."""
    return tree_util.tree_map(lambda a, d: with_axis(a, d, axis_data), avals, dims)


def bdims_at_front(axis_data: BatchAxis, args: Any, dims: Any) -> Any:
    """The values `args`, a tree, with their batch axes first; repeated where there is none."""
    return tree_util.tree_map(lambda x, d: at_front(axis_data, x, d), args, dims)
