"""The questions that were asked on the command line, and who answers them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from quire.compiling.stage_texts import Stages, code_stage

from .answers import Answer
from .inputs import Program

OF_PROGRAMS = ("summary", "line", "name", "html", "why_not_fused", "why_kernel", "compare", "find_nan", "reduce")
"""The options that ask about one program, or each of several."""
SHOWN = ("stage", "timing", "spmd")
"""The options that show texts, which are not printed as JSON."""


def asked(options: argparse.Namespace) -> list[str]:
    """The questions about programs that were asked, by the options' names."""
    return [q for q in OF_PROGRAMS if getattr(options, q) not in (None, False)]


def answers(
    program: Program, stages: Stages, options: argparse.Namespace, *, several: bool
) -> Iterator[tuple[str, Answer]]:
    """The answer to each question that was asked about a program."""
    for q in asked(options):
        yield q.replace("_", "-"), _ANSWERS[q](program, stages, options, several)


def _summary(program: Program, stages: Stages, options: argparse.Namespace, several: bool) -> Answer:
    from .summary import one_line, summary

    return one_line(stages, program) if several else summary(stages, program)


def _line(program: Program, stages: Stages, options: argparse.Namespace, several: bool) -> Answer:
    from .inputs import InputError
    from .lines import line_answer

    wants = {stages.resolve(s) for item in options.stage or () for s in item.split(",") if s}
    try:
        return line_answer(stages, options.line, code=code_stage(stages.target) in wants)
    except InputError:
        if several:  # of a script's functions only some have the line
            return Answer([f"{program.name} has no equation of {options.line}"], {"line": options.line})
        raise


def _name(program: Program, stages: Stages, options: argparse.Namespace, several: bool) -> Answer:
    from .names import name_answer

    return name_answer(stages, program, options.name)


def _why_not_fused(program: Program, stages: Stages, options: argparse.Namespace, several: bool) -> Answer:
    from .why import why_not_fused

    return why_not_fused(stages, *options.why_not_fused)


def _why_kernel(program: Program, stages: Stages, options: argparse.Namespace, several: bool) -> Answer:
    from .why import why_kernel

    return why_kernel(stages, options.why_kernel)


def _compare(program: Program, stages: Stages, options: argparse.Namespace, several: bool) -> Answer:
    from .comparison import compare_answer

    return compare_answer(stages, program)


def _find_nan(program: Program, stages: Stages, options: argparse.Namespace, several: bool) -> Answer:
    from .nans import nan_answer

    return nan_answer(stages, program)


def _html(program: Program, stages: Stages, options: argparse.Namespace, several: bool) -> Answer:
    from pathlib import Path

    from .report import html_answer

    path = Path(options.html)
    spmd = ""
    if options.spmd:
        from .spmd import partitioned, text

        spmd = text(partitioned(program.closed, options.spmd), options.width)
    return html_answer(stages, program, path.with_stem(f"{path.stem}-{program.name}") if several else path, spmd)


def _reduce(program: Program, stages: Stages, options: argparse.Namespace, several: bool) -> Answer:
    from pathlib import Path

    from .reduce import reduce_answer

    folder = Path(options.output or ".")
    pipeline = stages.target.pipeline if program.textual and options.passes is None else stages.pipeline
    target = program.target if program.textual and options.target is None and program.target else stages.target.name
    return reduce_answer(
        program, target, pipeline, options.reduce or "", options.until, folder / program.name if several else folder
    )


_ANSWERS: dict[str, Callable[[Program, Stages, argparse.Namespace, bool], Answer]] = {
    "summary": _summary, "line": _line, "name": _name, "compare": _compare, "why_not_fused": _why_not_fused,
    "why_kernel": _why_kernel, "reduce": _reduce, "html": _html, "find_nan": _find_nan,
}  # fmt: skip
