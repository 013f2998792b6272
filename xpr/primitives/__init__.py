"""What each primitive means: one file per family, each rule of a primitive side by side.

`load_all` imports every family, so that a primitive cannot be missing because of a forgotten
import. `xpr.lowering.rules` and `xpr.sharding.rules` have a file of each family, too.
"""

from __future__ import annotations

import importlib

from xpr.core.primitive import install_loader
from xpr.interpreters.physical import install_rules

PRIMITIVES = {
    "elementwise": (
        "abs add add_any ceil complex conj div floor imag max min mul neg nextafter real rem "
        "round sign sub"
    ),
    "power": "cbrt integer_pow pow rsqrt sqrt square",
    "elementary": (
        "acos acosh asin asinh atan atan2 atanh cos cosh exp exp2 expm1 log log1p logistic sin "
        "sinh tan tanh"
    ),
    "special": (
        "bessel_i0e bessel_i1e digamma erf erf_inv erfc igamma igamma_grad_a igammac lgamma "
        "polygamma random_gamma_grad regularized_incomplete_beta zeta"
    ),
    "integer": (
        "and clz mulhi not or population_count shift_left shift_right_arithmetic "
        "shift_right_logical xor"
    ),
    "compare": "clamp eq eq_to ge gt is_finite le le_to lt lt_to ne select_n",
    "convert": (
        "bitcast_convert_type convert_element_type copy device_put optimization_barrier "
        "reduce_precision"
    ),
    "shape": "broadcast_in_dim pad reshape rev squeeze transpose",
    "joining": "concatenate split stack tile unstack",
    "creation": "empty iota",
    "slicing": "dynamic_slice dynamic_update_slice slice",
    "gather": "gather",
    "scatter": "scatter scatter-add scatter-max scatter-min scatter-mul scatter-sub",
    "reduce": (
        "argmax argmin reduce reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum "
        "reduce_xor"
    ),
    "cumulative": "cumlogsumexp cummax cummin cumprod cumsum",
    "window": (
        "reduce_window reduce_window_max reduce_window_min reduce_window_sum "
        "select_and_gather_add select_and_scatter_add"
    ),
    "blocks": "dequantize",
    "dot_general": "dot_general",
    "conv": "conv_general_dilated",
    "sort": "approx_top_k sort top_k",
    "linalg": "cholesky eigh lu qr qr_pivoted svd triangular_solve",
    "linalg_householder": "geqp3 geqrf hessenberg householder_product tridiagonal",
    "linalg_general": "eig schur",
    "linalg_tridiagonal": "tridiagonal_solve",
    "fft": "fft",
    "random": (
        "random_bits random_clone random_fold_in random_seed random_split random_unwrap "
        "random_wrap threefry2x32"
    ),
    "call": "jit",
    "custom": (
        "custom_jvp_call custom_lin custom_vjp_call custom_vmap_call linear_call name remat_opt "
        "stop_gradient"
    ),
    "checkpoint": "remat2",
    "collectives": (
        "all_gather all_gather_invariant all_gather_reduced all_to_all axis_index pmax pmin "
        "ppermute preduced psum psum_invariant pvary reduce_scatter reduced_vary_cast "
        "unreduced_psum unreduced_reduce_scatter vary_unreduced_cast"
    ),
    "group_collective": "call_once group_collective",
    "sharding": (
        "custom_partitioning inspect_sharding mesh_cast place reshard shard_alike "
        "sharding_constraint"
    ),
    "cond": "cond",
    "scan": "scan",
    "while_loop": "while",
    "linear_solve": "custom_linear_solve",
    "callback": "debug_callback io_callback pure_callback",
    "check": "check",
    "ref": "addupdate freeze get new_ref swap",
    "kernel": "c_kernel device_kernel",
    "ffi": "ffi_call",
    "shard_map": "shard_map",
}
"""The primitives of each family."""

FAMILIES = tuple(PRIMITIVES)
"""The families, each a file here, in `lowering/rules` and in `xpr/sharding/rules`."""

ELEMENTWISE_FAMILIES = frozenset(
    ("elementwise", "power", "elementary", "special", "integer", "compare", "convert")
)
"""Those whose reference rules work on any shape, element by element."""


def load_all() -> None:
    """Imports the file of each family, which registers its primitives."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")


def _load(name: str) -> None:
    """Imports the file that defines the primitive of that name, if one does."""
    for family, names in PRIMITIVES.items():
        if name in names.split():
            importlib.import_module(f"{__name__}.{family}")


install_loader(_load)
install_rules(lambda: importlib.import_module(f"{__name__}._physical_rules"))
