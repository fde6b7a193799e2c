"""From a function and its arguments to what `quire.backends.export` prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.backends.export import names
from quire.backends.export.host import Function, Leaf, Model, pool
from quire.backends.export.targets import ExportTarget
from quire.backends.iree.service import compile_service
from quire.ir import dtypes
from quire.ir.errors import ExportError, UnsupportedError

from ..arrays.array_type import Array
from ..arrays.shape_struct import ShapeDtypeStruct
from ..compiling.aot import Traced
from ..compiling.api import compile as compile_function
from ..compiling.compiled_function import CompiledFunction
from ..compiling.lowering import LoweredProgram, lower
from ..compiling.request import Request
from ..compiling.tracing import result_paths
from ..tree_util import flatten_arrays
from ..version import __version__

Example = tuple[list[bytes], list[bytes]]
"""The bytes of arguments, and of results for them."""


@dataclass(frozen=True)
class Exported:
    """A function that is ready to be written.

    Attributes:
        function: what is printed.
        compiled: the function as quire compiles it here, for the expected results.
        args, kwargs: what it was exported for, arrays or types.
    """

    function: Function
    compiled: CompiledFunction
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def example(self) -> Example:
        """The bytes of arguments and of quire's results for them; of types random numbers are taken."""
        random = np.random.default_rng(0)
        leaves, tree = flatten_arrays((self.args, dict(self.kwargs)))
        values = [_value(x, random) for x in leaves]
        args, kwargs = tree.unflatten(values)
        given = self.compiled.dynamic_leaves(args, kwargs)
        arguments = [_bytes(x, leaf) for x, leaf in zip(given, self.function.arguments, strict=True)]
        results, _ = flatten_arrays(self.compiled(*args, **kwargs))
        kept = [x for x in results if np.asarray(x).dtype != dtypes.float0]
        return arguments, [_bytes(x, leaf) for x, leaf in zip(kept, self.function.results, strict=True)]


def _value(x: Any, random: np.random.Generator) -> Any:
    """A value: the given one, or random numbers of a type (of integers zeros and ones)."""
    if not isinstance(x, ShapeDtypeStruct):
        return np.array(x) if isinstance(x, np.ndarray | Array) else x  # what the call donates is a copy
    dtype = x.dtype
    if dtypes.is_complex(dtype):
        return (random.normal(size=x.shape) + 1j * random.normal(size=x.shape)).astype(dtype)
    return (random.normal(size=x.shape) if dtypes.is_float(dtype) else random.integers(0, 2, x.shape)).astype(dtype)


def _bytes(x: Any, leaf: Leaf) -> bytes:
    return np.ascontiguousarray(np.asarray(x).astype(leaf.dtype, copy=False)).tobytes()


def prepare(
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, name: str, symbol: str, target: ExportTarget,
    threads: int,
) -> Exported:  # fmt: skip
    """Compile a function for a target.

    Raises:
        ExportError: it calls Python functions, takes references, lies on several devices, or needs what only quire's own
            runtime does.
        CompileError: the compiler failed.
    """
    compiled = f if isinstance(f, CompiledFunction) else compile_function(f)
    traced = compiled.trace(*args, **kwargs)
    lowered = lowered_for(traced, target, threads)
    output = compile_service().export(
        lowered.module.bytecode(), target.flags(), name=f"{symbol}_kernels"
    )  # fmt: skip
    results = [
        (place, path, a) for place, path, a in zip(lowered.results, result_paths(traced.out_tree), traced.jaxpr.out_avals)
        if place[0] != "float0"
    ]  # fmt: skip
    for a in (*traced.jaxpr.in_avals, *(a for _, _, a in results)):
        if a.dtype.name not in names.C_TYPES:
            raise ExportError(f"{name}: arrays of {a.dtype} have no type in C: convert them in the exported function")
    donated = frozenset(traced.donated)
    argument_names = names.unique([names.identifier(path) for path in traced.names], ("context",))
    result_names = names.unique([_result_name(path) for _, path, _ in results], ("context", *argument_names))
    function = Function(
        name, symbol,
        tuple(
            Leaf(n, path, a.dtype, a.shape, i in donated)
            for i, (n, path, a) in enumerate(zip(argument_names, traced.names, traced.jaxpr.in_avals, strict=True))
        ),
        tuple(Leaf(n, path, a.dtype, a.shape) for n, (_, path, a) in zip(result_names, results)),
        lowered.kept, tuple(place for place, _, _ in results), output.host, output.files.get("kernels.o", b""),
    )  # fmt: skip
    return Exported(function.with_pairs(), compiled, tuple(args), dict(kwargs))


def _result_name(path: str) -> str:
    """``result`` for a result that is one array, ``result_0`` for a part of a tuple, ``loss`` for one of a dictionary."""
    name = names.identifier(path) if path else "result"
    return f"result{name}" if name.startswith("_") else name


def lowered_for(traced: Traced, target: ExportTarget, threads: int) -> LoweredProgram:
    """The module of a traced function.

    Raises:
        ExportError: what it does cannot be done without Python; with the user's line.
    """
    what = traced.full_name
    if traced.lower_values is not None:
        raise ExportError(
            f"{what} takes or closes over references (new_ref): an exported function takes and gives values"
        )
    if traced.traced.closes_over_tracers:
        raise ExportError(f"{what} closes over a traced value: export a function outside of transformations")
    if traced.layout.mesh is not None:
        raise ExportError(f"{what} is divided over several processes: an exported program is for one")
    own = target.target(threads)
    try:
        request = Request(
            traced.jaxpr, own, traced.fun_name, tuple(traced.donated), False, traced.names, traced.out_tree,
            passes=traced.wishes.passes_for(own),
        )  # fmt: skip
        return lower(request)
    except UnsupportedError as error:
        raise ExportError(f"{what} cannot be exported: {error}") from error


def model_of(exported: Sequence[Exported], *, name: str, target: ExportTarget, threads: int) -> Model:
    """Several functions with their weights."""
    functions = tuple(e.function for e in exported)
    return Model(name, functions, pool(functions), threads, __version__, target.name)
