"""Lowering rules of MLIR operations: what a rule makes is a module, which one equation puts into the program.

The module's text is a parameter of that equation, so that the persistent cache tells programs apart by what they compute.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import iree.compiler.ir as ir
import numpy as np

from quire.backends.stablehlo import hlo as built
from quire.backends.stablehlo import origins, types
from quire.backends.stablehlo.host_calls import aval_of_value, emit_host_call
from quire.backends.stablehlo.lowering import ModuleLowering, lower_jaxpr, mlir_context
from quire.backends.targets import get_target
from quire.ir.avals import ShapedArray
from quire.ir.errors import CompileError, UnsupportedError
from quire.ir.jaxpr import ClosedJaxpr, Eqn
from quire.ir.primitives.calls import stablehlo_call_p
from quire.ir.source import where
from quire.ir.tracing import no_trace, trace_flat
from quire.passes.foreign import expand

from .hlo import value_of
from .registries import values

Value = Any


@dataclass(frozen=True)
class ModuleContext:
    """What a rule is told of the module: the platforms that it is for."""

    platforms: tuple[str, ...]
    module: Any
    lowering: ModuleLowering
    keepalives: list[Any] = field(default_factory=list)

    @property
    def context(self) -> Any:
        """MLIR's context."""
        return self.module.context

    def replace(self, **fields: Any) -> ModuleContext:
        """This context with some fields replaced."""
        return dataclasses.replace(self, **fields)


@dataclass(frozen=True)
class LoweringRuleContext:
    """What a rule is given before the operands: types, the primitive, the module."""

    module_context: ModuleContext
    primitive: Any
    avals_in: Sequence[ShapedArray]
    avals_out: Sequence[ShapedArray]
    name_stack: str = ""
    tokens_in: Any = None
    tokens_out: Any = None

    def set_tokens_out(self, tokens_out: Any) -> None:
        """Accepted: quire orders effects without tokens."""

    def replace(self, **fields: Any) -> LoweringRuleContext:
        """This context with some fields replaced."""
        return dataclasses.replace(self, **fields)

    def is_forward_compat(self) -> bool:
        """Whether older compilers must understand the module: never."""
        return False

    # What `emit_host_call` asks of quire's own context of a rule.
    @property
    def module(self) -> ModuleLowering:
        """The lowering of the module."""
        return self.module_context.lowering

    @property
    def target(self) -> Any:
        """What is compiled for."""
        return self.module.target

    def unsupported(self, what: str, instead: str) -> UnsupportedError:
        """The error of something that the target cannot do."""
        return UnsupportedError(f"{self.primitive.name}: target {self.target.name} cannot do {what}: {instead}")


class EmittedRule:
    """A rule ``rule(ctx, *values, **params)`` of MLIR values, as a function of traced ones."""

    def __init__(self, rule: Callable[..., Any]) -> None:
        self.rule = rule

    def traced(self, eqn: Eqn, operands: Sequence[Value], target: str) -> Sequence[Value]:
        """The results of an equation: those of one equation that holds the module.

        Raises:
            TypeError: the rule gives another number of results, or results of other types, than the equation has.
            CompileError: MLIR does not accept what the rule made.
            NotImplementedError: it holds a kernel of quire's, which a function within the rule was lowered to.
        """
        in_avals, out_avals = [a.aval for a in eqn.inputs], [v.aval for v in eqn.outputs]
        name = eqn.primitive.name
        with mlir_context(), ir.Location.unknown():
            module = ir.Module.create()
            in_types, out_types = ([types.aval_type(a) for a in avals] for avals in (in_avals, out_avals))
            attributes = {
                "sym_name": ir.StringAttr.get("main"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(in_types, out_types)),
            }
            with ir.InsertionPoint(module.body):
                function = ir.Operation.create("func.func", regions=1, attributes=attributes)
            block = ir.Block.create_at_start(function.regions[0], in_types)
            state = ModuleLowering(module, get_target(target), entry=block)
            ctx = LoweringRuleContext(ModuleContext((target,), module, state), eqn.primitive, in_avals, out_avals)
            with ir.InsertionPoint(block), origins.apart_from_one_another():
                results = _flat(self.rule(ctx, *block.arguments, **eqn.params))
                found = [str(r.type) for r in results]
                if found != [str(t) for t in out_types]:
                    raise TypeError(
                        f"{name}{where(eqn.source)}: its lowering gives ({', '.join(found)}), its abstract evaluation says "
                        f"({', '.join(map(str, out_types))})"
                    )
                ir.Operation.create("func.return", operands=results)
            try:
                module.operation.verify()
            except ir.MLIRError as error:
                raise CompileError(
                    f"what the lowering of {name} made does not verify{where(eqn.source)}: {error}"
                ) from error
            for op in module.body.operations:
                if op.operation.name != "func.func":
                    raise NotImplementedError(
                        f"the lowering of {name} mixes MLIR operations with a function that quire makes kernels of: "
                        "register mlir.lower_fun of the whole"
                    )
            text = module.operation.get_asm()
        callbacks = tuple((c.symbol, c.function, c.in_avals, c.out_avals) for c in state.host_calls)
        return stablehlo_call_p.bind(
            *operands, name=name, module=text, callbacks=callbacks, result_avals=tuple(a.strong() for a in out_avals)
        )


def _flat(results: Any) -> list[Any]:
    """The values that a rule gave: one, or a sequence of values, operations and sequences of them."""
    if isinstance(results, list | tuple) or type(results).__name__ in ("OpResultList", "OpOperandList"):
        return [value for r in results for value in _flat(r)]
    return [value_of(results)]


def emit_function(
    ctx: LoweringRuleContext,
    fun: Callable[..., Any],
    multiple_results: bool,
    operands: Sequence[Any],
    params: dict[str, Any],
) -> list[list[Any]]:
    """Within a rule: a function of arrays, applied to MLIR values. Each result is a list of one value, as JAX gives them."""
    given = [value_of(x) for x in operands]
    avals = list(ctx.avals_in) if len(ctx.avals_in) == len(given) else [aval_of_value(x) for x in given]

    def flat(*xs: Any) -> list[Any]:
        out = fun(*values(xs), **params)
        return list(out) if multiple_results else [out]

    with no_trace():
        jaxpr, captured, _ = trace_flat(flat, avals, name=f"the lowering of {ctx.primitive.name}")
    n = len(captured)
    opened = jaxpr.replace(constvars=jaxpr.invars[:n], invars=jaxpr.invars[n:])
    closed = expand(ClosedJaxpr(opened, captured), ctx.target.runs_on)
    consts = [built.constant(np.asarray(c), v.aval.dtype) for c, v in zip(closed.consts, closed.jaxpr.constvars)]
    return [[x] for x in lower_jaxpr(ctx.module, closed.jaxpr, consts, given)]


def emit_python_callback(
    ctx: LoweringRuleContext, callback: Callable[..., Any], token: Any, operands: Sequence[Any],
    operand_avals: Sequence[ShapedArray], result_avals: Sequence[ShapedArray], *, has_side_effect: bool = True,
    returns_token: bool = True, partitioned: bool = False, sharding: Any = None, **_: Any,
) -> tuple[list[list[Any]], Any, Any]:  # fmt: skip
    """Within a rule: call a Python function of NumPy arrays.

    Returns the results, each as a list of one value, the token as it was given, and None for what is to be kept alive.
    """
    name, any_ctx = getattr(callback, "__name__", "callback"), cast("Any", ctx)
    found = emit_host_call(any_ctx, callback, [value_of(x) for x in operands], list(result_avals), name=name)
    return [[x] for x in found], token, None


__all__ = ["EmittedRule", "LoweringRuleContext", "ModuleContext", "emit_function", "emit_python_callback"]
