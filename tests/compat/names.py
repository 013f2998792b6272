"""Names that libraries import from JAX beside the documented ones.

They were collected from the sources of 54 packages on the package index that depend on JAX (flax,
optax, equinox, numpyro, haiku, distrax, brax, mujoco-mjx, orbax-checkpoint, diffrax, blackjax,
rlax, tensorflow-probability, penzai, jaxopt, ott-jax, tinygp, e3nn-jax, objax, trax, oryx,
praxis, jax-md, netket, pennylane, keras, haliax, levanter, quax, kfac-jax, tokamax, grain, torax
and others): what they import from `jax._src`, `jaxlib`, `jax.core`, `jax.extend` and
`jax.interpreters`, as far as JAX 0.10.2 has it.
"""

from __future__ import annotations

PRIVATE = """
jax._src.ad_checkpoint remat_p
jax._src.ad_util Zero stop_gradient_p
jax._src.api _dtype jit vmap grad
jax._src.api_util flatten_fun_nokwargs infer_argnums_and_argnames shaped_abstractify debug_info
jax._src.array ArrayImpl
jax._src.checkify JaxException
jax._src.clusters SlurmCluster
jax._src.compiler backend_compile_and_load
jax._src.config enable_checks threefry_partitionable enable_x64 config
jax._src.core ClosedJaxpr DropVar Jaxpr JaxprEqnContext Literal Primitive ShapedArray Trace TraceTag
jax._src.core Tracer Var call_p eval_context eval_jaxpr full_lower get_aval get_referent
jax._src.core jaxpr_as_fun no_effects physical_aval safe_map safe_zip set_current_trace
jax._src.core take_current_trace trace_state_clean new_jaxpr_eqn concrete_or_error
jax._src.distributed global_state
jax._src.dtypes TypePromotionError canonicalize_dtype issubdtype supports_inf to_complex_dtype
jax._src.dtypes to_inexact_dtype extended finfo float0
jax._src.earray EArray
jax._src.effects Effect control_flow_allowed_effects lowerable_effects remat_allowed_effects
jax._src.flatten_util ravel_pytree
jax._src.interpreters.ad Zero instantiate_zeros jvp
jax._src.interpreters.batching moveaxis not_mapped
jax._src.interpreters.partial_eval DynamicJaxprTracer trace_to_jaxpr_dynamic
jax._src.interpreters.pxla global_result_handlers thread_resources
jax._src.lax.control_flow cond_p scan_p while_p
jax._src.lax.control_flow.loops scan_p while_p
jax._src.lax.control_flow.conditionals cond_p
jax._src.lax.lax add dot_general
jax._src.lib cuda_versions jaxlib_extension_version version
jax._src.lib.gpu_triton TritonKernel
jax._src.linear_util wrap_init
jax._src.literals TypedComplex TypedFloat TypedInt TypedNdArray
jax._src.mesh get_abstract_mesh get_concrete_mesh thread_resources Mesh AxisType
jax._src.named_sharding NamedSharding
jax._src.nn.functions relu softmax
jax._src.numpy.lax_numpy sum ndarray
jax._src.numpy.util promote_dtypes promote_dtypes_inexact check_arraylike
jax._src.partition_spec PartitionSpec
jax._src.pjit UnspecifiedValue debug_info jit_p mesh_lib auto_axes explicit_axes
jax._src.prng key
jax._src.public_test_util check_close check_grads
jax._src.random uniform
jax._src.scipy.special gammaln
jax._src.sharding_impls UNSPECIFIED UnspecifiedValue canonicalize_sharding NamedSharding
jax._src.source_info_util new_source_info current
jax._src.state.types AbstractRef
jax._src.traceback_util _exclude_paths api_boundary register_exclusion
jax._src.tree_util _registry tree_map
jax._src.typing Array ArrayLike DTypeLike Shape
jax._src.util safe_map safe_zip split_list unzip2 partition_list merge_lists
jax._src.xla_bridge _backends backends get_backend host_id host_count host_ids process_index
jax host_id host_count host_ids
jax.core AbstractValue DebugInfo DropVar Effects InconclusiveDimensionOperation ShapedArray Trace
jax.core Tracer concrete_or_error ensure_compile_time_eval eval_jaxpr find_top_trace gensym
jax.core get_aval get_opaque_trace_state is_constant_dim is_concrete new_jaxpr_eqn no_effects
jax.core unsafe_get_axis_names_DO_NOT_USE valid_jaxtype max_dim min_dim
jax.extend.core ClosedJaxpr Jaxpr JaxprEqn Literal Primitive Var TraceTag
jax.interpreters.mlir LoweringRuleContext lower_fun register_lowering
jax.interpreters.pxla Mesh thread_resources
jax.lib xla_bridge xla_client
jax.stages CompilerOptions
jaxlib __version__
jaxlib._jax PjitFunction XlaRuntimeError
jaxlib.version __version__
"""
"""Modules, and names that they have."""

UNAVAILABLE = """
jax.experimental.jax2tf convert
jax.experimental.mosaic as_tpu_kernel
jax.experimental.mosaic.gpu.profiler Cupti
jax.experimental.mosaic.gpu.utils bitcast
jax.experimental.pallas BlockSpec GridSpec cdiv pallas_call program_id
jax.experimental.pallas.fuser Fusion pull_block_spec
jax.experimental.pallas.mosaic_gpu kernel
jax.experimental.pallas.ops.gpu.attention mha
jax.experimental.pallas.ops.gpu.decode_attention gqa
jax.experimental.pallas.ops.tpu.flash_attention flash_attention
jax.experimental.pallas.ops.tpu.splash_attention splash_attention_kernel splash_attention_mask
jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask CausalMask
jax.experimental.pallas.tpu CompilerParams PrefetchScalarGridSpec VMEM
jax.experimental.pallas.triton CompilerParams load store
jax.experimental.rnn lstm
jax.experimental.roofline roofline
jax.experimental.serialize_executable serialize
jax.experimental.topologies get_topology_desc
jax.experimental.transfer start_transfer_server
jax.extend.mlir dialects
jax._src.cudnn.fused_attention_stablehlo check_layout
jax._src.pallas.core BlockSpec
jaxlib.mlir ir
jaxlib.mlir.dialects func stablehlo
jaxlib.mlir.dialects.arith addf
jaxlib.mlir.ir Location Module Type
"""
"""Modules that can be imported and not be used, and names that they have."""


def table(text: str) -> list[tuple[str, str]]:
    """The modules and their names, one pair for each name."""
    lines = [line.split() for line in text.strip().splitlines()]
    return [(module, name) for module, *names in lines for name in names]
