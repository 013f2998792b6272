"""`explain_error`: the lines of a program that lose digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr import tree_util
from xpr.accuracy.bars import traced
from xpr.accuracy.wide import Wide, is_real, widened
from xpr.core.config import override
from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, all_eqns
from xpr.interpreters.walk import Array, Step, Walker, arrays_for
from xpr.interpreters.walk_text import source_text

Place = tuple[str, int]

_MOST_LINES = 200
_LONG_SUM = 1000


class LostDigits(NamedTuple):
    """A line, and its part of the error.

    >>> import xpr
    >>> xpr.accuracy.LostDigits("model.py", 3, "y = a - b", 0.9, 1e-4, 1e-5, "", "").share
    0.9
    """

    file: str
    line: int
    text: str
    share: float
    """The part of the error that the roundings of this line alone make."""
    error: float
    """The largest error of the results if this line alone is rounded."""
    without: float
    """The largest error of the results if this line alone is computed in float64."""
    cause: str
    """Why digits are lost: cancellation, absorption, an ill-conditioned solve."""
    advice: str


class ErrorExplanation:
    """The lines of a program that lose digits, the worst first.

    >>> import xpr, xpr.numpy as jnp
    >>> found = xpr.debug.explain_error(lambda x: jnp.log(1.0 + x))(jnp.float32(1e-6))
    >>> found.lines[0].advice
    'log1p(x) in place of log(1 + x)'
    """

    def __init__(self, error: float, lines: list[LostDigits]) -> None:
        self.error = error
        """The largest error of the results, compared with float64."""
        self.lines = lines

    def __str__(self) -> str:
        out = [f"the results are off by up to {self.error:.2g}, compared with float64"]
        for line in self.lines:
            out.append(f"{line.share:6.1%}  {line.file}:{line.line}  {line.text}")
            if line.cause:
                out.append(f"        {line.cause}")
            if line.advice:
                out.append(f"        try {line.advice}")
            out.append(f"        in float64 for this line alone: off by {line.without:.2g}")
        return "\n".join(out)

    __repr__ = __str__


class _Watch:
    """Causes of lost digits at each line, seen in a run in the program's own types."""

    def __init__(self) -> None:
        self.causes: dict[Place, tuple[float, str]] = {}
        self.advice: dict[Place, str] = {}
        self._made_by: dict[int, tuple[str, JaxprEqn]] = {}

    def __call__(self, step: Step) -> None:
        eqn, name = step.eqn, step.eqn.primitive.name
        operands, place = step.operands, _place(step.eqn)
        if name in ("add", "sub", "add_any"):
            self._sum(place, name, step)
        elif name == "triangular_solve":
            condition = _condition(np.asarray(operands[0], np.float64), eqn.params)
            if condition > 1e3:
                cause = f"an ill-conditioned solve: condition number {condition:.1e}"
                self._note(place, np.log10(condition), cause)
        elif name in ("reduce_sum", "cumsum") and operands[0].size > _LONG_SUM * max(
            1, (step.results or operands)[0].size
        ):
            self.advice.setdefault(
                place, f"a compensated sum, or float64, for {operands[0].size} terms"
            )
        for var in eqn.outvars:
            self._made_by[id(var)] = (name, eqn)

    def _sum(self, place: Place, name: str, step: Step) -> None:
        x, y = (np.asarray(o, np.float64) for o in step.operands)
        result = np.asarray((step.results or step.operands)[0], np.float64)
        with np.errstate(all="ignore"):
            largest = np.maximum(np.abs(x), np.abs(y))
            ratio = np.where(result == 0, 1.0, largest / np.abs(result))
            lost = float(np.log10(np.nanmax(ratio, initial=1.0)))
            small = np.minimum(np.abs(x), np.abs(y)) + np.zeros(result.shape)
            absorbed = (small > 0) & (np.abs(np.abs(result) - largest) == 0)
        if lost > 1:
            self._note(place, lost, f"cancellation: {lost:.1f} digits are lost")
        elif absorbed.any():
            share = float(absorbed.mean())
            self._note(place, 1.0, f"absorption: {share:.0%} of the smaller operands are lost")
        self._patterns(place, name, step)

    def _patterns(self, place: Place, name: str, step: Step) -> None:
        for operand, other in zip(step.eqn.invars, step.eqn.invars[::-1], strict=True):
            made = self._made_by.get(id(operand), ("", None))[0]
            if name == "sub" and made in ("exp", "exp2") and _is_one(other):
                self.advice[place] = "expm1(x) in place of exp(x) - 1"
            if name == "sub" and made in ("square", "integer_pow", "mul"):
                self.advice.setdefault(place, "(a - b) * (a + b), or centred values, for squares")

    def _note(self, place: Place, weight: float, cause: str) -> None:
        if weight > self.causes.get(place, (0.0, ""))[0]:
            self.causes[place] = (float(weight), cause)


def _condition(matrix: Array, params: dict[str, Any]) -> float:
    """The condition number of the triangle of a matrix that a solve reads."""
    if not matrix.size:
        return 1.0
    triangle = np.tril(matrix) if params["lower"] else np.triu(matrix)
    if params["unit_diagonal"]:
        n = matrix.shape[-1]
        triangle = triangle * (1 - np.eye(n)) + np.eye(n)
    with np.errstate(all="ignore"):
        return float(np.max(np.linalg.cond(triangle))) if np.isfinite(triangle).all() else np.inf


def _is_one(atom: Any) -> bool:
    return isinstance(atom, Literal) and atom.val == 1


def _place(eqn: JaxprEqn) -> Place:
    return eqn.source_info.filename, eqn.source_info.line


def explain_error(f: Callable[..., Any]) -> Callable[..., ErrorExplanation]:
    """A function that says which lines of `f` lose digits, for the arguments of its call.

    The program runs in its own types and in float64, and once for each line with the roundings of
    that line alone. A line's share is its part of the error. Cancellation, absorption and
    ill-conditioned solves are named, with what a rewrite or float64 for the line would change.

    Raises NotImplementedError for float64, which has no wider type here to compare with.

    >>> import xpr, xpr.numpy as jnp
    >>> def spread(x):
    ...     square_of_mean = x.mean() ** 2
    ...     return (x * x).mean() - square_of_mean
    >>> found = xpr.debug.explain_error(spread)(jnp.array([1000.0, 1001.0, 1002.0]))
    >>> found.lines[0].share > 0.3
    True
    """

    def explain(*args: Any, **kwargs: Any) -> ErrorExplanation:
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        closed, _ = traced(f, tree, leaves)
        arrays = arrays_for(closed, leaves)
        if any(a.dtype == np.float64 for a in (*arrays, *closed.out_avals)):
            raise NotImplementedError("explain_error has no wider type than float64 to use")
        with override("debug_nans", False), override("debug_infs", False):
            return _explained(closed, arrays)

    return explain


def _explained(closed: ClosedJaxpr, arrays: Sequence[Array]) -> ErrorExplanation:
    watch = _Watch()
    computed = Walker(after=watch).run(closed, arrays)
    _logs_of_sums(closed, watch)
    exact = _run(closed, arrays, lambda _: False)
    total = _distance(computed, exact)
    places = sorted({_place(e) for e in all_eqns(closed.jaxpr) if e.source_info.line})
    found = []
    for place in places[:_MOST_LINES]:
        error = _distance(_run(closed, arrays, lambda s, p=place: _place(s.eqn) == p), exact)
        if error == 0 and place not in watch.causes:
            continue
        without = _distance(_run(closed, arrays, lambda s, p=place: _place(s.eqn) != p), exact)
        found.append((place, error, without))
    whole = sum(error for _, error, _ in found) or 1.0
    texts = {_place(e): source_text(e.source_info) for e in all_eqns(closed.jaxpr)}
    lines = [
        LostDigits(
            place[0],
            place[1],
            texts[place],
            error / whole,
            error,
            without,
            watch.causes.get(place, (0.0, ""))[1],
            watch.advice.get(place, ""),
        )
        for place, error, without in found
    ]
    return ErrorExplanation(total, sorted(lines, key=lambda x: -x.share))


def _run(
    closed: ClosedJaxpr, arrays: Sequence[Array], rounded: Callable[[Step], bool]
) -> list[Array]:
    domain = Wide(rounded)
    return Walker(domain).run(closed, [domain.lift(a) for a in arrays])


def _distance(found: Sequence[Array], exact: Sequence[Array]) -> float:
    worst = 0.0
    for a, b in zip(found, exact, strict=True):
        if is_real(np.asarray(b).dtype):
            with np.errstate(all="ignore"):
                gap = np.abs(widened(np.asarray(a)) - b)
            worst = max(worst, float(np.nanmax(gap, initial=0.0)))
    return worst


def _logs_of_sums(closed: ClosedJaxpr, watch: _Watch) -> None:
    made = {id(v): e for e in all_eqns(closed.jaxpr) for v in e.outvars}
    for eqn in all_eqns(closed.jaxpr):
        if eqn.primitive.name != "log":
            continue
        inner = made.get(id(eqn.invars[0]))
        if inner is not None and inner.primitive.name == "add" and any(map(_is_one, inner.invars)):
            watch.advice[_place(eqn)] = "log1p(x) in place of log(1 + x)"
            watch.advice[_place(inner)] = "log1p(x) in place of log(1 + x)"
