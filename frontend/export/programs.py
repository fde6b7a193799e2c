"""From a function and its arguments to what `quire.backends.export` prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from ml_dtypes import finfo

from quire.backends.export import names
from quire.backends.export.c_check import TOLERANCES
from quire.backends.export.host import Function, Host, Leaf, Model, pool
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


class Example(NamedTuple):
    """Arguments and quire's results for them, for a program to check itself with.

    Attributes:
        arguments, results: the bytes of each.
        rounding: of each result, how far the rounding of arguments may move it; none where that is not known.
    """

    arguments: list[bytes]
    results: list[bytes]
    rounding: Sequence[float] = ()


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
        """Arguments and quire's results for them; of types random numbers are taken."""
        random = np.random.default_rng(0)
        leaves, tree = flatten_arrays((self.args, dict(self.kwargs)))
        values = [_value(x, random) for x in leaves]
        args, kwargs = tree.unflatten([_value(x, random) for x in values])
        given = self.compiled.dynamic_leaves(args, kwargs)
        arguments = [_bytes(x, leaf) for x, leaf in zip(given, self.function.arguments, strict=True)]
        results = self._results(args, kwargs)
        written = [_bytes(x, leaf) for x, leaf in zip(results, self.function.results, strict=True)]
        return Example(arguments, written, self._rounding(values, tree, results, random))

    def _results(self, args: Any, kwargs: Any) -> list[np.ndarray[Any, Any]]:
        results, _ = flatten_arrays(self.compiled(*args, **kwargs))
        return [np.array(x) for x in results if np.asarray(x).dtype != dtypes.float0]

    def _rounding(
        self, values: Sequence[Any], tree: Any, results: Sequence[np.ndarray[Any, Any]], random: np.random.Generator
    ) -> list[float]:
        """How far each result moves with the last bits of the arguments.

        A result that is a difference of large numbers, such as an equation's residual, is noise of that size in every program:
        its own size says nothing of it. More than a check's tolerance of the largest argument is not let pass.
        """
        args, kwargs = tree.unflatten(values)
        given = {id(x) for x in self.compiled.dynamic_leaves(args, kwargs)}  # static arguments select the program
        inexact = [np.abs(np.asarray(x, "complex128")) for x in values if id(x) in given and _is_inexact(x)]
        if not inexact or not any(dtypes.is_inexact(r.dtype) for r in results):
            return [0.0] * len(results)
        largest = max((float(x[np.isfinite(x)].max(initial=0)) for x in inexact), default=0.0)
        moved = [0.0] * len(results)
        for _ in range(_TURNS):
            args, kwargs = tree.unflatten([_nudged(x, random) if id(x) in given else x for x in values])
            for i, (x, y) in enumerate(zip(results, self._results(args, kwargs), strict=True)):
                if dtypes.is_inexact(x.dtype):
                    off = np.abs(x.astype("complex128") - y.astype("complex128"))
                    moved[i] = max(moved[i], float(off[np.isfinite(off)].max(initial=0)))
        bounds = [TOLERANCES.get(r.dtype.name, 0.0) * largest for r in results]
        return [min(_MARGIN * m, bound) for m, bound in zip(moved, bounds, strict=True)]


_TURNS, _MARGIN = 2, 8
"""How often the arguments' last bits are changed, and how many times what that changes is let pass."""


def _is_inexact(x: Any) -> bool:
    return isinstance(x, float | complex | np.generic | np.ndarray) and dtypes.is_inexact(np.asarray(x).dtype)


def _nudged(x: Any, random: np.random.Generator) -> Any:
    """Inexact numbers of which each is one of its neighbours; others as they are, in a copy."""
    if not _is_inexact(x):
        return _value(x, random)
    value = np.asarray(x)
    step = float(finfo(value.dtype).eps) * random.choice([-1.0, 1.0], value.shape)
    wide = value.astype("complex128" if dtypes.is_complex(value.dtype) else "float64")
    with np.errstate(all="ignore"):
        near = (wide * (1 + step)).astype(value.dtype)
    return near if isinstance(x, np.generic | np.ndarray) else near.item()


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
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, name: str, model: str, target: ExportTarget,
    threads: int,
) -> Exported:  # fmt: skip
    """Compile a function, which a model has under a name, for a target.

    Raises:
        ExportError: it calls Python functions, takes references, lies on several devices, or needs what only quire's own
            runtime does.
        CompileError: the compiler failed.
    """
    symbol = f"{model}_{name}"
    compiled = f if isinstance(f, CompiledFunction) else compile_function(f)
    traced = compiled.trace(*args, **kwargs)
    lowered = lowered_for(traced, target, threads)
    output = compile_service().export(
        lowered.module.bytecode(), target.flags(), name=f"{symbol}_kernels"
    )  # fmt: skip
    results = [
        (_place(place, output.host, lowered.kept), path, a)
        for place, path, a in zip(lowered.results, result_paths(traced.out_tree), traced.jaxpr.out_avals)
        if place[0] != "float0"
    ]  # fmt: skip
    for a in (*traced.jaxpr.in_avals, *(a for _, _, a in results)):
        if a.dtype.name not in names.C_TYPES:
            raise ExportError(f"{name}: arrays of {a.dtype} have no type in C: convert them in the exported function")
    donated = frozenset(traced.donated)
    language = names.LANGUAGES[target.language]
    argument_names = language.leaves(traced.names, model, ("context",))
    result_names = language.leaves([_result_name(path) for _, path, _ in results], model, ("context", *argument_names))
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


def _place(place: tuple[str, int], host: Host, kept: Sequence[int]) -> tuple[str, int]:
    """Where a result of the user's is: with the program's, or an argument, also where only the compiler has found that."""
    if place[0] == "result":
        kind, number = host["results"][place[1]]
        if kind == "given":
            return "argument", kept[number]
    return place


def _result_name(path: str) -> str:
    """``result`` for a result that is one array, ``result_0`` for a part of a tuple, ``loss`` for one of a dictionary."""
    name = names.identifier(path) if path else "result"
    return f"result{name}" if name.startswith("_") else path or name


def lowered_for(traced: Traced, target: ExportTarget, threads: int) -> LoweredProgram:
    """The module of a traced function.

    Raises:
        ExportError: what it does cannot be done without Python; with the user's line.
        ValueError: a dimension of an argument is negative.
    """
    what = traced.full_name
    traced.check_dimensions()
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
