"""What other packages' primitives are lowered to (`jax.interpreters.mlir`).

`register_lowering` takes a rule. One that `lower_fun` made of a function of arrays is traced, and what it records takes the
primitive's place before the program is optimized, so that it is fused, and runs, like any other code. A rule of MLIR
operations (`quire.interpreters.hlo`) is put into the program as it is.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir.dtypes import canonicalize
from quire.ir.jaxpr import Eqn
from quire.ir.primitive import Primitive
from quire.passes.cache import clear_transforms
from quire.passes.foreign import define_lowering

from ..absent_names import module_getattr
from ..extend.core import EffectTypeSet
from .registries import values

_absent = module_getattr("quire.interpreters.mlir", globals())

Value = Any
LoweringRule = Callable[..., Any]


class LoweredFunction:
    """A lowering rule that is a function of arrays: see `lower_fun`."""

    def __init__(self, fun: Callable[..., Any], multiple_results: bool) -> None:
        self.fun = fun
        self.multiple_results = multiple_results

    def __repr__(self) -> str:
        return f"lower_fun({getattr(self.fun, '__name__', self.fun)!r})"

    def traced(self, eqn: Eqn, operands: Sequence[Value], target: str) -> Sequence[Value]:
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


# -- for rules of MLIR operations -------------------------------------------------------------------------------------


def dtype_to_ir_type(dtype: Any) -> Any:
    """The element type of a dtype."""
    from quire.backends.stablehlo import types

    return types.element_type(np.dtype(dtype))


def aval_to_ir_type(aval: Any) -> Any:
    """The type of an array's values."""
    from quire.backends.stablehlo import types

    return types.aval_type(aval)


def aval_to_ir_types(aval: Any) -> tuple[Any, ...]:
    """The types of an array's values: one."""
    return (aval_to_ir_type(aval),)


def ir_constant(value: Any) -> Value:
    """An array or a number as a constant of the module."""
    from quire.backends.stablehlo import hlo

    array = np.asarray(value)
    return hlo.constant(array, canonicalize(array.dtype))


def ir_constants(value: Any) -> tuple[Value, ...]:
    """An array as constants of the module: one."""
    return (ir_constant(value),)


def dense_int_array(xs: Sequence[int]) -> Any:
    """An attribute of numbers: ``broadcast_dimensions=mlir.dense_int_array([0])``."""
    return _ir().DenseI64ArrayAttr.get([int(x) for x in xs])


def dense_int_elements(xs: Sequence[int]) -> Any:
    """An attribute of numbers, as a tensor of them."""
    return _ir().DenseIntElementsAttr.get(np.asarray(xs, np.int64))


def i32_attr(i: int) -> Any:
    """An attribute of a 32-bit integer."""
    return _ir().IntegerAttr.get(_ir().IntegerType.get_signless(32), i)


def i64_attr(i: int) -> Any:
    """An attribute of a 64-bit integer."""
    return _ir().IntegerAttr.get(_ir().IntegerType.get_signless(64), i)


def shape_tensor(sizes: Sequence[int], *_: Any) -> Value:
    """A shape as a constant of the module."""
    return ir_constant(np.asarray(sizes, np.int32))


def flatten_ir_values(xs: Sequence[Any]) -> list[Any]:
    """Values, some of which are in sequences, one after the other."""
    return [y for x in xs for y in (x if isinstance(x, list | tuple) else (x,))]


def emit_python_callback(ctx: Any, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Within a rule: call a Python function of NumPy arrays; see `quire.interpreters.emission`."""
    from .emission import emit_python_callback as emit

    return emit(ctx, callback, *args, **kwargs)


def _ir() -> Any:
    import iree.compiler.ir as ir

    return ir


#: Effects that may be in compiled functions: packages add their types, and quire takes all.
lowerable_effects = EffectTypeSet()

__all__ = [
    "LoweredFunction", "LoweringRule", "aval_to_ir_type", "aval_to_ir_types", "dense_int_array", "dense_int_elements",
    "dtype_to_ir_type", "emit_python_callback", "flatten_ir_values", "i32_attr", "i64_attr", "ir_constant", "ir_constants",
    "lower_fun", "lowerable_effects", "register_lowering", "shape_tensor",
]  # fmt: skip

_LATE = {
    "ir": ("iree.compiler.ir", ""), "hlo": ("quire.interpreters.hlo", ""),
    **dict.fromkeys(("LoweringRuleContext", "ModuleContext"), ("quire.interpreters.emission", "x")),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        return _absent(name)
    module, within = _LATE[name]
    found = importlib.import_module(module)
    return getattr(found, name) if within else found
