"""Ahead-of-time stages of a compiled function: traced, lowered, compiled; each can be printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.source import current_source, where
from quire.passes.cost import estimate
from quire.runtime.devices import Device

from .. import tree_util
from ..arrays.shape_struct import shape_struct
from ..watching.spans import span
from ..watching.transformations import Transformation
from .compiled_function import TracedFunction, Variant
from .compiler import compile_program
from .donation import report_donation
from .memory_analysis import Allocations, MemoryAnalysis, planned_allocations
from .variants import Signature, VariantInfo


@dataclass(frozen=True)
class Traced:
    """A function traced for the types of its arguments."""

    traced: TracedFunction
    in_tree: Any
    fun_name: str
    device: Device
    donated: tuple[int, ...]
    keep_unused: bool
    static: tuple[Any, ...]
    names: tuple[str, ...]

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program; captured arrays are its constants."""
        return self.traced.closed()

    @property
    def transformations(self) -> tuple[Transformation, ...]:
        """What grad, vmap, ... did while the function was traced, innermost first."""
        return self.traced.transformations

    @property
    def out_tree(self) -> Any:
        return self.traced.out_tree

    @property
    def out_info(self) -> Any:
        """The types of the results, in their tree."""
        return tree_util.tree_unflatten(self.out_tree, [shape_struct(a) for a in self.traced.jaxpr.out_avals])

    @property
    def args_info(self) -> Any:
        """The types of the arguments, in their tree."""
        return tree_util.tree_unflatten(self.in_tree, [shape_struct(a) for a in self.jaxpr.in_avals])

    def lower(self, *, backend: str | None = None) -> Lowered:
        """Optimise and lower to StableHLO, for this process's device or another target by name."""
        from quire.backends.targets import get_target

        target = self.device.target if backend is None else get_target(backend)
        return Lowered(self, target)

    def as_text(self, stage: str = "jaxpr") -> str:
        """The program's text at a stage (`dumpir --list-stages` names them)."""
        return self.lower().as_text(stage)


class Lowered:
    """A function lowered to StableHLO for a target."""

    def __init__(self, traced: Traced, target: Any) -> None:
        from .stage_texts import stages_of

        self.traced = traced
        self.target = target
        self.stages = stages_of(
            traced.jaxpr, target, name=traced.fun_name, donated=traced.donated, keep_unused=traced.keep_unused,
            transformations=traced.transformations,
        )  # fmt: skip

    @property
    def in_tree(self) -> Any:
        return self.traced.in_tree

    @property
    def transformations(self) -> tuple[Transformation, ...]:
        """What grad, vmap, ... did while the function was traced, innermost first."""
        return self.traced.transformations

    @property
    def out_tree(self) -> Any:
        return self.traced.out_tree

    @property
    def out_info(self) -> Any:
        return self.traced.out_info

    @property
    def args_info(self) -> Any:
        return self.traced.args_info

    def as_text(self, stage: str = "stablehlo") -> str:
        """The program's text at a stage."""
        return self.stages[stage]

    def cost_analysis(self) -> dict[str, float]:
        """The estimated work of one call: ``flops`` and ``bytes accessed``."""
        cost = estimate(self.traced.jaxpr.jaxpr)
        return {"flops": cost.flops, "bytes accessed": cost.bytes}

    def compile(self) -> Compiled:
        """Compile for the device: a callable `Compiled`."""
        t = self.traced
        closed = t.jaxpr
        if t.donated:
            report_donation(closed, t.donated, t.names, t.fun_name, keep_unused=t.keep_unused)
        program = compile_program(
            closed, t.device, name=t.fun_name, donated=t.donated, keep_unused=t.keep_unused,
            trace_seconds=t.traced.seconds, names=t.names, out_tree=t.out_tree, transformations=t.transformations,
        )  # fmt: skip
        avals = tuple(closed.in_avals)
        signature = Signature(t.names, avals, (None,) * len(avals), (), t.in_tree, ())
        info = VariantInfo(
            signature, "compiled ahead of time", t.traced.seconds, program.seconds, program.cached, program.cost
        )
        variant = Variant(info, t.traced, closed, program, t.donated)
        if config.options.check:
            variant.check_first_call(f"{t.fun_name}{where(current_source(2))}")
        return Compiled(self, variant)


class Compiled:
    """A compiled program for one signature: call it with arguments of exactly those types."""

    def __init__(self, lowered: Lowered, variant: Variant) -> None:
        self.lowered = lowered
        self.variant = variant

    @property
    def in_tree(self) -> Any:
        return self.lowered.in_tree

    @property
    def out_tree(self) -> Any:
        return self.lowered.out_tree

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        return self.variant.info.signature.avals

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_util.flatten_arrays((args, kwargs))
        name, want = self.lowered.traced.fun_name, self.in_avals
        if tree != self.in_tree:
            raise TypeError(
                f"{name} was compiled for arguments of structure {self.in_tree}, got {tree}{where(current_source(2))}; "
                "static arguments are not passed to a compiled program"
            )
        for n, x, aval in zip(self.variant.info.signature.names, leaves, want):
            got = aval_of(x)
            if got.shape != aval.shape or got.dtype != aval.dtype:
                raise TypeError(
                    f"{name} was compiled for {n}: {aval.short()}, got {got.short()}{where(current_source(2))}; "
                    "call the function itself to have it compiled for these types"
                )
        call, options = self.variant.call, config.options
        if options.debug_nans or options.debug_infs:
            from ..watching.value_checks import checked_call

            variant = self.variant
            names = variant.info.signature.names
            call = checked_call(call, variant.closed, variant.donated, name, names, tree_util.tree_leaves)
        with span(name, "run"):
            return call(leaves)

    def as_text(self, stage: str = "stablehlo") -> str:
        """The program's text at a stage."""
        return self.lowered.as_text(stage)

    def cost_analysis(self) -> dict[str, float]:
        """The estimated work of one call: ``flops`` and ``bytes accessed``."""
        cost = self.variant.program.cost
        return {"flops": cost.flops, "bytes accessed": cost.bytes}

    def memory_analysis(self) -> MemoryAnalysis:
        """The memory of one call, as it is planned; the program is compiled half-way once more to see it."""
        program, closed = self.variant.program, self.variant.closed
        made = {i: a.nbytes for (kind, i), a in zip(program.results, program.out_avals) if kind == "result"}
        forwarded = sum(a.nbytes for (kind, _), a in zip(program.results, program.out_avals) if kind == "argument")
        planned = planned_allocations(self.lowered.stages["plan"], len(program.kept)) if made else Allocations(0, 0)
        return MemoryAnalysis(
            sum(closed.in_avals[i].nbytes for i in program.kept), sum(made.values()) + forwarded,
            forwarded + planned.reused_bytes, planned.temporaries, program.vmfb_bytes,
        )  # fmt: skip


def make_shape_function(f: Callable[..., Any]) -> Callable[..., Any]:
    """`eval_shape` of one function, as a function of its arguments."""
    from .compiled_function import CompiledFunction

    return CompiledFunction(f).eval_shape
