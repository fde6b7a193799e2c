"""Compiles modules by IREE's own phases and by those of quire's worker, in a process of its own; prints what differs.

    python compile_both_ways.py WORKER_FOLDER LIBRARY FLAGS_JSON MODULE...

For each module a line of JSON: what of the VM's module is only in one of the two, and the steps that quire's took. The
order of functions and constants, and the names of constants and linked executables, do not count.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter

sys.path.insert(0, sys.argv[1])
import worker  # noqa: E402


def lines(compiler: worker.Compiler, invocation: worker.Invocation) -> Counter[str]:
    """The module's text as a bag of lines without names of values."""
    text = compiler.output(compiler.lib.ireeCompilerInvocationOutputIR, invocation.invocation).decode()
    for pattern, by in (
        (r'dense<"0x[^"]*"', "dense<"),
        (r"vector<\d+xi8>", "vector"),  # the binaries
        (r"%[\w#]+", "%"),
        (r"\^bb\d+", "^bb"),
        (r"@_const\w*", "@const"),
        (r"@?\w*_linked\w*|executable_0_\w+", "linked"),
        (r"%-?\d*_\d+|%-\d+", "%"),
    ):
        text = re.sub(pattern, by, text)
    kept = (line.strip() for line in text.split("\n"))
    return Counter(line for line in kept if line and "vm.const" not in line and "// " not in line)


def by_iree(compiler: worker.Compiler, module: bytes, flags: tuple[str, ...]) -> Counter[str]:
    """All phases as they are in IREE."""
    invocation = worker.Invocation(compiler, module, flags)
    assert invocation.parse() and invocation.run("vm"), invocation.diagnostics
    found = lines(compiler, invocation)
    invocation.close()
    return found


def by_quire(compiler: worker.Compiler, module: bytes, flags: tuple[str, ...]) -> tuple[Counter[str], list[str]]:
    """Those of the worker, and which pipelines of its own it ran."""
    names = {text: name for name, text in vars(worker.pipelines).items() if isinstance(text, str)}
    for name in ("COMMANDS", "DISPATCHES"):
        names.update((text, f"{name}[{key}]") for key, text in vars(worker.pipelines)[name].items())
    for aside in (True, False):
        invocation, steps = worker.Invocation(compiler, module, flags), list[str]()
        run = invocation.run_passes
        invocation.run_passes = lambda text, run=run, steps=steps: (steps.append(names[text]), run(text))[1]
        try:
            assert invocation.parse() and all(invocation.compile(aside)), invocation.diagnostics
        except worker.Missed:
            continue
        finally:
            found = lines(compiler, invocation)
            invocation.close()
        return found, steps if aside else ["missed", *steps]
    raise AssertionError("missed with all bodies in place")


def main() -> None:
    _, _, library, flags, *paths = sys.argv
    compiler = worker.Compiler(library)
    for path in paths:
        with open(path, "rb") as f:
            module = f.read()
        if not module.startswith(b"ML\xefR"):
            module += b"\0"
        own = by_iree(compiler, module, tuple(json.loads(flags)))
        ours, steps = by_quire(compiler, module, tuple(json.loads(flags)))
        print(
            json.dumps(
                {"iree": sorted((own - ours).elements()), "quire": sorted((ours - own).elements()), "steps": steps}
            )
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
