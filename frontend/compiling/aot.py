"""The steps of a compile as objects: traced, lowered, compiled; each can be printed. They are `jax.stages`.

A call of a compiled function without a variant takes the same steps.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from quire.backends.targets import Target, get_target
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.errors import UnexpectedTracerError, UnsupportedError
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.sharding import Sharding
from quire.ir.source import current_source, where
from quire.passes.cost import estimate
from quire.runtime.array import own_device
from quire.runtime.devices import Device, device_of
from quire.runtime.placements import sharding_of

from .. import tree_util
from ..arrays.layouts import Format
from ..arrays.layouts import Layout as MemoryLayout
from ..arrays.shape_struct import ArgInfo, shape_struct
from ..watching.spans import span
from ..watching.transformations import Transformation
from .compiler import compile_program
from .compiler_options import checked_options
from .donation import report_donation
from .loading import Program
from .lowering import LoweredProgram, lower
from .memory_analysis import Allocations, MemoryAnalysis, planned_allocations
from .ranked import Ranked, check_agreement, divide
from .request import Request
from .running import Variant
from .shardings import Layout, check_arguments
from .stage_texts import Stages
from .tracing import TracedFunction
from .variants import Signature, VariantInfo
from .wishes import NONE as NO_WISHES
from .wishes import Wishes

logger = logging.getLogger("quire")


@dataclass(frozen=True, eq=False)
class Traced:
    """A function traced for the types of its arguments.

    Attributes:
        traced: the trace.
        in_tree: the tree of the arguments that are not static.
        function: the user's.
        fun_name: its name, which the program bears.
        full_name: its name with those of what it is defined in, for messages.
        layout: where it is to run, and its results are to lie.
        donated: the leaves of donated arguments.
        keep_unused: the program takes the arguments that it does not use, too.
        names: the path of each leaf.
        lower_values: lowers a function with references, as one of values.
        wishes: the target and the passes that the function was given.
        asked: the sharding that is asked for of each result, or None.
    """

    traced: TracedFunction
    in_tree: Any
    function: Callable[..., Any]
    fun_name: str
    full_name: str
    layout: Layout
    donated: tuple[int, ...]
    keep_unused: bool
    names: tuple[str, ...]
    lower_values: Callable[[Traced, str | None], Lowered] | None = None
    wishes: Wishes = NO_WISHES
    asked: tuple[Sharding | None, ...] = ()

    @property
    def device(self) -> Device:
        """Where it is to run."""
        return self.layout.device

    @property
    def target(self) -> Target:
        """What it is compiled for, unless `lower` is told otherwise."""
        return self.wishes.target_for(self.device)

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program; captured arrays are its constants."""
        return self.traced.closed()

    @property
    def out_tree(self) -> Any:
        """The tree of the results."""
        return self.traced.out_tree

    @property
    def transformations(self) -> tuple[Transformation, ...]:
        """What grad, vmap, ... did while the function was traced, innermost first."""
        return self.traced.transformations

    @property
    def out_info(self) -> Any:
        """The types of the results, in their tree; with the shardings that are asked for, or that types tell."""
        avals = self.traced.jaxpr.out_avals
        structs = [
            shape_struct(a) if s is None else shape_struct(a).update(sharding=s)
            for a, s in zip(avals, self.asked or (None,) * len(avals), strict=True)
        ]
        return tree_util.tree_unflatten(self.out_tree, structs)

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, in their tree."""
        return tree_util.tree_unflatten(self.in_tree, self.traced.jaxpr.in_avals[len(self.traced.captured) :])

    @property
    def out_avals(self) -> Any:
        """The types of the results, in their tree."""
        return tree_util.tree_unflatten(self.out_tree, self.traced.jaxpr.out_avals)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The positions, among the arguments' leaves, of those that are donated."""
        return self.donated

    @property
    def args_info(self) -> Any:
        """The types of the arguments and whether they are donated, in their tree."""
        infos = [ArgInfo(a, i in self.donated) for i, a in enumerate(self.jaxpr.in_avals)]
        return tree_util.tree_unflatten(self.in_tree, infos)

    def lower(self, *, backend: str | None = None, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """Optimise and lower to StableHLO, for this process's device or another target by name.

        `lowering_platforms` is JAX's name for `backend`: a sequence of one.

        Raises:
            ValueError: there is no such target, or a dimension of an argument is negative.
            UnsupportedError: several platforms are asked for, of which each needs a module of its own.
            UnexpectedTracerError: the function reads a value from outside that is being traced by another function.
        """
        if lowering_platforms is not None:
            if len(lowering_platforms) != 1:
                raise UnsupportedError(
                    f"{self.full_name}.lower: lowering_platforms={tuple(lowering_platforms)}, expected one: lower for each apart"
                )
            backend = lowering_platforms[0]
        if self.traced.closes_over_tracers:
            raise UnexpectedTracerError(f"{self.full_name}.lower: the function closes over a traced value")
        self.check_dimensions()
        if self.lower_values is not None:
            return self.lower_values(self, backend)
        target = self.target if backend is None else get_target(backend)
        request = Request(
            self.jaxpr, target, self.fun_name, self.donated, self.keep_unused, self.names, self.out_tree,
            self.transformations, self.traced.seconds, self.wishes.passes_for(target),
        )  # fmt: skip
        ranked = None
        if self.layout.mesh is not None:
            places = self.layout.places or ()
            ranked = divide(request.program, self.layout.mesh, self.layout.arguments, places, self.donated)
            request = ranked.request(request)
        return Lowered(self, request, ranked)

    def check_dimensions(self) -> None:
        """Raise ValueError where a dimension of an argument is negative: a type may be asked for so, a program may not."""
        for name, aval in zip(self.names, self.jaxpr.in_avals):
            if any(n < 0 for n in aval.shape):
                raise ValueError(
                    f"{self.full_name}: argument {name} has type {aval.short()}{where(current_source())}: dimensions of a program are "
                    "known and not negative; give the length that the arrays will have"
                )

    def as_text(self, stage: str = "jaxpr") -> str:
        """The program's text at a stage (`dumpir --list-stages` names them)."""
        return self.lower().as_text(stage)


class Lowered:
    """A function lowered to StableHLO for a target: when its text is asked for, or the persistent cache lacks it."""

    def __init__(self, traced: Traced, request: Request, ranked: Ranked | None = None) -> None:
        self.traced = traced
        self.request = request
        self.ranked = ranked
        self._lock = threading.Lock()
        self._program: LoweredProgram | None = None
        self._stages: Stages | None = None

    @property
    def in_tree(self) -> Any:
        """The tree of the arguments, positional and by keyword."""
        return self.traced.in_tree

    @property
    def out_tree(self) -> Any:
        """The tree of the results."""
        return self.traced.out_tree

    @property
    def out_info(self) -> Any:
        """The types of the results, in their tree."""
        return self.traced.out_info

    @property
    def args_info(self) -> Any:
        """The types of the arguments, in their tree."""
        return self.traced.args_info

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, in their tree."""
        return self.traced.in_avals

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The positions, among the arguments' leaves, of those that are donated."""
        return self.traced.donated

    @property
    def stages(self) -> Stages:
        """The texts of the program; its module is the one that is compiled."""
        with self._lock:
            if self._stages is None:
                self._stages = Stages(self.request, lowered=self._program)
            return self._stages

    def program(self) -> LoweredProgram:
        """The module, lowered once."""
        with self._lock:
            if self._program is None:
                self._program = lower(self.request) if self._stages is None else self._stages.lowered
            return self._program

    def as_text(self, stage: str | None = None, *, dialect: str | None = None, debug_info: bool = False) -> str:
        """The program's text at a stage.

        Args:
            stage: as `dumpir --list-stages` names them; ``"stablehlo"`` if None.
            dialect: JAX's word for the stage: ``"stablehlo"``.
            debug_info: with the user's lines as MLIR's locations.

        Raises:
            ValueError: there is no such stage, or both a stage and a dialect are given.
        """
        name = _stage_of(stage, dialect)
        if debug_info and name == "stablehlo":
            return self.program().module.text(locations=True).rstrip("\n")
        return self.stages[name]

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The module as an object of MLIR's Python bindings (`iree.compiler.ir.Module`); its `str` is `as_text`.

        Raises:
            ValueError: a dialect other than ``"stablehlo"``.
        """
        from quire.backends.stablehlo.lowering import parsed_module  # imports the compiler

        return parsed_module(self.stages[_stage_of(None, dialect)])

    def cost_analysis(self) -> dict[str, float]:
        """The estimated work of one call: ``flops`` and ``bytes accessed``."""
        cost = estimate(self.request.program.jaxpr)
        return {"flops": cost.flops, "bytes accessed": cost.bytes}

    def compile(self, compiler_options: Any = None) -> Compiled:
        """Compile for the device, or for the first one of the target it was lowered for: a callable `Compiled`.

        Args:
            compiler_options: XLA's options, by name; none of them changes what IREE compiles.

        Raises:
            RuntimeError: there is no device of the target here, or no such option.
            TypeError: the options are no mapping, or a value is neither a bool, a number nor a text.
        """
        checked_options(compiler_options, "Lowered.compile")
        request = self.request
        self.report_donation()
        avals = request.program.in_avals if self.ranked is None else self.ranked.in_avals
        signature = Signature(
            request.names[: len(avals)], tuple(avals), self.traced.layout.arguments, (), self.in_tree, ()
        )
        return Compiled(self, self.compile_variant(VariantInfo(signature, "compiled ahead of time")))

    def report_donation(self) -> None:
        """Warn, in the user's thread and of their line, of donated arguments that no result can use."""
        request = self.request
        if request.donated and self.ranked is None:
            report_donation(
                request.program, request.donated, request.names, self.traced.full_name, keep_unused=request.keep_unused
            )

    def compile_variant(self, info: VariantInfo, program: Program | None = None) -> Variant:
        """Compile for the device, and tell `info` what it cost: what a call without a variant does, too.

        `program` is the compiled one, where it is there already.
        """
        t, request = self.traced, self.request
        device = t.device if request.target.runs_on == t.device.platform else device_of(request.target)
        known = program is not None
        if self.ranked is not None:
            from .result_checks import defined_at

            check_agreement(self.ranked, t.full_name, defined_at(t.function))
        if program is None:
            program = compile_program(request, device, self.program)
        info.trace_seconds = 0.0 if known else t.traced.seconds
        info.compile_seconds = 0.0 if known else program.seconds
        info.from_cache = program.cached
        info.cost = program.artifact.cost
        if config.options.log_compiles and not known:
            logger.warning(
                "%s %s in %.1f ms, traced in %.1f ms", "loaded" if program.cached else "compiled", t.full_name,
                program.seconds * 1e3, t.traced.seconds * 1e3,
            )  # fmt: skip
        if self.ranked is not None:
            return Variant(info, t.traced, program, t.layout, self.ranked)
        here = t.layout if device is t.device else Layout(device.base, own_device(device), None, t.layout.arguments)
        variant = Variant(info, t.traced, program, here)
        if config.options.check:
            from .result_checks import defined_at

            variant.check_first_call(f"{t.full_name}{defined_at(t.function)}")
        return variant


class Compiled:
    """A compiled program for one signature: call it with arguments of exactly those types."""

    def __init__(self, lowered: Lowered, variant: Variant) -> None:
        self.lowered = lowered
        self.variant = variant

    @property
    def in_tree(self) -> Any:
        """The tree of the arguments, positional and by keyword."""
        return self.lowered.in_tree

    @property
    def out_tree(self) -> Any:
        """The tree of the results."""
        return self.lowered.out_tree

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, which a call's must be, in their tree."""
        return tree_util.tree_unflatten(self.in_tree, self.leaf_types)

    @property
    def leaf_types(self) -> tuple[ShapedArray, ...]:
        """The types of the arguments' leaves."""
        return self.variant.info.signature.avals

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The positions, among the arguments' leaves, of those that are donated."""
        return self.lowered.donate_argnums

    @property
    def input_shardings(self) -> tuple[Any, ...]:
        """The shardings of the arguments, in their tree: positional ones, and those by keyword."""
        shardings = [sharding_of(p) for p in self.variant.info.signature.devices]
        return tree_util.tree_unflatten(self.in_tree, shardings)

    @property
    def output_shardings(self) -> Any:
        """The shardings of the results, in their tree."""
        return tree_util.tree_unflatten(self.out_tree, self._output_shardings())

    def _output_shardings(self) -> list[Sharding]:
        return self.variant.layout.result_shardings(self.out_tree.num_leaves)

    @property
    def input_formats(self) -> Any:
        """The layouts and shardings of the arguments, in their tree: positional ones, and those by keyword."""
        formats = [_format(a, sharding_of(p)) for a, p in zip(self.leaf_types, self.variant.info.signature.devices)]
        return tree_util.tree_unflatten(self.in_tree, formats)

    @property
    def output_formats(self) -> Any:
        """The layouts and shardings of the results, in their tree."""
        avals = self.lowered.traced.traced.jaxpr.out_avals
        return tree_util.tree_unflatten(self.out_tree, list(map(_format, avals, self._output_shardings())))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_util.flatten_arrays((args, kwargs))
        name, want = self.lowered.traced.fun_name, self.leaf_types
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
        check_arguments(self.variant.info.signature.names, leaves, want, self.variant.info.signature.devices)
        call, options = self.variant.call, config.options
        if (options.debug_nans or options.debug_infs) and self.lowered.ranked is None:
            from ..watching.value_checks import checked_call

            request = self.variant.program.request
            call = checked_call(call, request.program, request.donated, name, request.names, tree_util.tree_leaves)
        with span(name, "run"):
            return call(leaves)

    @property
    def args_info(self) -> Any:
        """The types of the arguments, in their tree."""
        return self.lowered.args_info

    @property
    def out_info(self) -> Any:
        """The types of the results and where they lie, in their tree."""
        avals = self.lowered.traced.traced.jaxpr.out_avals
        structs = [shape_struct(a).update(sharding=s) for a, s in zip(avals, self._output_shardings(), strict=True)]
        return tree_util.tree_unflatten(self.out_tree, structs)

    def as_text(self, stage: str | None = None, *, dialect: str | None = None) -> str:
        """The program's text at a stage, or in a dialect; see `Lowered.as_text`."""
        return self.lowered.as_text(stage, dialect=dialect)

    def runtime_executable(self) -> Any:
        """JAX gives XLA's executable here; there is none.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"{self.lowered.traced.fun_name}: programs are run by IREE, so there is no executable of XLA: "
            "as_text(stage), cost_analysis() and memory_analysis() say what is known of a compiled program"
        )

    def cost_analysis(self) -> dict[str, float]:
        """The estimated work of one call: ``flops`` and ``bytes accessed``."""
        cost = self.variant.program.artifact.cost
        return {"flops": cost.flops, "bytes accessed": cost.bytes}

    def memory_analysis(self) -> MemoryAnalysis:
        """The memory of one call, as it is planned; the program is compiled half-way once more to see it."""
        program = self.variant.program
        artifact, in_avals = program.artifact, program.request.program.in_avals
        results = list(zip(artifact.results, program.out_avals))
        made = {i: a.nbytes for (kind, i), a in results if kind == "result"}
        forwarded = sum(a.nbytes for (kind, _), a in results if kind == "argument")
        planned = planned_allocations(self.lowered.stages["plan"], len(artifact.kept)) if made else Allocations(0, 0)
        return MemoryAnalysis(
            sum(in_avals[i].nbytes for i in artifact.kept), sum(made.values()) + forwarded,
            forwarded + planned.reused_bytes, planned.temporaries, len(artifact.vmfb),
        )  # fmt: skip


def _format(aval: ShapedArray, sharding: Sharding) -> Format:
    return Format(MemoryLayout(tuple(range(aval.ndim))), sharding)


def _stage_of(stage: str | None, dialect: str | None) -> str:
    """The stage that a user asked for by its own name or by JAX's name of a dialect."""
    if stage is not None and dialect is not None:
        raise ValueError(f"as_text: give a stage or a dialect, not both; got {stage!r} and {dialect!r}")
    if dialect not in (None, "stablehlo"):
        raise ValueError(
            f"Unknown dialect: {dialect}. Programs are lowered to StableHLO and compiled by IREE: expected 'stablehlo', "
            "or a stage that dumpir --list-stages names"
        )
    return stage or "stablehlo"


__all__ = ["Compiled", "Lowered", "Traced"]
