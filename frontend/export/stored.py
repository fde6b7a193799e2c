"""JAX's `jax.export`: programs with their signature, stored as bytes and called in another process.

    exported = quire.export.export(quire.jit(f))(x)        # arrays or ShapeDtypeStructs
    data = exported.serialize()                            # bytes
    quire.export.deserialize(data).call(x)

What is stored is the program's own text (docs/ir-grammar.md), which quire compiles for the machine on which it is called;
`mlir_module` is the same program in StableHLO, for other systems.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from quire.backends.targets import COMMON_PASSES, TARGETS
from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.errors import ExportError, ParseError, UnsupportedError
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, nested_jaxprs
from quire.ir.parser import parse
from quire.ir.primitives.elementwise import convert_element_type
from quire.ir.printer import to_text
from quire.ir.source import current_source, where
from quire.ir.tracing import eval_jaxpr, trace_flat
from quire.ir.verifier import verify
from quire.passes.foreign import expand

from .. import tree_util
from ..arrays.placement import as_device
from ..compiling.api import compile as compile_function
from ..compiling.compiled_function import CompiledFunction
from ..compiling.lowering import load_lowering
from ..transforms.custom_derivatives import custom_vjp
from ..transforms.differentiation import vjp as take_vjp
from ..version import __version__
from .trees import from_json, to_json

_MAGIC = b"quire.export\0"
FORMAT = 1
"""The number of the form in which programs are stored; programs of a later form are not read."""
minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10
"""JAX's numbers for how its modules are called, which clients compare."""


@dataclasses.dataclass(frozen=True)
class DisabledSafetyCheck:
    """A check that is not to be made (`jax.export.DisabledSafetyCheck`): that of the platform, or of a custom call."""

    name: str

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """That a program is called on a platform that it was exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """That a custom call is known to be stable; quire's programs hold none."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The name of the custom call, or None."""
        return self.name.removeprefix("custom_call:") if self.name.startswith("custom_call:") else None


@dataclasses.dataclass(frozen=True, eq=False)
class Exported:
    """A program with its signature (`jax.export.Exported`).

    Attributes:
        fun_name: the function's name.
        in_tree, out_tree: the trees of ``(args, kwargs)`` and of the results.
        in_avals, out_avals: the types of their leaves.
        platforms: where it may be called.
        disabled_safety_checks: what is not checked.
        program: the program; it holds no functions of Python.
        module_kept_var_idx: the arguments that `mlir_module` takes: all of them.
    """

    fun_name: str
    in_tree: Any
    in_avals: tuple[ShapedArray, ...]
    out_tree: Any
    out_avals: tuple[ShapedArray, ...]
    platforms: tuple[str, ...]
    disabled_safety_checks: tuple[DisabledSafetyCheck, ...]
    program: ClosedJaxpr
    _get_vjp: Callable[[Exported], Exported] | None = None
    nr_devices: int = 1
    ordered_effects: tuple[Any, ...] = ()
    unordered_effects: tuple[Any, ...] = ()
    calling_convention_version: int = maximum_supported_calling_convention_version
    uses_global_constants: bool = False

    def __str__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, ...)"

    @property
    def module_kept_var_idx(self) -> tuple[int, ...]:
        """The arguments that `mlir_module` takes: all of them."""
        return tuple(range(len(self.in_avals)))

    @property
    def in_shardings_hlo(self) -> tuple[None, ...]:
        """Of each argument: an exported program is for one device."""
        return (None,) * len(self.in_avals)

    @property
    def out_shardings_hlo(self) -> tuple[None, ...]:
        """Of each result: an exported program is for one device."""
        return (None,) * len(self.out_avals)

    @functools.cached_property
    def mlir_module_serialized(self) -> bytes:
        """The program in StableHLO, as MLIR's bytecode."""
        return self._module.bytecode()

    def mlir_module(self) -> str:
        """The program in StableHLO, as text. It holds no kernels of quire's, so other compilers take it."""
        return self._module.text()

    @functools.cached_property
    def _module(self) -> Any:
        load_lowering()
        from quire.backends.stablehlo import lower_module
        from quire.passes.manager import PassManager

        plain = dataclasses.replace(
            TARGETS["cpu"], pipeline=COMMON_PASSES, kernels=False, host_functions=False, stored_results=None
        )
        optimized = PassManager(plain.pipeline, target=plain, donated=()).run(self.program)
        return lower_module(optimized, plain, name=self.fun_name)

    # -- the call

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the program, also in functions that are traced; `jit(exported.call)` is compiled as one.

        Its derivative is `vjp`, in reverse mode alone.

        Raises:
            ValueError: arguments of another structure, shape or dtype than it was exported for, or another platform; or the
                derivative is asked for, and the program was stored without it.
            TypeError: the derivative is asked for in forward mode.
        """
        leaves, tree = tree_util.flatten_arrays((args, kwargs))
        if tree != self.in_tree:
            raise ValueError(
                f"{self.fun_name} was exported for arguments of structure {self.in_tree}, got {tree}{where(current_source())}"
            )
        for i, (x, want) in enumerate(zip(leaves, self.in_avals)):
            got = aval_of(x)
            if got.shape != want.shape or got.dtype != want.dtype:
                raise ValueError(
                    f"{self.fun_name} was exported for {want.short()} as argument {i}, got {got.short()}"
                    f"{where(current_source())}; export it once for each type"
                )
        here = as_device(None).platform
        if here not in self.platforms and DisabledSafetyCheck.platform() not in self.disabled_safety_checks:
            raise ValueError(
                f"{self.fun_name} was exported for {', '.join(self.platforms)}, and is called on {here}; export it with "
                f"platforms=[{here!r}, ...], or with disabled_checks=[DisabledSafetyCheck.platform()]"
            )
        return tree_util.tree_unflatten(self.out_tree, self._differentiated(*leaves))

    @functools.cached_property
    def _differentiated(self) -> Callable[..., list[Any]]:
        """The program as a function of the leaves whose derivative is `vjp`.

        Rules of the user's are functions of Python, which the program is without: its equations would give another derivative.
        """
        n = len(self.in_avals)

        def call(*leaves: Any) -> list[Any]:
            return self._compiled(*leaves)

        def forward(*leaves: Any) -> tuple[list[Any], tuple[Any, ...]]:
            return call(*leaves), leaves

        def backward(leaves: tuple[Any, ...], cotangents: Sequence[Any]) -> tuple[Any, ...]:
            derivative = self._derivative
            given = [
                np.zeros(want.shape, dtypes.float0) if want.dtype == dtypes.float0 else ct
                for ct, want in zip(cotangents, derivative.in_avals[n:], strict=True)
            ]
            return tuple(derivative._differentiated(*leaves, *given))

        call.__name__ = call.__qualname__ = f"exported {self.fun_name}"
        function = custom_vjp(call)
        function.defvjp(forward, backward)
        return function

    @functools.cached_property
    def _derivative(self) -> Exported:
        return self.vjp()

    @functools.cached_property
    def _compiled(self) -> CompiledFunction:
        program = self.program

        def call(*leaves: Any) -> list[Any]:
            return eval_jaxpr(program.jaxpr, program.consts, leaves)

        call.__name__ = call.__qualname__ = self.fun_name
        return compile_function(call)

    def has_vjp(self) -> bool:
        """Whether `vjp` gives the derivative."""
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The derivative in reverse: a program of the flat arguments and the results' cotangents, which gives the arguments'.

        Raises:
            ValueError: the program was stored without it.
        """
        if self._get_vjp is None:
            raise ValueError(
                f"{self.fun_name} was stored without its derivative: use serialize(vjp_order=1), or one more than it was given"
            )
        return self._get_vjp(self)

    # -- bytes

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The program as bytes, with derivatives up to an order.

        What is stored has no weak types, as under JAX: `call` of what `deserialize` gives returns arrays of their dtypes.

        Raises:
            ValueError: a derivative is asked for that the program lacks.
            ExportError: its arguments or results are of classes that are not registered, or it holds what has no text.
        """
        return bytearray(_MAGIC + zlib.compress(json.dumps(self._told(vjp_order)).encode()))

    def _told(self, vjp_order: int) -> dict[str, Any]:
        text = to_text(_without_weak_types(self.program))
        try:
            parse(text)
        except ParseError as error:
            raise ExportError(f"{self.fun_name} cannot be stored: {error}") from error
        if vjp_order and not self.has_vjp():
            raise ValueError(f"{self.fun_name}: there is no derivative to store (vjp_order={vjp_order})")
        return {
            "format": FORMAT,
            "quire": __version__,
            "fun_name": self.fun_name,
            "in_tree": to_json(self.in_tree),
            "out_tree": to_json(self.out_tree),
            "platforms": self.platforms,
            "disabled": [c.name for c in self.disabled_safety_checks],
            "x64": any(
                a.dtype.itemsize == 8 and not dtypes.is_complex(a.dtype) for a in (*self.in_avals, *self.out_avals)
            ),
            "program": text,
            "vjp": self._derivative._told(vjp_order - 1) if vjp_order else None,
        }


def _read(told: Any) -> Exported:
    program = parse(told["program"])
    verify(program)
    stored = None if told["vjp"] is None else _read(told["vjp"])
    return Exported(
        told["fun_name"], from_json(told["in_tree"]), tuple(program.in_avals), from_json(told["out_tree"]),
        tuple(program.out_avals), tuple(told["platforms"]), tuple(map(DisabledSafetyCheck, told["disabled"])), program,
        None if stored is None else lambda _: stored,
    )  # fmt: skip


def deserialize(blob: bytes | bytearray) -> Exported:
    """The program of `Exported.serialize`.

    Raises:
        ExportError: the bytes are no program, or one that a later quire has stored.
    """
    data = bytes(blob)
    if not data.startswith(_MAGIC):
        raise ExportError(
            "quire.export.deserialize: these bytes are no program that quire has stored. Programs of JAX: "
            "quire.from_stablehlo(exported.mlir_module())"
        )
    try:
        told = json.loads(zlib.decompress(data[len(_MAGIC) :]))
    except (zlib.error, ValueError) as error:
        raise ExportError(f"quire.export.deserialize: the bytes are damaged: {error}") from error
    if told["format"] > FORMAT:
        raise ExportError(
            f"quire.export.deserialize: the program was stored by quire {told['quire']} in form {told['format']}, and this "
            f"quire ({__version__}) reads forms up to {FORMAT}: install a later one"
        )
    try:
        return _read(told)
    except ParseError as error:
        raise ExportError(
            f"quire.export.deserialize: quire {__version__} does not read the program, which quire {told['quire']} has "
            f"stored: {error}"
        ) from error


def export(
    fun_jit: Callable[..., Any], *, platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (), _override_lowering_rules: Any = None,
) -> Callable[..., Exported]:  # fmt: skip
    """Export a compiled function: ``export(jit(f))(*args)`` gives an `Exported` (`jax.export.export`).

    Args:
        fun_jit: what `jit` gives.
        platforms: where it may be called, by default the default backend: names of `quire.devices`, as ``["cpu", "cuda"]``.
        disabled_checks: checks that `Exported.call` is not to make.

    Raises:
        ValueError: the function is not compiled, or a platform is unknown; when it is called, a dimension is negative.
        ExportError: it calls Python functions, or takes references.
    """
    del _override_lowering_rules
    if not isinstance(fun_jit, CompiledFunction):
        raise ValueError(
            f"quire.export.export: expected what jit gives, got {fun_jit!r} of type {type(fun_jit).__name__}"
        )
    chosen = tuple(platforms) if platforms is not None else (as_device(None).platform,)
    unknown = [p for p in chosen if p not in TARGETS and p not in ("tpu", "gpu")]
    if unknown:
        raise ValueError(f"quire.export.export: unknown platforms {unknown}; there are {', '.join(TARGETS)}")
    named = tuple("cuda" if p == "gpu" else p for p in chosen)

    def exported(*args: Any, **kwargs: Any) -> Exported:
        traced = fun_jit.trace(*args, **kwargs)
        traced.check_dimensions()
        if traced.lower_values is not None:
            raise ExportError(f"{traced.full_name} takes or closes over references (new_ref), which cannot be stored")
        closed = expand(traced.jaxpr, named[0])
        if closed.jaxpr.effects:
            raise ExportError(
                f"{traced.full_name} has effects ({', '.join(sorted(map(str, closed.jaxpr.effects)))}), which an exported "
                "program cannot have: leave out callbacks and debug.print"
            )
        load_lowering()
        from quire.passes.manager import PassManager

        # Rules of derivatives are functions of Python: the program goes without, and its derivative is a program.
        program = PassManager("inline", target=TARGETS["cpu"], donated=()).run(closed)
        names = set(_callbacks(program))
        if names:
            raise ExportError(
                f"{traced.full_name} calls Python functions ({', '.join(sorted(names))}), which an exported program cannot "
                "hold: compute that before or after the call"
            )
        return Exported(
            traced.fun_name, traced.in_tree, tuple(program.in_avals), traced.out_tree, tuple(program.out_avals), named,
            tuple(disabled_checks), program, functools.partial(_vjp_of, traced.jaxpr, named, tuple(disabled_checks)),
        )  # fmt: skip

    return exported


def _callbacks(closed: ClosedJaxpr) -> list[str]:
    """Equations of Python functions, with the user's lines."""
    found: list[str] = []

    def visit(jaxpr: Any) -> None:
        for eqn in jaxpr.eqns:
            if eqn.primitive.name in ("pure_callback", "io_callback", "debug_callback", "ffi_call"):
                found.append(f"{eqn.primitive.name}{where(eqn.source)}")
            for inner in nested_jaxprs(eqn.params):
                visit(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)

    visit(closed.jaxpr)
    return found


def _without_weak_types(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with arguments and results whose types are not weak."""
    if not any(a.weak_type for a in (*program.in_avals, *program.out_avals)):
        return program

    def strong(*xs: Any) -> list[Any]:
        given = [convert_element_type(x, a.dtype, a.weak_type) for x, a in zip(xs, program.in_avals, strict=True)]
        return [convert_element_type(x, aval_of(x).dtype) for x in eval_jaxpr(program.jaxpr, program.consts, given)]

    jaxpr, captured, _ = trace_flat(
        strong, [a.update(weak_type=False) for a in program.in_avals], name="a stored program"
    )
    n = len(captured)
    return ClosedJaxpr(Jaxpr(jaxpr.invars[:n], jaxpr.invars[n:], jaxpr.outvars, jaxpr.eqns), captured)


def _vjp_of(closed: ClosedJaxpr, platforms: Any, checks: Any, primal: Exported) -> Exported:
    """The derivative of a program as an exported one.

    Args:
        closed: the program as it was traced, in which the rules of derivatives are still: static arguments are in it, too.
    """
    n = len(primal.in_avals)

    def derivative(*leaves: Any) -> Any:
        def flat(*given: Any) -> tuple[Any, ...]:
            return tuple(eval_jaxpr(closed.jaxpr, closed.consts, given))

        _, pullback = take_vjp(flat, *leaves[:n])
        return tuple(pullback(tuple(leaves[n:])))

    derivative.__name__ = derivative.__qualname__ = f"{primal.fun_name}_vjp"
    given = [*primal.in_avals, *(a.tangent() for a in primal.out_avals)]
    return export(compile_function(derivative), platforms=platforms, disabled_checks=checks)(*given)


def default_export_platform() -> str:
    """The platform for which `export` exports by default (`jax.export.default_export_platform`)."""
    return as_device(None).platform


def is_symbolic_dim(p: Any) -> bool:
    """Whether a dimension is symbolic: none is (`jax.export.is_symbolic_dim`)."""
    del p
    return False


def _no_symbols(what: str) -> NoReturn:
    raise UnsupportedError(
        f"quire.export.{what}{where(current_source(2))}: sizes are numbers in quire's programs, there are no symbolic "
        "dimensions. Export once for each size, and choose by the arguments' shapes; or pad a batch to a fixed size"
    )


def symbolic_shape(shape_spec: str | None, *, constraints: Any = (), scope: Any = None, like: Any = None) -> NoReturn:
    """JAX makes symbolic dimensions here.

    Raises:
        UnsupportedError: always; the message says what to do instead.
    """
    del shape_spec, constraints, scope, like
    _no_symbols("symbolic_shape")


def symbolic_args_specs(args: Any, shapes_specs: Any, constraints: Any = (), scope: Any = None) -> NoReturn:
    """JAX makes types with symbolic dimensions here.

    Raises:
        UnsupportedError: always; the message says what to do instead.
    """
    del args, shapes_specs, constraints, scope
    _no_symbols("symbolic_args_specs")


class SymbolicScope:
    """JAX keeps the constraints of symbolic dimensions here. Raises UnsupportedError when one is made."""

    def __init__(self, constraints_str: Any = ()) -> None:
        del constraints_str
        _no_symbols("SymbolicScope")
