"""One compiled function on one screen: its program, what the passes and the kernels made of it, and what to type next.

`./tools/try` ends with it: ``python -m quire.tools.first_look FILE:FUNCTION --args TYPE...``.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from quire.compiling.stage_texts import Stages, stages_of
from quire.passes.rewriting import count_eqns

from .dumpir.inputs import trace_function

#: So many equations of the program as it was traced are shown: the first ones and the last ones.
EQUATIONS = 10
#: Lines are cut at so many characters.
WIDTH = 118
_INSTRUCTION = re.compile(r"^\t[a-z]", re.MULTILINE)
_STEP = re.compile(r"^\s*(?:\| )?(?:dispatch|copy|fill) ", re.MULTILINE)


def cut(line: str) -> str:
    """A line that fits the screen."""
    flat = " ".join(line.split())
    return flat if len(flat) <= WIDTH else flat[: WIDTH - 3] + "..."


def equations(text: str) -> list[str]:
    """The equations of a printed jaxpr, each on one line."""
    found: list[str] = []
    for line in text.splitlines()[1:]:
        if line.startswith("  in "):
            break
        if re.match(r"    [^\s\]}]", line):
            found.append(line)
        else:
            found[-1] += line
    return [cut(line) for line in found]


def lines_of(stages: Stages) -> list[str]:
    """The stages of a program, in some forty lines.

    Raises CompileError where the target's compiler fails.
    """
    program = stages.program
    texts = equations(stages["jaxpr"])
    shown = texts if len(texts) <= EQUATIONS + 1 else [
        *texts[: EQUATIONS - 3], f"... {len(texts) - EQUATIONS} more ...", *texts[-3:]
    ]  # fmt: skip
    lines = [f"1. traced: {count_eqns(program)} equations (--stage jaxpr)", *(f"     {t}" for t in shown)]
    records = stages.result.records
    busy = [r for r in records if any(r.counters.values()) or r.eqns_before != r.eqns_after]
    lines.append(f"2. optimized by {len(records)} passes, of which {len(busy)} changed something (--timing, --diff)")
    for r in busy:
        fired = ", ".join(f"{name} x{n}" if n > 1 else name for name, n in list(r.counters.items())[:3] if n)
        lines.append(f"     {r.text:<20} {r.eqns_before:>3} -> {r.eqns_after:<3} {cut(fired)}".rstrip())
    module = stages.lowered.module
    text = module.module.operation.get_asm()
    operations = sum(text.count(f" {dialect}.") for dialect in ("stablehlo", "flow", "chlo"))
    lines.append(
        f"3. StableHLO: {operations} operations; where there is a choice, the form and why (--stage stablehlo)"
    )
    lines += ["     " + cut(re.sub(r" at \S*/(\w+\.py)", r" at \1", str(c))) for c in module.choices]
    steps, code = len(_STEP.findall(stages["plan"])), len(_INSTRUCTION.findall(stages["code"]))
    lines.append(f"4. compiled by IREE: a plan of {steps} steps (--stage plan), {code} instructions (--stage code)")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Print the stages of a function, and what to type next."""
    parser = argparse.ArgumentParser(prog="first_look", description=__doc__)
    parser.add_argument("function", metavar="FILE:FUNCTION")
    parser.add_argument("--args", nargs="+", default=[], metavar="TYPE")
    options = parser.parse_args(argv)
    path, _, function = options.function.rpartition(":")
    program = trace_function(path, function, options.args)
    stages = stages_of(program.closed, program.target or "cpu", name=program.name, donated=program.donated)
    print(f"{options.function}, stage by stage:")
    print("\n".join(lines_of(stages)))
    given = " ".join(f"'{a}'" for a in options.args)
    dumpir = ".venv/bin/dumpir"
    print(
        f"\nNext:\n"
        f"  {dumpir} {options.function} --args {given} --stage optimized\n"
        f"  {dumpir} {options.function} --args {given} --compare  # equal numbers?\n"
        f"  {dumpir} --help; ./tools/test; docs/tutorial/coming-from-jax.md; docs/tutorial/one-function.md"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
