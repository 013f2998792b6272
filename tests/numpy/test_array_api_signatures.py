"""Functions of `xpr.numpy` can be called as the array API standard, version 2025.12, says."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import xpr.numpy as jnp

# Functions by what they take, as the standard writes it: names before "/" are positional only and
# may have another name here; names after "*" are keywords; "=" marks a default. Where xpr, like
# JAX, has None for the standard's default, it means the same.
SIGNATURES: dict[str, str] = {
    "x, /": """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1
        floor imag isfinite isinf isnan log log1p log2 log10 logical_not negative positive real
        reciprocal round sign signbit sin sinh square sqrt tan tanh trunc matrix_transpose nonzero
        unique_all unique_counts unique_inverse unique_values linalg.det linalg.eig linalg.eigh
        linalg.eigvals linalg.eigvalsh linalg.inv linalg.matrix_transpose linalg.slogdet
        linalg.svdvals""",
    "x1, x2, /": """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift
        bitwise_xor copysign divide equal floor_divide greater greater_equal hypot less less_equal
        logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal
        pow remainder subtract matmul linalg.matmul linalg.outer linalg.solve""",
    "x, /, min=, max=": "clip",
    "x, /, *, axis=, keepdims=": "all any argmax argmin count_nonzero max mean min",
    "x, /, *, axis=, dtype=, keepdims=": "sum prod",
    "x, /, *, axis=, correction=, keepdims=": "std var",
    "x, /, *, axis=, dtype=, include_initial=": "cumulative_sum cumulative_prod",
    "x, /, *, axis=, n=, prepend=, append=": "diff",
    "x, /, *, axis=, descending=, stable=": "sort argsort",
    "x1, x2, /, *, side=, sorter=": "searchsorted",
    "x1, x2, /, *, invert=": "isin",
    "condition, x1, x2, /": "where",
    "x, indices, /, *, axis=": "take take_along_axis",
    "x1, x2, /, *, axis=": "vecdot linalg.vecdot linalg.cross",
    "x1, x2, /, *, axes=": "tensordot linalg.tensordot",
    "*arrays": "broadcast_arrays broadcast_shapes result_type",
    "*arrays, indexing=": "meshgrid",
    "x, /, shape": "broadcast_to",
    "x, /, shape, *, copy=": "reshape",
    "x, /, axes": "permute_dims",
    "x, /, axis": "expand_dims squeeze",
    "x, /, *, axis=": "flip unstack",
    "x, source, destination, /": "moveaxis",
    "x, repeats, /, *, axis=": "repeat",
    "x, repetitions, /": "tile",
    "x, /, shift, *, axis=": "roll",
    "arrays, /, *, axis=": "concat stack",
    "x, /, *, k=": "tril triu",
    "start, /, stop=, step=, *, dtype=, device=": "arange",
    "obj, /, *, dtype=, device=, copy=": "asarray",
    "shape, *, dtype=, device=": "empty ones zeros",
    "x, /, *, dtype=, device=": "empty_like ones_like zeros_like",
    "shape, fill_value, *, dtype=, device=": "full",
    "x, /, fill_value, *, dtype=, device=": "full_like",
    "n_rows, n_cols=, /, *, k=, dtype=, device=": "eye",
    "start, stop, /, num, *, dtype=, device=, endpoint=": "linspace",
    "x, /, *, device=, copy=": "from_dlpack",
    "x, dtype, /, *, copy=, device=": "astype",
    "from_, to, /": "can_cast",
    "type, /": "finfo iinfo",
    "dtype, kind": "isdtype",
    "x, /, *, upper=": "linalg.cholesky",
    "x, /, *, offset=": "linalg.diagonal",
    "x, /, *, keepdims=, ord=": "linalg.matrix_norm",
    "x, n, /": "linalg.matrix_power",
    "x, /, *, rtol=": "linalg.matrix_rank linalg.pinv",
    "x, /, *, mode=": "linalg.qr",
    "x, /, *, full_matrices=": "linalg.svd",
    "x, /, *, offset=, dtype=": "linalg.trace",
    "x, /, *, axis=, keepdims=, ord=": "linalg.vector_norm",
    "x, /, *, n=, axis=, norm=": "fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft",
    "x, /, *, s=, axes=, norm=": "fft.fftn fft.ifftn fft.rfftn fft.irfftn",
    "x, /, *, axes=": "fft.fftshift fft.ifftshift",
    "n, /, *, d=, dtype=, device=": "fft.fftfreq fft.rfftfreq",
}
NAMES = [(name, spec) for spec, names in SIGNATURES.items() for name in names.split()]


def find(name: str) -> Any:
    found: Any = jnp
    for part in name.split("."):
        found = getattr(found, part)
    return found


def problems(function: Any, spec: str) -> list[str]:
    """What a call that the standard allows would trip over."""
    parameters = list(inspect.signature(function).parameters.values())
    by_name = {p.name: p for p in parameters}
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
    only_place = "/" in spec
    used, found, keywords = set(), [], False
    for item in (part.strip() for part in spec.split(",")):
        if item in ("/", "*"):
            only_place, keywords = False, keywords or item == "*"
        elif item.startswith("*"):
            keywords = True
            found += [] if rest else [f"{item}: takes a fixed number of arguments"]
        else:
            name, optional = item.rstrip("="), item.endswith("=")
            if keywords:
                parameter = by_name.get(name)
            else:
                parameter = by_place[len(used)] if len(used) < len(by_place) else None
            if parameter is None:
                found.append(f"{name}: missing")
                continue
            used.add(parameter.name)
            if not only_place and (
                parameter.name != name or parameter.kind is parameter.POSITIONAL_ONLY
            ):
                found.append(f"{name}: cannot be given by name")
            if optional and parameter.default is parameter.empty:
                found.append(f"{name}: has no default")
    required = {p.name for p in parameters if p.default is p.empty} - used
    return found + [f"{name}: required here only" for name in required - {p.name for p in rest}]


@pytest.mark.parametrize(("name", "spec"), NAMES, ids=[n for n, _ in NAMES])
def test_functions_can_be_called_as_the_standard_says(name: str, spec: str) -> None:
    function = find(name)
    if isinstance(function, jnp.ufunc):
        assert function.nin == spec.count("x")
    else:
        assert problems(function, spec) == []


def test_the_check_of_signatures_finds_faults() -> None:
    def short(x: Any, /, axis: Any, *, more: Any) -> None: ...

    assert problems(short, "x, /, *, axis=, keepdims=") == [
        "axis: has no default",
        "keepdims: missing",
        "more: required here only",
    ]
    assert problems(short, "x, axis, *, more") == ["x: cannot be given by name"]
    assert problems(short, "*x, axis, more")[0] == "*x: takes a fixed number of arguments"
