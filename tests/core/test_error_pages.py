"""Exceptions name their pages: there is one for each, and it is about that exception."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.core import errors

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / errors.EXPLAINED_IN
BASES = {"XprError", "JAXTypeError", "JAXIndexError"}
"""Nothing raises these themselves."""


def _page(error: BaseException) -> Path:
    (note,) = (n for n in error.__notes__ if n.startswith("Explained in "))
    return ROOT / note.removeprefix("Explained in ")


def _raised(function: object, *args: object) -> BaseException:
    with pytest.raises(Exception, match=r"\w") as caught:
        function(*args)  # pyright: ignore[reportCallIssue]
    return caught.value


def test_each_exception_has_a_page_that_the_index_lists() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Exception)]
    public = {k.__name__ for k in kinds if k.__module__ == errors.__name__} - {"_Explained"}
    pages = {path.stem for path in FOLDER.glob("*.md")}
    assert public - BASES <= pages
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    for name in pages - {"index"}:
        assert f"]({name}.md)" in index, name
        assert f"\n{name}\n" in index, name
    for name in BASES:
        assert f"`{name}`" in index


def test_messages_name_their_pages() -> None:
    with xpr.debug_nans(True):
        nan = _raised(jnp.log, np.float32(-1))
    x = jnp.ones(3)
    x.delete()
    for error, page in (
        (_raised(xpr.jit(lambda x: 1 if x > 0 else 2), 1.0), "TracerBoolConversionError"),
        (_raised(xpr.jit(lambda x: float(x)), 1.0), "ConcretizationTypeError"),
        (_raised(xpr.jit(lambda x: x[x > 0]), np.ones(3)), "NonConcreteBooleanIndexError"),
        (nan, "FloatingPointError"),
        (_raised(lambda: x + 1), "ArrayDeleted"),
        (errors.JaxprTypeError("a fault"), "JaxprTypeError"),
    ):
        assert _page(error) == FOLDER / f"{page}.md"
        title = (FOLDER / f"{page}.md").read_text(encoding="utf-8").split("\n# ")[-1]
        assert type(error).__name__ in title.splitlines()[0]
