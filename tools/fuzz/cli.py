"""The command: runs, reduces what is found, prints it."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from quire.backends.targets import CPU_PASSES
from quire.ir.environment import COMPILE_PROGRESS, CPU_PIPELINE, PLATFORM

from .program import Program
from .workers import SECONDS, Pool, Result, Task, together

if TYPE_CHECKING:
    from .running import Finding, Outcome

BATCH = 16
#: Of so many batches one is run in another process too; and of so many programs one is compiled alone.
AGAIN, ALONE = 12, 16
ROUND = 96
#: The fusion pass as it is for `--small-kernels`.
SMALL = "fuse{least-elements=1,least-attended=1,least-operations=1,least-moved=1,least-gathered=1,least-light=1}"
#: So many seconds a line tells how far a run has come.
TOLD_EACH = 60.0


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    p = argparse.ArgumentParser(
        prog="python -m quire.tools.fuzz",
        description="Run random programs compiled, by the reference backend and with JAX, and reduce what differs.",
        epilog="exit status: 0 nothing found; 1 an unexplained finding; 2 wrong use",
    )
    p.add_argument("--seed", type=int, default=0, help="the first program's number (default: 0)")
    p.add_argument("--count", type=int, help="how many programs (default: 300, or as many as --minutes allows)")
    p.add_argument("--minutes", type=float, help="stop after so long, reductions included")
    p.add_argument("--x64", action="store_true", default=None, help="all programs with 64-bit dtypes enabled "
                   "(default: one of six)")  # fmt: skip
    p.add_argument(
        "--jobs", type=int, default=min(os.cpu_count() or 1, 8), help="worker processes (default: one a core)"
    )
    p.add_argument("--references", action="store_true", help="loops and branches keep what they carry in references")
    p.add_argument("--family", metavar="NAME", help="half of all statements are of this family, such as stencils")
    p.add_argument("--special", action="store_true", help="NaN, infinities and zeros of both signs among the numbers")
    p.add_argument("--large", action="store_true", help="arrays of thousands of elements (best with --batch 4)")
    p.add_argument("--small-kernels", action="store_true",
                   help="kernels for arrays of any size, which the compiler forms for large ones only")  # fmt: skip
    p.add_argument("--host-loops", action="store_true",
                   help="loops are no kernels as a whole, but have such in each turn (best with --small-kernels)")  # fmt: skip
    p.add_argument("--platform", metavar="NAME", help="run on a device of this platform, such as vulkan; what it cannot "
                   "compute is counted (best with --batch 1)")  # fmt: skip
    p.add_argument("--no-jax", action="store_true", help="do not compare with JAX (default where it is not installed)")
    p.add_argument("--no-compile", action="store_true", help="only passes (evaluated by the reference) and lowering: "
                   "some hundred times as many programs")  # fmt: skip
    p.add_argument("--reduce", action=argparse.BooleanOptionalAction, default=True, help="make findings small")
    p.add_argument("--batch", type=int, default=BATCH, help=f"programs compiled together (default: {BATCH})")
    p.add_argument("-o", "--output", metavar="DIR", help="write each finding's script into this folder")
    p.add_argument("--show", action="store_true", help="print the program of --seed and end")
    return p


def _program(o: argparse.Namespace, seed: int) -> Program:
    """The program of a seed under these options."""
    from .generate import generate

    return generate(seed, o.x64, o.references, o.family, o.special, o.large)


@dataclass
class Fuzz:
    """One run of the command."""

    options: argparse.Namespace
    pool: Pool
    start: float
    deadline: float
    outcome: Outcome
    found: dict[str, list[Finding]] = field(default_factory=dict)
    small: dict[str, tuple[Program, ...]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    again: int = 0
    told: float = 0.0

    @property
    def jax(self) -> bool:
        return self.pool.jax

    def time_left(self) -> bool:
        return time.monotonic() < self.deadline

    def running_time_left(self) -> bool:
        """Whether to run further programs: a third of the time is for reductions, if there is something to reduce."""
        if self.deadline == float("inf"):
            return True
        reserved = (self.deadline - self.start) / 3 if self.found and self.options.reduce else 0.0
        return time.monotonic() < self.deadline - reserved

    def run(self) -> None:
        """Rounds of programs until there are enough, or the time is over."""
        first, last = self.options.seed, None if self.options.count is None else self.options.seed + self.options.count
        while self.running_time_left() and (last is None or first < last):
            stop = first + ROUND if last is None else min(first + ROUND, last)
            programs = [self._program(s) for s in range(first, stop)]
            alone = [p for p in programs if p.seed % ALONE == 0]
            batches = together([p for p in programs if p.seed % ALONE], self.options.batch)
            self._round([*((p,) for p in alone), *batches])
            first = stop
            self._tell_progress()

    def _program(self, seed: int) -> Program:
        return _program(self.options, seed)

    def _tell_progress(self) -> None:
        now = time.monotonic()
        if now > max(self.told, self.start) + TOLD_EACH:
            self.told = now
            print(f"{self.outcome.programs} programs in {now - self.start:.0f} s", file=sys.stderr, flush=True)

    def _round(self, batches: Sequence[tuple[Program, ...]]) -> None:
        waiting = [self._task(b) for b in reversed(batches)]
        while (waiting or self.pool.busy) and self.running_time_left():
            while waiting and self.pool.free:
                self.pool.give(waiting.pop())
            for result in self.pool.results(min(0.5, max(0.0, self.deadline - time.monotonic()))):
                waiting += self._take(result)

    def _task(self, programs: tuple[Program, ...], jax: bool | None = None) -> Task:
        return Task(programs, self.jax if jax is None else jax, compiled=not self.options.no_compile)

    def _take(self, result: Result) -> list[Task]:
        """Account for a result; the tasks that follow from it."""
        from .running import Finding

        task = result.task
        if result.fault:
            self.faults.append(result.fault)
            return []
        if result.ended:
            if len(task.programs) > 1:
                return [self._task((p,)) for p in task.programs]
            if task.jax:  # which library was it?
                return [Task(task.programs, False, compiled=task.compiled, crashed=True)]
            self.outcome.programs += 1
            self._keep(Finding("crashed", f"the process {result.ended}", task.programs))
            return []
        outcome: Outcome = result.outcome
        if task.tag is not None:
            if task.tag != outcome.digest:
                self._keep(Finding("process", "results differ between two processes", task.programs))
            return []
        outcome.oracle += task.crashed
        self.outcome.add(outcome)
        for finding in outcome.findings:
            self._keep(finding)
        self.again += 1
        if self.again % AGAIN == 0 and task.compiled and not outcome.findings:
            return [Task(task.programs, False, twice=False, tag=outcome.digest)]
        return []

    def _keep(self, finding: Finding) -> None:
        same = self.found.setdefault(finding.signature, [])
        same.append(finding)
        seeds = ",".join(str(p.seed) for p in finding.programs[:8])
        print(f"found (seed {seeds}) {finding.kind}: {finding.text}", flush=True)

    # -- reduction

    def reduce(self) -> None:
        """Make the first finding of each cause small."""
        self.pool.abandon()
        from .reduce import reduced

        for signature, findings in self.found.items():
            finding = findings[0]
            if not self.time_left():
                break

            def still(programs: tuple[Program, ...], finding: Finding = finding) -> bool:
                return self._still(programs, finding)

            if finding.kind != "process":
                self.small[signature] = reduced(finding.programs, still, self.deadline)

    def _still(self, programs: tuple[Program, ...], finding: Finding) -> bool:
        task = self._task(programs, self.jax and finding.kind in ("refused", "reference"))
        result = self.pool.run(task, min(self.deadline, time.monotonic() + SECONDS))
        if finding.kind == "crashed":
            return bool(result.ended)
        if result.outcome is None:
            return False
        found: list[Finding] = result.outcome.findings
        if finding.kind in ("refused", "failed"):
            return any(f.signature.removesuffix(" ") == finding.signature.removesuffix(" ") for f in found)
        return any(f.kind == finding.kind for f in found)

    # -- report

    def report(self, seconds: float) -> int:
        """Print the findings, and last a summary; the exit status."""
        from .script import script

        o = self.outcome
        for signature, findings in self.found.items():
            programs = self.small.get(signature, findings[0].programs)
            seeds = " ".join(str(f.programs[0].seed) for f in findings[:10])
            print(f"\n{findings[0].kind} ({len(findings)} times, seeds {seeds}): {findings[0].text}")
            for p in programs[:3]:
                lines = [*p.text().splitlines(), *(t.text() for t in p.stack), _arguments(p)]
                print("\n".join("    " + line for line in lines))
            if self.options.output:
                folder = Path(self.options.output)
                folder.mkdir(parents=True, exist_ok=True)
                path = folder / f"{findings[0].kind}-{findings[0].programs[0].seed}.py"
                path.write_text(script(programs, findings[0].text))
                print(f"    script: {path}")
        for fault in self.faults[:3]:
            print(f"\nfault of the fuzz itself:\n{fault}")
        kinds = Counter(f.kind for fs in self.found.values() for f in fs)
        total = sum(kinds.values())
        parts = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common()) or "none"
        print(
            f"\nfuzz: {o.programs} programs in {seconds:.0f} s (seed {self.options.seed}, JAX {'yes' if self.jax else 'no'}); "
            f"findings: {parts}" + (f" of {len(self.found)} causes" if total else "") + f"; explained by rounding: "
            f"{o.explained}; refused by both: {o.both_refuse}; only quire accepts: {o.accepted}"
            + (f"; not for this platform: {o.unsupported}" if o.unsupported else "")
            + (f"; JAX's compiler wrong: {o.oracle}" if o.oracle else "")
            + (f"; faults of the fuzz: {len(self.faults)}" if self.faults else "")
        )
        return 1 if total or self.faults else 0


def family_names() -> tuple[str, ...]:
    """What --family may be."""
    from .families import NAMES

    return NAMES


def _arguments(p: Program) -> str:
    return "; ".join(
        f"{a.name}: {a.aval[1]}{list(a.aval[0])} {a.kind} {a.seed}" + (" donated" if a.donated else "") for a in p.args
    ) + ("; x64" if p.x64 else "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the fuzz; returns the exit status."""
    os.environ.setdefault(COMPILE_PROGRESS.name, "0")  # a batch of programs takes longer than a user's
    parser = make_parser()
    options = parser.parse_args(argv)
    if options.family is not None and options.family not in family_names():
        parser.error(f"--family {options.family} is none of: {', '.join(family_names())}")
    if options.platform is not None:
        os.environ[PLATFORM.name] = options.platform
    if options.small_kernels or options.host_loops:  # the workers are processes of their own, and begin with it
        fuse = SMALL if options.small_kernels else "fuse{}"
        if options.host_loops:
            fuse = fuse.replace("{", "{whole-loops=false,").replace(",}", "}")
        os.environ[CPU_PIPELINE.name] = CPU_PASSES.replace("fuse", fuse)
    if options.show:
        from .script import script

        print(script([_program(options, options.seed)], f"program {options.seed}"))
        return 0
    if options.count is None and options.minutes is None:
        options.count = 300
    from .running import Outcome

    start = time.monotonic()
    jax = not options.no_jax and importlib.util.find_spec("jax") is not None
    deadline = start + options.minutes * 60 if options.minutes is not None else float("inf")
    pool = Pool(max(1, options.jobs), jax)
    fuzz = Fuzz(options, pool, start, deadline, Outcome())
    try:
        fuzz.run()
        if options.reduce:
            fuzz.reduce()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        pool.close()
    return fuzz.report(time.monotonic() - start)
