"""What could make a program faster, or its first call: what its equations tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xpr.core.html import inner_programs
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from xpr.core.units import count_text, size_text
from xpr.lowering.module import LoweredModule

_UNROLLED = 200
"""As many equations of one line are most likely a loop of Python."""
_LARGE = 1 << 20
"""Bytes from which it pays to have a result written into an operand's memory."""
_CALLBACKS = frozenset({"pure_callback", "io_callback", "c_kernel"})


@dataclass(frozen=True)
class Facts:
    """What is known of a program that was made ready."""

    closed: ClosedJaxpr
    donated: Sequence[int]
    module: LoweredModule | None
    target: str
    attempts: int
    separate: bool


def advice(facts: Facts) -> Iterator[str]:
    """Sentences, each with what to change."""
    yield from _of_the_compile(facts)
    eqns = list(_all_equations(facts.closed.jaxpr))
    yield from _unrolled(eqns)
    yield from _calls_of_python(eqns)
    yield from _wide(eqns)
    yield from _not_donated(facts)
    module = facts.module
    if module is not None and module.hints.has_control_flow:
        loops = [e for e in eqns if e.primitive.name in ("scan", "while")]
        if loops:
            yield (
                f"the loop at {loops[0].source_info} is run by the host, one dispatch after the "
                'other for each step: see "how loops are compiled" in docs/control_flow.md for '
                "what becomes one dispatch"
            )


def _of_the_compile(facts: Facts) -> Iterator[str]:
    if facts.separate:
        yield (
            "it compiles only with its operations one by one, so nothing is fused: please report "
            "the program"
        )
    elif facts.attempts > 1:
        yield (
            f"{count_text(facts.attempts - 1, 'attempt')} with better flags failed before: the "
            "first call takes that longer"
        )


def _all_equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        for _, inner in inner_programs(eqn):
            yield from _all_equations(inner)


def _unrolled(eqns: Sequence[JaxprEqn]) -> Iterator[str]:
    lines = Counter(str(e.source_info) for e in eqns)
    for line, count in lines.most_common(1):
        if count >= _UNROLLED:
            yield (
                f"{count:,} of {count_text(len(eqns), 'equation')} are from {line}: a loop of "
                "Python, each round of which is compiled. xpr.lax.fori_loop or scan compiles one"
            )


def _calls_of_python(eqns: Sequence[JaxprEqn]) -> Iterator[str]:
    calls = [e for e in eqns if e.primitive.name in _CALLBACKS]
    if calls:
        yield (
            f"{calls[0].primitive.name} at {calls[0].source_info} leaves the compiled program"
            + (f", and so do {len(calls) - 1} more" if len(calls) > 1 else "")
            + ": what is before and behind it is not fused"
        )


def _wide(eqns: Sequence[JaxprEqn]) -> Iterator[str]:
    wide = [e for e in eqns if any(_is_wide(v.aval) for v in e.outvars)]
    if wide:
        yield (
            f"{count_text(len(wide), 'equation')} compute in 64 bits, the first at "
            f"{wide[0].source_info}: in float32 half as many bytes are moved, and twice as many "
            "numbers computed at once"
        )


def _is_wide(aval: Any) -> bool:
    return str(aval.dtype) in ("float64", "complex128") and aval.size > 1


def _not_donated(facts: Facts) -> Iterator[str]:
    jaxpr = facts.closed.jaxpr
    results = Counter((v.aval.shape, v.aval.dtype) for v in jaxpr.outvars)
    taken = [jaxpr.invars[i].aval for i in facts.donated]
    results -= Counter((a.shape, a.dtype) for a in taken)
    names = jaxpr.debug_info.arg_names
    found = []
    for i, var in enumerate(jaxpr.invars):
        kind = (var.aval.shape, var.aval.dtype)
        size = var.aval.nbytes
        if i in facts.donated or not results[kind] or not isinstance(size, int) or size < _LARGE:
            continue
        results[kind] -= 1
        name = names[i] if len(names) == len(jaxpr.invars) else f"argument {i}"
        found.append(f"{name} ({var.aval.str_short()}, {size_text([var.aval])})")
    if found:
        yield (
            f"results of the types of {', '.join(found)} take new memory: where the arguments are "
            "not needed any more, jit with donate_argnums has the results written in their place"
        )
