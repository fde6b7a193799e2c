"""What other packages' primitives are lowered to (`jax.interpreters.mlir`).

`register_lowering` takes a rule. One that `lower_fun` made of a function of arrays is traced, and what it records takes the
primitive's place before the program is optimized, so that it is fused, and runs, like any other code. A rule of MLIR
operations (`quire.interpreters.hlo`) is put into the program as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.ir.jaxpr import Eqn
from quire.ir.primitive import Primitive
from quire.passes.cache import clear_transforms
from quire.passes.foreign import define_lowering

from ..absent_names import module_getattr
from .registries import values

Value = Any
LoweringRule = Callable[..., Any]


class LoweredFunction:
    """A lowering rule that is a function of arrays: see `lower_fun`."""

    def __init__(self, fun: Callable[..., Any], multiple_results: bool) -> None:
        self.fun = fun
        self.multiple_results = multiple_results

    def __repr__(self) -> str:
        return f"lower_fun({getattr(self.fun, '__name__', self.fun)!r})"

    def traced(self, eqn: Eqn, operands: Sequence[Value]) -> Sequence[Value]:
        """The results of an equation, as the function computes them in the current trace."""
        out = self.fun(*values(operands), **eqn.params)
        return list(out) if self.multiple_results else [out]

    def __call__(self, ctx: Any, *operands: Any, **params: Any) -> Any:
        """The function within a rule of MLIR operations: its results as MLIR values."""
        from .emission import emit_function

        return emit_function(ctx, self.fun, self.multiple_results, operands, params)


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweringRule:
    """The lowering rule that a function of arrays is: it takes the operands and the parameters, and gives the results.

    Args:
        fun: made of `quire.numpy`, `quire.lax` and primitives. Arrays that it captures become constants of the program.
        multiple_results: it returns a sequence of results, as a primitive with `multiple_results` has them.
    """
    return LoweredFunction(fun, multiple_results)


def register_lowering(
    prim: Primitive, rule: LoweringRule, platform: str | None = None, inline: bool = True, cacheable: bool = True
) -> LoweringRule:
    """Say what a primitive is lowered to; returns the rule.

    Args:
        prim: of another package, or one of quire's own, which is then lowered by this rule.
        rule: made by `lower_fun`, or a function ``rule(ctx, *values, **params)`` of MLIR values (`quire.interpreters.hlo`).
        platform: ``"cpu"``, ``"cuda"`` (or ``"gpu"``), ``"vulkan"``, ...: only there. Without it, wherever no other is.
        inline, cacheable: accepted; functions are always put in place, and programs kept.

    Raises TypeError for what is no primitive, or no function.
    """
    if not isinstance(prim, Primitive):
        raise TypeError(f"register_lowering expects a primitive (quire.extend.core.Primitive), got {prim!r}")
    if not callable(rule):
        raise TypeError(f"register_lowering expects a rule, a function or what lower_fun gives, got {rule!r}")
    if isinstance(rule, LoweredFunction):
        define_lowering(prim, rule.traced, platform)
    else:
        from .emission import EmittedRule

        define_lowering(prim, EmittedRule(rule).traced, platform)
    clear_transforms()
    return rule


__all__ = ["LoweredFunction", "LoweringRule", "lower_fun", "register_lowering"]

__getattr__ = module_getattr("quire.interpreters.mlir", globals())
