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

if TYPE_CHECKING:
    from .inputs import Program

EPILOG = """\
input:
  script.py            run the script and show every function that it compiles (its own arguments after --)
  script.py:function   trace one function, for the types or values of --args
  file.jaxpr           read textual IR (several programs: separated by // ----- lines)
  file.mlir            read a module of StableHLO (file.mlirbc: its bytecode), as quire.from_stablehlo does
  -                    the same from standard input

examples:
  dumpir train.py --stage optimized                    what is lowered, of every compiled function
  dumpir model.py:loss --args 'f32[8,3]' 'i32[]'       jaxpr, optimized program and StableHLO of one function
  dumpir model.py:loss --args "{'w': f32[3], 'b': 0.5}" 'x=np.ones((8, 3))' --stage stablehlo
  dumpir model.py:loss --args 'f32[8]' --diff          what each pass changes
  dumpir model.py:loss --args 'f32[8]' --stage all -o out    a file a stage, down to the assembly
  dumpir model.py:loss --args 'f32[8]' --target vulkan --stage spirv
  dumpir model.py:step --args 'f32[8]' --memory        which step holds how much memory, and what is held at the peak
  dumpir model.py:step --args 'f32[8,4]' 'f32[4,4]' --spmd x=4 "P('x')"    each device's program, and what it sends
  dumpir test.jaxpr --passes 'simplify,cse,dce'        parse, verify, run a pipeline, print
  dumpir test.jaxpr --passes 'jvp{wrt=0},vmap{size=8}' the derivative, for eight lanes
  dumpir model.py:loss --args 'f32[8]' --compare       are passes and compiled program right? where not?
  cat test.jaxpr | dumpir - --passes default --compare the same of textual IR
  dumpir --list-passes; dumpir --show-pipeline --target cuda; dumpir --list-stages

stages: jaxpr; each pass by its name (the second run of one as name-2); optimized (what is lowered: after the last
pass, without the arguments that it does not use); stablehlo;
IREE's phases; plan (memory and order); assembly, ptx or spirv (code: any of them). Groups: transformations
(what grad, vmap, ... did while the program was traced), passes, iree, all.

exit status: 0 fine; 1 the program is wrong (parse, verification, trace or pass error, the script failed);
2 wrong use of dumpir; 3 --compare found a difference; 4 the target's compiler failed.
"""

DEFAULT_STAGES = ("jaxpr", "optimized", "stablehlo")
FINE, WRONG, USAGE, DIFFERENT, COMPILER = range(5)


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    p = argparse.ArgumentParser(
        prog="dumpir",
        description="Show every stage of a compiled program: read, check, transform and compare jaxprs.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("input", nargs="?", help="script.py, script.py:function, file.jaxpr, file.mlir or -")
    p.add_argument("--args", nargs="+", metavar="ARG", help="the function's arguments: types (f32[8,3]) or "
                   "expressions; name=ARG for a keyword")  # fmt: skip
    p.add_argument(
        "--stage",
        "-s",
        nargs="+",
        action="extend",
        metavar="STAGE",
        help="stages to show, also separated "
        f"by commas (default: {' '.join(DEFAULT_STAGES)}; for textual IR the result of --passes)",
    )
    p.add_argument("--passes", "-p", metavar="PIPELINE", help="passes to run; 'default' stands for the target's "
                   "own; textual IR has none by default")  # fmt: skip
    p.add_argument("--target", "-t", help="compile for this target (default: the function's device, or cpu)")
    p.add_argument("--donate", nargs="+", type=int, metavar="N", help="the numbers of the arguments whose memory the "
                   "program may use (default: those that the function gives away; none of textual IR)")  # fmt: skip
    p.add_argument("--diff", "-d", action="store_true", help="show the difference between successive stages "
                   "(default: of all passes)")  # fmt: skip
    p.add_argument("-o", "--output", metavar="DIR", help="write a file for each stage, in a folder for each function")
    p.add_argument("--source", action="store_true", help="show the user's line of each equation")
    p.add_argument("--timing", action="store_true", help="show time and number of equations of each pass, and the time "
                   "of the trace, of lowering, of each phase of IREE and of loading (of a function or script)")  # fmt: skip
    p.add_argument("--compare", action="store_true", help="run the program as it was traced, after each pass and "
                   "compiled, on the values of --args or random ones; say that all are equal within rounding, or which "
                   "pass, or lowering and IREE, changes which element first (no stages are shown unless named)")  # fmt: skip
    p.add_argument("--memory", action="store_true", help="show what one call takes of memory: totals, what is held while "
                   "each step runs, what is held at the peak and which of your lines made it, and what became of donated "
                   "arguments; no code is made (no stages are shown unless named; -o writes all steps to memory.txt)")  # fmt: skip
    p.add_argument("--spmd", nargs="+", metavar="WORD", help="show the program of each device of a mesh (x=4,y=2) for a "
                   "spec (P('x', None)) of each argument, P() for those not named; and each of its collectives with its "
                   "cost and reason (no stages are shown unless named)")  # fmt: skip
    p.add_argument("--json", action="store_true", help="with --memory: the same as JSON, a list of all programs")
    p.add_argument("--no-verify", action="store_true", help="do not verify the program around each pass")
    p.add_argument("--list-stages", action="store_true", help="list the stages and end")
    p.add_argument("--show-pipeline", action="store_true", help="show the target's default pipeline and end")
    p.add_argument("--list-passes", action="store_true", help="list the passes with their options and end")
    p.add_argument("--list-targets", action="store_true", help="list the targets and end")
    p.add_argument("--width", type=int, default=100, metavar="N", help="width of the lines of jaxprs (default: 100)")
    p.add_argument("--max-const", type=int, default=None, metavar="N", help="leave out constants with more elements "
                   "(default: 1024; textual IR: none)")  # fmt: skip
    p.add_argument("--x64", action="store_true", help="enable 64-bit dtypes")
    p.add_argument("--color", choices=("auto", "always", "never"), default="auto",
                   help="colours (default: on a terminal)")  # fmt: skip
    p.add_argument("--traceback", action="store_true", help="show the whole traceback of an error")
    return p


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

    from .inputs import InputError

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
        line = _user_line(error)
        text = f"{type(error).__name__}: {text}" + (f"\n  at {line}" if line and line not in text else "")
    print(f"dumpir: {text}", file=sys.stderr)
    return status


def _user_line(error: Exception) -> str:
    """The innermost line of the user's in an exception's traceback."""
    from quire.ir.source import is_internal

    found = ""
    tb = error.__traceback__
    here = os.path.dirname(os.path.abspath(__file__))
    while tb is not None:
        code = tb.tb_frame.f_code
        own = code.co_filename.startswith((here, "<")) or is_internal(code)
        if not own and "importlib" not in code.co_filename and "runpy" not in code.co_filename:
            found = f"{code.co_filename}:{tb.tb_lineno}"
        tb = tb.tb_next
    return found


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
    if source is None:
        if sys.stdin.isatty():
            raise _UsageError("no input: give script.py, script.py:function, file.jaxpr or - (see --help)")
        source = "-"
    from .inputs import load

    _check_pipeline(options)
    if options.json and not options.memory:
        raise _UsageError("--json is for --memory")
    if options.json and (options.stage or options.diff or options.timing or options.compare or options.spmd):
        raise _UsageError(
            "--json prints nothing but --memory: leave out --stage, --diff, --timing, --compare and --spmd"
        )
    programs = [_with_donated(p, options.donate) for p in load(source, options.args, options.script_args)]
    data: list[dict[str, Any]] = []
    for i, program in enumerate(programs):
        if i and options.output is None and not options.json:
            screen.line("// -----" if program.textual else "")
        data += _show(program, options, screen, several=len(programs) > 1)
    if options.json and options.output is None:
        print(json.dumps(data, indent=1))
    return FINE


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
        compare=options.compare,
        compare_inputs=program.values,
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
        if options.diff:
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
    stages = _stages(program, options)
    shown = options.stage or options.diff
    no_stages = not shown and (options.memory or options.spmd or (options.compare and not options.output))
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
    elif options.diff:
        for before, after in zip(chosen, chosen[1:]):
            screen.diff(stages[before], stages[after], (f"{program.name}: {before}", f"{program.name}: {after}"))
    else:
        plain = program.textual and len(chosen) == 1
        for stage in chosen:
            text = stages[stage]
            if not plain:
                screen.heading(f"{program.name}: {stage} ({stages.target.name})")
            screen.code(text, stages.extension(stage))
    if options.compare:
        screen.line(f"{program.name}: {stages.compare_compiled()}")
    if options.spmd:
        from .spmd import partitioned, text

        screen.heading(f"{program.name}: on each device of {options.spmd[0]}")
        screen.line(text(partitioned(program.closed, options.spmd), options.width))
    if options.timing:
        _timing(program, stages, screen)
    return _memory(program, stages, options, screen, folder) if options.memory else []


def _memory(program, stages, options: argparse.Namespace, screen, folder: Path | None) -> list[dict[str, Any]]:  # noqa: ANN001
    """What one call takes of memory: on the screen, or as a file with all steps."""
    from .memory import memory_of
    from .memory_text import text

    memory = memory_of(stages, program.names, program.out_tree)
    if folder is not None:
        path = folder / ("memory.json" if options.json else "memory.txt")
        path.write_text(
            json.dumps(memory.data(), indent=1) if options.json else text(memory, whole=True) + "\n", "utf-8"
        )
        print(path, file=sys.stderr)
    elif not options.json:
        screen.heading(f"{program.name}: memory ({stages.target.name})")
        screen.line(text(memory))
    return [memory.data()]


def _timing(program, stages, screen) -> None:  # noqa: ANN001
    """The time of each pass and, of a program that is compiled, of its trace, lowering, IREE's phases and loading."""
    from quire.compiling.stage_texts import LOAD

    screen.heading(f"{stages.name}: time")
    if program.trace_seconds is not None:
        screen.line(f"trace: {program.trace_seconds * 1e3:.1f} ms")
    screen.line(stages.result.table())
    phases = {} if program.textual else stages.compile_all().phase_seconds
    for what, seconds in [*stages.seconds.items(), *(("iree " + phase, s) for phase, s in phases.items())]:
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
