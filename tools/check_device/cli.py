"""Try a device: is every function of the table right on it, and how fast is what matters most?

  python -m quire.tools.check_device cuda                        all, then the measures; a report on the screen
  python -m quire.tools.check_device vulkan --small -o lavapipe.md    a software driver: small measures
  python -m quire.tools.check_device cuda --compile-only         without a device: does every function compile?
  python -m quire.tools.check_device vulkan --only det 'grad of attention'

Each function runs in a process of its own. The exit status is 0 where all are right (or refused by an UnsupportedError),
1 where some are not, 2 where there is no device.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import quire

from .functions import Outcome
from .measures import libraries, measures
from .report import functions_table, measures_table
from .running import function_outcome, measure_outcome
from .surface import surface


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    options = _options(argv)
    kind = "none: compiled only"
    if not options.compile_only:
        try:
            kind = quire.devices(options.target)[0].device_kind
        except (RuntimeError, ValueError) as error:
            print(f"{error}\nWithout a device: --compile-only tells which functions compile for {options.target}.",
                  file=sys.stderr)  # fmt: skip
            return 2
    table = surface(quire)
    unknown = [name for name in options.only if name not in table]
    if unknown:
        print(f"no function is named {', '.join(map(repr, unknown))}; there are {', '.join(table)}", file=sys.stderr)
        return 2
    outcomes = _outcomes(options.only or list(table), options)
    parts = [_head(options.target, kind), functions_table(outcomes)]
    if not (options.compile_only or options.no_measures):
        found = []
        for name, measure in measures(options.small).items():
            _progress(f"measure: {name}")
            found.append(
                (measure, [measure_outcome(name, options.target, library, options.small, options.limit)
                           for library in libraries(options.target)])
            )  # fmt: skip
        parts.append(measures_table(found, kind))
    text = "\n\n".join(parts) + "\n"
    if options.output:
        Path(options.output).write_text(text)
    print(text)
    return 0 if all(o.passed for o in outcomes) else 1


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m quire.tools.check_device", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", choices=["cuda", "vulkan", "cpu"], help="what is tried")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these functions alone")
    parser.add_argument("--compile-only", action="store_true", help="compile for the target, run nothing")
    parser.add_argument("--no-measures", action="store_true", help="the functions alone")
    parser.add_argument("--small", action="store_true", help="measure small arrays, for software drivers")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds that a function or a measure may take")
    parser.add_argument("-o", "--output", help="write the report to this file, too")
    return parser.parse_args(argv)


def _outcomes(names: Sequence[str], options: argparse.Namespace) -> list[Outcome]:
    found: list[Outcome] = []
    for i, name in enumerate(names):
        outcome = function_outcome(name, options.target, options.limit, compile_only=options.compile_only)
        found.append(outcome)
        _progress(f"{i + 1}/{len(names)} {name}: {outcome.status}{'' if outcome.passed else ' ' + outcome.detail}")
    return found


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _head(target: str, kind: str) -> str:
    return (
        f"# {target}: {kind}\n\n{time.strftime('%Y-%m-%d')}, quire {version('quire')}, IREE {version('iree-base-compiler')}, "
        f"{platform.system()} {platform.machine()}."
    )
