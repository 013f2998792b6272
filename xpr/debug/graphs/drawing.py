"""`xpr.debug.draw`: a traced program as a picture and as a page."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

from xpr.core.errors import shown
from xpr.core.html import Facts, inner_programs, jaxpr_html
from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, count_eqns
from xpr.core.units import count_text
from xpr.core.wrapping import wraps
from xpr.debug.graphs import engines
from xpr.debug.graphs.colors import colors_of
from xpr.debug.graphs.dot import dot_text
from xpr.debug.graphs.facts import facts_of
from xpr.transforms.jit import jit

_MOST_DRAWN = 300
"""A picture of more equations says nothing: programs are folded, or have their tables alone."""
_MOST_PICTURES = 30
"""A page has so many pictures of inner programs, the outer ones first."""


class Drawing:
    """A program as a graph: equations are boxes, arrays the arrows between them.

    Notebooks show it as `html`.

    >>> import xpr, xpr.numpy as jnp
    >>> drawing = xpr.debug.draw(jnp.cumsum, dispatches=False)(jnp.ones(3))
    >>> drawing.name, drawing.dot.startswith("digraph")
    ('cumsum', True)
    """

    def __init__(self, name: str, jaxpr: ClosedJaxpr, facts: dict[JaxprEqn, Facts]) -> None:
        self.name = name
        self.jaxpr = jaxpr
        self._facts = facts

    @property
    def dispatches(self) -> tuple[str, ...]:
        """The dispatches of the compiled program that equations are computed in."""
        found = {name: None for fact in self._facts.values() for name in fact.dispatches}
        return tuple(found)

    @functools.cached_property
    def _colors(self) -> dict[str, str]:
        return colors_of(self.dispatches)

    @functools.cached_property
    def dot(self) -> str:
        """The graph in the language of Graphviz."""
        jaxpr = self.jaxpr.jaxpr
        return dot_text(jaxpr, jaxpr.debug_info.arg_names, self._facts, self._colors)

    @functools.cached_property
    def svg(self) -> str:
        """The picture as an SVG element.

        Raises ImportError where Graphviz is missing: `pip install 'xpr[draw]'`.
        """
        return engines.svg_of(self.dot)

    @property
    def html(self) -> str:
        """An element of a page: the picture, if there is a Graphviz, and tables of equations.

        In the tables inner programs and long lists are folded. Of a program of more than 300
        equations each inner program is one box, and has a picture of its own, which can be
        unfolded; where more than 300 are left even so, there is none.
        """
        count = count_eqns(self.jaxpr.jaxpr)
        picture = ""
        if engines.is_installed():
            picture = _scrolled(self.svg) if count <= _MOST_DRAWN else "".join(self._folded())
        about = (
            f"<p><b>{escape(self.name)}</b>, {count_text(count, 'equation')}{self._legend()}</p>"
        )
        return (
            f"<div>{about}{picture}{jaxpr_html(self.jaxpr.jaxpr, self._facts, self._colors)}</div>"
        )

    def _folded(self) -> Iterator[str]:
        """Pictures of the program and of those in it, each with its inner programs as boxes."""
        outer = self.jaxpr.jaxpr
        waiting = [(self.name, outer, outer.debug_info.arg_names, True)]
        for _ in range(_MOST_PICTURES):
            if not waiting:
                return
            title, jaxpr, names, is_open = waiting.pop(0)
            for eqn in jaxpr.eqns:
                waiting += [
                    (f"{eqn.primitive.name}: {name}, {eqn.source_info}", inner, (), False)
                    for name, inner in inner_programs(eqn)
                ]
            if 0 < len(jaxpr.eqns) <= _MOST_DRAWN:
                count = count_text(count_eqns(jaxpr), "equation")
                dot = dot_text(jaxpr, names, self._facts, self._colors, folded=True)
                yield f"<details{' open' if is_open else ''}>"
                yield f"<summary>{escape(title)}, {count}</summary>"
                yield f"{_scrolled(engines.svg_of(dot))}</details>"

    def _legend(self) -> str:
        if not self._colors:
            return ""
        chips = " ".join(
            f'<span style="color:#000;background:{color}">{escape(name)}</span>'
            for name, color in self._colors.items()
        )
        return f", {count_text(len(self._colors), 'dispatch')}: {chips}"

    _repr_html_ = html.fget

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture to a file: `.svg`, `.html` (a whole page) or `.dot`.

        Raises ValueError for another suffix, ImportError where `.svg` needs Graphviz.
        """
        file = Path(path)
        if file.suffix == ".svg":
            text = f'<?xml version="1.0" encoding="UTF-8"?>\n{self.svg}\n'
        elif file.suffix == ".dot":
            text = self.dot
        elif file.suffix == ".html":
            text = (
                '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
                f"<title>{escape(self.name)}</title></head>\n"
                f'<body style="font-family:sans-serif">{self.html}</body></html>\n'
            )
        else:
            raise ValueError(f"a drawing is saved as .svg, .html or .dot, got {file.suffix!r}")
        file.write_text(text, encoding="utf-8")

    def __repr__(self) -> str:
        count = count_text(count_eqns(self.jaxpr.jaxpr), "equation")
        return f"Drawing({self.name}, {count}, dispatches={list(self.dispatches)})"


def _scrolled(svg: str) -> str:
    return f'<div style="overflow:auto">{svg}</div>'


def draw(function: Callable[..., Any], *, dispatches: bool = True) -> Callable[..., Drawing]:
    """A function that draws the program that `function` is for its arguments.

    The arguments are arrays or types (`ShapeDtypeStruct`). Boxes are equations; arrows are arrays,
    with their types, their bytes, and an estimate of the floating-point operations of the equation
    that computes them; thicker for more bytes. With `dispatches` the program is compiled for its
    device as far as it is cut into dispatches, which colour the equations; it is not run. Where
    that is not known (programs of several devices, of the device `reference`, equations that are
    rewritten on the way, as in some loops) they stay white.

    Raises TypeError if `function` cannot be called, and what tracing and compiling raise.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.debug.draw(lambda x: jnp.sum(jnp.sin(x) * 2))(jnp.ones(8))
    Drawing(<lambda>, 3 equations, dispatches=['main_dispatch_0'])
    """
    if not callable(function):
        raise TypeError(f"draw takes a function, got {shown(function)}")
    jitted: Any = function if hasattr(function, "trace") else jit(function)

    @wraps(function)
    def drawn(*args: Any, **kwargs: Any) -> Drawing:
        traced = jitted.trace(*args, **kwargs)
        facts: dict[JaxprEqn, Facts] = {}
        if not traced.is_sharded():
            device = traced.single_device()
            if device.runtime.target != "reference":
                donated = traced.donate_argnums
                facts = facts_of(traced.jaxpr, traced.fun_name, device, donated, dispatches)
        return Drawing(traced.fun_name, traced.jaxpr, facts)

    return drawn
