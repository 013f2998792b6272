"""StableHLO, CHLO, Shardy and quantized types in MLIR bytecode: encodings, and operations.

The codes are those of StablehloBytecode.cpp and ChloBytecode.cpp (StableHLO 1.20), of Shardy's
bytecode.td and of MLIR's QuantDialectBytecode.td.
"""

from __future__ import annotations

from typing import Any

from xpr.export.stablehlo.encodings import (
    BUILTIN_ATTRIBUTES,
    BUILTIN_TYPES,
    VHLO_ATTRIBUTES,
    VHLO_TYPES,
    Reader,
    Rule,
    accuracy,
    alias,
    enumerator,
    quantized,
    quantized_axis,
)
from xpr.export.stablehlo.form import Other, Token, Tuple


def _fields(names: str) -> Rule:
    """A struct of signed numbers, and of lists of them where a name ends in *."""
    parts = [(n.rstrip("*"), n.endswith("*")) for n in names.split()]

    def read(r: Reader) -> dict[str, Any]:
        return {n: r.signed_list() if many else r.cursor.signed() for n, many in parts}

    return read


def _algorithm(r: Reader) -> dict[str, Any]:
    return {
        "lhs_precision_type": r.type(),
        "rhs_precision_type": r.type(),
        "accumulation_type": r.type(),
        "lhs_component_count": r.cursor.signed(),
        "rhs_component_count": r.cursor.signed(),
        "num_primitive_operations": r.cursor.signed(),
        "allow_imprecise_accumulation": bool(r.cursor.byte()),
    }


_DIRECTIONS = enumerator("EQ", "NE", "GE", "GT", "LE", "LT")
_COMPARISONS = enumerator("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")

_STABLEHLO: dict[int, Rule] = {
    1: _fields("handle type"),
    2: _DIRECTIONS,
    3: _COMPARISONS,
    4: _fields(
        "input_batch_dimension input_feature_dimension input_spatial_dimensions* "
        "kernel_input_feature_dimension kernel_output_feature_dimension "
        "kernel_spatial_dimensions* output_batch_dimension output_feature_dimension "
        "output_spatial_dimensions*"
    ),
    5: _fields(
        "lhs_batching_dimensions* rhs_batching_dimensions* lhs_contracting_dimensions* "
        "rhs_contracting_dimensions*"
    ),
    6: enumerator("FFT", "IFFT", "RFFT", "IRFFT"),
    7: _fields(
        "offset_dims* collapsed_slice_dims* operand_batching_dims* "
        "start_indices_batching_dims* start_index_map* index_vector_dim"
    ),
    8: enumerator("DEFAULT", "HIGH", "HIGHEST"),
    9: enumerator("DEFAULT", "THREE_FRY", "PHILOX"),
    10: enumerator("INVALID", "UNIFORM", "NORMAL"),
    11: _fields(
        "update_window_dims* inserted_window_dims* input_batching_dims* "
        "scatter_indices_batching_dims* scatter_dims_to_operand_dims* index_vector_dim"
    ),
    12: enumerator("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
    13: lambda r: {"bounds": r.signed_list()},
    14: alias,
    15: _algorithm,
    16: enumerator("DEFAULT", "HIGHEST", "TOLERANCE"),
    17: accuracy,
}


def _sharding(r: Reader, unreduced: bool, reduction: bool = False) -> dict[str, Any]:
    mesh, axes, _ = r.attribute(), r.attributes(), r.attributes()
    found = {"mesh": mesh, "axes": axes, "unreduced": r.attributes() if unreduced else ()}
    if reduction:
        r.cursor.signed()
    return found


def _axis(r: Reader) -> Any:
    """The name of a mesh axis; a part of one is a pair of the name and the part."""
    name, part = r.string(), r.optional_attribute()
    return name if part is None else (name, part)


def _dimension(r: Reader) -> tuple[Any, ...]:
    axes = r.attributes()
    r.cursor.byte()
    r.cursor.varint()
    return axes


def _mesh(r: Reader) -> dict[str, Any]:
    axes = r.attributes()
    r.signed_list()
    return {"mesh_axes": dict(axes)}


_SDY: dict[int, Rule] = {
    0: Reader.attributes,
    1: lambda r: (r.string(), r.cursor.signed()),
    2: _mesh,
    3: _fields("pre_size size"),
    4: _axis,
    5: _dimension,
    6: lambda r: _sharding(r, False),
    7: Reader.attributes,
    10: lambda r: Other("a sharding rule"),
    11: Reader.attributes,
    12: Reader.attributes,
    15: lambda r: _sharding(r, True),
    16: Reader.attributes,
    17: lambda r: _sharding(r, True, True),
}

Rules = dict[int, Rule]

ENCODINGS: dict[str, tuple[Rules, Rules]] = {
    "builtin": (BUILTIN_ATTRIBUTES, BUILTIN_TYPES),
    "vhlo": (VHLO_ATTRIBUTES, VHLO_TYPES),
    "stablehlo": (_STABLEHLO, {0: lambda r: Token(), 1: lambda r: Tuple(r.types())}),
    "chlo": ({0: _DIRECTIONS, 1: _COMPARISONS}, {}),
    "sdy": (_SDY, {}),
    "quant": ({}, {4: quantized, 5: quantized_axis}),
}
"""The rules for attributes and for types of each dialect, by code."""

_ACCURATE = (
    "cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan "
    "tanh"
)

PROPERTIES: dict[str, str] = {
    "builtin.module": "sym_name? sym_visibility?",
    "func.func": "arg_attrs? function_type no_inline? res_attrs? sym_name sym_visibility?",
    "func.call": "arg_attrs? callee no_inline? res_attrs?",
    "func.return": "",
    "sdy.mesh": "mesh sym_name",
    "sdy.sharding_constraint": "sharding",
    "sdy.manual_computation": "in_shardings manual_axes out_shardings",
    "sdy.reshard": "sharding",
    "sdy.sharding_group": "group_id",
    "sdy.propagation_barrier": "allowed_direction",
    "sdy.return": "",
    "stablehlo.all_gather": "all_gather_dim channel_handle? replica_groups use_global_device_ids?",
    "stablehlo.all_reduce": "channel_handle? replica_groups use_global_device_ids?",
    "stablehlo.all_to_all": (
        "channel_handle? concat_dimension replica_groups split_count split_dimension"
    ),
    "stablehlo.batch_norm_grad": "epsilon feature_index",
    "stablehlo.batch_norm_inference": "epsilon feature_index",
    "stablehlo.batch_norm_training": "epsilon feature_index",
    "stablehlo.broadcast": "broadcast_sizes",
    "stablehlo.broadcast_in_dim": "broadcast_dimensions",
    "stablehlo.cholesky": "lower?",
    "stablehlo.collective_broadcast": "channel_handle? has_dynamic_root? replica_groups",
    "stablehlo.collective_permute": "channel_handle? source_target_pairs",
    "stablehlo.compare": "compare_type? comparison_direction",
    "stablehlo.composite": "composite_attributes? decomposition name version?",
    "stablehlo.concatenate": "dimension",
    "stablehlo.constant": "value",
    "stablehlo.convolution": (
        "batch_group_count dimension_numbers feature_group_count lhs_dilation? padding? "
        "precision_config? rhs_dilation? window_reversal? window_strides?"
    ),
    "stablehlo.cross-replica-sum": "replica_groups",
    "stablehlo.custom_call": (
        "api_version? backend_config? call_target_name called_computations? has_side_effect? "
        "operand_layouts? output_operand_aliases? result_layouts? result_tilings?"
    ),
    "stablehlo.dot": "precision_config?",
    "stablehlo.dot_general": "algorithm? dot_dimension_numbers precision_config?",
    "stablehlo.dynamic_broadcast_in_dim": (
        "broadcast_dimensions known_expanding_dimensions? known_nonexpanding_dimensions?"
    ),
    "stablehlo.dynamic_conv": (
        "batch_group_count dimension_numbers feature_group_count lhs_dilation? "
        "precision_config? rhs_dilation? window_reversal? window_strides?"
    ),
    "stablehlo.dynamic_gather": "dimension_numbers indices_are_sorted?",
    "stablehlo.dynamic_iota": "iota_dimension",
    "stablehlo.dynamic_slice": "slice_sizes",
    "stablehlo.einsum": "einsum_config",
    "stablehlo.fft": "fft_length fft_type",
    "stablehlo.gather": "dimension_numbers indices_are_sorted? slice_sizes",
    "stablehlo.get_dimension_size": "dimension",
    "stablehlo.get_tuple_element": "index",
    "stablehlo.infeed": "infeed_config? layout?",
    "stablehlo.iota": "iota_dimension",
    "stablehlo.map": "dimensions",
    "stablehlo.outfeed": "outfeed_config?",
    "stablehlo.pad": "edge_padding_high edge_padding_low interior_padding",
    "stablehlo.recv": "channel_handle is_host_transfer? source_target_pairs?",
    "stablehlo.reduce": "dimensions",
    "stablehlo.reduce_precision": "exponent_bits mantissa_bits",
    "stablehlo.reduce_scatter": (
        "channel_handle? replica_groups scatter_dimension use_global_device_ids?"
    ),
    "stablehlo.reduce_window": (
        "base_dilations? padding? window_dilations? window_dimensions window_strides?"
    ),
    "stablehlo.reverse": "dimensions",
    "stablehlo.rng": "rng_distribution",
    "stablehlo.rng_bit_generator": "rng_algorithm",
    "stablehlo.scatter": "indices_are_sorted? scatter_dimension_numbers unique_indices?",
    "stablehlo.select_and_scatter": "padding? window_dimensions? window_strides?",
    "stablehlo.send": "channel_handle is_host_transfer? source_target_pairs?",
    "stablehlo.set_dimension_size": "dimension",
    "stablehlo.slice": "limit_indices start_indices strides",
    "stablehlo.sort": "dimension? is_stable?",
    "stablehlo.torch_index_select": "batch_dims dim",
    "stablehlo.transpose": "permutation",
    "stablehlo.triangular_solve": "left_side lower transpose_a unit_diagonal",
    "stablehlo.unary_einsum": "einsum_config",
    "chlo.broadcast_compare": "broadcast_dimensions? compare_type? comparison_direction",
    "chlo.constant": "value",
    "chlo.constant_like": "value",
    "chlo.ragged_dot": "precision_config? ragged_dot_dimension_numbers",
    "chlo.scan": "dimension is_associative? is_reverse? scan_dim_size? *",
    "chlo.top_k": "is_stable? k",
}
PROPERTIES |= {f"stablehlo.{name}": "result_accuracy?" for name in _ACCURATE.split()}
"""The attributes in an operation's properties, in order; ? marks those that may be left out.

* is for numbers of operands, which are not read.
"""


NEW_PROPERTIES = {
    "chlo.top_k": "is_stable?",
    "stablehlo.collective_broadcast": "has_dynamic_root?",
    "stablehlo.custom_call": "result_tilings?",
    "stablehlo.dot_general": "algorithm?",
    "func.call": "arg_attrs? no_inline? res_attrs?",
}
"""Properties that older versions lack."""


def property_names(name: str) -> list[tuple[str, ...]] | None:
    """The properties of an operation outside VHLO: as now, and as they were before some came.

    None where they are a dictionary.

    >>> property_names("stablehlo.compare")
    [('compare_type?', 'comparison_direction')]
    """
    found = PROPERTIES.get(name)
    if found is None and name.startswith("chlo.broadcast_"):
        found = "broadcast_dimensions?"
    if found is None:
        return None
    names = tuple(found.split())
    new = NEW_PROPERTIES.get(name, "").split()
    return [names, tuple(n for n in names if n not in new)] if new else [names]
