"""`from_stablehlo`: a module of StableHLO, of JAX, PyTorch, TensorFlow or by hand, as a function of quire's."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.errors import UnsupportedError
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, all_eqns
from quire.ir.tracing import close_captured, current_trace, eval_jaxpr, no_trace, trace_flat

from ..arrays.key_array import PRNGKeyArray
from ..arrays.operands import as_array
from ..watching.option_contexts import enable_x64
from . import stablehlo_arrays, stablehlo_programs  # noqa: F401  (fill the table)
from .mlir_reading import aval_from, parse_module, plain, string
from .stablehlo_walk import Walk

Value = Any
_WIDE = (dtypes.int64, dtypes.uint64, dtypes.float64, dtypes.complex128)


class ImportedModule:
    """A function of a module of StableHLO. Call it with arrays in the order of its arguments; it gives a list of results.

    Attributes:
        name: the function's name in the module.
        in_avals, out_avals: the types of its arguments and results.
        in_names, out_names: their names, where the module has them; else empty strings.
        jaxpr: the closed jaxpr that it is here.
    """

    def __init__(
        self, name: str, jaxpr: Jaxpr, captured: Sequence[Any], in_names: Sequence[str], out_names: Sequence[str]
    ) -> None:
        self.name = self.__name__ = name
        self._jaxpr = jaxpr
        self._captured = list(captured)
        self._wide = any(v.aval.dtype in _WIDE for e in all_eqns(jaxpr) for v in e.outputs)
        self.in_names = tuple(in_names)
        self.out_names = tuple(out_names)

    @property
    def in_avals(self) -> list[ShapedArray]:
        """The types of the arguments."""
        return self._jaxpr.in_avals[len(self._captured) :]

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the results."""
        return self._jaxpr.out_avals

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program, with its large constants."""
        return close_captured(self._jaxpr, self._captured)

    def __repr__(self) -> str:
        given, out = (", ".join(a.short() for a in avals) for avals in (self.in_avals, self.out_avals))
        return f"<{self.name} of a StableHLO module: ({given}) -> ({out})>"

    def __call__(self, *args: Any) -> list[Any]:
        """The results for arrays of the types of `in_avals`.

        Raises:
            TypeError: there are not as many arguments, or one has another type.
        """
        avals = self.in_avals
        if len(args) != len(avals):
            raise TypeError(f"{self.name} of a StableHLO module takes {len(avals)} arrays, got {len(args)}")
        values = [self._argument(i, x, a) for i, (x, a) in enumerate(zip(args, avals))]
        wide = self._wide and not config.options.enable_x64 and current_trace() is None
        with enable_x64(True) if wide else contextlib.nullcontext():
            return [as_array(x) for x in eval_jaxpr(self._jaxpr, (), [*self._captured, *values])]

    def _argument(self, i: int, x: Any, want: ShapedArray) -> Any:
        x = x.base if isinstance(x, PRNGKeyArray) else x
        got = aval_of(x)
        if got.shape != want.shape or (got.dtype != want.dtype and not got.weak_type):
            name = f" ({self.in_names[i]})" if self.in_names[i] else ""
            raise TypeError(
                f"{self.name} of a StableHLO module: argument {i}{name} must be {want.short()}, got {got.short()}"
            )
        return x if got.dtype == want.dtype else np.asarray(x, want.dtype)[()]


def _signature(function: Any) -> tuple[list[ShapedArray], list[ShapedArray]]:
    """The types of a function's arguments and results."""
    block = function.regions[0].blocks[0]
    ins = [aval_from(str(a.type), function) for a in block.arguments]
    # VHLO has a type of its own for functions: the results are those of the return.
    last = list(block.operations)[-1].operation
    return ins, [aval_from(str(x.type), function) for x in last.operands]


def _names(function: Any, count: int) -> tuple[list[str], list[str]]:
    """What arguments and results are called: by their locations, and by what JAX says of results."""
    arguments = function.regions[0].blocks[0].arguments
    found = [re.match(r'loc\("([^"]*)"[()]', str(a.location)) for a in arguments]
    attributes = plain(str(function.attributes["res_attrs"])) if "res_attrs" in function.attributes else ""
    results = re.findall(r'jax\.result_info"?>?\s*[=,]\s*(?:string<)?"([^"]*)"', attributes)
    return [m[1] if m else "" for m in found], results if len(results) == count else [""] * count


def from_stablehlo(program: str | bytes, *, function: str | None = None) -> ImportedModule:
    """A module of StableHLO as a function of quire, operation by operation: quire's passes and kernels apply to it.

    Args:
        program: the text of the module (``exported.mlir_module()`` or ``lowered.as_text()`` of JAX, what torch-xla or
            TensorFlow print), or its bytecode (``exported.mlir_module_serialized``, a portable artifact of VHLO).
        function: the function to call: by default ``main``, or the only one.

    Returns an `ImportedModule`: call it with arrays in the order of its arguments. It works under `jit`, `vmap`, `grad`
    (loops that count a known number of turns become scans, which have derivatives in reverse) and `dumpir`.

    Raises ParseError for what is no module, TypeError for what is neither text nor bytes, ValueError for an unknown
    function, and UnsupportedError, which names all operations that have no counterpart with the lines that the module
    knows: also for dynamic shapes, quantised types, and arguments or results of 64 bits while these are off.

    Example: ``f = quire.from_stablehlo(jax.export.export(jax.jit(g))(x).mlir_module())``
    """
    if not isinstance(program, str | bytes):
        raise TypeError(f"from_stablehlo: expected the text or bytes of a module, got {type(program).__name__}")
    module = parse_module(program)
    walk = Walk(module, narrow=not config.options.enable_x64)
    main = walk.main(function)
    walk.check()
    avals, out_avals = _signature(main)
    wide = [a for a in (*avals, *out_avals) if dtypes.canonicalize(a.dtype) != a.dtype]
    if wide:
        raise UnsupportedError(
            f"from_stablehlo: the function takes or returns {wide[0].short()}, and 64-bit dtypes are off: "
            "quire.config.update('enable_x64', True)"
        )

    def flat(*args: Value) -> list[Value]:
        return walk.region(main.regions[0], args, {})

    name = string(main, "sym_name")
    # What is 64 bits wide within the module stays so.
    within = contextlib.nullcontext() if config.options.enable_x64 else enable_x64(True)
    with no_trace(), within:
        jaxpr, captured, _ = trace_flat(flat, avals, name=f"from_stablehlo of {name}")
    in_names, out_names = _names(main, len(jaxpr.outvars))
    return ImportedModule(name, jaxpr, captured, in_names, out_names)
