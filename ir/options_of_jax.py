"""JAX's options that quire does not have: programs set and read them (`config.update("jax_pgle_profiling_runs", 1)`).

Those of `WITHOUT_EFFECT` say how XLA compiles, where files lie or what is logged: any value is kept and changes nothing.
Those of `FIXED` would change what is computed or refused: quire does what the listed value says, and takes no other.
"""

from __future__ import annotations

import os
from typing import Any

WITHOUT_EFFECT: dict[str, Any] = {
    "jax2tf_associative_scan_reductions": False, "jax2tf_default_native_serialization": True,
    "jax_array_garbage_collection_guard": None, "jax_backend_target": "", "jax_bcoo_cusparse_lowering": False,
    "jax_captured_constants_report_frames": 0, "jax_captured_constants_warn_bytes": 2000000000,
    "jax_check_proxy_envs": True, "jax_compilation_cache_check_contents": False, "jax_compilation_cache_dir": None,
    "jax_compilation_cache_expect_pgle": False, "jax_compilation_cache_include_metadata_in_key": False,
    "jax_compilation_cache_max_size": -1, "jax_compiler_detailed_logging_min_ops": 10,
    "jax_compiler_enable_remat_pass": True, "jax_cpu_collectives_implementation": "gloo",
    "jax_cpu_enable_async_dispatch": True, "jax_cpu_get_global_topology_timeout_minutes": 5,
    "jax_cpu_get_local_topology_timeout_minutes": 2, "jax_cross_host_transfer_socket_address": "",
    "jax_cross_host_transfer_timeout_seconds": None, "jax_cross_host_transfer_transfer_size": None,
    "jax_cross_host_transport_addresses": "", "jax_cuda_visible_devices": "all", "jax_custom_vjp3": False,
    "jax_debug_leaked_clients_on_clear_backends": False, "jax_debug_log_modules": "",
    "jax_disable_most_optimizations": False, "jax_disable_vmap_shmap_error": False, "jax_distributed_debug": False,
    "jax_dump_ir_modes": "stablehlo", "jax_embedded_constants_max_bytes": 32, "jax_enable_compilation_cache": True,
    "jax_enable_pgle": False, "jax_enable_preemption_service": True, "jax_enable_recoverability": False,
    "jax_exec_time_optimization_effort": 0.0, "jax_experimental_unsafe_xla_runtime_errors": False,
    "jax_export_calling_convention_version": 10, "jax_export_ignore_forward_compatibility": False,
    "jax_force_dcn_cross_host_transfers": False, "jax_hlo_source_file_canonicalization_regex": None,
    "jax_include_debug_info_in_dumps": True, "jax_include_full_tracebacks_in_locations": True,
    "jax_log_checkpoint_residuals": False, "jax_logging_level": "NOTSET", "jax_memory_fitting_effort": 0.0,
    "jax_memory_fitting_level": "O2", "jax_mock_gpu_topology": "", "jax_mosaic_allow_hlo": False,
    "jax_oneapi_visible_devices": "all", "jax_optimization_level": "UNKNOWN", "jax_pallas_enable_debug_checks": False,
    "jax_pallas_poison_buffers": False, "jax_pallas_use_mosaic_gpu": True, "jax_pallas_verbose_errors": False,
    "jax_persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir",
    "jax_persistent_cache_min_compile_time_secs": 1.0, "jax_persistent_cache_min_entry_size_bytes": 0,
    "jax_pgle_aggregation_percentile": 90, "jax_pgle_profiling_runs": 3, "jax_pjrt_client_create_options": None,
    "jax_pprint_use_color": True, "jax_ragged_dot_use_gpu_pallas_triton_lowering": False,
    "jax_ragged_dot_use_ragged_dot_instruction": True, "jax_raise_persistent_cache_errors": False,
    "jax_refs_to_pins": False, "jax_remat3": False, "jax_remove_custom_partitioning_ptr_from_cache_key": False,
    "jax_rocm_visible_devices": "all", "jax_scan3": False, "jax_send_traceback_to_runtime": "off",
    "jax_serialization_version": 0, "jax_share_binary_between_hosts": False,
    "jax_share_binary_between_hosts_timeout_ms": 1200000, "jax_sort_devices_by_process_index": True,
    "jax_source_url_schema": None, "jax_thread_guard": False, "jax_threefry_gpu_kernel_lowering": False,
    "jax_traceback_in_locations_limit": 100, "jax_tracer_error_num_traceback_frames": 5,
    "jax_use_direct_linearize": True, "jax_use_emit_pipeline_primitive": False, "jax_use_magma": "auto",
    "jax_use_shardy_partitioner": True, "jax_use_simplified_jaxpr_constants": False, "jax_xla_backend": "",
    "jax_xla_profile_version": 0, "mock_num_gpu_processes": 0,
}  # fmt: skip
"""Option to JAX's default."""

FIXED: dict[str, tuple[Any, ...]] = {
    "check_vma": (False,), "eager_constant_folding": (False,), "jax_allow_f16_reductions": (True, False),
    "jax_auto_pcast": (True,), 
    "jax_disallow_mesh_context_manager": (False,), "jax_enable_custom_prng": (False, True),
    "jax_error_checking_behavior_divide": ("ignore",), "jax_error_checking_behavior_nan": ("ignore",),
    "jax_error_checking_behavior_oob": ("ignore",),
    "jax_legacy_prng_key": ("allow",),
    "jax_mutable_array_checks": (True, False),
    "jax_random_seed_offset": (0,), "jax_remove_size_one_mesh_axis_from_type": (False,),
    "jax_softmax_custom_jvp": (False, True), "jax_transfer_guard": (None, "allow", "log"),
    "jax_transfer_guard_device_to_device": (None, "allow", "log"),
    "jax_transfer_guard_device_to_host": (None, "allow", "log"),
    "jax_transfer_guard_host_to_device": (None, "allow", "log"),
}  # fmt: skip
"""Option to the values that quire takes; the first one is what holds."""

OTHER_NAMES = {"jax_dump_ir_to": "dump_to", "jax_platforms": "platform", "jax_platform_name": "platform",
               "jax_enable_checks": "verify_each"}  # fmt: skip
"""JAX's options that quire has under another name."""

_JAXS_NAMES = {own: jaxs for jaxs, own in reversed(OTHER_NAMES.items())}


def name_in_jax(option: str) -> str:
    """JAX's name of one of quire's options."""
    return _JAXS_NAMES.get(option, f"jax_{option}")


_values: dict[str, Any] = {}


def is_option_of_jax(name: str) -> bool:
    """Whether it is one of the options of this table."""
    return name in WITHOUT_EFFECT or name in FIXED


def value(name: str) -> Any:
    """What an option of this table was set to, or its default; by the environment (``JAX_...``) as in JAX."""
    if name in _values:
        return _values[name]
    if name in FIXED:
        return FIXED[name][0]
    text = os.environ.get(name.upper())
    return WITHOUT_EFFECT[name] if text is None else _read(text, WITHOUT_EFFECT[name])


def _read(text: str, default: Any) -> Any:
    if isinstance(default, bool):
        return text.strip().lower() not in ("0", "false", "off", "no", "f", "n", "")
    return type(default)(text) if isinstance(default, int | float) else text


def set_value(name: str, new: Any) -> None:
    """Set an option of this table; ValueError as `check_value`."""
    check_value(name, new)
    _values[name] = new


def check_value(name: str, new: Any) -> None:
    """Refuse what quire does not do.

    Raises:
        ValueError: quire does not do what the value asks for.
    """
    taken = FIXED.get(name)
    plain = getattr(new, "value", new) if not isinstance(new, str) else new.lower()
    if taken is not None and plain not in taken and new not in taken:
        raise ValueError(
            f"quire.config.{name}: got {new!r}, and quire has {' or '.join(map(repr, taken))} only: what another value "
            "would change is not there"
        )
