"""The command line of the replay."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from quire.backends.iree.paths import cache_folder

from .comparing import Difference, counts, difference, shown
from .running import BrokenTreeError, Side, lower, names_of, side_of, tidy
from .store import chosen
from .trees import TreeError, snapshot

EPILOG = """\
examples:
  python -m quire.tools.replay HEAD                       what the changes that are not committed change
  python -m quire.tools.replay HEAD~3 HEAD --jobs 2
  python -m quire.tools.replay main --only 'applications/*' --show 'applications/transformer: training'
  python -m quire.tools.replay main ../other-checkout --target vulkan

Programs are lowered under both commits; nothing is compiled or run. Compared are, in this order, the optimized
jaxpr, the StableHLO module without kernels, and the kernels' text, all equal up to names: numbers of variables and values,
suffixes of symbols, places in files. The programs are those of the tool's own checkout. What a commit gives is kept in the
cache folder.

exit status: 0 equal; 1 different; 2 wrong use, or a commit whose quire cannot be imported.
"""
EQUAL, DIFFERENT, USAGE = range(3)
CUT_OFF = 141
TARGETS = ("cpu", "vulkan", "cuda")


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    p = argparse.ArgumentParser(
        prog="python -m quire.tools.replay", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Prove that a refactoring changes nothing: lower the same programs under two commits, compare the texts.",
    )  # fmt: skip
    p.add_argument("old", metavar="OLD", nargs="?", help="a git revision, or the folder of a checkout")
    p.add_argument("new", metavar="NEW", nargs="?", help="the same (default: the working tree)")
    p.add_argument("--only", metavar="PATTERN", nargs="+", action="extend", default=[],
                   help="only programs whose names match a pattern or contain it")  # fmt: skip
    p.add_argument("--show", metavar="NAME", nargs="+", action="extend", default=[],
                   help="show the differences of these programs (names or patterns), and lower no others")  # fmt: skip
    p.add_argument("--list", action="store_true", help="list the programs, and end")
    p.add_argument("--target", choices=TARGETS, default="cpu", help="lower for this target (default: cpu)")
    p.add_argument("--jobs", "-j", type=int, default=1, metavar="N", help="so many processes at once (default: 1)")
    p.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    p.add_argument("--fresh", action="store_true", help="lower everything anew, and keep nothing")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Run the replay; returns the exit status."""
    options = make_parser().parse_args(sys.argv[1:] if argv is None else list(argv))
    if options.jobs < 1:
        return _refused(f"--jobs {options.jobs}: expected 1 or more")
    if options.old is None and not options.list:
        return _refused("give the commit to compare with: a git revision or the folder of a checkout (see --help)")
    try:
        with tempfile.TemporaryDirectory(prefix="quire-replay-") as folder:
            kept = Path(folder) / "results" if options.fresh else cache_folder() / "replay"
            return _run(options, Path(folder), kept)
    except (TreeError, BrokenTreeError) as error:
        return _refused(str(error))
    except BrokenPipeError:  # `replay ... | head`: what it found is not known to anybody
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CUT_OFF
    except KeyboardInterrupt:
        return 130


def _refused(why: str) -> int:
    print(f"replay: {why}", file=sys.stderr)
    return USAGE


def _run(options: argparse.Namespace, folder: Path, kept: Path) -> int:
    only = [*options.only, *options.show]
    if options.list:
        listed = side_of(snapshot(options.old, folder / "old"), options.target, kept)
        print("\n".join(chosen(names_of(listed), only)))
        return EQUAL
    old = side_of(snapshot(options.old, folder / "old"), options.target, _own(kept, options.fresh, "old"))
    new = side_of(snapshot(options.new, folder / "new"), options.target, _own(kept, options.fresh, "new"))
    lower([old, new], only, options.jobs, lambda line: print(line, file=sys.stderr, flush=True))
    if not options.fresh:
        tidy(kept, [old, new])
    before, after = old.results(only), new.results(only)
    if not before and not after:
        return _refused(f"no program is named {' or '.join(only)}: see --list")
    results = {n: (before.get(n), after.get(n)) for n in {**after, **before}}
    found = [d for n, (a, b) in results.items() if (d := difference(a, b, n))]
    alike = sum(bool(a and b and a.error and a.error == b.error) for a, b in results.values())
    if options.json:
        print(json.dumps(_report(old, new, len(results), alike, found), indent=2))
    else:
        for d in found:
            print(d)
            if options.show:
                print("\n".join(shown(*results[d.name], (old.tree.name, new.tree.name))))
        print("\n".join(_summary(old, new, len(results), alike, found)))
    return DIFFERENT if found else EQUAL


def _own(kept: Path, fresh: bool, side: str) -> Path:
    """Where nothing is kept, a commit is lowered twice if it is compared with itself: this shows what is left to chance."""
    return kept / side if fresh else kept


def _summary(old: Side, new: Side, programs: int, alike: int, found: Sequence[Difference]) -> list[str]:
    where = ", ".join(f"{n} first in {stage}" for stage, n in counts(found).items())
    fail = f", of which {alike} fail alike under both" if alike else ""
    lines = [f"{programs} programs for {old.target}: {programs - len(found)} equal{fail}; {len(found)} differ"]
    lines[0] += f": {where}" if where else ""
    for side in (old, new):
        time = f"{side.seconds:.1f} s" if side.seconds else "kept from before"
        lines.append(f"  {side.tree.name} ({side.tree.digest[:12]}): {time}")
    return lines


def _report(old: Side, new: Side, programs: int, alike: int, found: Sequence[Difference]) -> dict[str, object]:
    return {
        "target": old.target, "programs": programs, "equal": programs - len(found), "fail_alike": alike,
        "old": {"name": old.tree.name, "digest": old.tree.digest, "seconds": round(old.seconds, 3)},
        "new": {"name": new.tree.name, "digest": new.tree.digest, "seconds": round(new.seconds, 3)},
        "first_in": counts(found),
        "differences": [
            {"name": d.name, "stages": d.stages, "removed": d.lines[0], "added": d.lines[1], "said": d.said}
            for d in found
        ],
    }  # fmt: skip
