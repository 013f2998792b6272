"""Products: dot_general, dot, einsum, convolution, and batch normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import lax
from xpr import numpy as jnp
from xpr.export.stablehlo.importer import Rule, Site, dtype_of, shape_of


def _common(x: Any, y: Any, out: np.dtype[Any]) -> tuple[Any, Any]:
    """Operands of one dtype, by which no value changes that the result could hold."""
    if dtype_of(x) == dtype_of(y):
        return x, y
    return lax.convert_element_type(x, out), lax.convert_element_type(y, out)


def dot_general(x: Any, y: Any, numbers: Any, precision: Any, out: np.dtype[Any]) -> Any:
    """A product whose operands may differ in dtype, with a result of dtype `out`."""
    x, y = _common(x, y, out)
    if out == np.bool_ or dtype_of(x) == out:
        return lax.dot_general(x, y, numbers, precision)
    if np.dtype(dtype_of(x)).kind == "c" or out.kind not in "iufc" or not _wider(x, out):
        found = lax.dot_general(x, y, numbers, precision)
        return found if dtype_of(found) == out else lax.convert_element_type(found, out)
    return lax.dot_general(x, y, numbers, precision, preferred_element_type=out)


def _wider(x: Any, out: np.dtype[Any]) -> bool:
    return out.itemsize >= dtype_of(x).itemsize


def precision_of(site: Site) -> Any:
    """The precisions of both operands, None where none is said."""
    found = site.get("precision_config")
    if not found:
        return None
    names = [str(p) for p in found]
    if len(names) != 2 or not set(names) <= {"DEFAULT", "HIGH", "HIGHEST"}:
        raise site.error(f"precision_config must name two precisions, got {found!r}")
    return None if names == ["DEFAULT"] * 2 else tuple(lax.Precision[n] for n in names)


def _dot_general(site: Site) -> Any:
    contracting = site.ints("lhs_contracting_dimensions"), site.ints("rhs_contracting_dimensions")
    batching = site.ints("lhs_batching_dimensions"), site.ints("rhs_batching_dimensions")
    return dot_general(
        site.operand(0),
        site.operand(1),
        (contracting, batching),
        precision_of(site),
        site.tensor().dtype,
    )


def _dot(site: Site) -> Any:
    rank = len(shape_of(site.operand(0)))
    numbers = (((rank - 1,), (0,)), ((), ()))
    out = site.tensor().dtype
    return dot_general(site.operand(0), site.operand(1), numbers, precision_of(site), out)


def _einsum(site: Site) -> Any:
    return jnp.einsum(site.need("einsum_config"), *site.operands)


def convolution(site: Site, padding: Any) -> Any:
    """A convolution with these (low, high) pairs."""
    numbers = lax.ConvDimensionNumbers(
        (
            site.int("input_batch_dimension"),
            site.int("input_feature_dimension"),
            *site.ints("input_spatial_dimensions"),
        ),
        (
            site.int("kernel_output_feature_dimension"),
            site.int("kernel_input_feature_dimension"),
            *site.ints("kernel_spatial_dimensions"),
        ),
        (
            site.int("output_batch_dimension"),
            site.int("output_feature_dimension"),
            *site.ints("output_spatial_dimensions"),
        ),
    )
    count = len(site.ints("input_spatial_dimensions"))
    ones = (1,) * count
    out = site.tensor().dtype
    x, kernel = _common(site.operand(0), site.operand(1), out)
    spatial = site.ints("kernel_spatial_dimensions")
    flipped = np.asarray(site.get("window_reversal", (False,) * len(spatial))).tolist()
    axes = [a for a, turned in zip(spatial, flipped, strict=True) if turned]
    if axes:
        kernel = lax.rev(kernel, axes)
    preferred = out if out != dtype_of(x) and out.itemsize > dtype_of(x).itemsize else None
    found = lax.conv_general_dilated(
        x,
        kernel,
        site.ints("window_strides", ones),
        padding,
        site.ints("lhs_dilation", ones),
        site.ints("rhs_dilation", ones),
        numbers,
        site.int("feature_group_count", 1),
        site.int("batch_group_count", 1),
        precision_of(site),
        preferred,
    )
    return found if dtype_of(found) == out else lax.convert_element_type(found, out)


def _convolution(site: Site) -> Any:
    return convolution(site, site.pairs("padding", len(site.ints("input_spatial_dimensions"))))


# ---- batch normalization


def _along(site: Site, values: Any, like: Any) -> Any:
    return lax.broadcast_in_dim(values, shape_of(like), (site.int("feature_index"),))


def _others(site: Site, x: Any) -> tuple[int, ...]:
    return tuple(a for a in range(len(shape_of(x))) if a != site.int("feature_index"))


def _epsilon(site: Site, like: Any) -> Any:
    return lax.full_like(like, float(site.need("epsilon")))


def _mean(site: Site, x: Any) -> Any:
    axes = _others(site, x)
    total = lax.reduce_sum(x, axes)
    count = int(np.prod([shape_of(x)[a] for a in axes]))
    return lax.div(total, lax.full_like(total, float(count)))


def _normalized(site: Site, x: Any, mean: Any, variance: Any) -> Any:
    scale = lax.rsqrt(lax.add(variance, _epsilon(site, variance)))
    return lax.mul(lax.sub(x, _along(site, mean, x)), _along(site, scale, x))


def _batch_norm_inference(site: Site) -> Any:
    x, scale, offset, mean, variance = (site.operand(i) for i in range(5))
    found = _normalized(site, x, mean, variance)
    return lax.add(lax.mul(found, _along(site, scale, x)), _along(site, offset, x))


def _batch_norm_training(site: Site) -> Any:
    x, scale, offset = (site.operand(i) for i in range(3))
    mean = _mean(site, x)
    centered = lax.sub(x, _along(site, mean, x))
    variance = _mean(site, lax.mul(centered, centered))
    found = _normalized(site, x, mean, variance)
    out = lax.add(lax.mul(found, _along(site, scale, x)), _along(site, offset, x))
    return [out, mean, variance]


def _batch_norm_grad(site: Site) -> Any:
    x, scale, mean, variance, grad = (site.operand(i) for i in range(5))
    normal = _normalized(site, x, mean, variance)
    axes = _others(site, x)
    grad_scale = lax.reduce_sum(lax.mul(grad, normal), axes)
    grad_offset = lax.reduce_sum(grad, axes)
    factor = lax.mul(scale, lax.rsqrt(lax.add(variance, _epsilon(site, variance))))
    centered = lax.sub(grad, _along(site, _mean(site, grad), x))
    projected = lax.mul(normal, _along(site, _mean(site, lax.mul(grad, normal)), x))
    grad_x = lax.mul(_along(site, factor, x), lax.sub(centered, projected))
    return [grad_x, grad_scale, grad_offset]


RULES: dict[str, Rule] = {
    "stablehlo.batch_norm_grad": _batch_norm_grad,
    "stablehlo.batch_norm_inference": _batch_norm_inference,
    "stablehlo.batch_norm_training": _batch_norm_training,
    "stablehlo.convolution": _convolution,
    "stablehlo.dot": _dot,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.einsum": _einsum,
    "stablehlo.unary_einsum": _einsum,
}
