"""Calls of functions with derivative rules of their own, on batches.

The function and its rules may close over values of the very `vmap` that batches the call: their
traces carry the tag of that trace, which so recognizes its tracers. Thus results may differ between
examples even if no operand does, and which do is known only when the function or a rule has run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xpr.core.aval import without_dim
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import get_aval
from xpr.interpreters.batching import Dim, at_place, batch_flat
from xpr.interpreters.zeros import Zero, instantiate, is_float0, tangent_aval
from xpr.primitives import _ops as ops

if TYPE_CHECKING:
    from xpr.interpreters.batching import BatchTrace

# Flat forms of a user's rules:
#   jvp(primals, tangents) -> results, tangents
#   fwd(primals, perturbed) -> residuals, results
#   bwd(residuals, cotangents) -> cotangents of the operands (None or Zero for none)
JvpRule = Callable[[Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]
FwdRule = Callable[[Sequence[Any], Sequence[bool]], tuple[Sequence[Any], Sequence[Any]]]
BwdRule = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


class BatchedCall:
    """One call under one `vmap`: the function and its rules made ones of batches.

    `batched` says whether the results have a batch axis, all in front; None until that is known.
    It is true of all as soon as it is of one: a cotangent that is the sum over the examples would
    not do where a rule needs that of each.
    """

    def __init__(self, trace: BatchTrace, dims: Sequence[Dim], name: str) -> None:
        self.trace = trace
        self.axis = trace.axis
        self.dims = list(dims)
        self.name = name
        self.batched: bool | None = True if any(d is not None for d in dims) else None

    def result(self, x: Any) -> Any:
        """A result of the call as the trace around sees it."""
        return self.trace.wrap(x, 0 if self.batched else None)

    def _run(
        self, fun: Callable[..., Sequence[Any]], vals: Sequence[Any], dims: Sequence[Dim]
    ) -> tuple[list[Any], list[Dim]]:
        return batch_flat(fun, self.axis, vals, dims, self.trace.tag)

    def _settle(self, dims: Sequence[Dim]) -> None:
        """Says whether results have a batch axis, of those of a run."""
        found = any(d is not None for d in dims)
        if self.batched is None:
            self.batched = found
        elif found and not self.batched:
            raise NotImplementedError(
                f"vmap of the function {self.name} with a derivative rule of its own: the rule "
                "closes over a mapped value, but neither the function nor its arguments depend on "
                "one, and the call was traced before it was differentiated. Pass the value as an "
                "argument."
            )

    def _placed(self, values: Sequence[Any], dims: Sequence[Dim]) -> list[Any]:
        if not self.batched:
            return list(values)
        return [at_place(self.axis, x, d, 0) for x, d in zip(values, dims, strict=True)]

    def function(self, fun: Callable[..., Sequence[Any]]) -> Callable[..., list[Any]]:
        """The function on batches."""

        def batched(*vals: Any) -> list[Any]:
            out, dims = self._run(fun, vals, self.dims)
            self._settle(dims)
            return self._placed(out, dims)

        return batched

    def jvp(self, jvp: JvpRule) -> JvpRule:
        """The forward-mode rule on batches."""

        @functools.wraps(jvp)
        def batched(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            n = len(primals)
            zero = [type(t) is Zero for t in tangents]

            def both(*xs: Any) -> Sequence[Any]:
                given = iter(xs[n:])
                inner = [
                    Zero(tangent_aval(get_aval(x))) if z else next(given)
                    for x, z in zip(xs[:n], zero, strict=True)
                ]
                out, out_tangents = jvp(xs[:n], inner)
                return [*out, *map(instantiate, out_tangents)]

            dense = [t for t, z in zip(tangents, zero, strict=True) if not z]
            dense_dims = [d for d, z in zip(self.dims, zero, strict=True) if not z]
            found, dims = self._run(both, [*primals, *dense], [*self.dims, *dense_dims])
            self._settle(dims)
            found = self._placed(found, dims)
            return found[: len(found) // 2], found[len(found) // 2 :]

        return batched

    def vjp(self, fwd: FwdRule, bwd: BwdRule) -> tuple[FwdRule, BwdRule]:
        """The two reverse-mode rules on batches."""
        # Where the residuals have their batch axes: known when `fwd` has run, as it has before
        # `bwd` does.
        residual_dims: list[Dim] = []

        @functools.wraps(fwd)
        def batched_fwd(primals: Sequence[Any], perturbed: Sequence[bool]) -> Any:
            counts: list[int] = []

            def flat(*args: Any) -> Sequence[Any]:
                residuals, out = fwd(args, perturbed)
                counts.append(len(residuals))
                return [*residuals, *out]

            found, dims = self._run(flat, primals, self.dims)
            count = counts[-1]
            residual_dims[:] = dims[:count]
            if self.batched is None and all(d is None for d in dims):
                self.batched = self._backward_differs(bwd, found[:count], found[count:])
            self._settle(dims)
            return found[:count], self._placed(found[count:], dims[count:])

        @functools.wraps(bwd)
        def batched_bwd(residuals: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
            found, dims = self._backward(bwd, residuals, residual_dims, cts)
            self._settle(dims)
            return [
                ct if ct is None or type(ct) is Zero else self._cotangent(ct, d, wanted)
                for ct, d, wanted in zip(found, dims, self.dims, strict=True)
            ]

        return batched_fwd, batched_bwd

    def _backward(
        self,
        bwd: BwdRule,
        residuals: Sequence[Any],
        residual_dims: Sequence[Dim],
        cts: Sequence[Any],
    ) -> tuple[list[Any], list[Dim]]:
        """Cotangents of the operands and their batch axes; None for those that are zero."""
        zero = [type(ct) is Zero for ct in cts]
        kinds: list[bool] = []

        def flat(*args: Any) -> Sequence[Any]:
            given = iter(args[len(residuals) :])
            some = [
                self._example(ct) if z else next(given) for ct, z in zip(cts, zero, strict=True)
            ]
            found = bwd(args[: len(residuals)], some)
            kinds[:] = [ct is not None and type(ct) is not Zero for ct in found]
            return [ct for ct in found if ct is not None and type(ct) is not Zero]

        given = [ct for ct, z in zip(cts, zero, strict=True) if not z]
        place = 0 if self.batched else None
        places = [*residual_dims, *(place for _ in given)]
        results = iter(zip(*self._run(flat, [*residuals, *given], places), strict=True))
        pairs = [next(results) if dense else (None, None) for dense in kinds]
        return [ct for ct, _ in pairs], [d for _, d in pairs]

    def _backward_differs(
        self, bwd: BwdRule, residuals: Sequence[Any], results: Sequence[Any]
    ) -> bool:
        """Whether `bwd` closes over mapped values, where nothing else that is known differs."""
        found: list[Dim] = []

        def flat(*args: Any) -> list[Any]:
            count = len(residuals)
            out, dims = self._backward(bwd, args[:count], [None] * count, args[count:])
            found.extend(dims)
            return [ct for ct in out if ct is not None]

        avals = [get_aval(x) for x in residuals]
        cts = [tangent_aval(get_aval(x)).strip_weak_type() for x in results]
        if any(map(is_float0, cts)):
            return False
        trace_to_jaxpr(flat, [*avals, *cts])
        return any(d is not None for d in found)

    def _example(self, ct: Zero) -> Zero:
        return Zero(without_dim(ct.aval, 0)) if self.batched else ct

    def _cotangent(self, ct: Any, found: Dim, wanted: Dim) -> Any:
        """A cotangent placed like the operand; summed over the batch if that has no axis."""
        if not self.batched:
            return ct
        if wanted is not None:
            return at_place(self.axis, ct, found, wanted)
        if found is not None:
            return ops.reduce_sum(ct, [found])
        size = get_aval(ct).dtype.type(self.axis.size)
        return ops.mul(ct, size)
