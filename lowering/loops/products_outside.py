"""Products that a loop's steps need not wait for, done for all steps at once.

In a recurrent cell `tanh(x @ w + h @ u)` the first product does not wait for the step before: it is
computed before the loop, for the whole sequence. In the gradient of such a loop, what is added to
that of `w` in each step is a product of what the steps have computed: the loop leaves its factors
as sequences, and one product behind the loop, whose contracted index runs over all steps, is the
sum. Both are one large product in place of many small ones, shared by all cores, and a loop is left
with the products that depend on each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, Var
from xpr.interpreters.batching import BatchAxis, batch_jaxpr
from xpr.primitives.dot_general import DotDims, dot_general, dot_general_p
from xpr.primitives.elementwise import add, add_any_p, add_p

_MAX_BYTES = 64 << 20
"""Of sequences that lie between the loop and the products outside of it."""

_LARGE_WORK = 1 << 18
"""Multiplications in a step's product from which on it gains by leaving the loop."""

_LARGE_TOTAL = 1 << 23


def large_products(length: int) -> Callable[[JaxprEqn], bool]:
    """Says which equations of a step are products that gain, where a loop has so many steps."""

    def is_large(eqn: JaxprEqn) -> bool:
        if eqn.primitive is not dot_general_p:
            return False
        dims = DotDims.of(eqn.params["dimension_numbers"])
        batch, m, n, k = dims.sizes(*(a.aval.shape for a in eqn.invars))
        work = batch * m * n * k
        return work >= _LARGE_WORK and work * length >= _LARGE_TOTAL

    return is_large


def ahead_of_the_loop(
    jaxpr: ClosedJaxpr,
    length: int,
    num_carry: int,
    num_consts: int,
    is_heavy: Callable[[JaxprEqn], bool],
) -> tuple[ClosedJaxpr, ClosedJaxpr] | None:
    """What a step computes from constants and slices alone, for all steps at once.

    Returns that program on whole sequences, and the rest of the step, which takes its results as
    further slices before the others. None if nothing of it is heavy.
    """
    carry_end = num_consts + num_carry
    n = len(jaxpr.in_avals)
    carried = set(jaxpr.jaxpr.invars[num_consts:carry_end])
    sliced = set(jaxpr.jaxpr.invars[carry_end:])
    first: list[JaxprEqn] = []
    fixed: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        reads = [v for v in eqn.invars if isinstance(v, Var)]
        if eqn.effects or any(v in carried for v in reads):
            carried.update(eqn.outvars)
        elif not any(v in sliced for v in reads):
            fixed.append(eqn)  # of constants alone: the same in each step
        else:
            sliced.update(eqn.outvars)
            first.append(eqn)
    # Only what leads to a product: the rest costs less in the loop than in memory.
    wanted = _leading_to(first, is_heavy)
    if not wanted:
        return None
    first_wanted = [e for e in first if id(e) in wanted]
    again = [e for e in jaxpr.eqns if id(e) not in wanted]
    read = {v for e in first_wanted for v in e.invars}
    both = wanted | _leading_to(fixed, lambda eqn: False, read)
    needed = {v for e in again for v in e.invars} | set(jaxpr.jaxpr.outvars)
    results = [v for e in first_wanted for v in e.outvars if v in needed]
    if sum(v.aval.nbytes for v in results) * length > _MAX_BYTES:
        return None
    inner = jaxpr.jaxpr
    inputs = [*inner.invars[:num_consts], *inner.invars[carry_end:]]
    step = ClosedJaxpr(
        inner.replace(
            invars=inputs, outvars=list(results), eqns=[e for e in jaxpr.eqns if id(e) in both]
        ),
        jaxpr.consts,
    )
    dims = (*(None for _ in range(num_consts)), *(0 for _ in range(n - carry_end)))
    batched = batch_jaxpr(step, BatchAxis(length), dims, (True,) * len(results))
    body = ClosedJaxpr(
        inner.replace(
            invars=[*inner.invars[:carry_end], *results, *inner.invars[carry_end:]], eqns=again
        ),
        jaxpr.consts,
    )
    return batched.closed, body


def _leading_to(
    eqns: Sequence[JaxprEqn], is_heavy: Callable[[JaxprEqn], bool], wanted: Iterable[Any] = ()
) -> set[int]:
    """The identities of equations that are, or lead to, heavy ones or variables."""
    found: set[int] = set()
    needed = set(wanted)
    for eqn in reversed(eqns):
        if is_heavy(eqn) or any(v in needed for v in eqn.outvars):
            found.add(id(eqn))
            needed.update(v for v in eqn.invars if isinstance(v, Var))
    return found


@dataclass(frozen=True)
class Sum:
    """A product whose sum over all steps is added to a carried array."""

    carried: int
    """Which of the carried arrays."""
    product: JaxprEqn
    factors: tuple[tuple[bool, int], tuple[bool, int]]
    """Where the sequences of both operands are: whether among the loop's operands, and which."""

    def added(self, start: Any, lhs: Any, rhs: Any) -> Any:
        """What the carried array is behind the loop; written with primitives."""
        params = self.product.params
        dims = DotDims.of(params["dimension_numbers"])
        contract, batch = (
            tuple(tuple(i + 1 for i in axes) for axes in pair)
            for pair in (
                (dims.lhs_contract, dims.rhs_contract),
                (dims.lhs_batch, dims.rhs_batch),
            )
        )
        numbers = ((0, *contract[0]), (0, *contract[1])), batch
        total = dot_general(
            lhs,
            rhs,
            numbers,
            precision=params["precision"],
            preferred_element_type=params["preferred_element_type"],
        )
        return add(start, total)


@dataclass(frozen=True)
class Behind:
    """A step without its sums: which carried arrays are left, and what is added to the others."""

    step: ClosedJaxpr
    kept: Sequence[int]
    sums: Sequence[Sum]
    num_extra: int
    """How many of its results are factors."""


def behind_the_loop(
    jaxpr: ClosedJaxpr,
    length: int,
    num_carry: int,
    num_consts: int,
    is_heavy: Callable[[JaxprEqn], bool],
) -> Behind | None:
    """The step without products that are only added to carried arrays; None if it has none.

    Their factors are further results of the step, behind the others, where they are no slices.
    """
    inner = jaxpr.jaxpr
    carry_end = num_consts + num_carry
    uses = Counter(v for e in inner.eqns for v in e.invars if isinstance(v, Var))
    uses.update(v for v in inner.outvars if isinstance(v, Var))
    makers = {v: e for e in inner.eqns for v in e.outvars}
    fixed = _fixed(jaxpr, num_consts)
    slices = {v: i for i, v in enumerate(inner.invars[carry_end:])}
    extra: dict[Var, int] = {}
    dropped: set[int] = set()
    sums: list[Sum] = []
    for j in range(num_carry):
        pair = _summed(inner.invars[num_consts + j], inner.outvars[j], makers, uses)
        if pair is None or not is_heavy(pair[1]):
            continue
        addition, product = pair
        lhs, rhs = product.invars
        if not isinstance(lhs, Var) or not isinstance(rhs, Var) or lhs in fixed or rhs in fixed:
            continue
        factors = tuple(
            (True, slices[v]) if v in slices else (False, extra.setdefault(v, len(extra)))
            for v in (lhs, rhs)
        )
        sums.append(Sum(j, product, (factors[0], factors[1])))
        dropped |= {id(addition), id(product)}
    if not sums or sum(v.aval.nbytes for v in extra) * length > _MAX_BYTES:
        return None
    gone = {s.carried for s in sums}
    kept = [j for j in range(num_carry) if j not in gone]
    step = inner.replace(
        invars=[
            *inner.invars[:num_consts],
            *(inner.invars[num_consts + j] for j in kept),
            *inner.invars[carry_end:],
        ],
        outvars=[*(inner.outvars[j] for j in kept), *inner.outvars[num_carry:], *extra],
        eqns=[e for e in inner.eqns if id(e) not in dropped],
    )
    return Behind(ClosedJaxpr(step, jaxpr.consts), kept, sums, len(extra))


def _summed(
    start: Var, end: Any, makers: dict[Var, JaxprEqn], uses: Counter[Var]
) -> tuple[JaxprEqn, JaxprEqn] | None:
    """The addition that makes `end` of `start` and a product, and the product, if all is so."""
    addition = makers.get(end) if isinstance(end, Var) else None
    if addition is None or addition.primitive not in (add_p, add_any_p):
        return None
    if uses[start] != 1 or uses[end] != 1 or start not in addition.invars:
        return None
    (other,) = [v for v in addition.invars if v is not start] or [start]
    if not isinstance(other, Var) or uses[other] != 1 or other.aval.dtype != start.aval.dtype:
        return None
    product = makers.get(other)
    if product is None:
        return None
    return addition, product


def _fixed(jaxpr: ClosedJaxpr, num_consts: int) -> Collection[Var]:
    """The variables that are the same in each step."""
    fixed = {*jaxpr.jaxpr.constvars, *jaxpr.jaxpr.invars[:num_consts]}
    for eqn in jaxpr.eqns:
        if not eqn.effects and all(v in fixed for v in eqn.invars if isinstance(v, Var)):
            fixed.update(eqn.outvars)
    return fixed
