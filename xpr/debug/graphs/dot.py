"""A program in Graphviz's language: equations are boxes, arrays are the arrows between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from xpr.core.html import NOTHING, Facts, inner_programs, parameters_text
from xpr.core.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var, count_eqns
from xpr.core.naming import letters, literal_text
from xpr.core.units import count_text, size_text

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

# A call of one program on its own operands, which is drawn in place of the call.
_TRANSPARENT = frozenset(
    {"jit", "closed_call", "core_call", "checkpoint", "remat", "custom_jvp_call", "custom_vjp_call"}
)

_HEAD = """digraph program {
graph [bgcolor="white", fontname="Helvetica,Arial,sans-serif", fontsize=10, tooltip=" "]
node [shape=box, style="rounded,filled", fillcolor="white", color="#444444", margin="0.16,0.06",
height=0.2, fontname="Helvetica,Arial,sans-serif", fontsize=11]
edge [color="#444444", arrowsize=0.6, fontname="Helvetica,Arial,sans-serif", fontsize=9]
"""


def dot_text(
    jaxpr: Jaxpr,
    names: tuple[str, ...],
    facts: Mapping[JaxprEqn, Facts],
    colors: Mapping[str, str],
    folded: bool = False,
) -> str:
    """The graph of a program, whose arguments are called `names`.

    With `folded` an equation that holds programs is one box.
    """
    writer = _Writer(facts, colors, folded)
    writer.whole(jaxpr, names)
    return _HEAD + "\n".join(writer.lines + writer.arrows) + "\n}\n"


def flops_text(flops: float) -> str:
    """A number of floating-point operations.

    >>> flops_text(12), flops_text(2.5e6)
    ('12 flop', '2.5 Mflop')
    """
    for scale, unit in _SCALES:
        if flops >= scale:
            return f"{flops / scale:.3g} {unit}flop"
    return f"{flops:.0f} flop"


def _quoted(text: str) -> str:
    """A text between quotes: no character of it means anything to Graphviz, `\\N` neither."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    # Graphviz reads `&lt;` as a character of its own.
    return '"' + escaped.replace("&", "&amp;").replace("\0", "") + '"'


class _Writer:
    def __init__(
        self, facts: Mapping[JaxprEqn, Facts], colors: Mapping[str, str], folded: bool
    ) -> None:
        self.lines: list[str] = []
        # A node belongs to the box in which it is first named, be it in an arrow.
        self.arrows: list[str] = []
        self._facts = facts
        self._colors = colors
        self._folded = folded
        # The operations that it takes to compute what comes out of a node.
        self._work: dict[str, str] = {}
        self._count = 0

    def whole(self, jaxpr: Jaxpr, names: tuple[str, ...]) -> None:
        """The program with its arguments and its results."""
        given = [*jaxpr.constvars, *jaxpr.invars]
        if len(names) != len(jaxpr.invars):
            names = tuple(letters(i) for i in range(len(jaxpr.invars)))
        shown = [*(f"constant {i}" for i in range(len(jaxpr.constvars))), *names]
        sources: dict[Var, str] = {}
        for var, name in zip(given, shown, strict=True):
            label = f"{name}\n{var.aval.str_short()}"
            sources[var] = self._node(label, shape="ellipse", style="filled", fillcolor="#eeeeee")
        self._equations(jaxpr, sources)
        for i, atom in enumerate(jaxpr.outvars):
            text = f" = {literal_text(atom)}" if isinstance(atom, Literal) else ""
            label = f"result {i}{text}\n{atom.aval.str_short()}"
            node = self._node(label, shape="ellipse", style="filled", fillcolor="#eeeeee")
            self._edge(atom, sources, node)
        if self._colors:
            self._begin("dispatches")
            legend = [
                self._node(name, shape="note", style="filled", fillcolor=color, fontsize="9")
                for name, color in self._colors.items()
            ]
            self.lines.append("}")
            # One below the other.
            self.arrows.append(f'{" -> ".join(legend)} [style="invis", minlen=0.5]')

    def _equations(self, jaxpr: Jaxpr, sources: dict[Var, str]) -> None:
        for eqn in jaxpr.eqns:
            inner = [] if self._folded else inner_programs(eqn)
            if eqn.primitive.name in _TRANSPARENT and len(inner) == 1 and _fits(eqn, inner[0][1]):
                self._in_place(eqn, inner[0][1], sources)
                continue
            node = self._equation(eqn)
            for atom in eqn.invars:
                self._edge(atom, sources, node)
            for var in eqn.outvars:
                sources[var] = node
            for title, program in inner:
                self._apart(node, title, program)

    def _in_place(self, eqn: JaxprEqn, program: Jaxpr, sources: dict[Var, str]) -> None:
        """The equations of a call, in a box with its name."""
        inside = {
            var: sources[atom]
            for var, atom in zip(program.invars, eqn.invars, strict=True)
            if isinstance(atom, Var) and atom in sources
        }
        self._begin(str(eqn.params.get("name") or eqn.primitive.name))
        self._equations(program, inside)
        self.lines.append("}")
        for var, atom in zip(eqn.outvars, program.outvars, strict=True):
            if isinstance(atom, Var) and atom in inside:
                sources[var] = inside[atom]

    def _apart(self, node: str, title: str, program: Jaxpr) -> None:
        """A program that an equation runs: how often, and on what, the equation knows."""
        self._begin(title)
        sources = {
            var: self._node(var.aval.str_short(), shape="plaintext", style="", fontsize="9")
            for var in [*program.constvars, *program.invars]
        }
        self._equations(program, sources)
        ends = [
            self._node(atom.aval.str_short(), shape="plaintext", style="", fontsize="9")
            for atom in program.outvars
        ]
        for atom, end in zip(program.outvars, ends, strict=True):
            self._edge(atom, sources, end)
        self.lines.append("}")
        first = next(iter([*sources.values(), *ends]), None)
        if first is not None:
            self.arrows.append(f'{node} -> {first} [style="dotted", arrowhead="none"]')

    def _begin(self, title: str) -> None:
        self._count += 1
        self.lines.append(f"subgraph cluster_{self._count} {{")
        self.lines.append(
            f'label={_quoted(title)}; style="rounded"; color="#999999"; labeljust="l"'
        )

    def _equation(self, eqn: JaxprEqn) -> str:
        facts = self._facts.get(eqn, NOTHING)
        literals = [literal_text(a) for a in eqn.invars if isinstance(a, Literal)]
        label = " ".join([eqn.primitive.name, *literals])
        if self._folded:
            count = sum(count_eqns(program) for _, program in inner_programs(eqn))
            label += f"\n{count_text(count, 'equation')} inside" if count else ""
        about = [parameters_text(eqn), str(eqn.source_info), *facts.dispatches]
        options = {"tooltip": "\n".join(a for a in about if a)}
        if facts.dispatches:
            options["fillcolor"] = self._colors[facts.dispatches[0]]
        node = self._node(label, **options)
        if facts.flops:
            self._work[node] = flops_text(facts.flops)
        return node

    def _node(self, label: str, **options: str) -> str:
        self._count += 1
        given: dict[str, Any] = {"label": label, **options}
        text = ", ".join(f"{name}={_quoted(value)}" for name, value in given.items())
        self.lines.append(f"n{self._count} [{text}]")
        return f"n{self._count}"

    def _edge(self, atom: Atom, sources: Mapping[Var, str], to: str) -> None:
        source = sources.get(atom) if isinstance(atom, Var) else None
        if source is None:
            return
        aval = atom.aval
        lines = [aval.str_short(), size_text([aval]), self._work.get(source, "")]
        # Blanks in front, for Graphviz puts the text as close to the line as it can.
        label = "\n".join(f"  {line}" for line in lines if line)
        size = aval.nbytes
        # The more bytes, the thicker: a line more for each factor of a thousand beyond a kilobyte.
        width = 1 + max(0.0, math.log10(size) / 3 - 1) if isinstance(size, int) and size else 1.0
        self.arrows.append(f"{source} -> {to} [label={_quoted(label)}, penwidth={width:.2f}]")


def _fits(eqn: JaxprEqn, program: Jaxpr) -> bool:
    return (
        not program.constvars
        and len(program.invars) == len(eqn.invars)
        and len(program.outvars) == len(eqn.outvars)
    )
