"""Why names of JAX are absent from quire: the table."""

from __future__ import annotations

_NARROW = "numbers of 8 bits and fewer can be kept, moved and converted, and not computed with; those of 6 bits and of 1 are not there"
_EXTEND = "quire's own extension points are quire.ir (primitives), quire.passes and quire.backends"

#: Why a name of a JAX module is absent from the module of quire with the same name: (module, patterns, reason).
#: `python -m quire.tools.name_table` holds it against JAX's own names.
REASONS: tuple[tuple[str, str, str], ...] = (
    ("numpy", "float6_* int1 uint1", _NARROW),
    ("nn", "get_scaled_dot_general_config", _NARROW),
    ("errors", "InconclusiveDimensionOperation", "sizes are numbers: there are no symbolic dimensions"),
    ("dlpack", "to_dlpack", "arrays have __dlpack__: give one to the other library's from_dlpack"),
    ("", "remove_size_one_mesh_axis_from_type auto_pcast", "a switch between two ways of which quire has one"),
    ("lax", "after_all_p create_token_p", "tokens hold nothing: effects are kept in order without them"),
    ("lax", "ragged_all_to_all_p", "it is made of other primitives"),
    ("lax", "reduced_vary*", "types say along which axes values vary, and not of which a sum is due"),
    ("", "host_count host_id host_ids", "older names: use process_count, process_index and process_indices"),
    ("lax", "psend precv", "a process that sends alone would wait for ever: use ppermute"),
    ("", "ad lib", _EXTEND),
    ("extend", "mlir sharding xla lowering pallas ifrt_programs", "it is about XLA's own data"),
    (
        "interpreters.pxla",
        "*",
        "XLA's executables and shardings: quire has quire.sharding, and compiled.memory_analysis()",
    ),
    ("interpreters.partial_eval", "dce_jaxpr_*_rule", "quire's passes have rules of their own"),
    (
        "ffi",
        "build_ffi_lowering_function register_ffi_target_as_batch_partitionable register_ffi_type register_ffi_type_id",
        "it is about XLA's interface: quire's is include/quire_ffi.h, see ffi_call and ffi_lowering",
    ),
    (
        "extend.backend",
        "get_compile_options register_backend_cache register_backend_factory",
        "devices are IREE's, and compiler flags belong to the target",
    ),
    (
        "interpreters.mlir",
        "AxisContext SPMDAxisContext ShardingContext Mesh MeshAxisName DEVICE_TO_DEVICE_TYPE RECV_FROM_HOST_TYPE "
        "SEND_TO_HOST_TYPE ShapePolyLoweringState",
        "programs are divided before they are lowered, and sizes are numbers",
    ),
    ("interpreters.mlir", "Token TokenSet token_type", "effects are kept in order without tokens"),
    (
        "interpreters.mlir",
        "jaxpr_subcomp core_call_lowering lower_jaxpr_to_fun lower_jaxpr_to_module LoweringParameters LoweringResult",
        "within a rule, mlir.lower_fun(quire.core.jaxpr_as_fun(closed))(ctx, *values) lowers a jaxpr",
    ),
    (
        "interpreters.mlir",
        "make_ir_context merge_mlir_modules module_to_bytecode module_to_string",
        "use jit(f).lower(...).as_text()",
    ),
    (
        "interpreters.mlir",
        "ConstantHandler register_constant_handler ir_type_handlers ir_tree_registry ir_attribute flatten_ir_types "
        "unflatten_ir_values_like_types",
        "values are arrays: each has one type of MLIR's (aval_to_ir_type, ir_constant)",
    ),
    ("extend.random", "define_prng_impl", "quire has the generators threefry2x32, rbg and unsafe_rbg"),
    ("extend.core", "InconclusiveDimensionOperation", "sizes are numbers: there are no symbolic dimensions"),
    (
        "extend.core.primitives",
        "after_all_p create_token_p get_p swap_p empty2_p call_p closed_call_p device_put_p eq_to_p le_to_p lt_to_p "
        "approx_top_k_p ragged_all_to_all_p random_fold_in_p random_gamma_p random_seed_p random_split_p",
        "it is made of other primitives",
    ),
    ("", "transfer_guard*", "arrays on the CPU share memory with NumPy, so there is no transfer to guard"),
    ("", "array_garbage_collection_guard thread_guard memory", "there is nothing in quire that it would set"),
    ("", "enable_custom_prng legacy_prng_key", "both forms of keys are always there: random.key and random.PRNGKey"),
    ("", "softmax_custom_jvp allow_f16_reductions jax2tf_*", "a switch between two ways of which quire has one"),
    ("", "fwd_and_bwd", "use vjp inside compile"),
    ("", "ds", "an internal of JAX"),
    ("core", "eval_context max_dim min_dim", "shapes are numbers, and there is no context but compile_time_eval"),
    ("debug", "DebugEffect OrderedDebugEffect", "effects are strings: quire.ir.primitives.calls"),
    ("ad_checkpoint", "Offloadable Recompute Saveable", "policies say yes or no: residuals are not offloaded"),
    ("custom_derivatives", "linear_call", "use custom_vjp, or custom_linear_solve for equations"),
    ("custom_derivatives", "remat_opt_p", "internals of JAX"),
    ("lax.linalg", "ormqr_p symmetric_product_p cholesky_update_p", "it is made of other primitives"),
    ("random", "random_gamma_p", "gamma is made of other primitives"),
    ("lax", "DotAlgorithm* Tolerance", "IREE has one algorithm: give precision="),
    ("lax", "scaled_dot", _NARROW),
    ("lax", "dce_sink*", "use debug.callback, which is never removed"),
    (
        "lax",
        "eq_to_p le_to_p lt_to_p stack_p unstack_p stage_p linear_solve_p approx_top_k_p device_put_p",
        "it is made of other primitives",
    ),
    ("profiler", "Profile*", "the file is JSON: read it with json"),
    ("profiler", "start_server stop_server register_subprocess", "there is no profiling server: use trace"),
    ("profiler", "*device_memory_profile", "use live_arrays, or memory_stats of a device"),
    ("stages", "CompilerOptions", "compiler flags belong to the target"),
)
