"""The private modules of JAX that its tests import: stand-ins over quire's public names.

A private module shows, in order, what is defined for it here, what `quire.as_jax` has for it, what the public module of the same
subject has, the checkout's own source where that is a helper of tests without a compiler in it, and for every other name a
`Missing`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import quire
from quire.as_jax.modules import JAX_VERSION, sources
from quire.as_jax.private.dtypes import to_inexact_dtype
from quire.ir.errors import ShardingTypeError, UnexpectedTracerError
from quire.ir.primitives.elementwise import convert_element_type_p

from . import settings
from .missing import Missing

_PREFIX = "jax._src"

# Read from the checkout as they are: helpers of tests.
_READ = {
    "test_util",
    "public_test_util",
    "test_loader",
    "test_warning_util",
    "internal_test_util",
    "hypothesis_test_util",
}
# Helpers of tests among JAX's public modules, by the name that they would have in quire.
_READ_PUBLIC = {"quire.experimental.sparse.test_util": "jax/experimental/sparse/test_util.py"}
# Read from the checkout for the names that nothing else has.
_READ_LAST = {"dtypes", "lax_reference", "util", "frozen_dict", "lazy_loader"}

# Private modules whose names are in a public module of another path.
_PUBLIC = {
    "api": ("quire", "quire.transforms.pullbacks"),
    "lax.lax": ("quire.lax",),
    "lax.slicing": ("quire.lax",),
    "lax.convolution": ("quire.lax",),
    "lax.windowed_reductions": ("quire.lax",),
    "lax.parallel": ("quire.lax",),
    "lax.control_flow": ("quire.lax",),
    "lax.control_flow.for_loop": (),
    "lax.utils": ("quire.lax",),
    "lax.other": ("quire.lax",),
    "lax.linalg": ("quire.lax.linalg",),
    "numpy.lax_numpy": ("quire.numpy",),
    "numpy.ufuncs": ("quire.numpy",),
    "numpy.reductions": ("quire.numpy",),
    "numpy.indexing": ("quire.numpy",),
    "numpy.util": ("quire.numpy",),
    "numpy.linalg": ("quire.numpy.linalg",),
    "numpy.fft": ("quire.numpy.fft",),
    "numpy.array_methods": (),
    "ad_checkpoint": ("quire.ad_checkpoint", "quire"),
    "ad_util": ("quire.interpreters.ad",),
    "array": ("quire",),
    "basearray": ("quire",),
    "callback": ("quire", "quire.experimental"),
    "custom_derivatives": ("quire.custom_derivatives", "quire"),
    "custom_batching": ("quire.custom_batching", "quire"),
    "debugging": ("quire.debug",),
    "error_check": (),
    "errors": ("quire.errors",),
    "interpreters.ad": ("quire.interpreters.ad",),
    "interpreters.batching": ("quire.interpreters.batching",),
    "interpreters.mlir": ("quire.interpreters.mlir",),
    "interpreters.partial_eval": ("quire.interpreters.partial_eval",),
    "interpreters.pxla": ("quire.interpreters.pxla",),
    "linear_util": ("quire.extend.linear_util",),
    "mesh": ("quire.sharding",),
    "partition_spec": ("quire.sharding",),
    "named_sharding": ("quire.sharding",),
    "sharding": ("quire.sharding", "quire.ir.errors"),
    "sharding_impls": ("quire.sharding", "quire"),
    "scipy.sparse.linalg": ("quire.scipy.sparse.linalg",),
    "scipy.special": ("quire.scipy.special",),
    "shard_map": ("quire",),
    "stages": ("quire.stages",),
    "random.core": ("quire.random",),
    "random": ("quire.random",),
    "random.prng": ("quire.arrays.key_array", "quire.extend.random"),
    "xla_bridge": ("quire",),
    "pjit": ("quire", "quire.experimental.pjit"),
    "dlpack": ("quire.dlpack",),
    "export": ("quire.export",),
}


class _Counted:
    """Stands for a cache whose misses are counted: none are, since quire's caches are not JAX's."""

    def cache_clear(self) -> None:
        """Nothing to clear."""

    def cache_info(self) -> Any:
        """No misses."""
        return types.SimpleNamespace(misses=0, hits=0)


class _Backend:
    platform = "cpu"
    platform_version = "quire"
    runtime_type = "quire"

    def devices(self) -> list[Any]:
        """The devices."""
        return quire.devices()

    local_devices = devices

    def device_count(self) -> int:
        """How many."""
        return len(quire.devices())

    def process_index(self) -> int:
        """This process."""
        return 0


class _Extension:
    """JAX's compiled module: of no special build, and what is registered with it goes nowhere."""

    def __init__(self, **names: Any) -> None:
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.startswith(("is_", "set_", "register_")):
            return lambda *args, **kwargs: False
        return Missing(f"jax._src.lib._jax.{name}")


class _WeakCache:
    """Stands for the caches of JAX's compiled module, as plain ones."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return functools.lru_cache(None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda f=None, *args, **kwargs: f


def _safe_map(f: Any, *args: Any) -> list[Any]:
    return [f(*values) for values in _safe_zip(*args)]


def _safe_zip(*args: Any) -> list[Any]:
    return list(zip(*map(list, args), strict=True))


_backend = _Backend()


@functools.cache
def get_backend(platform: Any = None) -> Any:
    """The one backend, the CPU."""
    return _backend


def _promote_dtypes(*args: Any) -> list[Any]:
    to = quire.dtypes.result_type(*args)
    return [quire.numpy.asarray(x, to) for x in args]


def _promote_dtypes_inexact(*args: Any) -> list[Any]:
    dtype = to_inexact_dtype(quire.dtypes.result_type(*args))
    return [quire.numpy.asarray(x, dtype) for x in args]


def _promote_dtypes_complex(*args: Any) -> list[Any]:
    to = quire.numpy.promote_types(_promote_dtypes_inexact(*args)[0].dtype, np.complex64)
    return [quire.numpy.asarray(x, to) for x in args]


def _is_weakly_typed(x: Any) -> bool:
    return type(x) in (bool, int, float, complex) or bool(getattr(x, "weak_type", False))


_DEFINED: dict[str, dict[str, Any]] = {
    "interpreters.mlir": {"_platforms_with_donation": ("cpu",)},
    "compilation_cache": {"_cache": None, "reset_cache": lambda: None},
    "deprecations": {
        "is_accelerated": lambda name: name != "jax-array-numpy-dtype",  # which warns, as in JAX
        "warn": lambda *args, **kwargs: None,
    },
    "dispatch": {
        "xla_primitive_callable": _Counted(),
        "runtime_tokens": types.SimpleNamespace(clear=lambda: None),  # effects have no tokens that a test could leave
    },
    "core": {
        "UnexpectedTracerError": UnexpectedTracerError,
        "reset_trace_state": lambda: True,
        "ShardingTypeError": ShardingTypeError,
    },
    "lax.control_flow.common": {"_dedup_consts": _Counted(), "_pad_constvars": _Counted()},
    "lib": {
        "version": tuple(map(int, JAX_VERSION.split("."))),
        "__version__": JAX_VERSION,
        "jaxlib_extension_version": 10**6,
        "ifrt_version": 10**6,
        "cuda_versions": None,
        "gpu_solver": None,
        "_jax": _Extension(),
        "utils": _Extension(safe_map=_safe_map, safe_zip=_safe_zip, foreach=_safe_map),
        "weakref_lru_cache": _WeakCache(),
    },
    "cloud_tpu_init": {"running_in_cloud_tpu_vm": False},
    "xla_bridge": {
        "get_backend": get_backend,
        "num_cpu_devices": types.SimpleNamespace(value=1),
        "devices": quire.devices,
        "local_devices": lambda *args, backend=None, **kwargs: quire.local_devices(),
        "device_count": lambda *args: len(quire.devices()),
        "backends": lambda: {"cpu": _backend},
        "backends_are_initialized": lambda: True,
    },
    "util": {
        "install_failure_signal_handler": lambda: None,
        "Mutex": object,
    },
    "numpy.util": {
        "promote_dtypes": _promote_dtypes,
        "promote_dtypes_inexact": _promote_dtypes_inexact,
        "promote_dtypes_complex": _promote_dtypes_complex,
    },
    "array": {"ArrayImpl": quire.Array},
    "sharding_impls": {"make_single_device_sharding": quire.sharding.SingleDeviceSharding},
    "lax.utils": {
        "int_dtype_for_shape": lambda shape, signed=True: np.dtype(np.int32 if signed else np.uint32),
        "int_dtype_for_dim": lambda dim, signed=True: np.dtype(np.int32 if signed else np.uint32),
    },
    "lax.lax": {"_convert_element_type": None},
    "dtypes": {
        "is_weakly_typed": _is_weakly_typed,
    },
}


def _convert_element_type(x: Any, dtype: Any = None, weak_type: bool = False, sharding: Any = None) -> Any:
    if not weak_type:
        return quire.lax.convert_element_type(x, quire.dtypes.result_type(x) if dtype is None else dtype)
    wanted = quire.dtypes.canonicalize_dtype(quire.dtypes.result_type(x) if dtype is None else dtype)
    return convert_element_type_p.bind(quire.numpy.asarray(x), new_dtype=wanted, weak_type=True)


def _canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    try:
        return quire.dtypes.canonicalize_dtype(dtype, allow_extended_dtype)
    except TypeError:  # a dtype that JAX has and quire has not
        return np.dtype(dtype)


def _itemsize_bits(dtype: Any) -> int:
    try:
        return quire.dtypes.itemsize_bits(dtype)
    except TypeError:
        return ml_dtypes.iinfo(dtype).bits if "int" in np.dtype(dtype).name else ml_dtypes.finfo(dtype).bits


def _generators() -> dict[str, Any]:
    module = importlib.import_module("quire.extend.random")
    return {g.name: g for g in (module.threefry_prng_impl, module.rbg_prng_impl, module.unsafe_rbg_prng_impl)}


def _primitive() -> Any:
    """JAX's constructor of primitives is not that of quire's own core."""
    try:
        return importlib.import_module("quire.extend.core").Primitive
    except (ImportError, AttributeError):
        return Missing("jax._src.core.Primitive")


_DEFINED["random.prng"] = {"prngs": _generators(), "PRNGImpl": Missing("jax._src.random.prng.PRNGImpl")}
_DEFINED["core"]["Primitive"] = _primitive()
_DEFINED["dtypes"]["canonicalize_dtype"] = _canonicalize_dtype
_DEFINED["dtypes"]["itemsize_bits"] = _itemsize_bits


def _remaining(original: Sequence[int], *removed: Sequence[int]) -> list[int]:
    return [d for d in original if not any(d in group for group in removed)]


_DEFINED["lax.lax"] = {"_convert_element_type": _convert_element_type, "remaining": _remaining}


class PrivateModule(types.ModuleType):
    """A private module of JAX, as far as quire, the shims and the checkout have it."""

    def __init__(self, name: str, checkout: Path) -> None:
        super().__init__(name)
        self._path = name.removeprefix(_PREFIX).lstrip(".")
        self._checkout = checkout
        self._read: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__version__",):
            raise AttributeError(name)
        found = self._find(name)
        setattr(self, name, found)
        return found

    def _find(self, name: str) -> Any:
        own = _DEFINED.get(self._path, {})
        if name in own:
            return own[name]
        if self._path == "":
            return importlib.import_module(f"{_PREFIX}.{name}")
        for source in (*(sources(self.__name__) or ()), *_PUBLIC.get(self._path, ())):
            try:
                value = getattr(importlib.import_module(source), name)
            except (ImportError, AttributeError):
                continue
            if not isinstance(value, types.ModuleType):
                return value
        if self._path in _READ_LAST:
            if self._read is None:
                self._read = _read(f"jax._src._read.{self._path}", self._checkout / "jax/_src" / f"{self._path}.py")
            if hasattr(self._read, name):
                return getattr(self._read, name)
        full = f"{self.__name__}.{name}"
        if _exists(self._checkout, full.split(".")[2:]):
            return importlib.import_module(full)
        return Missing(full)


def _exists(checkout: Path, parts: Sequence[str]) -> bool:
    """Whether JAX has a private module of this name."""
    if parts == ["config"] or ".".join(parts) in _DEFINED:
        return True
    path = checkout.joinpath("jax/_src", *parts)
    return path.is_dir() or path.with_suffix(".py").exists()


def _read(name: str, path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except AttributeError as error:  # which would be taken for an absent name
        raise RuntimeError(f"{path}: {error}") from error
    return module


class _Loader(importlib.abc.Loader):
    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return PrivateModule(spec.name, self._checkout)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ == f"{_PREFIX}.config":
            sys.modules[module.__name__] = settings


class Finder(importlib.abc.MetaPathFinder):
    """Answers imports of `jax._src.*`, before `quire.as_jax` does."""

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for a private module of JAX, or a public helper of its tests; None for all others."""
        if fullname in _READ_PUBLIC:
            return importlib.util.spec_from_file_location(fullname, self._checkout / _READ_PUBLIC[fullname])
        if fullname != _PREFIX and not fullname.startswith(f"{_PREFIX}."):
            return None
        parts = fullname.split(".")[2:]
        if parts and parts[0] in _READ:
            file = self._checkout.joinpath("jax/_src", *parts)
            if file.is_dir():
                return importlib.util.spec_from_file_location(
                    fullname, file / "__init__.py", submodule_search_locations=[str(file)]
                )
            return importlib.util.spec_from_file_location(fullname, file.with_suffix(".py"))
        if parts and not _exists(self._checkout, parts):
            return None
        spec = importlib.machinery.ModuleSpec(fullname, _Loader(self._checkout), is_package=True)
        spec.submodule_search_locations = []
        return spec


def install(checkout: Path) -> None:
    """Let the tests of a checkout import what they import of JAX."""
    import quire.as_jax  # noqa: F401

    sys.meta_path.insert(0, Finder(checkout))
    import jax  # type: ignore[import-not-found]

    jax.config = settings.config
    setattr(jax, "_src", importlib.import_module(_PREFIX))  # noqa: B010
    quire.monitoring.register_event_duration_secs_listener(_count_step)


# What the tests count by events of JAX's own, and the step of a compilation of which quire tells its listeners.
_COUNTED_STEPS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace_to_jaxpr",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower_jaxpr_to_module",
    "/jax/core/compile/backend_compile_duration": "pxla_cached_compilation",
}


def _count_step(event: str, seconds: float, **metadata: Any) -> None:
    counted, listener = (
        _COUNTED_STEPS.get(event),
        getattr(sys.modules.get("jax._src.util"), "test_event_listener", None),
    )
    if counted is not None and listener is not None:
        listener(counted)
