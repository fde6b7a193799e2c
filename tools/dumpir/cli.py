"""The command line of dumpir."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .options import DEFAULT_STAGES, make_parser

if TYPE_CHECKING:
    from .inputs import Program
    from .show import Screen

FINE, WRONG, USAGE, DIFFERENT, COMPILER = range(5)


def main(argv: Sequence[str] | None = None) -> int:
    """Run dumpir; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    cut = words.index("--") if "--" in words else len(words)
    options = make_parser().parse_args(words[:cut])
    options.script_args = words[cut + 1 :]
    try:
        return _run(options)
    except BrokenPipeError:  # `dumpir ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if options.traceback:
            traceback.print_exc()
        return _report(error)


def _report(error: Exception) -> int:
    """Print an error as one message; the exit status that it means."""
    from quire.compiling.stage_texts import UnknownStageError
    from quire.ir.errors import (
        CompileError,
        MiscompiledError,
        ParseError,
        PassError,
        QuireError,
        UnsupportedError,
    )

    from .inputs import InputError, message_of

    text = str(error)
    status = WRONG
    if isinstance(error, InputError | UnknownStageError | _UsageError):
        status = USAGE
    elif isinstance(error, CompileError | UnsupportedError):
        status = COMPILER
    elif isinstance(error, MiscompiledError):
        status = DIFFERENT
    elif isinstance(error, PassError):
        status = DIFFERENT if "changes the numbers" in text else WRONG
    elif not isinstance(error, QuireError | ParseError | OSError):
        text = message_of(error)
    print(f"dumpir: {text}", file=sys.stderr)
    return status


class _UsageError(Exception):
    """dumpir was asked for something that there is not."""


def _run(options: argparse.Namespace) -> int:
    import quire
    from quire.backends.targets import registered_targets

    from .show import Screen

    if options.x64:
        quire.config.update("enable_x64", True)
    if options.target is not None and options.target not in registered_targets():
        raise _UsageError(f"no target is named {options.target!r}; the targets are {', '.join(registered_targets())}")
    screen = Screen(options.color)
    if options.list_passes or options.show_pipeline or options.list_targets or options.list_stages:
        _lists(options, screen)
        return FINE
    source = options.input
    if options.diff:
        return _difference(options, screen)
    if source is None:
        if sys.stdin.isatty():
            raise _UsageError("no input: give script.py, script.py:function, file.jaxpr or - (see --help)")
        source = "-"
    from .inputs import load

    _check_pipeline(options)
    if options.fits is not None:
        return _fits(source, options, screen)
    from .questions import asked

    if options.json and not (options.memory or options.why_recompiled or asked(options)):
        raise _UsageError(
            "--json is for answers: to --memory, --summary, --line, --name, --compare, --find-nan, --why-... or --diff A B"
        )
    if options.json and (
        (options.stage and not options.line) or options.diff is not None or options.timing or options.spmd
    ):
        raise _UsageError("--json prints answers only: leave out --stage, --diff, --timing and --spmd")
    if options.why_recompiled:
        from .recompiled import recompiled_answer

        answer = recompiled_answer(source, options.script_args)
        screen.line(
            json.dumps({"question": "why-recompiled", **answer.data}, indent=1)
            if options.json
            else "\n".join(answer.lines)
        )
        return answer.status
    programs = [_with_donated(p, options.donate) for p in load(source, options.args, options.script_args)]
    data: list[dict[str, Any]] = []
    for i, program in enumerate(programs):
        if i and options.output is None and not (options.json or options.summary):
            screen.line("// -----" if program.textual else "")
        data += _show(program, options, screen, several=len(programs) > 1)
    if options.json and (options.output is None or asked(options)):
        print(json.dumps(data, indent=1, default=str))
    return max((d.pop("status", FINE) for d in data), default=FINE)


def _fits(source: str, options: argparse.Namespace, screen: Screen) -> int:
    """``--fits SIZE``: the largest B in --args."""
    from .inputs import load
    from .memory import memory_of
    from .savings import fits_answer, total, with_batch

    def needed(n: int) -> int:
        (program,) = load(source, with_batch(options.args or (), n), options.script_args)
        program = _with_donated(program, options.donate)
        return total(memory_of(_stages(program, options), program.names, program.out_tree))

    answer = fits_answer(options.fits, needed)
    screen.line(json.dumps({"question": "fits", **answer.data}, indent=1) if options.json else "\n".join(answer.lines))
    return answer.status


def _difference(options: argparse.Namespace, screen: Screen) -> int:
    """``--diff A B``: of two programs, or two pipelines of one."""
    from quire.passes.manager import PassManager

    from .difference import diff_answer

    if len(options.diff) != 2:
        raise _UsageError(f"--diff takes nothing, or two names; got {' '.join(options.diff)}")

    def after(program: Program, pipeline: str) -> Any:
        from quire.backends.targets import get_target

        target = options.target or program.target or "cpu"
        text = _expanded(pipeline, target, program.closed)
        manager = PassManager(text, target=get_target(target), donated=program.donated)
        return manager.run(program.closed)

    answer = diff_answer(options.diff, options.input, options.args, after)
    if options.json:
        print(json.dumps([{"question": "diff", **answer.data}], indent=1, default=str))
    else:
        screen.line("\n".join(answer.lines))
    return answer.status


def _with_donated(program: Program, donated: Sequence[int] | None) -> Program:
    if donated is None:
        return program
    count = len(program.closed.in_avals)
    for i in donated:
        if not 0 <= i < count:
            raise _UsageError(f"--donate {i}: {program.name} takes {count} argument(s), numbered from 0")
    return dataclasses.replace(program, donated=tuple(donated))


def _check_pipeline(options: argparse.Namespace) -> None:
    """An unknown pass is reported before a script runs."""
    if options.passes is not None:
        from quire.ir.errors import PassError
        from quire.passes import manager  # noqa: F401  (registers the passes)
        from quire.passes.base import parse_pipeline

        try:
            parse_pipeline(_expanded(options.passes, options.target or "cpu"))
        except PassError as error:
            raise _UsageError(str(error)) from None


def _pipeline(options: argparse.Namespace, target: str, program: Any) -> str:
    if options.passes is None:
        if program.pipeline is not None:
            return program.pipeline
        return "" if program.textual else _expanded("default", target, program.closed)
    return _expanded(options.passes, target, program.closed)


def _expanded(pipeline: str, target: str, closed: Any = None) -> str:
    """A pipeline in which ``default`` stands for the target's own passes for a program."""
    from quire.backends.targets import get_target
    from quire.compiling.lowering import pipeline_for
    from quire.passes.base import with_default

    own = get_target(target).pipeline
    own = own if closed is None else pipeline_for(closed, own)
    return with_default(pipeline, own)


def _stages(program, options: argparse.Namespace):  # noqa: ANN001, ANN202
    from quire.compiling.stage_texts import stages_of
    from quire.ir.printer import PrintOptions

    target = options.target or program.target or "cpu"
    limit = options.max_const if options.max_const is not None else None if program.textual else 1024
    return stages_of(
        program.closed, target, _pipeline(options, target, program), program.name, program.donated,
        keep_unused=program.keep_unused or program.textual,
        transformations=program.transformations,
        options=PrintOptions(source=options.source, width=options.width, max_const=limit),
        verify_each=not options.no_verify,
        compare_inputs=program.values,
        names=program.names,
        out_tree=program.out_tree,
        trace_seconds=program.trace_seconds,
    )  # fmt: skip


def _chosen(options: argparse.Namespace, stages, textual: bool) -> list[str]:  # noqa: ANN001
    """The stages to show, in the order given; groups are their members."""
    from quire.compiling.stage_texts import JAXPR, OPTIMIZED, STABLEHLO

    order = list(stages)
    traced = order.index(JAXPR)
    passes = order[traced + 1 : order.index(STABLEHLO)]
    if stages.keep_unused:  # what is lowered is what the last pass gave
        passes.remove(OPTIMIZED)
    groups = {
        "all": order, "transformations": order[:traced], "passes": [JAXPR, *passes],
        "iree": order[order.index(STABLEHLO) + 1 :],
    }  # fmt: skip
    if options.stage is None:
        if options.diff is not None:
            return groups["passes"]
        if options.output is not None and not textual:
            return order
        return ["optimized"] if textual else list(DEFAULT_STAGES)
    names = [name for item in options.stage for name in item.split(",") if name]
    return [stage for name in names for stage in groups.get(name, [name])]


def _show(program, options: argparse.Namespace, screen, *, several: bool) -> list[dict[str, Any]]:  # noqa: ANN001
    """Show one program; gives what --json prints of it."""
    from quire.ir.verifier import verify

    if not options.no_verify:
        verify(program.closed)
    from .questions import answers, asked

    stages = _stages(program, options)
    shown = (options.stage and not options.line) or options.diff is not None
    alone = asked(options) and (not options.output or options.reduce is not None)
    no_stages = not shown and (options.memory or options.spmd or alone)
    wanted = [] if no_stages else _chosen(options, stages, program.textual)
    chosen = [stages.resolve(s) for s in wanted]
    stages.share_names = len(chosen) > 1
    stages.prepare(chosen)
    folder = None
    if options.output is not None:
        folder = Path(options.output) / program.name if several else Path(options.output)
        from quire.watching.stage_files import write_stages

        for path in write_stages(stages, folder, chosen):
            print(path, file=sys.stderr)
    elif options.diff is not None:
        for before, after in zip(chosen, chosen[1:]):
            screen.diff(stages[before], stages[after], (f"{program.name}: {before}", f"{program.name}: {after}"))
    else:
        plain = program.textual and len(chosen) == 1
        for stage in chosen:
            text = stages[stage]
            if not plain:
                screen.heading(f"{program.name}: {stage} ({stages.target.name})")
            screen.code(text, stages.extension(stage))
    data: list[dict[str, Any]] = []
    for question, answer in answers(program, stages, options, several=several):
        data.append({"question": question, "program": program.name, "status": answer.status, **answer.data})
        if not options.json:
            if len(answer.lines) > 1:
                screen.heading(f"{program.name}: {question} ({stages.target.name})")
            screen.line("\n".join(answer.lines))
    if options.spmd:
        from .spmd import partitioned, text

        screen.heading(f"{program.name}: on each device of {options.spmd[0]}")
        screen.line(text(partitioned(program.closed, options.spmd), options.width))
    if options.timing:
        _timing(program, stages, screen)
    return [*data, *(_memory(program, stages, options, screen, folder) if options.memory else [])]


def _memory(program, stages, options: argparse.Namespace, screen, folder: Path | None) -> list[dict[str, Any]]:  # noqa: ANN001
    """What one call takes of memory: on the screen, or as a file with all steps."""
    from .memory import memory_of
    from .memory_text import memory_answer, text

    if folder is not None:
        memory = memory_of(stages, program.names, program.out_tree)
        path = folder / ("memory.json" if options.json else "memory.txt")
        path.write_text(
            json.dumps(memory.data(), indent=1) if options.json else text(memory, whole=True) + "\n", "utf-8"
        )
        print(path, file=sys.stderr)
        return [memory.data()]
    answer = memory_answer(stages, lambda numbers: _stages(dataclasses.replace(program, donated=numbers), options))
    if not options.json:
        screen.heading(f"{program.name}: memory ({stages.target.name})")
        screen.line("\n".join(answer.lines))
    return [answer.data]


def _timing(program, stages, screen) -> None:  # noqa: ANN001
    """The time of each pass and, of a program that is compiled, of its trace, lowering, IREE's phases and loading."""
    from quire.compiling.stage_texts import LOAD, PASSES, TRACE

    screen.heading(f"{stages.name}: time")
    if program.trace_seconds is not None:
        screen.line(f"trace: {program.trace_seconds * 1e3:.1f} ms")
    screen.line(stages.result.table())
    phases = {} if program.textual else stages.compile_all().phase_seconds
    own = {what: s for what, s in stages.seconds.items() if what not in (TRACE, PASSES)}
    for what, seconds in [*own.items(), *(("iree " + phase, s) for phase, s in phases.items())]:
        screen.line(f"{what}: {seconds * 1e3:.1f} ms")
    if not program.textual:
        try:
            stages.load()
            screen.line(f"{LOAD}: {stages.seconds[LOAD] * 1e3:.1f} ms")
        except RuntimeError as error:  # a program for a device that is not here
            screen.line(f"{LOAD}: not measured: {error}")


def _lists(options: argparse.Namespace, screen) -> None:  # noqa: ANN001
    from quire.backends.targets import registered_targets
    from quire.compiling.stage_texts import stages_of
    from quire.ir.parser import parse
    from quire.passes import manager  # noqa: F401  (registers the passes)
    from quire.passes.base import annotation_of, option_to_str, options_of, registered_passes

    target = options.target or "cpu"
    pipeline = _expanded(options.passes or "default", target)
    if options.list_passes:
        for name, cls in registered_passes().items():
            doc = (cls.__doc__ or "").strip().splitlines() or [""]
            screen.line(f"{name}: {doc[0]}")
            for option, f in options_of(cls).items():
                default = option_to_str(f.default) if f.default is not dataclasses.MISSING else "required"
                screen.line(f"    {option}: {annotation_of(f)} = {default}")
    if options.show_pipeline:
        screen.line(pipeline)
    if options.list_targets:
        rows = [("target", "IREE backend", "runs with")]
        rows += [
            (t.name, t.backend, ", ".join(t.drivers) or "nothing here: compiles only")
            for t in registered_targets().values()
        ]
        screen.table(rows)
    if options.list_stages:
        for stage in stages_of(parse("{ lambda ; . let in () }"), target, pipeline):
            screen.line(stage)
