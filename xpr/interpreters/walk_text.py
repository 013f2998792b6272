"""Steps of a walk as text: the user's line, operands and results, the chain of loops and calls."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.dtypes import SHORT_NAMES, float0
from xpr.core.jaxpr import JaxprEqn
from xpr.core.source_info import SourceInfo
from xpr.interpreters.origins import can_hold
from xpr.interpreters.walk import Array, Frame, Step

_SMALL = 8
"""Arrays of so many elements are written out."""


def array_text(array: Array) -> str:
    """Type and values of an array: small ones in full, others by their statistics.

    >>> import numpy as np
    >>> array_text(np.float32([1, np.nan]))
    'f32[2] = [1.0, nan]'
    >>> array_text(np.append(np.arange(99.0), np.inf))
    'f64[100]: 0.0 .. 98.0, mean 49.0, 1 inf'
    """
    kind = f"{SHORT_NAMES.get(array.dtype, array.dtype.name)}[{','.join(map(str, array.shape))}]"
    if array.dtype == float0 or array.size == 0:
        return kind
    if array.size <= _SMALL:
        return f"{kind} = {_listed(array)}"
    if array.dtype.kind == "b":
        return f"{kind}: {int(array.sum())} of {array.size} true"
    if array.dtype.kind == "c":
        return f"{kind}: {int(np.isnan(array).sum())} nan, {int(np.isinf(array).sum())} inf"
    return f"{kind}: {_statistics(array)}"


def _listed(array: Array) -> str:
    if array.ndim:
        return f"[{', '.join(map(_listed, array))}]"
    return str(array[()])


def _statistics(array: Array) -> str:
    if array.dtype.kind in "iu":
        return f"{array.min()} .. {array.max()}, mean {_short(float(array.mean()))}"
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    parts = []
    if finite.size:
        least, most, mean = (_short(v) for v in (finite.min(), finite.max(), finite.mean()))
        parts.append(f"{least} .. {most}, mean {mean}")
    nan, inf = int(np.isnan(wide).sum()), int(np.isinf(wide).sum())
    parts += [f"{nan} nan"] * bool(nan) + [f"{inf} inf"] * bool(inf)
    return ", ".join(parts)


def _short(value: float) -> str:
    return repr(float(f"{value:.5g}"))


def source_text(source: SourceInfo) -> str:
    """The line of the user's program, as it is written there; empty if it is not known."""
    return linecache.getline(source.filename, source.line).strip()


def place_text(step: Step) -> str:
    """Operation and place of a step, in one line."""
    around = [frame.label for frame in step.frame.chain()[1:]]
    inside = f" in {', '.join(reversed(around))}" if around else ""
    return f"{step.eqn.primitive.name} at {step.eqn.source_info}{inside}"


def chain_text(frame: Frame) -> list[str]:
    """The programs around a step, the innermost first."""
    lines = []
    for at in reversed(frame.chain()[1:]):
        eqn = at.eqn
        where = "" if eqn is None else f" at {eqn.source_info}"
        lines.append(f"in {at.label}{where}")
    return lines


def derivative_text(eqn: JaxprEqn) -> str:
    """Of an operation that a transformation made, which; empty for one that the user wrote.

    The line of such an operation is the forward one that it came from.
    """
    stack = eqn.source_info.name_stack
    for mark, what in (("transpose(", "the gradient"), ("jvp(", "the derivative")):
        if mark in stack:
            return f"in {what} of this line"
    return ""


def described(step: Step, array_of: Callable[[Any], Array]) -> list[str]:
    """What is to be said of a step: place, line, operands, results, and the chain around it."""
    source = step.eqn.source_info
    lines = [f"in {step.eqn.primitive.name}, called from {source}"]
    text = source_text(source)
    if text:
        lines.append(f"    {text}")
    made = derivative_text(step.eqn)
    operands = [array_of(value) for value in step.operands]
    results = [array_of(value) for value in step.results or ()]
    if made:
        lines.append(f"  {made}")
    lines += [f"  operand {i}: {array_text(x)}" for i, x in enumerate(operands)]
    for i, x in enumerate(results):
        lines.append(f"  {'result' if len(results) == 1 else f'result {i}'}: {array_text(x)}")
    lines += _first_bad(operands, results)
    return [*lines, *(f"  {line}" for line in chain_text(step.frame))]


def _first_bad(operands: Sequence[Array], results: Sequence[Array]) -> list[str]:
    """Where the first value that is not finite is, and the operands there, for large results."""
    for x in results:
        if x.size <= _SMALL or not can_hold(x) or np.isfinite(x).all():
            continue
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
        there = [str(o[place]) for o in operands if o.shape == x.shape]
        of = f" from {', '.join(there)}" if there else ""
        return [f"  first at {list(place)}: {x[place]}{of}"]
    return []
