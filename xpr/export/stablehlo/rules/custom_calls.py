"""Custom calls: those that JAX writes, and others as foreign functions."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from xpr import lax
from xpr.core.trace import Tracer
from xpr.export.stablehlo.form import Operation, Tuple
from xpr.export.stablehlo.importer import Rule, Site, TokenValue, dtype_of, shape_of
from xpr.export.stablehlo.rules import chlo, lapack
from xpr.export.stablehlo.rules.random import rng_bit_generator, threefry
from xpr.export.stablehlo.rules.reductions import reduce_windows

_CALLBACKS = (
    "xla_python_cpu_callback",
    "xla_python_gpu_callback",
    "xla_ffi_python_cpu_callback",
    "xla_ffi_python_gpu_callback",
    "xla_ffi_partitioned_python_cpu_callback",
    "xla_ffi_partitioned_python_gpu_callback",
)
_KERNELS = (
    "tpu_custom_call",
    "triton_kernel_call",
    "mosaic_gpu",
    "mosaic_gpu_v2",
    "__gpu$xla.gpu.triton",
)


_WITH_COUNT = 5
"""The operands of an approximate search that is given the number of elements as the last one."""


def _identity(site: Site) -> Any:
    return list(site.operands)


def _shape_assertion(site: Site) -> Any:
    """A requirement of sizes, which are known here; what fails is said in JAX's words."""
    condition, *inputs = site.operands
    if isinstance(condition, Tracer):
        raise site.error("a shape assertion depends on values of arrays")
    if not bool(np.asarray(condition)):
        text = str(site.get("error_message", "a requirement of the shapes does not hold"))
        for i, x in enumerate(inputs):
            text = text.replace(f"{{{i}}}", str(site.known(x)[0]))
        raise site.error(text)
    return []


def _dynamic_top_k(site: Site) -> Any:
    return chlo.top_k(site.operand(0), site.known(site.operand(1))[0], site.tensor(1).dtype)


def _top_k(site: Site) -> Any:
    """XLA's own: of the last axis, the greatest ones or the least."""
    options = {**lapack.details(site), **_attributes(site)}
    k = site.tensor().static[-1]
    x = site.operand(0)
    if options.get("largest", True):
        return chlo.top_k(x, k, site.tensor(1).dtype)
    if dtype_of(x).kind in "bu":
        raise site.error(f"the least elements of dtype {dtype_of(x)}")
    values, places = chlo.top_k(lax.neg(x), k, site.tensor(1).dtype)
    return [lax.neg(values), places]


def _attributes(site: Site) -> dict[str, Any]:
    found = site.get("mhlo.attributes", {})
    return found if isinstance(found, dict) else {}


def _approx_top_k(site: Site) -> Any:
    """The exact elements: of at most as many as are asked for."""
    options = lapack.details(site)
    axis = int(options.get("reduction_dim", len(shape_of(site.operand(0))) - 1))
    if len(site.operands) == _WITH_COUNT:
        k = site.known(site.operands[-1])[0]
    else:
        k = int(options.get("top_k", site.tensor().static[axis]))
    block = _comparator(site)
    pick = lax.approx_max_k if block == "GT" else lax.approx_min_k
    values, places = pick(site.operand(0), k, axis)
    size = site.tensor().static[axis]
    if size != k:
        raise site.error(f"{size} candidates for {k} elements: aggregate_to_topk must be set")
    return [values, lax.convert_element_type(places, site.tensor(1).dtype)]


def _called(site: Site) -> Operation:
    """The function of the module that the call names."""
    names = site.get("called_computations", ())
    if isinstance(names, tuple) and len(names) == 1:
        function = site.importer.module.functions.get(str(names[0]))
        if function is not None:
            return function
    raise site.error(f"one function must be named, got {names!r}")


def _comparator(site: Site) -> str:
    """The direction of the function that compares."""
    for op in _called(site).regions[0].operations:
        if op.name == "stablehlo.compare":
            return str(op.attributes.get("comparison_direction"))
    raise site.error("the comparator is not a comparison")


def _dynamic_reduce_window(site: Site) -> Any:
    """A reduction of windows whose sizes are operands."""
    sizes, strides, base, apart, pads = (site.known(x) for x in site.operands[-5:])
    window = {
        "window_dimensions": sizes,
        "window_strides": strides,
        "base_dilation": base,
        "window_dilation": apart,
        "padding": tuple(zip(pads[::2], pads[1::2], strict=True)),
    }
    function = _called(site)
    return reduce_windows(
        site,
        site.operands[:-5],
        window,
        function.regions[0],
        lambda *xs: site.importer.call(function, xs),
    )


def _dynamic_bits(site: Site) -> Any:
    shape = site.known(site.operand(1))
    options = {**lapack.details(site), **_attributes(site), **site.op.attributes}
    algorithm = str(options.get("rng_algorithm", "DEFAULT"))
    return rng_bit_generator(site.operand(0), algorithm, shape, site.tensor(1).dtype)


def _functional(name: str) -> Rule:
    """A custom call that is named after an operation of CHLO or MHLO."""
    rule = chlo.RULES[name]

    def apply(site: Site) -> Any:
        attributes = {**site.op.attributes, **_attributes(site)}
        op = dataclasses.replace(site.op, attributes=attributes)
        return rule(Site(site.importer, op, site.operands, site.scope))

    return apply


def _xla_cholesky(site: Site) -> Any:
    return lax.linalg.cholesky(site.operand(0), symmetrize_input=False)


def _xla_lu(site: Site) -> Any:
    return list(lax.linalg.lu(site.operand(0)))


def _xla_eigh(site: Site) -> Any:
    vectors, values = lax.linalg.eigh(site.operand(0), symmetrize_input=False)
    return [vectors, values]


CALLS: dict[str, Rule] = {
    "ApproxTopK": _approx_top_k,
    "Cholesky": _xla_cholesky,
    "Eigh": _xla_eigh,
    "LuDecomposition": _xla_lu,
    "ProductOfElementaryHouseholderReflectors": lapack.CALLS["lapack_sorgqr_ffi"],
    "Qr": lapack.CALLS["lapack_sgeqrf_ffi"],
    "Sharding": _identity,
    "TopK": _top_k,
    "annotate_device_placement": _identity,
    "cu_threefry2x32_ffi": threefry,
    "hip_threefry2x32_ffi": threefry,
    "mhlo.topk": _top_k,
    "shape_assertion": _shape_assertion,
    "xla.sdy.FuncResultSharding": _identity,
    "stablehlo.dynamic_approx_top_k": _approx_top_k,
    "stablehlo.dynamic_reduce_window": _dynamic_reduce_window,
    "stablehlo.dynamic_rng_bit_generator": _dynamic_bits,
    "stablehlo.dynamic_top_k": _dynamic_top_k,
}
CALLS |= lapack.CALLS
CALLS |= {
    f"{prefix}.{name}": _functional(f"chlo.{name}")
    for prefix in ("mhlo", "chlo")
    for name in (*chlo.UNARY, *chlo.BINARY)
}


def custom_call(site: Site) -> Any:
    """By the table; a Python callback is refused, and any other is a foreign function."""
    name = str(site.need("call_target_name"))
    rule = CALLS.get(name)
    if rule is not None:
        found = rule(site)
        return tuple(found) if isinstance(site.type_or_none, Tuple) else found
    if name in _CALLBACKS:
        raise site.error(
            f"the custom call {name} is a callback into the Python process that exported the "
            "program: export a program without callbacks"
        )
    if name in _KERNELS:
        raise site.error(f"the custom call {name} is a kernel for another compiler and device")
    if name in ("SPMDFullToShardShape", "SPMDShardToFullShape"):
        raise site.error(
            f"the custom call {name} is of GSPMD: export with Shardy (jax_use_shardy_partitioner)"
        )
    return _foreign(site, name)


def _foreign(site: Site, name: str) -> Any:
    """A call of a function that is registered by `xpr.ffi.register_ffi_target`."""
    from xpr.ffi.calls import ffi_call  # noqa: PLC0415  only for foreign functions
    from xpr.transforms.tracing import ShapeDtypeStruct  # noqa: PLC0415

    if any(isinstance(x, TokenValue | tuple) for x in site.operands):
        raise site.error(f"the custom call {name} takes tokens or tuples")
    version = str(site.get("api_version", "ORIGINAL"))
    if version != "TYPED_FFI":
        raise site.error(
            f"the custom call {name} is unknown, and has version {version} of the interface; "
            "foreign functions have TYPED_FFI"
        )
    kinds = [site.tensor(i) for i in range(len(site.op.results))]
    types = [ShapeDtypeStruct(k.static, k.dtype) for k in kinds]
    call = ffi_call(name, types, has_side_effect=site.flag("has_side_effect"))
    return list(call(*site.operands, **lapack.details(site)))
