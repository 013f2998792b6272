"""What cannot be a program without a runtime is refused, with the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import export

X = np.ones(4, np.float32)


def _save(path: Path, function: Any, *args: Any, **options: Any) -> None:
    exported = export.export(xpr.jit(function))(*args)
    export.save_c(path / "model.c", {"f": exported}, **options)


def test_unknown_targets(tmp_path: Path) -> None:
    for name in ("vax", "vulkan", "cuda:sm_90"):
        with pytest.raises(ValueError, match=f"unknown target '{name}' of a program without a run"):
            _save(tmp_path, lambda x: x, X, target=name)
    assert not list(tmp_path.iterdir())


def test_what_needs_the_host(tmp_path: Path) -> None:
    def calls(x: Any) -> Any:
        return xpr.pure_callback(lambda x: x, xpr.ShapeDtypeStruct((4,), jnp.float32), x)

    def prints(x: Any) -> Any:
        xpr.debug.print("x = {}", x)
        return x

    for function in (calls, prints):
        with pytest.raises(NotImplementedError, match=r"test_refusals\.py:"):
            xpr.jit(function).save(tmp_path / "model.c", X)


def test_sizes_that_are_open(tmp_path: Path) -> None:
    (n,) = export.symbolic_shape("n")
    with pytest.raises(NotImplementedError, match=r"f has symbolic sizes \(n\)"):
        _save(tmp_path, lambda x: x * 2, xpr.ShapeDtypeStruct((n,), jnp.float32))


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("größe", r"args\[0\]\['größe'\]: the name 'größe' has characters that C"),
        ("class", r"args\[0\]\['class'\]: 'class' is a word of C or C\+\+"),
        ("2w", r"args\[0\]\['2w'\]: '2w' cannot be a name in C"),
        ("a-b", r"the names 'a-b' and 'a_b' are both a_b in C"),
    ],
)
def test_names_that_c_does_not_have(tmp_path: Path, key: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _save(tmp_path, lambda p: p["a_b"] + p[key], {"a_b": X, key: X})


def test_functions_of_one_name(tmp_path: Path) -> None:
    exported = export.export(xpr.jit(lambda x: x))(X)
    with pytest.raises(ValueError, match="two functions of the model are called a_b in C"):
        export.save_c(tmp_path / "model.c", {"a b": exported, "a-b": exported})
    with pytest.raises(ValueError, match="the model: 'int' is a word of C"):
        export.save_c(tmp_path / "int.c", exported)
    with pytest.raises(ValueError, match="at least one function"):
        export.save_c(tmp_path / "model.c", {})
    with pytest.raises(ValueError, match=r"a name that ends in \.c"):
        export.save_c(tmp_path / "model.h", exported)


def test_sizes_beyond_32_bits(tmp_path: Path) -> None:
    x = xpr.ShapeDtypeStruct((1 << 30,), jnp.float32)
    with pytest.raises(ValueError, match=r"args\[0\] has 4294967296 bytes, more than cortex-m4"):
        _save(tmp_path, lambda x: x[:4], x, target="cortex-m4")


def test_files_of_others_are_kept(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    with pytest.raises(FileExistsError, match=r"main\.c is not a file that xpr has written"):
        _save(tmp_path, lambda x: x, X)
    (tmp_path / "main.c").unlink()
    _save(tmp_path, lambda x: x, X)
    _save(tmp_path, lambda x: x + 1, X)
    with pytest.raises(FileNotFoundError, match="the folder does not exist"):
        _save(tmp_path / "none", lambda x: x, X)
