"""Programs as HTML: tables of equations, in which inner programs and long lists are folded.

Everything that comes from a program is escaped: names, parameters and paths are the user's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from xpr.core.jaxpr import Atom, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Var, count_eqns
from xpr.core.naming import VariableNames, literal_text
from xpr.core.units import count_text, size_text

_ROWS = 40
"""A list of more equations is folded into pieces of so many."""
_OPEN = 3
"""Inner programs of so few equations are shown unfolded."""
_PARAMETER = 60

STYLE = (
    "<style>.xpr-program table{border-collapse:collapse;font-size:.9em}"
    ".xpr-program th,.xpr-program td{padding:.1em .6em;text-align:left;vertical-align:top}"
    ".xpr-program code{white-space:pre-wrap}"
    ".xpr-program .xpr-chip{color:#000;border:1px solid #888;border-radius:.3em;padding:0 .3em}"
    ".xpr-program details{margin-left:1em}</style>"
)


@dataclass(frozen=True)
class Facts:
    """What is known of an equation beside what it says."""

    flops: float | None = None
    """The floating-point operations of one run, estimated."""
    dispatches: tuple[str, ...] = ()
    """The dispatches of the compiled program that compute it, or parts of it."""


NOTHING = Facts()


def inner_programs(eqn: JaxprEqn) -> list[tuple[str, Jaxpr]]:
    """The programs in an equation's parameters, each with the parameter's name."""
    found: list[tuple[str, Jaxpr]] = []
    for name, value in eqn.params.items():
        several = isinstance(value, (tuple, list))
        for i, item in enumerate(value if several else (value,)):
            if isinstance(item, (ClosedJaxpr, Jaxpr)):
                title = f"{name}[{i}]" if several else name
                found.append((title, item.jaxpr if isinstance(item, ClosedJaxpr) else item))
    return found


def parameters_text(eqn: JaxprEqn) -> str:
    """The parameters that hold no program, long ones cut off."""
    parts = []
    for name, value in eqn.primitive.printed_params(eqn.params).items():
        items = value if isinstance(value, (tuple, list)) else (value,)
        if any(isinstance(item, (ClosedJaxpr, Jaxpr)) for item in items):
            continue
        text = getattr(value, "__name__", None) or str(value)
        parts.append(f"{name}={text if len(text) <= _PARAMETER else text[:_PARAMETER] + '…'}")
    return " ".join(parts)


def jaxpr_html(
    jaxpr: Jaxpr,
    facts: Mapping[JaxprEqn, Facts] | None = None,
    colors: Mapping[str, str] | None = None,
) -> str:
    """The program as an element of a page.

    `facts` are what is known of its equations, `colors` those of the dispatches.
    """
    writer = _Writer(facts or {}, colors or {})
    return f'<div class="xpr-program">{STYLE}{"".join(writer.program(jaxpr))}</div>'


class _Writer:
    def __init__(self, facts: Mapping[JaxprEqn, Facts], colors: Mapping[str, str]) -> None:
        self._names = VariableNames()
        self._facts = facts
        self._colors = colors
        self._has_flops = any(f.flops is not None for f in facts.values())

    def program(self, jaxpr: Jaxpr) -> Iterator[str]:
        """What it takes, its equations, what it gives."""
        yield f"<p>takes {self._typed([*jaxpr.constvars, *jaxpr.invars])}</p>"
        eqns = jaxpr.eqns
        if len(eqns) <= _ROWS:
            yield from self._table(eqns)
        else:
            for start in range(0, len(eqns), _ROWS):
                piece = eqns[start : start + _ROWS]
                last = start + len(piece) - 1
                yield f"<details{'' if start else ' open'}><summary>"
                yield f"equations {start} to {last} of {len(eqns)}</summary>"
                yield from self._table(piece)
                yield "</details>"
        yield f"<p>gives {self._typed(jaxpr.outvars)}</p>"

    def _table(self, eqns: Sequence[JaxprEqn]) -> Iterator[str]:
        heads = ["result", "operation", "operands", "size", "line"]
        if self._has_flops:
            heads.insert(4, "flops")
        yield (
            "<table><thead><tr>" + "".join(f"<th>{h}</th>" for h in heads) + "</tr></thead><tbody>"
        )
        for eqn in eqns:
            yield self._row(eqn)
            inner = inner_programs(eqn)
            if inner:
                yield f'<tr><td colspan="{len(heads)}">'
                for title, jaxpr in inner:
                    count = count_eqns(jaxpr)
                    yield f"<details{' open' if count <= _OPEN else ''}><summary>"
                    yield f"{escape(title)}, {count_text(count, 'equation')}</summary>"
                    yield from self.program(jaxpr)
                    yield "</details>"
                yield "</td></tr>"
        yield "</tbody></table>"

    def _row(self, eqn: JaxprEqn) -> str:
        facts = self._facts.get(eqn, NOTHING)
        cells = [
            self._typed(eqn.outvars),
            self._operation(eqn, facts),
            " ".join(f"<code>{self._atom(a)}</code>" for a in eqn.invars),
            escape(size_text(v.aval for v in eqn.outvars)),
            _place(eqn),
        ]
        if self._has_flops:
            cells.insert(4, "" if facts.flops is None else f"{facts.flops:,.0f}")
        return "<tr>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"

    def _operation(self, eqn: JaxprEqn, facts: Facts) -> str:
        name, given = escape(eqn.primitive.name), escape(parameters_text(eqn))
        if facts.dispatches:
            color = self._colors.get(facts.dispatches[0], "#fff")
            title = escape(", ".join(facts.dispatches))
            name = (
                f'<span class="xpr-chip" style="background:{color}" title="{title}">{name}</span>'
            )
        return f"{name} <small><code>{given}</code></small>" if given else name

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, DropVar):
            return "_"
        return escape(self._names(atom) if isinstance(atom, Var) else literal_text(atom))

    def _typed(self, atoms: Sequence[Atom]) -> str:
        shown = [f"<code>{self._atom(a)}:{escape(a.aval.str_short())}</code>" for a in atoms]
        return " ".join(shown) or "nothing"


def _place(eqn: JaxprEqn) -> str:
    source: Any = eqn.source_info
    if source.code is None:
        return ""
    short = source.filename.replace("\\", "/").rpartition("/")[2]
    return f'<small title="{escape(str(source))}">{escape(short)}:{source.line}</small>'
