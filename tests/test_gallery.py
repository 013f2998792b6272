"""The gallery of the site: each program is in it, with its source as it stands in its file."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the pictures are drawn with matplotlib")
pytest.importorskip("sphinx", reason="the pages are written by an extension of Sphinx")
sys.path.append(str(Path(__file__).parent.parent / "docs" / "_ext"))

import gallery
import gallery_run
from gallery_pictures import SCENES
from gallery_texts import EXAMPLES, GROUPS

from benchmarks.programs.all_programs import PROGRAMS, by_name

RESULT = {"operands": ["f64[3]"], "results": ["f64[3]"], "difference": 1e-16}


def test_each_program_has_a_text_and_a_definition() -> None:
    names = [program.name for program in PROGRAMS]
    assert sorted(EXAMPLES) == sorted(names)
    assert set(SCENES) <= set(names)
    assert {example.group for example in EXAMPLES.values()} == set(GROUPS)
    for program in PROGRAMS:
        # What the benchmark says in short is in the full reference: the year, or the number.
        year = program.source.replace(",", " ").split()[-1]
        assert year in EXAMPLES[program.name].definition or "D2Q9" in program.source, program.name


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_pages_show_whole_programs(program: gallery.Program) -> None:
    text = gallery.page(program, RESULT)
    blocks = [part.split("\n```")[0] for part in text.split("```python\n")[1:]]
    assert len(blocks) >= 2
    code = "\n".join(blocks)
    defined = set(gallery._module(gallery._root(program.traced).__module__).nodes)
    used = {n.id for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Name)}
    shown = {name for node in ast.parse(code).body for name in gallery._defined(node)}
    assert used & defined <= shown
    assert (f"pictures/{gallery.slug(program.name)}.png" in text) == (program.name in SCENES)


def test_a_program_is_run_compared_and_drawn(tmp_path: Path) -> None:
    import xpr  # noqa: PLC0415  the setting is for this test alone
    import xpr.numpy  # noqa: PLC0415

    program = by_name("jacobi-2d")
    with xpr.enable_x64(True):
        call = xpr.jit(program.traced(xpr.numpy, xpr.lax))
        found = gallery_run.run(program, call, gallery_run.operands(program), tmp_path)
    assert found["operands"] == ["f64[64,64]"] * 2
    assert found["difference"] < 1e-12
    assert (tmp_path / "jacobi_2d.png").read_bytes()[:4] == b"\x89PNG"


def test_the_index_leads_to_all_pages() -> None:
    text = gallery.index()
    for program in PROGRAMS:
        assert f":link: {gallery.slug(program.name)}\n" in text
