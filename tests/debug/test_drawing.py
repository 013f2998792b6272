"""Pictures of programs: what they show, that they are well formed, and that all is escaped."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import debug
from xpr.debug.graphs import engines
from xpr.debug.graphs.dot import dot_text

EVIL = '<script>alert("&\\N")</script>'
_VOID = frozenset({"meta", "br"})


class _Page(HTMLParser):
    """The elements of a page, each of which has to be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self.text += data


def _program(w: Any, x: Any) -> Any:
    hidden = jnp.tanh(x @ w) * 2.0

    def step(i: Any, c: Any) -> Any:
        return c * 2.0 + jnp.sin(c)

    return xpr.lax.fori_loop(0, 3, step, hidden)


@pytest.fixture(scope="module")
def drawing() -> debug.Drawing:
    return debug.draw(_program)(jnp.ones((30, 40)), jnp.ones((20, 30)))


def _texts(svg: str) -> list[str]:
    found = (e for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("}text"))
    return [(e.text or "").strip() for e in found]


def _edges(svg: str) -> list[list[str]]:
    """The texts at each arrow."""
    groups = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}g")
    edges = (g for g in groups if g.get("class") == "edge")
    return [[(t.text or "").strip() for t in g.iter() if t.tag.endswith("}text")] for g in edges]


def test_equations_arguments_and_sizes_are_in_the_picture(drawing: debug.Drawing) -> None:
    texts = _texts(drawing.svg)
    for wanted in ("w", "x", "f32[30,40]", "4.8 kB", "dot_general", "tanh", "sin", "result 0"):
        assert wanted in texts
    # 20 * 40 elements of 30 products and 30 sums each: on the arrow of what they make.
    (product,) = (e for e in _edges(drawing.svg) if f"{20 * 40 * 60 / 1000:.3g} kflop" in e)
    assert product[:2] == ["f32[20,40]", "3.2 kB"]


def test_equations_have_the_colors_of_their_dispatches(drawing: debug.Drawing) -> None:
    # As many as `explain` counts: the product with what is fused behind it, and the loop.
    explained = debug.explain(_program, jnp.ones((30, 40)), jnp.ones((20, 30)))
    assert len(drawing.dispatches) == explained.dispatches == 2
    root = ElementTree.fromstring(drawing.svg)
    fills: dict[str, str] = {}
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        if group.get("class") == "node":
            label = next(e.text or "" for e in group.iter() if e.tag.endswith("}text"))
            shapes = (e for e in group.iter() if e.tag.endswith(("}path", "}polygon", "}ellipse")))
            shape = next(shapes, None)
            if shape is None:  # an argument of an inner program is a word
                continue
            fills.setdefault(label.split()[0], shape.get("fill", ""))
    assert fills["tanh"] == fills["mul"] == fills["dot_general"]
    assert fills["sin"] == fills["scan"] != fills["tanh"]
    assert {fills[name] for name in drawing.dispatches} == {
        fills[name] for name in ("dot_general", "sin")
    }


def test_dispatches_can_be_left_out() -> None:
    drawing = debug.draw(jnp.sin, dispatches=False)(xpr.ShapeDtypeStruct((3,), np.float32))
    assert drawing.dispatches == ()
    assert "3 flop" in drawing.dot


def test_pages_fold_inner_programs_and_long_lists(drawing: debug.Drawing) -> None:
    page = _Page(drawing.html)
    assert page.tags.count("svg") == 1
    assert "jaxpr, 4 equations" in page.text
    assert "48,000" in page.text

    def long(x: Any) -> Any:
        for _ in range(450):
            x = x * 2.0
        return x

    drawing = debug.draw(long, dispatches=False)(1.0)
    page = _Page(drawing.html)
    assert "svg" not in page.tags
    assert "equations 440 to 449 of 450" in page.text
    assert page.tags.count("tr") == 450 + page.tags.count("table")


def test_large_programs_have_pictures_in_which_inner_programs_are_boxes() -> None:
    def body(c: Any, _: Any) -> Any:
        for _ in range(200):
            c = c * 2.0
        return c, c

    def large(x: Any) -> Any:
        x, _ = xpr.lax.scan(body, x + 1, length=3)
        return xpr.lax.cond(x > 0, lambda x: body(x, None)[0], jnp.sin, x)

    drawing = debug.draw(large, dispatches=False)(1.0)
    page = _Page(drawing.html)
    # The program, the body of its loop, and the branches: one of 200 equations and one of one.
    assert page.tags.count("svg") == 4
    assert "200 equations inside" in page.text
    assert "large, 406 equations" in page.text
    boxes = dot_text(drawing.jaxpr.jaxpr, ("x",), {}, {}, folded=True)
    assert boxes.count("mul") == 0
    assert drawing.dot.count('label="mul 2') == 400


def test_names_of_the_user_are_escaped() -> None:
    def function(x: Any) -> Any:
        return x * 2

    function.__name__ = EVIL
    drawing = debug.draw(xpr.jit(lambda x: xpr.jit(function)(x) + 1), dispatches=False)(1.0)
    drawing.name = EVIL
    assert EVIL in _texts(drawing.svg)
    for text in (drawing.html, xpr.make_jaxpr(xpr.jit(function))(1.0)._repr_html_()):
        page = _Page(text)
        assert "script" not in page.tags
    counts = []
    for name in ("x", EVIL + '\n"]; evil [label="'):
        texts = _texts(engines.svg_of(dot_text(drawing.jaxpr.jaxpr, (name,), {}, {})))
        counts.append(len(texts))
    assert counts[1] == counts[0] + 1  # a line more


def test_files(drawing: debug.Drawing, tmp_path: Any) -> None:
    for suffix in ("svg", "html", "dot"):
        drawing.save(tmp_path / f"program.{suffix}")
    assert ElementTree.parse(tmp_path / "program.svg").getroot().tag.endswith("svg")
    assert _Page((tmp_path / "program.html").read_text()).tags[:2] == ["html", "head"]
    assert (tmp_path / "program.dot").read_text().startswith("digraph")
    with pytest.raises(ValueError, match=r"saved as \.svg, \.html or \.dot, got '\.png'"):
        drawing.save(tmp_path / "program.png")


def test_without_graphviz_there_are_tables_only(
    drawing: debug.Drawing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(engines, "_NAME", "no_such_package")
    fresh = debug.Drawing("f", drawing.jaxpr, {})
    assert "svg" not in _Page(fresh.html).tags
    with pytest.raises(ImportError, match=r"pip install 'xpr\[draw\]'"):
        _ = fresh.svg


def test_the_program_dot_is_preferred(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dot"
    program.write_text('#!/bin/sh\necho "<?xml?><svg><!-- $(wc -c) $1 --></svg>"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert re.fullmatch(r"<svg><!-- *9 -Tsvg --></svg>", engines.svg_of("graph {}\n"[:9]))
    program.write_text("#!/bin/sh\necho no such thing >&2; exit 3\n")
    with pytest.raises(RuntimeError, match="failed: no such thing"):
        engines.svg_of("graph {}")


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(TypeError, match="draw takes a function, got 3"):
        debug.draw(3)  # pyright: ignore[reportArgumentType]


def test_programs_of_keys_of_several_devices_and_of_the_reference() -> None:
    drawing = debug.draw(lambda k: xpr.random.uniform(k, (3,)) + 1)(xpr.random.key(0))
    assert "key<fry>[]" in drawing.dot
    _Page(drawing.html)
    with xpr.default_device(xpr.devices("reference")[0]):
        drawing = debug.draw(lambda x: x + 1)(1.0)
    assert drawing.dispatches == ()
    mesh = xpr.make_mesh((1,), ("i",), devices=xpr.devices("cpu")[:1])
    spread = xpr.device_put(jnp.ones(4), xpr.NamedSharding(mesh, xpr.P("i")))
    _Page(debug.draw(lambda x: x + 1)(spread).html)


# ---- notebooks


def test_jaxprs_as_html() -> None:
    closed = xpr.make_jaxpr(lambda x: xpr.lax.cond(x > 0, jnp.sin, jnp.cos, x))(1.0)
    page = _Page(closed._repr_html_())
    assert closed.jaxpr._repr_html_() == closed._repr_html_()
    assert "branches[0], 1 equation" in page.text
    assert "branches[1], 1 equation" in page.text
    assert page.tags.count("details") == 2


def test_arrays_as_html() -> None:
    page = _Page(jnp.arange(6.0).reshape(2, 3)._repr_html_())
    assert page.tags.count("tr") == 2
    assert page.tags.count("td") == 6
    assert page.text.startswith("f32[2,3] on ")
    assert page.text.endswith("0.1.2.3.4.5.")
    large = np.arange(1000 * 1000, dtype=np.int32).reshape(1000, 1000)
    page = _Page(jnp.asarray(large)._repr_html_())
    assert page.tags.count("td") == 81
    assert page.text.count("…") == 17
    assert "999999" in page.text
    page = _Page(jnp.zeros((20, 2, 2))._repr_html_())
    assert page.tags.count("details") == 6
    assert "[19]" in page.text
    for shape in ((), (0, 3), (3,)):
        _Page(jnp.zeros(shape)._repr_html_())
    deleted = jnp.ones(3)
    deleted.delete()
    assert _Page(deleted._repr_html_()).text == repr(deleted)
    mesh = xpr.make_mesh((1,), ("i",), devices=xpr.devices("cpu")[:1])
    spread = xpr.device_put(jnp.ones(4), xpr.NamedSharding(mesh, xpr.P("i")))
    assert _Page(spread._repr_html_()).tags.count("td") == 4


def test_tracers_have_no_html() -> None:
    xpr.make_jaxpr(lambda x: pytest.fail("html") if hasattr(x, "_repr_html_") else x)(1.0)
