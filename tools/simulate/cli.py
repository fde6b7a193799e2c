"""The command line of the simulator."""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from quire.ir.sharding import AbstractMesh, PartitionSpec, axes_of
from quire.passes.partition import partition
from quire.tools.dumpir.inputs import InputError, trace_function
from quire.tools.dumpir.spmd import parse_spec

from . import plot
from .machines import PRESETS, Machine, link_of, machines
from .steps import Step, step

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 10000)
_WIDTHS = (8, 10, 10, 10, 8, 6, 9, 12)
_TYPE = re.compile(r"\s*(\w+)\[([\d,\s]*)\]\s*")


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(
        prog="python -m quire.tools.simulate",
        description="The time of a step of a partitioned program on a described machine, for many numbers of devices.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python -m quire.tools.simulate train.py:step --args 'f32[784,512]' 'f32[256,784]' "
        "--mesh 'data=*' --specs 'P()' \"P('data')\" --machine h100",
    )
    p.add_argument("program", metavar="FILE.py:FUNCTION")
    p.add_argument(
        "--args", nargs="*", help="the arguments' types, f32[8,3], or Python expressions, as dumpir takes them"
    )
    p.add_argument(
        "--mesh",
        default="data=*",
        help="axes and sizes, the major one first; * for the one that grows (data=*,model=4)",
    )
    p.add_argument("--specs", nargs="*", default=[], help="how each argument is divided, P('data'); P() for the rest")
    p.add_argument(
        "--outs", nargs="*", default=[], help="how each result is divided; as suits the program for the rest"
    )
    p.add_argument("--machine", default="h100", help="a name of the file of machines")
    p.add_argument("--machines", type=Path, default=PRESETS, help="a file of machines (machines.toml)")
    p.add_argument(
        "--link", action="append", default=[], metavar="AXIS=LATENCY,BYTES", help="what joins devices along an axis"
    )
    p.add_argument("--devices", help="numbers of devices, 1,2,4 (by default up to 10000)")
    p.add_argument(
        "--weak", action="store_true", help="what the growing axis divides grows with it: as much for each device"
    )
    p.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the times: .svg, or what matplotlib writes where it is there"
    )
    return p


def _mesh(text: str) -> list[tuple[str, int]]:
    """Axes and sizes; 0 for the one that grows. Raises InputError for other text."""
    out: list[tuple[str, int]] = []
    for item in text.split(","):
        name, _, size = item.partition("=")
        if not name.strip() or not (size.strip() == "*" or size.strip().isdigit() and int(size) > 0):
            raise InputError(f"--mesh: expected axes such as data=*,model=4, got {text!r}")
        out.append((name.strip(), 0 if size.strip() == "*" else int(size)))
    if sum(n == 0 for _, n in out) != 1:
        raise InputError(f"--mesh: expected one axis of size *, which grows with the devices, got {text!r}")
    return out


def _grown(args: Sequence[str], specs: Sequence[PartitionSpec | None], axis: str, k: int) -> list[str]:
    """The types of arguments whose dimensions along the axis are k times as large. Raises InputError for expressions."""
    out: list[str] = []
    for i, text in enumerate(args):
        found = _TYPE.fullmatch(text)
        if found is None:
            raise InputError(f"--weak: arguments must be types such as f32[8,3], got {text!r}")
        dims = [int(n) for n in found[2].split(",") if n.strip()]
        spec = specs[i] if i < len(specs) else None
        for d, entry in enumerate(spec or ()):
            if axis in axes_of(entry):
                dims[d] *= k
        out.append(f"{found[1]}[{','.join(map(str, dims))}]")
    return out


def simulated(options: argparse.Namespace, machine: Machine) -> list[Step]:
    """A step for each number of devices. Raises InputError where the options do not fit the program."""
    path, _, function = options.program.rpartition(":")
    if not path:
        raise InputError(f"expected FILE.py:FUNCTION, got {options.program!r}")
    axes = _mesh(options.mesh)
    growing = next(a for a, n in axes if n == 0)
    fixed = 1
    for _, n in axes:
        fixed *= n or 1
    specs, outs = [parse_spec(s) for s in options.specs], [parse_spec(s) for s in options.outs]
    counts = [int(n) for n in options.devices.split(",")] if options.devices else [n for n in COUNTS if n >= fixed]
    found: list[Step] = []
    closed = None
    for count in counts:
        if count % fixed:
            raise InputError(f"--devices: {count} is no multiple of {fixed}, the other axes of --mesh")
        k = count // fixed
        if closed is None or options.weak:
            args = _grown(options.args or [], specs, growing, k) if options.weak else options.args
            closed = trace_function(path, function, args).closed
        ins = [*specs, *[PartitionSpec()] * (len(closed.in_avals) - len(specs))]
        wanted = [*outs, *[None] * (len(closed.out_avals) - len(outs))]
        mesh = AbstractMesh(tuple(n or k for _, n in axes), tuple(a for a, _ in axes))
        try:
            found.append(step(partition(closed, mesh, ins, wanted), machine))
        except ValueError as error:
            raise InputError(str(error)) from None
    return found


def table(steps: Sequence[Step], weak: bool) -> str:
    """The steps as a table: times in milliseconds, the gain against the first one, and how much of it could be."""
    names = zip(("devices", "step ms", "compute", "messages", "gain", "of it", "MB held", "MB received"), _WIDTHS)
    head = " ".join(f"{name:>{width}}" for name, width in names)
    lines = [head]
    first = steps[0]
    for s in steps:
        more = s.devices / first.devices
        gain = first.seconds / s.seconds * (more if weak else 1)
        lines.append(
            f"{s.devices:8d} {s.seconds * 1e3:10.3f} {s.compute * 1e3:10.3f} {s.communicate * 1e3:10.3f} "
            f"{gain:8.2f} {gain / more:6.0%} {s.held / 1e6:9.2f} {s.received / 1e6:12.3f}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        known = machines(options.machines)
        if options.machine not in known:
            raise InputError(
                f"--machine: expected one of {', '.join(known)} ({options.machines}), got {options.machine!r}"
            )
        machine = dataclasses.replace(known[options.machine], axes=dict(map(link_of, options.link)))
        steps = simulated(options, machine)
    except (InputError, ValueError, OSError) as error:
        print(f"simulate: {error}", file=sys.stderr)
        return 2
    print(f"{options.program} on {options.machine}: {machine.about}")
    print(table(steps, options.weak))
    if options.plot is not None:
        plot.draw(steps, f"{options.program} on {options.machine}", options.plot)
    return 0
