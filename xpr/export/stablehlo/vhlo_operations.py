"""The attributes of VHLO's operations, as VhloOps.td of StableHLO 1.20 lists them.

Bytecode holds those of an operation in the order of their names.
"""

from __future__ import annotations

VERSION = (1, 20)
"""The newest version of StableHLO that is known here."""

ATTRIBUTES: dict[str, str] = {
    "all_gather_v1": "all_gather_dim replica_groups channel_id use_global_device_ids",
    "all_gather_v2": "all_gather_dim replica_groups channel_id use_global_device_ids",
    "all_reduce_v1": "replica_groups channel_id use_global_device_ids",
    "all_reduce_v2": "replica_groups channel_id use_global_device_ids",
    "all_to_all_v1": "split_dimension concat_dimension split_count replica_groups channel_id",
    "all_to_all_v2": "split_dimension concat_dimension split_count replica_groups channel_id",
    "batch_norm_grad_v1": "epsilon feature_index",
    "batch_norm_inference_v1": "epsilon feature_index",
    "batch_norm_training_v1": "epsilon feature_index",
    "broadcast_in_dim_v1": "broadcast_dimensions",
    "broadcast_v1": "broadcast_sizes",
    "call_v1": "callee",
    "cbrt_v2": "result_accuracy",
    "cholesky_v1": "lower",
    "collective_broadcast_v1": "replica_groups channel_id",
    "collective_broadcast_v2": "replica_groups channel_id has_dynamic_root",
    "collective_permute_v1": "source_target_pairs channel_id",
    "collective_reduce_v1": "replica_groups channel_id use_global_device_ids has_dynamic_root",
    "compare_v1": "comparison_direction compare_type",
    "composite_v1": "name composite_attributes decomposition version",
    "composite_v2": "name composite_attributes decomposition version",
    "concatenate_v1": "dimension",
    "constant_v1": "value",
    "convolution_v1": (
        "window_strides padding lhs_dilation rhs_dilation window_reversal "
        "input_batch_dimension input_feature_dimension input_spatial_dimensions "
        "kernel_input_feature_dimension kernel_output_feature_dimension "
        "kernel_spatial_dimensions output_batch_dimension output_feature_dimension "
        "output_spatial_dimensions feature_group_count batch_group_count "
        "precision_config"
    ),
    "cosine_v2": "result_accuracy",
    "cross-replica-sum_v1": "replica_groups",
    "custom_call_v1": (
        "call_target_name has_side_effect backend_config api_version called_computations "
        "operand_layouts result_layouts output_operand_aliases"
    ),
    "custom_call_v2": (
        "call_target_name has_side_effect backend_config api_version called_computations "
        "operand_layouts result_layouts output_operand_aliases result_tilings"
    ),
    "dot_general_v1": (
        "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions "
        "rhs_contracting_dimensions precision_config"
    ),
    "dot_general_v2": (
        "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions "
        "rhs_contracting_dimensions precision_config lhs_precision_type "
        "rhs_precision_type accumulation_type lhs_component_count rhs_component_count "
        "num_primitive_operations allow_imprecise_accumulation"
    ),
    "dot_v1": "precision_config",
    "dynamic_broadcast_in_dim_v1": (
        "broadcast_dimensions known_expanding_dimensions known_nonexpanding_dimensions"
    ),
    "dynamic_conv_v1": (
        "window_strides padding lhs_dilation rhs_dilation window_reversal "
        "input_batch_dimension input_feature_dimension input_spatial_dimensions "
        "kernel_input_feature_dimension kernel_output_feature_dimension "
        "kernel_spatial_dimensions output_batch_dimension output_feature_dimension "
        "output_spatial_dimensions feature_group_count batch_group_count "
        "precision_config"
    ),
    "dynamic_conv_v2": (
        "window_strides lhs_dilation rhs_dilation window_reversal input_batch_dimension "
        "input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension "
        "kernel_output_feature_dimension kernel_spatial_dimensions "
        "output_batch_dimension output_feature_dimension output_spatial_dimensions "
        "feature_group_count batch_group_count precision_config"
    ),
    "dynamic_gather_v1": (
        "offset_dims collapsed_slice_dims start_index_map index_vector_dim indices_are_sorted"
    ),
    "dynamic_gather_v2": (
        "offset_dims collapsed_slice_dims operand_batching_dims "
        "start_indices_batching_dims start_index_map index_vector_dim indices_are_sorted"
    ),
    "dynamic_iota_v1": "iota_dimension",
    "dynamic_slice_v1": "slice_sizes",
    "einsum_v1": "einsum_config",
    "exponential_minus_one_v2": "result_accuracy",
    "exponential_v2": "result_accuracy",
    "fft_v1": "fft_type fft_length",
    "func_v1": "sym_name function_type sym_visibility arg_attrs res_attrs",
    "gather_v1": (
        "offset_dims collapsed_slice_dims start_index_map index_vector_dim slice_sizes "
        "indices_are_sorted"
    ),
    "gather_v2": (
        "offset_dims collapsed_slice_dims operand_batching_dims "
        "start_indices_batching_dims start_index_map index_vector_dim slice_sizes "
        "indices_are_sorted"
    ),
    "get_dimension_size_v1": "dimension",
    "get_tuple_element_v1": "index",
    "infeed_v1": "infeed_config layout",
    "iota_v1": "iota_dimension",
    "log_plus_one_v2": "result_accuracy",
    "log_v2": "result_accuracy",
    "logistic_v2": "result_accuracy",
    "map_v1": "dimensions",
    "outfeed_v1": "outfeed_config",
    "pad_v1": "edge_padding_low edge_padding_high interior_padding",
    "recv_v1": "channel_id channel_type is_host_transfer",
    "recv_v2": "channel_id channel_type is_host_transfer source_target_pairs",
    "reduce_precision_v1": "exponent_bits mantissa_bits",
    "reduce_scatter_v1": "scatter_dimension replica_groups channel_id use_global_device_ids",
    "reduce_v1": "dimensions",
    "reduce_window_v1": "window_dimensions window_strides base_dilations window_dilations padding",
    "reverse_v1": "dimensions",
    "rng_bit_generator_v1": "rng_algorithm",
    "rng_v1": "rng_distribution",
    "rsqrt_v2": "result_accuracy",
    "scatter_v1": (
        "update_window_dims inserted_window_dims scatter_dims_to_operand_dims "
        "index_vector_dim indices_are_sorted unique_indices"
    ),
    "scatter_v2": (
        "update_window_dims inserted_window_dims input_batching_dims "
        "scatter_indices_batching_dims scatter_dims_to_operand_dims index_vector_dim "
        "indices_are_sorted unique_indices"
    ),
    "select_and_scatter_v1": "window_dimensions window_strides padding",
    "send_v1": "channel_id channel_type is_host_transfer",
    "send_v2": "channel_id channel_type is_host_transfer source_target_pairs",
    "set_dimension_size_v1": "dimension",
    "sine_v2": "result_accuracy",
    "slice_v1": "start_indices limit_indices strides",
    "sort_v1": "dimension is_stable",
    "sqrt_v2": "result_accuracy",
    "tan_v2": "result_accuracy",
    "tanh_v2": "result_accuracy",
    "torch_index_select_v1": "dim batch_dims",
    "transpose_v1": "permutation",
    "triangular_solve_v1": "left_side lower unit_diagonal transpose_a",
    "unary_einsum_v1": "einsum_config",
}

WITHOUT_ATTRIBUTES = frozenset(
    (
        "abs_v1 add_v1 after_all_v1 and_v1 async_done_v1 async_start_v1 atan2_v1 "
        "bitcast_convert_v1 case_v1 cbrt_v1 ceil_v1 clamp_v1 complex_v1 convert_v1 "
        "cosine_v1 count_leading_zeros_v1 create_token_v1 divide_v1 dynamic_pad_v1 "
        "dynamic_reshape_v1 dynamic_update_slice_v1 exponential_minus_one_v1 "
        "exponential_v1 floor_v1 if_v1 imag_v1 is_finite_v1 log_plus_one_v1 log_v1 "
        "logistic_v1 maximum_v1 minimum_v1 multiply_v1 negate_v1 not_v1 "
        "optimization_barrier_v1 or_v1 partition_id_v1 popcnt_v1 power_v1 "
        "real_dynamic_slice_v1 real_v1 remainder_v1 replica_id_v1 reshape_v1 return_v1 "
        "round_nearest_afz_v1 round_nearest_even_v1 rsqrt_v1 select_v1 shift_left_v1 "
        "shift_right_arithmetic_v1 shift_right_logical_v1 sign_v1 sine_v1 sqrt_v1 "
        "subtract_v1 tan_v1 tanh_v1 tuple_v1 uniform_dequantize_v1 uniform_quantize_v1 "
        "while_v1 xor_v1"
    ).split()
)
"""The operations that have no attributes."""
