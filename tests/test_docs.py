"""Documents that are made from the code agree with it, and examples in pages are true."""

from __future__ import annotations

import doctest
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "transformations").glob("*.md"))
SHARDING = sorted((ROOT / "docs" / "sharding").glob("*.md"))
# Pages whose examples are run, beside those of the transformations.
PAGES_WITH_EXAMPLES = [
    *PAGES,
    *SHARDING,
    *(
        ROOT / "docs" / f"{p}.md"
        for p in (
            "black_box",
            "callbacks",
            "checkpoints",
            "control_flow",
            "deploy",
            "devices",
            "faq",
            "glossary",
            "sharp_bits",
            "stablehlo",
            "quantized_arrays",
            "where_jax_differs",
        )
    ),
]


def test_table_of_primitives_is_up_to_date() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("page", PAGES_WITH_EXAMPLES, ids=lambda page: page.stem)
def test_examples_of_pages_are_true(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    # A block in a list is indented as the list is.
    blocks = re.findall(r"^ *```python\n(.*?)^ *```$", text, flags=re.MULTILINE | re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    assert len(example.examples) >= 4
    report: list[str] = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(optionflags=flags)
    runner.run(example, out=report.append)
    assert runner.failures == 0, "".join(report)


def test_the_life_of_a_call_is_drawn_by_its_script() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "inside" / "draw_call.py"))
    assert script["OUT"].read_text(encoding="utf-8") == script["drawing"]()
    for _, _, folder in script["STEPS"]:
        assert any((ROOT / top / folder).exists() for top in ("", "xpr")), folder


@pytest.mark.parametrize("page", PAGES_WITH_EXAMPLES, ids=lambda page: page.stem)
def test_pages_name_files_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\((\S+\.(?:md|png))\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    named = re.findall(r"`((?:xpr|lowering|examples)/[a-z_/]*(?:\.py)?)`", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("pages", [PAGES, SHARDING], ids=["transformations", "sharding"])
def test_every_page_is_in_the_index(pages: list[Path]) -> None:
    index = (pages[0].parent / "index.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((\w+\.md)\)", index)
    assert sorted(set(links)) == [page.name for page in pages if page.stem != "index"]


def test_every_transformation_is_on_a_page() -> None:
    surface = (ROOT / "xpr" / "__init__.py").read_text(encoding="utf-8")
    names = re.findall(r"^ *from xpr\.transforms\.\w+ import (\w+) as \1$", surface, re.MULTILINE)
    assert {"grad", "vmap", "jit", "hessian"} <= set(names)
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("page", ["random_numbers", "vmap"])
def test_solutions_of_exercises_are_right(page: str) -> None:
    text = (ROOT / "docs" / "tutorials" / f"{page}.md").read_text(encoding="utf-8")
    cells = re.findall(r"^```\{code-cell\}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    solutions = 0
    for cell in cells:
        # Drawings and cells that raise on purpose are left to the build of the site.
        if "matplotlib" in cell or "raises-exception" in cell:
            continue
        code = re.sub(r"^:tags:.*\n", "", cell)
        if ":tags: [solution]" in cell:
            assert "assert " in code
            solutions += 1
        exec(compile(code, page, "exec"), names)
    assert solutions == 2
