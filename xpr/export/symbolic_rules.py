"""How operations are compiled with symbolic dimensions, when the common way needs fixed sizes."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xpr import lax
from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, sub_jaxprs
from xpr.export.generalize import ADVICE, SizeDependenceError
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import LoweringRule
from xpr.lowering.targets.base import Target
from xpr.numpy.log_sums import logaddexp
from xpr.primitives._conv_dims import ConvDimensionNumbers
from xpr.primitives.convert import convert_element_type
from xpr.primitives.reduce import limits

# Operations on matrices, which work on blocks of columns.
_FACTORS = frozenset(
    {
        *("cholesky", "eigh", "geqrf", "householder_product", "lu", "qr", "svd"),
        "triangular_solve",
    }
)


def symbolic_target(target: Target, programs: Sequence[ClosedJaxpr]) -> Target:
    """The target with what must be compiled in another way with symbolic dimensions.

    `programs` are the same program at several choices of the sizes. Raises SizeDependenceError,
    naming the operation and the user's line, for what has no form for symbolic dimensions.
    """
    symbolic_scan = symbolic_windows = False
    for eqns in _together([p.jaxpr for p in programs]):
        name = eqns[0].primitive.name
        if name in _SCANS:
            symbolic_scan = symbolic_scan or _differ(
                e.invars[0].aval.shape[e.params["axis"]] for e in eqns
            )
        elif name == "conv_general_dilated":
            if _differ(_kernel_sizes(e) for e in eqns) or (
                _differ(map(_spatial_sizes, eqns)) and eqns[0].params["batch_group_count"] > 1
            ):
                raise _refused(eqns[0], "a convolution with a kernel of symbolic dimension")
            symbolic_windows = symbolic_windows or _differ(map(_spatial_sizes, eqns))
        elif name == "fft" and _differ(e.params["fft_lengths"] for e in eqns):
            raise _refused(eqns[0], "a Fourier transform along an axis of symbolic dimension")
        elif name in _FACTORS and _differ(e.invars[0].aval.shape[-2:] for e in eqns):
            raise _refused(eqns[0], f"{name}, of matrices of symbolic dimension,")
    scan = _by_loop if symbolic_scan else _by_doubling
    rules = {name: _scan_rule(scan, of) for name, of in _SCANS.items()}
    if symbolic_windows:
        rules["conv_general_dilated"] = _convolution_rule
    return dataclasses.replace(
        target,
        # A loop in one dispatch has the sizes of its values in its code.
        single_dispatch_loops=False,
        # The kernels are told sizes as numbers.
        product_kernels=None,
        # IREE takes no groups of features of arrays with symbolic dimensions.
        grouped_convolutions=False,
        # A number made of sizes is to be found in what it is made of.
        folds_numbers=False,
        # Whether products are tiled may depend on the sizes, the program's text may not.
        tiles_products=lambda hints: True,
        overrides={**target.overrides, **rules},
    )


def _together(jaxprs: Sequence[Jaxpr]) -> Iterator[tuple[JaxprEqn, ...]]:
    """The equations that belong together, with those of inner programs."""
    if _differ(len(j.eqns) for j in jaxprs):
        return  # a program that is special for one of the sizes; its text tells
    for eqns in zip(*(j.eqns for j in jaxprs), strict=True):
        yield eqns
        for inner in zip(*(sub_jaxprs(e.params) for e in eqns), strict=False):
            yield from _together(inner)


def _differ(values: Any) -> bool:
    first, *others = values
    return any(v != first for v in others)


def _spatial_sizes(eqn: JaxprEqn) -> list[int]:
    shape = eqn.invars[0].aval.shape
    return [shape[i] for i in eqn.params["dimension_numbers"].lhs_spec[2:]]


def _kernel_sizes(eqn: JaxprEqn) -> list[int]:
    shape = eqn.invars[1].aval.shape
    return [shape[i] for i in eqn.params["dimension_numbers"].rhs_spec[2:]]


def _refused(eqn: JaxprEqn, what: str) -> SizeDependenceError:
    source = eqn.source_info
    where = f" (at {source.filename}:{source.position()[0]})" if source.code else ""
    return SizeDependenceError(
        f"{what}{where} cannot be compiled: its steps depend on the size. {ADVICE}"
    )


# ---- cumulative operations: IREE's own scans end its process with symbolic dimensions

Combine = Callable[[Any, Any], Any]

_SCANS: dict[str, tuple[Combine, Callable[[np.dtype[Any]], Any]]] = {
    "cumsum": (lax.add, lambda _: 0),
    "cumprod": (lax.mul, lambda _: 1),
    "cummax": (lax.max, lambda d: _extreme(d, 0)),
    "cummin": (lax.min, lambda d: _extreme(d, 1)),
    "cumlogsumexp": (logaddexp, lambda _: -np.inf),
}
"""The function of two elements, and its identity for a dtype."""


def _extreme(dtype: np.dtype[Any], which: int) -> Any:
    limit = limits(dtype)[which]
    return complex(limit.real, limit.real) if dtypes.is_complex(dtype) else limit


def _by_doubling(x: Array, axis: int, reverse: bool, combine: Combine, fill: Array) -> Array:
    """A scan in log2(n) steps of whole arrays (Hillis and Steele, CACM 29, 1986)."""
    distance, size = 1, x.shape[axis]
    while distance < size:
        edges = [(0, 0, 0)] * x.ndim
        edges[axis] = (0, distance, 0) if reverse else (distance, 0, 0)
        start = distance if reverse else 0
        moved = lax.pad(lax.slice_in_dim(x, start, start + size - distance, axis=axis), fill, edges)
        x = combine(moved, x)
        distance *= 2
    return x


def _by_loop(x: Array, axis: int, reverse: bool, combine: Combine, fill: Array) -> Array:
    """The same as a loop: how many steps there are may depend on the size."""
    size = x.shape[axis]
    filled = lax.full_like(x, 0) + fill if x.dtype != np.bool_ else lax.full_like(x, fill)

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        distance, values = state
        if reverse:
            wide, start = lax.concatenate([values, filled], axis), distance
        else:
            wide, start = lax.concatenate([filled, values], axis), size - distance
        moved = lax.dynamic_slice_in_dim(wide, start, size, axis)
        return distance * 2, combine(moved, values)

    return lax.while_loop(lambda state: state[0] < size, step, (lax.full((), 1, np.int32), x))[1]


def _scan_rule(
    scan: Callable[..., Array], of: tuple[Combine, Callable[[np.dtype[Any]], Any]]
) -> LoweringRule:
    combine, identity = of

    def lower(ctx: LoweringContext, x: Value, *, axis: int, reverse: bool) -> Value:
        def function(x: Array) -> Array:
            narrow = x.dtype.kind in "fV" and x.dtype.itemsize <= 2
            wide = convert_element_type(x, np.float32) if narrow else x
            fill = lax.full((), identity(wide.dtype), wide.dtype)
            found = scan(wide, axis, reverse, combine, fill)
            return convert_element_type(found, x.dtype)

        return ctx.inline(function, x)

    return lower


# ---- convolutions: IREE's are for fixed spatial axes


def _convolution_rule(ctx: LoweringContext, lhs: Value, rhs: Value, **params: Any) -> Value:
    return ctx.inline(lambda x, kernel: _convolution(x, kernel, **params), lhs, rhs)


def _convolution(
    x: Array,
    kernel: Array,
    *,
    dimension_numbers: ConvDimensionNumbers,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    feature_group_count: int,
    **_: Any,
) -> Array:
    """The sum, over the kernel's taps, of products of features."""
    dims = dimension_numbers
    dtype = x.dtype
    wide = np.dtype(np.float32) if dtype.itemsize <= 2 and dtypes.kind(dtype) == "f" else dtype
    edges = [
        (0, 0, 0),
        *((*pair, apart - 1) for pair, apart in zip(padding, lhs_dilation, strict=True)),
        (0, 0, 0),
    ]
    x = lax.transpose(x, (dims.lhs_spec[0], *dims.lhs_spec[2:], dims.lhs_spec[1]))
    x = lax.pad(x, lax.full((), 0, dtype), edges)
    kernel = lax.transpose(kernel, (*dims.rhs_spec[2:], dims.rhs_spec[1], dims.rhs_spec[0]))
    taps = kernel.shape[:-2]
    spans = [(k - 1) * d + 1 for k, d in zip(taps, rhs_dilation, strict=True)]
    pieces = []
    for features, weights in zip(
        _parts(x, feature_group_count), _parts(kernel, feature_group_count), strict=True
    ):
        terms = []
        for tap in itertools.product(*map(range, taps)):
            start = [t * d for t, d in zip(tap, rhs_dilation, strict=True)]
            limit = [
                n - span + a + 1
                for n, span, a in zip(features.shape[1:-1], spans, start, strict=True)
            ]
            part = lax.slice(
                features,
                (0, *start, 0),
                (features.shape[0], *limit, features.shape[-1]),
                (1, *window_strides, 1),
            )
            axes = ((part.ndim - 1,), (0,)), ((), ())
            terms.append(lax.dot_general(part, weights[tap], axes, preferred_element_type=wide))
        pieces.append(functools.reduce(lax.add, terms))
    found = pieces[0] if len(pieces) == 1 else lax.concatenate(pieces, x.ndim - 1)
    order = (dims.out_spec[0], *dims.out_spec[2:], dims.out_spec[1])
    places = sorted(range(len(order)), key=order.__getitem__)
    return convert_element_type(lax.transpose(found, places), dtype)


def _parts(x: Array, count: int) -> list[Array]:
    """`x` cut into equal parts along its last axis."""
    size = x.shape[-1] // count
    return [lax.slice_in_dim(x, i * size, (i + 1) * size, axis=-1) for i in range(count)]
