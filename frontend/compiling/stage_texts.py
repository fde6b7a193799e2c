"""The stages of a program as text: jaxpr, after each pass, what is lowered, StableHLO, IREE's phases, the target's code.

`stages_of` gives the stages of one program, each made when it is asked for.
"""

from __future__ import annotations

import difflib
import functools
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

from quire.backends.iree.service import PHASES, CompileOutput
from quire.backends.targets import Target, get_target
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr
from quire.ir.printer import Names, PrintOptions, to_text
from quire.passes.arguments import without_unused_arguments

from ..watching.transformations import Transformation
from .building import artifact_of, compile_flags
from .loading import load
from .lowering import LoweredProgram, lower_optimized, pipeline_of
from .request import Request

JAXPR, OPTIMIZED, STABLEHLO = "jaxpr", "optimized", "stablehlo"
TRACE, PASSES, LOAD = "trace", "passes", "load"
"""Of `Stages.seconds`, beside the stages that have a text."""
# The stage of the target's code by IREE backend: its name, and the files of the compiler that hold it.
_CODE: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "llvm-cpu": ("assembly", re.compile(r"\.s$")),
    "cuda": ("ptx", re.compile(r"\.ptx$")),
    "rocm": ("assembly", re.compile(r"\.(rocmasm|s)$")),
    "vulkan-spirv": ("spirv", re.compile(r"\.(spirv\.mlir|spvasm)$")),
    "metal-spirv": ("msl", re.compile(r"\.(metal|msl)$")),
}


_OPTIONS = PrintOptions(max_const=1024)


def code_stage(target: Target) -> str | None:
    """The name of the stage that holds the target's code: ``assembly``, ``ptx``, ``spirv``; None if it has none."""
    found = _CODE.get(target.backend)
    return found[0] if found else None


class Stages(Mapping[str, str]):
    """The texts of a program's stages by name, in order, each made when it is first asked for.

    Attributes:
        name: the function's name.
        target: what the program is compiled for.
        pipeline: the text of the pipeline.
        program: the traced program.
        transformations: what grad, vmap, ... did while it was traced, innermost first.
        names: the path of each argument, as ``params['w']``, where they are known.
        out_tree: the tree of the results, where it is known.
        seconds: the time of what was done so far: trace, passes, stablehlo (lowering), iree, load.

    ``stages["optimized"]`` is what is lowered: the program after the last pass, without the arguments that it does not use
    (unless `keep_unused`). ``stages["code"]`` the target's code under any target.
    """

    def __init__(
        self,
        request: Request,
        pipeline: str | None = None,
        *,
        lowered: LoweredProgram | None = None,
        options: PrintOptions = _OPTIONS,
        verify_each: bool | None = None,
        compare: bool = False,
        compare_inputs: Sequence[Any] | None = None,
    ) -> None:
        from quire.passes.manager import PassManager

        self.request = request
        self.program = request.program
        self.target = request.target
        self.name = request.name
        self.donated = request.donated
        self.keep_unused = request.keep_unused
        self.transformations = request.transformations
        self.names = request.names
        self.out_tree = request.out_tree
        self.seconds: dict[str, float] = {} if request.trace_seconds is None else {TRACE: request.trace_seconds}
        self.options = options
        self.manager = PassManager(
            pipeline_of(request) if pipeline is None else pipeline,
            target=self.target,
            donated=self.donated,
            verify_each=verify_each,
            compare=compare,
            compare_inputs=compare_inputs,
        )
        self.pipeline = str(self.manager)
        # A variable keeps its name from pass to pass; off: each text has the names of its own order.
        self.share_names = True
        self._names = Names()
        self._texts: dict[str, str] = {}
        self._result: Any = None
        self._lowered = lowered
        self._output: CompileOutput | None = None
        self._lock = threading.RLock()
        code = code_stage(self.target)
        self._history = _history_stages(self.transformations)
        # A pass may be called as a later stage is (partition has "input"): then the stage is named iree-...
        self._phases = {(p if p not in self.manager.stages else f"iree-{p}"): p for p in PHASES}
        self._order = [
            *self._history, JAXPR, *self.manager.stages, OPTIMIZED, STABLEHLO, *self._phases, *([code] if code else []),
        ]  # fmt: skip

    def __iter__(self) -> Iterator[str]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, stage: object) -> bool:
        return stage in self._order or stage == "code"

    def resolve(self, stage: str) -> str:
        """The stage's own name for an alias.

        Raises:
            UnknownStageError: no stage has that name; the message says the nearest one.
        """
        code = code_stage(self.target)
        if stage == "code" and code:
            return code
        if stage not in self._order:
            near = difflib.get_close_matches(stage, self._order, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the stages are {', '.join(self._order)}"
            raise UnknownStageError(f"no stage is named {stage!r} for target {self.target.name}: {hint}")
        return stage

    def __getitem__(self, stage: str) -> str:
        stage = self.resolve(stage)
        with self._lock:
            text = self._texts.get(stage)
            if text is None:
                text = self._texts[stage] = self._make(stage)
            return text

    def prepare(self, stages: Sequence[str]) -> None:
        """Make several stages at once: one run of IREE instead of one for each of its phases."""
        if sum(self.resolve(s) in self._phases for s in stages) > 1:
            self.compile_all()

    # -- how each is made

    def _make(self, stage: str) -> str:
        if stage in self._history:
            return to_text(self._history[stage], self.options, Names())
        if stage == JAXPR:
            return self._print(self.request.traced)
        for i, pass_stage in enumerate(self.manager.stages):
            # In order, so that names do not depend on which stage is asked for first.
            if pass_stage == stage:
                if self.share_names:
                    self[(JAXPR, *self.manager.stages)[i]]
                return self._print(self.result.records[i].after)
        if stage == OPTIMIZED:
            if self.share_names:
                self[(JAXPR, *self.manager.stages)[-1]]
            return self._print(without_unused_arguments(self.result.program, self.keep_unused)[0])
        if stage == STABLEHLO:
            return self.lowered.module.text(locations=self.options.source).rstrip("\n")
        if stage in self._phases:
            if self._output is None:
                return self._compile(phase=self._phases[stage]).text or ""
            return self._output.stages.get(self._phases[stage], "")
        # A run of its own: one that writes files has its temporary folder in the text of its phases.
        return self._code(self._compile(files=True))

    def _print(self, program: ClosedJaxpr) -> str:
        return to_text(program, self.options, self._names if self.share_names else Names())

    @property
    def result(self) -> Any:
        """The `PipelineResult` of the passes."""
        with self._lock:
            if self._result is None:
                self._result = self.manager.run_recorded(self.program)
            return self._result

    @property
    def lowered(self) -> LoweredProgram:
        """The StableHLO module with what the caller must know."""
        with self._lock:
            if self._lowered is None:
                optimized = self.result.program
                self.seconds[PASSES] = sum(r.seconds for r in self.result.records)
                start = perf_counter()
                self._lowered = lower_optimized(self.request, optimized)
                self.seconds[STABLEHLO] = perf_counter() - start
            return self._lowered

    def _compile(self, **what: Any) -> CompileOutput:
        from quire.backends.iree.service import compile_service

        module = self.lowered.module
        flags = compile_flags(self.target)
        output = compile_service().compile(module.bytecode(), flags, name=self.name, **what)
        # Printing takes part of the time; a plain compile is a little faster.
        self.seconds["iree"] = output.seconds
        return output

    def compile_all(self) -> CompileOutput:
        """IREE's output with the texts after all its phases."""
        with self._lock:
            if self._output is None:
                self._output = self._compile(stages=True)
            return self._output

    @functools.cached_property
    def located(self) -> dict[str, str]:
        """StableHLO and IREE's phases up to the plan's commands, each operation with its location written out.

        Raises:
            CompileError: the target's compiler refuses the program.
        """
        from quire.backends.iree.service import compile_service

        module, flags = self.lowered.module, compile_flags(self.target)
        output = compile_service().compile(
            module.bytecode(), flags, name=self.name, phase="stream", stages=True, located=True
        )
        for stage, text in output.stages.items():
            if stage == "plan":
                self._texts.setdefault(stage, text)
        return {STABLEHLO: module.located_text(), **output.stages}

    def load(self) -> None:
        """Load the program into the runtime, on the target's first device here, to take the time.

        Raises:
            RuntimeError: there is no such device; the message tells what is missing.
        """
        from quire.runtime.devices import device_of

        device = device_of(self.target)
        device.hal()  # is made once a process, and not for this program
        output = self.compile_all()
        start = perf_counter()
        load(artifact_of(self.lowered, output), device, self.name, self.lowered)
        self.seconds[LOAD] = perf_counter() - start

    def _code(self, output: CompileOutput) -> str:
        _, pattern = _CODE[self.target.backend]
        found = {name: data for name, data in sorted(output.files.items()) if pattern.search(name)}
        # The compiler's temporary folder has a new name in each run.
        temporary = re.compile(rf"{re.escape(tempfile.gettempdir())}[/\\]quire-\w+")
        parts = [temporary.sub(".", data.decode("utf-8", "replace")).rstrip("\n") for data in found.values()]
        return "\n\n".join(parts) if parts else "(no executable: the program only moves memory)"

    def extension(self, stage: str) -> str:
        """The file name extension of a stage's text."""
        if stage in (JAXPR, OPTIMIZED) or stage in self.manager.stages or stage in self._history:
            return "jaxpr"
        return {"plan": "txt", "assembly": "s", "ptx": "ptx", "msl": "metal"}.get(stage, "mlir")


def _history_stages(transformations: Sequence[Transformation]) -> dict[str, ClosedJaxpr]:
    """The stages of a program's trace: the function that was transformed first, then each transformation's result.

    They are named as the transformation, ``grad of loss``, with a number where a name occurs again.
    """
    stages: dict[str, ClosedJaxpr] = {}

    def put(name: str, jaxpr: Jaxpr) -> None:
        n = 1
        while (name if n == 1 else f"{name} ({n})") in stages:
            n += 1
        stages[name if n == 1 else f"{name} ({n})"] = ClosedJaxpr(jaxpr)

    for t in transformations:
        put(f"before {t.name}", t.before)
        put(t.name, t.after)
    return stages


class UnknownStageError(KeyError, ValueError):
    """A stage was asked for that the program's target and pipeline do not have."""

    def __str__(self) -> str:
        return str(self.args[0])


def stages_of(
    program: ClosedJaxpr,
    target: Target | str,
    pipeline: str | None = None,
    name: str = "main",
    donated: Sequence[int] = (),
    *,
    keep_unused: bool = False,
    transformations: Sequence[Transformation] = (),
    options: PrintOptions = _OPTIONS,
    verify_each: bool | None = None,
    compare: bool = False,
    compare_inputs: Sequence[Any] | None = None,
    names: Sequence[str] = (),
    out_tree: Any = None,
    trace_seconds: float | None = None,
) -> Stages:
    """The stages of a program for a target; `pipeline` defaults to the target's own.

    Raises PassError for a wrong pipeline; a stage raises CompileError or UnsupportedError when it is asked for.
    """
    request = Request(
        program, get_target(target) if isinstance(target, str) else target, name, tuple(donated), keep_unused,
        tuple(names), out_tree, tuple(transformations), trace_seconds,
    )  # fmt: skip
    return Stages(
        request, pipeline, options=options, verify_each=verify_each, compare=compare, compare_inputs=compare_inputs
    )
