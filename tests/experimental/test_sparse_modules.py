"""JAX's modules of sparse arrays have the same functions, and say where it is told what is not."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from xpr.experimental import sparse

ROOT = Path(__file__).parent.parent.parent
MODULES = ("ad", "api", "bcoo", "bcsr", "coo", "csr", "linalg", "random", "transform", "util")
# What JAX's modules have that its package does not re-export.
NOT_IN_THE_PACKAGE = {"COOInfo", "SparseInfo", "is_sparse", "lobpcg_standard", "spsolve"}


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_the_functions_of_the_package(name: str) -> None:
    module = importlib.import_module(f"xpr.experimental.sparse.{name}")
    assert getattr(sparse, name) is module
    names = getattr(module, "__all__", ())
    assert names or name in ("linalg", "transform")
    for each in names:
        found = getattr(module, each)
        if each not in NOT_IN_THE_PACKAGE:
            assert inspect.unwrap(found) is inspect.unwrap(getattr(sparse, each))
    with pytest.raises(AttributeError, match=r"docs/sparse\.md lists what is missing"):
        _ = module.nothing


def test_missing_names_are_listed() -> None:
    page = (ROOT / "docs" / "sparse.md").read_text(encoding="utf-8")
    for module, name in (
        ("bcoo", "bcoo_todense_p"), ("bcoo", "bcoo_gather"), ("bcoo", "bcoo_eliminate_zeros"),
        ("bcsr", "BCSRProperties"), ("transform", "SparseTracer"), ("util", "nfold_vmap"),
    ):  # fmt: skip
        assert not hasattr(getattr(sparse, module), name)
        assert f"`{name}`" in page
    assert not hasattr(sparse, "bcoo_dot_general_p")
