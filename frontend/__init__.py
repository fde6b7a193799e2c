"""quire: a compiler for NumPy-style Python.

Functions are traced to jaxprs, transformed by passes, lowered to StableHLO, compiled by IREE and run on CPU, CUDA or
Vulkan. The names and semantics are JAX's.
"""

import os as _os
import typing as _t

from quire.ir import source as _source

# Frames of quire itself are never the user's line. The folders are siblings in a checkout, subfolders when installed.
_here = _os.path.dirname(_os.path.abspath(__file__))
_source.register_internal(_here)
for _package in ("passes", "backends", "runtime"):
    _source.register_internal(_os.path.join(_os.path.dirname(_here), _package))


from .compiling.compiler_start import prepare_compiler as _prepare_compiler  # noqa: E402

_prepare_compiler()

from quire.ir.config import config as config  # noqa: E402
from quire.ir.dtypes import float0 as float0  # noqa: E402
from quire.ir.jaxpr import ClosedJaxpr as ClosedJaxpr  # noqa: E402
from quire.ir.jaxpr import Jaxpr as Jaxpr  # noqa: E402
from quire.ir.references import Ref as Ref  # noqa: E402
from quire.ir.sharding import NamedSharding as NamedSharding  # noqa: E402
from quire.ir.sharding import PartitionSpec as P  # noqa: E402, F401
from quire.runtime.devices import Device as Device  # noqa: E402
from quire.runtime.devices import device_count as device_count  # noqa: E402
from quire.runtime.devices import devices as devices  # noqa: E402
from quire.runtime.devices import local_devices as local_devices  # noqa: E402
from quire.runtime.shards import Shard as Shard  # noqa: E402

from . import absent_names as _absent_names  # noqa: E402
from . import ad_checkpoint as ad_checkpoint  # noqa: E402
from . import debug as debug  # noqa: E402
from . import errors as errors  # noqa: E402
from . import lax as lax  # noqa: E402
from . import numpy as numpy  # noqa: E402
from . import random as random  # noqa: E402
from . import tree as tree  # noqa: E402
from . import tree_util as tree_util  # noqa: E402
from .arrays.array_type import Array as Array  # noqa: E402
from .arrays.assembly import make_array_from_callback as make_array_from_callback  # noqa: E402
from .arrays.assembly import make_array_from_process_local_data as make_array_from_process_local_data  # noqa: E402
from .arrays.assembly import make_array_from_single_device_arrays as make_array_from_single_device_arrays  # noqa: E402
from .arrays.environment import default_backend as default_backend  # noqa: E402
from .arrays.environment import effects_barrier as effects_barrier  # noqa: E402
from .arrays.environment import live_arrays as live_arrays  # noqa: E402
from .arrays.environment import local_device_count as local_device_count  # noqa: E402
from .arrays.environment import print_environment_info as print_environment_info  # noqa: E402
from .arrays.environment import process_count as process_count  # noqa: E402
from .arrays.environment import process_index as process_index  # noqa: E402
from .arrays.environment import process_indices as process_indices  # noqa: E402
from .arrays.environment import typeof as typeof  # noqa: E402
from .arrays.meshes import make_mesh as make_mesh  # noqa: E402
from .arrays.meshes import set_mesh as set_mesh  # noqa: E402
from .arrays.placement import block_until_ready as block_until_ready  # noqa: E402
from .arrays.placement import copy_to_host_async as copy_to_host_async  # noqa: E402
from .arrays.placement import default_device as default_device  # noqa: E402
from .arrays.placement import device_get as device_get  # noqa: E402
from .arrays.placement import device_put as device_put  # noqa: E402
from .arrays.references import empty_ref as empty_ref  # noqa: E402
from .arrays.references import free_ref as free_ref  # noqa: E402
from .arrays.references import freeze as freeze  # noqa: E402
from .arrays.references import new_ref as new_ref  # noqa: E402
from .arrays.shape_struct import ShapeDtypeStruct as ShapeDtypeStruct  # noqa: E402
from .compiling import api as _api  # noqa: E402
from .compiling.api import compile as compile  # noqa: E402
from .compiling.api import eval_shape as eval_shape  # noqa: E402
from .compiling.api import jit as jit  # noqa: E402
from .compiling.api import make_jaxpr as make_jaxpr  # noqa: E402
from .eager import evaluation as _eager  # noqa: E402, F401
from .eager.caches import clear_caches as clear_caches  # noqa: E402
from .lax.sharding import reshard as reshard  # noqa: E402
from .numpy import key_methods as _key_methods  # noqa: E402, F401
from .numpy import operators as _operators  # noqa: E402, F401
from .transforms.custom_derivatives import closure_convert as closure_convert  # noqa: E402
from .transforms.custom_derivatives import custom_gradient as custom_gradient  # noqa: E402
from .transforms.custom_derivatives import custom_jvp as custom_jvp  # noqa: E402
from .transforms.custom_derivatives import custom_vjp as custom_vjp  # noqa: E402
from .transforms.differentiation import grad as grad  # noqa: E402
from .transforms.differentiation import jvp as jvp  # noqa: E402
from .transforms.differentiation import linear_transpose as linear_transpose  # noqa: E402
from .transforms.differentiation import linearize as linearize  # noqa: E402
from .transforms.differentiation import value_and_grad as value_and_grad  # noqa: E402
from .transforms.differentiation import vjp as vjp  # noqa: E402
from .transforms.jacobians import hessian as hessian  # noqa: E402
from .transforms.jacobians import jacfwd as jacfwd  # noqa: E402
from .transforms.jacobians import jacobian as jacobian  # noqa: E402
from .transforms.jacobians import jacrev as jacrev  # noqa: E402
from .transforms.parallel_map import pmap as pmap  # noqa: E402
from .transforms.pullbacks import ad as ad  # noqa: E402
from .transforms.rematerialization import checkpoint as checkpoint  # noqa: E402
from .transforms.rematerialization import checkpoint_policies as checkpoint_policies  # noqa: E402
from .transforms.rematerialization import remat as remat  # noqa: E402
from .transforms.shard_map import shard_map as shard_map  # noqa: E402
from .transforms.shard_map import smap as smap  # noqa: E402
from .transforms.vectorization import vmap as vmap  # noqa: E402
from .version import __version__ as __version__  # noqa: E402
from .version import __version_info__ as __version_info__  # noqa: E402
from .watching.callbacks import io_callback as io_callback  # noqa: E402
from .watching.callbacks import pure_callback as pure_callback  # noqa: E402
from .watching.option_contexts import check_tracer_leaks as check_tracer_leaks  # noqa: E402
from .watching.option_contexts import checking_leaks as checking_leaks  # noqa: E402
from .watching.option_contexts import debug_infs as debug_infs  # noqa: E402
from .watching.option_contexts import debug_key_reuse as debug_key_reuse  # noqa: E402
from .watching.option_contexts import debug_nans as debug_nans  # noqa: E402
from .watching.option_contexts import default_matmul_precision as default_matmul_precision  # noqa: E402
from .watching.option_contexts import default_prng_impl as default_prng_impl  # noqa: E402
from .watching.option_contexts import disable_jit as disable_jit  # noqa: E402
from .watching.option_contexts import enable_checks as enable_checks  # noqa: E402
from .watching.option_contexts import enable_x64 as enable_x64  # noqa: E402
from .watching.option_contexts import ensure_compile_time_eval as ensure_compile_time_eval  # noqa: E402
from .watching.option_contexts import explain_cache_misses as explain_cache_misses  # noqa: E402
from .watching.option_contexts import log_compiles as log_compiles  # noqa: E402
from .watching.option_contexts import make_user_context as make_user_context  # noqa: E402
from .watching.option_contexts import no_execution as no_execution  # noqa: E402
from .watching.option_contexts import no_tracing as no_tracing  # noqa: E402
from .watching.option_contexts import numpy_dtype_promotion as numpy_dtype_promotion  # noqa: E402
from .watching.option_contexts import numpy_rank_promotion as numpy_rank_promotion  # noqa: E402
from .watching.option_contexts import threefry_partitionable as threefry_partitionable  # noqa: E402
from .watching.scopes import named_call as named_call  # noqa: E402
from .watching.scopes import named_scope as named_scope  # noqa: E402


def _checked(f: _t.Any, checks: _t.Any, options: dict[str, _t.Any]) -> _t.Any:
    """Functions with checks, which are loaded when the first one is made."""
    from .experimental.checked_functions import checked_function

    return checked_function(f, checks, options)


_api.hooks.checked = _checked

#: Submodules that are imported when first used.
_LAZY = (
    "api_util",
    "core",
    "custom_batching",
    "custom_derivatives",
    "distributed",
    "dlpack",
    "dtypes",
    "example_libraries",
    "experimental",
    "export",
    "extend",
    "ffi",
    "flatten_util",
    "image",
    "interpreters",
    "monitoring",
    "nn",
    "ops",
    "plugins",
    "profiler",
    "ref",
    "scipy",
    "sharding",
    "stages",
    "typing",
)
#: Functions of submodules that are imported when first used, and where they are.
_LAZY_NAMES = {
    "find_nan": "experimental.nan_finding",
    "from_jax": "importers.from_jax",
    "from_stablehlo": "importers.from_stablehlo",
    "kernel": "kernels.definition",
}
__getattr__ = _absent_names.module_getattr("quire", globals(), _LAZY, _LAZY_NAMES)
