"""Primitives on trees of values of any types, high or not: `VJPHiPrimitive`.

A subclass says in its methods what the operation does (`expand`) and what its derivatives and
batches are; an instance is one operation at certain types, and is called with values. In programs
it is an equation of `call_hi_primitive`, which has the rules that the instance gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.compat.high_primitives import HiPrimitive
from xpr.core.trace import set_current_trace
from xpr.interpreters.batching import with_axis
from xpr.interpreters.transpose import is_linear
from xpr.interpreters.zeros import Zero, add_tangents, cotangent_aval, instantiate, tangent_aval
from xpr.transforms.vmap import vmap


def _leaves(tree: Any, value: Any, what: str) -> list[Any]:
    """The leaves of a value, which has to have a structure."""
    leaves, found = tree_util.tree_flatten(value)
    if found != tree:
        raise TypeError(f"{what} should have the structure {tree}, got {found}")
    return leaves


class GradAccum:
    """Takes cotangents of one operand, and adds them up."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval
        self.total: Any = Zero(cotangent_aval(aval))

    def accum(self, ct: Any) -> None:
        """Adds a cotangent."""
        self.total = add_tangents(self.total, ct)


class NullAccum:
    """Stands for an operand whose cotangent is not wanted."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def accum(self, ct: Any) -> None:
        """Does nothing."""


class VJPHiPrimitive:
    """An operation at certain types.

    The `__init__` of a subclass sets `in_avals`, a tuple of trees of types, `out_aval`, a tree of
    types, and `params`, which become attributes, and then calls that of this class.
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Any]
    effects: frozenset[Any] = frozenset()

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(f"subclass __init__ should set `self.{name}`")
        if _defines(self, "vjp_bwd") and _defines(self, "vjp_bwd_retval"):
            raise AttributeError(
                f"subclass {type(self)} should not override both `vjp_bwd` and `vjp_bwd_retval`"
            )
        self.in_avals_flat, self.in_tree = tree_util.tree_flatten(self.in_avals)
        self.out_avals_flat, self.out_tree = tree_util.tree_flatten(self.out_aval)
        self.__dict__.update(self.params)
        self.check(*self.in_avals)

    def _missing(self, what: str, methods: str) -> NotImplementedError:
        return NotImplementedError(
            f"for {what} support, subclass {type(self)} must implement {methods}"
        )

    def expand(self, *args: Any) -> Any:
        """What the operation does, in terms of other ones."""
        raise NotImplementedError(f"subclass {type(self)} must implement `expand`")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """The result, and what the backward rule needs: residuals.

        `nzs_in` says of each leaf of the arguments whether a derivative with respect to it is
        wanted. A third part of the result may say it of the results.
        """
        raise self._missing("grad", "`vjp_fwd`")

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        """Adds cotangents of the arguments to accumulators: the backward rule."""
        found = self.vjp_bwd_retval(res, outgrad)
        tree_util.tree_map(
            lambda acc, ct: acc.accum(ct) if isinstance(acc, GradAccum) else None,
            tuple(arg_accums),
            tuple(found),
        )

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """A tuple of the cotangents of the arguments: the backward rule in its other form."""
        raise self._missing("grad", "`vjp_bwd` or `vjp_bwd_retval`")

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """The result and its tangent."""
        raise self._missing("jvp", "`jvp`")

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        """The result, and what the linearized operation needs."""
        raise self._missing("linearize", "`lin` and `linearized`")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """The tangent of the result."""
        raise self._missing("linearize", "`lin` and `linearized`")

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        """Adds cotangents of the operands in which the operation is linear to accumulators."""
        raise self._missing("transpose", "`transpose`")

    def batch(self, axis_data: Any, args: Any, dims: Any) -> tuple[Any, Any]:
        """The results on a batch, and where their batch axes are."""
        out_dim = self.batch_dim_rule(axis_data, dims)
        return VmapOf(self, axis_data, dims, out_dim)(*args), out_dim

    def batch_dim_rule(self, axis_data: Any, dims: Any, /) -> Any:
        """Where the batch axes of the results are."""
        raise self._missing("vmap", "`batch` or `batch_dim_rule`")

    def check(self, *arg_tys: Any) -> None:
        """Raises an error for types that the operation does not take."""

    def __call__(self, *args: Any) -> Any:
        leaves = _leaves(self.in_tree, args, f"the arguments of {self!r}")
        return tree_util.tree_unflatten(
            self.out_tree, call_hi_primitive_p.bind(*leaves, _prim=self)
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple(self.params.items()), self.effects))

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and isinstance(other, VJPHiPrimitive)
            and (self.params, self.effects) == (other.params, other.effects)
        )


def _defines(prim: VJPHiPrimitive, name: str) -> bool:
    """Whether an operation has a rule; one on a batch has those that the operation has."""
    while isinstance(prim, VmapOf):
        prim = prim.params["prim"]
    return getattr(type(prim), name) is not getattr(VJPHiPrimitive, name)


class VmapOf(VJPHiPrimitive):
    """An operation on a batch, which is mapped over when it expands."""

    prim: Any
    axis_data: Any
    in_dims: Any
    out_dim: Any

    def __init__(self, prim: Any, axis_data: Any, in_dims: Any, out_dim: Any) -> None:
        self.in_avals = _batched(axis_data, prim.in_tree, prim.in_avals_flat, in_dims)
        self.out_aval = _batched(axis_data, prim.out_tree, prim.out_avals_flat, out_dim)
        self.params = {
            "prim": prim,
            "axis_data": axis_data,
            "in_dims": in_dims,
            "out_dim": out_dim,
        }
        super().__init__()

    def _missing(self, what: str, methods: str) -> NotImplementedError:
        return self.prim._missing(what, methods)

    def _map(self, fun: Callable[..., Any], in_axes: Any, out_axes: Any) -> Callable[..., Any]:
        axis = self.axis_data
        return vmap(
            fun, in_axes=in_axes, out_axes=out_axes, axis_size=axis.size, axis_name=axis.name
        )

    def expand(self, *args: Any) -> Any:
        return self._map(self.prim.expand, tuple(self.in_dims), self.out_dim)(*args)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        dims = tuple(self.in_dims)
        both = self._map(self.prim.jvp, (dims, dims), (self.out_dim, self.out_dim))
        return both(tuple(primals), tuple(_dense(tangents)))

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        return self._with_residuals(self.prim.vjp_fwd, nzs_in, args)

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        return self._with_residuals(self.prim.lin, nzs_in, primals)

    def _with_residuals(self, rule: Callable[..., Any], nzs_in: Any, args: Sequence[Any]) -> Any:
        marks: list[Any] = []

        def forward(*args: Any) -> Any:
            out, residuals, *more = rule(nzs_in, *args)
            marks[:] = more
            return out, residuals

        # The residuals of each example stand along their first axes.
        run = self._map(forward, tuple(self.in_dims), (self.out_dim, 0))
        out, residuals = run(*args)
        return (out, residuals, *marks)

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        given = self.in_tree.flatten_up_to(tuple(tangents))
        marks = [type(t) is not Zero for t in given]
        dims = self.prim.in_tree.flatten_up_to(tuple(self.in_dims))

        def moved(residuals: Any, *dense: Any) -> Any:
            rest = iter(dense)
            inner = [
                next(rest) if m else Zero(tangent_aval(a))
                for m, a in zip(marks, self.prim.in_avals_flat, strict=True)
            ]
            return _dense(
                self.prim.linearized(residuals, *tree_util.tree_unflatten(self.in_tree, inner))
            )

        axes = (0, *(d for d, m in zip(dims, marks, strict=True) if m))
        dense = [t for t, m in zip(given, marks, strict=True) if m]
        return self._map(moved, axes, self.out_dim)(residuals, *dense)

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        accums = self.in_tree.flatten_up_to(tuple(arg_accums))
        dims = self.prim.in_tree.flatten_up_to(tuple(self.in_dims))
        wanted = [(a, d) for a, d in zip(accums, dims, strict=True) if isinstance(a, GradAccum)]

        def backward(res: Any, outgrad: Any) -> Any:
            inner = [
                (GradAccum if isinstance(a, GradAccum) else NullAccum)(aval)
                for a, aval in zip(accums, self.prim.in_avals_flat, strict=True)
            ]
            self.prim.vjp_bwd(res, outgrad, *tree_util.tree_unflatten(self.in_tree, inner))
            return [instantiate(a.total) for a in inner if isinstance(a, GradAccum)]

        out_axes = [0 if d is None else d for _, d in wanted]
        found = self._map(backward, (0, self.out_dim), out_axes)(res, _dense(outgrad))
        for (accum, d), ct in zip(wanted, found, strict=True):
            # What is the same for all examples gets the sum over them.
            accum.accum(ct.sum(axis=0) if d is None else ct)

    def batch_dim_rule(self, axis_data: Any, dims: Any, /) -> Any:
        inner = self.prim.in_tree.flatten_up_to(tuple(self.in_dims))
        outer = self.prim.in_tree.flatten_up_to(tuple(dims))
        without = [
            d if d is None or i is None else d - (i < d) for d, i in zip(outer, inner, strict=True)
        ]
        found = self.prim.batch_dim_rule(
            axis_data, tree_util.tree_unflatten(self.prim.in_tree, without)
        )
        places = self.prim.out_tree.flatten_up_to(found)
        own = self.prim.out_tree.flatten_up_to(self.out_dim)
        moved = [
            d if d is None or i is None else d + (i <= d) for d, i in zip(places, own, strict=True)
        ]
        return tree_util.tree_unflatten(self.prim.out_tree, moved)


def _dense(tree: Any) -> Any:
    return tree_util.tree_map(instantiate, tree, is_leaf=lambda t: type(t) is Zero)


def _batched(axis: Any, tree: Any, avals: Sequence[Any], dims: Any) -> Any:
    found = tree.flatten_up_to(dims)
    return tree_util.tree_unflatten(
        tree, [with_axis(a, d, axis) for a, d in zip(avals, found, strict=True)]
    )


# ---- the primitives of programs


class _Call(HiPrimitive):
    """An operation; the rules are those of the parameter `_prim`."""

    multiple_results = True

    def __init__(self) -> None:
        super().__init__("call_hi_primitive")
        self.linearize = _linearize

    def abstract_eval(self, *avals: Any, _prim: VJPHiPrimitive) -> Any:
        del avals
        return list(_prim.out_avals_flat), _prim.effects

    def to_lojax(self, *values: Any, _prim: VJPHiPrimitive) -> Any:
        out = _prim.expand(*tree_util.tree_unflatten(_prim.in_tree, values))
        return _leaves(_prim.out_tree, out, f"the result of {_prim!r}")

    def jvp(self, primals: Any, tangents: Any, *, _prim: VJPHiPrimitive) -> Any:
        out, moved = _prim.jvp(
            tree_util.tree_unflatten(_prim.in_tree, primals),
            tree_util.tree_unflatten(_prim.in_tree, tangents),
        )
        leaves = _leaves(_prim.out_tree, out, f"the result of {_prim!r}")
        return leaves, _prim.out_tree.flatten_up_to(moved)

    def transpose(self, cts: Any, *args: Any, _prim: VJPHiPrimitive) -> Any:
        given = [GradAccum(x.aval) if is_linear(x) else x for x in args]
        _prim.transpose(
            tree_util.tree_unflatten(_prim.out_tree, cts),
            *tree_util.tree_unflatten(_prim.in_tree, given),
        )
        return [x.total if isinstance(x, GradAccum) else None for x in given]

    def batch(self, axis: Any, args: Any, dims: Any, *, _prim: VJPHiPrimitive) -> Any:
        out, found = _prim.batch(
            axis,
            tree_util.tree_unflatten(_prim.in_tree, args),
            tree_util.tree_unflatten(_prim.in_tree, list(dims)),
        )
        leaves, tree = tree_util.tree_flatten(out)
        return leaves, tree.flatten_up_to(found)


def _linearize(trace: Any, primals: Any, tangents: Any, params: dict[str, Any]) -> Any:
    """The results, and their tangents as one operation of the linear program.

    Its transpose is the backward rule. An operation without one has `lin`, or only a JVP rule.
    """
    prim: VJPHiPrimitive = params["_prim"]
    marks = [type(t) is not Zero for t in tangents]
    args = tree_util.tree_unflatten(prim.in_tree, primals)
    nzs_in = tree_util.tree_unflatten(prim.in_tree, marks)
    backward = _defines(prim, "vjp_fwd")
    if not backward and not _defines(prim, "lin"):
        if not _defines(prim, "jvp"):
            raise prim._missing("grad", "`vjp_fwd`")
        return call_hi_primitive_p.jvp(primals, tangents, _prim=prim)
    with set_current_trace(trace.parent):
        rule = prim.vjp_fwd if backward else prim.lin
        out, residuals, *more = rule(nzs_in, *args)
    leaves = _leaves(prim.out_tree, out, f"the result of {prim!r}")
    if backward:
        res_leaves, res_tree = tree_util.tree_flatten(residuals)
        moved = linearized_p.bind(
            *res_leaves,
            *(t for t in tangents if type(t) is not Zero),
            _prim=prim,
            residuals_tree=res_tree,
            nz_in_flat=tuple(marks),
        )
    else:
        found = prim.linearized(residuals, *tree_util.tree_unflatten(prim.in_tree, tangents))
        moved = prim.out_tree.flatten_up_to(found)
    if more:
        nonzero = tree_util.flatten_axes("the third result of vjp_fwd", prim.out_tree, more[0])
        moved = [
            t if nz else Zero(tangent_aval(a))
            for t, nz, a in zip(moved, nonzero, prim.out_avals_flat, strict=True)
        ]
    return leaves, moved


class _Linearized(HiPrimitive):
    """The tangents of an operation's results, whose transpose is its backward rule."""

    multiple_results = True

    def abstract_eval(
        self, *avals: Any, _prim: VJPHiPrimitive, residuals_tree: Any, nz_in_flat: Any
    ) -> Any:
        del avals, residuals_tree, nz_in_flat
        return [tangent_aval(a) for a in _prim.out_avals_flat], set()

    def to_lojax(self, *values: Any, _prim: VJPHiPrimitive, **_: Any) -> Any:
        raise NotImplementedError(
            f"{_prim!r} has a backward rule, which gives no derivatives forwards: use jvp, for "
            "which it has to implement `jvp`"
        )

    def transpose(
        self,
        cts: Any,
        *args: Any,
        _prim: VJPHiPrimitive,
        residuals_tree: Any,
        nz_in_flat: Sequence[bool],
    ) -> Any:
        count = residuals_tree.num_leaves
        accums = [
            GradAccum(a) if nz else NullAccum(a)
            for a, nz in zip(_prim.in_avals_flat, nz_in_flat, strict=True)
        ]
        _prim.vjp_bwd(
            tree_util.tree_unflatten(residuals_tree, args[:count]),
            tree_util.tree_unflatten(_prim.out_tree, cts),
            *tree_util.tree_unflatten(_prim.in_tree, accums),
        )
        found = [a.total for a in accums if isinstance(a, GradAccum)]
        return [*(None for _ in range(count)), *found]


call_hi_primitive_p = _Call()
linearized_p = _Linearized("call_hi_primitive_linearized")
