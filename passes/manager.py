"""The pass manager: runs a pipeline, and can time, count, verify, show and compare around each pass."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from quire.ir.collection import collection_put_off
from quire.ir.config import config
from quire.ir.errors import PassError, QuireError
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.source import where
from quire.ir.verifier import checked, verify

from . import (
    canonicalize,
    cse,
    dce,
    discharge,
    fusion,
    hoist,
    inline,
    join_sums,
    simplify,
    store_compared,
    transformations,
)
from .base import Pass, PassContext, Rewrite, parse_pipeline, pass_to_str, pipeline_to_str
from .compare import Difference, evaluate, first_difference, random_inputs, rounding_of, source_of_result
from .rewriting import count_eqns

# The modules whose import registers quire's own passes.
BUILT_IN = (
    canonicalize, cse, dce, discharge, fusion, hoist, inline, join_sums, simplify, store_compared, transformations,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class PassRecord:
    """What one pass of a run did.

    Attributes:
        text: the pass with its options, as in the pipeline's text.
        stage: a name for the program after it, unique in the run: ``simplify``, ``simplify-2``.
        seconds: the time of the pass alone.
        before, after: the programs.
        counters: how often each of its rules fired.
        rewrites: which equations they replaced, in order; of `simplify`, `cse`, `inline` and `fuse`.
    """

    text: str
    stage: str
    seconds: float
    before: ClosedJaxpr
    after: ClosedJaxpr
    counters: Mapping[str, int]
    rewrites: Sequence[Rewrite] = ()

    @functools.cached_property
    def eqns_before(self) -> int:
        """The equations of the program before, nested ones included."""
        return count_eqns(self.before)

    @functools.cached_property
    def eqns_after(self) -> int:
        """The same of the program after."""
        return count_eqns(self.after)


@dataclasses.dataclass(frozen=True)
class PipelineResult:
    """A program after a pipeline, with the record of each pass.

    `reference` is the program that has its numbers: the one that was given, or what the last transformation made.
    """

    program: ClosedJaxpr
    records: tuple[PassRecord, ...]
    reference: ClosedJaxpr

    def table(self) -> str:
        """Time and equations of each pass, as text."""
        rows = [("pass", "ms", "equations", "")]
        for r in self.records:
            fired = ", ".join(f"{name}: {n}" for name, n in Counter(r.counters).most_common(6) if n)
            rows.append((r.text, f"{r.seconds * 1e3:.2f}", f"{r.eqns_before} -> {r.eqns_after}", fired))
        total = sum(r.seconds for r in self.records)
        rows.append(("total", f"{total * 1e3:.2f}", "", ""))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:<{widths[2]}}  {d}".rstrip() for a, b, c, d in rows)


class PassManager:
    """A pipeline that is ready to run; it holds no state of a run and may be used from many threads.

    Args:
        pipeline: its text, or the passes.
        target: the target compiled for, seen by passes.
        donated: the numbers of the arguments whose memory the program may use, seen by passes.
        verify_each: check the program before the pipeline and after each pass; default `config.verify_each`.
        observers: called with the `PassRecord` after each pass.
        compare: evaluate the program as it was and after each pass with the reference backend, on random inputs or
            `compare_inputs`, and raise PassError for the first pass that changes the numbers by more than rounding. A
            transformation makes another program: what comes after is compared with that.
    """

    def __init__(
        self,
        pipeline: str | Sequence[Pass],
        *,
        target: Any = None,
        donated: Sequence[int] = (),
        verify_each: bool | None = None,
        observers: Sequence[Callable[[PassRecord], None]] = (),
        compare: bool = False,
        compare_inputs: Sequence[Any] | None = None,
    ) -> None:
        self.passes = parse_pipeline(pipeline) if isinstance(pipeline, str) else tuple(pipeline)
        self.target = target
        self.donated = tuple(donated)
        self.verify_each = verify_each
        self.observers = tuple(observers)
        self.compare = compare
        self.compare_inputs = compare_inputs

    def __str__(self) -> str:
        return pipeline_to_str(self.passes)

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the programs after each pass: a pass's name, numbered where it occurs again."""
        seen: Counter[str] = Counter()
        names: list[str] = []
        for p in self.passes:
            seen[p.name] += 1
            names.append(p.name if seen[p.name] == 1 else f"{p.name}-{seen[p.name]}")
        return tuple(names)

    @collection_put_off()
    def run(self, program: ClosedJaxpr) -> ClosedJaxpr:
        """The program after every pass.

        Raises PassError, with the pass's text, where a pass fails or, if passes are compared, changes the numbers.
        """
        if self.observers or self.compare:
            return self.run_recorded(program).program
        check = config.options.verify_each if self.verify_each is None else self.verify_each
        if check:
            verify(program)
        for p in self.passes:
            program = self._apply(p, program, PassContext(self.target, self.donated), check)
        return program

    @collection_put_off()
    def run_recorded(self, program: ClosedJaxpr) -> PipelineResult:
        """The program after every pass, with what each did. Raises PassError as `run` does."""
        check = config.options.verify_each if self.verify_each is None else self.verify_each
        if check:
            verify(program)
        records: list[PassRecord] = []
        reference = program
        args, want, explain = self._expected(program, self.compare_inputs)
        for p, stage in zip(self.passes, self.stages):
            context = PassContext(self.target, self.donated, rewrites=[])
            start = time.perf_counter()
            after = self._apply(p, program, context, False)
            seconds = time.perf_counter() - start
            if check:
                checked(after, f"pass {p}")
            if not p.keeps_results:
                reference = after
                args, want, explain = self._expected(after, None)
            elif self.compare:
                difference = first_difference(want, evaluate(after, args), explain)
                if isinstance(difference, Difference):
                    line = where(source_of_result(after, difference.result))
                    raise PassError(f"pass {pass_to_str(p)} changes the numbers: {difference}{line}")
            record = PassRecord(
                pass_to_str(p), stage, seconds, program, after, context.counters, context.rewrites or ()
            )
            records.append(record)
            for observer in self.observers:
                observer(record)
            program = after
        return PipelineResult(program, tuple(records), reference)

    def _expected(
        self, program: ClosedJaxpr, given: Sequence[Any] | None
    ) -> tuple[Any, Any, Callable[[], Sequence[Any]]]:
        """Inputs of a program, its results, and what rounding may change of them; nothing unless passes are compared."""
        if not self.compare:
            return (), (), tuple
        args = random_inputs(program.in_avals) if given is None else given
        want = evaluate(program, args)
        return args, want, rounding_of(program, args, want)

    def _apply(self, p: Pass, program: ClosedJaxpr, context: PassContext, check: bool) -> ClosedJaxpr:
        try:
            after = p.apply(program, context)
        except QuireError:
            raise
        except Exception as error:
            raise PassError(f"pass {p} failed: {type(error).__name__}: {error}") from error
        return checked(after, f"pass {p}") if check else after


__all__ = ["Difference", "PassManager", "PassRecord", "PipelineResult"]
