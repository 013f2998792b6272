"""Operations that make, move and join arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import lax
from xpr.export.stablehlo.importer import TOKEN, Rule, Site, dtype_of, shape_of


def _constant(site: Site) -> Any:
    found = site.need("value")
    kind = site.tensor()
    if not isinstance(found, np.ndarray):
        raise site.error(f"the value must be an array, got {found!r}")
    may_be_shape = site.importer.open and found.ndim == 1 and found.dtype.kind in "iu"
    if found.size > 1 and found.strides and not any(found.strides) and not may_be_shape:
        return lax.full(found.shape, found.flat[0], found.dtype)
    if found.dtype != kind.dtype:
        raise site.error(f"the value is of {found.dtype}, the result of {kind.dtype}")
    return found


def _iota(site: Site) -> Any:
    kind = site.tensor()
    return iota(kind.dtype, kind.static, site.int("iota_dimension"))


def iota(dtype: np.dtype[Any], shape: tuple[int, ...], axis: int) -> Any:
    """The index along an axis; of complex numbers, as the real part."""
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return lax.convert_element_type(lax.broadcasted_iota(part, shape, axis), dtype)
    return lax.broadcasted_iota(dtype, shape, axis)


def _shape(site: Site) -> tuple[int, ...]:
    """The declared shape, which must be known."""
    return site.tensor().static


def _reshape(site: Site) -> Any:
    return lax.reshape(site.operand(0), _shape(site))


def _broadcast_in_dim(site: Site) -> Any:
    return lax.broadcast_in_dim(site.operand(0), _shape(site), site.ints("broadcast_dimensions"))


def _broadcast(site: Site) -> Any:
    return lax.broadcast(site.operand(0), site.ints("broadcast_sizes"))


def _transpose(site: Site) -> Any:
    return lax.transpose(site.operand(0), site.ints("permutation"))


def _slice(site: Site) -> Any:
    return lax.slice(
        site.operand(0),
        site.ints("start_indices"),
        site.ints("limit_indices"),
        site.ints("strides"),
    )


def _concatenate(site: Site) -> Any:
    return lax.concatenate(site.operands, site.int("dimension"))


def _pad(site: Site) -> Any:
    low, high, interior = (
        site.ints(n) for n in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    if not len(low) == len(high) == len(interior):
        raise site.error("the paddings must be of one length")
    return lax.pad(site.operand(0), site.operand(1), list(zip(low, high, interior, strict=True)))


def _tuple(site: Site) -> Any:
    return tuple(site.operands)


def _tuple_element(site: Site) -> Any:
    found, index = site.operand(0), site.int("index")
    if not isinstance(found, tuple) or not 0 <= index < len(found):
        raise site.error(f"element {index} of something that has none")
    return found[index]


def _barrier(site: Site) -> Any:
    found = list(site.operands)
    arrays = [i for i, x in enumerate(found) if hasattr(x, "dtype")]
    if arrays:
        held = lax.optimization_barrier([found[i] for i in arrays])
        for i, x in zip(arrays, held, strict=True):
            found[i] = x
    return found


def in_full_precision(function: Callable[..., Any], *operands: Any) -> Any:
    """A function of linear algebra, in float32 for floats of 16 bits."""
    dtype = dtype_of(operands[0])
    if dtype.itemsize > 2:
        return function(*operands)
    wide = [lax.convert_element_type(x, np.float32) for x in operands]
    return lax.convert_element_type(function(*wide), dtype)


def _cholesky(site: Site) -> Any:
    return in_full_precision(functools.partial(cholesky, site.flag("lower")), site.operand(0))


def cholesky(lower: bool, x: Any) -> Any:
    """The triangle that is named is read, and written."""
    axes = (*range(len(shape_of(x)) - 2), len(shape_of(x)) - 1, len(shape_of(x)) - 2)

    def adjoint(a: Any) -> Any:
        turned = lax.transpose(a, axes)
        return lax.conj(turned) if dtype_of(a).kind == "c" else turned

    if lower:
        return lax.linalg.cholesky(x, symmetrize_input=False)
    return adjoint(lax.linalg.cholesky(adjoint(x), symmetrize_input=False))


def _triangular_solve(site: Site) -> Any:
    how = site.get("transpose_a", "NO_TRANSPOSE")
    solve = functools.partial(
        lax.linalg.triangular_solve,
        left_side=site.flag("left_side"),
        lower=site.flag("lower"),
        transpose_a=how in ("TRANSPOSE", "ADJOINT"),
        conjugate_a=how == "ADJOINT",
        unit_diagonal=site.flag("unit_diagonal"),
    )
    return in_full_precision(solve, site.operand(0), site.operand(1))


def _fft(site: Site) -> Any:
    return lax.fft(site.operand(0), site.need("fft_type"), site.ints("fft_length"))


RULES: dict[str, Rule] = {
    "stablehlo.after_all": lambda site: TOKEN,
    "stablehlo.broadcast": _broadcast,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.cholesky": _cholesky,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.constant": _constant,
    "stablehlo.create_token": lambda site: TOKEN,
    "stablehlo.fft": _fft,
    "stablehlo.get_tuple_element": _tuple_element,
    "stablehlo.iota": _iota,
    "stablehlo.optimization_barrier": _barrier,
    "stablehlo.pad": _pad,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": lambda site: lax.rev(site.operand(0), site.ints("dimensions")),
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
    "stablehlo.triangular_solve": _triangular_solve,
    "stablehlo.tuple": _tuple,
}
