"""Pictures of shardings. The texts are those that JAX 0.10.2 prints."""

from __future__ import annotations

import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import NamedSharding, P, debug, lax
from xpr.debug import drawing
from xpr.sharding import IndivisibleError, Mesh, SingleDeviceSharding

CPUS = xpr.devices("cpu")
MESH = Mesh(np.array(CPUS).reshape(4, 2), ("x", "y"))
THREE = Mesh(CPUS[:3], ("x",))
LINE = Mesh(CPUS, ("x",))
MIXED = Mesh(np.array(CPUS)[[5, 2, 7, 0]].reshape(2, 2), ("x", "y"))

PICTURES = [
    ((8, 8), NamedSharding(MESH, P("x", "y")), {}, """
        ┌──────────┬──────────┐
        │  CPU 0   │  CPU 1   │
        ├──────────┼──────────┤
        │  CPU 2   │  CPU 3   │
        ├──────────┼──────────┤
        │  CPU 4   │  CPU 5   │
        ├──────────┼──────────┤
        │  CPU 6   │  CPU 7   │
        └──────────┴──────────┘
        """),
    ((8, 16), NamedSharding(MESH, P("y", "x")), {}, """
        ┌──────────┬──────────┬──────────┬──────────┐
        │          │          │          │          │
        │  CPU 0   │  CPU 2   │  CPU 4   │  CPU 6   │
        │          │          │          │          │
        │          │          │          │          │
        ├──────────┼──────────┼──────────┼──────────┤
        │          │          │          │          │
        │  CPU 1   │  CPU 3   │  CPU 5   │  CPU 7   │
        │          │          │          │          │
        │          │          │          │          │
        └──────────┴──────────┴──────────┴──────────┘
        """),
    ((8, 8), NamedSharding(MIXED, P("x")), {}, """
        ┌───────────────────────┐
        │                       │
        │        CPU 2,5        │
        │                       │
        │                       │
        ├───────────────────────┤
        │                       │
        │        CPU 0,7        │
        │                       │
        │                       │
        └───────────────────────┘
        """),
    ((6, 6), NamedSharding(THREE, P("x")), {}, """
        ┌───────────────────────┐
        │         CPU 0         │
        │                       │
        ├───────────────────────┤
        │         CPU 1         │
        │                       │
        ├───────────────────────┤
        │         CPU 2         │
        │                       │
        └───────────────────────┘
        """),
    ((8, 8), NamedSharding(MESH, P("x", "y")), {"scale": 0.5}, """
        ┌───────┬───────┐
        │ CPU 0 │ CPU 1 │
        ├───────┼───────┤
        │ CPU 2 │ CPU 3 │
        ├───────┼───────┤
        │ CPU 4 │ CPU 5 │
        ├───────┼───────┤
        │ CPU 6 │ CPU 7 │
        └───────┴───────┘
        """),
    ((8,), NamedSharding(MESH, P("y")), {}, """
        ┌───────────┬───────────┐
        │CPU 0,2,4,6│CPU 1,3,5,7│
        └───────────┴───────────┘
        """),
    ((8,), NamedSharding(LINE, P("x")), {"min_width": 8}, """
        ┌──────┬──────┬──────┬──────┬──────┬──────┬──────┬──────┐
        │CPU 0 │CPU 1 │CPU 2 │CPU 3 │CPU 4 │CPU 5 │CPU 6 │CPU 7 │
        └──────┴──────┴──────┴──────┴──────┴──────┴──────┴──────┘
        """),
    ((4, 4), SingleDeviceSharding(CPUS[3]), {"scale": 0.4}, """
        ┌────────┐
        │        │
        │ CPU 3  │
        │        │
        └────────┘
        """),
]  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "sharding", "options", "picture"), PICTURES, ids=range(len(PICTURES))
)
def test_boxes(
    shape: tuple[int, ...],
    sharding: Any,
    options: dict[str, Any],
    picture: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    debug.visualize_sharding(shape, sharding, use_color=False, **options)
    assert capsys.readouterr().out == textwrap.dedent(picture).lstrip("\n")
    x = xpr.device_put(np.ones(shape, np.float32), sharding)
    debug.visualize_array_sharding(x, use_color=False, **options)
    assert capsys.readouterr().out == textwrap.dedent(picture).lstrip("\n")


def test_columns_that_are_too_narrow_keep_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    debug.visualize_sharding((8,), NamedSharding(LINE, P("x")), use_color=False, max_width=40)
    assert capsys.readouterr().out.splitlines() == [
        "┌────┬────┬────┬────┬────┬────┬────┬───┐",
        "│CPU │CPU │CPU │CPU │CPU │CPU │CPU │CPU│",
        "│ 0  │ 1  │ 2  │ 3  │ 4  │ 5  │ 6  │ 7 │",
        "└────┴────┴────┴────┴────┴────┴────┴───┘",
    ]
    debug.visualize_sharding((8, 1024), NamedSharding(LINE, P(None, "x")), use_color=False)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) == 80
    assert all(f"CPU {i}" in out for i in range(8))


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match=r"1 and 2 dimensions, got \(2, 2, 2\)"):
        debug.visualize_sharding((2, 2, 2), NamedSharding(MESH, P()))
    with pytest.raises(ValueError, match="`draw_sharding` only works for shapes with 1 and 2"):
        debug.draw_sharding((), NamedSharding(MESH, P()))
    with pytest.raises(IndivisibleError, match="axis 0 is partitioned 4 times"):
        debug.visualize_sharding((7, 8), NamedSharding(MESH, P("x")))


def test_colours() -> None:
    sharding = NamedSharding(MESH, P("y", "x"))
    grid = drawing.grid_of("test", (4, 4), sharding)
    colors = drawing.colors_of(grid, None)
    assert len({c for row in colors for c in row}) == 8
    assert drawing.colors_of(grid, lambda i: (i / 8, 0, 1, 1))[1] == [
        (i / 8, 0.0, 1.0) for i in (4, 5, 6, 7)
    ]
    cells = drawing.cells_of(grid, 2, 0.4, 9, 80, lines=False)
    found = drawing.in_color(grid, cells, [[(0, 0.1, 0), (1, 1, 0.5)] * 2] * 2)
    assert "".join(text for text, _ in found).splitlines() == [
        " " * 36,
        "  CPU 0    CPU 2    CPU 4    CPU 6  ",
        " " * 36,
        " " * 36,
        "  CPU 1    CPU 3    CPU 5    CPU 7  ",
        " " * 36,
    ]
    dark, light = "#ffffff on rgb(0,25,0)", "#000000 on rgb(255,255,127)"
    assert [style for _, style in found[:5]] == [dark, light, dark, light, ""]


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    console = pytest.importorskip("rich.console", reason="rich, which knows terminals, is optional")
    made = console.Console
    monkeypatch.setattr(
        console,
        "Console",
        lambda width: made(width=width, force_terminal=True, color_system="truecolor"),
    )
    debug.visualize_sharding((8,), NamedSharding(LINE, P("x")), color_map=lambda i: (1, 0, 0))
    out = capsys.readouterr().out
    assert out.count("48;2;255;0;0") == 16
    assert "│" not in out


def test_without_rich_there_are_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    debug.visualize_sharding((8,), NamedSharding(LINE, P("x")))
    assert capsys.readouterr().out.startswith("┌───────┬")


def test_plots() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is optional")
    x = xpr.device_put(np.ones((8, 4)), NamedSharding(MESH, P("x", "y")))
    ax = debug.draw_array_sharding(x)
    assert [t.get_text() for t in ax.texts] == [f"CPU {i}" for i in range(8)]
    boxes = [p.get_bbox().bounds for p in ax.patches]
    assert boxes == [(2.0 * (i % 2), 2.0 * (i // 2), 2, 2) for i in range(8)]
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 4), (8, 0))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("axis 1", "axis 0")
    _, mine = pyplot.subplots()
    row = debug.draw_sharding(
        (8,), NamedSharding(MESH, P("y")), mine, color_map=pyplot.get_cmap("tab10")
    )
    assert row is mine
    assert [t.get_text() for t in row.texts] == ["CPU 0,2,4,6", "CPU 1,3,5,7"]
    assert [p.get_bbox().bounds for p in row.patches] == [(0, 0, 4, 1), (4, 0, 4, 1)]
    assert row.patches[0].get_facecolor()[:3] == pytest.approx(pyplot.get_cmap("tab10")(0)[:3])
    pyplot.close("all")


def test_plots_need_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'xpr\[viz\]'"):
        debug.draw_sharding((8,), NamedSharding(LINE, P("x")))


def test_shardings_are_told() -> None:
    seen: list[Any] = []
    split = NamedSharding(MESH, P("x"))
    x = xpr.device_put(jnp.ones(8), split)
    debug.inspect_array_sharding(x, callback=seen.append)
    mesh = xpr.make_mesh((4, 2), ("x", "y"))
    y = xpr.device_put(jnp.ones(8), NamedSharding(mesh, P("y")))

    def look(v: xpr.Array) -> xpr.Array:
        debug.inspect_array_sharding(v, callback=seen.append)
        return v

    xpr.make_jaxpr(look)(y)
    xpr.jit(look)(y)
    assert seen == [split, NamedSharding(mesh, P("y"))]


def test_shardings_of_traced_values_are_told_when_the_program_is_compiled() -> None:
    seen: list[Any] = []

    def look(v: Any, note: Any = None) -> Any:
        def told(sharding: Any) -> None:
            seen.append((note, sharding.spec))

        debug.inspect_array_sharding(v, callback=told)
        return v

    def f(x: Any) -> Any:
        total = look(x.sum(0), "sum")
        look(x * 2, "nobody reads it")
        gradient = xpr.grad(lambda y: (look(y * 3, "grad") ** 2).sum())(x)
        many = xpr.vmap(lambda row: look(row * 2, "vmap").sum())(x)
        looped = lax.scan(lambda c, _: (look(c + 1, "scan"), None), x, None, length=2)[0]
        chosen = lax.cond(x[0, 0] > 0, lambda y: look(y, "cond"), lambda y: y, x)
        inside = xpr.shard_map(
            lambda y: look(y, "part"), mesh=MESH, in_specs=P("x", "y"), out_specs=P("x", "y")
        )(x)
        return total, gradient, many, looped, chosen, inside

    value = np.arange(64, dtype="f4").reshape(8, 8)
    x = xpr.device_put(value, NamedSharding(MESH, P("x", "y")))
    jitted = xpr.jit(f)
    lowered = jitted.lower(x)
    assert seen == []
    lowered.compile()
    both = P("x", "y")
    wanted = [
        ("sum", P("y")),
        ("nobody reads it", both),
        ("grad", both),
        ("vmap", both),
        ("scan", both),
        ("cond", both),
        ("part", P()),
    ]
    assert seen == wanted
    found = jitted(x)
    np.testing.assert_allclose(found[0], value.sum(0))
    np.testing.assert_allclose(found[1], value * 18)
    np.testing.assert_allclose(found[3], value + 2)
    np.testing.assert_allclose(found[5], value)
    assert seen == wanted
    # Outside of jit arrays themselves tell, those of a whole batch as well.
    seen.clear()
    xpr.vmap(lambda row: look(row * 2, "vmap").sum())(x)
    assert seen == [("vmap", both)]


def test_pictures_of_traced_values(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        debug.visualize_array_sharding(x + 1, scale=0.1)
        return x

    xpr.jit(f)(xpr.device_put(np.ones(8, "f4"), NamedSharding(THREE, P())))
    box = ["┌─────────┐", "│CPU 0,1,2│", "└─────────┘"]
    assert capsys.readouterr().out.splitlines() == box
