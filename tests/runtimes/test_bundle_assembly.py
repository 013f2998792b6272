"""The loader of one file is put together from the modules that the runtimes share."""

from __future__ import annotations

import re

import pytest

from xpr.runtimes.bundle import LOADER_FILE, assemble


def test_the_one_file_is_current() -> None:
    assert assemble.main(["--check"]) == 0, "run python -m xpr.runtimes.bundle.assemble"


def test_the_one_file_imports_nothing_of_xpr() -> None:
    text = LOADER_FILE.read_text(encoding="utf-8")
    assert not re.search(r"^\s*(from|import) xpr", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"a": "x = 1\n", "b": "import re\n\nx, y = 1, 2\n"}, "b and .*a both define x"),
        ({"a": "from xpr.late import f\n\nx = f()\n"}, "must be defined in an earlier part"),
        ({"a": "x = 1\n", "b": "from xpr.a import x as z\n\ny = z\n"}, "and keep its name"),
    ],
)
def test_modules_that_do_not_fit_into_one_file(
    monkeypatch: pytest.MonkeyPatch, parts: dict[str, str], message: str
) -> None:
    texts = {f"xpr.{name}": f'"""Part."""\n\n{text}' for name, text in parts.items()}
    monkeypatch.setattr(assemble, "PARTS", tuple(texts))
    monkeypatch.setattr(assemble, "source_of", texts.__getitem__)
    with pytest.raises(ValueError, match=message):
        assemble.assemble()
