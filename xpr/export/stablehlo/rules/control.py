"""Loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import lax
from xpr.core.trace import get_aval
from xpr.export.stablehlo.importer import TOKEN, Rule, Site, TokenValue
from xpr.export.stablehlo.patterns import trip_count


class Flat:
    """How values with tokens and tuples become arrays, and come back."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._form = [_form(v) for v in values]

    def arrays(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The arrays in the values."""
        out: list[Any] = []
        for v in values:
            _flatten(v, out)
        return tuple(out)

    def values(self, arrays: Sequence[Any]) -> list[Any]:
        """The values with these arrays."""
        rest = iter(arrays)
        return [_built(form, rest) for form in self._form]


def _form(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_form(v) for v in value]
    return TOKEN if isinstance(value, TokenValue) else None


def _flatten(value: Any, out: list[Any]) -> None:
    if isinstance(value, tuple):
        for v in value:
            _flatten(v, out)
    elif not isinstance(value, TokenValue):
        out.append(value)


def _built(form: Any, rest: Any) -> Any:
    if isinstance(form, list):
        return tuple(_built(f, rest) for f in form)
    return TOKEN if form is TOKEN else next(rest)


def _while(site: Site) -> Any:
    init = site.operands
    flat = Flat(init)
    condition, body = site.region(0), site.region(1)

    def step(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        found = flat.arrays(body(*flat.values(arrays)))
        for i, (old, new) in enumerate(zip(arrays, found, strict=True)):
            a, b = get_aval(old), get_aval(new)
            if (a.shape, a.dtype) != (b.shape, b.dtype):
                raise site.error(f"the body changes the type of value {i} from {a} to {b}")
        return found

    start = flat.arrays(init)
    count = trip_count(site.op, site.scope)
    if count is not None:
        out, _ = lax.scan(lambda c, _: (step(c), None), start, None, length=count)
    else:
        out = lax.while_loop(lambda c: condition(*flat.values(c))[0], step, start)
    return flat.values(out)


def _branches(site: Site, which: Callable[..., Any]) -> list[Any]:
    """The results of one of the regions; tokens go beside."""
    forms: list[Flat] = []

    def branch(number: int) -> Callable[[], tuple[Any, ...]]:
        region = site.region(number)

        def run() -> tuple[Any, ...]:
            found = region()
            forms.append(Flat(found))
            return forms[-1].arrays(found)

        return run

    out = which([branch(i) for i in range(len(site.op.regions))])
    return forms[0].values(out)


def _if(site: Site) -> Any:
    if len(site.op.regions) != 2:
        raise site.error("two regions are expected")
    pred = site.operand(0)
    return _branches(site, lambda branches: lax.cond(pred, *branches))


def _case(site: Site) -> Any:
    """A number outside takes the last branch."""
    index, count = site.operand(0), len(site.op.regions)
    if not count:
        raise site.error("a case has no branches")
    if count == 1:
        return site.region(0)()
    last = np.asarray(count - 1, get_aval(index).dtype)
    inside = lax.bitwise_and(lax.ge(index, np.zeros_like(last)), lax.le(index, last))
    chosen = lax.select(inside, index, last)
    return _branches(site, lambda branches: lax.switch(chosen, branches))


RULES: dict[str, Rule] = {
    "stablehlo.case": _case,
    "stablehlo.if": _if,
    "stablehlo.while": _while,
}
