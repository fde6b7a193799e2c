"""The command line of dumpir: its options, grouped by the question that they answer."""

from __future__ import annotations

import argparse

EPILOG = """\
input:
  script.py            run the script and show every function that it compiles (its own arguments after --)
  script.py:function   trace one function, for the types or values of --args
  file.jaxpr           read textual IR (several programs: separated by // ----- lines)
  file.mlir            read a module of StableHLO (file.mlirbc: its bytecode), as quire.from_stablehlo does
  folder               of a failed compile: its reproducer (for --reduce and --diff)
  -                    the same from standard input

examples:
  dumpir train.py --stage optimized                    what is lowered, of every compiled function
  dumpir model.py:loss --args 'f32[8,3]' 'i32[]'       jaxpr, optimized program and StableHLO of one function
  dumpir model.py:loss --args "{'w': f32[3], 'b': 0.5}" 'x=np.ones((8, 3))' --stage stablehlo
  dumpir model.py:loss --args 'f32[8]' --summary       passes, kernels, what fell back, time and memory, on one screen
  dumpir model.py:loss --args 'f32[8]' --line model.py:47    what became of a line, down to its kernels
  dumpir model.py:loss --args 'f32[8]' --diff          what each pass changes
  dumpir model.py:loss --args 'f32[8]' --stage all -o out    a file a stage, down to the assembly
  dumpir model.py:loss --args 'f32[8]' --target vulkan --stage spirv
  dumpir model.py:step --args 'f32[8]' --memory        which step holds how much memory, and what is held at the peak
  dumpir model.py:step --args 'f32[8,4]' 'f32[4,4]' --spmd x=4 "P('x')"    each device's program, and what it sends
  dumpir test.jaxpr --passes 'simplify,cse,dce'        parse, verify, run a pipeline, print
  dumpir test.jaxpr --passes 'jvp{wrt=0},vmap{size=8}' the derivative, for eight lanes
  dumpir model.py:loss --args 'f32[8]' --compare       are passes and compiled program right? where not?
  dumpir model.py:loss --args 'f32[8]' --reduce --until wrong    the smallest program that is still compiled wrongly
  cat test.jaxpr | dumpir - --passes default --compare the same of textual IR
  dumpir --list-passes; dumpir --show-pipeline --target cuda; dumpir --list-stages

stages: jaxpr; each pass by its name (the second run of one as name-2); optimized (what is lowered: after the last
pass, without the arguments that it does not use); stablehlo;
IREE's phases; plan (memory and order); assembly, ptx or spirv (code: any of them). Groups: transformations
(what grad, vmap, ... did while the program was traced), passes, iree, all.

exit status: 0 fine; 1 the program is wrong (parse, verification, trace or pass error, the script failed);
2 wrong use of dumpir; 3 --compare found a difference, --find-nan a NaN or infinity; 4 the target's compiler failed.
"""

DEFAULT_STAGES = ("jaxpr", "optimized", "stablehlo")


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    p = argparse.ArgumentParser(
        prog="dumpir",
        description="Show every stage of a compiled program: read, check, transform and compare jaxprs; and answer "
        "questions about them, each on one screen (--json: as data).",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("input", nargs="?", help="script.py, script.py:function, file.jaxpr, file.mlir or -")
    _programs(p.add_argument_group("which program"))
    _stages(p.add_argument_group("what does each stage look like?"))
    _became(p.add_argument_group("what did my program become?"))
    _why(p.add_argument_group("why?"))
    _right(p.add_argument_group("is it right?"))
    _takes(p.add_argument_group("what does it take?"))
    _lists(p.add_argument_group("what is there?"))
    return p


def _programs(p: argparse._ArgumentGroup) -> None:
    p.add_argument("--args", nargs="+", metavar="ARG", help="the function's arguments: types (f32[8,3]) or "
                   "expressions; name=ARG for a keyword")  # fmt: skip
    p.add_argument("--passes", "-p", metavar="PIPELINE", help="passes to run; 'default' stands for the target's "
                   "own; textual IR has none by default")  # fmt: skip
    p.add_argument("--target", "-t", help="compile for this target (default: the function's device, or cpu)")
    p.add_argument("--donate", nargs="+", type=int, metavar="N", help="the numbers of the arguments whose memory the "
                   "program may use (default: those that the function gives away; none of textual IR)")  # fmt: skip
    p.add_argument("--x64", action="store_true", help="enable 64-bit dtypes")


def _stages(p: argparse._ArgumentGroup) -> None:
    p.add_argument(
        "--stage",
        "-s",
        nargs="+",
        action="extend",
        metavar="STAGE",
        help="stages to show, also separated "
        f"by commas (default: {' '.join(DEFAULT_STAGES)}; for textual IR the result of --passes)",
    )
    p.add_argument("--diff", "-d", nargs="*", metavar="PROGRAM", help="show the difference between successive stages "
                   "(default: of all passes); with two names the differences between two programs (script.py:function, "
                   "file.jaxpr, a folder of -o) or two pipelines of one, equations matched by structure")  # fmt: skip
    p.add_argument("-o", "--output", metavar="DIR", help="write a file for each stage, in a folder for each function")
    p.add_argument("--source", action="store_true", help="show the user's line of each equation")
    p.add_argument("--width", type=int, default=100, metavar="N", help="width of the lines of jaxprs (default: 100)")
    p.add_argument("--max-const", type=int, default=None, metavar="N", help="leave out constants with more elements "
                   "(default: 1024; textual IR: none)")  # fmt: skip
    p.add_argument("--no-verify", action="store_true", help="do not verify the program around each pass")
    p.add_argument("--color", choices=("auto", "always", "never"), default="auto",
                   help="colours (default: on a terminal)")  # fmt: skip
    p.add_argument("--traceback", action="store_true", help="show the whole traceback of an error")
    p.add_argument(
        "--json", action="store_true", help="print the answers to questions as JSON, a list of all programs'"
    )


def _became(p: argparse._ArgumentGroup) -> None:
    p.add_argument("--summary", action="store_true", help="passes with the rules that fired, kernels by kind with their "
                   "work and reason, what fell back and why, compile time as it runs, temporary memory; of a script a line "
                   "for each function")  # fmt: skip
    p.add_argument("--line", metavar="FILE:N", help="what a line became at every stage, down to kernels and plan "
                   "(with --stage code: and their code)")  # fmt: skip
    p.add_argument("--name", metavar="PATH", help="the same of an argument (params['w']) or a result (result[0])")
    p.add_argument("--html", metavar="FILE", help="write all of it as one page, without network: the program by frames, "
                   "its stages beside the source, each equation's lineage, kernels, rewrites, memory, compile time")  # fmt: skip


def _why(p: argparse._ArgumentGroup) -> None:
    p.add_argument("--why-not-fused", nargs=2, metavar=("A", "B"), help="why two equations are not one kernel; each is "
                   "named by its line (model.py:47), or line and primitive (model.py:47:exp)")  # fmt: skip
    p.add_argument("--why-kernel", metavar="WHAT", nargs="?", const="", help="why equations are kernels of quire's own, "
                   "or none: of a kernel's kind or name, a line, or all")  # fmt: skip
    p.add_argument("--why-recompiled", action="store_true", help="run the script and say of each function that was "
                   "compiled several times what differed")  # fmt: skip


def _right(p: argparse._ArgumentGroup) -> None:
    p.add_argument("--compare", action="store_true", help="run the program as it was traced, after each pass, through "
                   "IREE without and with kernels, twice, with one worker and several, on the values of --args or random "
                   "ones; check derivatives and batching rule by rule; say that all are equal within rounding, or the first "
                   "stage, pass, rule and equation that changes the numbers (no stages are shown unless named)")  # fmt: skip
    p.add_argument("--find-nan", action="store_true", help="where the first NaN or infinity is made for the values of "
                   "--args (or random ones): equation, line and turns of loops, by the reference backend or by the "
                   "compiled program alone")  # fmt: skip
    p.add_argument("--reduce", metavar="COMMAND", nargs="?", const="", help="make the program as small as it can be while "
                   "COMMAND succeeds ({} stands for the file, .jaxpr), or while --until says so; writes reduced.jaxpr and "
                   "reduced.py into the folder of -o, or here")  # fmt: skip
    p.add_argument("--until", metavar="WHAT", help="for --reduce: wrong (compiled numbers differ from the reference's), crash "
                   "(the compiler fails), or a text that the error holds")  # fmt: skip


def _takes(p: argparse._ArgumentGroup) -> None:
    p.add_argument("--timing", action="store_true", help="show time and number of equations of each pass, and the time "
                   "of the trace, of lowering, of each phase of IREE and of loading (of a function or script)")  # fmt: skip
    p.add_argument("--memory", action="store_true", help="show what one call takes of memory: totals, what is held while "
                   "each step runs, what is held at the peak and which of your lines made it, and what became of donated "
                   "arguments; no code is made (no stages are shown unless named; -o writes all steps to memory.txt)")  # fmt: skip
    p.add_argument("--fits", metavar="SIZE", help="the largest B in --args ('f32[B,784]' 'i32[B]') with which a call takes at "
                   "most SIZE (4GB), from plans alone (no stages are shown unless named)")  # fmt: skip
    p.add_argument("--spmd", nargs="+", metavar="WORD", help="show the program of each device of a mesh (x=4,y=2) for a "
                   "spec (P('x', None)) of each argument, P() for those not named; and each of its collectives with its "
                   "cost and reason (no stages are shown unless named)")  # fmt: skip


def _lists(p: argparse._ArgumentGroup) -> None:
    p.add_argument("--list-stages", action="store_true", help="list the stages and end")
    p.add_argument("--show-pipeline", action="store_true", help="show the target's default pipeline and end")
    p.add_argument("--list-passes", action="store_true", help="list the passes with their options and end")
    p.add_argument("--list-targets", action="store_true", help="list the targets and end")
